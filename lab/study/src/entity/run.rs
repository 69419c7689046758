//! The measurements of the study on all engines.

use super::load_runs::LoadRuns;
use super::measure::Row;
use super::plan::Engine;
use super::workload::LoadKind;

/// All measurements of the study.
pub(super) struct EntityRun {
    pub(super) engines: Vec<Engine>,
    /// True if `--find-max` found the highest rates; otherwise they are those of a closed loop.
    pub(super) is_found: bool,
    /// The loads of all rounds.
    pub(super) rows: Vec<Row>,
    /// The overloads, one of each kind on each engine.
    pub(super) overload: Vec<Row>,
    /// For each engine, the numbers of flushes and compactions while it was filled.
    pub(super) filling: Vec<[usize; 2]>,
}

impl EntityRun {
    /// The loads of one kind, in the order of the engines.
    pub(super) fn of(&self, work: LoadKind) -> Vec<LoadRuns<'_>> {
        let of = |engine: &Engine| LoadRuns::of(&self.rows, *engine, work);
        self.engines.iter().filter_map(of).collect()
    }
}
