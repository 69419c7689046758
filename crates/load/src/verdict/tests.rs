//! A table of constructed runs and what they have to be taken for.

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
        errors: ErrorCounts::default(),
        response_mean_ns: 200_000.0,
        response_p99_ns: 600_000,
        service_p90_ns: 300_000,
        generator_mean_ns: 3_000.0,
        generator_p99_ns: 12_000,
        cpu_share: 0.2,
        silence: Silence { end_ns: 5_000 * MS, length_ns: 2 * MS },
    }
}

fn growing_by(requests: u64) -> Vec<u64> {
    (0..100).map(|interval| interval * requests).collect()
}

/// Name of the case, its figures, its verdict, and a word of its evidence.
type Case = (&'static str, Figures, Verdict, &'static str);

fn paced_cases() -> Vec<Case> {
    use Verdict::{GeneratorLimited, Saturated, Stable, Stalled};
    let errors = |check, timeout| ErrorCounts { check, timeout, ..ErrorCounts::default() };
    // A stall of a second: 10,000 requests wait, and are worked off in the second after it.
    let mut stall = vec![0; 100];
    (0..10).for_each(|step| stall[50 + step] = (step as u64 + 1) * 1_000);
    (0..10).for_each(|step| stall[60 + step] = 10_000 - (step as u64 + 1) * 1_000);
    let mut late_stall = vec![0; 100];
    (0..5).for_each(|step| late_stall[95 + step] = (step as u64 + 1) * 1_000);
    let silence = |length_ms| Silence { end_ns: 6_000 * MS, length_ns: length_ms * MS };
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
            "grew from",
        ),
        (
            "one percent beyond the capacity",
            Figures { backlog: growing_by(10), unanswered: 1_000, ..held() },
            Saturated,
            "to 990",
        ),
        (
            "timeouts because of saturation",
            Figures { backlog: growing_by(500), errors: errors(0, 3_000), ..held() },
            Saturated,
            "grew from",
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
            Figures { backlog: late_stall, silence: silence(500), ..held() },
            Stalled,
            "500 ms",
        ),
        (
            "slow but steady",
            Figures { service_p90_ns: 200 * MS, silence: silence(250), ..held() },
            Stable,
            "no backlog",
        ),
    ]
}

fn other_cases() -> Vec<Case> {
    use Verdict::{Errors, GeneratorLimited, Stable};
    let status = |status| ErrorCounts { status, ..ErrorCounts::default() };
    let refused = ErrorCounts { connect: 50, ..ErrorCounts::default() };
    let closed = Figures { offered_per_second: None, backlog: vec![0; 100], ..held() };
    vec![
        ("one error", Figures { errors: status(1), ..held() }, Stable, "status 400 or above 1"),
        ("all refused", Figures { errors: status(99_990), ..held() }, Errors, "99990 errors"),
        (
            "checks fail",
            Figures { errors: ErrorCounts { check: 5_000, ..ErrorCounts::default() }, ..held() },
            Errors,
            "check failed 5000",
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
fn constructed_runs_are_taken_for_what_they_are() {
    for (name, figures, verdict, word) in paced_cases().into_iter().chain(other_cases()) {
        let judgement = judge(&figures);
        assert_eq!(judgement.verdict, verdict, "{name}: {judgement:?}");
        let told = judgement.evidence.join(" ");
        assert!(told.contains(word), "{name}: {word:?} in {told:?}");
    }
}

#[test]
fn every_verdict_has_a_name_and_a_meaning_of_its_own() {
    use std::collections::BTreeSet;
    let all = [
        Verdict::Stable,
        Verdict::Saturated,
        Verdict::GeneratorLimited,
        Verdict::Stalled,
        Verdict::Errors,
    ];
    let texts: BTreeSet<&str> = all.iter().flat_map(|v| [v.name(), v.meaning()]).collect();
    assert_eq!(texts.len(), 10);
}
