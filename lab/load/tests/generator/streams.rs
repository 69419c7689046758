//! HTTP/2 in virtual time: several requests in flight on a connection, and servers that end
//! connections at any time.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::secure::{Reply, ServerBehaviour, reply};
use crate::support::streams::{DrainingServer, Http2Server};
use crate::support::{load, made_by, numbered, opened, simulated};
use pellucid_load::simulation::{HttpServer, Reply as Whole, Service, Simulation};
use pellucid_load::{Figures, Limit, LoadOptions, Verdict, judge};

const MS: u64 = 1_000_000;

fn after(ms: u64) -> Reply {
    Reply { after: Some(Duration::from_millis(ms)), ..reply(b"ok") }
}

fn options(simulation: &Arc<Simulation>, streams: usize) -> LoadOptions {
    LoadOptions { http2_streams: Some(streams), ..simulated(simulation, 1, 1) }
}

#[test]
fn a_closed_loop_keeps_all_streams_busy() {
    let server = Http2Server::new(ServerBehaviour::default(), |_| after(20));
    let most = Arc::clone(&server.most_at_once);
    let result = load(&options(&Simulation::new(server), 16));
    assert_eq!((result.requests, result.errors.all()), (16 * 50, 0), "{:?}", result.first_error);
    assert_eq!(most.load(Ordering::SeqCst), 16);
    assert_eq!(result.times.response.max() / MS, 20);
}

#[test]
fn the_server_limits_the_number_of_streams() {
    let manner = ServerBehaviour { streams_max: Some(3), ..ServerBehaviour::default() };
    let server = Http2Server::new(manner, |_| after(5));
    let most = Arc::clone(&server.most_at_once);
    let result = load(&options(&Simulation::new(server), 64));
    assert_eq!((result.requests, result.errors.all()), (600, 0), "{:?}", result.first_error);
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

/// With one request at a time, a connection would carry 20 of these a second, and the run would
/// measure only the wait for it.
#[test]
fn at_a_rate_the_streams_of_a_connection_are_used_before_anything_waits() {
    let run = |streams| {
        let simulation =
            Simulation::new(Http2Server::new(ServerBehaviour::default(), |_| after(50)));
        load(&LoadOptions { rate_per_second: Some(200), ..options(&simulation, streams) })
    };
    let result = run(64);
    assert_eq!((result.requests, result.unanswered, result.errors.all()), (191, 9, 0));
    assert_eq!((result.times.connection_wait.max(), result.times.response.max() / MS), (0, 50));
    // With two streams, 40 of 200 requests a second get through. The others wait for a connection,
    // which the figures show.
    let result = run(2);
    assert!((39..=40).contains(&result.requests), "{}", result.requests);
    assert!(
        result.times.connection_wait.max() > 700 * MS,
        "{}",
        result.times.connection_wait.max()
    );
    assert_eq!(result.times.service.max() / MS, 50);
}

/// Regression: the wait for a stream counted as the generator's own delay if the server allowed
/// fewer streams than the generator, so a saturated server was judged `generator-limited`.
#[test]
fn waits_for_streams_that_the_server_allows_are_no_delay_of_the_generator() {
    let manner = ServerBehaviour { streams_max: Some(2), ..ServerBehaviour::default() };
    let simulation = Simulation::new(Http2Server::new(manner, |_| after(50)));
    let result = load(&LoadOptions { rate_per_second: Some(200), ..options(&simulation, 64) });
    assert!((39..=40).contains(&result.requests), "{}", result.requests);
    let [wait_ns, delay_ns] =
        [&result.times.connection_wait, &result.times.generator_delay].map(|time| time.max());
    assert!(wait_ns > 700 * MS && delay_ns < MS, "{wait_ns} {delay_ns}");
    let judgement = judge(&Figures::of(&result));
    assert_eq!(judgement.verdict, Verdict::Saturated, "{judgement:?}");
}

/// Regression: a connection whose streams were all given up sent nothing more.
#[test]
fn a_stream_without_an_answer_times_out_and_its_connection_goes_on() {
    for streams in [1, 2] {
        let number = AtomicUsize::new(0);
        let server = Http2Server::new(ServerBehaviour::default(), move |_| {
            let is_first = number.fetch_add(1, Ordering::SeqCst) == 0;
            let after = (!is_first).then_some(Duration::from_millis(1));
            Reply { after, ..reply(b"ok") }
        });
        let timeout = Duration::from_millis(20);
        let result = load(&LoadOptions { timeout, ..options(&Simulation::new(server), streams) });
        assert_eq!(result.errors.timeout, 1, "{:?}", result.errors);
        assert_eq!((result.errors.read, result.errors.write), (0, 0));
        // The silent stream is given up after five timeouts, which is a tenth of the run.
        let most = streams as u64 * 1_000 - 100;
        assert!((most - 20..=most).contains(&result.requests), "{}", result.requests);
    }
}

#[test]
fn a_connection_that_is_ended_in_order_loses_nothing() {
    let manner =
        ServerBehaviour { requests_per_connection: Some(10), ..ServerBehaviour::default() };
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let server = Http2Server::new(manner, move |request| {
        assert_eq!(&request.uri().path().as_bytes()[1..], request.body());
        log.lock().unwrap().push(request.uri().path().to_owned());
        after(1)
    });
    let options = LoadOptions { sources: numbered(), ..options(&Simulation::new(server), 8) };
    let result = load(&LoadOptions { limit: Limit::Requests(200), ..options.clone() });
    assert_eq!((result.requests, result.errors.all()), (200, 0), "{:?}", result.first_error);
    assert!(opened(&options) >= 10, "{}", opened(&options));
    let mut seen = seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 200, "none is sent twice");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 200);
}

/// Requests that a GOAWAY refuses are sent again on the next connection, and are not errors.
/// Browsers do the same: a server that ends its connections now and then is not broken.
#[test]
fn requests_that_a_goaway_refuses_are_sent_again() {
    for of_a_source in [false, true] {
        let simulation = Simulation::new(DrainingServer::after(5));
        let mut options = options(&simulation, 8);
        if of_a_source {
            options.sources = numbered();
        }
        let result = load(&LoadOptions { limit: Limit::Requests(100), ..options });
        let counted = (result.requests, result.unanswered, result.errors.all());
        assert_eq!(counted, (100, 0, 0), "{:?}", result.first_error);
        // Three of eight are refused each time.
        assert!((50..=80).contains(&result.sent_again), "{}", result.sent_again);
        assert!((20..=21).contains(&simulation.connections()), "{}", simulation.connections());
    }
}

/// A server that refuses every request must not keep the run busy forever, and these errors have
/// their own kind.
#[test]
fn requests_that_are_always_refused_are_counted_as_left_out() {
    let simulation = Simulation::new(DrainingServer::after(0));
    let result = load(&LoadOptions { rate_per_second: Some(50), ..options(&simulation, 8) });
    assert_eq!((result.requests, result.errors.read), (0, 0));
    assert!(result.errors.left_out > 5, "{:?}", result.errors);
    assert_eq!(result.errors.left_out, result.errors.all());
    assert!(result.first_error.unwrap().contains("GOAWAY"));
}

/// A server that works, and reads, only every 20 ms.
struct SlowReader {
    server: Http2Server,
    next_ns: u64,
}

impl Service for SlowReader {
    fn accept(&mut self, socket: UnixStream) -> io::Result<()> {
        self.server.accept(socket)
    }

    fn step(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns >= self.next_ns {
            self.next_ns = now_ns + 20 * MS;
            self.server.step(now_ns);
        }
        Some(self.next_ns)
    }
}

/// Regression: only the last of the requests that were sent together had a time of sending, and
/// none of them if the socket did not take all at once.
#[test]
fn requests_that_wait_for_the_socket_show_it_in_their_traces() {
    let server = Http2Server::new(ServerBehaviour::default(), |_| reply(b"ok"));
    let simulation = Simulation::new(SlowReader { server, next_ns: 0 });
    let sources = made_by(|out| {
        let path = "x".repeat(10_000);
        out.extend_from_slice(format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
    });
    let result = load(&LoadOptions { sources, ..options(&simulation, 32) });
    let first = result.traces.some.iter().filter(|trace| trace.start_ns < MS);
    let sends: Vec<u64> = first.map(|trace| trace.send_ns / MS).collect();
    assert!(sends.len() > 1 && sends.iter().all(|ms| *ms >= 19), "{sends:?}");
}

#[test]
fn a_server_without_http2_is_reported() {
    let simulation = Simulation::new(HttpServer::new(|_| Whole::ok()));
    let result = load(&options(&simulation, 1));
    assert_eq!(result.requests, 0);
    let first = result.first_error.unwrap();
    assert!(first.contains("no HTTP/2") || first.contains("ended before"), "{first}");
}
