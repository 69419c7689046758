//! The loads of a study of entities on all engines.

use super::loads::Loads;
use super::measure::Row;
use super::plan::Engine;
use super::work::Work;

/// Everything that was measured.
pub(super) struct EntityRun {
    pub(super) engines: Vec<Engine>,
    /// True if the highest rates were found by `--find-max`; else a closed loop reaches them.
    pub(super) is_found: bool,
    /// The loads of all rounds.
    pub(super) rows: Vec<Row>,
    /// The loads that were too much, one of each kind on each engine.
    pub(super) overload: Vec<Row>,
    /// Flushes and compactions while each engine was filled.
    pub(super) filling: Vec<[usize; 2]>,
}

impl EntityRun {
    /// The loads of one kind, in the order of the engines.
    pub(super) fn of(&self, work: Work) -> Vec<Loads<'_>> {
        let of = |engine: &Engine| Loads::of(&self.rows, *engine, work);
        self.engines.iter().filter_map(of).collect()
    }
}
