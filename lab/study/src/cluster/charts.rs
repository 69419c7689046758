//! The reading of the figures: conclusions, tables, and the account of a forwarded request.

use std::collections::BTreeMap;

use pellucid_account::OperationAccount;
use pellucid_report::{Chart, ChartSection, Finding, Form, Series, Unit};

use super::load::{P99, PERCENTILES, Work};
use super::nodes::Whose;
use super::{ClusterRun, Row};
use crate::chart::chart;
use crate::means;
use crate::spread::{BARS, bar_name, shares_of};

impl ClusterRun {
    fn row(&self, work: Work, whose: Whose) -> Option<&Row> {
        self.rows.iter().find(|row| row.work == work && row.whose == whose)
    }

    /// A figure of forwarded requests over that of the node's own.
    fn ratio(&self, work: Work, of: impl Fn(&Row) -> f64) -> f64 {
        self.ratio_of(work, [Whose::Others, Whose::Own], of)
    }

    /// A figure of one kind of load over that of another.
    fn ratio_of(&self, work: Work, pair: [Whose; 2], of: impl Fn(&Row) -> f64) -> f64 {
        let [one, other] = pair.map(|whose| self.row(work, whose).map_or(f64::NAN, &of));
        one / other
    }

    /// The 99th percentile with missing keys over that without, in the middle one of the kinds of
    /// load: a single run of seconds has what chance it had.
    fn missing(&self) -> f64 {
        let p99 = |work, whose| self.row(work, whose).map_or(f64::NAN, |row| row.loaded.at(P99));
        let mut ratios =
            Whose::ALL.map(|whose| p99(Work::GetMissing, whose) / p99(Work::Get, whose));
        ratios.sort_by(f64::total_cmp);
        ratios[ratios.len() / 2]
    }
}

pub(super) fn findings(measured: &ClusterRun) -> Vec<Finding> {
    let cpu = |work| measured.ratio(work, |row| row.processor_ns);
    let tail = |work| measured.ratio(work, |row| row.loaded.at(P99));
    let (put, get) = (cpu(Work::Put), cpu(Work::Get));
    let missing = measured.missing();
    let against_one =
        |work, whose| measured.ratio_of(work, [whose, Whose::Alone], |row| row.processor_ns);
    let direct = [Work::Put, Work::Get].map(|work| against_one(work, Whose::Direct));
    let by_one = [Work::Put, Work::Get].map(|work| against_one(work, Whose::All));
    let keys: u64 = measured.shares.iter().sum();
    let thirds = measured.shares.iter().map(|share| *share as f64 * 3.0 / keys.max(1) as f64);
    let furthest = thirds.map(|third| (third - 1.0).abs()).fold(0.0, f64::max);
    let finding =
        |name: &str, original: &str, sentence: String, is_same, figures: &[(&str, f64)]| {
            let figures = figures.iter().map(|(name, value)| ((*name).to_owned(), *value));
            Finding {
                name: name.to_owned(),
                original: original.to_owned(),
                sentence,
                is_same,
                figures: figures.collect::<BTreeMap<_, _>>(),
            }
        };
    vec![
        finding(
            "forwarding_is_everything",
            "The local write took 2.67 % of the samples; the client of HTTP that forwards took \
             most of the processor time and 80 % of the allocations.",
            format!(
                "A forwarded PUT costs {put:.2} times the processor time of one of the node's own, \
                 both nodes together, and a GET {get:.2} times; their 99th percentiles are {:.2} \
                 and {:.2} times as high.",
                tail(Work::Put),
                tail(Work::Get)
            ),
            Some(put > 2.5 || get > 2.5),
            &[
                ("cpu_put", put),
                ("cpu_get", get),
                ("p99_put", tail(Work::Put)),
                ("p99_get", tail(Work::Get)),
            ],
        ),
        finding(
            "three_cost_more_than_one",
            "Latencies of PUT were higher than those of the node alone before, because of the \
             requests to the other nodes.",
            format!(
                "Against a node alone, three that share the keys take {:.2} (PUT) and {:.2} (GET) \
                 times the processor time of a request if each owner is asked directly, and {:.2} \
                 and {:.2} times if one is asked for all.",
                direct[0], direct[1], by_one[0], by_one[1]
            ),
            Some(by_one.iter().any(|ratio| *ratio > 1.25)),
            &[
                ("direct_put", direct[0]),
                ("direct_get", direct[1]),
                ("by_one_put", by_one[0]),
                ("by_one_get", by_one[1]),
            ],
        ),
        finding(
            "missing_keys_are_slow",
            "With 30 % of the keys missing, the 99th percentile of GET was 203 ms instead of 2 ms.",
            format!(
                "With 30 % of the keys missing, the 99th percentile is {missing:.2} times that of \
                 keys that are there, in the middle one of the kinds of load."
            ),
            Some(missing > 1.2),
            &[("p99_missing_vs_present", missing)],
        ),
        finding(
            "nodes_share_evenly",
            "Each of the three nodes held about 507 MB of 1.5 GB.",
            format!("No node's share is further than {:.1} % from a third.", furthest * 100.0),
            Some(furthest <= 0.05),
            &[("furthest_from_a_third", furthest)],
        ),
    ]
}

pub(super) fn sections(measured: &ClusterRun) -> Vec<ChartSection> {
    let mut sections: Vec<_> = Work::ALL.into_iter().map(|work| section(measured, work)).collect();
    let mut shares = chart(
        "shares".to_owned(),
        "Keys of each node",
        "As each node counts its own.",
        Unit::Count,
        Form::Table { columns: vec!["keys".to_owned()] },
    );
    let of = |(node, share): (usize, &u64)| {
        Series::new(format!("node {}", node + 1), vec![Some(*share as f64)])
    };
    shares.series = measured.shares.iter().enumerate().map(of).collect();
    sections.push(ChartSection {
        name: "Shares".to_owned(),
        description: "How the keys are spread over the nodes.".to_owned(),
        charts: vec![shares],
        groups: Vec::new(),
    });
    sections
}

fn section(measured: &ClusterRun, work: Work) -> ChartSection {
    let rows: Vec<_> = measured.rows.iter().filter(|row| row.work == work).collect();
    let name = match work {
        Work::Put => "put",
        Work::Get => "get",
        Work::GetMissing => "get_missing",
    };
    let (rate, highest) = rows.first().map_or((0.0, 0.0), |row| (row.rate, row.highest));
    let columns = PERCENTILES.iter().map(|(name, _)| *name).chain(["processor time"]);
    let mut times = chart(
        format!("{name}_times"),
        "Percentiles, and processor time",
        "Response times as the clients saw them, from the intended start. Processor time is that \
         of all nodes, by request.",
        Unit::Nanoseconds,
        Form::Table { columns: columns.map(str::to_owned).collect() },
    );
    let values = |row: &&Row| {
        let percentiles = PERCENTILES.iter().map(|(_, at)| row.loaded.at(*at));
        let values = percentiles.chain([row.processor_ns]).map(Some).collect();
        Series::new(row.whose.title(), values)
    };
    times.series = rows.iter().map(values).collect();
    let mut charts = vec![times, histogram(&rows, name)];
    charts.extend(
        rows.iter().find(|row| row.whose == Whose::Others).and_then(|row| account(row, name)),
    );
    ChartSection {
        name: work.title().to_owned(),
        description: format!(
            "{rate:.0} requests a second, of {highest:.0} at most for keys of other nodes, put on \
             one node alone and on three in four ways."
        ),
        charts,
        groups: Vec::new(),
    }
}

/// The spread of the response times, a column of bars for each kind of load.
fn histogram(rows: &[&Row], name: &str) -> Chart {
    let mut chart = chart(
        format!("{name}_histogram"),
        "How the response times are spread",
        "Of all requests, the share whose response time lies below the bound and above the one \
         before.",
        Unit::Share,
        Form::Table { columns: rows.iter().map(|row| row.whose.title().to_owned()).collect() },
    );
    let shares: Vec<_> = rows.iter().map(|row| shares_of(&row.loaded.times)).collect();
    let series = (0..BARS).map(|bar| {
        Series::new(bar_name(bar), shares.iter().map(|shares| Some(shares[bar])).collect())
    });
    chart.series = series.collect();
    chart
}

/// The parts of the time of a forwarded request: the entry node's phases, and within `execute` the
/// way and the owner.
fn account(row: &Row, name: &str) -> Option<Chart> {
    let is_one = |operation: &&OperationAccount| operation.operation.ends_with("_forwarded");
    let busiest = row.operations.iter().filter(is_one).max_by_key(|operation| operation.count)?;
    let bar = format!("{} {}", busiest.operation, busiest.outcome);
    Some(means::bars(
        (
            format!("{name}_account"),
            "Where the time of a forwarded request goes",
            "Means of a request at the node that was asked. What is within `execute` stands in its \
             parts: the wait for the connection, the way, and the owner's own account.",
        ),
        &[(bar, means::of_all(busiest))],
    ))
}
