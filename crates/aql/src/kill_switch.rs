//! The switch by which other threads end a query and observe its state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A switch by which other threads end a query and observe its state. Clones are the same switch.
#[derive(Clone, Debug, Default)]
pub struct KillSwitch(Arc<QueryState>);

/// The state of a query that other threads can observe.
#[derive(Debug, Default)]
struct QueryState {
    is_killed: AtomicBool,
    peak_memory_bytes: AtomicUsize,
    warnings: AtomicUsize,
    /// The time of its planning, in nanoseconds.
    planning_ns: AtomicU64,
}

impl KillSwitch {
    /// Kills the query: it ends soon after.
    pub fn kill(&self) {
        self.0.is_killed.store(true, Ordering::Relaxed);
    }

    /// The most memory that the query took so far, in bytes.
    #[must_use]
    pub fn peak_memory_bytes(&self) -> usize {
        self.0.peak_memory_bytes.load(Ordering::Relaxed)
    }

    /// The number of warnings so far.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.0.warnings.load(Ordering::Relaxed)
    }

    /// True if the query was killed.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.0.is_killed.load(Ordering::Relaxed)
    }

    pub(crate) fn note_peak_memory(&self, bytes: usize) {
        self.0.peak_memory_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn note_warnings(&self, warnings: usize) {
        self.0.warnings.store(warnings, Ordering::Relaxed);
    }

    pub(crate) fn note_planning(&self, planning_ns: u64) {
        self.0.planning_ns.store(planning_ns, Ordering::Relaxed);
    }

    pub(crate) fn planning_ns(&self) -> u64 {
        self.0.planning_ns.load(Ordering::Relaxed)
    }
}
