//! `GET /v0/entities`: the entries of a range, their order, their format and their snapshot.

use crate::common::{Answer, Client, TestServer, encode, entity, request, serve, serve_with};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const NDJSON: (&str, &str) = ("Accept", "application/x-ndjson");

fn range(client: &mut Client, query: &str) -> Answer {
    client.get(&format!("/v0/entities?{query}"))
}

fn text(client: &mut Client, query: &str) -> String {
    let answer = range(client, query);
    assert_eq!(answer.status, 200, "{query}");
    assert_eq!(answer.header("Transfer-Encoding"), Some("chunked"));
    answer.text().to_owned()
}

fn letters() -> (TestServer, Client) {
    let (running, mut client) = serve();
    for key in ["d", "b", "a", "c", "ab"] {
        client.put(&entity(key), key.to_uppercase());
    }
    (running, client)
}

#[test]
fn a_range_is_every_entry_from_start_to_before_end_in_byte_order_limited_or_in_reverse() {
    let (_running, mut client) = letters();
    for (query, expected) in [
        ("start=a", "a\nAab\nABb\nBc\nCd\nD"),
        ("start=a&end=c", "a\nAab\nABb\nB"),
        ("start=aa&end=b", "ab\nAB"),
        ("start=b&end=b%00", "b\nB"),
        ("start=%01&end=%ff", "a\nAab\nABb\nBc\nCd\nD"),
        ("start=d", "d\nD"),
        ("start=e", ""),
        ("start=b&end=b", ""),
        ("start=c&end=a", ""),
        ("start=0&end=9", ""),
        ("start=a&limit=2", "a\nAab\nAB"),
        ("start=a&limit=0", ""),
        ("start=a&limit=99", "a\nAab\nABb\nBc\nCd\nD"),
        ("start=a&reverse", "d\nDc\nCb\nBab\nABa\nA"),
        ("start=a&reverse=true&limit=2", "d\nDc\nC"),
        ("start=ab&end=d&reverse=true", "c\nCb\nBab\nAB"),
        ("start=ab&end=d&reverse=1&limit=1", "c\nC"),
        ("start=a&reverse=false&limit=1", "a\nA"),
        ("start=c&end=a&reverse=true", ""),
    ] {
        assert_eq!(text(&mut client, query), expected, "{query}");
    }
}

#[test]
fn an_invalid_range_is_400() {
    let (_running, mut client) = letters();
    for query in [
        "", "start", "start=", "end=a", "start=&end=a", "start=a&end=", "start=a&end",
        "start=a&start=b", "start=a&limit=-1", "start=a&limit=x", "start=a&limit=",
        "start=a&reverse=maybe", "start=%", "start=a&end=%zz",
    ] {
        let answer = range(&mut client, query);
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.text().contains('`'), "{query}: the parameter is named");
    }
    assert_eq!(client.get("/v0/entities").status, 400);
}

/// Regression: `ack` and `from` of ranges were ignored.
#[test]
fn ack_and_from_are_those_of_a_single_read() {
    let (_running, mut client) = letters();
    assert_eq!(text(&mut client, "start=d&ack=1&from=1"), "d\nD");
    for copies in ["ack=1", "from=1", "ack=0&from=1", "ack=2&from=1", "ack=x&from=1"] {
        assert_eq!(range(&mut client, &format!("start=d&{copies}")).status, 400, "{copies}");
    }
    let two = range(&mut client, "start=d&ack=2&from=2");
    assert!(two.status == 400 && two.text().contains("one copy"), "{}", two.text());
}

#[test]
fn framed_output_preserves_entries_with_any_bytes() {
    let (_running, mut client) = serve();
    let entries: [(&[u8], &[u8]); 4] =
        [(b"\n", b"\n\n"), (b"a\nb", b""), (b"a\nb\n", &[0, 255, 10]), (b"\xff", &[7; 100_000])];
    let mut etags = Vec::new();
    for (key, value) in entries {
        etags.push(client.put(&entity(key), value).etag());
    }
    for accept in [NDJSON, ("accept", "text/html, application/x-ndjson;q=0.9")] {
        let answer = client.call("GET", "/v0/entities?start=%00", &[accept], b"");
        let lines = answer.lines();
        assert_eq!(lines.len(), entries.len());
        for ((line, (key, value)), etag) in lines.iter().zip(entries).zip(&etags) {
            let field = |name: &str| STANDARD.decode(line[name].as_str().unwrap()).unwrap();
            assert_eq!((field("key"), field("value")), (key.to_vec(), value.to_vec()));
            assert_eq!(line["etag"].as_str().unwrap(), etag);
        }
    }
    let target = format!("/v0/entities?start={}&end={}", encode(b"a\nb"), encode(b"a\nb\n"));
    assert_eq!(client.get(&target).text(), "a\nb\n");
}

/// Regression: a line had no expiry, so entries copied by a range never expired.
#[test]
fn a_line_says_when_its_entry_expires() {
    let (_running, mut client) = serve();
    let now_ms = || {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
        u64::try_from(since.as_millis()).unwrap()
    };
    let before_ms = now_ms();
    assert_eq!(client.put(&format!("{}&ttl=600", entity("a")), "x").status, 201);
    assert_eq!(client.put(&entity("b"), "y").status, 201);
    let after_ms = now_ms();
    let answer = client.call("GET", "/v0/entities?start=a", &[NDJSON], b"");
    let lines = answer.lines();
    let expires_at_ms = lines[0]["expires_at_ms"].as_u64().unwrap();
    // The server reads the system's clock periodically, and never goes back when that is set back.
    let expected_ms = before_ms + 599_000..=after_ms + 601_000;
    assert!(expected_ms.contains(&expires_at_ms), "{}", lines[0]);
    assert_eq!(lines[1].get("expires_at_ms"), None);
}

#[test]
fn deleted_entries_are_in_no_range() {
    let (_running, mut client) = letters();
    client.call("DELETE", &entity("b"), &[], b"");
    client.put(&entity("c"), "new");
    assert_eq!(text(&mut client, "start=ab&end=d"), "ab\nABc\nnew");
    assert_eq!(text(&mut client, "start=ab&end=d&reverse"), "c\nnewab\nAB");
    assert_eq!(text(&mut client, "start=b&end=c"), "");
}

/// Regression: an HTTP/1.0 proxy, which also sends `Host`, got chunks and took them for the value.
#[test]
fn a_client_of_http_1_0_is_sent_no_chunks() {
    let (running, _) = letters();
    for headers in ["Host: a\r\n", "Host: a\r\nConnection: keep-alive\r\n", ""] {
        let text = format!("GET /v0/entities?start=c HTTP/1.0\r\n{headers}\r\n");
        let mut client = running.sent(text.as_bytes());
        let head = client.try_head().unwrap();
        assert_eq!(head.header("Transfer-Encoding"), None, "{headers:?}");
        assert_eq!(head.header("Connection"), Some("close"));
        assert_eq!(String::from_utf8(client.rest()).unwrap(), "c\nCd\nD");
    }
    let mut kept = running.client();
    for _ in 0..2 {
        kept.send(b"GET /v0/entity?id=c HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
        let answer = kept.answer();
        assert_eq!((answer.text(), answer.header("Connection")), ("C", Some("keep-alive")));
    }
}

fn fill(client: &mut Client, entries: usize, value: &[u8]) {
    for index in 0..entries {
        assert_eq!(client.put(&entity(format!("{index:04}")), value).status, 201);
    }
}

/// The range begins before the writes, and is far too long for the socket's buffer: the entries
/// that come after the writes are still those of its beginning.
#[test]
fn a_range_reads_one_snapshot_while_writes_go_on() {
    let (running, mut client) = serve();
    let value = vec![b'o'; 100_000];
    fill(&mut client, 200, &value);
    let mut reader = running.sent(&request("GET", "/v0/entities?start=0", &[], b""));
    assert_eq!(reader.try_head().unwrap().status, 200);
    for index in 0..200 {
        let target = entity(format!("{index:04}"));
        let answer = match index % 3 {
            0 => client.call("DELETE", &target, &[], b""),
            1 => client.put(&target, "new"),
            _ => client.put(&format!("{target}x"), "between"),
        };
        assert!(answer.status < 300);
    }
    let mut body = Vec::new();
    while let Some(chunk) = reader.try_chunk().unwrap() {
        body.extend(chunk);
    }
    for (index, entry) in body.chunks(value.len() + 5).enumerate() {
        assert_eq!(entry[..5], *format!("{index:04}\n").as_bytes());
        assert!(entry[5..] == value, "the value of entry {index} is the old one");
    }
    assert_eq!(body.len(), 200 * (value.len() + 5));
}

/// With one event loop, a stream that blocked on a slow reader would block all other clients.
#[test]
fn a_slow_reader_blocks_nobody() {
    let (running, mut client) = serve_with(|options| options.threads = 1);
    fill(&mut client, 100, &[b'v'; 200_000]);
    let all = request("GET", "/v0/entities?start=0", &[], b"");
    let mut slow: Vec<Client> = (0..8).map(|_| running.sent(&all)).collect();
    for client in &mut slow {
        assert_eq!(client.try_head().unwrap().status, 200);
    }
    for _ in 0..100 {
        assert_eq!(client.get(&entity("0050")).body.len(), 200_000);
        assert_eq!(client.put(&entity("other"), "x").status, 201);
    }
    let mut bytes = 0;
    while let Some(chunk) = slow[0].try_chunk().unwrap() {
        bytes += chunk.len();
    }
    assert_eq!(bytes, 100 * 200_005, "the slow one still gets all of it");
}
