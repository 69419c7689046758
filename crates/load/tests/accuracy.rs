//! What the generator says against what the server itself has noted of the same run.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use pellucid_load::{
    Figures, KneeSearch, Limit, LoadOptions, LoadResult, Objectives, SearchOptions, Step, Verdict,
    judge,
};
use support::{Server, load, ok};

/// A server that delays its answers as `delay_of` says and notes how long each took it.
fn noting(
    delay_of: impl Fn(usize) -> Duration + Send + Sync + 'static,
) -> (Server, Arc<Mutex<Histogram<u64>>>) {
    let noted = Arc::new(Mutex::new(Histogram::<u64>::new(3).unwrap()));
    let notes = Arc::clone(&noted);
    let server = Server::start(move |request| {
        let begin = Instant::now();
        std::thread::sleep(delay_of(request.number));
        notes.lock().unwrap().record(begin.elapsed().as_nanos() as u64).unwrap();
        ok()
    });
    (server, noted)
}

fn paced(server: &Server, rate: u64, connections: usize, seconds: u64) -> LoadOptions {
    LoadOptions {
        rate_per_second: Some(rate),
        connections,
        limit: Limit::Duration(Duration::from_secs(seconds)),
        ..server.options()
    }
}

/// Whether a figure of the generator's is within a percent of the server's.
fn near(name: &str, client_ns: u64, server_ns: u64) -> Result<(), String> {
    let ratio = client_ns as f64 / server_ns as f64;
    match (0.99..=1.01).contains(&ratio) {
        true => Ok(()),
        false => Err(format!("{name}: {client_ns} ns against {server_ns} ns")),
    }
}

/// A machine that is busy otherwise delays what lies between the two clocks, now and then; what is
/// wrong with the figures is wrong each time.
fn agrees_once_in_three(run: impl Fn() -> Result<(), String>) {
    let failures: Vec<String> = (0..3).map_while(|_| run().err()).collect();
    assert!(failures.len() < 3, "{failures:?}");
}

#[test]
fn a_constant_delay_agrees_within_a_percent() {
    agrees_once_in_three(|| {
        let (server, noted) = noting(|_| Duration::from_millis(150));
        let result = load(&paced(&server, 50, 16, 2));
        let noted = noted.lock().unwrap().clone();
        for quantile in [0.5, 0.75, 0.9] {
            let expected = noted.value_at_quantile(quantile);
            near("service", result.service_time.value_at_quantile(quantile), expected)?;
            near("response", result.response_time.value_at_quantile(quantile), expected)?;
        }
        Ok(())
    });
}

#[test]
fn one_percent_at_100_ms_is_found_where_it_is() {
    agrees_once_in_three(|| {
        let slow = |number: usize| Duration::from_millis(if number % 100 == 7 { 100 } else { 1 });
        let (server, noted) = noting(slow);
        let result = load(&paced(&server, 400, 8, 2));
        let noted = noted.lock().unwrap().clone();
        for quantile in [0.993, 0.995, 0.997] {
            let expected = noted.value_at_quantile(quantile);
            assert!(expected >= 100_000_000, "the server itself was slow there");
            near("service", result.service_time.value_at_quantile(quantile), expected)?;
            near("response", result.response_time.value_at_quantile(quantile), expected)?;
        }
        assert!(result.service_time.value_at_quantile(0.9) < 50_000_000);
        Ok(())
    });
}

/// All of the 300 requests that were due while the server stood still have waited for it; in the
/// service time only the ones that were under way show it.
#[test]
fn a_freeze_shows_in_full_in_the_response_time_only() {
    let begin = Instant::now();
    let server = Server::start(move |_| {
        let since = begin.elapsed();
        let frozen = Duration::from_millis(1_000)..Duration::from_millis(2_000);
        if frozen.contains(&since) {
            std::thread::sleep(frozen.end - since);
        }
        ok()
    });
    let result = load(&paced(&server, 300, 2, 4));
    let above = |times: &Histogram<u64>, ms: u64| times.count_between(ms * 1_000_000, u64::MAX);
    for (ms, due) in [(250, 225), (500, 150), (750, 75)] {
        let waited = above(&result.response_time, ms);
        assert!(waited.abs_diff(due) <= 15, "{waited} of {due} waited for {ms} ms");
        assert!(above(&result.service_time, ms) <= 2);
    }
    let longest_ms = result.response_time.max() / 1_000_000;
    assert!((970..1_200).contains(&longest_ms), "{longest_ms} ms");
    let judgement = judge(&Figures::of(&result));
    assert_eq!(judgement.verdict, Verdict::Stalled, "{judgement:?}");
}

/// A server that answers so many requests a second and not one more, each after 20 ms at the least,
/// beside which the delays of a busy machine are small.
fn bucket(per_second: u32) -> Server {
    let next = Mutex::new(Instant::now());
    Server::start(move |_| {
        let slot = {
            let mut next = next.lock().unwrap();
            let slot = Instant::now().max(*next);
            *next = slot + Duration::from_secs(1) / per_second;
            slot
        };
        let due = slot + Duration::from_millis(20);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        ok()
    })
}

#[test]
fn more_than_the_capacity_is_called_saturated_and_less_is_not() {
    let server = bucket(400);
    let verdict = |rate| {
        let result: LoadResult = load(&paced(&server, rate, 32, 2));
        let judgement = judge(&Figures::of(&result));
        (judgement.verdict, judgement.evidence)
    };
    let (low, evidence) = verdict(100);
    assert_ne!(low, Verdict::Saturated, "{evidence:?}");
    let (high, evidence) = verdict(800);
    assert_eq!(high, Verdict::Saturated, "{evidence:?}");
}

#[test]
fn the_knee_of_a_server_is_found_within_five_percent() {
    agrees_once_in_three(|| {
        let ratio = knee_of(500) / 500.0;
        let near = (0.95..=1.05).contains(&ratio);
        if near { Ok(()) } else { Err(format!("{ratio} of the capacity")) }
    });
}

fn knee_of(capacity: u32) -> f64 {
    let server = bucket(capacity);
    let objectives = Objectives::parse("p90=50ms").unwrap();
    let mut search = KneeSearch::new(SearchOptions {
        start_per_second: 125.0,
        repeats: 1,
        ..SearchOptions::default()
    });
    loop {
        match search.step() {
            Step::Try { rate_per_second, confirm } => {
                let seconds = if confirm { 3 } else { 1 };
                let rate = rate_per_second as u64;
                let mut kept = objectives.check(&load(&paced(&server, rate, 64, seconds)));
                // A machine that is busy otherwise must not count against the server.
                for _ in 0..2 {
                    if kept.as_ref().is_err_and(|why| why.starts_with("generator")) {
                        kept = objectives.check(&load(&paced(&server, rate, 64, seconds)));
                    }
                }
                search.report(kept.is_ok());
                // What is left of the backlog has to drain before the next trial.
                let drained = load(&paced(&server, 20, 64, 1));
                assert!(drained.requests > 0);
            }
            Step::Done(knee) => return knee.median_per_second().unwrap_or(0.0),
        }
    }
}
