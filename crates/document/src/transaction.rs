//! Changes that are written together: documents with all their index entries, in one batch.
//!
//! A transaction collects changes and looks at the store through them. Each change carries the
//! condition under which it was made, by sequence number, so that the store refuses the batch if
//! somebody else was faster: then [`Commit::conflict`] says so, and whoever made the transaction
//! makes it again, or reports the conflict. Index entries need no conditions of their own but in
//! unique indexes: an entry changes only together with its document.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use pellucid_account::Timeline;
use pellucid_store::{
    Acknowledgement, Answer, Condition, Note, Operation, Pending, Result as StoreResult,
    StoreError, Value as StoreValue, Written,
};

use crate::collection::{Collection, Shape};
use crate::documents::Documents;
use crate::error::{DocumentError, ErrorNumber, Result};
use crate::index::{Entry, Index};
use crate::key_hashing::KeyHashing;
use crate::read::json_length_note;
use crate::revision::{REVISION_LENGTH, revision_of};

/// Memory that the changes of one transaction may take in a memtable. It stays below what a store
/// with the default memory takes in one batch.
pub const TRANSACTION_BYTES_MAX: usize = 6 << 20;

/// About what an entry takes in a memtable besides its key.
const CHANGE_BYTES: usize = 96;

/// A collection that a transaction writes to, as it was when it first did.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) collection: Arc<Collection>,
    pub(crate) shape: Arc<Shape>,
}

/// A key in the store that is to change.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) condition: Condition,
    pub(crate) what: What,
}

/// What a key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A document, of that one of the transaction's collections.
    Document(usize),
    /// An entry that no two documents can have.
    UniqueEntry,
    /// An entry that ends with its document's key. The last of several changes to it stands.
    Entry,
}

/// What a transaction sees of a document.
pub(crate) enum Seen {
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

/// See the module.
pub struct Transaction {
    pub(crate) documents: Arc<Documents>,
    /// Documents that were changed after this are in conflict: what was read of them is old.
    begun_at: Option<u64>,
    /// Documents and unique entries that are inserted are taken to be new, without a look: the
    /// conditions of the batch find out.
    pub(crate) assumes_absent: bool,
    pub(crate) parts: Vec<Part>,
    pub(crate) changes: Vec<Change>,
    /// Places of changes to documents and unique entries.
    by_key: HashMap<Vec<u8>, usize, KeyHashing>,
    memory_bytes: usize,
}

impl Documents {
    /// Begins a transaction that is made again when it conflicts with another one.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Transaction {
        Transaction {
            documents: Arc::clone(self),
            begun_at: None,
            assumes_absent: false,
            parts: Vec::new(),
            changes: Vec::new(),
            by_key: HashMap::with_hasher(KeyHashing::of_process()),
            memory_bytes: 0,
        }
    }

    /// Begins the transaction of a query: documents that others change from now on are in conflict,
    /// because the query may have read them before.
    #[must_use]
    pub fn begin_query(self: &Arc<Self>) -> Transaction {
        let known = self.last_sequence.load(Ordering::Acquire);
        let now = self.store.replicated().and_then(|store| store.sequence_now());
        self.begin_at(now.map_or(known, |now| known.max(now)))
    }

    /// As [`Self::begin_query`], for a query that began when this write was the latest.
    pub(crate) fn begin_at(self: &Arc<Self>, sequence: u64) -> Transaction {
        Transaction { begun_at: Some(sequence), ..self.begin() }
    }
}

impl Transaction {
    /// The place of a collection among those of the transaction.
    pub(crate) fn part(&mut self, collection: &Arc<Collection>) -> usize {
        let is_it = |part: &Part| Arc::ptr_eq(&part.collection, collection);
        self.parts.iter().position(is_it).unwrap_or_else(|| {
            let (collection, shape) = (Arc::clone(collection), collection.shape());
            self.parts.push(Part { collection, shape });
            self.parts.len() - 1
        })
    }

    /// Whether it holds as much as one batch should.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.memory_bytes >= TRANSACTION_BYTES_MAX
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The sequence number from which on changes of others conflict, if there is one.
    #[must_use]
    pub fn begun_at(&self) -> Option<u64> {
        self.begun_at
    }

    /// A document as it is for this transaction, with its value if that is needed.
    pub(crate) fn look(
        &self,
        store_key: &[u8],
        needs_value: bool,
        timeline: &mut Timeline,
    ) -> Result<Seen> {
        if let Some(change) = self.by_key.get(store_key) {
            let is_there = self.changes[*change].value.is_some();
            return Ok(if is_there { Seen::Changed { change: *change } } else { Seen::Absent });
        }
        let documents = &self.documents;
        let (store, table) = (&documents.store, documents.table);
        let seen = if needs_value {
            store
                .get(table, store_key, timeline)
                .wait_for(timeline)?
                .map(|object| (object.head.sequence, Some(object.value)))
        } else {
            let head = store.head(table, store_key, timeline).wait_for(timeline)?;
            head.map(|head| (head.sequence, None))
        };
        match seen {
            None => Ok(Seen::Absent),
            Some((sequence, _)) if self.begun_at.is_some_and(|begun_at| sequence > begun_at) => {
                Err(DocumentError::write_conflict())
            }
            Some((sequence, value)) => Ok(Seen::Stored { sequence, value }),
        }
    }

    /// What this transaction leaves under a key, if it changes it.
    pub(crate) fn changed(&self, store_key: &[u8]) -> Option<(usize, Option<&[u8]>)> {
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
        let documents = &self.documents;
        let found = documents.store.get(documents.table, &entry.key, timeline);
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
        if change.what != What::Entry {
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
    pub fn commit(self, acknowledgement: Acknowledgement, timeline: &mut Timeline) -> Commit {
        let Transaction { documents, parts, changes, .. } = self;
        if let Err(error) = documents.may_write() {
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
            return Commit::Done(Ok(Committed { first: 0, last: 0 }));
        }
        let operations: Vec<_> = changes.iter().map(Change::operation).collect();
        let (store, table) = (&documents.store, documents.table);
        let answer = match store.noting() {
            None => store.write(table, &operations, acknowledgement, timeline),
            Some(noting) => {
                let notes: Vec<_> = changes.iter().map(|change| change.note(&parts)).collect();
                noting.write_noted(table, &operations, &notes, acknowledgement, timeline)
            }
        };
        drop(operations);
        let unfinished = Unfinished::of(&parts, &changes);
        match answer {
            Answer::Now(result) => Commit::Done(unfinished.finish(&documents, result)),
            Answer::Later(pending) => Commit::Later(pending, unfinished),
        }
    }

    /// Writes what there is so far, and goes on. For transactions larger than a batch can be: what
    /// is written now stays, whatever happens later.
    ///
    /// # Errors
    /// As for [`Commit`].
    pub fn commit_so_far(&mut self, timeline: &mut Timeline) -> Result<Committed> {
        let begun = Transaction { begun_at: self.begun_at, ..self.documents.begin() };
        let full = std::mem::replace(self, begun);
        let commit = full.commit(Acknowledgement::Os, timeline);
        let committed = commit.wait(&self.documents)?;
        // What was written just now is our own.
        self.begun_at = self.begun_at.map(|begun_at| begun_at.max(committed.last));
        Ok(committed)
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

    /// What the store keeps beside a document: how long it is as JSON.
    fn note(&self, parts: &[Part]) -> Note {
        match (self.what, &self.value) {
            (What::Document(part), Some(stored)) => json_length_note(&parts[part].shape, stored),
            _ => Note::default(),
        }
    }

    /// How many documents more there are after it.
    fn more_documents(&self) -> i64 {
        let was_there = matches!(self.condition, Condition::Sequence(_));
        i64::from(self.value.is_some()) - i64::from(was_there)
    }
}

/// How a commit ended, or that it will.
pub enum Commit {
    /// It is written, or was refused.
    Done(Result<Committed>),
    /// It is written, and not on the medium yet: [`Unfinished::finish`] takes what arrives.
    Later(Pending<Written>, Unfinished),
}

impl Commit {
    /// Waits for the end. For threads that may block.
    ///
    /// # Errors
    /// 1200 if somebody else was faster; what the store says.
    pub fn wait(self, documents: &Documents) -> Result<Committed> {
        match self {
            Commit::Done(result) => result,
            Commit::Later(pending, unfinished) => {
                let result = Answer::Later(pending).wait();
                unfinished.finish(documents, result)
            }
        }
    }

    /// Whether it was refused because somebody else was faster.
    #[must_use]
    pub fn conflict(&self) -> bool {
        matches!(self, Commit::Done(Err(error)) if error.number == ErrorNumber::CONFLICT)
    }
}

/// What remains to be noted once a batch is written.
#[derive(Debug)]
pub struct Unfinished {
    more: Vec<(Arc<Collection>, i64)>,
    changes: usize,
}

impl Unfinished {
    fn of(parts: &[Part], changes: &[Change]) -> Unfinished {
        let mut more: Vec<_> = parts.iter().map(|part| (Arc::clone(&part.collection), 0)).collect();
        for change in changes {
            if let What::Document(part) = change.what {
                more[part].1 += change.more_documents();
            }
        }
        Unfinished { more, changes: changes.len() }
    }

    /// Takes the store's answer.
    ///
    /// # Errors
    /// 1200 if somebody else was faster; what the store says.
    pub fn finish(self, documents: &Documents, result: StoreResult<Written>) -> Result<Committed> {
        let last = match result {
            Ok(written) => written.sequence,
            Err(StoreError::Unacceptable(what)) => {
                return Err(DocumentError::new(ErrorNumber::RESOURCE_LIMIT, what));
            }
            Err(error) => return Err(error.into()),
        };
        for (collection, more) in self.more {
            collection.note_written(more, last);
        }
        documents.last_sequence.fetch_max(last, Ordering::AcqRel);
        Ok(Committed { first: last + 1 - self.changes as u64, last })
    }
}

/// What was written: the changes have consecutive sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    first: u64,
    last: u64,
}

impl Committed {
    /// The sequence number of a change, by its place in the transaction.
    #[must_use]
    pub fn sequence(&self, change: usize) -> u64 {
        self.first + change as u64
    }

    /// The sequence number of the last change.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.last
    }
}

/// The text that stands for the revision of a change until it is written. Nobody outside can know
/// it: its middle is chosen anew by each process.
pub(crate) fn provisional_revision(change: usize) -> [u8; REVISION_LENGTH] {
    let mut text = *secret();
    for (place, byte) in text[PROVISIONAL_PREFIX..].iter_mut().rev().enumerate() {
        *byte = b'0' + (change >> (6 * place) & 63) as u8;
    }
    text
}

/// Bytes of a provisional revision that are the same for all of the process.
const PROVISIONAL_PREFIX: usize = 7;

fn secret() -> &'static [u8; REVISION_LENGTH] {
    static SECRET: OnceLock<[u8; REVISION_LENGTH]> = OnceLock::new();
    SECRET.get_or_init(|| {
        let random = RandomState::new().hash_one(std::process::id());
        let mut text = *b"~~~~~~~~~~~";
        for (place, byte) in text[1..PROVISIONAL_PREFIX].iter_mut().enumerate() {
            *byte = b'A' + (random >> (8 * place)) as u8 % 26;
        }
        text
    })
}

/// Puts the revisions in `text` that were written, where those stand that stood for them.
pub fn settle_revisions(text: &mut [u8], committed: &Committed) {
    let prefix = &secret()[..PROVISIONAL_PREFIX];
    let mut at = 0;
    while let Some(found) = text[at..].windows(PROVISIONAL_PREFIX).position(|part| part == prefix) {
        let begin = at + found;
        let Some(place) = text.get_mut(begin..begin + REVISION_LENGTH) else { return };
        let digits = place[PROVISIONAL_PREFIX..].iter();
        let change =
            digits.fold(0, |change, byte| change << 6 | usize::from(byte.wrapping_sub(b'0')));
        place.copy_from_slice(&revision_of(committed.sequence(change)));
        at = begin + REVISION_LENGTH;
    }
}
