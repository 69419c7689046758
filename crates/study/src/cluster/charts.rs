//! What the figures say: conclusions, tables, and the account of a forwarded request.

use std::collections::BTreeMap;

use pellucid_account::OperationAccount;
use pellucid_report::{Chart, ChartSection, Finding, Form, Series, Unit};

use super::load::Work;
use super::nodes::Whose;
use super::{Measured, Row};
use crate::chart::chart;

impl Measured {
    fn row(&self, work: Work, whose: Whose) -> Option<&Row> {
        self.rows.iter().find(|row| row.work == work && row.whose == whose)
    }

    /// A figure of forwarded requests over that of the node's own.
    fn ratio(&self, work: Work, of: impl Fn(&Row) -> f64) -> f64 {
        let of = |whose| self.row(work, whose).map_or(f64::NAN, &of);
        of(Whose::Others) / of(Whose::Own)
    }
}

pub(super) fn findings(measured: &Measured) -> Vec<Finding> {
    let cpu = |work| measured.ratio(work, |row| row.processor_ns);
    let tail = |work| measured.ratio(work, |row| row.loaded.p99_ns);
    let (put, get) = (cpu(Work::Put), cpu(Work::Get));
    let p99 = |work| measured.row(work, Whose::All).map_or(f64::NAN, |row| row.loaded.p99_ns);
    let missing = p99(Work::GetMissing) / p99(Work::Get);
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
            "missing_keys_are_slow",
            "With 30 % of the keys missing, the 99th percentile of GET was 203 ms instead of 2 ms.",
            format!(
                "With 30 % of the keys missing, the 99th percentile is {missing:.2} times that of \
                 keys that are there."
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

pub(super) fn sections(measured: &Measured) -> Vec<ChartSection> {
    let mut sections: Vec<_> = Work::ALL.into_iter().map(|work| section(measured, work)).collect();
    let mut shares = chart(
        "shares".to_owned(),
        "Keys of each node",
        "By the rule of docs/cluster.md.",
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
    });
    sections
}

fn section(measured: &Measured, work: Work) -> ChartSection {
    let rows: Vec<_> = measured.rows.iter().filter(|row| row.work == work).collect();
    let name = match work {
        Work::Put => "put",
        Work::Get => "get",
        Work::GetMissing => "get_missing",
    };
    let rate = rows.first().map_or(0.0, |row| row.rate);
    let columns = ["p50", "p90", "p99", "p99.9", "max", "processor time"];
    let mut times = chart(
        format!("{name}_times"),
        "Percentiles, and processor time",
        "Service times as the clients saw them. Processor time is that of all nodes, by request.",
        Unit::Nanoseconds,
        Form::Table { columns: columns.map(str::to_owned).to_vec() },
    );
    let values = |row: &&Row| {
        let mut values: Vec<_> =
            row.loaded.percentiles().iter().map(|(_, value)| Some(*value)).collect();
        values.push(Some(row.processor_ns));
        Series::new(row.whose.title(), values)
    };
    times.series = rows.iter().map(values).collect();
    let mut charts = vec![times];
    charts.extend(
        rows.iter().find(|row| row.whose == Whose::Others).and_then(|row| account(row, name)),
    );
    ChartSection {
        name: work.title().to_owned(),
        description: format!(
            "{rate:.0} requests a second for keys of the node that is asked, for keys of the \
             others, and for all."
        ),
        charts,
    }
}

/// Where the time of a forwarded request goes: the entry node's phases, and within `execute` the
/// way and the owner.
fn account(row: &Row, name: &str) -> Option<Chart> {
    let is_one = |operation: &&OperationAccount| operation.operation.ends_with("_forwarded");
    let busiest = row.operations.iter().filter(is_one).max_by_key(|operation| operation.count)?;
    let mut chart = chart(
        format!("{name}_account"),
        "Where the time of a forwarded request goes",
        "Means of a request at the node that was asked. What is within `execute` stands in its \
         parts: the wait for the connection, the way, and the owner's own account.",
        Unit::Nanoseconds,
        Form::Bars { rows: vec![format!("{} {}", busiest.operation, busiest.outcome)] },
    );
    let mut rest = 0.0;
    for phase in &busiest.phases {
        let mean = phase.distribution.mean_ns;
        if phase.name == "execute" {
            rest = mean;
            for part in &busiest.parts {
                let share = part.distribution.count as f64 / busiest.count.max(1) as f64;
                let mean = part.distribution.mean_ns * share;
                rest -= mean;
                chart.series.push(Series::new(part.name.clone(), vec![Some(mean)]));
            }
        } else {
            chart.series.push(Series::new(phase.name.clone(), vec![Some(mean)]));
        }
    }
    chart.series.push(Series::new("rest of execute", vec![Some(rest.max(0.0))]));
    Some(chart)
}
