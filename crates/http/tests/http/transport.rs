//! Tests of HTTP/1.1 over real sockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::common::{
    TestServer, answers, await_that, connect, connect_from_elsewhere, request, rest, start,
    start_connected, status, stop_beside,
};
use pellucid_http::{DisconnectReason, Limits};

/// Sends all of `text`, and returns all that comes until the server closes the connection.
fn exchange(running: &TestServer, text: impl AsRef<[u8]>) -> String {
    answers(connect(running), text)
}

fn statuses(answer: &str) -> Vec<&str> {
    answer.match_indices("HTTP/1.1 ").map(|(at, _)| &answer[at + 9..at + 12]).collect()
}

#[test]
fn pipelined_requests_are_answered_in_order_also_across_hand_overs() {
    let running = start(Limits::default());
    let text = [
        request("/", "", "one"),
        request("/later", "", "two"),
        request("/", "", "three"),
        request("/later", "", "four"),
        request("/", "Connection: close\r\n", "five"),
    ];
    let answer = exchange(&running, text.concat());
    assert_eq!(statuses(&answer), ["200", "202", "200", "202", "200"]);
    let places: Vec<_> =
        ["one", "two", "three", "four", "five"].iter().map(|body| answer.find(body)).collect();
    assert!(places.is_sorted() && places.iter().all(Option::is_some), "{answer}");
    let snapshot = running.account.snapshot(None);
    assert_eq!(snapshot.operations[0].count, 5);
}

/// The events of the later requests come while nothing is read, and no further ones follow.
#[test]
fn requests_that_come_during_a_hand_over_are_read_afterwards() {
    let (_running, mut socket) = start_connected(Limits::default());
    socket.set_nodelay(true).unwrap();
    socket.write_all(request("/later", "", "one").as_bytes()).unwrap();
    for body in ["two", "three"] {
        std::thread::sleep(Duration::from_millis(5));
        socket.write_all(request("/", "", body).as_bytes()).unwrap();
    }
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    let answer = rest(socket);
    assert_eq!(statuses(&answer), ["202", "200", "200"], "{answer}");
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let (_running, mut socket) = start_connected(Limits::default());
    socket.set_nodelay(true).unwrap();
    for byte in request("/", "Connection: close\r\n", "slowly").as_bytes() {
        socket.write_all(&[*byte]).unwrap();
    }
    let answer = rest(socket);
    assert!(answer.ends_with("\r\n\r\nslowly"), "{answer}");
}

#[test]
fn large_and_chunked_bodies_arrive_completely() {
    let running = start(Limits::default());
    let body = "x".repeat(900_000);
    let answer = exchange(&running, request("/", "Connection: close\r\n", &body));
    assert!(answer.ends_with(&body));
    let chunked = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n{:x}\r\n{body}\r\n0\r\n\r\n{}",
        body.len(),
        request("/", "Connection: close\r\n", "after")
    );
    let answer = exchange(&running, chunked);
    assert_eq!(statuses(&answer), ["200", "200"]);
    assert!(answer.contains(&format!("\r\n\r\nabc{body}HTTP/1.1")) && answer.ends_with("after"));
}

#[test]
fn many_pipelined_requests_pass_the_limit_of_unsent_output() {
    let running = start(Limits::default());
    let body = "y".repeat(20_000);
    let text = request("/", "", &body).repeat(200) + &request("/", "Connection: close\r\n", "end");
    let socket = connect(&running);
    let mut writer = socket.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(text.as_bytes()).unwrap());
    let answer = rest(socket);
    thread.join().unwrap();
    assert_eq!(statuses(&answer).len(), 201);
}

#[test]
fn streamed_bodies_are_chunked_and_a_broken_one_is_cut() {
    let running = start(Limits::default());
    let whole = exchange(&running, request("/pieces", "Connection: close\r\n", ""));
    assert!(whole.contains("Transfer-Encoding: chunked") && whole.ends_with("0\r\n\r\n"));
    assert!(whole.len() > 40 * 50_000);
    let broken = exchange(&running, request("/broken", "", ""));
    assert!(!broken.ends_with("0\r\n\r\n"), "the client must not take it for the whole");
    let old = exchange(&running, b"GET /pieces HTTP/1.0\r\n\r\n");
    assert!(old.contains("Connection: close") && !old.contains("chunked"));
    assert!(old.len() > 40 * 50_000);
}

#[test]
fn a_stream_waits_for_its_reader_without_holding_memory() {
    let (running, mut socket) = start_connected(Limits::default());
    socket.write_all(request("/pieces", "Connection: close\r\n", "").as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let answer = exchange(&running, request("/", "Connection: close\r\n", "beside it"));
    assert!(answer.ends_with("beside it"));
    assert!(rest(socket).ends_with("0\r\n\r\n"));
}

#[test]
fn slow_writers_and_idle_connections_are_cut() {
    let limits = Limits {
        exchange: Duration::from_millis(300),
        idle: Duration::from_secs(3),
        ..Limits::default()
    };
    let running = start(limits);
    assert_eq!(statuses(&exchange(&running, b"GET / HTTP/1.1\r\nHos")), ["408"]);
    assert_eq!(exchange(&running, b""), "", "an idle connection is closed without a word");
    let cut = |reason| running.cuts().connections[reason];
    assert_eq!((cut(DisconnectReason::RequestSlow), cut(DisconnectReason::Idle)), (1, 1));
    let of_readers = [DisconnectReason::ResponseSlow, DisconnectReason::ResponseStalled];
    assert_eq!(of_readers.map(cut), [0, 0]);
}

/// Regression: an empty line behind a request began the next one, which was refused as too slow.
#[test]
fn an_empty_line_behind_a_request_begins_none() {
    let limits = Limits {
        exchange: Duration::from_secs(2),
        idle: Duration::from_secs(4),
        ..Limits::default()
    };
    let running = start(limits);
    let text = request("/", "", "one") + "\r\n" + &request("/", "", "two") + "\r\n\n\r";
    let mut socket = connect(&running);
    socket.write_all(text.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(statuses(&answers(socket, "\n")), ["200", "200"]);
    let cut = |reason| running.cuts().connections[reason];
    assert_eq!((cut(DisconnectReason::RequestSlow), cut(DisconnectReason::Idle)), (0, 1));
}

/// Regression: a client could keep its connection for ever with an empty line now and then.
#[test]
fn many_empty_lines_begin_a_request() {
    let running = start(Limits { exchange: Duration::from_secs(1), ..Limits::default() });
    let many = "\r\n".repeat(40);
    let lines_before = |body: &str| many.clone() + &request("/", "", body);
    let text = [lines_before("one"), lines_before("two"), many.clone()].concat();
    assert_eq!(statuses(&exchange(&running, text)), ["200", "200", "408"]);
    assert_eq!(running.cuts().connections[DisconnectReason::RequestSlow], 1);
    let endless = "\r\n".repeat(Limits::default().head_bytes);
    assert_eq!(statuses(&exchange(&running, endless)), ["431"]);
}

#[test]
fn beyond_the_limit_of_requests_in_flight_the_answer_is_503_at_once() {
    let running = start(Limits { requests_in_flight: 0, ..Limits::default() });
    let text = request("/", "", "one") + &request("/", "Connection: close\r\n", "two");
    let answer = exchange(&running, text);
    assert_eq!(statuses(&answer), ["503", "503"]);
    assert!(answer.contains("Retry-After: 1\r\n"));
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let (running, mut first) = start_connected(Limits { connections: 1, ..Limits::default() });
    first.write_all(request("/", "", "x").as_bytes()).unwrap();
    assert_eq!(status(&mut first), "200");
    let mut second = connect(&running);
    let mut rest = Vec::new();
    // The kernel may report the close as a reset; either way nothing is answered.
    let _ = second.read_to_end(&mut rest);
    assert!(rest.is_empty());
    assert_eq!(running.cuts().refused[DisconnectReason::Full], 1);
}

/// Regression: one address could take all connections.
#[test]
fn connections_of_one_address_beyond_its_limit_are_closed() {
    let running = start(Limits { connections_of_loopback: 2, ..Limits::default() });
    let is_served = |socket: &mut TcpStream| {
        // A refused connection may be reset while it is written to.
        let _ = socket.write_all(request("/", "", "x").as_bytes());
        socket.read(&mut [0; 12]).is_ok_and(|count| count > 0)
    };
    let (mut first, mut second) = (connect(&running), connect(&running));
    assert!(is_served(&mut first) && is_served(&mut second));
    assert!(!is_served(&mut connect(&running)));
    assert_eq!(running.cuts().refused[DisconnectReason::Address], 1);
    assert!(is_served(&mut connect_from_elsewhere(&running)), "others have their places");
    drop(first);
    running.until("one is closed", |stats| stats.connections_open <= 2);
    await_that(|| is_served(&mut connect(&running)), || "its place is not free".to_owned());
}

#[test]
fn a_stop_lets_requests_in_flight_finish() {
    let (mut running, mut socket) = start_connected(Limits::default());
    socket.write_all(request("/held-later", "", "16").as_bytes()).unwrap();
    let server = running.server.take().unwrap();
    let stop = std::thread::spawn(move || stop_beside(server, 16));
    let answer = rest(socket);
    assert!(answer.ends_with("\r\n\r\n16"), "{answer}");
    stop.join().unwrap();
}
