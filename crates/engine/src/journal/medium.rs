//! The journal's knowledge of whether its records are in memory, from how long reads took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use pellucid_clock::Clock;

/// A record whose reading takes as long was not in memory: quick disks need some 10 µs, and a copy
/// from the page cache 1 µs.
const SLOW_READ_NS: u64 = 8_000;
/// After so many samples in a row that were quick, records are taken to be in memory.
pub(super) const SLOW_READS_REMEMBERED: u32 = 4;
/// Of so many records that are read from the disk, one stays in the page cache. Where records are
/// asked for at random out of more than there is memory for, caching each one would do nothing but
/// push out the ledger's blocks, and a GET would cost two disk reads; a record that is asked for
/// often gets its turn to stay soon. This is bimodal insertion (Qureshi et al., ISCA 2007).
const STAYS_ONE_IN: u32 = 16;

/// The files that are held open for reads from the disk, counted.
pub(super) type DiskFileCount = Arc<AtomicUsize>;

/// Reads from the medium.
pub(crate) struct MediumReads {
    clock: Clock,
    /// Above zero while records are read from the disk rather than from memory.
    slow: AtomicU32,
    /// Counts those reads: some of the records stay in the page cache.
    turns: AtomicU32,
    disk_files: DiskFileCount,
}

impl MediumReads {
    /// Until the first reads, nothing is known to be in memory.
    pub(super) fn new(clock: Clock) -> MediumReads {
        MediumReads {
            clock,
            slow: AtomicU32::new(0),
            turns: AtomicU32::new(0),
            disk_files: Arc::default(),
        }
    }

    pub(super) fn disk_files(&self) -> &DiskFileCount {
        &self.disk_files
    }

    /// Whether records had to be fetched from the medium of late.
    #[inline]
    pub(crate) fn are_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed) > 0
    }

    /// Whether the record that is read now stays in the page cache.
    pub(super) fn stays(&self) -> bool {
        self.turns.fetch_add(1, Ordering::Relaxed).is_multiple_of(STAYS_ONE_IN)
    }

    /// Makes a read whose time counts.
    pub(super) fn measured<T>(&self, read: impl FnOnce() -> T) -> T {
        let begun = self.clock.now();
        let result = read();
        self.note(self.clock.nanoseconds(self.clock.now().since(begun)));
        result
    }

    /// Notes how long the reading of a record took.
    #[inline]
    pub(crate) fn note(&self, took_ns: u64) {
        let before = self.slow.load(Ordering::Relaxed);
        if took_ns >= SLOW_READ_NS {
            self.note_away();
        } else if before > 0 {
            self.slow.store(before - 1, Ordering::Relaxed);
        }
    }

    /// As [`MediumReads::note`], for a read that was not sampled: only a slow one is noted.
    #[inline]
    pub(crate) fn note_if_slow(&self, took_ns: u64) {
        if took_ns >= SLOW_READ_NS {
            self.note_away();
        }
    }

    /// Notes that something was not in memory.
    pub(crate) fn note_away(&self) {
        self.slow.store(SLOW_READS_REMEMBERED, Ordering::Relaxed);
    }
}
