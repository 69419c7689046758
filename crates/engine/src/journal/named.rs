//! Reading a record that is known by its sequence number alone: that a directory of the ledger
//! named for a key, which may yet be another key's.

use super::record::{Record, RecordKind};
use super::{Journal, Segment};
use crate::codec::keys_equal;
use crate::ledger;
use crate::object::{Head, Value};
use crate::tally::Counting;

impl Journal {
    /// The head and the value of `key`, if the record with `sequence` is one of it that puts them.
    /// `None` says nothing: the ledger's entry has to be asked.
    #[inline]
    pub(crate) fn read_named(&self, sequence: u64, key: &[u8]) -> Option<(Head, Value)> {
        let segments = self.segments.load();
        let segment = segments.find(sequence)?;
        if self.reads_are_slow() {
            return self.read_named_slowly(segment, sequence, key, None);
        }
        segment.read_named(sequence, key)
    }

    /// As [`Journal::read_named`], with the times of its steps. `None` while reads are quick: then
    /// they are timed by way of the entry.
    #[cold]
    pub(crate) fn read_named_by_steps(
        &self,
        sequence: u64,
        key: &[u8],
        counting: Counting<'_>,
    ) -> Option<(Head, Value)> {
        if !self.reads_are_slow() {
            return None;
        }
        let segments = self.segments.load();
        self.read_named_slowly(segments.find(sequence)?, sequence, key, Some(counting))
    }
}

impl Segment {
    #[inline]
    pub(super) fn read_named(&self, sequence: u64, key: &[u8]) -> Option<(Head, Value)> {
        let offset = self.place(sequence)?;
        self.prefetch(offset as usize, self.usual_length());
        let record = self.record_at(offset).ok()?;
        let is_it = record.sequence == sequence
            && record.kind == RecordKind::Put
            && keys_equal(record.key, key);
        if !is_it {
            return None;
        }
        let value = self.value_of(&record, offset).ok()?;
        Some((record.head_of_put(), value))
    }
}

impl Record<'_> {
    /// What the ledger knows of a record that puts a value.
    #[inline]
    pub(super) fn head_of_put(&self) -> Head {
        Head {
            sequence: self.sequence,
            written_at_ms: self.written_at_ms,
            expires_at_ms: self.expires_at_ms,
            value_length: self.value_length() as u32,
            metadata: ledger::Head::new(self.head).into(),
        }
    }
}
