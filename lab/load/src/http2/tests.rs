//! Connections against the bytes that a server could send.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::*;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// A header block with `:status: 200` of the static table.
const OK: &[u8] = &[0x88];

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    let head = [&length.to_be_bytes()[1..], &[kind, flags, 0, 0, 0, stream]].concat();
    [&head, payload].concat()
}

/// A connection, and the server's end of it.
struct Pair {
    http2: Http2,
    server: UnixStream,
}

impl Pair {
    /// A connection with `count` requests in flight, on as many streams.
    fn asked(count: usize) -> Pair {
        let (ours, server) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        server.set_nonblocking(true).unwrap();
        let socket = Socket::Plain(TcpStream::from(OwnedFd::from(ours)));
        let http2 = Http2::begin(socket, Clock::system(), count, true).unwrap();
        let mut pair = Pair { http2, server };
        assert_eq!(pair.http2.room(), 0, "nothing is known of the server yet");
        pair.received(&frame(SETTINGS, 0, 0, &[])).unwrap();
        for _ in 0..count {
            let request = Request::get("http://h/").body(()).unwrap();
            pair.http2.request(request, Bytes::new(), true).unwrap();
        }
        pair.received(&[]).unwrap();
        pair
    }

    fn received(&mut self, bytes: &[u8]) -> Result<Vec<Answer>, DisconnectReason> {
        self.server.write_all(bytes).unwrap();
        let mut answers = Vec::new();
        self.http2.note_readable(false);
        self.http2.turn(&mut answers).map(|()| answers)
    }
}

/// Makes a connection refuse every further request, as one whose stream numbers are used up: it has
/// room until it is asked.
pub(crate) fn use_up(http2: &mut Http2) {
    let mut other = Pair::asked(1);
    other.received(&frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0])).unwrap();
    http2.requests = other.http2.requests.clone();
}

#[test]
fn answers_come_whole_in_any_order_and_in_pieces() {
    let mut pair = Pair::asked(3);
    assert_eq!(pair.http2.room(), 0);
    let bytes = [
        frame(HEADERS, END_HEADERS, 5, OK),
        frame(HEADERS, END_HEADERS | END_STREAM, 3, b"\x8d"),
        frame(DATA, END_STREAM, 5, b"body"),
    ];
    let mut answers = Vec::new();
    for byte in bytes.concat() {
        answers.extend(pair.received(&[byte]).unwrap());
    }
    let statuses: Vec<_> =
        answers.iter().map(|a| (a.stream, *a.status.as_ref().unwrap())).collect();
    assert_eq!(statuses, [(3, 404), (5, 200)]);
    let captured = answers[1].captured.as_ref().unwrap();
    assert_eq!((&captured.head[..], &captured.body[..]), (&b"HTTP/2 200\r\n"[..], &b"body"[..]));
    assert_eq!(pair.http2.room(), 2);
}

#[test]
fn interim_answers_and_trailers_are_skipped() {
    let mut pair = Pair::asked(1);
    let interim = [&b"\x08\x03"[..], b"103"].concat();
    let timing = [&b"\x00\x0dserver-timing\x07"[..], b"a;dur=1"].concat();
    let bytes = [
        frame(HEADERS, END_HEADERS, 1, &interim),
        frame(HEADERS, 0, 1, OK),
        frame(CONTINUATION, END_HEADERS, 1, &timing),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x00\x01t\x01v"),
    ];
    let answers = pair.received(&bytes.concat()).unwrap();
    assert_eq!((answers.len(), *answers[0].status.as_ref().unwrap()), (1, 200));
    assert_eq!(answers[0].timing.as_ref().unwrap().timing, b"a;dur=1");
}

#[test]
fn a_goaway_refuses_later_requests_and_lets_the_others_end() {
    let mut pair = Pair::asked(3);
    let goaway = frame(GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]);
    let answers = pair.received(&goaway).unwrap();
    assert_eq!((answers.len(), answers[0].stream), (1, 5));
    assert!(matches!(answers[0].status, Err(StreamFailure::LeftOut(_))));
    assert_eq!(pair.http2.room(), 0);
    let answers = pair.received(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 7])).unwrap();
    assert!(
        matches!(answers[0].status, Err(StreamFailure::LeftOut(why)) if why.contains("REFUSED"))
    );
    pair.http2.cancel(3);
    assert!(matches!(pair.received(&[]), Err(DisconnectReason::Ended)));
}

#[test]
fn frames_that_no_server_may_send_are_refused() {
    let cases = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        frame(CONTINUATION, 0, 1, OK),
        frame(HEADERS, END_HEADERS | 8, 1, b"\x09"),
        frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff"),
        frame(PUSH_PROMISE, END_HEADERS, 1, b"\x00\x00\x00\x02"),
        frame(GOAWAY, 0, 0, b""),
        frame(PING, 0, 0, b"123456789"),
        [frame(HEADERS, 0, 1, OK), frame(PING, 0, 0, b"12345678")].concat(),
    ];
    for bytes in cases {
        let outcome = Pair::asked(1).received(&bytes);
        assert!(matches!(outcome, Err(DisconnectReason::Malformed(_))), "{bytes:?}");
    }
}

#[test]
fn an_endless_head_is_refused_and_takes_no_memory() {
    let mut pair = Pair::asked(1);
    let header = [&b"\x00\x01a\x7f\x81\x1f"[..], &[b'v'; 4_096]].concat();
    let mut sent_bytes = frame(HEADERS, 0, 1, OK).len();
    let mut outcome = pair.received(&frame(HEADERS, 0, 1, OK));
    while matches!(&outcome, Ok(answers) if answers.is_empty()) && sent_bytes < 16 << 20 {
        let piece = frame(CONTINUATION, 0, 1, &header);
        sent_bytes += piece.len();
        outcome = pair.received(&piece);
    }
    assert!(sent_bytes < 1 << 20, "{sent_bytes} bytes of a head were taken");
}

/// Replies to a server that takes none are held back with everything that it sends.
#[test]
fn a_server_that_takes_no_replies_is_read_no_further() {
    let ping = frame(PING, 0, 0, &[7; 8]).repeat(1_000);
    let settings = frame(SETTINGS, 0, 0, &[]).repeat(1_000);
    for flood in [ping, settings] {
        let mut pair = Pair::asked(1);
        let (mut sent_bytes, mut idle) = (0, 0);
        while idle < 3 && sent_bytes < 64 << 20 {
            match pair.server.write(&flood[sent_bytes % flood.len()..]) {
                Ok(count) => (sent_bytes, idle) = (sent_bytes + count, 0),
                Err(_) => idle += 1,
            }
            if pair.received(&[]).is_err() {
                break;
            }
        }
        assert!(sent_bytes < 8 << 20, "{sent_bytes} bytes were taken");
        // A server that reads again gets the replies.
        let mut replies = vec![0; 1 << 20];
        assert!(pair.server.read(&mut replies).unwrap() > 0);
    }
}

proptest::proptest! {
    #[test]
    fn any_frames_are_survived(
        frames in proptest::collection::vec((0_u8..12, proptest::prelude::any::<u8>(), 0_u8..8,
            proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)), 0..40),
    ) {
        let mut pair = Pair::asked(3);
        for (kind, flags, stream, payload) in frames {
            if pair.received(&frame(kind, flags, stream, &payload)).is_err() {
                break;
            }
        }
    }
}
