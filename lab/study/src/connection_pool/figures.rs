//! The measurements of the study, row by row.

use std::collections::BTreeMap;

use pellucid_load::Verdict;
use pellucid_report::JudgedLoad;

use super::client::{ClientRun, Stages};
use super::plan::{Access, Connection};

/// The share of busy time from which on the client's process is the limit.
const BUSY_SHARE: f64 = 0.95;

/// One row: a number of concurrent queries with one connection setting, against Pellucid and
/// against the trivial server.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) connection: Connection,
    pub(super) access: Access,
    pub(super) queries: u64,
    pub(super) pellucid: Vec<ClientRun>,
    pub(super) trivial: Vec<ClientRun>,
}

/// The mean of `of` over all runs; `None` if a run has no value.
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

    /// The mean time of all queries in milliseconds; `None` if a query failed.
    pub(super) fn wall_ms(runs: &[ClientRun]) -> Option<f64> {
        mean(runs, |run| run.failures.is_empty().then_some(run.wall_ms))
    }

    /// The time of all queries in milliseconds for each run; `None` if a query failed.
    pub(super) fn wall_of_runs(runs: &[ClientRun]) -> impl Iterator<Item = Option<f64>> {
        runs.iter().map(|run| run.failures.is_empty().then_some(run.wall_ms))
    }

    /// For each run, the client's speed against Pellucid as a share of its speed against the bare
    /// server.
    pub(super) fn of_bare(&self) -> impl Iterator<Item = Option<f64>> {
        let pairs = Row::wall_of_runs(&self.pellucid).zip(Row::wall_of_runs(&self.trivial));
        pairs.map(|(here, bare)| Some(bare? / here?))
    }

    /// The loads, each with its verdict.
    pub(super) fn judged(&self) -> Vec<JudgedLoad> {
        let each = [("", &self.pellucid), (", the bare server", &self.trivial)];
        let each = each.into_iter().flat_map(|(whose, runs)| {
            let name = format!("{} {}{whose}", self.title(), self.access.title());
            runs.iter().enumerate().map(move |(run, load)| load.judged(name.clone(), run + 1))
        });
        each.collect()
    }

    /// A stage's mean against Pellucid, in nanoseconds.
    pub(super) fn stage_ns(&self, of: impl Fn(&Stages) -> Option<f64>) -> Option<f64> {
        mean(&self.pellucid, |run| of(&run.stages)).map(|ms| ms * 1e6)
    }

    /// A phase of the server's account: the mean per query, in nanoseconds.
    pub(super) fn server_ns(&self, phase: &str) -> Option<f64> {
        mean(&self.pellucid, |run| run.server.get(phase).copied().flatten()).map(|ms| ms * 1e6)
    }

    /// The number of failed queries, by the name of the failure.
    pub(super) fn refusals(&self) -> BTreeMap<&str, u64> {
        let mut all = BTreeMap::new();
        for (what, count) in self.pellucid.iter().flat_map(|run| &run.failures) {
            *all.entry(what.as_str()).or_insert(0) += count;
        }
        all
    }

    /// The number of queries with a wrong answer.
    pub(super) fn wrong(&self) -> u64 {
        self.pellucid.iter().map(|run| run.wrong).sum()
    }
}

impl ClientRun {
    /// The verdict of a run.
    fn judged(&self, name: String, run: usize) -> JudgedLoad {
        let busy = self.processor_ms / self.wall_ms.max(f64::MIN_POSITIVE);
        let (unanswered, wrong): (u64, u64) = (self.failures.values().sum(), self.wrong);
        let (verdict, evidence) = match () {
            () if unanswered + wrong > 0 => {
                let text = format!("{unanswered} queries not answered, {wrong} wrong answers.");
                (Verdict::Errors, text)
            }
            () if busy >= BUSY_SHARE => {
                let text = format!(
                    "The client's process worked for {busy:.2} of the time: it hardly ever waited \
                     for the server."
                );
                (Verdict::GeneratorLimited, text)
            }
            () => (Verdict::Stable, format!("The client's process worked for {busy:.2} of it.")),
        };
        JudgedLoad {
            name,
            run,
            offered_per_second: None,
            answered_per_second: self.answered as f64 / self.wall_ms.max(f64::MIN_POSITIVE) * 1e3,
            p99_ns: self.p99_ms.map(|ms| ms * 1e6),
            verdict: verdict.name().to_owned(),
            evidence,
        }
    }
}
