//! Tracks from the time of reads whether the journal's records are in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use pellucid_clock::Clock;

/// A read of a record that takes this long was not from memory: fast disks need some 10 µs, and a
/// copy from the page cache 1 µs.
const SLOW_READ_NS: u64 = 8_000;
/// After this many fast samples in a row, records are taken to be in memory.
pub(super) const SLOW_READS_REMEMBERED: u32 = 4;
/// One in this many records that are read from the disk stays in the page cache. If records are
/// read at random from more data than fits into memory, caching each of them would only evict the
/// ledger's blocks, and a GET would cost two disk reads. A record that is read often is soon among
/// those that stay. This is bimodal insertion (Qureshi et al., ISCA 2007).
const STAYS_ONE_IN: u32 = 16;
/// One in this many heads that are found in memory while reads are slow counts as a fast sample.
const HEADS_A_SAMPLE: u32 = 256;

/// The number of files that are held open for reads from the disk.
pub(super) type DiskFileCount = Arc<AtomicUsize>;

/// The recent reads from the medium.
pub(crate) struct MediumReads {
    clock: Clock,
    /// Above zero while reads of records come from the disk rather than from memory.
    slow: AtomicU32,
    /// Counts the reads from the disk, to choose the records that stay in the page cache.
    turns: AtomicU32,
    /// Counts the heads that were found in memory while reads were slow.
    heads: AtomicU32,
    disk_files: DiskFileCount,
}

impl MediumReads {
    /// No read was measured yet: reads do not count as slow.
    pub(super) fn new(clock: Clock) -> MediumReads {
        MediumReads {
            clock,
            slow: AtomicU32::new(0),
            turns: AtomicU32::new(0),
            heads: AtomicU32::new(0),
            disk_files: Arc::default(),
        }
    }

    pub(super) fn disk_files(&self) -> &DiskFileCount {
        &self.disk_files
    }

    /// True if records recently had to be fetched from the medium.
    #[inline]
    pub(crate) fn are_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed) > 0
    }

    /// True if the record of the current read is to stay in the page cache.
    pub(super) fn stays(&self) -> bool {
        self.turns.fetch_add(1, Ordering::Relaxed).is_multiple_of(STAYS_ONE_IN)
    }

    /// Makes a read, and notes its time.
    pub(super) fn measured<T>(&self, read: impl FnOnce() -> T) -> T {
        let begun = self.clock.now();
        let result = read();
        self.note(self.clock.nanoseconds(self.clock.now().since(begun)));
        result
    }

    /// Notes the time that the read of a record took.
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

    /// Notes that a head was found in memory. Without reads of records, nothing else would end the
    /// time for which reads count as slow.
    pub(crate) fn note_head_here(&self) {
        let is_sample = |before: u32| before.wrapping_add(1).is_multiple_of(HEADS_A_SAMPLE);
        if self.are_slow() && is_sample(self.heads.fetch_add(1, Ordering::Relaxed)) {
            self.note(0);
        }
    }

    /// Notes that data was not in memory.
    pub(crate) fn note_away(&self) {
        self.slow.store(SLOW_READS_REMEMBERED, Ordering::Relaxed);
    }
}
