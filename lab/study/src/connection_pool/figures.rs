//! The measurements, row by row.

use std::collections::BTreeMap;

use super::client::{ClientRun, Stages};
use super::plan::{Access, Connection};

/// One row: so many concurrent queries over one connection, against Pellucid and against the
/// trivial server.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) connection: Connection,
    pub(super) access: Access,
    pub(super) queries: u64,
    pub(super) pellucid: Vec<ClientRun>,
    pub(super) trivial: Vec<ClientRun>,
}

/// The mean of `of` over runs; nothing if a run has none.
pub(super) fn mean(runs: &[ClientRun], of: impl Fn(&ClientRun) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = runs.iter().map(of).collect();
    let values = values.filter(|values| !values.is_empty())?;
    Some(values.iter().sum::<f64>() / values.len() as f64)
}

impl Row {
    /// The name in tables.
    pub(super) fn title(&self) -> String {
        format!("{}, {} queries", self.connection.title(), self.queries)
    }

    /// Milliseconds of all queries, if all were answered.
    pub(super) fn wall_ms(runs: &[ClientRun]) -> Option<f64> {
        mean(runs, |run| run.failures.is_empty().then_some(run.wall_ms))
    }

    /// Pellucid's share of what the client reaches against the trivial server: the time
    /// there over the time here.
    pub(super) fn share_of_ceiling(&self) -> Option<f64> {
        let (here, ceiling) = (Row::wall_ms(&self.pellucid)?, Row::wall_ms(&self.trivial)?);
        (here > 0.0).then_some(ceiling / here)
    }

    /// A stage's mean against Pellucid, in nanoseconds.
    pub(super) fn stage_ns(&self, of: impl Fn(&Stages) -> Option<f64>) -> Option<f64> {
        mean(&self.pellucid, |run| of(&run.stages)).map(|ms| ms * 1e6)
    }

    /// A phase of the server's own account, mean of a query in nanoseconds.
    pub(super) fn server_ns(&self, phase: &str) -> Option<f64> {
        mean(&self.pellucid, |run| run.server.get(phase).copied().flatten()).map(|ms| ms * 1e6)
    }

    /// Queries that were not answered, by what they were told.
    pub(super) fn refusals(&self) -> BTreeMap<&str, u64> {
        let mut all = BTreeMap::new();
        for (what, count) in self.pellucid.iter().flat_map(|run| &run.failures) {
            *all.entry(what.as_str()).or_insert(0) += count;
        }
        all
    }

    /// Queries that were answered with something else than their document.
    pub(super) fn wrong(&self) -> u64 {
        self.pellucid.iter().map(|run| run.wrong).sum()
    }
}
