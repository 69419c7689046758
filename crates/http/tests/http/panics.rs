//! Panics in the code of requests: each ends only its own request. (Formerly one ended the process,
//! with all requests in flight.)

use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{
    PANICKED, TestServer, answers, client_of_http2 as client, connect, request, start,
};
use pellucid_http::Limits;

/// Paths at which a request's code panics: on its event loop, on another thread, or on resumption.
const ANSWERED: [&str; 5] =
    ["/panic", "/panic-taken", "/panic-dropped", "/panic-later", "/panic-resumed"];

/// Sends one request on a new connection, and returns all that comes until the server closes it.
fn answer(running: &TestServer, path: &str) -> String {
    answers(connect(running), request(path, "", ""))
}

/// Waits until no request is in flight: messages about ended requests may still be under way.
fn expect_none_in_flight(running: &TestServer) {
    running.until("none is in flight", |stats| stats.requests_in_flight == 0);
    // A late message would make the count wrap below zero.
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(running.stats().requests_in_flight, 0);
}

#[test]
fn a_panic_ends_its_request_with_500_and_nobody_elses() {
    // With a limit of one request, a wrong count shows at once.
    let running = start(Limits { requests_in_flight: 1, ..Limits::default() });
    let before = PANICKED.load(Ordering::Acquire);
    let mut other = connect(&running);
    for path in ANSWERED {
        let text = answer(&running, path);
        assert!(text.starts_with("HTTP/1.1 500 "), "{path}: {text}");
        assert!(text.contains("Connection: close") && !text.contains("X-Begun"), "{path}: {text}");
        assert_eq!(text.matches("HTTP/1.1").count(), 1, "{path}: {text}");
        expect_none_in_flight(&running);
        other.write_all(b"POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").unwrap();
        let mut buffer = [0; 1_000];
        let count = other.read(&mut buffer).unwrap();
        assert!(buffer[..count].starts_with(b"HTTP/1.1 202 "), "{path}");
    }
    let text = answer(&running, "/panic-body");
    assert!(text.starts_with("HTTP/1.1 200 ") && !text.contains("0\r\n\r\n"), "{text}");
    expect_none_in_flight(&running);
    let told = PANICKED.load(Ordering::Acquire) - before;
    assert!(told >= ANSWERED.len(), "{told} told");
}

#[test]
fn a_panic_ends_its_stream_with_500_and_no_other_stream() {
    let running = start(Limits::default());
    let mut client = client(&running);
    for path in ANSWERED {
        let answers = client.exchange(&[("/later", b"before"), (path, b""), ("/", b"behind")]);
        let statuses: Vec<u16> =
            answers.iter().map(|answer| answer.as_ref().unwrap().0.status.as_u16()).collect();
        assert_eq!(statuses, [202, 500, 200], "{path}");
        assert!(!answers[1].as_ref().unwrap().0.headers.contains_key("x-begun"), "{path}");
        expect_none_in_flight(&running);
    }
    let answers = client.exchange(&[("/panic-body", b""), ("/", b"behind")]);
    assert!(answers[0].is_err() && answers[1].is_ok());
    expect_none_in_flight(&running);
}
