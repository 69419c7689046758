//! The summary figures of a table that is being written, for the manifest and for the footer.

use super::TableMetadata;
use crate::ledger::{Entry, EntryKind};

/// A table is stale once one in this many of its entries has expired.
const STALE_ONE_IN: u64 = 4;

/// The summary figures of the entries so far.
#[derive(Default)]
pub(super) struct Summary {
    entries: u64,
    tombstones: u64,
    value_bytes: u64,
    expiries_ms: Vec<u64>,
    lowest_sequence: u64,
    highest_sequence: u64,
    smallest: Vec<u8>,
    last: Vec<u8>,
}

impl Summary {
    /// True before the first entry.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// The last key that was noted; empty if there is none.
    #[inline]
    pub(super) fn last_key(&self) -> &[u8] {
        &self.last
    }

    /// The memory that grows with the entries, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.expiries_ms.len() * size_of::<u64>()) as u64
    }

    /// Notes the key of the next entry, if it differs from the previous one.
    #[inline]
    pub(super) fn note_key(&mut self, key: &[u8]) {
        self.last.clear();
        self.last.extend_from_slice(key);
    }

    /// Counts an entry.
    #[inline]
    pub(super) fn add(&mut self, entry: &Entry<'_>) {
        if self.is_empty() {
            self.smallest = entry.key.to_vec();
            self.lowest_sequence = entry.sequence;
        }
        self.entries += 1;
        self.tombstones += u64::from(entry.kind == EntryKind::Delete);
        self.value_bytes += u64::from(entry.value_length);
        if entry.expires_at_ms != 0 {
            self.expiries_ms.push(entry.expires_at_ms);
        }
        self.lowest_sequence = self.lowest_sequence.min(entry.sequence);
        self.highest_sequence = self.highest_sequence.max(entry.sequence);
    }

    /// The time at which so many entries will have expired that the table should be rewritten; 0
    /// for never.
    fn stale_at_ms(&mut self) -> u64 {
        let share = (self.entries / STALE_ONE_IN).max(1) as usize;
        if self.expiries_ms.len() < share {
            return 0;
        }
        *self.expiries_ms.select_nth_unstable(share - 1).1
    }

    /// The fields of the footer from the number of entries on, for a table of `keys` keys.
    pub(super) fn closing_fields(&mut self, keys: u64) -> [u64; 7] {
        [
            self.entries,
            self.lowest_sequence,
            self.highest_sequence,
            self.tombstones,
            self.value_bytes,
            keys,
            self.stale_at_ms(),
        ]
    }

    /// The facts of the table for the manifest.
    pub(super) fn into_facts(self, number: u64, size_bytes: u64) -> TableMetadata {
        TableMetadata {
            number,
            size_bytes,
            entries: self.entries,
            lowest_sequence: self.lowest_sequence,
            highest_sequence: self.highest_sequence,
            smallest: self.smallest.into(),
            largest: self.last.into(),
        }
    }
}
