//! Incoming bodies: their admission, their memory, and their time limits.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::common::{
    ACCOUNT_BYTES, LARGE_BYTES, SLOW_LARGE, TestServer, await_held, await_that, client_of_http2,
    connect, connect_from_elsewhere, connect_narrow, release, rest, start, start_narrow, status,
};
use pellucid_account::Phase;
use pellucid_budget::Budget;
use pellucid_http::{DisconnectReason, Limits};

fn head(length: usize, headers: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{headers}\r\n")
}

/// Sends `text` on a new connection.
fn sent(running: &TestServer, text: &str) -> TcpStream {
    sent_on(connect(running), text)
}

fn sent_on(mut socket: TcpStream, text: &str) -> TcpStream {
    socket.write_all(text.as_bytes()).unwrap();
    socket
}

fn await_body_bytes(running: &TestServer, bytes: usize) {
    running.until("they are there", |stats| stats.body_bytes >= bytes);
}

fn await_unused(memory: &Budget) {
    await_that(|| memory.used_bytes() == 0, || format!("{} bytes", memory.used_bytes()));
}

/// The length of a body of which a budget of [`ACCOUNT_BYTES`] has room for one, and not for two.
const LARGE_BODY_BYTES: usize = ACCOUNT_BYTES - 50_000;

fn large(headers: &str) -> String {
    head(LARGE_BODY_BYTES, headers) + &"x".repeat(LARGE_BODY_BYTES)
}

/// Starts a server, and fills a budget with all but the last byte of a body with these headers.
/// Checks that another such body is refused.
fn filled(limits: Limits, headers: &str) -> (TestServer, TcpStream) {
    let (running, request) = (start(limits), large(headers));
    let first = sent(&running, &request[..request.len() - 1]);
    await_body_bytes(&running, LARGE_BODY_BYTES - 1);
    assert_eq!(status(&mut sent(&running, &request)), "503");
    (running, first)
}

/// Regression: the memory of the declared length was taken at once, so that two silent connections
/// blocked all others.
#[test]
fn a_body_takes_memory_as_it_arrives() {
    let running = start(Limits { body_bytes_in_flight: 1_000_000, ..Limits::default() });
    let _silent: Vec<_> = (0..8).map(|_| sent(&running, &head(900_000, ""))).collect();
    let mut other = sent(&running, &(head(600_000, "") + &"x".repeat(600_000)));
    assert_eq!(status(&mut other), "200");
}

/// Regression: a body with a declared length of 1 GiB had eighteen hours, even if nothing arrived.
#[test]
fn a_body_that_stops_arriving_is_cut_after_the_time_for_an_exchange() {
    let limits = Limits { exchange: Duration::from_secs(1), ..Limits::default() };
    let running = start(limits);
    let mut late = [
        sent(&running, &(head(990_000, "") + &"x".repeat(900_000))),
        sent(
            &running,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\nxxxx",
        ),
    ];
    for socket in &mut late {
        assert_eq!(status(socket), "408");
    }
    assert_eq!(running.cuts().connections[DisconnectReason::RequestSlow], 2);
    running.until("their memory is free", |stats| stats.body_bytes == 0);
}

#[test]
fn a_body_that_arrives_steadily_is_not_cut() {
    let limits = Limits { exchange: Duration::from_secs(1), ..Limits::default() };
    let running = start(limits);
    loop {
        let mut socket = sent(&running, &head(400_000, ""));
        let (mut last, mut largest_gap) = (Instant::now(), Duration::ZERO);
        let is_taken = (0..20).all(|_| {
            std::thread::sleep(Duration::from_millis(100));
            let is_written = socket.write_all("x".repeat(20_000).as_bytes()).is_ok();
            largest_gap = largest_gap.max(last.elapsed());
            last = Instant::now();
            is_written
        });
        // A result counts only if the client itself was not delayed on a busy machine.
        if largest_gap < Duration::from_millis(500) {
            assert!(is_taken);
            assert_eq!(status(&mut socket), "200");
            return;
        }
    }
}

#[test]
fn one_address_does_not_take_the_memory_of_all() {
    let limits = Limits { body_bytes_per_address: ACCOUNT_BYTES, ..Limits::default() };
    let (running, _first) = filled(limits, "");
    let mut other = sent_on(connect_from_elsewhere(&running), &large(""));
    assert_eq!(status(&mut other), "200");
}

#[test]
fn one_account_does_not_take_the_memory_of_all() {
    let (running, _first) = filled(Limits::default(), "x-admit: account\r\n");
    assert_eq!(status(&mut sent(&running, &large(""))), "200");
}

#[test]
fn the_budget_for_bodies_bounds_them_all_together() {
    let limits = Limits { body_bytes_in_flight: ACCOUNT_BYTES, ..Limits::default() };
    let (_running, mut first) = filled(limits, "");
    first.write_all(b"x").unwrap();
    assert_eq!(status(&mut first), "200");
}

/// Regression: the answer was 503 with the advice to try again, for ever.
#[test]
fn a_body_that_never_fits_into_a_budget_is_refused_for_good() {
    for limits in [
        Limits { body_bytes_in_flight: ACCOUNT_BYTES, ..Limits::default() },
        Limits { memory: Budget::new(ACCOUNT_BYTES), ..Limits::default() },
    ] {
        let running = start(limits);
        let body = "x".repeat(2 * ACCOUNT_BYTES);
        let answer = rest(sent(&running, &(head(body.len(), "") + &body)));
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains(&format!("{ACCOUNT_BYTES} bytes")), "{answer}");
        assert!(!answer.contains("Retry-After"), "{answer}");
    }
}

/// Regression: the bodies of the streams of one connection had no limit of their own.
#[test]
fn one_connection_does_not_take_the_memory_of_all() {
    let limits = Limits { body_bytes_per_connection: 300_000, ..Limits::default() };
    let running = start(limits);
    let mut client = client_of_http2(&running);
    let mut send = client.send.clone();
    client.run(|context| send.poll_ready(context)).unwrap();
    let request = http::Request::post("http://localhost/").body(()).unwrap();
    let (_first, mut stream) = send.send_request(request, false).unwrap();
    stream.send_data(bytes::Bytes::from(vec![b'x'; 250_000]), false).unwrap();
    client.run(|_| match running.stats().body_bytes {
        250_000.. => Poll::Ready(()),
        _ => Poll::Pending,
    });
    let body = vec![b'x'; 200_000];
    let status = |answers: Vec<Result<crate::common::h2_client::Answer, h2::Error>>| {
        answers[0].as_ref().unwrap().0.status.as_u16()
    };
    assert_eq!(status(client.exchange(&[("/", &body)])), 503);
    stream.send_reset(h2::Reason::CANCEL);
    client.run(|_| match running.stats().body_bytes {
        0 => Poll::Ready(()),
        _ => Poll::Pending,
    });
    assert_eq!(status(client.exchange(&[("/", &body)])), 200);
}

#[test]
fn the_memory_of_the_server_bounds_bodies_too() {
    let memory = Budget::new(ACCOUNT_BYTES);
    let (_running, _first) = filled(Limits { memory: memory.clone(), ..Limits::default() }, "");
    assert!(memory.used_bytes() >= LARGE_BODY_BYTES - 1);
}

/// Regression: with any header `Authorization`, valid or not, the body was read.
#[test]
fn a_request_is_refused_by_its_head_before_its_body_is_read() {
    let running = start(Limits::default());
    for headers in ["x-admit: no\r\n", "x-admit: no\r\nExpect: 100-continue\r\n"] {
        let answer = rest(sent(&running, &head(900_000, headers)));
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        assert!(answer.contains("WWW-Authenticate: Basic\r\n"), "{answer}");
    }
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nx-admit: no\r\nExpect: 100-continue\r\n\
                   Transfer-Encoding: chunked\r\n\r\n";
    assert_eq!(status(&mut sent(&running, chunked)), "401");
    let long = head(1_000_001, "Expect: 100-continue\r\n");
    assert_eq!(status(&mut sent(&running, &long)), "413");
    let mut invited = sent(&running, &head(10, "Expect: 100-continue\r\n"));
    assert_eq!(status(&mut invited), "100");
    assert_eq!(running.stats().body_bytes, 0);
}

#[test]
fn a_body_is_not_read_while_another_thread_decides_about_it() {
    let running = start(Limits::default());
    for (how, gate, expected) in [("later", 11, "200"), ("not-later", 12, "401")] {
        let headers = format!("x-admit: {how} {gate}\r\n");
        let mut socket = sent(&running, &head(900_000, &headers));
        let mut writer = socket.try_clone().unwrap();
        await_held(gate);
        let sending = std::thread::spawn(move || {
            // This fails if the server closes the connection before it has read all of the body.
            let _ = writer.write_all(&vec![b'x'; 900_000]);
        });
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(running.stats().body_bytes, 0);
        release(gate);
        assert_eq!(status(&mut socket), expected);
        sending.join().unwrap();
    }
}

#[test]
fn bodies_of_streams_are_admitted_by_their_heads_too() {
    let running = start(Limits::default());
    let mut client = client_of_http2(&running);
    let body = vec![b'x'; 200_000];
    let mut status = |how: &str| {
        let answers = client.exchange_with(&[("x-admit", how)], &[("/", &body)]);
        answers[0].as_ref().unwrap().0.status.as_u16()
    };
    assert_eq!(status("no"), 401);
    assert_eq!(status("yes"), 200);
    for (how, gate, expected) in [("later", 13, 200), ("not-later", 15, 401)] {
        let opener = std::thread::spawn(move || {
            await_held(gate);
            release(gate);
        });
        assert_eq!(status(&format!("{how} {gate}")), expected);
        opener.join().unwrap();
    }
}

/// Regression: the memory of a response that had waited was held until the client sent its next
/// request, so that idle clients took the memory from others.
#[test]
fn a_client_that_took_its_whole_response_holds_no_memory() {
    let memory = Budget::new(3_500_000);
    let running = start_narrow(Limits { memory: memory.clone(), ..Limits::default() }, None);
    let idle: Vec<_> = (0..5)
        .map(|number| {
            let get = "GET /large HTTP/1.1\r\nHost: a\r\n\r\n";
            let mut socket = sent_on(connect_narrow(&running), get);
            assert_eq!(status(&mut socket), "200", "client {number}");
            // The kernel takes what is left, which is as long as the rest of the head.
            socket.read_exact(&mut vec![0; LARGE_BYTES]).unwrap();
            socket
        })
        .collect();
    await_unused(&memory);
    assert_eq!(running.stats().connections_open, idle.len());
}

/// Regression: a large value was held once for each client that did not take it, without a limit.
#[test]
fn responses_that_wait_for_their_clients_share_one_limit() {
    let memory = Budget::new(3_500_000);
    let running = start_narrow(Limits { memory: memory.clone(), ..Limits::default() }, None);
    for path in ["/large", "/held-pieces"] {
        let get = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut slow = Vec::new();
        let refused = (0..10).find_map(|_| {
            let mut socket = sent_on(connect_narrow(&running), &get);
            let status = status(&mut socket);
            slow.push(socket);
            (status != "200").then_some(status)
        });
        assert_eq!(refused.as_deref(), Some("503"), "{path}");
        assert!(memory.used_bytes() > 0 && memory.used_bytes() <= memory.bytes_max());
        drop(slow);
        await_unused(&memory);
        let mut after = sent(&running, &get);
        assert_eq!(status(&mut after), "200", "{path}");
        drop(after);
        await_unused(&memory);
    }
}

/// Regression: the refusal of a response for its memory took the stamps of its request again, so
/// that the execution counted as `route`.
#[test]
fn a_response_refused_for_its_memory_keeps_the_times_of_its_request() {
    let running = start(Limits { memory: Budget::new(LARGE_BYTES / 2), ..Limits::default() });
    assert_eq!(status(&mut sent(&running, "GET /slow-large HTTP/1.1\r\nHost: a\r\n\r\n")), "503");
    let answers = client_of_http2(&running).exchange(&[("/slow-large", b"")]);
    assert_eq!(answers[0].as_ref().unwrap().0.status, 503);
    for record in running.records(2) {
        let lasted = |phase| {
            Duration::from_nanos(running.account.clock().nanoseconds(record.phase_ticks(phase)))
        };
        assert!(lasted(Phase::Execute) >= SLOW_LARGE, "{record:?}");
        assert!(lasted(Phase::Route) < SLOW_LARGE, "{record:?}");
    }
}
