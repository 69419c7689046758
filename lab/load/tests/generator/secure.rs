//! TLS and HTTP/2, against servers that are made without code of the generator.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::secure::{Reply, SecureServer, reply};
use crate::support::{Server, load, made_by, ok};
use http::Response;
use pellucid_load::{Limit, LoadError, LoadOptions, ScriptOptions, Target, run};

fn failure(options: &LoadOptions) -> String {
    match run(options, &mut |_| {}) {
        Err(error @ LoadError::Http(_)) => error.to_string(),
        other => panic!("TLS must fail: {:?}", other.map(|result| result.requests)),
    }
}

#[test]
fn http1_over_tls_in_both_loops() {
    let server = SecureServer::start("http/1.1", |_| reply(&[b'x'; 100_000]));
    let result = load(&server.options());
    assert_eq!((result.requests, result.errors.all()), (40, 0), "{:?}", result.first_error);
    assert_eq!(server.connections.load(Ordering::SeqCst), 2, "the first look and the run's own");
    let paced = LoadOptions {
        rate_per_second: Some(200),
        connections: 4,
        limit: Limit::Duration(Duration::from_millis(300)),
        ..server.options()
    };
    let result = load(&paced);
    assert_eq!((result.requests + result.unanswered, result.errors.all()), (60, 0));
}

/// Regression: the scheme that scripts see was always `http`.
#[test]
fn scripts_see_the_scheme_of_the_url() {
    let server = SecureServer::start("h2", |request| {
        assert_eq!(request.uri().path(), "/https");
        reply(b"ok")
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scheme.lua");
    std::fs::write(&path, "wrk.path = '/' .. wrk.scheme").unwrap();
    let script = Some(ScriptOptions { path, arguments: Vec::new() });
    let result = load(&LoadOptions { script, http2_streams: Some(2), ..server.options() });
    assert_eq!((result.requests, result.errors.all()), (40, 0), "{:?}", result.first_error);
}

/// The time of the TLS handshake is part of the response time, and is also recorded separately.
#[test]
fn a_secure_connection_for_each_request_is_part_of_its_time() {
    let server = SecureServer::start("http/1.1", |_| reply(b"ok"));
    let options = LoadOptions { keep_alive: false, ..server.options() };
    let result = load(&options);
    assert_eq!((result.requests, result.errors.all()), (40, 0), "{:?}", result.first_error);
    assert!(result.times.tls.len() >= result.requests && result.times.tls.min() > 0);
    assert!(result.times.connect.max() >= result.times.tls.max());
    let trace = &result.traces.slowest[0];
    assert!(trace.tls_ns > 0 && trace.tls_ns + trace.connect_ns < trace.response_ns);
}

#[test]
fn tls_errors_are_reported_before_the_run() {
    let server = SecureServer::start("http/1.1", |_| reply(b"ok"));
    let mut options = server.options();
    options.tls.ca_file = Some(server.file("server.pem"));
    assert!(failure(&options).contains("--insecure"), "{}", failure(&options));
    options.tls.insecure = true;
    assert_eq!(load(&options).requests, 40);
    options.http2_streams = Some(4);
    assert!(failure(&options).contains("HTTP/2"), "{}", failure(&options));
    // A server that does not speak TLS.
    let plain = Server::start(|_| ok());
    let url = format!("https://localhost:{}/", plain.address.port());
    let (target, timeout) = (Target::parse(&url).unwrap(), Duration::from_secs(1));
    let text = failure(&LoadOptions { target, timeout, ..options });
    assert!(text.starts_with("TLS: localhost:"), "{text}");
}

#[test]
fn single_questions_go_over_tls_too() {
    let server = SecureServer::start("http/1.1", |_| reply(b"an account"));
    let (status, answer) = server.options().ask("/_admin").unwrap();
    assert_eq!((status, answer.body), (200, b"an account".to_vec()));
}

#[test]
fn http2_is_agreed_on_and_carries_many_requests_at_once() {
    let slow = |_| Reply { after: Some(Duration::from_millis(20)), ..reply(b"ok") };
    let server = SecureServer::start("h2", slow);
    let limit = Limit::Requests(160);
    let options = LoadOptions { http2_streams: Some(16), limit, ..server.options() };
    let result = load(&options);
    assert_eq!((result.requests, result.errors.all()), (160, 0), "{:?}", result.first_error);
    assert_eq!(server.most_at_once.load(Ordering::SeqCst), 16);
    assert_eq!(result.load.protocol, "HTTP/2");
}

#[test]
fn large_requests_and_answers_go_through_the_windows() {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let server = SecureServer::start("h2", move |request| {
        assert_eq!((request.method().as_str(), request.uri().path()), ("PUT", "/big"));
        assert_eq!(request.headers()["x-case"], "Yes");
        assert_eq!(request.body().len(), 1_000_000);
        count.fetch_add(1, Ordering::SeqCst);
        reply(&vec![b'y'; 3_000_000])
    });
    let mut options = server.options();
    options.http2_streams = Some(3);
    options.limit = Limit::Requests(12);
    options.sources = made_by(|out| {
        let head = "PUT /big HTTP/1.1\r\nHost: h\r\nX-Case: Yes\r\nContent-Length: 1000000\r\n\r\n";
        out.extend_from_slice(head.as_bytes());
        out.resize(out.len() + 1_000_000, b'x');
    });
    let result = load(&options);
    assert_eq!((result.requests, result.errors.all()), (12, 0), "{:?}", result.first_error);
    assert_eq!(seen.load(Ordering::SeqCst), 12);
    assert!(result.bytes > 36_000_000);
}

#[test]
fn statuses_and_server_timing_are_read() {
    let server = SecureServer::start("h2", |request| {
        assert_eq!(request.headers()["prefer"], "timing");
        assert!(request.headers()["traceparent"].len() == 55);
        let response = Response::builder().status(503).header("server-timing", "db;dur=0.25");
        Reply { after: Some(Duration::ZERO), response: response.body(Vec::new()).unwrap() }
    });
    let options = LoadOptions {
        http2_streams: Some(2),
        ask_timing: true,
        rate_per_second: Some(100),
        limit: Limit::Requests(30),
        ..server.options()
    };
    let result = load(&options);
    assert!(result.requests >= 30);
    assert_eq!(result.errors.status, result.requests);
    assert_eq!(result.traces.metrics, ["db"]);
    assert!(result.traces.some.iter().all(|trace| trace.server == [(0, 250_000)]));
}
