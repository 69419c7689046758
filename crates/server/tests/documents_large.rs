//! Chunked bodies, whose length is not known in advance: they are refused once they are too long,
//! and the memory that they take until then is bounded.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Answer, TestServer, start_with};

/// Bytes that a client would send: more than any body may have.
const STREAM_BYTES: usize = (1 << 30) + (1 << 20);

/// Bytes that may be in flight at the time of a refusal: those in the sockets' buffers, and those
/// that the server reads so that the client sees the refusal.
const UNDER_WAY_BYTES: usize = 16 << 20;

/// The resident memory of this process, in bytes.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4_096
}

/// Sends a body in chunks until the answer comes or all is sent. Returns the answer, and the number
/// of bytes sent.
fn stream(server: &TestServer, target: &str) -> (Answer, usize) {
    let head = format!("POST {target} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut client = server.sent(head.as_bytes());
    let mut socket = client.socket.try_clone().unwrap();
    let is_answered = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let text = b"{\"text\":\"some words\"}\n".repeat(3_000);
            let chunk = [format!("{:x}\r\n", text.len()).as_bytes(), &text, b"\r\n"].concat();
            let mut sent = 0;
            while sent < STREAM_BYTES && !is_answered.load(Ordering::Relaxed) {
                if socket.write_all(&chunk).is_err() {
                    break;
                }
                sent += text.len();
            }
            sent
        });
        let answer = client.answer();
        is_answered.store(true, Ordering::Relaxed);
        (answer, sending.join().unwrap())
    })
}

/// The body has more than a gigabyte. It is refused by its own limit, or by that of all bodies
/// together.
#[test]
fn a_stream_that_is_too_long_is_refused_early_and_held_in_bounded_memory() {
    let room = 24 << 20;
    let server = start_with(|options| options.limits.body_bytes_in_flight = room);
    assert_eq!(
        server.client().call("POST", "/_api/collection", &[], br#"{"name":"c"}"#).status,
        200
    );
    for (target, limit) in [
        ("/_api/collection", 1 << 20),
        ("/_api/import?collection=c&type=documents", room),
        ("/_api/document/c", room),
        ("/_api/cursor", room),
    ] {
        let before = resident_bytes();
        let (answer, sent) = stream(&server, target);
        assert_eq!(answer.status, 413, "{target}: {}", answer.text());
        assert!(sent < limit + UNDER_WAY_BYTES, "{target}: {sent} bytes were taken");
        // While a buffer grows, two copies of it exist for a moment.
        let more = resident_bytes().saturating_sub(before);
        assert!(more < 2 * limit + UNDER_WAY_BYTES, "{target}: {more} bytes were held");
    }
    let count = server.client().get("/_api/collection/c/count").json();
    assert_eq!(count["count"], 0);
}
