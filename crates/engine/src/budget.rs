//! The memory budget: one setting, divided into named shares, each of which whoever spends it keeps
//! to.
//!
//! What the operating system caches of the files is not part of it. Everything else that grows with
//! the data is: memtables with their hash tables and orders, what is held of tables to answer
//! quickly, the working memory of flushes and merges, and the places of records in segments that
//! are being written. A share that is used up never makes an answer wrong: writers wait for a
//! flush, tables answer from the page cache, output tables and segments end earlier.

use crate::journal::{LedgerRoom, OFFSET_LENGTH, UNNEEDED_SEGMENTS_MAX};
use crate::ledger::memtable_memory_bytes;

/// The smallest setting, in bytes. Some hundred KiB that do not grow with the data (counters,
/// stacks of threads) come on top of any setting.
pub(crate) const MEMORY_MIN_BYTES: u64 = 64 << 10;
/// The shares, in 64ths of the setting.
const MEMTABLES_PARTS: u64 = 29;
const TABLES_PARTS: u64 = 24;
const JOBS_PARTS: u64 = 6;
const JOURNAL_PARTS: u64 = 3;
const PARTS: u64 = 64;
/// The largest memtable, in bytes: its hash table still fits into a processor's cache, and a flush
/// is done in some ten milliseconds.
const MEMTABLE_SIZE_MAX_BYTES: u64 = 8 << 20;
/// The smallest memtable, in bytes.
const MEMTABLE_SIZE_MIN_BYTES: u64 = 4 << 10;
/// Bytes of the journal for each byte of a full memtable at most: values of some hundred bytes fill
/// the memtable first.
const JOURNAL_BYTES_A_MEMTABLE_BYTE: u64 = 8;
/// One memtable fills, and so many less one, at least and at most, wait for their flush.
const MEMTABLES_MIN: u64 = 4;
const MEMTABLES_MAX: u64 = 9;
/// The largest and the smallest table that merges write, in bytes.
const TABLE_SIZE_MAX_BYTES: u64 = 16 << 20;
const TABLE_SIZE_MIN_BYTES: u64 = 64 << 10;
/// Tables of the usual size that a merge from one level to the next has at most, as a rule: one of
/// the upper level and those of ten times as many below that reach into it, and some of level 0.
const MERGE_TABLES_MAX: u64 = 16;
/// Times that the place of a record may be held at once: while its segment grows or is sealed, and
/// twice, with its sequence number, while a segment is collected. Then there is a bit of whether
/// anybody needs it, in so many segments that these take as much as another place.
const OFFSETS_HELD: u64 = 6 + (UNNEEDED_SEGMENTS_MAX as u64).div_ceil(8 * OFFSET_LENGTH);
/// The fewest records for which a segment has room.
const SEGMENT_RECORDS_MIN: u64 = 1 << 10;
/// A batch may take this in the memtable under any setting, however small: settings below 8 MiB
/// are exceeded by such a batch until it is flushed.
const BATCH_MEMORY_MIN_BYTES: u64 = 1 << 20;

/// The bytes that each may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// All of it.
    pub(crate) setting_bytes: u64,
    /// Memtables, those that wait for their flush included.
    pub(crate) memtables_bytes: u64,
    /// Facts, indexes, directories and unpacked blocks of tables.
    pub(crate) tables_bytes: u64,
    /// Flushes and merges while they run.
    pub(crate) jobs_bytes: u64,
    /// Places of records in segments that are written, sealed or collected.
    pub(crate) journal_bytes: u64,
}

impl Shares {
    /// The shares of a setting.
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

    /// Bytes of entries at which a memtable is sealed, so that at least [`MEMTABLES_MIN`] of them
    /// are within their share with all that they take beside the entries.
    pub(crate) fn memtable_size_bytes(&self) -> u64 {
        let each = self.memtables_bytes / MEMTABLES_MIN;
        let mut size = each.min(MEMTABLE_SIZE_MAX_BYTES);
        while size > MEMTABLE_SIZE_MIN_BYTES && memtable_memory_bytes(size) > each {
            size -= size / 32;
        }
        size.max(MEMTABLE_SIZE_MIN_BYTES)
    }

    /// Memtables that may be there at once, the one that fills included.
    pub(crate) fn memtables_max(&self) -> u64 {
        let each = memtable_memory_bytes(self.memtable_size_bytes());
        (self.memtables_bytes / each).clamp(MEMTABLES_MIN, MEMTABLES_MAX)
    }

    /// The most that the entries of a batch may take in a memtable.
    pub(crate) fn batch_memory_max_bytes(&self) -> u64 {
        self.memtable_size_bytes().max(BATCH_MEMORY_MIN_BYTES)
    }

    /// Bytes of the journal at which a memtable is sealed, however small it is.
    pub(crate) fn unsealed_max_bytes(&self) -> u64 {
        JOURNAL_BYTES_A_MEMTABLE_BYTE * self.memtable_size_bytes()
    }

    /// Dead bytes that the journal may have beyond a share of it: the memtables that fill or wait,
    /// and as much again that merges have not yet dropped.
    pub(crate) fn dead_allowance_bytes(&self) -> u64 {
        2 * self.unsealed_max_bytes()
    }

    /// The room on the disk that flushes and merges take before they give any back.
    pub(crate) fn ledger_room(&self) -> LedgerRoom {
        LedgerRoom {
            flush_bytes: self.memtables_max() * self.memtable_size_bytes(),
            merge_max_bytes: MERGE_TABLES_MAX * self.table_size_bytes(),
        }
    }

    /// Size at which a table of level 1 and below is closed: what is collected of its keys while it
    /// is written is about a quarter of that.
    pub(crate) fn table_size_bytes(&self) -> u64 {
        self.jobs_bytes.clamp(TABLE_SIZE_MIN_BYTES, TABLE_SIZE_MAX_BYTES)
    }

    /// Records at which a segment is closed, however much of it is left.
    pub(crate) fn segment_records_max(&self) -> u64 {
        (self.journal_bytes / (OFFSETS_HELD * OFFSET_LENGTH)).max(SEGMENT_RECORDS_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_within_the_setting_whatever_it_is() {
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
