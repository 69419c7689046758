//! The closed and the open loop, against servers that behave and servers that do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Server, against, answer, load, made_by, numbered, ok, opened};
use pellucid_load::simulation::Reply;
use pellucid_load::{
    Figures, HttpError, Limit, LoadError, LoadOptions, Objectives, Pacer, Progress, Target,
    Verdict, judge, run,
};

const MS: u64 = 1_000_000;

#[test]
fn a_constant_delay_of_the_server_shows_in_every_percentile() {
    let options = against(|_| Reply::ok().after(Duration::from_millis(5)));
    let result = load(&LoadOptions { connections: 2, ..options });
    // `against` runs for 300 ms: 60 answers on each connection. The least value of a histogram is
    // rounded down, so 5 ms reads as 4. An answer of `Reply::ok` has 40 bytes.
    assert_eq!((result.requests, result.status_classes[2]), (120, 120));
    assert_eq!((result.times.response.min() / MS, result.times.response.max() / MS), (4, 5));
    assert_eq!(result.times.response, result.times.service);
    assert_eq!(result.times.response.len(), result.requests);
    assert_eq!(result.course.throughput_per_second.iter().sum::<u64>(), result.requests);
    assert_eq!(result.bytes, result.requests * 40);
    assert!(result.course.samples.iter().all(|sample| sample.response_time_ns == 5 * MS));
}

#[test]
fn the_rate_is_kept_over_all_connections_and_threads() {
    let server = Server::start(|_| ok());
    let mut options = server.options();
    options.rate_per_second = Some(2_000);
    (options.connections, options.threads) = (7, 2);
    options.limit = Limit::Duration(Duration::from_millis(500));
    let result = load(&options);
    assert_eq!(result.requests + result.unanswered, 1_000);
    assert_eq!(result.per_thread.len(), 2);
    assert_eq!(
        server.connections.load(Ordering::SeqCst),
        8,
        "7, and one that first checks that the server can be reached"
    );
    assert_eq!(result.errors.sockets(), 0);
}

#[test]
fn the_warm_up_is_counted_but_not_recorded() {
    let options = LoadOptions {
        rate_per_second: Some(100),
        warm_up: Duration::from_millis(200),
        limit: Limit::Duration(Duration::from_millis(400)),
        ..against(|request| {
            Reply::ok().after(Duration::from_millis(if request.number < 10 { 15 } else { 1 }))
        })
    };
    let result = load(&options);
    assert_eq!((result.requests, result.unanswered), (40, 0));
    assert_eq!(result.times.response.len(), 20);
    assert!(result.times.response.max() < 2 * MS, "{}", result.times.response.max());
}

/// Regression: after a connection broke, the pause before its replacement was counted as delay of
/// the generator. It is a wait for a connection.
#[test]
fn the_pause_before_a_new_connection_is_a_wait_for_one() {
    let options = LoadOptions {
        keep_alive: false,
        rate_per_second: Some(100),
        limit: Limit::Duration(Duration::from_secs(1)),
        ..against(|request| match request.number % 10 {
            3 => Reply::new(b"").closing(),
            _ => Reply::ok(),
        })
    };
    let result = load(&options);
    assert!(result.errors.read >= 5, "{:?}", result.errors);
    let [wait_ns, delay_ns] =
        [&result.times.connection_wait, &result.times.generator_delay].map(|time| time.max());
    assert!(wait_ns >= 40 * MS && delay_ns < MS, "{wait_ns} {delay_ns}");
}

/// Regression: with wrk2's timers, requests that were due and never sent were not in
/// `times.unanswered`, so objectives did not count them.
#[test]
fn requests_that_wrk2_would_not_have_sent_count_with_their_waits() {
    let options = LoadOptions {
        rate_per_second: Some(100),
        pacer: Pacer::Wrk2,
        ..against(|request| match request.number {
            0..20 => Reply::ok(),
            _ => Reply::never(),
        })
    };
    let result = load(&options);
    assert_eq!((result.requests, result.unanswered), (20, 10));
    assert_eq!(result.times.unanswered.len(), 10);
    let at_least = |at_ms: u64| result.times.unanswered.count_between(at_ms * MS, u64::MAX);
    assert_eq!((at_least(95), at_least(45), at_least(5)), (1, 6, 10));
}

/// Regression: with wrk2's timers, a server that refused all connections at the end of a run was
/// not silent.
#[test]
fn a_server_that_is_gone_at_the_end_is_silent() {
    for pacer in [Pacer::Exact, Pacer::Wrk2] {
        let options = against(|request| match request.number {
            0..50 => Reply::ok(),
            _ => Reply::last(),
        });
        let limit = Limit::Duration(Duration::from_secs(1));
        let result = load(&LoadOptions { rate_per_second: Some(100), pacer, limit, ..options });
        let silence = result.course.silence;
        assert!(silence.at_end_ns >= 100 * MS, "{pacer:?}: {silence:?}");
    }
}

/// Regression: an objective on errors divided them by the answers alone, so that a share could be
/// above one, and differed from the verdict's.
#[test]
fn the_share_of_errors_is_one_of_all_requests() {
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";
    let options = against(|request| match request.number % 2 {
        0 => Reply::ok(),
        _ => Reply::new(half).closing(),
    });
    let result = load(&LoadOptions { limit: Limit::Requests(30), ..options });
    assert_eq!((result.requests, result.unanswered, result.errors.all()), (15, 15, 15));
    assert_eq!((result.errors.read, result.errors.malformed), (15, 15), "answers were truncated");
    let check = |text: &str| Objectives::parse(text).unwrap().check(&result);
    assert_eq!(check("p50=10s,errors=50%"), Ok(()));
    assert_eq!(check("p50=10s,errors=49%"), Err("15 of 30 requests failed".to_owned()));
}

/// Regression: a connection that broke counted as one error, however many requests it lost, so a
/// run that lost one in fifty was judged stable.
#[test]
fn every_request_that_a_connection_loses_counts_as_failed() {
    let options = against(|request| match request.number % 500 {
        499 => Reply::new(b"").closing(),
        _ => Reply::ok().after(Duration::from_micros(10)),
    });
    let result = load(&LoadOptions { pipeline_depth: 32, ..options });
    let (lost, tried) = (result.unanswered - 32, result.requests + result.unanswered);
    assert!(lost * 50 > tried && result.errors.read * 200 < tried, "{lost} of {tried}");
    let judgement = judge(&Figures::of(&result));
    assert_eq!(judgement.verdict, Verdict::Errors, "{judgement:?}");
    let kept = Objectives::parse("p50=10s,errors=1%").unwrap().check(&result);
    assert!(kept.is_err_and(|reason| reason.contains(" requests failed")));
}

/// Regression: requests behind an answer with `Connection: close` failed without an error, so the
/// evidence for the verdict `errors` was "no errors".
#[test]
fn requests_behind_the_last_answer_of_a_connection_are_read_errors() {
    let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let options = against(|request| match request.number % 500 {
        499 => Reply::new(last).closing(),
        _ => Reply::ok().after(Duration::from_micros(10)),
    });
    let result = load(&LoadOptions { pipeline_depth: 32, ..options });
    let judgement = judge(&Figures::of(&result));
    assert_eq!(judgement.verdict, Verdict::Errors, "{judgement:?}");
    assert!(judgement.evidence[0].contains(" failed: read "), "{judgement:?}");
    assert!(result.first_error.is_some_and(|error| error.contains("ended before the answer")));
}

#[test]
fn connections_that_the_server_closes_are_replaced() {
    for header in ["Connection: close\r\n", ""] {
        let text = format!("HTTP/1.1 200 OK\r\n{header}Content-Length: 2\r\n\r\nok");
        let options = LoadOptions {
            limit: Limit::Requests(30),
            ..against(move |_| Reply::new(text.as_bytes()).closing())
        };
        let result = load(&options);
        assert!(result.requests >= 15, "{header:?}: {} requests", result.requests);
        assert!(opened(&options) >= result.requests, "{header:?}: {}", opened(&options));
        if !header.is_empty() {
            assert_eq!((result.requests, result.errors.sockets()), (30, 0));
        }
    }
}

#[test]
fn a_body_that_ends_with_the_connection_is_whole() {
    let bytes = b"HTTP/1.1 200 OK\r\n\r\nuntil the end";
    let options = against(|_| Reply::new(bytes).closing());
    let result = load(&LoadOptions { limit: Limit::Requests(30), ..options });
    assert_eq!((result.requests, result.errors.sockets()), (30, 0), "{:?}", result.first_error);
}

#[test]
fn chunked_answers_are_counted_once() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let options = against(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Reply::new(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    });
    let result = load(&LoadOptions { limit: Limit::Requests(30), ..options });
    assert_eq!((result.requests, result.errors.sockets()), (30, 0));
    assert_eq!(asked.load(Ordering::Relaxed), 30);
}

#[test]
fn answers_that_are_not_http_are_read_errors() {
    for bytes in ["nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"] {
        let result = load(&against(move |_| Reply::new(bytes.as_bytes())));
        assert_eq!(result.requests, 0);
        assert!(result.errors.malformed > 0, "{bytes:?}");
        assert_eq!(result.errors.read, result.errors.malformed);
        assert!(result.errors.read < 20, "it must not reconnect as fast as it can");
        assert!(result.first_error.is_some_and(|text| text.starts_with("read: the response")));
    }
}

#[test]
fn bytes_that_nobody_asked_for_are_read_errors() {
    let options = against(|_| Reply::new(b"HTTP/1.1 204 No Content\r\n\r\nmore"));
    let result = load(&LoadOptions { limit: Limit::Requests(30), ..options });
    assert!(result.requests > 0 && result.errors.malformed > 0);
}

/// Regression: a search for the highest rate went down to one request a second if some keys were
/// missing on purpose, because every 404 counted as an error.
#[test]
fn a_status_that_is_accepted_is_no_error() {
    let options = against(|request| {
        Reply::new(match request.number % 3 {
            0 => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            1 => b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n",
            _ => b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        })
    });
    let options = LoadOptions { limit: Limit::Requests(30), ..options };
    assert_eq!(load(&options).errors.status, 20);
    let result = load(&LoadOptions { accepted_statuses: vec![404], ..options.clone() });
    assert_eq!((result.requests, result.errors.status, result.errors.all()), (30, 10, 10));
    let wrong = LoadOptions { accepted_statuses: vec![200], ..options };
    assert!(
        matches!(run(&wrong, &mut |_| {}), Err(LoadError::Option(text)) if text.contains("400"))
    );
}

#[test]
fn statuses_of_400_and_above_are_answers_and_errors() {
    let options = against(|request| match request.number % 2 {
        0 => Reply::ok(),
        _ => Reply::new(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
    });
    let result = load(&LoadOptions { limit: Limit::Requests(30), ..options });
    assert_eq!((result.requests, result.errors.status), (30, 15));
    assert_eq!((result.status_classes[2], result.status_classes[5]), (15, 15));
    assert_eq!(result.first_error.as_deref(), Some("an answer had status 503"));
}

#[test]
fn a_request_without_an_answer_times_out_once() {
    let timeout = Duration::from_millis(100);
    let result = load(&LoadOptions { connections: 2, timeout, ..against(|_| Reply::never()) });
    assert_eq!((result.errors.timeout, result.requests), (2, 0));
    assert_eq!(result.unanswered, 2);
}

/// Regression: a request that was given up was in no percentile and met every objective on time.
#[test]
fn a_silent_connection_is_given_up_after_five_times_the_timeout() {
    let options = against(|request| match request.number {
        0 => Reply::never(),
        _ => Reply::ok().after(Duration::from_millis(1)),
    });
    let timeout = Duration::from_millis(20);
    let result = load(&LoadOptions { timeout, ..options });
    assert_eq!(
        (result.errors.timeout, result.unanswered),
        (1, 2),
        "the other is in flight when the run ends"
    );
    assert!(result.requests > 140, "a new connection takes over: {}", result.requests);
    assert!(result.times.unanswered.max() >= 100 * MS, "{}", result.times.unanswered.max());
    let kept = Objectives::parse("p100=50ms,errors=100%").unwrap().check(&result);
    assert!(kept.is_err_and(|reason| reason.starts_with("p100 was at least 10")));
}

/// A timeout of 20 ms is checked every 5 ms. An answer that comes later still counts, with its full
/// latency.
#[test]
fn a_late_answer_is_a_timeout_and_an_answer() {
    let options = against(|_| Reply::ok().after(Duration::from_millis(50)));
    let timeout = Duration::from_millis(20);
    let result = load(&LoadOptions { timeout, ..options });
    assert_eq!((result.requests, result.errors.timeout), (6, 6));
    assert_eq!(result.times.response.max() / MS, 50);
}

#[test]
fn an_unreachable_server_is_named() {
    let options = LoadOptions::new(Target::parse("http://127.0.0.1:1/").unwrap());
    let error = run(&options, &mut |_| {}).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("unable to connect to 127.0.0.1:1: "), "{text}");
    assert!(matches!(error, LoadError::Http(HttpError::Connect { .. })));
}

#[test]
fn the_caller_can_stop_a_run_and_keeps_its_result() {
    let server = Server::start(|_| ok());
    let mut options = server.options();
    options.limit = Limit::Duration(Duration::from_secs(600));
    options.stop = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&options.stop);
    let result = run(&options, &mut |progress| {
        if let Progress::Running { requests, .. } = progress {
            stop.store(requests > 0, Ordering::Relaxed);
        }
    })
    .unwrap();
    assert!(result.stopped_early && result.requests > 0);
}

#[test]
fn a_run_limited_by_requests_sends_each_exactly_once() {
    let server = Server::start(|_| ok());
    let mut options = server.options();
    (options.connections, options.threads, options.pipeline_depth) = (3, 2, 16);
    options.limit = Limit::Requests(5_001);
    options.sources = numbered();
    let result = load(&options);
    assert_eq!((result.requests, result.unanswered), (5_001, 0));
    assert!(!result.stopped_early);
    let mut lines = server.lines();
    lines.sort();
    let mut expected: Vec<String> = (0..5_001).map(|n| format!("PUT /{n} HTTP/1.1")).collect();
    expected.sort();
    assert_eq!(lines, expected);
}

/// A source is code of the caller: its panic must reach the caller, and not leave the run waiting.
#[test]
#[should_panic(expected = "the source is broken")]
fn a_panic_of_a_source_reaches_the_caller() {
    let server = Server::start(|_| ok());
    let mut options = server.options();
    options.sources = made_by(|_| panic!("the source is broken"));
    load(&options);
}

#[test]
fn an_answer_to_head_has_no_body() {
    let server = Server::start(|_| answer(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"));
    let mut options = server.options();
    options.limit = Limit::Requests(50);
    options.sources = made_by(|out| out.extend_from_slice(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"));
    let result = load(&options);
    assert_eq!((result.requests, result.errors.sockets()), (50, 0));
}

/// A body larger than the socket's buffer is written in parts, and all of it arrives.
#[test]
fn a_large_request_is_written_in_parts() {
    const BODY: usize = 8 << 20;
    let server = Server::start(|request| {
        assert_eq!(request.body.len(), BODY);
        ok()
    });
    let mut options = server.options();
    options.limit = Limit::Requests(3);
    options.sources = made_by(|out| {
        let head = format!("PUT / HTTP/1.1\r\nContent-Length: {BODY}\r\n\r\n");
        out.extend_from_slice(head.as_bytes());
        out.resize(out.len() + BODY, b'x');
    });
    assert_eq!(load(&options).requests, 3);
}
