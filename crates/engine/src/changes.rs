//! Changes: the writes of a table in the order of their sequence numbers, as the journal has them.

use std::sync::Arc;

use crate::codec::split_internal_key;
use crate::error::{Error, Result};
use crate::journal::{Record, RecordKind, Segment, SegmentList};
use crate::object::{Head, Metadata, Object};
use crate::open_store::OpenStore;
use crate::table_id::TableId;

/// The most records that one step looks at, so that a search for a rare key returns to its caller
/// now and then.
const RECORDS_PER_STEP_MAX: u32 = 4_096;
/// The most bytes of records that one step looks at: each record is read in full for its checksum.
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
    /// The object that was put; `None` for a removal. It may have expired meanwhile, or a later
    /// change may have overwritten it.
    pub object: Option<Object>,
}

/// A step of a walk over changes.
#[derive(Clone, Debug)]
pub enum ChangeStep {
    /// A write.
    Change(Change),
    /// Only writes of other tables and keys, up to [`Changes::sequence`]. More writes may follow.
    Others,
    /// The end for now: there is no write above [`Changes::sequence`] yet.
    End,
}

/// A walk over the writes of a table after a sequence number, in their order, without gaps.
///
/// It keeps no records alive: a record that is collected before the walk reaches it ends the walk
/// with [`Error::ChangesLost`]. [`crate::EngineOptions::kept_changes_bytes`] keeps records for
/// longer.
pub struct Changes {
    store: Arc<OpenStore>,
    table: TableId,
    prefix: Vec<u8>,
    is_durable_only: bool,
    /// The last sequence number that the walk has looked at.
    sequence: u64,
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Changes {
    /// The changes of `table` after `since`.
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

    /// Restricts the walk to keys that begin with `prefix`.
    #[must_use]
    pub fn with_prefix(self, prefix: &[u8]) -> Changes {
        Changes { prefix: prefix.to_vec(), ..self }
    }

    /// Restricts the walk to durable writes, which survive a loss of power. If only writes that are
    /// not durable are left, a step waits for a sync.
    #[must_use]
    pub fn durable_only(self) -> Changes {
        Changes { is_durable_only: true, ..self }
    }

    /// The last sequence number that the walk has looked at. A walk that begins after it continues
    /// where this one is.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Goes one step.
    ///
    /// # Errors
    /// [`Error::ChangesLost`] if the next records were collected; [`Error::Corruption`] if a record
    /// is damaged; [`Error::Poisoned`] if nothing further will ever be durable.
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
                // A zero offset means that the record was collected, or that the page could not be
                // read.
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

    /// Goes back before the change that the last step returned: the next step returns it again.
    pub fn step_back(&mut self) {
        self.sequence = self.sequence.saturating_sub(1);
    }

    /// The last sequence number that the walk may return.
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

    /// The user's key of `record`, if the walk asks for it.
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
                metadata: Metadata::new(record.head),
            },
            value: segment.value_of(record, offset)?,
        }),
        RecordKind::Delete | RecordKind::SyncMark => None,
    };
    Ok(Change { sequence, written_at_ms, key, object })
}
