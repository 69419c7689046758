//! The memory budget: one setting, divided into named shares, each kept by the code that uses it.
//!
//! The page cache of the operating system does not count. Everything else that grows with the data
//! does: memtables with their hash tables and orders, the parts of tables that are held for quick
//! answers, the working memory of flushes and merges, and the offsets of records in segments that
//! are being written. A share that is used up never makes an answer wrong: writers wait for a
//! flush, tables answer from the page cache, output tables and segments end earlier.

use crate::journal::{LedgerRoom, OFFSET_LENGTH, UNNEEDED_SEGMENTS_MAX};
use crate::ledger::memtable_memory_bytes;

/// The smallest setting, in bytes. Some hundred KiB that do not grow with the data (counters,
/// thread stacks) come on top of any setting.
pub(crate) const MEMORY_MIN_BYTES: u64 = 64 << 10;
/// The shares, in 64ths of the setting.
const MEMTABLES_PARTS: u64 = 29;
const TABLES_PARTS: u64 = 24;
const JOBS_PARTS: u64 = 6;
const JOURNAL_PARTS: u64 = 3;
const PARTS: u64 = 64;
/// The largest memtable, in bytes: its hash table still fits into a processor's cache, and a flush
/// takes some ten milliseconds.
const MEMTABLE_SIZE_MAX_BYTES: u64 = 8 << 20;
/// The smallest memtable, in bytes.
const MEMTABLE_SIZE_MIN_BYTES: u64 = 4 << 10;
/// The most bytes of the journal per byte of a full memtable: with values of some hundred bytes,
/// the memtable is full before.
const JOURNAL_BYTES_A_MEMTABLE_BYTE: u64 = 8;
/// The fewest and the most memtables: one is active, the others may wait for their flush.
const MEMTABLES_MIN: u64 = 4;
const MEMTABLES_MAX: u64 = 9;
/// The largest and the smallest table that a merge writes, in bytes.
const TABLE_SIZE_MAX_BYTES: u64 = 16 << 20;
const TABLE_SIZE_MIN_BYTES: u64 = 64 << 10;
/// The usual maximum of tables in a merge from one level to the next: one of the upper level, those
/// of the ten times larger lower level that it overlaps, and some of level 0.
const MERGE_TABLES_MAX: u64 = 16;
/// The number of times that the offset of a record may be held at once: while its segment is
/// written or sealed, and twice, with its sequence number, while the segment is collected. In
/// addition there is a bit that marks a record as unneeded, in so many segments that the bits take
/// as much as another offset.
const OFFSETS_HELD: u64 = 6 + (UNNEEDED_SEGMENTS_MAX as u64).div_ceil(8 * OFFSET_LENGTH);
/// The fewest records for which a segment has room.
const SEGMENT_RECORDS_MIN: u64 = 1 << 10;
/// The memory that a batch may take in the memtable under any setting: with less than 8 MiB, such a
/// batch exceeds the setting until it is flushed.
const BATCH_MEMORY_MIN_BYTES: u64 = 1 << 20;

/// The shares of the memory budget, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// The whole budget.
    pub(crate) setting_bytes: u64,
    /// Memtables, including those that wait for their flush.
    pub(crate) memtables_bytes: u64,
    /// Facts, indexes, directories and cached decompressed blocks of tables.
    pub(crate) tables_bytes: u64,
    /// Flushes and merges while they run.
    pub(crate) jobs_bytes: u64,
    /// Offsets of records in segments that are being written, sealed or collected.
    pub(crate) journal_bytes: u64,
}

impl Shares {
    /// The shares of a budget of `setting_bytes`.
    pub(crate) fn of(setting_bytes: u64) -> Shares {
        let share = |parts: u64| setting_bytes / PARTS * parts;
        Shares {
            setting_bytes,
            memtables_bytes: share(MEMTABLES_PARTS),
            tables_bytes: share(TABLES_PARTS),
            jobs_bytes: share(JOBS_PARTS),
            journal_bytes: share(JOURNAL_PARTS),
        }
    }

    /// The size of entries at which a memtable is sealed, so that at least [`MEMTABLES_MIN`]
    /// memtables, with their hash tables and orders, fit into their share.
    pub(crate) fn memtable_size_bytes(&self) -> u64 {
        let each = self.memtables_bytes / MEMTABLES_MIN;
        let mut size = each.min(MEMTABLE_SIZE_MAX_BYTES);
        while size > MEMTABLE_SIZE_MIN_BYTES && memtable_memory_bytes(size) > each {
            size -= size / 32;
        }
        size.max(MEMTABLE_SIZE_MIN_BYTES)
    }

    /// The most memtables that may exist at once, including the active one.
    pub(crate) fn memtables_max(&self) -> u64 {
        let each = memtable_memory_bytes(self.memtable_size_bytes());
        (self.memtables_bytes / each).clamp(MEMTABLES_MIN, MEMTABLES_MAX)
    }

    /// The most memory that the entries of a batch may take in a memtable, in bytes.
    pub(crate) fn batch_memory_max_bytes(&self) -> u64 {
        self.memtable_size_bytes().max(BATCH_MEMORY_MIN_BYTES)
    }

    /// Bytes of the journal at which a memtable is sealed, however small it is.
    pub(crate) fn unsealed_max_bytes(&self) -> u64 {
        JOURNAL_BYTES_A_MEMTABLE_BYTE * self.memtable_size_bytes()
    }

    /// Dead bytes that the journal may have beyond a share of its size: those of memtables that are
    /// active or waiting, and as many that merges have not dropped yet.
    pub(crate) fn dead_allowance_bytes(&self) -> u64 {
        2 * self.unsealed_max_bytes()
    }

    /// The space on the disk that flushes and merges need before they free any.
    pub(crate) fn ledger_room(&self) -> LedgerRoom {
        LedgerRoom {
            flush_bytes: self.memtables_max() * self.memtable_size_bytes(),
            merge_max_bytes: MERGE_TABLES_MAX * self.table_size_bytes(),
        }
    }

    /// The size at which a table of level 1 or deeper is closed. The data collected about its keys
    /// while it is written takes about a quarter of that.
    pub(crate) fn table_size_bytes(&self) -> u64 {
        self.jobs_bytes.clamp(TABLE_SIZE_MIN_BYTES, TABLE_SIZE_MAX_BYTES)
    }

    /// The number of records at which a segment is closed, however much room is left in it.
    pub(crate) fn segment_records_max(&self) -> u64 {
        (self.journal_bytes / (OFFSETS_HELD * OFFSET_LENGTH)).max(SEGMENT_RECORDS_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_within_every_setting() {
        for setting in [1 << 20, 3_000_000, 28 << 20, 64 << 20, 128 << 20, 1 << 30, 40 << 30] {
            let shares = Shares::of(setting);
            let sum = shares.memtables_bytes
                + shares.tables_bytes
                + shares.jobs_bytes
                + shares.journal_bytes;
            assert!(sum <= setting - setting / 64, "{setting}: something is left for the rest");
            let each = memtable_memory_bytes(shares.memtable_size_bytes());
            assert!(each * shares.memtables_max() <= shares.memtables_bytes, "{setting}");
            assert!(shares.memtables_max() >= MEMTABLES_MIN);
        }
        assert_eq!(Shares::of(128 << 20).memtable_size_bytes(), MEMTABLE_SIZE_MAX_BYTES);
    }

    #[test]
    fn the_smallest_setting_still_has_four_memtables() {
        let shares = Shares::of(MEMORY_MIN_BYTES);
        assert!(shares.memtables_max() >= MEMTABLES_MIN);
        assert!(shares.memtable_size_bytes() >= MEMTABLE_SIZE_MIN_BYTES);
    }
}
