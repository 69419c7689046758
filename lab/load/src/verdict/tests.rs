//! A table of constructed runs and their expected verdicts.

use super::*;

const MS: u64 = 1_000_000;

/// 10,000 requests a second for 10 seconds, answered in 200 µs by an idle server.
fn held() -> Figures {
    Figures {
        offered_per_second: Some(10_000.0),
        answered_per_second: 9_999.0,
        requests: 99_990,
        unanswered: 10,
        connections: 64,
        backlog: vec![0; 100],
        interval_ns: 100 * MS,
        response_mean_ns: 200_000.0,
        response_p99_ns: 600_000,
        response_p99_at_least_ns: 600_000,
        unanswered_max_ns: 1_000_000,
        service_p90_ns: 300_000,
        generator_mean_ns: 3_000.0,
        generator_p99_ns: 12_000,
        cpu_share: 0.2,
        silence: Silence { end_ns: 5_000 * MS, length_ns: 2 * MS, at_end_ns: 0 },
        ..Figures::default()
    }
}

fn growing_by(requests: u64) -> Vec<u64> {
    (1..=100).map(|interval| interval * requests).collect()
}

/// A backlog that grows for two seconds and is worked off in another two.
fn hill() -> Vec<u64> {
    let mut backlog = vec![0; 100];
    (0..20).for_each(|step| backlog[20 + step] = (step as u64 + 1) * 500);
    (0..20).for_each(|step| backlog[40 + step] = 9_500 - step as u64 * 500);
    backlog
}

fn from_half() -> Vec<u64> {
    (1..=100_u64).map(|interval| interval.saturating_sub(50) * 500).collect()
}

/// Name of the case, its figures, its verdict, and a word of its evidence.
type Case = (&'static str, Figures, Verdict, &'static str);

fn paced_cases() -> Vec<Case> {
    use Verdict::{GeneratorLimited, MachineLimited, Saturated, Stable, Stalled};
    let waits = |ms: f64, others_share| ProcessorWaits {
        generator_ns: ms * 0.4e6,
        server_ns: Some(ms * 0.8e6),
        either_ns: ms * 1e6,
        others_share,
    };
    let busy = || Figures { response_mean_ns: 9e6, response_p99_ns: 43 * MS, ..held() };
    let errors = |check, timeout| ErrorCounts { check, timeout, ..ErrorCounts::default() };
    // A stall of a second: 10,000 requests wait, and are worked off in the second after it.
    let mut stall = vec![0; 100];
    (0..10).for_each(|step| stall[50 + step] = (step as u64 + 1) * 1_000);
    (0..10).for_each(|step| stall[60 + step] = 10_000 - (step as u64 + 1) * 1_000);
    let mut late_stall = vec![0; 100];
    (0..5).for_each(|step| late_stall[95 + step] = (step as u64 + 1) * 1_000);
    let silence =
        |length_ms| Silence { end_ns: 6_000 * MS, length_ns: length_ms * MS, at_end_ns: 0 };
    vec![
        ("held", held(), Stable, "no backlog"),
        (
            "held with hiccups",
            Figures { backlog: (0..100).map(|n| n * 37 % 60).collect(), ..held() },
            Stable,
            "9999 of 10000",
        ),
        (
            "twice the capacity",
            Figures {
                answered_per_second: 5_000.0,
                requests: 50_000,
                unanswered: 50_000,
                backlog: growing_by(500),
                response_mean_ns: 2.5e9,
                response_p99_ns: 4_900 * MS,
                generator_mean_ns: 50_000.0,
                generator_p99_ns: 900_000,
                ..held()
            },
            Saturated,
            "the backlog grew to",
        ),
        (
            "one percent beyond the capacity",
            Figures { backlog: growing_by(10), unanswered: 1_000, ..held() },
            Saturated,
            "to 1000",
        ),
        (
            "timeouts because of saturation",
            Figures { backlog: growing_by(500), errors: errors(0, 3_000), ..held() },
            Saturated,
            "the backlog grew to",
        ),
        (
            "a machine that others use",
            Figures { processor_waits: waits(31.0, Some(0.5)), ..busy() },
            MachineLimited,
            "31.000 ms of the p99 of 43.000 ms were waits for a processor",
        ),
        (
            "others use it, and the generator was late for that",
            Figures {
                processor_waits: waits(31.0, Some(0.5)),
                generator_mean_ns: 5e6,
                generator_p99_ns: 30 * MS,
                ..busy()
            },
            MachineLimited,
            "went out late",
        ),
        (
            "generator and server share a processor",
            Figures { processor_waits: waits(31.0, Some(0.04)), ..busy() },
            Stable,
            "other programs had 4 % of all processors",
        ),
        (
            "others use the machine and nobody waits",
            Figures { processor_waits: waits(4.0, Some(0.5)), ..busy() },
            Stable,
            "no backlog",
        ),
        (
            "who uses the machine is not known",
            Figures { processor_waits: waits(31.0, None), ..busy() },
            Stable,
            "the server's 24.800 ms).",
        ),
        (
            "generator starved",
            Figures {
                generator_mean_ns: 1.0e6,
                generator_p99_ns: 9 * MS,
                response_mean_ns: 1.2e6,
                response_p99_ns: 10 * MS,
                cpu_share: 0.3,
                ..held()
            },
            GeneratorLimited,
            "went out late",
        ),
        (
            "generator starved until the end",
            Figures {
                backlog: growing_by(500),
                generator_mean_ns: 2.0e9,
                generator_p99_ns: 4_000 * MS,
                response_mean_ns: 2.1e9,
                response_p99_ns: 4_100 * MS,
                cpu_share: 1.0,
                ..held()
            },
            GeneratorLimited,
            "1.00 of the time",
        ),
        (
            "a thread that never waits",
            Figures { backlog: growing_by(500), cpu_share: 0.99, ..held() },
            GeneratorLimited,
            "The backlog grew while",
        ),
        (
            "a thread that looks for events all the time and keeps up",
            Figures { cpu_share: 0.99, ..held() },
            Stable,
            "no backlog",
        ),
        (
            "late by microseconds that nobody notices",
            Figures { generator_mean_ns: 20_000.0, generator_p99_ns: 40_000, ..held() },
            Stable,
            "40 µs",
        ),
        (
            "server stalls",
            Figures { backlog: stall, silence: silence(1_000), ..held() },
            Stalled,
            "For 1000 ms from second 5.00",
        ),
        (
            "server stalls at the end",
            Figures { backlog: late_stall.clone(), silence: silence(500), ..held() },
            Stalled,
            "500 ms",
        ),
        (
            "a backlog that comes and goes is the server's own",
            Figures { backlog: hill(), ..held() },
            Stable,
            "the backlog rose to 10000 requests from second 2.0 to 4.0, and was worked off by \
             second 6.0",
        ),
        (
            "a spike of the rate that is too much",
            Figures { backlog: hill(), rate_varies: true, ..held() },
            Saturated,
            "While the rate was higher",
        ),
        (
            "a spike of the rate in which the server stood still",
            Figures { backlog: hill(), rate_varies: true, silence: silence(2_000), ..held() },
            Stalled,
            "For 2000 ms",
        ),
        (
            "a backlog that has hardly begun",
            Figures { backlog: late_stall, ..held() },
            Stable,
            "stood at 5000 when the run ended",
        ),
        (
            "too much from half on",
            Figures { backlog: from_half(), ..held() },
            Saturated,
            "From second 5.0 to the end",
        ),
        (
            "slow but steady",
            Figures { service_p90_ns: 200 * MS, silence: silence(250), ..held() },
            Stable,
            "no backlog",
        ),
    ]
}

fn silent_cases() -> Vec<Case> {
    use Verdict::{Errors, GeneratorLimited, Saturated, Stable, Stalled};
    let silent = |at_end_ms: u64| Silence {
        end_ns: 10_000 * MS,
        length_ns: at_end_ms * MS,
        at_end_ns: at_end_ms * MS,
    };
    let hung = Figures {
        requests: 50_000,
        unanswered: 50_000,
        backlog: from_half(),
        silence: silent(5_000),
        response_p99_at_least_ns: 4_950 * MS,
        unanswered_max_ns: 5_000 * MS,
        ..held()
    };
    let refused = ErrorCounts { connect: 50, read: 1, ..ErrorCounts::default() };
    let late = ErrorCounts { timeout: 64, ..ErrorCounts::default() };
    let closed = Figures { offered_per_second: None, backlog: vec![0; 100], ..hung.clone() };
    vec![
        ("hangs to the end", hung.clone(), Stalled, "For the last 5.00 s"),
        ("what is missing is told", hung.clone(), Stalled, "the p99 is at least 4950 ms"),
        (
            "hangs until requests time out",
            Figures { errors: late, errors_at_end: 64, ..hung.clone() },
            Stalled,
            "timeout 64",
        ),
        (
            "is killed",
            Figures { errors: refused, errors_at_end: 51, ..hung.clone() },
            Errors,
            "connect 50, read 1",
        ),
        (
            "hangs long after a connection broke",
            Figures { errors: refused, ..hung.clone() },
            Stalled,
            "For the last 5.00 s",
        ),
        ("a closed loop that hangs", closed.clone(), Stalled, "For the last 5.00 s"),
        (
            "a closed loop whose server is killed",
            Figures { errors: refused, errors_at_end: 51, ..closed },
            Errors,
            "connect 50",
        ),
        (
            "waits at the end for no longer than usual",
            Figures { silence: silent(90), ..held() },
            Stable,
            "no backlog grew",
        ),
        (
            "answers to the end, too slowly",
            Figures { silence: silent(2), ..hung.clone() },
            Saturated,
            "From second 5.0",
        ),
        (
            "hangs beside a generator that is late by milliseconds",
            Figures {
                generator_mean_ns: 160_000.0,
                generator_p99_ns: 3 * MS,
                response_mean_ns: 300_000.0,
                ..hung.clone()
            },
            Stalled,
            "went out late",
        ),
        (
            "a generator that was late by seconds is told of first",
            Figures {
                generator_mean_ns: 1e9,
                generator_p99_ns: 2_000 * MS,
                response_mean_ns: 1e9,
                ..hung
            },
            GeneratorLimited,
            "went out late",
        ),
    ]
}

fn other_cases() -> Vec<Case> {
    use Verdict::{Errors, GeneratorLimited, Stable};
    let status = |status| ErrorCounts { status, failed_requests: status, ..ErrorCounts::default() };
    // For a second, 64 connections were refused ten times, and one request was lost before.
    let away = ErrorCounts { connect: 640, read: 1, failed_requests: 1, ..ErrorCounts::default() };
    let checks = ErrorCounts { check: 5_000, failed_requests: 5_000, ..ErrorCounts::default() };
    let refused = ErrorCounts { connect: 50, ..ErrorCounts::default() };
    let unasked = ErrorCounts { read: 99_990, malformed: 99_990, ..ErrorCounts::default() };
    let closed = Figures { offered_per_second: None, backlog: vec![0; 100], ..held() };
    vec![
        ("one error", Figures { errors: status(1), ..held() }, Stable, "status 400 or above 1"),
        (
            "all refused",
            Figures { errors: status(99_990), ..held() },
            Errors,
            "99990 of 100000 requests",
        ),
        // Regression: bytes behind each answer broke all connections of a stable run.
        (
            "stray bytes behind each answer",
            Figures { errors: unasked, ..held() },
            Errors,
            "99990 of 100000 requests",
        ),
        ("checks fail", Figures { errors: checks, ..held() }, Errors, "check failed 5000"),
        (
            "connections are refused for a moment",
            Figures { errors: away, requests: 6_000, ..held() },
            Stable,
            "connect 640",
        ),
        (
            "nothing answered",
            Figures { requests: 0, errors: refused, ..held() },
            Errors,
            "No request was answered (connect 50)",
        ),
        ("nothing at all", Figures::default(), Errors, "no errors"),
        ("a closed loop", Figures { cpu_share: 0.6, ..closed.clone() }, Stable, "64 connections"),
        (
            "a closed loop at its own limit",
            Figures { cpu_share: 0.99, ..closed },
            GeneratorLimited,
            "0.99 of the time",
        ),
        ("too short", Figures { backlog: vec![0, 0], ..held() }, Stable, "too short"),
    ]
}

#[test]
fn constructed_runs_get_the_expected_verdicts() {
    let cases = paced_cases().into_iter().chain(silent_cases()).chain(other_cases());
    for (name, figures, verdict, word) in cases {
        let judgement = judge(&figures);
        assert_eq!(judgement.verdict, verdict, "{name}: {judgement:?}");
        let told = judgement.evidence.join(" ");
        assert!(told.contains(word), "{name}: {word:?} in {told:?}");
    }
}

/// Regression: a silence of one thread was told as one in which no answer came at all.
#[test]
fn a_silence_is_told_as_that_of_a_thread() {
    let silence = Silence { end_ns: 9_000 * MS, length_ns: 2_000 * MS, at_end_ns: 0 };
    let at_end = Silence { at_end_ns: 2_000 * MS, ..silence };
    for silence in [silence, at_end] {
        let judgement = judge(&Figures { silence, ..held() });
        assert_eq!(judgement.verdict, Verdict::Stalled);
        assert!(judgement.evidence[0].contains("to a thread of the generator"), "{judgement:?}");
    }
}

#[test]
fn every_verdict_has_a_name_and_a_meaning_of_its_own() {
    use std::collections::BTreeSet;
    let all = [
        Verdict::Stable,
        Verdict::Saturated,
        Verdict::MachineLimited,
        Verdict::GeneratorLimited,
        Verdict::Stalled,
        Verdict::Errors,
    ];
    let texts: BTreeSet<&str> = all.iter().flat_map(|v| [v.name(), v.meaning()]).collect();
    assert_eq!(texts.len(), 2 * all.len());
}
