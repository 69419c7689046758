//! The generator's figures against the server's own notes of the same run, in virtual time: the
//! server notes its delays, and only the run moves the clock. Any difference is an error.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{ServerCapacity, load, paced_in, simulated};
use hdrhistogram::Histogram;
use pellucid_load::simulation::{HttpServer, Reply, Request, SimulatedOverhead, Simulation};
use pellucid_load::{Figures, LoadOptions, LoadResult, Objectives, Pacer, Stage, Verdict, judge};

const MS: u64 = 1_000_000;

/// A server that delays its answers by `delay_of` and notes each delay.
fn noting(
    delay_of: impl Fn(&Request) -> Duration + Send + 'static,
) -> (Arc<Simulation>, Arc<Mutex<Histogram<u64>>>) {
    let noted = Arc::new(Mutex::new(Histogram::<u64>::new(3).unwrap()));
    let notes = Arc::clone(&noted);
    let server = HttpServer::new(move |request| {
        let delay = delay_of(request);
        notes.lock().unwrap().record(delay.as_nanos() as u64).unwrap();
        Reply::ok().after(delay)
    });
    (Simulation::new(server), noted)
}

/// Asserts that two times differ by at most a percent; the histograms alone can differ by a tenth
/// of that.
fn assert_near(name: &str, client_ns: u64, server_ns: u64) {
    let ratio = client_ns as f64 / server_ns as f64;
    assert!((0.99..=1.01).contains(&ratio), "{name}: {client_ns} ns against {server_ns} ns");
}

fn assert_all_near(result: &LoadResult, noted: &Histogram<u64>, quantiles: &[f64]) {
    for quantile in quantiles {
        let expected = noted.value_at_quantile(*quantile);
        assert_near("service", result.times.service.value_at_quantile(*quantile), expected);
        assert_near("response", result.times.response.value_at_quantile(*quantile), expected);
    }
}

#[test]
fn a_constant_delay_shows_in_every_percentile() {
    let (simulation, noted) = noting(|_| Duration::from_micros(1_500));
    let result = load(&paced_in(&simulation, 2_000, 16, 5));
    assert_eq!((result.requests, result.unanswered), (9_998, 2), "two were under way at the end");
    let noted = noted.lock().unwrap().clone();
    assert_all_near(&result, &noted, &[0.0, 0.01, 0.5, 0.9, 0.99, 0.9999, 1.0]);
    assert_eq!(result.times.send_lateness.max(), 0);
}

#[test]
fn a_slow_hundredth_shows_at_the_right_percentiles() {
    let slow =
        |request: &Request| Duration::from_millis(if request.number % 100 == 7 { 100 } else { 1 });
    let (simulation, noted) = noting(slow);
    let result = load(&paced_in(&simulation, 1_000, 16, 20));
    let noted = noted.lock().unwrap().clone();
    let quantiles = [0.1, 0.5, 0.9, 0.985, 0.989, 0.991, 0.995, 0.999, 1.0];
    assert_all_near(&result, &noted, &quantiles);
    assert!(result.times.service.value_at_quantile(0.989) < 2 * MS);
    assert!(result.times.service.value_at_quantile(0.991) >= 99 * MS);
}

/// All of the 1,000 requests that were due during the freeze have waited for its end. Only the two
/// requests in flight show it in the service time.
#[test]
fn a_freeze_shows_in_full_in_the_response_time_and_not_in_the_service_time() {
    let frozen = 2_000 * MS..3_000 * MS;
    let server = HttpServer::new(move |request| {
        let thaws = Duration::from_nanos(frozen.end.saturating_sub(request.begin_ns));
        let held = frozen.contains(&request.begin_ns);
        Reply::ok().after(if held { thaws } else { Duration::from_micros(100) })
    });
    let simulation = Simulation::new(server);
    let result = load(&paced_in(&simulation, 1_000, 2, 5));
    let above = |times: &Histogram<u64>, ms: u64| times.count_between(ms * MS, u64::MAX);
    for (ms, due) in [(100, 900), (250, 750), (500, 500), (750, 250), (990, 10)] {
        let waited = above(&result.times.response, ms);
        // Requests that are due after the freeze still wait behind earlier ones.
        assert!(waited >= due && waited <= due + 60, "{waited} of {due} waited for {ms} ms");
        assert_eq!(above(&result.times.service, ms), 2);
    }
    assert_near("longest", result.times.response.max(), 1_000 * MS);
    assert_near("longest service", result.times.service.max(), 1_000 * MS);
    assert_near("lateness", result.times.send_lateness.max(), 998 * MS);
    let judgement = judge(&Figures::of(&result));
    assert_eq!(judgement.verdict, Verdict::Stalled, "{judgement:?}");
}

/// A server that answers in 100 µs seems to take a millisecond with wrk2's timers, as in figures
/// that wrk2 measured.
#[test]
fn the_pacing_of_wrk2_adds_its_timer_to_the_latency() {
    let of = |pacer| {
        let (simulation, _) = noting(|_| Duration::from_micros(100));
        load(&LoadOptions { pacer, ..paced_in(&simulation, 1_000, 16, 5) })
    };
    let (exact, wrk2) = (of(Pacer::Exact), of(Pacer::Wrk2));
    assert_eq!(exact.times.response.value_at_quantile(0.99) / 1_000, 100);
    assert_near("service", wrk2.times.service.value_at_quantile(0.99), 100_000);
    let median_ns = wrk2.times.response.value_at_quantile(0.5);
    assert!((MS / 2..=MS * 3 / 2).contains(&median_ns), "{median_ns}");
    assert!(wrk2.times.response.max() < 3 * MS, "{}", wrk2.times.response.max());
    let rate = wrk2.requests_per_second();
    assert!((970.0..=1_000.0).contains(&rate), "{rate} of 1,000 requests a second");
    let judgement = judge(&Figures::of(&wrk2));
    assert_eq!(judgement.verdict, Verdict::GeneratorLimited, "{judgement:?}");
}

/// A connection of wrk2 has one request in flight, so a freeze delays the requests behind it. They
/// are sent as soon as the pacing allows.
#[test]
fn the_pacing_of_wrk2_catches_up_after_a_freeze() {
    let frozen = 1_000 * MS..2_000 * MS;
    let server = HttpServer::new(move |request| {
        let thaws = Duration::from_nanos(frozen.end.saturating_sub(request.begin_ns));
        let held = frozen.contains(&request.begin_ns);
        Reply::ok().after(if held { thaws } else { Duration::from_micros(100) })
    });
    let simulation = Simulation::new(server);
    let result = load(&LoadOptions { pacer: Pacer::Wrk2, ..paced_in(&simulation, 400, 2, 5) });
    let answered = &result.course.throughput_per_second;
    assert!(answered[1] < 30 && answered[2] > 700, "{answered:?}");
    assert!((380..=420).contains(&answered[3]), "{answered:?}");
    assert_near("longest", result.times.response.max(), 1_000 * MS);
}

/// The wait for a connection, which no server sees, and the generator's own delay are measured
/// separately.
#[test]
fn waits_that_the_server_does_not_see_are_measured_separately() {
    // One connection, 10 ms each: the second of two that are due together waits for the first.
    let (simulation, _) = noting(|_| Duration::from_millis(10));
    let result = load(&paced_in(&simulation, 80, 1, 5));
    assert_near("service", result.times.service.value_at_quantile(0.5), 10 * MS);
    assert_eq!(result.times.connection_wait.max(), 0, "12.5 ms apart, none has to wait");
    let (simulation, _) = noting(|_| Duration::from_millis(10));
    let result = load(&paced_in(&simulation, 200, 1, 5));
    let waited = result.times.connection_wait.max() as f64;
    let mean = result.times.response.mean() - result.times.service.mean();
    assert!(waited > 2_000.0 * MS as f64, "half of five seconds' requests queue up: {waited}");
    assert!((result.times.connection_wait.mean() / mean - 1.0).abs() < 0.01, "{mean}");
    assert_eq!(result.times.generator_delay.max(), 0);
}

/// The name, the server, the burden of the generator, the rate, and the expected verdict.
type Case = (&'static str, HttpServer, SimulatedOverhead, Option<u64>, Verdict);

fn cases() -> Vec<Case> {
    let quick = || HttpServer::new(|_| Reply::ok().after(Duration::from_micros(300)));
    let free = SimulatedOverhead::default();
    let starved = SimulatedOverhead { wake_up_late: Duration::from_millis(3), ..free };
    let crowded = SimulatedOverhead { taken_by_others: Duration::from_millis(3), ..starved };
    let slow = SimulatedOverhead { event_cost: Duration::from_micros(400), ..free };
    let refusing = |share: usize| {
        HttpServer::new(move |request| match request.number % share {
            0 => Reply::new(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
            _ => Reply::ok().after(Duration::from_micros(300)),
        })
    };
    let ending = HttpServer::new(|request| match request.number % 10 {
        0 => Reply::new(b"").closing(),
        _ => Reply::ok(),
    });
    let freezing = HttpServer::new(|request| {
        let thaws = (4_400 * MS).saturating_sub(request.begin_ns);
        let frozen = request.begin_ns >= 4_000 * MS && thaws > 0;
        let after = if frozen { thaws } else { 300_000 };
        Reply::ok().after(Duration::from_nanos(after))
    });
    let silent = HttpServer::new(|_| Reply::never());
    let bucket = |per_second| ServerCapacity::of(per_second).server();
    use Verdict::{Errors, GeneratorLimited, MachineLimited, Saturated, Stable, Stalled};
    vec![
        ("a rate that is held", quick(), free, Some(1_000), Stable),
        ("a closed loop", quick(), free, None, Stable),
        ("nine tenths of the capacity", bucket(1_000), free, Some(900), Stable),
        ("a tenth above the capacity", bucket(1_000), free, Some(1_100), Saturated),
        ("thrice the capacity", bucket(1_000), free, Some(3_000), Saturated),
        ("a closed loop at the capacity", bucket(1_000), free, None, Stable),
        ("a thread that wakes up late", quick(), starved, Some(1_000), GeneratorLimited),
        ("a thread whose processor others have", quick(), crowded, Some(1_000), MachineLimited),
        ("a thread that is slow, at a rate", quick(), slow, Some(2_000), GeneratorLimited),
        ("a thread that is slow, in a closed loop", quick(), slow, None, GeneratorLimited),
        ("a server that stands still", freezing, free, Some(1_000), Stalled),
        ("one error in fifty", refusing(50), free, Some(1_000), Errors),
        ("one error in five hundred", refusing(500), free, Some(1_000), Stable),
        ("connections that end", ending, free, Some(1_000), Errors),
        ("a server that never answers", silent, free, Some(100), Errors),
    ]
}

#[test]
fn the_verdict_is_right_in_a_table_of_cases() {
    for (name, server, burden, rate, verdict) in cases() {
        let simulation = Simulation::burdened(server, burden);
        let options = LoadOptions { rate_per_second: rate, ..simulated(&simulation, 16, 8) };
        let judgement = judge(&Figures::of(&load(&options)));
        assert_eq!(judgement.verdict, verdict, "{name}: {judgement:?}");
    }
}

fn stage(seconds: u64, rate: u64) -> Stage {
    Stage {
        duration: Duration::from_secs(seconds),
        rate_per_second: Some(rate),
        ramp: false,
        connections: None,
    }
}

/// A server that answers in 300 µs, and replies by `then` from the middle of the run on.
fn from_half(then: impl Fn(&Request) -> Reply + Send + 'static) -> HttpServer {
    HttpServer::new(move |request| match request.begin_ns {
        0..4_000_000_000 => Reply::ok().after(Duration::from_micros(300)),
        _ => then(request),
    })
}

/// Regression: a server that worked for half of the run was judged stable, whatever it did then. A
/// silence was only noted by the answer that ended it, and a backlog had to grow from the start.
#[test]
fn the_verdict_is_right_for_servers_that_change_in_the_middle() {
    use Verdict::{Errors, Saturated, Stable, Stalled};
    let hangs = || from_half(|_| Reply::never());
    let dies = || from_half(|_| Reply::last());
    let slows = || from_half(|_| Reply::ok().after(Duration::from_millis(25)));
    let slower = || from_half(|_| Reply::ok().after(Duration::from_millis(12)));
    let cases = [
        ("hangs", hangs(), Some(1_000), Stalled, "For the last 4.0"),
        ("hangs, closed loop", hangs(), None, Stalled, "For the last 4.0"),
        ("dies", dies(), Some(1_000), Errors, "For the last 4.0"),
        ("dies, at few requests", dies(), Some(10), Errors, "For the last 3.9"),
        ("dies, closed loop", dies(), None, Errors, "For the last 4.0"),
        ("cannot do it any more", slows(), Some(1_000), Saturated, "From second 4.0 to the end"),
        ("is slower, and can", slower(), Some(1_000), Stable, "no backlog grew"),
    ];
    for (name, server, rate, verdict, word) in cases {
        let simulation = Simulation::new(server);
        let options = LoadOptions { rate_per_second: rate, ..simulated(&simulation, 16, 8) };
        let result = load(&options);
        let judgement = judge(&Figures::of(&result));
        assert_eq!(judgement.verdict, verdict, "{name}: {judgement:?}");
        assert!(judgement.evidence.join(" ").contains(word), "{name}: {judgement:?}");
        let kept = Objectives::parse("p99=1s").unwrap().check(&result);
        assert_eq!(kept.is_ok(), verdict == Stable, "{name}: {kept:?}");
    }
}

/// Regression: the backlog of an interval was that of its begin, though it is documented as that of
/// its end.
#[test]
fn the_backlog_of_an_interval_is_that_of_its_end() {
    let simulation = Simulation::new(ServerCapacity::of(1_000).server());
    let result = load(&paced_in(&simulation, 1_500, 1, 3));
    for (number, interval) in result.course.timeline.iter().take(30).enumerate() {
        let expected = (number as u64 + 1) * 50;
        assert!(interval.backlog.abs_diff(expected) <= 3, "{number}: {}", interval.backlog);
    }
}

/// Regression: an objective was met by a run whose backlog grew if the verdict was about the
/// machine.
#[test]
fn a_growing_backlog_misses_every_objective_whatever_the_verdict() {
    let burden = SimulatedOverhead {
        wake_up_late: Duration::from_micros(100),
        taken_by_others: Duration::from_secs(1),
        ..SimulatedOverhead::default()
    };
    let simulation = Simulation::burdened(ServerCapacity::of(1_000).server(), burden);
    let result = load(&paced_in(&simulation, 1_050, 16, 8));
    let judgement = judge(&Figures::of(&result));
    assert_eq!(judgement.verdict, Verdict::MachineLimited, "{judgement:?}");
    assert!(judgement.evidence.join(" ").contains("to the end the backlog grew"), "{judgement:?}");
    let kept = Objectives::parse("p50=1h,errors=100%").unwrap().check(&result);
    assert!(kept.is_err_and(|reason| reason.starts_with("machine-limited: From second")));
}

/// Regression: if half of the requests had no answer, the percentiles were those of the other half
/// alone.
#[test]
fn requests_without_an_answer_count_with_their_wait() {
    let simulation = Simulation::new(from_half(|_| Reply::never()));
    let result = load(&paced_in(&simulation, 1_000, 16, 8));
    assert!(result.times.response.max() < 2 * MS);
    let waited = &result.times.unanswered;
    // The run begins a moment after its server, by whose clock half is over.
    assert_eq!((waited.len(), result.unanswered), (4_001, 4_001));
    assert_near("longest", waited.max(), 4_000 * MS);
    let all = result.response_time_at_least();
    // A quarter of all due requests have waited for more than two seconds.
    assert_near("three quarters", all.value_at_quantile(0.75), 2_000 * MS);
    let kept = Objectives::parse("p70=1s").unwrap().check(&result);
    assert!(kept.unwrap_err().starts_with("stalled: For the last 4.0"));
}

#[test]
fn a_stage_above_the_capacity_is_reported_though_its_backlog_is_worked_off() {
    let simulation = Simulation::new(ServerCapacity::of(1_000).server());
    let stages = vec![stage(3, 500), stage(3, 1_500), stage(6, 300)];
    let options = LoadOptions { stages, rate_per_second: None, ..simulated(&simulation, 16, 12) };
    let judgement = judge(&Figures::of(&load(&options)));
    assert_eq!(judgement.verdict, Verdict::Saturated, "{judgement:?}");
    assert!(judgement.evidence[0].contains("was worked off by second 8."), "{judgement:?}");
}

/// The same run has the same figures to the last nanosecond; otherwise, it would be no simulation.
#[test]
fn a_simulated_run_can_be_repeated() {
    let run = || {
        let (simulation, _) = noting(|request| Duration::from_micros(request.number as u64 % 977));
        load(&paced_in(&simulation, 3_000, 5, 3))
    };
    let (one, two) = (run(), run());
    assert_eq!(one.times.response, two.times.response);
    assert_eq!(one.times.service, two.times.service);
    assert_eq!(one.times.connection_wait, two.times.connection_wait);
    assert_eq!(
        (one.course.samples, one.course.timeline),
        (two.course.samples, two.course.timeline)
    );
}
