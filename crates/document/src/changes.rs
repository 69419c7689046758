//! Changes that are written together: documents with all their index entries, in one batch.
//!
//! Each change carries the condition under which it was made, by sequence number, so that the store
//! refuses the batch if another writer was faster ([`Commit::conflict`]). Index entries need no
//! conditions of their own but in unique indexes: an entry changes only together with its document.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_store::{
    Acknowledgement, Answer, Condition, Note, Operation, Snapshot, Value as StoreValue,
};

use crate::collection::{Collection, CollectionSchema};
use crate::commit::{Commit, CommitSequences, PendingCommit};
use crate::definition::IndexState;
use crate::error::{DocumentError, ErrorNumber, Result};
use crate::index::{Entry, Index};
use crate::key_hashing::KeyHashing;
use crate::provisional_revisions::ProvisionalRevisions;
use crate::storage::Storage;
use crate::stored_document::json_length_note;

/// The most bytes that the changes of one transaction may take in a memtable. It is below the batch
/// limit of a store with the default memory.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 6 << 20;

/// The bytes of values at which a batch of changes that need not be written together ends.
const VALUE_BYTES_AT_ONCE: usize = 8 << 20;

/// The approximate bytes of an entry in a memtable besides its key.
pub(crate) const CHANGE_BYTES: usize = 96;

/// A collection that a transaction writes to, with its shape at the first write.
#[derive(Clone, Debug)]
struct TransactionCollection {
    collection: Arc<Collection>,
    shape: Arc<CollectionSchema>,
}

/// The change of one key in the store.
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
    /// A document, with the index of its collection in [`Changes::parts`].
    Document(usize),
    /// An entry of a unique index.
    UniqueEntry,
    /// An entry of another index; its key ends with the document's key. The last of several changes
    /// to it counts.
    Entry,
}

impl ChangeKind {
    /// The kind of an entry.
    pub(crate) fn of(index: &Index) -> ChangeKind {
        if index.definition.unique { ChangeKind::UniqueEntry } else { ChangeKind::Entry }
    }
}

/// The state of a document within a transaction.
pub(crate) enum DocumentState {
    Absent,
    /// The document is in the store, and this transaction has not changed it.
    Stored {
        sequence: u64,
        value: Option<StoreValue>,
    },
    /// This transaction has changed the document.
    Changed {
        change: usize,
    },
}

/// The changes of one transaction.
pub(crate) struct Changes {
    storage: Arc<Storage>,
    /// The transaction's snapshot, if it has one. A document that another writer changed or removed
    /// after it is a conflict.
    snapshot: Option<Arc<dyn Snapshot>>,
    /// Inserted documents and unique entries are assumed to be new, without a read. If that is
    /// wrong, the conditions of the batch fail.
    assumes_absent: bool,
    /// True if a commit fails that would have to wait for a definition that changes.
    never_waits: bool,
    parts: Vec<TransactionCollection>,
    /// Indexes in `changes` of the new documents that have a number as the key that was made.
    made_keys: Vec<usize>,
    changes: Vec<Change>,
    /// Indexes in `changes` of the changes to documents and unique entries.
    by_key: HashMap<Vec<u8>, usize, KeyHashing>,
    memory_bytes: usize,
    value_bytes: usize,
    /// The provisional revisions, once one was shown.
    provisional: OnceCell<ProvisionalRevisions>,
}

impl Changes {
    pub(crate) fn new(storage: &Arc<Storage>, snapshot: Option<Arc<dyn Snapshot>>) -> Changes {
        Changes {
            storage: Arc::clone(storage),
            snapshot,
            assumes_absent: false,
            never_waits: false,
            parts: Vec::new(),
            made_keys: Vec::new(),
            changes: Vec::new(),
            by_key: HashMap::with_hasher(KeyHashing::of_process()),
            memory_bytes: 0,
            value_bytes: 0,
            provisional: OnceCell::new(),
        }
    }

    /// The provisional revisions of the changes.
    pub(crate) fn provisional(&self) -> &ProvisionalRevisions {
        self.provisional.get_or_init(ProvisionalRevisions::draw)
    }

    /// True if `bytes` contain a provisional revision that was shown.
    pub(crate) fn have_revisions_in(&self, bytes: &[u8]) -> bool {
        self.provisional.get().is_some_and(|provisional| provisional.are_in(bytes))
    }

    /// Sets whether inserted documents and unique entries are assumed to be new.
    pub(crate) fn assume_absent(&mut self, assumes_absent: bool) {
        self.assumes_absent = assumes_absent;
    }

    /// Makes the commit fail with 28 if it would have to wait for a definition that changes.
    pub(crate) fn never_wait(&mut self) {
        self.never_waits = true;
    }

    /// True if a document of this store key is assumed to be new.
    pub(crate) fn is_assumed_absent(&self, store_key: &[u8]) -> bool {
        self.assumes_absent && self.changed(store_key).is_none()
    }

    /// The shape that a collection had at its first change in this transaction.
    pub(crate) fn shape(&self, part: usize) -> Arc<CollectionSchema> {
        Arc::clone(&self.parts[part].shape)
    }

    /// The value that a change writes; `None` for a removal.
    pub(crate) fn value(&self, change: usize) -> Option<&[u8]> {
        self.changes.get(change)?.value.as_deref()
    }

    /// The index of a collection among those of the transaction; adds it if it is not there yet.
    pub(crate) fn part(&mut self, collection: &Arc<Collection>) -> usize {
        let is_it = |part: &TransactionCollection| Arc::ptr_eq(&part.collection, collection);
        self.parts.iter().position(is_it).unwrap_or_else(|| {
            let (collection, shape) = (Arc::clone(collection), collection.shape());
            self.parts.push(TransactionCollection { collection, shape });
            self.parts.len() - 1
        })
    }

    /// True if the changes have reached the limit of one batch.
    pub(crate) fn is_large(&self) -> bool {
        self.memory_bytes >= TRANSACTION_BYTES_MAX
    }

    /// The bytes of all values that were written so far.
    pub(crate) fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// The approximate bytes of memory that the changes take. A change and its place in the lists
    /// take about twice as much as in a memtable.
    pub(crate) fn held_bytes(&self) -> usize {
        2 * self.memory_bytes + self.value_bytes
    }

    /// True if a batch of changes that need not be written together should end here.
    pub(crate) fn is_full(&self) -> bool {
        self.is_large() || self.value_bytes >= VALUE_BYTES_AT_ONCE
    }

    /// True if there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Reads the state of a document, with its value if `needs_value`.
    ///
    /// # Errors
    /// 1200 if another writer changed it after the snapshot; errors of the store.
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
        let is_newer = |sequence: u64| {
            self.snapshot.as_ref().is_some_and(|snapshot| sequence > snapshot.sequence())
        };
        match found {
            None => Ok(DocumentState::Absent),
            Some((sequence, _)) if is_newer(sequence) => Err(DocumentError::write_conflict()),
            Some((sequence, value)) => Ok(DocumentState::Stored { sequence, value }),
        }
    }

    /// Checks that a document that is absent was not removed by another writer after the snapshot.
    /// Only a store in this process has snapshots of the past.
    ///
    /// # Errors
    /// 1200 if it was; errors of the store.
    pub(crate) fn check_not_removed(
        &self,
        store_key: &[u8],
        timeline: &mut Timeline,
    ) -> Result<()> {
        let is_local = self.storage.store().local().is_some();
        let Some(snapshot) = self.snapshot.as_ref().filter(|_| is_local) else { return Ok(()) };
        // Most queries have no other writer beside them. Zero is unknown.
        let newest = self.storage.newest_sequence();
        if newest != 0 && newest <= snapshot.sequence() {
            return Ok(());
        }
        let is_own = self.changed(store_key).is_some();
        if !is_own && snapshot.get(self.storage.table(), store_key, timeline)?.is_some() {
            return Err(DocumentError::write_conflict());
        }
        Ok(())
    }

    /// The change of a key, if there is one: its index, and the value that it writes.
    fn changed(&self, store_key: &[u8]) -> Option<(usize, Option<&[u8]>)> {
        let change = *self.by_key.get(store_key)?;
        Some((change, self.changes[change].value.as_deref()))
    }

    /// Checks that no other document has this entry of a unique index.
    ///
    /// # Errors
    /// 1210 if another document has it; errors of the store.
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

    /// The change that removes an entry of a document; `None` if this transaction has removed it or
    /// given it to another document already. While a unique index is built, the document may have
    /// no entry yet, and another one may have taken the values. That one keeps its entry: it is
    /// written again, because only a change carries a condition.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) fn removal(
        &self,
        index: &Index,
        entry: &Entry,
        timeline: &mut Timeline,
    ) -> Result<Option<Change>> {
        let Entry { key, value: own } = entry;
        let (kind, mut condition, mut value) = (ChangeKind::of(index), Condition::None, None);
        if index.definition.unique && index.definition.state == IndexState::Filling {
            match self.changed(key) {
                Some((_, Some(holder))) if holder == own => {}
                Some(_) => return Ok(None),
                None => match self.storage.get(key, timeline).wait_for(timeline)? {
                    None => condition = Condition::Absent,
                    Some(found) => {
                        condition = Condition::Sequence(found.head.sequence);
                        value = (*found.value != own[..]).then(|| found.value.to_vec());
                    }
                },
            }
        }
        Ok(Some(Change { key: key.clone(), value, condition, kind }))
    }

    /// True if a number can be the key of a new document, and false if it is a key already. The
    /// store is looked up if given keys may be numbers, or if the transaction has a snapshot, so
    /// that nobody runs it again, and the store is in this process: a look-up over the network for
    /// each document would cost more. Otherwise the condition of the batch tells.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) fn is_free_number(
        &self,
        collection: &Collection,
        store_key: &[u8],
        timeline: &mut Timeline,
    ) -> Result<bool> {
        if self.changed(store_key).is_some() {
            return Ok(false);
        }
        let (store, table) = (self.storage.store(), self.storage.table());
        let is_run_once = self.snapshot.is_some() && store.local().is_some();
        if !collection.has_number_keys() && !is_run_once {
            return Ok(true);
        }
        Ok(store.head(table, store_key, timeline).wait_for(timeline)?.is_none())
    }

    /// Notes that the document of a change has a number as the key that was made for it.
    pub(crate) fn note_made_key(&mut self, change: usize) {
        self.made_keys.push(change);
    }

    /// Reserves memory for the changes of `documents` documents.
    pub(crate) fn reserve(&mut self, documents: usize) {
        self.by_key.reserve(documents);
        self.changes.reserve(documents * 2);
    }

    /// Adds a change, and returns its index. A further change of the same document or unique entry
    /// replaces the value of the first one, and keeps its condition and its index.
    pub(crate) fn apply(&mut self, change: Change) -> usize {
        self.value_bytes += change.value.as_ref().map_or(0, Vec::len);
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

    /// Writes all changes, or none. With [`Acknowledgement::Disk`] the returned commit may still be
    /// under way.
    pub(crate) fn commit(
        self,
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Commit {
        let Changes { storage, parts, changes, made_keys, never_waits, provisional, .. } = self;
        let mut parts_by_id: Vec<&TransactionCollection> = parts.iter().collect();
        parts_by_id.sort_by_key(|part| part.collection.id);
        let shapes = parts_by_id.iter().map(|part| match never_waits {
            true => part.collection.try_hold_shape(),
            false => Some(part.collection.hold_shape()),
        });
        let Some(_shapes) = shapes.collect::<Option<Vec<_>>>() else {
            return Commit::Done(Err(ErrorNumber::LOCKED.into()));
        };
        // Only now: the wait for the shapes may be long, and a lease may run out in it.
        if let Err(error) = storage.may_write() {
            return Commit::Done(Err(error));
        }
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
            return Commit::Done(Ok(CommitSequences::nothing()));
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
        let mut more: Vec<_> =
            parts.iter().map(|part| (part.collection.begin_batch(), 0)).collect();
        for change in &changes {
            if let ChangeKind::Document(part) = change.kind {
                more[part].1 += change.more_documents();
            }
        }
        let provisional = provisional.into_inner();
        let unfinished = PendingCommit::new(more, changes.len(), made_keys, provisional);
        match answer {
            Answer::Now(result) => Commit::Done(unfinished.finish(result)),
            Answer::Later(pending) => Commit::Later(pending, unfinished),
        }
    }
}

impl Change {
    fn operation(&self) -> Operation<'_> {
        let condition = self.condition;
        Operation { condition, ..Operation::plain(&self.key, self.value.as_deref()) }
    }

    /// The note that the store keeps beside a document: its length as JSON.
    fn note(&self, parts: &[TransactionCollection]) -> Note {
        match (self.kind, &self.value) {
            (ChangeKind::Document(part), Some(stored)) => {
                json_length_note(&parts[part].shape, stored)
            }
            _ => Note::default(),
        }
    }

    /// The number of documents that the change adds: 1, 0, or -1 for a removal.
    fn more_documents(&self) -> i64 {
        let was_there = matches!(self.condition, Condition::Sequence(_));
        i64::from(self.value.is_some()) - i64::from(was_there)
    }
}
