//! The settings of a ledger, and what it asks of the journal.

use std::ops::Bound;
use std::sync::Arc;

use pellucid_account::Activity;
use pellucid_clock::Clock;

use super::{DroppedList, Entry};
use crate::error::Error;
use crate::header_form::{HeaderForm, RECORD_ALIGNMENT};
use crate::manifest::SegmentFacts;
use crate::rules::TableRules;

/// As a sequence number to read at: the newest that is published.
pub(crate) const NEWEST: u64 = u64::MAX;

/// Settings of a ledger. None of them changes an answer, only how soon it comes.
#[derive(Clone, Debug)]
pub(crate) struct LedgerOptions {
    /// Size at which the active memtable is sealed. The hash table beside it takes about a quarter
    /// more.
    pub(crate) memtable_size_bytes: u64,
    /// Size at which a data block is closed. At 1 KiB a look-up asks for all lines of the block at
    /// once instead of waiting for one after another: a GET took 0.6 µs instead of 1.0.
    pub(crate) block_size_bytes: usize,
    /// Size at which a table of level 1 and below is closed.
    pub(crate) table_size_bytes: u64,
    /// Target size of level 1; each deeper level has `level_factor` times as much.
    pub(crate) level_base_bytes: u64,
    /// Ratio of the target sizes of neighbouring levels.
    pub(crate) level_factor: u64,
    /// Tables in level 0 from which on they are merged into level 1.
    pub(crate) level_0_trigger: usize,
    /// Sealed memtables at which writers wait for a flush.
    pub(crate) sealed_memtables_max: usize,
    /// Memory for what is held of tables: their facts, indexes and directories.
    pub(crate) tables_memory_bytes: u64,
    /// Memory of a flush and a merge while they run.
    pub(crate) job_memory_bytes: u64,
    /// Bits of filter for each key.
    pub(crate) filter_bits_per_key: u32,
    /// True if flush and compaction run on a thread of their own; if not, on the caller of
    /// `wait_for_room`, `flush_now` and `compact_step`.
    pub(crate) background: bool,
    /// True if a merge may have two threads while merges are behind.
    pub(crate) merges_in_parts: bool,
    /// The clock of samples.
    pub(crate) clock: Clock,
    /// The rules of each table of keys.
    pub(crate) rules: Arc<TableRules>,
    /// True if some tables of keys have prefixes.
    pub(crate) knows_prefixes: bool,
    /// The activity in which jobs are noted.
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

/// The verdict on an entry in a flush or merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Somebody may still need it.
    Kept,
    /// It goes: a newer entry of its key hides it.
    Shadowed,
    /// It goes: it says that there is nothing, and nothing older is left for it to hide. A
    /// tombstone, or a value that has expired.
    Gone,
}

/// An entry that no reader can ask for any more: its record's bytes in the journal are dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// The sequence number of the record.
    pub(crate) sequence: u64,
    /// Bytes of the record as it would be written now, padding included.
    pub(crate) record_bytes: u64,
    /// The form of its header, likewise: in old segments, all have long ones.
    pub(crate) form: HeaderForm,
    /// True if it went as a marker ([`Verdict::Gone`]): older records of its key may still be in
    /// the journal, and then its own must stay as long as they do.
    pub(crate) is_marker: bool,
}

impl Dropped {
    /// The record of `entry`, which the rule of retention let go.
    pub(crate) fn of(entry: &Entry<'_>, verdict: Verdict) -> Dropped {
        Dropped {
            sequence: entry.sequence,
            record_bytes: entry.record_size_bytes(),
            form: entry.header_form(),
            is_marker: verdict == Verdict::Gone,
        }
    }

    /// All but the sequence number, in as few bits as it goes.
    pub(crate) fn packed(&self) -> u64 {
        assert!(self.record_bytes.is_multiple_of(RECORD_ALIGNMENT), "records are padded");
        let is_short = self.form == HeaderForm::Short;
        let units = self.record_bytes / RECORD_ALIGNMENT;
        units << 2 | u64::from(is_short) << 1 | u64::from(self.is_marker)
    }

    /// The entry with this sequence number that was [`Dropped::packed`].
    pub(crate) fn unpacked(sequence: u64, packed: u64) -> Dropped {
        let form = if packed & 2 == 0 { HeaderForm::Long } else { HeaderForm::Short };
        let record_bytes = (packed >> 2) * RECORD_ALIGNMENT;
        Dropped { sequence, record_bytes, form, is_marker: packed & 1 == 1 }
    }
}

/// The journal as the ledger sees it, by way of the façade.
pub(crate) trait JournalLink: Send + Sync {
    /// Returns once every record up to `sequence` is on the medium. Called before a table that
    /// names them comes into the manifest.
    fn make_durable(&self, sequence: u64) -> Result<(), Error>;

    /// Takes note of entries that the tree holds no more. Each is handed over exactly once, after
    /// the manifest that is without them was committed; that manifest counts them already.
    fn on_dropped(&self, dropped: &DroppedList);

    /// The facts of all segments for a manifest that is about to be committed, in order of their
    /// first sequence numbers, with the bytes of everything that was handed to `on_dropped`, and of
    /// `dropped`, which will be.
    fn segment_facts(&self, dropped: &DroppedList) -> Vec<SegmentFacts>;

    /// The time, in milliseconds since the Unix epoch, by which entries expire. It never goes back.
    fn now_ms(&self) -> u64;

    /// A manifest was committed: every record up to `flushed_sequence` is in the tables, which take
    /// `tables_bytes`.
    fn after_manifest(&self, flushed_sequence: u64, tables_bytes: u64);
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
    /// That of all keys.
    pub(crate) const EVERYTHING: KeyRange<'static> =
        KeyRange { start: Bound::Unbounded, end: Bound::Unbounded };

    /// True if `key` lies before the upper end.
    #[inline]
    pub(crate) fn ends_behind(&self, key: &[u8]) -> bool {
        match self.end {
            Bound::Included(end) => key <= end,
            Bound::Excluded(end) => key < end,
            Bound::Unbounded => true,
        }
    }
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the smallest key to the largest.
    Forward,
    /// From the largest key to the smallest.
    Reverse,
}
