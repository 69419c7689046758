//! The conclusions of the original, and the readings of the figures here.

use std::collections::BTreeMap;

use pellucid_report::Finding;

use super::drive::RunFigures;
use super::original;
use super::plan::{HAND_OVERS, Operation, TRANSPORTS};

/// Figures within this factor of each other count as the same.
const SAME_FACTOR: f64 = 1.25;
/// A share of the total below which a phase is negligible, as the original calls 2 of 60 µs.
const NEGLIGIBLE_SHARE: f64 = 0.05;

pub(super) fn findings(runs: &[RunFigures]) -> Vec<Finding> {
    let plain = |operation: Operation| {
        runs.iter().find(|run| {
            let key = run.key;
            key.operation == operation
                && key.transport == TRANSPORTS[0]
                && key.hand_over == HAND_OVERS[0]
        })
    };
    let Some(version) = plain(Operation::Version) else { return Vec::new() };
    let mut findings = vec![
        total(version),
        before(version),
        hand_over(version),
        execute(version),
        write(version),
        jitter(version),
        additivity(version),
    ];
    findings.extend(transports(runs));
    findings.extend(entities(plain(Operation::Get), plain(Operation::Put), version));
    findings
}

fn finding(
    name: &str,
    original: impl Into<String>,
    sentence: String,
    is_same: Option<bool>,
    figures: &[(&str, f64)],
) -> Finding {
    let figures = figures.iter().map(|(name, value)| ((*name).to_owned(), *value));
    let figures: BTreeMap<String, f64> = figures.collect();
    Finding { name: name.to_owned(), original: original.into(), sentence, is_same, figures }
}

fn is_near(a: f64, b: f64) -> bool {
    a <= b * SAME_FACTOR && b <= a * SAME_FACTOR
}

fn us(ns: f64) -> String {
    format!("{:.1} µs", ns / 1e3)
}

fn median(run: &RunFigures, phase: &str) -> f64 {
    run.server.phase(phase).p50_ns as f64
}

fn total_median(run: &RunFigures) -> f64 {
    run.server.total.p50_ns as f64
}

fn percent(part: f64, whole: f64) -> String {
    format!("{:.0} %", part / whole.max(1.0) * 100.0)
}

fn total(run: &RunFigures) -> Finding {
    let (here, there) = (total_median(run), original::TOTAL_NS);
    let (client, times) = (run.client.p50_ns as f64, there / here.max(1.0));
    finding(
        "total",
        "Over HTTP/1.1 a request for /_api/version takes 60 µs in the server.",
        format!(
            "It takes {} at the median here, {times:.1} times less, on another machine; the client \
             waits {}.",
            us(here),
            us(client)
        ),
        Some(is_near(here, there)),
        &[("median_ns", here), ("original_ns", there), ("client_median_ns", client)],
    )
}

fn before(run: &RunFigures) -> Finding {
    let (parse, route, total) = (median(run, "parse"), median(run, "route"), total_median(run));
    let share = (parse + route) / total.max(1.0);
    finding(
        "before_the_handler",
        "Three phases before the hand-over take 2.5, 1.9 and 2.0 µs, each negligible beside 60.",
        format!(
            "Parsing takes {} and routing {}, {} of the total together.",
            us(parse),
            us(route),
            percent(parse + route, total)
        ),
        Some(share / 2.0 <= NEGLIGIBLE_SHARE),
        &[("parse_ns", parse), ("route_ns", route), ("share", share)],
    )
}

fn hand_over(run: &RunFigures) -> Finding {
    let (queue, total) = (median(run, "queue"), total_median(run));
    let there = original::HAND_OVER_NS + original::HAND_BACK_NS;
    let sentence = if queue == 0.0 {
        "There is none: the thread that reads a request answers it, and its queue takes no time."
            .to_owned()
    } else {
        format!("The queue takes {}, {} of the total.", us(queue), percent(queue, total))
    };
    finding(
        "hand_overs",
        "Two hand-overs between threads take 8 and 11 µs, a third of the total.",
        sentence,
        Some(queue / total.max(1.0) >= 0.2),
        &[("queue_ns", queue), ("original_ns", there)],
    )
}

fn execute(run: &RunFigures) -> Finding {
    let (here, total) = (median(run, "execute"), total_median(run));
    let share = here / total.max(1.0);
    let there = original::EXECUTE_NS / original::TOTAL_NS;
    finding(
        "execute",
        "The handler takes 18 µs, 30 % of the total; 13 of them compress an answer of 60 bytes.",
        format!(
            "It takes {}, {} of the total; an answer as short is not compressed.",
            us(here),
            percent(here, total)
        ),
        Some(is_near(share, there)),
        &[("execute_ns", here), ("share", share), ("original_share", there)],
    )
}

fn write(run: &RunFigures) -> Finding {
    let (here, total) = (median(run, "write"), total_median(run));
    let share = here / total.max(1.0);
    let there = original::WRITE_NS / original::TOTAL_NS;
    finding(
        "write",
        "Writing the response takes 15 µs, a quarter of the total.",
        format!(
            "It takes {}, {} of the total: what is left is mostly the system call.",
            us(here),
            percent(here, total)
        ),
        Some(is_near(share, there)),
        &[("write_ns", here), ("share", share), ("original_share", there)],
    )
}

fn jitter(run: &RunFigures) -> Finding {
    let total = &run.server.total;
    let (median, p99_9, max) = (total.p50_ns as f64, total.p99_9_ns as f64, total.max_ns as f64);
    let (here, there) = (p99_9 / median.max(1.0), original::TOTAL_P99_9_NS / original::TOTAL_NS);
    finding(
        "jitter",
        "The jitter is pretty bad: 0.1 % take more than 136 µs, 2.3 times the median.",
        format!(
            "0.1 % take more than {}, {here:.1} times the median; the slowest takes {}.",
            us(p99_9),
            us(max)
        ),
        Some(is_near(here, there)),
        &[("p99_9_over_median", here), ("original", there), ("max_ns", max)],
    )
}

fn additivity(run: &RunFigures) -> Finding {
    let names = ["parse", "route", "queue", "execute", "encode", "write", "unaccounted"];
    let sum: f64 = names.iter().map(|name| median(run, name)).sum();
    let total = total_median(run);
    finding(
        "additivity",
        "The medians of the phases add up to the median of the total.",
        format!(
            "They add up to {} of {}; that quantiles do so is chance, so what is stacked here are \
             means.",
            us(sum),
            us(total)
        ),
        Some((sum / total.max(1.0) - 1.0).abs() <= 0.1),
        &[("sum_of_medians_ns", sum), ("median_ns", total)],
    )
}

/// The cost of TLS and HTTP/2, of the transports that were run.
fn transports(runs: &[RunFigures]) -> Vec<Finding> {
    let of = |name: &str| {
        runs.iter().find(|run| {
            let key = run.key;
            key.operation == Operation::Version
                && key.transport.name() == name
                && key.hand_over == HAND_OVERS[0]
        })
    };
    let plain = of("http1");
    let added = |name: &str, text: &str, other: Option<&RunFigures>, there: f64| {
        let added_there = there - original::TOTAL_NS;
        let (Some(plain), Some(other)) = (plain, other) else {
            let sentence = "This transport was not run.".to_owned();
            return finding(name, text, sentence, None, &[]);
        };
        let (before, after) = (total_median(plain), total_median(other));
        let in_write = median(other, "write") - median(plain, "write");
        let part = |name: &str| other.server.transport_part(name).map_or(0, |part| part.p50_ns);
        let (decrypt, encrypt) = (part("decrypt") as f64, part("encrypt") as f64);
        finding(
            name,
            text,
            format!(
                "The total is {} here, {} more than over HTTP/1.1 without TLS; {} of that is in \
                 the phase write, where encryption takes {}. Before the total, decryption takes {} \
                 of receive, which is {}.",
                us(after),
                us(after - before),
                us(in_write),
                us(encrypt),
                us(decrypt),
                us(median(other, "receive"))
            ),
            Some(is_near(after / before.max(1.0), there / original::TOTAL_NS)),
            &[
                ("median_ns", after),
                ("added_ns", after - before),
                ("added_in_write_ns", in_write),
                ("decrypt_ns", decrypt),
                ("encrypt_ns", encrypt),
                ("original_added_ns", added_there),
            ],
        )
    };
    vec![
        added(
            "tls",
            "TLS adds 15 to 17 µs, all of it in writing: 77 µs.",
            of("tls"),
            original::TOTAL_TLS_NS,
        ),
        added(
            "http2",
            "HTTP/2 over TLS takes 79 µs, hardly more than HTTP/1.1 over TLS.",
            of("http2"),
            original::TOTAL_HTTP2_NS,
        ),
    ]
}

/// The cost of the store, which the original did not look at.
fn entities(
    get: Option<&RunFigures>,
    put: Option<&RunFigures>,
    version: &RunFigures,
) -> Option<Finding> {
    let (get, put) = (get?, put?);
    let of = |run: &RunFigures| (total_median(run), median(run, "execute"));
    let ((get_total, get_execute), (put_total, put_execute)) = (of(get), of(put));
    Some(finding(
        "entities",
        "The storage engine is not looked at: /_api/version does not touch it.",
        format!(
            "A GET of 100 bytes takes {}, {} of them in the store, a PUT {} and {}; without the \
             store it is {}.",
            us(get_total),
            us(get_execute),
            us(put_total),
            us(put_execute),
            us(total_median(version))
        ),
        None,
        &[
            ("get_median_ns", get_total),
            ("get_execute_ns", get_execute),
            ("put_median_ns", put_total),
            ("put_execute_ns", put_execute),
        ],
    ))
}
