//! All runs of one load on one engine.

use hdrhistogram::Histogram;
use pellucid_report::{Estimate, Unit};

use super::measure::Row;
use super::plan::Engine;
use super::workload::LoadKind;

/// The runs of one load on one engine; there is at least one.
pub(super) struct LoadRuns<'a> {
    pub(super) engine: Engine,
    rows: Vec<&'a Row>,
}

impl<'a> LoadRuns<'a> {
    /// Selects the runs of this engine and work; `None` if there are none.
    pub(super) fn of(rows: &'a [Row], engine: Engine, work: LoadKind) -> Option<LoadRuns<'a>> {
        let rows = rows.iter().filter(|row| (row.engine, row.work) == (engine, work));
        let rows: Vec<&Row> = rows.collect();
        (!rows.is_empty()).then_some(LoadRuns { engine, rows })
    }

    /// The first run, which charts of single requests show.
    pub(super) fn first(&self) -> &'a Row {
        self.rows[0]
    }

    /// The runs, in order.
    pub(super) fn rows(&self) -> &[&'a Row] {
        &self.rows
    }

    /// The response times of all runs, in nanoseconds.
    pub(super) fn times(&self) -> Histogram<u64> {
        self.sum_of(|row| &row.result.times.response)
    }

    /// The response times with wrk2's pacing, in nanoseconds.
    pub(super) fn times_by_wrk2(&self) -> Histogram<u64> {
        self.sum_of(|row| &row.by_wrk2)
    }

    fn sum_of(&self, of: impl Fn(&Row) -> &Histogram<u64>) -> Histogram<u64> {
        let mut times = of(self.rows[0]).clone();
        for row in &self.rows[1..] {
            // This cannot fail: all histograms come from the same generator and have the same
            // bounds.
            let _ = times.add(of(row));
        }
        times
    }

    /// Estimates a figure over all runs that have it.
    pub(super) fn estimate(
        &self,
        name: &str,
        unit: Unit,
        of: impl Fn(&Row) -> Option<f64>,
    ) -> Estimate {
        let name = format!("{}: {name}", self.engine.name());
        Estimate::of_runs(name, unit, self.rows.iter().map(|row| of(row)))
    }
}
