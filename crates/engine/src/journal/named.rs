//! Reading a record that is known by its sequence number alone: that a directory of the ledger
//! named for a key, which may yet be another key's.

use std::sync::atomic::Ordering;

use super::record::RecordKind;
use super::{Journal, Segment};
use crate::codec::keys_equal;
use crate::ledger;
use crate::object::{Head, Value};

impl Journal {
    /// The head and the value of `key`, if the record with `sequence` is one of it that puts them.
    /// `None` says nothing: the ledger's entry has to be asked.
    #[inline]
    pub(crate) fn read_named(&self, sequence: u64, key: &[u8]) -> Option<(Head, Value)> {
        if self.slow_reads.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let segments = self.segments.load();
        segments.find(sequence)?.read_named(sequence, key)
    }
}

impl Segment {
    #[inline]
    fn read_named(&self, sequence: u64, key: &[u8]) -> Option<(Head, Value)> {
        let offset = self.place(sequence)?;
        self.prefetch(offset as usize, self.usual_length());
        let record = self.record_at(offset).ok()?;
        let is_it = record.sequence == sequence
            && record.kind == RecordKind::Put
            && keys_equal(record.key, key);
        if !is_it {
            return None;
        }
        let value_length = record.value_length() as u32;
        let value = self.value_of(&record, offset).ok()?;
        let head = Head {
            sequence,
            written_at_ms: record.written_at_ms,
            expires_at_ms: record.expires_at_ms,
            value_length,
            metadata: ledger::Head::new(record.head).into(),
        };
        Some((head, value))
    }
}
