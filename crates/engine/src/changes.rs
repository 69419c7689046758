//! Changes: the writes of a table in the order of their sequence numbers, as the journal has them.

use std::sync::Arc;

use crate::codec::split_internal_key;
use crate::error::{Error, Result};
use crate::journal::{Record, RecordKind, Segment, SegmentList};
use crate::ledger;
use crate::object::{Head, Object};
use crate::open_store::OpenStore;
use crate::table_id::TableId;

/// Records that one step looks at, so that a walk to a rare key returns to its caller now and then.
const RECORDS_PER_STEP_MAX: u32 = 4_096;
/// Bytes of them: each record is checked whole.
const BYTES_PER_STEP_MAX: u64 = 1 << 20;

/// A write of a table.
#[derive(Clone, Debug)]
pub struct Change {
    /// The sequence number of the write.
    pub sequence: u64,
    /// The time of the write, in milliseconds since the Unix epoch.
    pub written_at_ms: u64,
    /// The key.
    pub key: Vec<u8>,
    /// The object that was put; nothing for a removal. It may have expired meanwhile, or be written
    /// over by a later change.
    pub object: Option<Object>,
}

/// A step of a walk over changes.
#[derive(Clone, Debug)]
pub enum ChangeStep {
    /// A write.
    Change(Change),
    /// Writes of other tables and keys, up to [`Changes::sequence`]. There may be more behind them.
    Others,
    /// The end, for now: no write has a sequence number above [`Changes::sequence`].
    End,
}

/// A walk over the writes of a table after a sequence number, in their order, without gaps.
///
/// It holds nothing of the store: records that are collected before it comes to them end it
/// ([`Error::ChangesLost`]); [`crate::EngineOptions::kept_changes_bytes`] keeps them for longer.
pub struct Changes {
    store: Arc<OpenStore>,
    table: TableId,
    prefix: Vec<u8>,
    is_durable_only: bool,
    /// The last sequence number that was looked at.
    sequence: u64,
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Changes {
    /// The writes of `table` after `since`.
    pub(crate) fn of(store: &Arc<OpenStore>, table: TableId, since: u64) -> Result<Changes> {
        let changes = Changes {
            store: Arc::clone(store),
            table,
            prefix: Vec::new(),
            is_durable_only: false,
            sequence: since,
        };
        let last = store.ledger.published_sequence();
        let list = store.journal.segments().list();
        if since > last || since < list.complete_since(last) {
            return Err(changes.lost(&list, last));
        }
        Ok(changes)
    }

    /// The same, of keys that begin with `prefix`.
    #[must_use]
    pub fn with_prefix(self, prefix: &[u8]) -> Changes {
        Changes { prefix: prefix.to_vec(), ..self }
    }

    /// The same, of writes that survive the loss of the machine's power: where there is no other
    /// left, a step waits for a sync.
    #[must_use]
    pub fn durable_only(self) -> Changes {
        Changes { is_durable_only: true, ..self }
    }

    /// The last sequence number that was looked at: a walk that begins after it goes on where this
    /// one is.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The next step.
    ///
    /// # Errors
    /// [`Error::ChangesLost`] if records were collected that come next; [`Error::Corruption`];
    /// [`Error::Poisoned`] if nothing further will ever be durable.
    pub fn step(&mut self) -> Result<ChangeStep> {
        let last = self.last_readable()?;
        let list = self.store.journal.segments().list();
        let mut looked_at_bytes = 0;
        for _ in 0..RECORDS_PER_STEP_MAX {
            if looked_at_bytes >= BYTES_PER_STEP_MAX {
                break;
            }
            if self.sequence >= last {
                return Ok(ChangeStep::End);
            }
            let sequence = self.sequence + 1;
            let Some(segment) = list.find(sequence) else { return Err(self.lost(&list, last)) };
            let Some(offset) = segment.offset(sequence) else {
                // Zeros say that there is none; so does a page that cannot be read.
                segment.check_offsets()?;
                return Err(self.lost(&list, last));
            };
            let record = segment.record_with(sequence, offset)?;
            looked_at_bytes += record.padded_length();
            self.sequence = sequence;
            if let Some(key) = self.key_of(&record) {
                return change_of(segment, &record, offset, key).map(ChangeStep::Change);
            }
        }
        Ok(ChangeStep::Others)
    }

    /// The last sequence number that may be told.
    fn last_readable(&self) -> Result<u64> {
        let last = self.store.ledger.published_sequence();
        if !self.is_durable_only || self.sequence >= last {
            return Ok(last);
        }
        let sync = self.store.journal.sync();
        if sync.durable_sequence() <= self.sequence {
            sync.wait_durable(last)?;
        }
        Ok(last.min(sync.durable_sequence()))
    }

    /// The user's key of `record`, if it is one that is asked for.
    fn key_of(&self, record: &Record<'_>) -> Option<Vec<u8>> {
        let (table, key) = split_internal_key(record.key)?;
        (table == self.table.0 && key.starts_with(&self.prefix)).then(|| key.to_vec())
    }

    #[cold]
    fn lost(&self, list: &SegmentList, last: u64) -> Error {
        let oldest = list.complete_since(last);
        Error::ChangesLost { since: self.sequence, oldest, newest: last }
    }
}

fn change_of(segment: &Segment, record: &Record<'_>, offset: u64, key: Vec<u8>) -> Result<Change> {
    let Record { sequence, written_at_ms, expires_at_ms, .. } = *record;
    let object = match record.kind {
        RecordKind::Put => Some(Object {
            head: Head {
                sequence,
                written_at_ms,
                expires_at_ms,
                value_length: record.value_length() as u32,
                metadata: ledger::Head::new(record.head).into(),
            },
            value: segment.value_of(record, offset)?,
        }),
        RecordKind::Delete | RecordKind::SyncMark => None,
    };
    Ok(Change { sequence, written_at_ms, key, object })
}
