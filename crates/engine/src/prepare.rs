//! Preparation of a batch that needs more than its operations: heads that a metadata extractor
//! derives, and index entries.
//!
//! It happens before the writer lock is taken, so that no writer waits for code of the embedder.
//! Index entries go before the operations, so that the operations have the last sequence numbers of
//! the batch, with or without indexes.

use std::ops::Range;
use std::sync::Arc;

use crate::batch::Operation;
use crate::catalogue::{Catalogue, Definitions};
use crate::codec::HEAD_LENGTH_MAX;
use crate::error::{Error, Result};
use crate::index_key::put_index_key;
use crate::ledger::EntryKind;
use crate::metadata_extractor::MetadataExtractor;
use crate::options::WriteLimits;
use crate::table_id::TableId;

/// The metadata extractors for the heads of a batch, each with the position of its operation.
type Rules = Vec<(usize, Arc<dyn MetadataExtractor>)>;

/// The heads and index entries to add to a batch.
#[derive(Default)]
pub(crate) struct PreparedBatch {
    bytes: Vec<u8>,
    /// The derived heads: the position of the operation, and the range of its head in `bytes`.
    heads: Vec<(usize, Range<usize>)>,
    /// The entries of indexes, in the order of their operations.
    entries: Vec<EntryChange>,
}

/// An index entry that is added or removed.
struct EntryChange {
    index: TableId,
    kind: EntryKind,
    expires_at_ms: u64,
    /// The range of its key in the prepared bytes.
    key: Range<usize>,
}

/// Refuses operations that their tables do not allow; returns the metadata extractors that derive
/// their heads.
fn check_tables(catalogue: &Catalogue, operations: &[Operation<'_>]) -> Result<Rules> {
    let definitions = catalogue.read();
    let mut rules = Rules::new();
    for (position, operation) in operations.iter().enumerate() {
        if let Some(rule) = check_table(&definitions, operation)? {
            rules.push((position, rule));
        }
        check_index_changes(&definitions, operation)?;
    }
    Ok(rules)
}

/// Refuses an operation that its table does not allow; returns the metadata extractor that derives
/// its head, if there is one.
fn check_table(
    definitions: &Definitions,
    operation: &Operation<'_>,
) -> Result<Option<Arc<dyn MetadataExtractor>>> {
    let number = operation.table.number();
    let table = definitions.objects(operation.table).ok_or(Error::TableUnknown { number })?;
    if table.options.head_only && !operation.value.is_empty() {
        return Err(Error::ValueRefused { number });
    }
    let Some(name) = &table.options.metadata_extractor else { return Ok(None) };
    let Some(rule) = &table.rule else {
        return Err(Error::ExtractorMissing { rule: name.clone() });
    };
    if !operation.head.is_empty() {
        return Err(Error::HeadGiven { number, rule: name.clone() });
    }
    Ok((operation.kind == EntryKind::Put).then(|| Arc::clone(rule)))
}

/// Refuses changes of indexes that do not belong to the operation's table, and entries that are
/// added for an object that the same operation deletes.
fn check_index_changes(definitions: &Definitions, operation: &Operation<'_>) -> Result<()> {
    for change in operation.index_changes {
        let (table, index) = (operation.table, change.index);
        if index.table != table || !definitions.has_index(index) {
            return Err(Error::IndexUnknown { number: index.number, table: table.number() });
        }
        if change.is_added && operation.kind == EntryKind::Delete {
            return Err(Error::IndexedDelete { number: index.number });
        }
    }
    Ok(())
}

impl PreparedBatch {
    /// Prepares the additions to `operations`. At least one of them changes an index, or its table
    /// is not plain.
    pub(crate) fn of(
        catalogue: &Catalogue,
        limits: &WriteLimits,
        operations: &[Operation<'_>],
    ) -> Result<PreparedBatch> {
        let rules = check_tables(catalogue, operations)?;
        let changes = operations.iter().map(|operation| operation.index_changes.len());
        let entries = changes.fold(0, usize::saturating_add);
        // Checked before memory is allocated for them.
        limits.check_batch(operations.len().saturating_add(entries), 0)?;
        let mut prepared = PreparedBatch::default();
        prepared.derive_heads(operations, &rules)?;
        prepared.make_entries(operations)?;
        Ok(prepared)
    }

    /// The number of index entries, which go first.
    pub(crate) fn index_entries(&self) -> usize {
        self.entries.len()
    }

    fn derive_heads(&mut self, operations: &[Operation<'_>], rules: &Rules) -> Result<()> {
        let mut head = Vec::new();
        for (position, rule) in rules {
            let Operation { key, value, .. } = operations[*position];
            head.clear();
            rule.derive(key, value, &mut head)
                .map_err(|what| Error::HeadRefused { rule: rule.name().to_owned(), what })?;
            if head.len() > HEAD_LENGTH_MAX {
                return Err(Error::HeadLength { length: head.len(), limit: HEAD_LENGTH_MAX });
            }
            let begin = self.bytes.len();
            self.bytes.extend_from_slice(&head);
            self.heads.push((*position, begin..self.bytes.len()));
        }
        Ok(())
    }

    fn make_entries(&mut self, operations: &[Operation<'_>]) -> Result<()> {
        for operation in operations {
            for change in operation.index_changes {
                let begin = self.bytes.len();
                put_index_key(&mut self.bytes, change.term, operation.key)?;
                let (kind, expires_at_ms) = match change.is_added {
                    true => (EntryKind::Put, operation.expires_at_ms),
                    false => (EntryKind::Delete, 0),
                };
                self.entries.push(EntryChange {
                    index: TableId(change.index.number),
                    kind,
                    expires_at_ms,
                    key: begin..self.bytes.len(),
                });
            }
        }
        Ok(())
    }

    /// The index entries, followed by the operations with their derived heads.
    pub(crate) fn expand<'a>(&'a self, operations: &[Operation<'a>]) -> Vec<Operation<'a>> {
        let entry = |entry: &EntryChange| {
            let key = &self.bytes[entry.key.clone()];
            let operation = match entry.kind {
                EntryKind::Put => Operation::put(entry.index, key, &[]),
                EntryKind::Delete => Operation::delete(entry.index, key),
            };
            operation.with_expiry(entry.expires_at_ms)
        };
        let mut all: Vec<_> = self.entries.iter().map(entry).collect();
        all.extend_from_slice(operations);
        for (position, head) in &self.heads {
            all[self.entries.len() + position].head = &self.bytes[head.clone()];
        }
        all
    }
}
