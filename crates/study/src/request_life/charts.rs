//! The charts: for every run the study's table, histogram and jitter, and all runs side by side.

use pellucid_account::Distribution;
use pellucid_report::{Chart, ChartSection, Form, Series, Unit};

use super::drive::RunFigures;
use super::original;
use super::plan::Operation;
use crate::jitter::{Jitter, ZOOM_MARGIN};

/// The phases within the total, and what stands before it.
const PHASES: [&str; 8] =
    ["receive", "parse", "route", "queue", "execute", "encode", "write", "unaccounted"];

/// A column: its name, and its value of a distribution, in nanoseconds.
type Column = (&'static str, fn(&Distribution) -> f64);

/// The columns of the study's table.
const COLUMNS: [Column; 10] = [
    ("min", |d| d.min_ns as f64),
    ("1st qu.", |d| d.q1_ns as f64),
    ("median", |d| d.p50_ns as f64),
    ("mean", |d| d.mean_ns),
    ("3rd qu.", |d| d.q3_ns as f64),
    ("max", |d| d.max_ns as f64),
    ("90 %", |d| d.p90_ns as f64),
    ("99 %", |d| d.p99_ns as f64),
    ("99.9 %", |d| d.p99_9_ns as f64),
    ("99.99 %", |d| d.p99_99_ns as f64),
];

/// All sections of the report; `clock` names the clock behind every figure.
pub(super) fn sections(runs: &[RunFigures], clock: &str) -> Vec<ChartSection> {
    let compared = ChartSection {
        name: "Side by side".to_owned(),
        description: format!(
            "All runs. {} Of each phase the mean, as means add up to the total and quantiles do \
             not.",
            measured_by(runs, clock)
        ),
        charts: vec![
            totals(runs),
            phases_side_by_side(runs),
            client_beside(runs),
            beside_original(runs),
        ],
    };
    let each = runs.iter().map(|run| section(run, clock));
    [compared].into_iter().chain(each).collect()
}

/// What every figure was read from, in a sentence.
fn measured_by(runs: &[RunFigures], clock: &str) -> String {
    let ranges = runs.iter().filter_map(|run| run.server.processor_mhz);
    let range = ranges.fold(None, |all: Option<(f64, f64)>, (low, high)| {
        Some(all.map_or((low, high), |all| (all.0.min(low), all.1.max(high))))
    });
    match range {
        Some((low, high)) if high - low < 1.0 => {
            format!("Clock: {clock}; processor at {low:.0} MHz.")
        }
        Some((low, high)) => format!("Clock: {clock}; processor at {low:.0} to {high:.0} MHz."),
        None => format!("Clock: {clock}; the processor's frequency is not known."),
    }
}

fn table(
    (name, title, how_to_read): (&str, &str, &str),
    columns: Vec<String>,
    rows: Vec<Series>,
) -> Chart {
    Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        how_to_read: how_to_read.to_owned(),
        unit: Unit::Nanoseconds,
        form: Form::Table { columns },
        series: rows,
        moments: Vec::new(),
        spans: Vec::new(),
    }
}

fn row(name: impl Into<String>, distribution: &Distribution) -> Series {
    Series::new(name, COLUMNS.map(|(_, of)| Some(of(distribution))).to_vec())
}

fn columns() -> Vec<String> {
    COLUMNS.map(|(name, _)| name.to_owned()).to_vec()
}

fn totals(runs: &[RunFigures]) -> Chart {
    let rows = runs.iter().map(|run| row(run.key.title(), &run.server.total));
    table(
        ("totals", "Totals", "From a request read whole until its response is written."),
        columns(),
        rows.collect(),
    )
}

fn bars(
    (name, title, how_to_read): (&str, &str, &str),
    unit: Unit,
    rows: Vec<String>,
    series: Vec<Series>,
) -> Chart {
    Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        how_to_read: how_to_read.to_owned(),
        unit,
        form: Form::Bars { rows },
        series,
        moments: Vec::new(),
        spans: Vec::new(),
    }
}

fn phases_side_by_side(runs: &[RunFigures]) -> Chart {
    let of = |name: &&str| {
        let means = runs.iter().map(|run| Some(run.server.phase(name).mean_ns));
        Series::new(*name, means.collect())
    };
    bars(
        ("phases", "Phases", "Means; what precedes the total, receive, is left out."),
        Unit::Nanoseconds,
        runs.iter().map(|run| run.key.title()).collect(),
        PHASES[1..].iter().map(of).collect(),
    )
}

fn client_beside(runs: &[RunFigures]) -> Chart {
    let names = ["median", "99 %", "99.9 %"];
    let columns =
        names.iter().flat_map(|name| [format!("client, {name}"), format!("server, {name}")]);
    let rows = runs.iter().map(|run| {
        let (client, server) = (&run.client, &run.server.total);
        let pairs = [
            (client.p50_ns, server.p50_ns),
            (client.p99_ns, server.p99_ns),
            (client.p99_9_ns, server.p99_9_ns),
        ];
        let values = pairs.iter().flat_map(|(client, server)| [*client, *server]);
        Series::new(run.key.title(), values.map(|ns| Some(ns as f64)).collect())
    });
    table(
        (
            "client",
            "The client's view of the same requests",
            "What a client waits and no server sees: its own system calls, both sides' wake-ups, \
             and the loopback device.",
        ),
        columns.collect(),
        rows.collect(),
    )
}

/// Our phases in the terms of the original: its three phases before the first hand-over are our
/// parsing and routing, and its hand-over back has no counterpart but encoding.
fn beside_original(runs: &[RunFigures]) -> Chart {
    let ours: Vec<&RunFigures> =
        runs.iter().filter(|run| run.key.operation == Operation::Version).collect();
    let median = |run: &RunFigures, name: &str| run.server.phase(name).p50_ns as f64;
    let series = |name: &str, theirs: f64, phases: &[&str]| {
        let own = ours.iter().map(|run| phases.iter().map(|name| median(run, name)).sum::<f64>());
        Series::new(name, [theirs].into_iter().chain(own).map(Some).collect())
    };
    let rows = ours.iter().map(|run| format!("here: {}", run.key.title()));
    bars(
        (
            "beside_original",
            "Beside the study of ArangoDB",
            "Medians of phases of /_api/version; in that study they added up to the median of the \
             total. The machines differ: look at the shares.",
        ),
        Unit::Nanoseconds,
        ["ArangoDB, HTTP/1.1 (60 µs)".to_owned()].into_iter().chain(rows).collect(),
        vec![
            series("parse and route", original::BEFORE_NS, &["parse", "route"]),
            series("hand-over", original::HAND_OVER_NS, &["queue"]),
            series("execute", original::EXECUTE_NS, &["execute"]),
            series("hand-over back, encode", original::HAND_BACK_NS, &["encode"]),
            series("write", original::WRITE_NS, &["write"]),
        ],
    )
}

fn section(run: &RunFigures, clock: &str) -> ChartSection {
    let (key, name) = (run.key, run.key.name());
    ChartSection {
        name: key.title(),
        description: format!(
            "{} requests, one after the other on one connection, {:.0} a second. {}",
            run.server.total.count,
            run.requests_per_second,
            measured_by(std::slice::from_ref(run), clock)
        ),
        charts: [phase_table(run, &name), histogram(run, &name)]
            .into_iter()
            .chain(jitter(run, &name))
            .collect(),
    }
}

fn phase_table(run: &RunFigures, name: &str) -> Chart {
    let mut rows = Vec::new();
    for phase in PHASES {
        rows.push(row(phase, run.server.phase(phase)));
        if phase == "receive" {
            rows.push(row(" loop_wait", &run.server.loop_wait));
        }
    }
    rows.push(row("total", &run.server.total));
    rows.push(row("client", &run.client));
    table(
        (
            &format!("{name}_phases"),
            "Phases",
            "Quantiles are exact. Receive, with the wait for the event loop in it, precedes the \
             total. The client's time is from its send to the last byte; the server's ends when \
             its system call returns, by when the client may have its answer already.",
        ),
        columns(),
        rows,
    )
}

fn histogram(run: &RunFigures, name: &str) -> Chart {
    let rows = run.server.total.log2.iter();
    let label = |floor_ns: u64| {
        let bound = |ns: u64| match ns {
            0..1_000 => format!("{ns} ns"),
            1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
            _ => format!("{:.1} ms", ns as f64 / 1e6),
        };
        format!("{} – {}", bound(floor_ns), bound(floor_ns.max(1) * 2))
    };
    bars(
        (
            &format!("{name}_histogram"),
            "Total, logarithmic histogram",
            "How many requests took how long. Each row reaches twice as far as the one above it.",
        ),
        Unit::Count,
        rows.clone().map(|(floor_ns, _)| label(*floor_ns)).collect(),
        vec![Series::new("requests", rows.map(|(_, count)| Some(*count as f64)).collect())],
    )
}

fn jitter(run: &RunFigures, name: &str) -> [Chart; 2] {
    let jitter = Jitter {
        name,
        whose: "",
        series: "total",
        how_to_read: "Each point is a request: when it was done, and its total. Of each stretch \
                      the slowest and the first are drawn.",
        points: &run.server.points,
        spans: &[],
    };
    [jitter.whole(), jitter.zoomed(run.server.total.p99_9_ns as f64 * ZOOM_MARGIN)]
}
