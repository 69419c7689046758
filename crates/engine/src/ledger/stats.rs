//! Figures of the ledger's background work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pellucid_thread::Mutex;

use super::options::LEVELS;
use crate::figures::Figure;
use crate::stats::{JobFigures, LedgerFigures};

/// The memory of the ledger outside the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LedgerMemory {
    /// Memtables with their hash tables and orders.
    pub(crate) memtables_bytes: u64,
    /// Facts, indexes and directories of tables.
    pub(crate) tables_bytes: u64,
    /// The most memory that a job took for the table that it wrote.
    pub(crate) jobs_peak_bytes: u64,
}

/// The counters of the background work.
#[derive(Default)]
pub(super) struct Counters {
    flush: Mutex<JobFigures>,
    compactions: [Mutex<JobFigures>; LEVELS],
    waits: AtomicU64,
    waited_ns: AtomicU64,
}

impl Counters {
    pub(super) fn add_flush(&self, figures: &JobFigures) {
        self.flush.lock().add(figures);
    }

    /// Adds a merge of tables of level `from`.
    pub(super) fn add_merge(&self, from: u8, figures: &JobFigures) {
        self.compactions[usize::from(from)].lock().add(figures);
    }

    pub(super) fn add_wait(&self, duration: Duration) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Copies the counters into `figures`.
    pub(super) fn read_into(&self, figures: &mut LedgerFigures) {
        let read = |sums: &Mutex<JobFigures>| *sums.lock();
        figures.flush = read(&self.flush);
        for (level, sums) in figures.levels.iter_mut().zip(&self.compactions) {
            level.compaction = read(sums);
        }
        figures.waits = self.waits.load(Ordering::Relaxed);
        figures.waited_ns = self.waited_ns.load(Ordering::Relaxed);
    }
}
