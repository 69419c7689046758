//! The settings of a ledger, key ranges, and the direction of scans.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use pellucid_account::Activity;
use pellucid_clock::Clock;

use crate::rules::TableRules;

/// Number of levels: with a factor of 10 the last one holds a million times the first.
pub(crate) const LEVELS: usize = 7;
/// A sequence number to read at that means the newest published one.
pub(crate) const NEWEST: u64 = u64::MAX;

/// The settings of a ledger. They change its speed, but no answer.
#[derive(Clone, Debug)]
pub(crate) struct LedgerOptions {
    /// The size at which the active memtable is sealed. Its hash table takes about a quarter more.
    pub(crate) memtable_size_bytes: u64,
    /// The size at which a data block is closed. With 1 KiB, a look-up prefetches all cache lines
    /// of the block at once: a GET took 0.6 µs instead of 1.0 µs.
    pub(crate) block_size_bytes: usize,
    /// The size at which a table of level 1 or deeper is closed.
    pub(crate) table_size_bytes: u64,
    /// The target size of level 1; each deeper level has `level_factor` times as much.
    pub(crate) level_base_bytes: u64,
    /// The ratio of the target sizes of neighbouring levels.
    pub(crate) level_factor: u64,
    /// The number of tables in level 0 from which on they are merged into level 1.
    pub(crate) level_0_trigger: usize,
    /// The number of sealed memtables at which writers wait for a flush.
    pub(crate) sealed_memtables_max: usize,
    /// The memory for the parts of tables that are held: facts, indexes and directories.
    pub(crate) tables_memory_bytes: u64,
    /// The memory of a flush and a merge while they run.
    pub(crate) job_memory_bytes: u64,
    /// The filter bits per key.
    pub(crate) filter_bits_per_key: u32,
    /// True if flushes and compactions run on a thread of their own; if false, on the thread that
    /// calls `wait_for_memtables`, `flush_now` or `compact_step`.
    pub(crate) background: bool,
    /// True if a merge may have two threads while merges are behind.
    pub(crate) merges_in_parts: bool,
    /// The clock for timing samples.
    pub(crate) clock: Clock,
    /// The rules of the tables of keys.
    pub(crate) rules: Arc<TableRules>,
    /// True if some tables of keys have a prefix rule.
    pub(crate) knows_prefixes: bool,
    /// The register of running jobs.
    pub(crate) activity: Activity,
}

impl Default for LedgerOptions {
    fn default() -> LedgerOptions {
        LedgerOptions {
            memtable_size_bytes: 16 << 20,
            block_size_bytes: 1 << 10,
            table_size_bytes: 16 << 20,
            level_base_bytes: 64 << 20,
            level_factor: 10,
            level_0_trigger: 8,
            sealed_memtables_max: 4,
            tables_memory_bytes: 64 << 20,
            job_memory_bytes: 16 << 20,
            filter_bits_per_key: 10,
            background: true,
            merges_in_parts: false,
            clock: Clock::monotonic(),
            rules: Arc::default(),
            knows_prefixes: false,
            activity: crate::jobs::activity(),
        }
    }
}

/// A range of internal keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyRange<'a> {
    /// The lower end.
    pub(crate) start: Bound<&'a [u8]>,
    /// The upper end.
    pub(crate) end: Bound<&'a [u8]>,
}

impl KeyRange<'_> {
    /// The range of all keys.
    pub(crate) const EVERYTHING: KeyRange<'static> =
        KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };
}

/// True if `key` lies before the upper bound `end`.
#[inline]
pub(crate) fn lies_before(key: &[u8], end: Bound<&[u8]>) -> bool {
    RangeBounds::<[u8]>::contains(&(Bound::Unbounded, end), key)
}

/// True if `key` lies behind the lower bound `start`.
#[inline]
pub(crate) fn lies_behind(key: &[u8], start: Bound<&[u8]>) -> bool {
    RangeBounds::<[u8]>::contains(&(start, Bound::Unbounded), key)
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key to the largest.
    Forward,
    /// From the largest key to the smallest.
    Backward,
}
