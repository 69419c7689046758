//! The measurements of the study of a cluster, and the rates of its loads.

use pellucid_account::OperationAccount;
use pellucid_report::{JudgedLoad, Unit};

use super::load::LoadKind;
use super::nodes::RoutingVariant;
use crate::generator::LoadFigures;

/// The rate of measured loads as a share of the highest rate.
const RATE_SHARE: f64 = 0.7;

/// One load and its results.
pub(super) struct Row {
    pub(super) work: LoadKind,
    pub(super) whose: RoutingVariant,
    pub(super) loaded: LoadFigures,
    /// The processor time of all nodes per request, in nanoseconds.
    pub(super) processor_ns: f64,
    /// The accounts of the node that was asked.
    pub(super) operations: Vec<OperationAccount>,
}

/// The highest rate of one kind of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) work: LoadKind,
    /// The highest rate for keys of other nodes, in requests per second.
    pub(super) highest: f64,
}

impl Rate {
    /// The rate of the measured loads: the original's, or less if the machine cannot hold that.
    pub(super) fn put_on(self) -> f64 {
        (self.highest * RATE_SHARE).min(self.work.original_rate())
    }
}

/// All measurements of the study.
pub(super) struct ClusterRun {
    pub(super) rates: Vec<Rate>,
    /// The loads of each round.
    pub(super) rounds: Vec<Vec<Row>>,
    /// The loads that were profiled.
    pub(super) profiled: Vec<JudgedLoad>,
    /// Keys of each node.
    pub(super) shares: Vec<u64>,
    /// True if the nodes came to rest before every load that writes.
    pub(super) is_rested: bool,
}

impl ClusterRun {
    fn rate(&self, work: LoadKind) -> Option<Rate> {
        self.rates.iter().copied().find(|rate| rate.work == work)
    }

    /// A sentence about the rate of a kind of work.
    pub(super) fn rates(&self, work: LoadKind) -> String {
        let Some(rate) = self.rate(work) else { return String::new() };
        let (put_on, highest) = (rate.put_on(), Unit::PerSecond.show(rate.highest));
        let shown = Unit::PerSecond.show(put_on);
        if put_on == work.original_rate() {
            return format!("{shown} requests/s, the rate of the original; {highest} are held.");
        }
        let share = Unit::Share.show(put_on / rate.highest.max(1.0));
        let original = Unit::PerSecond.show(work.original_rate());
        format!(
            "{shown} requests/s, {share} of the highest rate. The original's {original} are more \
             than this machine holds."
        )
    }
}
