//! The writes of a query, collected in one transaction that is committed at the query's end.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_aql::{QueryError, Write, WriteBatch, WriteKind, WriteOutcome};
use pellucid_store::Acknowledgement;
use pellucid_thread::Mutex;
use pellucid_value::Value;

use crate::collection::CollectionSchema;
use crate::commit::CommitSequences;
use crate::database::Database;
use crate::error::{DocumentError, ErrorNumber};
use crate::stored_document::reveal_into;
use crate::transaction::{DocumentOutcome, Rewrite, Transaction, Version, WriteOptions};

pub(crate) struct QueryWrites {
    database: Arc<Database>,
    transaction: Transaction,
    acknowledgement: Acknowledgement,
    committed: Arc<Mutex<Option<CommitSequences>>>,
}

impl QueryWrites {
    pub(crate) fn new(
        database: Arc<Database>,
        transaction: Transaction,
        acknowledgement: Acknowledgement,
        committed: Arc<Mutex<Option<CommitSequences>>>,
    ) -> QueryWrites {
        QueryWrites { database, transaction, acknowledgement, committed }
    }

    fn apply(&mut self, write: &Write<'_>) -> Result<WriteOutcome, DocumentError> {
        let collection = self.database.collection(&write.collection.to_string())?;
        let shape = collection.shape();
        let options = write.options;
        if options.wait_for_sync || shape.definition.wait_for_sync {
            self.acknowledgement = Acknowledgement::Disk;
        }
        let how = WriteOptions {
            merge: options.merge,
            overwrite: options.overwrite_mode,
            expected: write.revision.map(str::as_bytes),
            wants_old: true,
        };
        let key = write.key.unwrap_or_default();
        let body = || {
            let object = write.document.view().as_object();
            object.ok_or_else(|| DocumentError::from(ErrorNumber::DOCUMENT_TYPE_INVALID))
        };
        let held_before = self.transaction.changes().held_bytes();
        let (transaction, mut timeline) = (&mut self.transaction, Timeline::off());
        let timeline = &mut timeline;
        let outcome = match write.kind {
            WriteKind::Insert => transaction.insert(&collection, body()?, &how, timeline)?,
            WriteKind::Update => {
                transaction.rewrite(&collection, key, body()?, Rewrite::Update, &how, timeline)?
            }
            WriteKind::Replace => {
                transaction.rewrite(&collection, key, body()?, Rewrite::Replace, &how, timeline)?
            }
            WriteKind::Remove => transaction.remove(&collection, key, &how, timeline)?,
        };
        let held_bytes = transaction.changes().held_bytes() - held_before;
        Ok(WriteOutcome { held_bytes, ..self.written(&shape, write.kind, &outcome)? })
    }

    /// The document before and after the write, as the query sees them, without the bytes held.
    fn written(
        &self,
        shape: &CollectionSchema,
        kind: WriteKind,
        outcome: &DocumentOutcome,
    ) -> Result<WriteOutcome, DocumentError> {
        let mut bytes = Vec::new();
        let changes = self.transaction.changes();
        let mut show = |stored: Option<&[u8]>, version: Version| match stored {
            None => Ok::<Value, DocumentError>(Value::Null),
            Some(stored) => {
                reveal_into(shape, stored, &version.provisional(changes), &mut bytes)?;
                Ok(Value::open(&bytes).unwrap_or_default())
            }
        };
        let old = match &outcome.previous {
            Some(previous) => show(previous.stored.as_deref(), previous.version)?,
            None => Value::Null,
        };
        let new = match kind {
            WriteKind::Remove => Value::Null,
            _ if outcome.was_ignored => old.clone(),
            _ => show(self.transaction.stored(outcome.version), outcome.version)?,
        };
        Ok(WriteOutcome { old, new, is_ignored: outcome.was_ignored, held_bytes: 0 })
    }
}

impl WriteBatch for QueryWrites {
    fn add(&mut self, write: &Write<'_>) -> Result<WriteOutcome, QueryError> {
        Ok(self.apply(write)?)
    }

    fn commit(self: Box<Self>) -> Result<(), QueryError> {
        let QueryWrites { transaction, acknowledgement, committed, .. } = *self;
        if transaction.changes().is_empty() {
            return Ok(());
        }
        let written = transaction.commit(acknowledgement, &mut Timeline::off()).wait()?;
        *committed.lock() = Some(written);
        Ok(())
    }
}
