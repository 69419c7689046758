//! Changes that are written together: documents with all their index entries, in one batch.
//!
//! Each change carries the condition under which it was made, by sequence number, so that the store
//! refuses the batch if another writer was faster ([`Commit::conflict`]). Index entries need no
//! conditions of their own but in unique indexes: an entry changes only together with its document.

use std::collections::HashMap;
use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_store::{Acknowledgement, Answer, Condition, Note, Operation, Value as StoreValue};

use crate::collection::{Collection, Shape};
use crate::commit::{Commit, Committed, Unfinished};
use crate::error::{DocumentError, Result};
use crate::index::{Entry, Index};
use crate::key_hashing::KeyHashing;
use crate::storage::Storage;
use crate::stored::json_length_note;

/// Memory that the changes of one transaction may take in a memtable. It stays below what a store
/// with the default memory takes in one batch.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 6 << 20;

/// About what an entry takes in a memtable besides its key.
pub(crate) const CHANGE_BYTES: usize = 96;

/// A collection that a transaction writes to, as it was when it first did.
#[derive(Clone, Debug)]
struct Part {
    collection: Arc<Collection>,
    shape: Arc<Shape>,
}

/// A key in the store that is to change.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) condition: Condition,
    pub(crate) kind: ChangeKind,
}

/// The kind of a key that changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// A document, of that one of the transaction's collections.
    Document(usize),
    /// An entry that no two documents can have.
    UniqueEntry,
    /// An entry that ends with its document's key. The last of several changes to it stands.
    Entry,
}

/// The state of a document within a transaction.
pub(crate) enum DocumentState {
    Absent,
    /// As it lies in the store.
    Stored {
        sequence: u64,
        value: Option<StoreValue>,
    },
    /// As this transaction leaves it.
    Changed {
        change: usize,
    },
}

pub(crate) struct Changes {
    storage: Arc<Storage>,
    /// Documents that were changed after this are in conflict: their state that was read is old.
    begun_at: Option<u64>,
    /// Documents and unique entries that are inserted are taken to be new, without a look: the
    /// conditions of the batch find out.
    assumes_absent: bool,
    parts: Vec<Part>,
    changes: Vec<Change>,
    /// Places of changes to documents and unique entries.
    by_key: HashMap<Vec<u8>, usize, KeyHashing>,
    memory_bytes: usize,
}

impl Changes {
    pub(crate) fn new(storage: &Arc<Storage>, begun_at: Option<u64>) -> Changes {
        Changes {
            storage: Arc::clone(storage),
            begun_at,
            assumes_absent: false,
            parts: Vec::new(),
            changes: Vec::new(),
            by_key: HashMap::with_hasher(KeyHashing::of_process()),
            memory_bytes: 0,
        }
    }

    /// Takes documents and unique entries that are inserted to be new.
    pub(crate) fn assume_absent(&mut self, assumes_absent: bool) {
        self.assumes_absent = assumes_absent;
    }

    /// A document of this store key is taken to be new.
    pub(crate) fn is_assumed_absent(&self, store_key: &[u8]) -> bool {
        self.assumes_absent && self.changed(store_key).is_none()
    }

    /// The shape of a collection when it was first changed here.
    pub(crate) fn shape(&self, part: usize) -> Arc<Shape> {
        Arc::clone(&self.parts[part].shape)
    }

    /// The value that a change leaves.
    pub(crate) fn value(&self, change: usize) -> Option<&[u8]> {
        self.changes.get(change)?.value.as_deref()
    }

    /// The place of a collection among those of the transaction.
    pub(crate) fn part(&mut self, collection: &Arc<Collection>) -> usize {
        let is_it = |part: &Part| Arc::ptr_eq(&part.collection, collection);
        self.parts.iter().position(is_it).unwrap_or_else(|| {
            let (collection, shape) = (Arc::clone(collection), collection.shape());
            self.parts.push(Part { collection, shape });
            self.parts.len() - 1
        })
    }

    /// It holds as much as one batch should.
    pub(crate) fn is_large(&self) -> bool {
        self.memory_bytes >= TRANSACTION_BYTES_MAX
    }

    /// There is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The state of a document, with its value if that is needed.
    pub(crate) fn find(
        &self,
        store_key: &[u8],
        needs_value: bool,
        timeline: &mut Timeline,
    ) -> Result<DocumentState> {
        if let Some(change) = self.by_key.get(store_key) {
            let is_there = self.changes[*change].value.is_some();
            return Ok(if is_there {
                DocumentState::Changed { change: *change }
            } else {
                DocumentState::Absent
            });
        }
        let found = if needs_value {
            let object = self.storage.get(store_key, timeline).wait_for(timeline)?;
            object.map(|object| (object.head.sequence, Some(object.value)))
        } else {
            let (store, table) = (self.storage.store(), self.storage.table());
            let head = store.head(table, store_key, timeline).wait_for(timeline)?;
            head.map(|head| (head.sequence, None))
        };
        match found {
            None => Ok(DocumentState::Absent),
            Some((sequence, _)) if self.begun_at.is_some_and(|begun_at| sequence > begun_at) => {
                Err(DocumentError::write_conflict())
            }
            Some((sequence, value)) => Ok(DocumentState::Stored { sequence, value }),
        }
    }

    /// The change of a key and the value that it leaves, if there is one.
    fn changed(&self, store_key: &[u8]) -> Option<(usize, Option<&[u8]>)> {
        let change = *self.by_key.get(store_key)?;
        Some((change, self.changes[change].value.as_deref()))
    }

    /// Refuses an entry of a unique index that another document has.
    pub(crate) fn check_unique(
        &self,
        index: &Index,
        entry: &Entry,
        timeline: &mut Timeline,
    ) -> Result<()> {
        let violated = |holder: &[u8]| {
            let holder = String::from_utf8_lossy(holder);
            Err(index.violation(&holder))
        };
        match self.changed(&entry.key) {
            Some((_, Some(holder))) if holder != entry.value => return violated(holder),
            Some(_) => return Ok(()),
            None if self.assumes_absent => return Ok(()),
            None => {}
        }
        let found = self.storage.get(&entry.key, timeline);
        match found.wait_for(timeline)? {
            Some(object) if *object.value != entry.value[..] => violated(&object.value),
            _ => Ok(()),
        }
    }

    /// Makes room for the changes of so many documents.
    pub(crate) fn reserve(&mut self, documents: usize) {
        self.by_key.reserve(documents);
        self.changes.reserve(documents * 2);
    }

    /// Adds a change; returns its place.
    pub(crate) fn apply(&mut self, change: Change) -> usize {
        if change.kind != ChangeKind::Entry {
            match self.by_key.get(&change.key) {
                Some(place) => {
                    self.changes[*place].value = change.value;
                    return *place;
                }
                None => {
                    self.by_key.insert(change.key.clone(), self.changes.len());
                }
            }
        }
        self.memory_bytes += change.key.len() + CHANGE_BYTES;
        self.changes.push(change);
        self.changes.len() - 1
    }

    /// Writes all changes, or none. With [`Acknowledgement::Disk`] the end may come later.
    pub(crate) fn commit(
        self,
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Commit {
        let Changes { storage, parts, changes, .. } = self;
        if let Err(error) = storage.may_write() {
            return Commit::Done(Err(error));
        }
        let mut parts_by_id: Vec<&Part> = parts.iter().collect();
        parts_by_id.sort_by_key(|part| part.collection.id);
        let _shapes: Vec<_> = parts_by_id.iter().map(|part| part.collection.hold_shape()).collect();
        for part in &parts {
            if part.collection.is_dropped() {
                let name = &part.shape.definition.name;
                return Commit::Done(Err(DocumentError::collection_not_found(name)));
            }
            if !part.collection.has_shape(&part.shape) {
                return Commit::Done(Err(DocumentError::write_conflict()));
            }
        }
        if changes.is_empty() {
            return Commit::Done(Ok(Committed::nothing()));
        }
        let operations: Vec<_> = changes.iter().map(Change::operation).collect();
        let (store, table) = (storage.store(), storage.table());
        let answer = match store.noting() {
            None => store.write(table, &operations, acknowledgement, timeline),
            Some(noting) => {
                let notes: Vec<_> = changes.iter().map(|change| change.note(&parts)).collect();
                noting.write_noted(table, &operations, &notes, acknowledgement, timeline)
            }
        };
        drop(operations);
        let mut more: Vec<_> = parts.iter().map(|part| (Arc::clone(&part.collection), 0)).collect();
        for change in &changes {
            if let ChangeKind::Document(part) = change.kind {
                more[part].1 += change.more_documents();
            }
        }
        let unfinished = Unfinished::new(more, changes.len());
        match answer {
            Answer::Now(result) => Commit::Done(unfinished.finish(result)),
            Answer::Later(pending) => Commit::Later(pending, unfinished),
        }
    }
}

impl Change {
    fn operation(&self) -> Operation<'_> {
        Operation {
            key: &self.key,
            value: self.value.as_deref(),
            condition: self.condition,
            lifetime_ms: None,
        }
    }

    /// The note that the store keeps beside a document: its length as JSON.
    fn note(&self, parts: &[Part]) -> Note {
        match (self.kind, &self.value) {
            (ChangeKind::Document(part), Some(stored)) => {
                json_length_note(&parts[part].shape, stored)
            }
            _ => Note::default(),
        }
    }

    /// The number of documents that it adds.
    fn more_documents(&self) -> i64 {
        let was_there = matches!(self.condition, Condition::Sequence(_));
        i64::from(self.value.is_some()) - i64::from(was_there)
    }
}
