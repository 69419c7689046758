//! Clients that are gone while their requests are handed over, and what is still on its way to
//! those that are not.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use common::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, frame, greeting, post, read_frame,
};
use common::tls_client::{certificates, client_config, client_of};
use common::{Running, await_that, connect, gone, listener, start, start_at, start_with};
use pellucid_http::{HALF_CLOSE_GRACE, Limits};
use socket2::SockRef;

fn request(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn await_gone(number: usize) {
    await_that(|| gone(number) > 0, || format!("client {number} is not known to be gone"));
}

fn await_in_flight(running: &Running, count: usize) {
    running.until("the requests are in flight", |stats| stats.requests_in_flight == count);
}

fn reset(socket: &TcpStream) {
    SockRef::from(socket).set_linger(Some(Duration::ZERO)).unwrap();
}

/// Nobody looked at its connection until there was an answer.
#[test]
fn a_client_that_resets_its_connection_is_gone_at_once() {
    let running = start(Limits::default());
    let mut socket = connect(&running);
    socket.write_all(request("/watched", "0").as_bytes()).unwrap();
    await_in_flight(&running, 1);
    reset(&socket);
    let begun = Instant::now();
    drop(socket);
    await_gone(0);
    assert!(begun.elapsed() < HALF_CLOSE_GRACE, "a reset leaves no doubt");
    running.until("nothing is left", |stats| {
        stats.connections_open == 0 && stats.requests_in_flight == 0
    });
}

#[test]
fn a_client_that_resets_its_connection_in_tls_is_gone() {
    let running = start_with(Limits::default(), Some(certificates("first")));
    let mut client = client_of(&running, &client_config("first", rustls::ALL_VERSIONS));
    client.write_all(request("/watched", "1").as_bytes()).unwrap();
    client.flush().unwrap();
    await_in_flight(&running, 1);
    reset(&client.sock);
    drop(client);
    await_gone(1);
}

/// What it looks like when a client exits, or when it waits for its answer.
#[test]
fn a_client_that_sends_no_more_is_gone_after_a_while_and_answered_nevertheless() {
    let running = start(Limits::default());
    let mut socket = connect(&running);
    let begun = Instant::now();
    socket.write_all(request("/watched", "2").as_bytes()).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 202 ") && answer.ends_with("\r\n\r\ngone"), "{answer}");
    assert!(begun.elapsed() >= HALF_CLOSE_GRACE, "{:?}", begun.elapsed());
}

#[test]
fn a_stream_that_is_reset_and_a_connection_that_ends_are_gone() {
    let running = start(Limits::default());
    let mut socket = connect(&running);
    let mut bytes = greeting();
    for (stream, number) in [(1, b"3"), (3, b"4")] {
        bytes.extend(frame(HEADERS, END_HEADERS, stream, &post("/watched")));
        bytes.extend(frame(DATA, END_STREAM, stream, number));
    }
    socket.write_all(&bytes).unwrap();
    await_in_flight(&running, 2);
    socket.write_all(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes())).unwrap();
    await_gone(3);
    await_in_flight(&running, 1);
    assert_eq!(gone(4), 0, "the other stream goes on");
    socket.shutdown(Shutdown::Write).unwrap();
    await_gone(4);
    while read_frame(&mut socket).is_some() {}
    running.until("nothing is left", |stats| {
        stats.connections_open == 0 && stats.requests_in_flight == 0
    });
}

/// A stream that had nothing to send kept its connection for ever.
#[test]
fn a_stream_that_waits_ends_with_its_connection() {
    let running = start(Limits::default());
    let mut socket = connect(&running);
    socket.write_all(request("/waiting", "").as_bytes()).unwrap();
    await_in_flight(&running, 1);
    reset(&socket);
    drop(socket);
    running.until("nothing is left", |stats| {
        stats.connections_open == 0 && stats.requests_in_flight == 0
    });
}

/// It overtook what the client had not taken yet, which was lost; in TLS the process ended.
#[test]
fn an_answer_from_elsewhere_waits_for_those_before_it() {
    for tls in [false, true] {
        let listener = listener();
        SockRef::from(&listener).set_send_buffer_size(4_096).unwrap();
        let running = start_at(listener, Limits::default(), tls.then(|| certificates("first")));
        // More than the kernel takes, and less than the limit at which the second is not begun.
        let body = "x".repeat(240_000);
        let text = request("/", &body) + &request("/later", "behind it");
        let mut answer = Vec::new();
        let is_whole = |answer: &[u8]| answer.ends_with(b"\r\n\r\nbehind it");
        let mut take = |stream: &mut dyn Read| {
            // The second answer is there by then, and the first is not out.
            std::thread::sleep(Duration::from_millis(200));
            let mut piece = [0; 16 * 1024];
            while !is_whole(&answer) {
                let count = stream.read(&mut piece).unwrap();
                assert!(count > 0, "cut after {} bytes", answer.len());
                answer.extend_from_slice(&piece[..count]);
            }
        };
        if tls {
            let mut client = client_of(&running, &client_config("first", rustls::ALL_VERSIONS));
            client.write_all(text.as_bytes()).unwrap();
            client.flush().unwrap();
            take(&mut client);
        } else {
            let mut socket = connect(&running);
            socket.write_all(text.as_bytes()).unwrap();
            take(&mut socket);
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.contains(&format!("\r\n\r\n{body}HTTP/1.1 202 ")), "TLS: {tls}");
    }
}
