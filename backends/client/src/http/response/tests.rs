//! Tests of the parser on complete, split, malformed and random responses.

use proptest::prelude::*;

use super::*;

type Responses = Vec<(u16, bool, Vec<u8>)>;

/// Parses all responses in `stream`, in pieces that end at `cuts`.
fn parse_all(stream: &[u8], cuts: &[usize]) -> (Responses, Option<ResponseError>) {
    let mut parser = ResponseParser::new(true);
    let mut found = Vec::new();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (stream.len() + 1)).collect();
    cuts.push(stream.len());
    cuts.sort_unstable();
    let mut begin = 0;
    for cut in cuts {
        let mut piece = &stream[begin..cut];
        begin = cut;
        while !piece.is_empty() {
            match parser.parse(piece, false) {
                Ok(ParseOutcome::More) => break,
                Ok(ParseOutcome::Complete { consumed, response }) => {
                    let body = parser.captured().unwrap().body.clone();
                    parser.forget_captured();
                    found.push((response.status, response.keep_alive, body));
                    piece = &piece[consumed..];
                }
                Err(malformed) => return (found, Some(malformed)),
            }
        }
    }
    match parser.end() {
        Ok(Some(response)) => {
            let body = parser.captured().unwrap().body.clone();
            found.push((response.status, response.keep_alive, body));
            (found, None)
        }
        Ok(None) => (found, None),
        Err(malformed) => (found, Some(malformed)),
    }
}

fn one(stream: &[u8]) -> (u16, bool, Vec<u8>) {
    let (found, malformed) = parse_all(stream, &[]);
    assert_eq!((found.len(), malformed), (1, None), "{}", String::from_utf8_lossy(stream));
    found[0].clone()
}

fn refused(stream: &[u8]) -> ResponseError {
    parse_all(stream, &[]).1.expect("the stream is malformed")
}

#[test]
fn the_headers_determine_the_end_of_a_body() {
    let plain = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(one(plain), (200, true, b"hello".to_vec()));
    let empty = b"HTTP/1.1 404 Not Found\r\ncontent-length:0\r\n\r\n";
    assert_eq!(one(empty), (404, true, Vec::new()));
    let no_reason = b"HTTP/1.1 201\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(one(no_reason), (201, true, Vec::new()));
    let bare_line_feeds = b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok";
    assert_eq!(one(bare_line_feeds), (200, true, b"ok".to_vec()));
    assert_eq!(one(b"HTTP/1.1 204 No Content\r\n\r\n"), (204, true, Vec::new()));
    let not_modified = b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n";
    assert_eq!(one(not_modified), (304, true, Vec::new()));
    let until_close = b"HTTP/1.1 200 OK\r\n\r\nto the end";
    assert_eq!(one(until_close), (200, false, b"to the end".to_vec()));
}

#[test]
fn chunked_bodies_are_decoded() {
    let stream =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\nContent-Length: 3\r\n\r\n\
        5;name=value\r\nhello\r\n1\r\n!\r\n0\r\nX-Trailer: 1\r\n\r\n";
    assert_eq!(one(stream), (200, true, b"hello!".to_vec()));
    let unknown = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\nabc";
    assert_eq!(one(unknown), (200, false, b"abc".to_vec()));
}

#[test]
fn the_connection_header_decides_over_the_version() {
    let close = b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n";
    assert!(!one(close).1);
    let old = b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n";
    assert!(!one(old).1);
    // Regression: the last word decided, so a request was sent on a connection that was closing.
    let both = b"HTTP/1.1 200 OK\r\nConnection: close, keep-alive\r\nContent-Length: 0\r\n\r\n";
    assert!(!one(both).1);
    let old_alive = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n";
    assert!(one(old_alive).1);
}

#[test]
fn interim_responses_are_skipped() {
    let stream = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    assert_eq!(one(stream), (200, true, b"ok".to_vec()));
}

#[test]
fn an_answer_to_head_has_no_body() {
    let mut parser = ResponseParser::default();
    let stream = b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n";
    let parsed = parser.parse(stream, true).unwrap();
    let response = Response { status: 200, keep_alive: true };
    assert_eq!(parsed, ParseOutcome::Complete { consumed: stream.len(), response });
}

#[test]
fn malformed_responses_are_refused() {
    assert_eq!(refused(b"hello"), ResponseError::StatusLine);
    assert_eq!(refused(b"HTTP/2.0 200 OK\r\n\r\n"), ResponseError::StatusLine);
    assert_eq!(refused(b"HTTP/1.1 2x0 OK\r\n\r\n"), ResponseError::StatusLine);
    assert_eq!(refused(b"HTTP/1.1 2000 OK\r\n\r\n"), ResponseError::StatusLine);
    for value in ["", "-1", "5x", "18446744073709551616", "1\r\nContent-Length: 2"] {
        let stream = format!("HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n\r\n");
        assert_eq!(refused(stream.as_bytes()), ResponseError::ContentLength, "{value}");
    }
    for chunk in ["x\r\n", "\r\n", "11111111111111111\r\n", "1\r\nab"] {
        let stream = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
        assert_eq!(refused(stream.as_bytes()), ResponseError::Chunk, "{chunk}");
    }
    let truncated = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel";
    assert_eq!(refused(truncated), ResponseError::Truncated);
    assert_eq!(refused(b"HTTP/1.1 200 OK\r\n"), ResponseError::Truncated);
}

#[test]
fn an_endless_head_is_refused_in_bounded_memory() {
    let mut parser = ResponseParser::default();
    let mut outcome = parser.parse(b"HTTP/1.1 200 OK\r\n", false);
    let mut given = 0;
    while outcome == Ok(ParseOutcome::More) {
        assert!(given <= MAX_HEAD_BYTES + 1_000, "the head must end");
        outcome = parser.parse(&[b'a'; 1_000], false);
        given += 1_000;
    }
    assert_eq!(outcome, Err(ResponseError::HeadTooLong));
}

fn any_response() -> impl Strategy<Value = (u16, Vec<u8>, Vec<u8>)> {
    let body = prop::collection::vec(any::<u8>(), 0..200);
    (200_u16..600, body, any::<bool>(), 1_usize..50).prop_map(|(status, body, chunked, size)| {
        let bodiless = matches!(status, 204 | 304);
        let body = if bodiless { Vec::new() } else { body };
        let mut stream = format!("HTTP/1.1 {status} Any\r\nServer: test\r\n").into_bytes();
        if chunked && !bodiless {
            stream.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
            for chunk in body.chunks(size) {
                stream.extend_from_slice(format!("{:X}\r\n", chunk.len()).as_bytes());
                stream.extend_from_slice(chunk);
                stream.extend_from_slice(b"\r\n");
            }
            stream.extend_from_slice(b"0\r\n\r\n");
        } else {
            stream.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            stream.extend_from_slice(&body);
        }
        (status, body, stream)
    })
}

proptest! {
    #[test]
    fn any_split_reads_the_same(
        responses in prop::collection::vec(any_response(), 1..5),
        cuts in prop::collection::vec(any::<usize>(), 0..40),
    ) {
        let stream: Vec<u8> = responses.iter().flat_map(|(_, _, bytes)| bytes.clone()).collect();
        let expected: Vec<_> =
            responses.into_iter().map(|(status, body, _)| (status, true, body)).collect();
        let every_byte: Vec<usize> = (0..stream.len()).collect();
        prop_assert_eq!(parse_all(&stream, &cuts), (expected.clone(), None));
        prop_assert_eq!(parse_all(&stream, &every_byte), (expected, None));
    }

    #[test]
    fn random_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        cuts in prop::collection::vec(any::<usize>(), 0..10),
        begin in 0_usize..3,
    ) {
        let begins: [&[u8]; 3] = [
            b"",
            b"HTTP/1.1 200 OK\r\nConnection: ",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        ];
        let stream = [begins[begin], &bytes].concat();
        let whole = parse_all(&stream, &[]);
        // The result does not depend on the cuts.
        prop_assert_eq!(parse_all(&stream, &cuts), whole);
    }
}
