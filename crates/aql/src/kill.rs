//! The switch that ends a query, and its state as others see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Ends a query from elsewhere, and tells elsewhere how it is doing.
#[derive(Clone, Debug, Default)]
pub struct KillSwitch(Arc<Watched>);

/// The state of a query that is seen from elsewhere.
#[derive(Debug, Default)]
struct Watched {
    is_killed: AtomicBool,
    peak_memory_bytes: AtomicUsize,
    warnings: AtomicUsize,
    /// Nanoseconds for which it was planned.
    planning_ns: AtomicU64,
}

impl KillSwitch {
    /// Ends the query soon.
    pub fn kill(&self) {
        self.0.is_killed.store(true, Ordering::Relaxed);
    }

    /// The most memory that its rows took so far, in bytes.
    #[must_use]
    pub fn peak_memory_bytes(&self) -> usize {
        self.0.peak_memory_bytes.load(Ordering::Relaxed)
    }

    /// The number of warnings that there are so far.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.0.warnings.load(Ordering::Relaxed)
    }

    /// True if the query should end.
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
