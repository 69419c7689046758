//! The charts of the study: for each kind of work, its loads side by side and the account of a
//! forwarded request.

use hdrhistogram::Histogram;
use pellucid_account::OperationAccount;
use pellucid_report::{Chart, ChartForm, ChartSection, Series, Unit};

use super::load::{LoadKind, PERCENTILES};
use super::nodes::RoutingVariant;
use super::run::{ClusterRun, Row};
use crate::means;
use crate::response_histogram::histogram;

/// All runs of one load, with their response times merged.
struct MergedRuns<'a> {
    whose: RoutingVariant,
    rows: Vec<&'a Row>,
    times: Histogram<u64>,
}

impl MergedRuns<'_> {
    /// Merges the runs of each load of one kind of work.
    fn of(measured: &ClusterRun, work: LoadKind) -> Vec<MergedRuns<'_>> {
        let of = |whose| {
            let all = measured.rounds.iter().flatten();
            let rows: Vec<&Row> =
                all.filter(|row| (row.work, row.whose) == (work, whose)).collect();
            let mut times = rows.first()?.loaded.times.clone();
            for row in &rows[1..] {
                // All histograms come from the same generator and have the same bounds.
                times.add(&row.loaded.times).ok()?;
            }
            Some(MergedRuns { whose, rows, times })
        };
        RoutingVariant::ALL.into_iter().filter_map(of).collect()
    }

    fn processor_ns(&self) -> f64 {
        self.rows.iter().map(|row| row.processor_ns).sum::<f64>() / self.rows.len().max(1) as f64
    }
}

pub(super) fn sections(measured: &ClusterRun) -> Vec<ChartSection> {
    let mut sections: Vec<_> =
        LoadKind::ALL.into_iter().map(|work| section(measured, work)).collect();
    let of = |(node, share): (usize, &u64)| {
        Series::new(format!("node {}", node + 1), vec![Some(*share as f64)])
    };
    let shares = Chart::new(
        ("shares", "Keys of each node", "As each node counts its own."),
        Unit::Count,
        ChartForm::Table { columns: vec!["keys".to_owned()] },
        measured.shares.iter().enumerate().map(of),
    );
    let description = "The spread of the keys over the nodes.";
    sections.push(ChartSection::new("Shares", description, vec![shares]));
    sections
}

/// The main chart of the study: the processor time of a request, by kind of load.
pub(super) fn picture(measured: &ClusterRun) -> Chart {
    let rows = RoutingVariant::ALL.map(|whose| whose.title().to_owned()).to_vec();
    let series = [LoadKind::Put, LoadKind::Get].map(|work| {
        let values = MergedRuns::of(measured, work);
        Series::new(work.title(), values.iter().map(|of| Some(of.processor_ns())).collect())
    });
    let words = (
        "processor_time",
        "Processor time of a request, by the node that is asked",
        "Means of all runs, all nodes together. Forwarding costs the distance of the fourth row \
         from the third.",
    );
    Chart::new(words, Unit::Nanoseconds, ChartForm::Groups { rows }, series)
}

fn section(measured: &ClusterRun, work: LoadKind) -> ChartSection {
    let pooled = MergedRuns::of(measured, work);
    let name = work.name();
    let columns = PERCENTILES.iter().map(|(name, _)| *name).chain(["processor time"]);
    let at = |of: &MergedRuns<'_>, quantile| of.times.value_at_quantile(quantile) as f64;
    let values = |of: &MergedRuns<'_>| {
        let percentiles = PERCENTILES.iter().map(|(_, quantile)| at(of, *quantile));
        let values = percentiles.chain([of.processor_ns()]).map(Some).collect();
        Series::new(of.whose.title(), values)
    };
    let words = (
        format!("{name}_times"),
        "Percentiles, and processor time",
        "Response times of all runs as the clients saw them, from the intended start. Processor \
         time is that of all nodes, by request.",
    );
    let form = ChartForm::Table { columns: columns.map(str::to_owned).collect() };
    let times = Chart::new(words, Unit::Nanoseconds, form, pooled.iter().map(values));
    let quantiles: Vec<f64> = PERCENTILES[..PERCENTILES.len() - 1].iter().map(|of| of.1).collect();
    let curve = |of: &MergedRuns<'_>| {
        let values = quantiles.iter().map(|quantile| Some(at(of, *quantile)));
        Series::new(of.whose.title(), values.collect())
    };
    let words = (
        format!("{name}_curves"),
        "Percentile spectrum",
        "The response time of all runs by the share of requests that took no longer.",
    );
    let form = ChartForm::Percentiles { quantiles: quantiles.clone() };
    let curves = Chart::new(words, Unit::Nanoseconds, form, pooled.iter().map(curve));
    let spectra: Vec<_> = pooled.iter().map(|of| (of.whose.title(), &of.times)).collect();
    let mut charts = vec![times, curves, histogram(format!("{name}_histogram"), &spectra)];
    let forwarded = pooled.iter().find(|of| of.whose == RoutingVariant::Others);
    charts.extend(forwarded.and_then(|of| account(of.rows.last()?, name)));
    ChartSection::new(work.title(), measured.rates(work), charts)
}

/// The account of a forwarded request: the phases at the entry node, and within `execute` the
/// network and the owner's work.
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
