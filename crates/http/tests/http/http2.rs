//! Tests of HTTP/2: with the client of the `h2` crate, and with hand-made frames where that client
//! would not misbehave.

use std::future::Future;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use crate::common::frames::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, WINDOW_UPDATE,
    frame, greeting, headers, literal, post, read_frame,
};
use crate::common::{
    TestServer, answers, await_held, await_that, client_of_http2 as client, connect,
    connect_narrow, release, start, start_connected, start_narrow, start_single, stop_beside,
};
use pellucid_http::Limits;

/// Error codes (RFC 9113, section 7).
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

/// Reads up to GOAWAY and returns its error code; none if the connection ends without one.
fn goaway(socket: &mut TcpStream) -> Option<u32> {
    while let Some((kind, _, payload)) = read_frame(socket) {
        if kind == GOAWAY {
            return Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
    }
    None
}

/// Regression: an invalid preface was answered in HTTP/1.1, whose text is the header of a frame of
/// four megabytes to an HTTP/2 client.
#[test]
fn an_invalid_preface_gets_goaway_and_a_later_invalid_line_gets_400() {
    let running = start(Limits::default());
    let line = b"INVALID CONNECTION PREFACE\r\n\r\n";
    let mut socket = connect(&running);
    socket.write_all(line).unwrap();
    let (kind, stream, payload) = read_frame(&mut socket).unwrap();
    assert_eq!((kind, stream, &payload[..8]), (GOAWAY, 0, &[0, 0, 0, 0, 0, 0, 0, 1][..]));
    assert!(payload.ends_with(b"nor the beginning of HTTP/2"));
    assert!(read_frame(&mut socket).is_none());
    let both = [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", &line[..]].concat();
    let text = answers(connect(&running), both);
    assert!(text.contains("HTTP/1.1 400 ") && text.ends_with("nor the beginning of HTTP/2\n"));
}

#[test]
fn streams_of_all_kinds_are_answered_concurrently() {
    let running = start(Limits::default());
    let mut client = client(&running);
    let large = vec![b'x'; 900_000];
    let requests: Vec<(&str, &[u8])> = (0..40)
        .flat_map(|_| [("/", &b"short"[..]), ("/later", b"handed over"), ("/", b"")])
        .chain([("/", &large[..]), ("/pieces", b""), ("/later", &large)])
        .collect();
    let answers = client.exchange(&requests);
    for ((path, sent), answer) in requests.iter().zip(answers) {
        let (parts, body) = answer.unwrap();
        assert_eq!(parts.status, if *path == "/later" { 202 } else { 200 });
        assert!(parts.headers.contains_key("date") && !parts.headers.contains_key("connection"));
        if *path == "/pieces" {
            assert_eq!(body.len(), 40 * 50_000);
        } else {
            assert_eq!(&body, sent);
        }
    }
    drop(client);
    let account = running.account.snapshot(None);
    assert_eq!(account.operations[0].count, 123, "each stream is a request of its own");
    for phase in ["receive", "parse", "execute", "encode", "write"] {
        let phases = &account.operations[0].phases;
        let found = phases.iter().find(|measured| measured.name == phase);
        assert!(found.is_some_and(|found| found.distribution.count > 0), "{phase} is missing");
    }
    assert_eq!(running.stats().body_bytes, 0);
}

#[test]
fn a_broken_body_is_an_error_and_the_connection_stays() {
    let running = start(Limits::default());
    let mut client = client(&running);
    assert!(client.exchange(&[("/broken", b"")])[0].is_err());
    assert!(client.exchange(&[("/", b"after it")])[0].is_ok());
}

#[test]
fn a_body_beyond_the_limit_is_refused_and_its_neighbours_are_not() {
    let running = start(Limits::default());
    let mut client = client(&running);
    let too_large = vec![b'x'; 1_000_001];
    let answers = client.exchange(&[("/", &too_large), ("/", b"beside it")]);
    let statuses: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().unwrap().0.status.as_u16()).collect();
    assert_eq!(statuses, [413, 200]);
    assert_eq!(running.stats().body_bytes, 0);
}

#[test]
fn beyond_the_limit_of_requests_in_flight_the_answer_is_503_at_once() {
    let running = start(Limits { requests_in_flight: 0, ..Limits::default() });
    let answer = client(&running).exchange(&[("/", b"")]).remove(0).unwrap();
    assert_eq!(answer.0.status, 503);
    assert_eq!(answer.0.headers["retry-after"], "1");
}

#[test]
fn a_request_in_http_1_may_ask_for_an_upgrade_to_http_2() {
    let (_running, mut socket) = start_connected(Limits::default());
    let ask = "GET /pieces HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n\
               Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n";
    socket.write_all(ask.as_bytes()).unwrap();
    let mut switching = vec![0; 71];
    socket.read_exact(&mut switching).unwrap();
    assert!(switching.starts_with(b"HTTP/1.1 101 ") && switching.ends_with(b"\r\n\r\n"));
    socket.write_all(&greeting()).unwrap();
    let mut body_bytes = 0;
    while body_bytes < 60_000 {
        let (kind, stream, payload) = read_frame(&mut socket).unwrap();
        assert_ne!(kind, GOAWAY);
        if kind == DATA {
            assert_eq!(stream, 1, "the request is the first stream");
            body_bytes += payload.len();
        }
    }
    let more = frame(HEADERS, END_STREAM | END_HEADERS, 3, &headers("/"));
    socket.write_all(&more).unwrap();
    while read_frame(&mut socket).unwrap().1 != 3 {}
}

#[test]
fn the_preface_may_come_byte_by_byte_and_other_beginnings_are_no_preface() {
    let (running, mut socket) = start_connected(Limits::default());
    socket.set_nodelay(true).unwrap();
    let request = frame(HEADERS, END_STREAM | END_HEADERS, 1, &headers("/"));
    for byte in [greeting(), request].concat() {
        socket.write_all(&[byte]).unwrap();
    }
    while read_frame(&mut socket).unwrap().0 != HEADERS {}
    let answer = answers(connect(&running), b"PRI * HTTP/2.0\r\n\r\nXX");
    assert!(answer.starts_with("HTTP/1.1 505"), "{answer}");
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let (_running, mut socket) = start_connected(Limits { streams: 4, ..Limits::default() });
    let mut bytes = greeting();
    for number in 0..6 {
        // The requests have no END_STREAM, so that all streams stay open.
        bytes.extend(frame(HEADERS, END_HEADERS, 2 * number + 1, &headers("/")));
    }
    socket.write_all(&bytes).unwrap();
    let mut refused = Vec::new();
    while refused.len() < 2 {
        let (kind, stream, payload) = read_frame(&mut socket).unwrap();
        if kind == RST_STREAM {
            assert_eq!(payload, REFUSED_STREAM.to_be_bytes());
            refused.push(stream);
        }
    }
    assert_eq!(refused, [9, 11]);
}

#[test]
fn a_client_that_opens_streams_to_reset_them_is_told_to_calm_down() {
    let (_running, mut socket) = start_connected(Limits::default());
    let mut bytes = greeting();
    for number in 0..200_u32 {
        let stream = 2 * number + 1;
        bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &headers("/later")));
        bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    socket.write_all(&bytes).unwrap();
    assert_eq!(goaway(&mut socket), Some(ENHANCE_YOUR_CALM));
}

#[test]
fn a_client_that_sends_only_pings_is_told_to_calm_down() {
    let (_running, mut socket) = start_connected(Limits::default());
    let mut writer = socket.try_clone().unwrap();
    let thread = std::thread::spawn(move || {
        let pings = frame(PING, 0, 0, &[0; 8]).repeat(1_000);
        let greeted = writer.write_all(&greeting());
        // The server ends the connection before all are written.
        let _ = greeted.and_then(|()| (0..40).try_for_each(|_| writer.write_all(&pings)));
    });
    assert_eq!(goaway(&mut socket), Some(ENHANCE_YOUR_CALM));
    drop(socket);
    thread.join().unwrap();
}

#[test]
fn invalid_frames_end_the_connection() {
    let running = start(Limits::default());
    for bytes in [
        [PREFACE, &[0xff; 100]].concat(),
        [greeting(), frame(DATA, 0, 1, b"of no stream")].concat(),
        [greeting(), frame(HEADERS, END_HEADERS, 1, &[0xff; 30])].concat(),
    ] {
        let mut socket = connect(&running);
        socket.write_all(&bytes).unwrap();
        assert!(goaway(&mut socket).is_some_and(|code| code != 0));
    }
}

#[test]
fn bodies_are_compressed_for_clients_that_ask() {
    let running = start(Limits::default());
    let mut client = client(&running);
    let (short, long, longer) = (vec![b'a'; 100], vec![b'b'; 10_000], vec![b'c'; 300_000]);
    let requests = [("/", &short[..]), ("/", &long), ("/", &longer)];
    let answers = client.exchange_with(&[("accept-encoding", "gzip")], &requests);
    for (answer, (_, body)) in answers.into_iter().zip(requests) {
        let (parts, received) = answer.unwrap();
        let coding = parts.headers.get("content-encoding").map(|value| value.to_str().unwrap());
        if body.len() < 4_096 {
            assert_eq!((coding, &received[..]), (None, body));
            continue;
        }
        assert_eq!((coding, received.len() < body.len() / 10), (Some("gzip"), true));
        assert_eq!(parts.headers["vary"], "Accept-Encoding");
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&received[..]).read_to_end(&mut plain).unwrap();
        assert!(plain == body);
    }
}

#[test]
fn a_response_that_nobody_takes_is_given_up() {
    let (running, mut socket) =
        start_connected(Limits { exchange: Duration::from_millis(300), ..Limits::default() });
    let request = frame(HEADERS, END_STREAM | END_HEADERS, 1, &headers("/pieces"));
    socket.write_all(&[greeting(), request].concat()).unwrap();
    let mut taken = 0;
    loop {
        match read_frame(&mut socket).unwrap() {
            (DATA, 1, payload) => taken += payload.len(),
            (RST_STREAM, 1, _) => break,
            _ => {}
        }
    }
    assert_eq!(taken, 65_535, "what the window allowed");
    assert_eq!(running.stats().requests_in_flight, 0);
}

/// Regression: if more bytes waited for windows than a connection may hold, an opened window was
/// noticed only after the sending. Without a further frame the response stalled until it was cut.
#[test]
fn a_window_that_opens_is_used_at_once_however_much_waits() {
    // The limit is far longer than the timeout of the reads below, where a stalled response fails.
    let (_running, mut socket) =
        start_connected(Limits { exchange: Duration::from_secs(600), ..Limits::default() });
    let request = frame(HEADERS, END_STREAM | END_HEADERS, 1, &headers("/large"));
    socket.write_all(&[greeting(), request].concat()).unwrap();
    let mut taken = 0;
    for windows in 1..=4 {
        while taken < windows * 65_535 {
            match read_frame(&mut socket).unwrap() {
                (DATA, 1, payload) => taken += payload.len(),
                (RST_STREAM, 1, _) => panic!("cut after {taken} bytes"),
                _ => {}
            }
        }
        let window = 65_535_u32.to_be_bytes();
        let opened = [0, 1].map(|stream| frame(WINDOW_UPDATE, 0, stream, &window));
        socket.write_all(&opened.concat()).unwrap();
    }
}

#[test]
fn a_request_that_stays_incomplete_is_refused() {
    let (running, mut socket) =
        start_connected(Limits { exchange: Duration::from_millis(300), ..Limits::default() });
    let request = frame(HEADERS, END_HEADERS, 1, &headers("/"));
    socket.write_all(&[greeting(), request].concat()).unwrap();
    while read_frame(&mut socket).unwrap().0 != HEADERS {}
    // The account is closed when the answer is written, a moment after the client has it.
    let is_refused = || {
        let operations = running.account.snapshot(None).operations;
        operations.first().is_some_and(|first| first.operation == "refused")
    };
    await_that(is_refused, || "the account has no refusal".to_owned());
}

#[test]
fn a_stop_lets_streams_in_flight_finish() {
    let mut running = start(Limits::default());
    let mut client = client(&running);
    let server = running.server.take().unwrap();
    let stop = std::thread::spawn(move || stop_beside(server, 17));
    let (parts, body) = client.exchange(&[("/held-later", b"17")]).remove(0).unwrap();
    assert_eq!((parts.status.as_u16(), &body[..]), (202, &b"17"[..]));
    client.until_closed();
    stop.join().unwrap();
}

/// Regression: a connection was reset two seconds after a stop, even if a finished response was
/// still on its way to a slow client.
#[test]
fn a_stop_waits_for_finished_responses_to_be_read() {
    const PIECE_BYTES: usize = 15_000;
    let long = Duration::from_secs(600);
    let limits = Limits { exchange: long, stop: long, ..Limits::default() };
    let mut running = start_narrow(limits, None);
    let mut socket = connect_narrow(&running);
    let mut bytes = [greeting(), frame(HEADERS, END_HEADERS, 1, &post("/"))].concat();
    for flags in [0, 0, 0, END_STREAM] {
        bytes.extend(frame(DATA, flags, 1, &[b'x'; PIECE_BYTES]));
    }
    socket.write_all(&bytes).unwrap();
    while read_frame(&mut socket).unwrap().0 != HEADERS {}
    let server = running.server.take().unwrap();
    let stop = std::thread::spawn(move || server.stop().unwrap());
    // Longer than a client has to close a connection of which nothing is left.
    std::thread::sleep(Duration::from_secs(4));
    let mut taken = 0;
    while taken < 4 * PIECE_BYTES {
        let (kind, _, payload) = read_frame(&mut socket).expect("the response goes on");
        taken += if kind == DATA { payload.len() } else { 0 };
    }
    drop(socket);
    stop.join().unwrap();
}

/// Regression: such a request got neither 100 nor an answer until it was too slow.
#[test]
fn an_expectation_of_100_is_answered() {
    let running = start(Limits::default());
    let mut client = client(&running);
    let mut begin = |headers: &[(&str, &str)]| {
        let mut send = client.send.clone();
        client.run(|context| send.poll_ready(context)).unwrap();
        let request = http::Request::builder().method("POST").uri("http://localhost/");
        let request = headers.iter().fold(request, |all, (name, value)| all.header(*name, *value));
        let (mut response, mut body) = send.send_request(request.body(()).unwrap(), false).unwrap();
        let first = client.run(|context| {
            match response.poll_informational(context) {
                Poll::Ready(Some(interim)) => return Poll::Ready(interim.unwrap().status()),
                Poll::Ready(None) | Poll::Pending => {}
            }
            Pin::new(&mut response).poll(context).map(|answer| answer.unwrap().status())
        });
        if first != 100 {
            return (first, first);
        }
        body.send_data("whole".into(), true).unwrap();
        let answer = client.run(|context| Pin::new(&mut response).poll(context));
        (first, answer.unwrap().status())
    };
    for (headers, first, last) in [
        (&[("expect", "100-continue")][..], 100, 200),
        (&[("expect", "100-continue"), ("x-admit", "no")], 401, 401),
        (&[("expect", "miracles")], 417, 417),
    ] {
        let (interim, answer) = begin(headers);
        assert_eq!((interim.as_u16(), answer.as_u16()), (first, last), "{headers:?}");
    }
}

/// Regression: a `host` overrode the authority, so that the server could take another for its own.
#[test]
fn a_request_with_two_hosts_is_malformed() {
    let running = start(Limits::default());
    for (authority, host, status) in [
        (Some("a"), None, 0x88),
        (Some("a"), Some("A"), 0x88),
        (None, Some("a"), 0x88),
        (Some("a"), Some("b"), 0x8c),
        (Some("u@a"), None, 0x8c),
    ] {
        let named = [(":authority", authority), ("host", host)];
        let named = named.iter().filter_map(|(name, host)| Some(literal(name, (*host)?)));
        let block: Vec<u8> = [headers("/")].into_iter().chain(named).flatten().collect();
        let mut socket = connect(&running);
        let ask = frame(HEADERS, END_STREAM | END_HEADERS, 1, &block);
        socket.write_all(&[greeting(), ask].concat()).unwrap();
        let (_, _, head) = std::iter::repeat_with(|| read_frame(&mut socket).unwrap())
            .find(|(kind, ..)| *kind == HEADERS)
            .unwrap();
        assert_eq!(head[0], status, "200 or 400 of the static table: {authority:?}, {host:?}");
    }
}

/// Regression: the body of such a request ended the connection, as control frames without end do.
#[test]
fn the_body_of_a_request_that_its_head_refuses_may_still_arrive() {
    let (_running, mut socket) = start_connected(Limits::default());
    let block = [post("/"), literal(":authority", "a"), literal("host", "b")].concat();
    let ask = frame(HEADERS, END_HEADERS, 1, &block);
    socket.write_all(&[greeting(), ask].concat()).unwrap();
    let mut reader = socket.try_clone().unwrap();
    let mut read_to = |wanted| loop {
        let (kind, _, payload) = read_frame(&mut reader).unwrap();
        assert_ne!(kind, GOAWAY);
        if kind == wanted {
            return payload;
        }
    };
    assert_eq!(read_to(HEADERS)[0], 0x8c, "400 of the static table");
    let body = frame(DATA, 0, 1, &[b'x'; 16_000]).repeat(13);
    socket.write_all(&[body, frame(PING, 0, 0, &[0; 8])].concat()).unwrap();
    read_to(PING);
    socket.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, 3, &headers("/"))).unwrap();
    assert_eq!(read_to(HEADERS)[0], 0x88, "200 of the static table");
}

/// Holds the event loop with a request at `gate`, and returns its connection. Bytes that others
/// send meanwhile are found in one wake-up.
fn busy(running: &TestServer, gate: usize) -> TcpStream {
    let mut socket = connect(running);
    let length = gate.to_string().len();
    let text = format!("POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{gate}");
    socket.write_all(text.as_bytes()).unwrap();
    await_held(gate);
    socket
}

/// Regression: an end that came together with the first bytes was not noticed, and the connection
/// stayed open for five minutes.
#[test]
fn an_end_that_comes_with_the_first_bytes_is_noticed() {
    let running = start_single(Limits::default());
    let (holder, mut clients) = (busy(&running, 7), Vec::new());
    for bytes in [greeting(), PREFACE[..7].to_vec(), b"GET / HT".to_vec(), Vec::new()] {
        let mut socket = connect(&running);
        socket.write_all(&bytes).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        // The socket stays open, so that there is only the FIN to be noticed.
        clients.push(socket);
    }
    release(7);
    running.until("all but one are gone", |stats| {
        stats.connections_ever == 5 && stats.connections_open == 1
    });
    drop(holder);
}

/// Regression: bytes that did not fit into the first read waited until the client sent more.
#[test]
fn more_than_one_read_may_come_at_once() {
    let running = start_single(Limits::default());
    let _holder = busy(&running, 10);
    let mut socket = connect(&running);
    let block = [headers("/"), literal("x-long", &"x".repeat(12_000))].concat();
    let mut bytes = greeting();
    for number in 0..8 {
        bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &block));
    }
    socket.write_all(&bytes).unwrap();
    release(10);
    let mut answered = 0;
    while answered < 8 {
        let (kind, _, _) = read_frame(&mut socket).unwrap();
        answered += u32::from(kind == HEADERS);
    }
}

/// Regression: each such stream stayed counted as in flight; after 4,096 of them, all requests were
/// refused.
#[test]
fn a_connection_that_ends_amid_its_streams_leaves_no_request_in_flight() {
    let running = start(Limits::default());
    let waiting = |number| frame(HEADERS, END_STREAM | END_HEADERS, number, &headers("/waiting"));
    for ending in [&b""[..], &frame(DATA, 0, 0, b"of no stream"), &[0xff; 100]] {
        let mut socket = connect(&running);
        socket.write_all(&[greeting(), waiting(1), waiting(3)].concat()).unwrap();
        running.until("both are in flight", |stats| stats.requests_in_flight == 2);
        socket.write_all(ending).unwrap();
        if ending.is_empty() {
            drop(socket);
        } else {
            assert!(goaway(&mut socket).is_some_and(|code| code != 0));
        }
        running.until("none is in flight", |stats| stats.requests_in_flight == 0);
    }
}

/// A CONNECT request has no path, on which services rely.
#[test]
fn connect_is_refused() {
    let running = start(Limits::default());
    let mut client = client(&running);
    let mut send = client.send.clone();
    client.run(|context| send.poll_ready(context)).unwrap();
    let request = http::Request::builder().method("CONNECT").uri("a:80").body(()).unwrap();
    let (response, _body) = send.send_request(request, false).unwrap();
    let mut response = std::pin::pin!(response);
    let answer = client.run(|context| response.as_mut().poll(context)).unwrap();
    assert_eq!(answer.status(), 400);
}
