//! The machine against bytes that a server could send.

use super::*;

/// A block with a status of the static table.
const OK: &[u8] = &[0x88];

fn frame_of(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write_head(payload.len(), kind, flags, stream, &mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn received(http2: &mut Http2, bytes: &[u8]) -> (Vec<Answer>, Vec<u8>) {
    let (mut answers, mut out) = (Vec::new(), Vec::new());
    http2.receive(bytes, Ticks(0), &mut out, &mut answers).unwrap();
    (answers, out)
}

fn kinds_of(mut bytes: &[u8]) -> Vec<(u8, u8, u32, usize)> {
    let mut kinds = Vec::new();
    while let Some(frame) = frame::read(bytes).unwrap() {
        kinds.push((frame.kind, frame.flags, frame.stream, frame.payload.len()));
        bytes = &bytes[frame::HEAD_BYTES + frame.payload.len()..];
    }
    assert!(bytes.is_empty());
    kinds
}

fn asked(streams: usize, count: usize) -> Http2 {
    let mut http2 = Http2::new(streams, true);
    (0..count).for_each(|_| {
        http2.request(b"\x82", b"", true, &mut Vec::new());
    });
    http2
}

#[test]
fn answers_come_whole_in_any_order_and_in_pieces() {
    let mut http2 = asked(3, 3);
    assert!(http2.room() == 0);
    let mut bytes = frame_of(frame::SETTINGS, 0, 0, &[]);
    bytes.extend(frame_of(frame::HEADERS, frame::END_HEADERS, 5, OK));
    bytes.extend(frame_of(frame::HEADERS, frame::END_HEADERS | frame::END_STREAM, 3, b"\x8d"));
    bytes.extend(frame_of(frame::DATA, frame::END_STREAM, 5, b"body"));
    let mut answers = Vec::new();
    for byte in &bytes {
        answers.extend(received(&mut http2, &[*byte]).0);
    }
    let told: Vec<_> = answers.iter().map(|answer| (answer.stream, answer.status)).collect();
    assert_eq!(told, [(3, Ok(404)), (5, Ok(200))]);
    assert_eq!(answers[1].captured.as_ref().unwrap().body, b"body");
    assert_eq!(answers[1].captured.as_ref().unwrap().head, b"HTTP/2 200\r\n");
    assert!(http2.room() > 0);
}

#[test]
fn interim_answers_and_trailers_are_passed_over() {
    let mut http2 = asked(1, 1);
    let interim = [&b"\x08\x03"[..], b"103"].concat();
    let mut bytes = frame_of(frame::HEADERS, frame::END_HEADERS, 1, &interim);
    bytes.extend(frame_of(frame::HEADERS, 0, 1, OK));
    let timing = [&b"\x00\x0dserver-timing\x07"[..], b"a;dur=1"].concat();
    bytes.extend(frame_of(frame::CONTINUATION, frame::END_HEADERS, 1, &timing));
    let flags = frame::END_HEADERS | frame::END_STREAM;
    bytes.extend(frame_of(frame::HEADERS, flags, 1, b"\x00\x01t\x01v"));
    let (answers, _) = received(&mut http2, &bytes);
    assert_eq!((answers.len(), answers[0].status), (1, Ok(200)));
    assert_eq!(answers[0].timing.as_ref().unwrap().timing, b"a;dur=1");
}

#[test]
fn a_body_waits_for_the_windows_of_the_server() {
    let mut http2 = Http2::new(2, false);
    let mut out = Vec::new();
    assert_eq!(http2.room(), 0, "nothing is known of the server yet");
    received(&mut http2, &frame_of(frame::SETTINGS, 0, 0, &[]));
    assert_eq!(http2.room(), 2);
    http2.request(b"\x83", &vec![7; 100_000], false, &mut out);
    let sent: usize = kinds_of(&out).iter().filter(|f| f.0 == frame::DATA).map(|f| f.3).sum();
    assert_eq!(sent, 65_535);
    let more = |stream| frame_of(frame::WINDOW_UPDATE, 0, stream, &[0, 1, 0, 0]);
    assert_eq!(received(&mut http2, &more(0)).1, [0_u8; 0], "the stream's own window is used up");
    let (_, rest) = received(&mut http2, &more(1));
    let last = *kinds_of(&rest).last().unwrap();
    assert_eq!((last.0, last.1), (frame::DATA, frame::END_STREAM));
    let all: usize = kinds_of(&rest).iter().map(|f| f.3).sum();
    assert_eq!(sent + all, 100_000);
}

#[test]
fn what_the_server_allows_is_kept() {
    let mut http2 = asked(50, 3);
    let streams = [0, 3, 0, 0, 0, 3];
    let (_, out) = received(&mut http2, &frame_of(frame::SETTINGS, 0, 0, &streams));
    assert_eq!(kinds_of(&out), [(frame::SETTINGS, frame::ACK, 0, 0)]);
    assert!(http2.room() == 0);
    let (_, out) = received(&mut http2, &frame_of(frame::PING, 0, 0, b"12345678"));
    assert_eq!(kinds_of(&out), [(frame::PING, frame::ACK, 0, 8)]);
}

#[test]
fn a_farewell_says_what_it_leaves_out_and_ends_with_the_rest() {
    let mut http2 = asked(3, 3);
    let goaway = frame_of(frame::GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]);
    let (answers, _) = received(&mut http2, &goaway);
    assert_eq!((answers.len(), answers[0].stream), (1, 5));
    received(&mut http2, &frame_of(frame::SETTINGS, 0, 0, &[]));
    assert!(matches!(answers[0].status, Err(Unanswered::LeftOut(_))));
    assert!(http2.room() == 0 && !http2.is_over());
    let reset = frame_of(frame::RST_STREAM, 0, 1, &[0, 0, 0, 7]);
    let (answers, _) = received(&mut http2, &reset);
    assert!(matches!(answers[0].status, Err(Unanswered::LeftOut(why)) if why.contains("REFUSED")));
    http2.cancel(3, &mut Vec::new());
    assert!(http2.is_over());
}

#[test]
fn what_no_server_may_send_is_refused() {
    let cases = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        frame_of(frame::DATA, 0, 1, b"before the head"),
        frame_of(frame::CONTINUATION, 0, 1, OK),
        frame_of(frame::HEADERS, frame::END_HEADERS, 1, b"\x00\x01a\x01b"),
        frame_of(frame::HEADERS, frame::END_HEADERS | 8, 1, b"\x09"),
        frame_of(frame::HEADERS, frame::END_HEADERS, 1, b"\xff\xff\xff"),
        frame_of(frame::PUSH_PROMISE, 0, 1, b"\x00\x00\x00\x02"),
        frame_of(frame::GOAWAY, 0, 0, b""),
        [frame_of(frame::HEADERS, 0, 1, OK), frame_of(frame::PING, 0, 0, b"12345678")].concat(),
    ];
    for bytes in cases {
        let mut http2 = asked(1, 1);
        let outcome = http2.receive(&bytes, Ticks(0), &mut Vec::new(), &mut Vec::new());
        assert!(outcome.is_err(), "{bytes:?}");
    }
}

proptest::proptest! {
    /// Whatever comes, nothing panics, and memory stays within a few frames.
    #[test]
    fn any_bytes_are_survived(
        pieces in proptest::collection::vec((0_u8..12, proptest::prelude::any::<u8>(), 0_u32..8,
            proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)), 0..40),
    ) {
        let mut http2 = asked(3, 3);
        for (kind, flags, stream, payload) in pieces {
            let bytes = frame_of(kind, flags, stream, &payload);
            if http2.receive(&bytes, Ticks(0), &mut Vec::new(), &mut Vec::new()).is_err() {
                break;
            }
        }
        proptest::prop_assert!(http2.partial.len() + http2.block.len() < 1 << 17);
    }
}

/// It never read, and had us hold gigabytes of replies within seconds.
#[test]
fn a_server_that_takes_no_replies_is_left() {
    let ping = frame_of(frame::PING, 0, 0, &[7; PING_BYTES]);
    let settings = frame_of(frame::SETTINGS, 0, 0, &[]);
    for flood in [ping.repeat(100), settings.repeat(100)] {
        let (mut http2, mut out, mut answers) = (asked(1, 1), Vec::new(), Vec::new());
        let mut take = |out: &mut Vec<u8>| http2.receive(&flood, Ticks(0), out, &mut answers);
        // Who takes them may have any number.
        for _ in 0..10_000 {
            assert_eq!(take(&mut out), Ok(()));
            out.clear();
        }
        let refused = (0..10_000).find_map(|_| take(&mut out).err());
        assert_eq!(refused, Some(Malformed::Flooded));
        assert!(out.len() <= REPLY_BYTES_MAX, "{}", out.len());
    }
    let long = frame_of(frame::PING, 0, 0, &[0; PING_BYTES + 1]);
    let (mut out, mut answers) = (Vec::new(), Vec::new());
    let taken = asked(1, 1).receive(&long, Ticks(0), &mut out, &mut answers);
    assert_eq!(taken, Err(Malformed::Frame));
}
