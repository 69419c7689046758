//! Look-ups: the ledger first, then one record of the journal.

use pellucid_account::Timeline;

use crate::catalogue::TableId;
use crate::codec::InternalKey;
use crate::engine::{Engine, Inner};
use crate::error::Result;
use crate::journal::RECORD_HEADER_LENGTH;
use crate::ledger::{FoundEntry, NEWEST};
use crate::object::{Head, Object, Value};
use crate::parts;
use crate::tally::{Count, Turn};

/// How long the record of an entry is, without its key.
#[inline]
pub(crate) fn record_length(found: &FoundEntry) -> usize {
    RECORD_HEADER_LENGTH + found.head.len() + found.value_length as usize
}

impl Engine {
    /// The head and the value of `key`, if it is there. An empty value is not read from the
    /// journal, because the ledger says all of it.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] if a block or the record is damaged: what cannot be read is
    /// never taken for absent.
    #[inline]
    pub fn get(
        &self,
        table: TableId,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Result<Option<Object>> {
        self.inner.get_at(table, key, NEWEST, timeline)
    }

    /// All that is known of `key` but its value, if it is there. The journal is not touched.
    ///
    /// # Errors
    /// As [`Engine::get`].
    #[inline]
    pub fn head(
        &self,
        table: TableId,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Result<Option<Head>> {
        self.inner.head_at(table, key, NEWEST, timeline)
    }
}

impl Inner {
    pub(crate) fn get_at(
        &self,
        table: TableId,
        key: &[u8],
        at_sequence: u64,
        timeline: &mut Timeline,
    ) -> Result<Option<Object>> {
        let key = InternalKey::new(table.0, key)?;
        let mut missed = 0;
        loop {
            let found = self.look_up(&key, at_sequence, timeline)?;
            let Some(found) = found else { return Ok(None) };
            if found.value_length == 0 {
                return Ok(Some(Object { head: Head::from_found(found), value: Value::empty() }));
            }
            let length = record_length(&found) + key.as_bytes().len();
            let counting = self.ledger.tally().mine();
            let turn = counting.turn(Count::RecordTurns);
            let (sequence, bytes) = (found.sequence, key.as_bytes());
            let value = match turn {
                Turn::Stepped => self.journal.read_by_steps(sequence, bytes, length, counting)?,
                _ => self.journal.read_if_held(sequence, bytes, length)?,
            };
            counting.add(Count::Records, 1);
            counting.add(Count::RecordBytes, u64::from(found.value_length));
            if let Turn::Timed(begun) = turn {
                counting.add_since(Count::RecordTicks, begun);
                counting.add(Count::RecordSamples, 1);
            }
            timeline.counts.records = timeline.counts.records.saturating_add(1);
            timeline.lap(parts::JOURNAL_READ);
            if let Some(value) = value {
                return Ok(Some(Object { head: Head::from_found(found), value }));
            }
            // A record is collected only after a newer one was published, so that the next look-up
            // finds that. The same one a second time is really missing.
            if found.sequence == missed {
                return Err(self.journal.missing(missed));
            }
            missed = found.sequence;
        }
    }

    pub(crate) fn head_at(
        &self,
        table: TableId,
        key: &[u8],
        at_sequence: u64,
        timeline: &mut Timeline,
    ) -> Result<Option<Head>> {
        let key = InternalKey::new(table.0, key)?;
        Ok(self.look_up(&key, at_sequence, timeline)?.map(Head::from_found))
    }

    #[inline]
    fn look_up(
        &self,
        key: &InternalKey,
        at_sequence: u64,
        timeline: &mut Timeline,
    ) -> Result<Option<FoundEntry>> {
        let found = self.ledger.get(key.as_bytes(), at_sequence, &mut timeline.counts);
        timeline.lap(parts::LEDGER);
        Ok(found?.filter(|entry| self.time.is_live(entry)))
    }
}
