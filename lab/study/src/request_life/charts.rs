//! The charts of the study: for every run a table, histograms and jitter plots, and all runs side
//! by side.

use pellucid_account::Distribution;
use pellucid_report::{Chart, ChartForm, ChartGroup, ChartSection, Series, Unit};

use super::client::RunFigures;
use super::figures::PhaseFigures;
use super::original;
use super::plan::{HAND_OVERS, Operation};
use crate::jitter::{Jitter, ZOOM_MARGIN};

/// The phases: `receive`, which precedes the total, and those within the total.
const PHASES: [&str; 8] =
    ["receive", "parse", "route", "queue", "execute", "encode", "write", "unaccounted"];

/// The part of the report with a section for each run.
const SINGLE_RUNS: &str = "Single runs";

/// A column: its name, and the function that returns its value in nanoseconds.
type Column = (&'static str, fn(&Distribution) -> f64);

/// The columns of the original study's table.
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
    let compared = ChartSection::new(
        "Side by side",
        format!(
            "All runs. {} Of each phase the mean, as means add up to the total and quantiles do \
             not.",
            measured_by(runs, clock)
        ),
        vec![totals(runs), phases_side_by_side(runs), client_beside(runs), beside_original(runs)],
    );
    let each = runs.iter().map(|run| section(run, clock));
    [compared].into_iter().chain(each).collect()
}

/// A sentence about the clock and the processor frequency of the figures.
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
    words: (&str, &str, &str),
    columns: Vec<String>,
    rows: impl IntoIterator<Item = Series>,
) -> Chart {
    Chart::new(words, Unit::Nanoseconds, ChartForm::Table { columns }, rows)
}

fn row(name: impl Into<String>, distribution: &Distribution) -> Series {
    Series::new(name, COLUMNS.map(|(_, of)| Some(of(distribution))).to_vec())
}

fn columns() -> Vec<String> {
    COLUMNS.map(|(name, _)| name.to_owned()).to_vec()
}

fn totals(runs: &[RunFigures]) -> Chart {
    let rows = runs.iter().map(|run| row(run.key.title(), &run.server.total));
    let how_to_read = "From a request read whole until its response is written.";
    table(("totals", "Totals", how_to_read), columns(), rows)
}

fn phases_side_by_side(runs: &[RunFigures]) -> Chart {
    let of = |name: &&str| {
        let means = runs.iter().map(|run| Some(run.server.phase(name).mean_ns));
        Series::new(*name, means.collect())
    };
    Chart::new(
        ("phases", "Phases", "Means; what precedes the total, receive, is left out."),
        Unit::Nanoseconds,
        ChartForm::Bars { rows: runs.iter().map(|run| run.key.title()).collect() },
        PHASES[1..].iter().map(of),
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
        rows,
    )
}

/// The main chart of the study: the original's request beside ours.
pub(super) fn picture(runs: &[RunFigures]) -> Chart {
    let by_need = runs.iter().filter(|run| run.key.hand_over == HAND_OVERS[0]);
    let by_need: Vec<RunFigures> = by_need.cloned().collect();
    Chart { name: "picture".to_owned(), ..beside_original(&by_need) }
}

/// Our phases mapped to those of the original. Its three phases before the first hand-over
/// correspond to our parsing and routing, and its hand-over back to our encoding.
fn beside_original(runs: &[RunFigures]) -> Chart {
    let ours: Vec<&RunFigures> =
        runs.iter().filter(|run| run.key.operation == Operation::Version).collect();
    let median = |run: &RunFigures, name: &str| run.server.phase(name).p50_ns as f64;
    let series = |name: &str, theirs: f64, phases: &[&str]| {
        let own = ours.iter().map(|run| phases.iter().map(|name| median(run, name)).sum::<f64>());
        Series::new(name, [theirs].into_iter().chain(own).map(Some).collect())
    };
    let rows = ours.iter().map(|run| format!("here: {}", run.key.title()));
    Chart::new(
        (
            "beside_original",
            "Beside the study of ArangoDB",
            "Medians of phases of /_api/version; in that study they added up to the median of the \
             total. The machines differ: look at the shares.",
        ),
        Unit::Nanoseconds,
        ChartForm::Bars {
            rows: std::iter::once("ArangoDB, HTTP/1.1 (60 µs)".to_owned()).chain(rows).collect(),
        },
        [
            series("parse and route", original::BEFORE_NS, &["parse", "route"]),
            series("hand-over", original::HAND_OVER_NS, &["queue"]),
            series("execute", original::EXECUTE_NS, &["execute"]),
            series("hand-over back, encode", original::HAND_BACK_NS, &["encode"]),
            series("write", original::WRITE_NS, &["write"]),
        ],
    )
}

/// The times of each phase according to the probes, beside those of the account.
pub(super) fn outside(rows: &[(&str, Distribution, Distribution)]) -> Chart {
    let names = ["median", "99 %"];
    let columns =
        names.iter().flat_map(|name| [format!("probes, {name}"), format!("account, {name}")]);
    let rows = rows.iter().map(|(name, probes, account)| {
        let values = [probes.p50_ns, account.p50_ns, probes.p99_ns, account.p99_ns];
        Series::new(*name, values.map(|ns| Some(ns as f64)).to_vec())
    });
    table(
        (
            "outside",
            "Probes and account",
            "The same requests, seen by two instruments. A stamp's own time is an argument of its \
             probe, so both are to agree to a few nanoseconds.",
        ),
        columns.collect(),
        rows,
    )
}

fn section(run: &RunFigures, clock: &str) -> ChartSection {
    let (key, name) = (run.key, run.key.name());
    let server = &run.server;
    let total = Measurement {
        name: &name,
        series: "total",
        distribution: &server.total,
        points: &server.points,
    };
    let groups = server.phases.iter().filter(|phase| phase.distribution.max_ns > 0);
    let idle = server.phases.iter().filter(|phase| phase.distribution.max_ns == 0);
    let idle: Vec<&str> = idle.map(|phase| phase.name.as_str()).collect();
    let without = match idle.len() {
        0 => String::new(),
        _ => format!(" No request spent time in: {}.", idle.join(", ")),
    };
    ChartSection {
        name: key.title(),
        description: format!(
            "{} requests, one after the other on one connection, {:.0} a second. {} Below the \
             total's charts are those of each phase.{without}",
            server.total.count,
            run.judged.answered_per_second,
            measured_by(std::slice::from_ref(run), clock)
        ),
        part: Some(SINGLE_RUNS.to_owned()),
        charts: [phase_table(run, &name)].into_iter().chain(total.charts()).collect(),
        groups: groups.map(|phase| group(phase, &name)).collect(),
    }
}

fn group(phase: &PhaseFigures, run: &str) -> ChartGroup {
    let distribution = &phase.distribution;
    let show = |ns: u64| Unit::Nanoseconds.show(ns as f64);
    let measured = Measurement {
        name: &format!("{run}_{}", phase.name),
        series: &phase.name,
        distribution,
        points: &phase.points,
    };
    ChartGroup {
        name: phase.name.clone(),
        description: format!(
            "median {}, 99.9 % {}, max {}",
            show(distribution.p50_ns),
            show(distribution.p99_9_ns),
            show(distribution.max_ns)
        ),
        charts: measured.charts(),
    }
}

fn phase_table(run: &RunFigures, name: &str) -> Chart {
    let mut rows = Vec::new();
    for phase in PHASES {
        rows.push(row(phase, run.server.phase(phase)));
        if phase == "receive" {
            rows.push(row(" loop_wait", &run.server.loop_wait));
        }
        let parts = run.server.transport_parts.iter().filter(|part| part.phase == phase);
        rows.extend(parts.map(|part| row(format!(" {}", part.name), &part.distribution)));
    }
    rows.push(row("total", &run.server.total));
    rows.push(row("client", &run.client));
    table(
        (
            &format!("{name}_phases"),
            "Phases",
            "Quantiles are exact. What is indented is part of the phase above. Receive, with the \
             wait for the event loop in it, precedes the total. The client's time is from its \
             send to the last byte; the server's ends when its system call returns, by when the \
             client may have its answer already.",
        ),
        columns(),
        rows,
    )
}

/// The data of a histogram and jitter plots: the total of a run, or one of its phases.
struct Measurement<'a> {
    /// The prefix of the charts' names.
    name: &'a str,
    /// `total`, or the name of the phase.
    series: &'a str,
    distribution: &'a Distribution,
    points: &'a [(f64, u64)],
}

impl Measurement<'_> {
    /// The logarithmic histogram, and the jitter plots, whole and zoomed.
    fn charts(&self) -> Vec<Chart> {
        let how_to_read = format!(
            "Each point is a request: when it was done, and its {}. Of each stretch the slowest \
             and the first are drawn.",
            self.series
        );
        let jitter = Jitter {
            name: self.name,
            whose: self.series,
            series: self.series,
            how_to_read: &how_to_read,
            points: self.points,
            spans: &[],
        };
        let ceiling_ns = self.distribution.p99_9_ns as f64 * ZOOM_MARGIN;
        let mut charts = vec![self.histogram(), jitter.whole()];
        // If almost all requests took no time, a zoomed plot would be empty.
        if ceiling_ns > 0.0 {
            charts.push(jitter.zoomed(ceiling_ns));
        }
        charts
    }

    fn histogram(&self) -> Chart {
        let rows = self.distribution.log2.iter();
        let label = |floor_ns: u64| {
            let bound = |ns: u64| match ns {
                0..1_000 => format!("{ns} ns"),
                1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
                _ => format!("{:.1} ms", ns as f64 / 1e6),
            };
            match floor_ns {
                0 => bound(0),
                _ => format!("{} – {}", bound(floor_ns), bound(floor_ns.saturating_mul(2))),
            }
        };
        Chart::new(
            (
                format!("{}_histogram", self.name),
                format!("Logarithmic histogram: {}", self.series),
                "How many requests took how long. Each row reaches twice as far as the one above \
                 it.",
            ),
            Unit::Count,
            ChartForm::Bars { rows: rows.clone().map(|(floor_ns, _)| label(*floor_ns)).collect() },
            [Series::new("requests", rows.map(|(_, count)| Some(*count as f64)).collect())],
        )
    }
}

#[cfg(test)]
mod tests {
    use pellucid_report::{JudgedLoad, StudyReport, study_html};

    use super::super::figures::{PHASE_POINTS_MAX, POINTS_MAX, ServerFigures, distribution};
    use super::super::plan::{OPERATIONS, RunKey, TRANSPORTS};
    use super::*;

    /// The largest page with all runs, in bytes; it does not depend on the number of requests.
    const PAGE_BYTES_MAX: usize = 12 << 20;

    fn points(count: usize) -> Vec<(f64, u64)> {
        let point = |at: usize| (at as f64 * 0.001_234_567, 1_000 + at as u64 * 7_919 % 100_000);
        (0..count).map(point).collect()
    }

    fn of(points: &[(f64, u64)]) -> Distribution {
        distribution(points.iter().map(|(_, ns)| *ns).collect())
    }

    /// A run with the most points possible, and without hand-overs.
    fn run(key: RunKey) -> RunFigures {
        let phase = |name: &str| {
            let idle = vec![(0.0, 0); PHASE_POINTS_MAX];
            let points = if name == "queue" { idle } else { points(PHASE_POINTS_MAX) };
            PhaseFigures { name: name.to_owned(), distribution: of(&points), points }
        };
        let total = points(POINTS_MAX);
        RunFigures {
            key,
            server: ServerFigures {
                total: of(&total),
                phases: PHASES.map(phase).to_vec(),
                points: total,
                ..ServerFigures::default()
            },
            client: Distribution::default(),
            judged: JudgedLoad::default(),
        }
    }

    #[test]
    fn phases_that_took_time_have_charts_and_the_others_are_named() {
        let key =
            RunKey { operation: OPERATIONS[0], transport: TRANSPORTS[0], hand_over: HAND_OVERS[0] };
        let section = section(&run(key), "a clock");
        let groups: Vec<&str> = section.groups.iter().map(|group| group.name.as_str()).collect();
        let expected: Vec<&str> =
            PHASES.iter().copied().filter(|phase| *phase != "queue").collect();
        assert_eq!(groups, expected);
        assert!(section.description.ends_with("No request spent time in: queue."));
        for group in &section.groups {
            let names: Vec<&str> = group.charts.iter().map(|chart| chart.name.as_str()).collect();
            let wanted = ["histogram", "jitter", "jitter_zoomed"]
                .map(|chart| format!("version_http1_auto_{}_{chart}", group.name));
            assert_eq!(names, wanted);
            let counted = group.charts[0].series[0].sum();
            assert_eq!(counted, PHASE_POINTS_MAX as f64, "each request is in one row");
            assert!(group.description.starts_with("median "), "{}", group.description);
        }
    }

    #[test]
    fn the_page_of_all_runs_is_bounded() {
        let keys = OPERATIONS.into_iter().flat_map(|operation| {
            TRANSPORTS.into_iter().flat_map(move |transport| {
                HAND_OVERS.map(|hand_over| RunKey { operation, transport, hand_over })
            })
        });
        let runs: Vec<RunFigures> = keys.map(run).collect();
        let sections = sections(&runs, "a clock");
        let report = StudyReport { sections, ..StudyReport::default() };
        let page = study_html(&report);
        assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
        assert_eq!(page.matches("<figure").count(), report.charts().count());
        let json = report.json().expect("a report is written");
        assert!(json.len() < 2 * PAGE_BYTES_MAX, "{} bytes", json.len());
    }
}
