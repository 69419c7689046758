//! Tests of the protocols without a socket: bytes in, requests out, replies in, bytes out.

use std::sync::Arc;

use mio::{Poll, Token, Waker};
use pellucid_account::{Account, Accounting, Names, RequestFacts};
use pellucid_clock::{Clock, Ticks};

use crate::abort_reason::AbortReason;
use crate::accounts::{Accounts, TurnTimestamps};
use crate::body_source::{BodySource, FillResult, ServiceResult};
use crate::caller::Caller;
use crate::clients::Clients;
use crate::dispatch::Dispatcher;
use crate::h1::conn::{CloseMode, Conn as Http1, Stage};
use crate::h1::parse::{Head, parse};
use crate::h1::serve::Http1Handler;
use crate::h2::conn::Conn as Http2;
use crate::h2::serve::Http2Handler;
use crate::h2::upgrade::{PREFACE, SWITCHING, synthetic_headers};
use crate::limits::{HEADERS_MAX, Limits};
use crate::mailbox::{Admission, ConnectionId, Mailbox};
use crate::output::Output;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::response::Response;
use crate::service::{AdmissionContext, Exchange, Service};
use crate::shared_state::SharedState;

const NAMES: Names =
    Names { operations: &["echo"], outcomes: &["ok"], parts: &["nothing"], other_parts: &[] };

/// Answers with the method, the path and the body of each request.
struct Echo;

/// A body of two pieces.
struct Pieces(u8);

impl BodySource for Pieces {
    fn fill(&mut self, out: &mut Vec<u8>) -> FillResult {
        self.0 += 1;
        out.extend_from_slice(b"piece");
        if self.0 == 2 { FillResult::Last } else { FillResult::More }
    }
}

/// A body without an end.
struct Endless;

impl BodySource for Endless {
    fn fill(&mut self, out: &mut Vec<u8>) -> FillResult {
        out.extend_from_slice(&[b'x'; 64 * 1024]);
        FillResult::More
    }
}

impl Service for Echo {
    type LoopMessage = &'static str;

    fn body_bytes_max(&self, _method: &str, _path: &str, _query: Option<&str>) -> usize {
        100
    }

    fn admit(&mut self, head: &Head<'_, '_>, _: &AdmissionContext<'_, &'static str>) -> Admission {
        match head.path {
            "/judged" => Admission::Pending,
            "/forbidden" => Admission::Refused(Refusal::BodyTooLarge(0)),
            _ => Admission::Granted(None),
        }
    }

    fn handle(
        &mut self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        _exchange: &mut Exchange<'_, &'static str>,
    ) -> ServiceResult {
        match request.path {
            "/later" => return ServiceResult::Later,
            "/panic" => panic!("as the test has it"),
            "/pieces" => {
                response.status(200).finish_streamed(None);
                return ServiceResult::Stream(Box::new(Pieces(0)));
            }
            "/endless" => {
                response.status(200).finish_streamed(None);
                return ServiceResult::Stream(Box::new(Endless));
            }
            _ => {}
        }
        let Request { method, path, body, .. } = request;
        let text = format!("{method} {path} {}", String::from_utf8_lossy(body));
        response.status(200).finish(text.as_bytes());
        ServiceResult::Done
    }

    fn resume(
        &mut self,
        later: &'static str,
        response: &mut Response<'_>,
        _exchange: &mut Exchange<'_, &'static str>,
    ) -> ServiceResult {
        response.status(200).finish(later.as_bytes());
        ServiceResult::Done
    }

    fn outcome_of(&self, ending: AbortReason) -> u8 {
        1 + ending as u8
    }

    fn facts_of_refusal(&self, _refusal: &Refusal) -> RequestFacts {
        RequestFacts::default()
    }
}

/// The service and one of its callers.
struct TestFixture {
    dispatcher: Dispatcher<Echo>,
    caller: Caller,
    turn: TurnTimestamps,
    _poll: Poll,
}

impl TestFixture {
    fn new() -> TestFixture {
        let account = Account::new(Accounting::Full, Clock::system(), NAMES);
        let poll = Poll::new().unwrap();
        let waker = Waker::new(poll.registry(), Token(0)).unwrap();
        let shared = Arc::new(SharedState::new(account.clock(), Limits::default(), None, 1));
        let accounts = Accounts::new(0, shared, account.recorder());
        let dispatcher = Dispatcher::new(accounts, Echo, Arc::new(Mailbox::new(waker)));
        let seat =
            Clients::default().seat(Some([127, 0, 0, 1].into()), &Limits::default()).unwrap();
        let id = ConnectionId { slot: 0, generation: 0, stream: 0 };
        let (caller, now) = (Caller::new(id, 1, seat, false), account.clock().now());
        TestFixture { dispatcher, caller, turn: TurnTimestamps::at(now, now), _poll: poll }
    }

    /// Calls `run` for an HTTP/1.1 connection, and returns its output.
    fn http1(
        &mut self,
        conn: &mut Http1,
        run: impl FnOnce(&mut Http1Handler<'_, Echo>, &TurnTimestamps),
    ) -> String {
        let (mut output, mut out) = (Output::default(), Vec::new());
        let TestFixture { dispatcher, caller, turn, .. } = self;
        run(&mut Http1Handler::new(conn, caller, &mut output, dispatcher, &mut out), turn);
        String::from_utf8(out).unwrap()
    }

    /// Feeds bytes to an HTTP/1.1 connection. Returns its answers, and how many bytes it used.
    fn feed(&mut self, conn: &mut Http1, bytes: &[u8]) -> (String, usize) {
        let mut used = 0;
        let turn = self.turn;
        if !conn.is_settled() && !conn.settle(bytes, false, &turn) {
            return (String::new(), 0);
        }
        let text = self.http1(conn, |serving, turn| used = serving.answer_whole(bytes, turn));
        (text, used)
    }
}

/// The bodies of the responses in `text`, which all have a `Content-Length`.
fn bodies(text: &str) -> Vec<&str> {
    let mut bodies = Vec::new();
    let mut rest = text;
    while let Some((head, behind)) = rest.split_once("\r\n\r\n") {
        let length = head.split("Content-Length: ").nth(1).unwrap_or("0");
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        bodies.push(&behind[..length]);
        rest = &behind[length..];
    }
    bodies
}

#[test]
fn requests_of_one_read_are_answered_in_their_order() {
    let (mut room, mut conn) = (TestFixture::new(), Http1::default());
    let whole = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n\
                  PUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nxyz\
                  PUT /c HTTP/1.1\r\nHost: h\r\n\
                  Transfer-Encoding: chunked\r\n\r\n2\r\nuv\r\n0\r\n\r\n";
    let half = b"GET /d HTTP/1.1\r\nHo";
    let (text, used) = room.feed(&mut conn, &[&whole[..], half].concat());
    assert_eq!((bodies(&text), used), (vec!["GET /a ", "PUT /b xyz", "PUT /c uv"], whole.len()));
    assert!(conn.may_serve() && !conn.is_idle(), "half a request is here");
    let (text, _) = room.feed(&mut conn, b"GET /d HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(bodies(&text), ["GET /d "]);
    assert!(conn.is_idle());
}

#[test]
fn a_body_in_pieces_gets_100_continue_and_is_waited_for() {
    let (mut room, mut conn) = (TestFixture::new(), Http1::default());
    let head = b"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    let (text, used) = room.feed(&mut conn, head);
    assert_eq!((text.as_str(), used), ("HTTP/1.1 100 Continue\r\n\r\n", 0));
    let clock = Clock::system();
    conn.take_in(head, Ticks(0), &clock).unwrap();
    conn.take_in(b"ab", Ticks(0), &clock).unwrap();
    assert!(!conn.has_requests(), "two bytes are missing");
    conn.take_in(b"cd", Ticks(0), &clock).unwrap();
    assert!(conn.has_requests());
    let input = conn.take_input();
    assert_eq!(bodies(&room.feed(&mut conn, &input).0), ["PUT /a abcd"]);
}

#[test]
fn bodies_are_admitted_by_their_heads() {
    let (mut room, mut conn) = (TestFixture::new(), Http1::default());
    let head = b"PUT /judged HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n";
    assert_eq!(room.feed(&mut conn, head), (String::new(), 0));
    assert!(matches!(conn.stage, Stage::Judging) && !conn.may_serve());
    conn.judged(Admission::Granted(None));
    assert_eq!(room.feed(&mut conn, head), (String::new(), 0));
    assert!(conn.may_serve(), "its body is waited for");
    let whole = [&head[..], b"x"].concat();
    assert_eq!(bodies(&room.feed(&mut conn, &whole).0), ["PUT /judged x"]);
    let head = b"PUT /forbidden HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n";
    assert!(room.feed(&mut conn, head).0.starts_with("HTTP/1.1 413 "));
    assert_eq!(conn.closing, CloseMode::AfterLinger, "nothing that follows can be trusted");
}

#[test]
fn a_request_behind_a_hand_over_waits_for_its_end() {
    let (mut room, mut conn) = (TestFixture::new(), Http1::default());
    let later = b"GET /later HTTP/1.1\r\nHost: h\r\n\r\n";
    let (text, used) = room.feed(&mut conn, &[&later[..], later].concat());
    assert_eq!((text.as_str(), used), ("", later.len()));
    assert!(matches!(conn.stage, Stage::Waiting(_)));
    let text = room.http1(&mut conn, |serving, _| serving.resume(Some("back")));
    assert_eq!(bodies(&text), ["back"]);
    assert!(conn.may_serve());
    let text = room.http1(&mut conn, |serving, _| serving.resume(Some("nobody waits for this")));
    assert_eq!(text, "");
}

#[test]
fn the_time_limit_of_a_request_behind_a_hand_over_counts_from_its_end() {
    let (mut room, mut conn) = (TestFixture::new(), Http1::default());
    let (later, half) = (b"GET /later HTTP/1.1\r\nHost: h\r\n\r\n", b"GET /a HTTP/1.1\r\nHo");
    let (_, used) = room.feed(&mut conn, &[&later[..], half].concat());
    assert_eq!(used, later.len());
    room.http1(&mut conn, |serving, _| serving.resume(Some("back")));
    room.turn.woke.0 += 1;
    assert_eq!(room.feed(&mut conn, half), (String::new(), 0));
    let end = room.turn.woke;
    assert!(!conn.is_late(end, |since| since < end) && conn.is_late(end, |since| since == end));
}

#[test]
fn a_panic_is_answered_and_ends_the_connection() {
    let (mut room, mut conn) = (TestFixture::new(), Http1::default());
    let (text, _) = room.feed(&mut conn, b"GET /panic HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 500 ") && text.contains("Connection: close\r\n"), "{text}");
    assert_eq!(conn.closing, CloseMode::Cleanly);
}

#[test]
fn a_streamed_body_goes_out_in_chunks() {
    let (mut room, mut conn) = (TestFixture::new(), Http1::default());
    let (text, _) = room.feed(&mut conn, b"GET /pieces HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(text.contains("Transfer-Encoding: chunked\r\n"), "{text}");
    let mut pump = || {
        room.http1(&mut conn, |serving, _| {
            let _ = serving.pump();
        })
    };
    assert_eq!(pump(), "00000005\r\npiece\r\n");
    assert_eq!(pump(), "00000005\r\npiece\r\n0\r\n\r\n");
    assert!(conn.may_serve());
}

/// The frames of `bytes`: type, stream, and payload.
fn frames(mut bytes: &[u8]) -> Vec<(u8, u32, &[u8])> {
    let mut frames = Vec::new();
    while let [a, b, c, kind, _flags, s0, s1, s2, s3, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        frames.push((*kind, u32::from_be_bytes([*s0, *s1, *s2, *s3]), &rest[..length]));
        bytes = &rest[length..];
    }
    frames
}

const DATA: u8 = 0;
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// The HEADERS frame of a request, for stream 1.
fn frame_of(text: &[u8]) -> Vec<u8> {
    let mut space = [const { std::mem::MaybeUninit::uninit() }; HEADERS_MAX];
    let head = parse(text, &mut space, 1_000).unwrap().unwrap();
    synthetic_headers(&head).unwrap()
}

/// Runs the streams of a connection, and returns the DATA that it wrote, with its stream.
fn run(room: &mut TestFixture, conn: &mut Http2) -> Vec<(u32, String)> {
    let (mut body, mut out) = (Vec::new(), Vec::new());
    let TestFixture { dispatcher, caller, turn, .. } = room;
    let (is_over, _) = Http2Handler { conn, caller, dispatcher, body: &mut body }.run(turn);
    assert!(!is_over);
    conn.swap_output(&mut out);
    let data = frames(&out).into_iter().filter(|(kind, _, text)| *kind == DATA && !text.is_empty());
    data.map(|(_, stream, text)| (stream, String::from_utf8(text.to_vec()).unwrap())).collect()
}

#[test]
fn a_stream_is_answered_in_frames() {
    let (mut room, mut conn) = (TestFixture::new(), Http2::new(&Limits::default(), None));
    let request = frame_of(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    for piece in [&PREFACE[..5], &PREFACE[5..], &SETTINGS, &request] {
        assert!(run(&mut room, &mut conn).is_empty());
        conn.feed(piece);
    }
    assert_eq!(run(&mut room, &mut conn), [(1, "GET /a ".to_owned())]);
    assert!(conn.is_idle() && !conn.has_input());
}

#[test]
fn a_stream_that_was_handed_over_is_answered_later() {
    let (mut room, mut conn) = (TestFixture::new(), Http2::new(&Limits::default(), None));
    let request = frame_of(b"GET /later HTTP/1.1\r\nHost: h\r\n\r\n");
    conn.feed(&[&PREFACE[..], &SETTINGS, &request].concat());
    assert!(run(&mut room, &mut conn).is_empty() && !conn.is_idle());
    let TestFixture { dispatcher, caller, .. } = &mut room;
    let mut body = Vec::new();
    let mut serving = Http2Handler { conn: &mut conn, caller, dispatcher, body: &mut body };
    serving.resume(1, Some("back"));
    assert_eq!(run(&mut room, &mut conn), [(1, "back".to_owned())]);
}

#[test]
fn a_request_that_asks_for_an_upgrade_is_answered_in_http2() {
    let (mut room, mut conn) = (TestFixture::new(), Http1::default());
    let request = b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\n\
                    Upgrade: h2c\r\nHTTP2-Settings: \r\n\r\n";
    let (text, used) = room.feed(&mut conn, request);
    assert_eq!((text.as_bytes(), used), (SWITCHING, request.len()));
    let Stage::Http2(asked_before) = conn.stage else { panic!("it goes on in HTTP/2") };
    let mut conn = Http2::new(&Limits::default(), asked_before);
    conn.feed(&[&PREFACE[..], &SETTINGS].concat());
    assert_eq!(run(&mut room, &mut conn), [(1, "GET /a ".to_owned())]);
}

/// SETTINGS with a window of 2^31 - 1 bytes for each stream.
const WIDE: [u8; 15] = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff];

/// A WINDOW_UPDATE frame.
fn window(stream: u32, bytes: u32) -> Vec<u8> {
    let words = [stream, bytes].map(u32::to_be_bytes);
    [&[0, 0, 4, 8, 0][..], words.as_flattened()].concat()
}

/// Requests for `/endless` on the first `count` streams.
fn endless(count: u32) -> Vec<u8> {
    let mut request = frame_of(b"GET /endless HTTP/1.1\r\nHost: h\r\n\r\n");
    let requests = (0..count).map(|number| {
        request[5..9].copy_from_slice(&(2 * number + 1).to_be_bytes());
        request.clone()
    });
    requests.flatten().collect()
}

/// Lets a second pass, in which the client sends `bytes`, and sweeps. True if a stream was cut.
fn pass_second(room: &mut TestFixture, conn: &mut Http2, bytes: &[u8]) -> bool {
    room.turn.woke.0 += room.dispatcher.accounts.clock().ticks(1_000_000_000);
    conn.feed(bytes);
    // The first step may open windows, the second uses them, and the third finds them used up.
    for _ in 0..3 {
        run(room, conn);
    }
    let TestFixture { dispatcher, caller, turn, .. } = room;
    Http2Handler { conn, caller, dispatcher, body: &mut Vec::new() }.sweep(turn)
}

/// Regression: the rest of such a body ended the connection, as control frames without end do.
#[test]
fn a_body_that_was_overdue_may_still_arrive() {
    let (mut room, mut conn) = (TestFixture::new(), Http2::new(&Limits::default(), None));
    let mut stalled = frame_of(b"PUT /a HTTP/1.1\r\nHost: h\r\n\r\n");
    // Without END_STREAM, a body is to come.
    stalled[4] &= !1;
    conn.feed(&[&PREFACE[..], &SETTINGS, &stalled].concat());
    assert!((1..100).any(|_| pass_second(&mut room, &mut conn, &[])));
    assert_eq!(run(&mut room, &mut conn).len(), 1, "its refusal");
    let piece = [&[0, 0x40, 0, DATA, 0, 0, 0, 0, 1][..], &[b'x'; 16 * 1024]].concat();
    conn.feed(&piece.repeat(15));
    run(&mut room, &mut conn);
    let mut request = frame_of(b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n");
    request[8] = 3;
    conn.feed(&request);
    assert_eq!(run(&mut room, &mut conn), [(3, "GET /b ".to_owned())]);
}

/// Regression: streams that waited for their siblings were cut, although the client read steadily.
#[test]
fn a_stream_is_not_cut_for_the_time_that_its_siblings_take() {
    let (mut room, mut conn) = (TestFixture::new(), Http2::new(&Limits::default(), None));
    conn.feed(&[&PREFACE[..], &WIDE, &endless(64)].concat());
    for second in 0..200 {
        // Each stream has its turn once in 64 seconds, more than twice the time of an exchange.
        let is_cut = pass_second(&mut room, &mut conn, &window(0, 16 * 1024));
        assert!(!is_cut, "a stream was cut in second {second}");
    }
    let cut_at = (1..100).find(|_| pass_second(&mut room, &mut conn, &[]));
    assert!(matches!(cut_at, Some(30..=32)) && !conn.is_sending(), "{cut_at:?}");
}

#[test]
fn a_stream_that_is_not_taken_is_cut_although_its_sibling_is_taken() {
    let (mut room, mut conn) = (TestFixture::new(), Http2::new(&Limits::default(), None));
    conn.feed(&[&PREFACE[..], &SETTINGS, &endless(2), &window(0, 1 << 30)].concat());
    let cut_at = (1..200).find(|_| pass_second(&mut room, &mut conn, &window(1, 16 * 1024)));
    assert!(matches!(cut_at, Some(62..=65)) && conn.is_sending(), "{cut_at:?}");
}

/// Regression: a byte in half a minute kept all streams of a connection for over an hour.
#[test]
fn streams_are_cut_although_the_client_takes_a_byte_now_and_then() {
    let (mut room, mut conn) = (TestFixture::new(), Http2::new(&Limits::default(), None));
    conn.feed(&[&PREFACE[..], &WIDE, &endless(128)].concat());
    let cut_at = (1..200).find(|second| {
        let bytes = if second % 29 == 0 { window(0, 1) } else { Vec::new() };
        pass_second(&mut room, &mut conn, &bytes)
    });
    assert!(matches!(cut_at, Some(31..=33)) && !conn.is_sending(), "{cut_at:?}");
}
