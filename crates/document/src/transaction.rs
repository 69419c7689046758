//! Transactions: documents that are inserted, replaced, updated and removed together.
//!
//! A transaction collects changes, and its reads see them before what is in the store. If another
//! writer changed one of the documents meanwhile, the store refuses the commit. The caller then
//! runs the transaction again, or reports the conflict.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_aql::{OverwriteMode as Overwrite, is_document_key};
use pellucid_store::{Acknowledgement, Condition, KEY_LENGTH_MAX, Snapshot};
use pellucid_value::{MergeOptions, ObjectRef, Ref};

use crate::changes::{Change, ChangeKind, Changes, DocumentState};
use crate::collection::{Collection, CollectionSchema};
use crate::commit::{Commit, CommitSequences};
use crate::documents::Documents;
use crate::error::{DocumentError, ErrorNumber, Result, StoredRevision};
use crate::index::{Entry, Index};
use crate::revision::{REVISION_LENGTH, revision_of, revision_text, sequence_of};
use crate::stored_document::{EdgeEndpoints, assemble, merge, object_of, reveal};

/// Options of a write.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions<'a> {
    /// Options of the merge of an update.
    pub merge: MergeOptions,
    /// The effect of an insertion if a document of that key exists.
    pub overwrite: Overwrite,
    /// The revision that the stored document must have; any if `None`.
    pub expected: Option<&'a [u8]>,
    /// True if the outcome has to contain the previous document.
    pub wants_old: bool,
}

/// The effect of a body on the stored document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// It replaces the document.
    Replace,
    /// It is merged into the document.
    Update,
}

/// The source of a document's revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The sequence number of a document that is in the store.
    Written(u64),
    /// The index of a change of this transaction, which gets its sequence number at the commit.
    Change(usize),
}

impl Version {
    /// The revision, once the transaction is committed.
    #[must_use]
    pub fn revision(self, committed: &CommitSequences) -> String {
        revision_text(self.sequence(committed))
    }

    fn sequence(self, committed: &CommitSequences) -> u64 {
        match self {
            Version::Written(sequence) => sequence,
            Version::Change(change) => committed.sequence(change),
        }
    }

    /// The document of this version with its revision filled in, once the transaction is committed.
    ///
    /// # Errors
    /// 4 if the stored bytes are damaged.
    pub fn reveal(
        self,
        shape: &CollectionSchema,
        stored: &[u8],
        committed: &CommitSequences,
    ) -> Result<Vec<u8>> {
        reveal(shape, stored, self.sequence(committed))
    }

    /// The revision, provisional until the transaction with these changes is committed.
    pub(crate) fn provisional(self, changes: &Changes) -> [u8; REVISION_LENGTH] {
        match self {
            Version::Written(sequence) => revision_of(sequence),
            Version::Change(change) => changes.provisional().of(change),
        }
    }
}

/// The state of a document before a write.
#[derive(Clone, Debug)]
pub struct PreviousDocument {
    /// Its version.
    pub version: Version,
    /// Its stored form, if it was read and asked for.
    pub stored: Option<Vec<u8>>,
}

impl PreviousDocument {
    /// Drops the stored form unless the options ask for it.
    fn wanted(self, options: &WriteOptions<'_>) -> PreviousDocument {
        PreviousDocument { stored: self.stored.filter(|_| options.wants_old), ..self }
    }
}

/// The result of writing one document.
#[derive(Clone, Debug)]
pub struct DocumentOutcome {
    /// Its key.
    pub key: String,
    /// Its version after the write; for a removal, the version that was removed.
    pub version: Version,
    /// The document before the write, unless it is new.
    pub previous: Option<PreviousDocument>,
    /// True if a document of that key existed and was left unchanged.
    pub was_ignored: bool,
}

/// A set of changes to documents that is written as a whole or not at all.
pub struct Transaction {
    documents: Arc<Documents>,
    changes: Changes,
}

impl Transaction {
    /// Begins a transaction without a snapshot: its reads see the newest documents, and the caller
    /// runs it again if it conflicts with another one.
    #[must_use]
    pub fn begin(documents: &Arc<Documents>) -> Transaction {
        let changes = Changes::new(documents.storage(), None);
        Transaction { documents: Arc::clone(documents), changes }
    }

    /// Begins the transaction of a query that reads `snapshot`. To write a document that another
    /// writer changed or removed after that is a conflict, because the query may have read it
    /// before.
    #[must_use]
    pub fn begin_at(documents: &Arc<Documents>, snapshot: Arc<dyn Snapshot>) -> Transaction {
        let changes = Changes::new(documents.storage(), Some(snapshot));
        Transaction { documents: Arc::clone(documents), changes }
    }

    /// True if it is so large that documents that need not be written together go to another one.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.changes.is_full()
    }

    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    pub(crate) fn changes_mut(&mut self) -> &mut Changes {
        &mut self.changes
    }

    /// The bytes of all values that it writes: of documents and of index entries.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.changes.value_bytes()
    }

    /// Makes the commit fail with 28 if it would have to wait for a definition that changes.
    pub fn never_wait(&mut self) {
        self.changes.never_wait();
    }

    /// Writes all changes, or none. With [`Acknowledgement::Disk`] the returned commit may still be
    /// under way.
    pub fn commit(self, acknowledgement: Acknowledgement, timeline: &mut Timeline) -> Commit {
        self.changes.commit(acknowledgement, timeline)
    }

    /// Inserts a document, under its `_key` or under a new key if it has none.
    ///
    /// # Errors
    /// 1221 or 1222 for the key, 1233 for the ends of an edge, 1216 or 1524 for a document that is
    /// too large or nested too deep. 1210 if a document of that key exists, or another document has
    /// the same values in a unique index. 1200 if [`WriteOptions::expected`] does not match, or if
    /// another writer changed or removed the document to overwrite after the snapshot. Errors of
    /// the store.
    pub fn insert(
        &mut self,
        collection: &Arc<Collection>,
        body: ObjectRef<'_>,
        options: &WriteOptions<'_>,
        timeline: &mut Timeline,
    ) -> Result<DocumentOutcome> {
        let part = self.changes.part(collection);
        let shape = self.changes.shape(part);
        let given = given_key(&shape, body)?;
        let (key, is_new) = match given {
            Some(key) => {
                if key.bytes().all(|byte| byte.is_ascii_digit()) {
                    collection.expect_number_keys();
                }
                (key.to_owned(), false)
            }
            None => (self.new_key(collection, &shape, timeline)?, true),
        };
        let store_key = shape.document_key(key.as_bytes());
        let is_assumed = !is_new && self.changes.is_assumed_absent(&store_key);
        let overwrites = options.overwrite != Overwrite::Conflict;
        if !is_new && !is_assumed {
            if let Some(before) = self.before(&store_key, overwrites, timeline)? {
                return self.overwrite(part, &key, body, before, options, timeline);
            }
            if overwrites {
                self.changes.check_not_removed(&store_key, timeline)?;
            }
        }
        let change = match self.put_new(part, &key, store_key, body, options, timeline) {
            // The error may be one that only a new document has.
            Err(error) if is_assumed => {
                let store_key = shape.document_key(key.as_bytes());
                let Some(before) = self.before(&store_key, overwrites, timeline)? else {
                    return Err(error);
                };
                return self.overwrite(part, &key, body, before, options, timeline);
            }
            put => put?,
        };
        if is_new {
            self.changes.note_made_key(change);
        }
        let version = Version::Change(change);
        Ok(DocumentOutcome { key, version, previous: None, was_ignored: false })
    }

    fn put_new(
        &mut self,
        part: usize,
        key: &str,
        store_key: Vec<u8>,
        body: ObjectRef<'_>,
        options: &WriteOptions<'_>,
        timeline: &mut Timeline,
    ) -> Result<usize> {
        let shape = self.changes.shape(part);
        let ends = ends_of(&shape, body, None)?;
        let keep_null = options.merge.keep_null || options.overwrite != Overwrite::Update;
        let stored = assemble(&shape, key, body, ends, keep_null)?;
        self.put(part, key, store_key, Some(stored), None, timeline)
    }

    /// Makes a key from the next number that is not a key already.
    fn new_key(
        &mut self,
        collection: &Collection,
        shape: &CollectionSchema,
        timeline: &mut Timeline,
    ) -> Result<String> {
        let mut step = 1_u64;
        loop {
            let number = self.documents.next_tick()?;
            let key = number.to_string();
            let store_key = shape.document_key(key.as_bytes());
            if self.changes.is_free_number(collection, &store_key, timeline)? {
                collection.note_number(number);
                return Ok(key);
            }
            // There may be a long run of them, as after an import.
            self.documents.skip_ticks(number.saturating_add(step));
            step = step.saturating_mul(2);
        }
    }

    fn overwrite(
        &mut self,
        part: usize,
        key: &str,
        body: ObjectRef<'_>,
        before: PreviousDocument,
        options: &WriteOptions<'_>,
        timeline: &mut Timeline,
    ) -> Result<DocumentOutcome> {
        let rewrite = match options.overwrite {
            Overwrite::Replace => Rewrite::Replace,
            Overwrite::Update => Rewrite::Update,
            Overwrite::Conflict => {
                let message = format!(
                    "unique constraint violated - in index primary of type primary over '_key'; \
                     conflicting key: {key}"
                );
                return Err(DocumentError::new(ErrorNumber::UNIQUE_CONSTRAINT, message));
            }
            Overwrite::Ignore => {
                let version = before.version;
                let previous = Some(before.wanted(options));
                return Ok(DocumentOutcome {
                    key: key.to_owned(),
                    version,
                    previous,
                    was_ignored: true,
                });
            }
        };
        self.check_expected(key, before.version, options.expected)?;
        self.put_rewritten(part, key, body, before, rewrite, options, timeline)
    }

    /// Replaces the document of this key by `body`, or merges `body` into it.
    ///
    /// # Errors
    /// 1202 if there is none, 1200 if it has another revision, and those of
    /// [`Transaction::insert`].
    pub fn rewrite(
        &mut self,
        collection: &Arc<Collection>,
        key: &str,
        body: ObjectRef<'_>,
        rewrite: Rewrite,
        options: &WriteOptions<'_>,
        timeline: &mut Timeline,
    ) -> Result<DocumentOutcome> {
        let part = self.changes.part(collection);
        let shape = self.changes.shape(part);
        let store_key = shape.document_key(key.as_bytes());
        let needs_value =
            rewrite == Rewrite::Update || options.wants_old || !shape.indexes.is_empty();
        let before = self.there(key, &store_key, needs_value, options.expected, timeline)?;
        self.put_rewritten(part, key, body, before, rewrite, options, timeline)
    }

    #[allow(clippy::too_many_arguments, reason = "the new body, the old document and the options")]
    fn put_rewritten(
        &mut self,
        part: usize,
        key: &str,
        body: ObjectRef<'_>,
        before: PreviousDocument,
        rewrite: Rewrite,
        options: &WriteOptions<'_>,
        timeline: &mut Timeline,
    ) -> Result<DocumentOutcome> {
        let shape = self.changes.shape(part);
        let stored = match rewrite {
            Rewrite::Replace => assemble(&shape, key, body, ends_of(&shape, body, None)?, true)?,
            Rewrite::Update => {
                let old = object_of(before.stored.as_deref().unwrap_or_default())?;
                let ends = ends_of(&shape, body, Some(old))?;
                merge(&shape, key, old, body, ends, options.merge)?
            }
        };
        let store_key = shape.document_key(key.as_bytes());
        let change = self.put(part, key, store_key, Some(stored), Some(&before), timeline)?;
        let previous = Some(before.wanted(options));
        let (key, version) = (key.to_owned(), Version::Change(change));
        Ok(DocumentOutcome { key, version, previous, was_ignored: false })
    }

    /// Removes the document of this key.
    ///
    /// # Errors
    /// 1202 if there is none, 1200 if it has another revision, and errors of the store.
    pub fn remove(
        &mut self,
        collection: &Arc<Collection>,
        key: &str,
        options: &WriteOptions<'_>,
        timeline: &mut Timeline,
    ) -> Result<DocumentOutcome> {
        let part = self.changes.part(collection);
        let shape = self.changes.shape(part);
        let store_key = shape.document_key(key.as_bytes());
        let needs_value = options.wants_old || !shape.indexes.is_empty();
        let before = self.there(key, &store_key, needs_value, options.expected, timeline)?;
        self.put(part, key, store_key, None, Some(&before), timeline)?;
        let version = before.version;
        let previous = Some(before.wanted(options));
        Ok(DocumentOutcome { key: key.to_owned(), version, previous, was_ignored: false })
    }

    /// Reads the document of this key, which must exist and have the expected revision. The
    /// revision is checked with the head alone first, so that a mismatch costs no read of the body.
    fn there(
        &self,
        key: &str,
        store_key: &[u8],
        needs_value: bool,
        expected: Option<&[u8]>,
        timeline: &mut Timeline,
    ) -> Result<PreviousDocument> {
        if store_key.len() > KEY_LENGTH_MAX {
            return Err(ErrorNumber::DOCUMENT_NOT_FOUND.into());
        }
        let mut look = |needs_value| {
            let Some(before) = self.before(store_key, needs_value, timeline)? else {
                self.changes.check_not_removed(store_key, timeline)?;
                return Err(ErrorNumber::DOCUMENT_NOT_FOUND.into());
            };
            self.check_expected(key, before.version, expected)?;
            Ok(before)
        };
        if needs_value && expected.is_some() {
            look(false)?;
        }
        look(needs_value)
    }

    /// Checks that a document has the expected revision.
    fn check_expected(&self, key: &str, version: Version, expected: Option<&[u8]>) -> Result<()> {
        let Some(expected) = expected else { return Ok(()) };
        match version {
            Version::Written(sequence) if sequence_of(expected) == Some(sequence) => Ok(()),
            // A query may give the revision that it was shown.
            Version::Change(_) if expected == version.provisional(&self.changes) => Ok(()),
            _ => {
                let revision = version.provisional(&self.changes);
                let revision = String::from_utf8_lossy(&revision).into_owned();
                let stored = StoredRevision { key: key.to_owned(), revision };
                Err(DocumentError::revision_differs(stored))
            }
        }
    }

    fn before(
        &self,
        store_key: &[u8],
        needs_value: bool,
        timeline: &mut Timeline,
    ) -> Result<Option<PreviousDocument>> {
        Ok(match self.changes.find(store_key, needs_value, timeline)? {
            DocumentState::Absent => None,
            DocumentState::Stored { sequence, value } => {
                let stored = value.map(|value| value.read(<[u8]>::to_vec)).transpose()?;
                Some(PreviousDocument { version: Version::Written(sequence), stored })
            }
            DocumentState::Changed { change } => {
                let stored = self.changes.value(change).map(<[u8]>::to_vec);
                Some(PreviousDocument { version: Version::Change(change), stored })
            }
        })
    }

    /// Adds the change that writes a document, or removes it if `stored` is `None`, and those that
    /// replace its old index entries by the new ones. Returns the index of the document's change.
    fn put(
        &mut self,
        part: usize,
        key: &str,
        store_key: Vec<u8>,
        stored: Option<Vec<u8>>,
        before: Option<&PreviousDocument>,
        timeline: &mut Timeline,
    ) -> Result<usize> {
        let length = stored.as_ref().map_or(0, Vec::len);
        if length > self.documents.document_bytes_max() {
            return Err(ErrorNumber::DOCUMENT_TOO_LARGE.into());
        }
        if stored.as_deref().is_some_and(|stored| self.changes.have_revisions_in(stored)) {
            let message = "a query cannot store the `_rev` of a document that it writes, because \
                           that is known only when the query ends: store its `_key`, or remove \
                           `_rev` by UNSET";
            return Err(DocumentError::new(ErrorNumber::NOT_IMPLEMENTED, message));
        }
        let shape = self.changes.shape(part);
        let mut entries = Vec::new();
        if !shape.indexes.is_empty() {
            let old = before.and_then(|before| before.stored.as_deref());
            let (new, old) = (stored.as_deref().map(object_of), old.map(object_of));
            let (new, old) = (new.transpose()?, old.transpose()?);
            self.entry_changes(&shape, key, new, old, &mut entries, timeline)?;
        }
        let condition = match before {
            Some(before) => condition_of(before.version),
            None => Condition::Absent,
        };
        let kind = ChangeKind::Document(part);
        let change = Change { key: store_key, value: stored, condition, kind };
        let place = self.changes.apply(change);
        entries.into_iter().for_each(|entry| {
            self.changes.apply(entry);
        });
        Ok(place)
    }

    fn entry_changes(
        &self,
        shape: &CollectionSchema,
        key: &str,
        new: Option<ObjectRef<'_>>,
        old: Option<ObjectRef<'_>>,
        changes: &mut Vec<Change>,
        timeline: &mut Timeline,
    ) -> Result<()> {
        for index in &shape.indexes {
            let entries_of = |document: Option<ObjectRef<'_>>| {
                document.map_or(Ok(Vec::new()), |document| index.entries_of(document, key))
            };
            let (added, removed) = (entries_of(new)?, entries_of(old)?);
            let is_in = |entries: &[Entry], entry: &Entry| {
                entries.binary_search_by(|other| other.key.cmp(&entry.key)).is_ok()
            };
            for entry in removed.iter().filter(|entry| !is_in(&added, entry)) {
                changes.extend(self.changes.removal(index, entry, timeline)?);
            }
            for entry in added.into_iter().filter(|entry| !is_in(&removed, entry)) {
                if index.definition.unique {
                    self.changes.check_unique(index, &entry, timeline)?;
                }
                changes.push(come(index, entry));
            }
        }
        Ok(())
    }

    /// The stored form that a change writes; `None` for a removal, and for a version that is in the
    /// store already.
    #[must_use]
    pub fn stored(&self, version: Version) -> Option<&[u8]> {
        match version {
            Version::Written(_) => None,
            Version::Change(change) => self.changes.value(change),
        }
    }
}

/// A new entry.
fn come(index: &Index, Entry { key, value }: Entry) -> Change {
    let condition = if index.definition.unique { Condition::Absent } else { Condition::None };
    Change { key, value: Some(value), condition, kind: ChangeKind::of(index) }
}

fn condition_of(version: Version) -> Condition {
    match version {
        Version::Written(sequence) => Condition::Sequence(sequence),
        // `Changes::apply` keeps the condition of the first change to a key.
        Version::Change(_) => Condition::None,
    }
}

fn ends_of<'a>(
    shape: &CollectionSchema,
    body: ObjectRef<'a>,
    old: Option<ObjectRef<'a>>,
) -> Result<Option<EdgeEndpoints<'a>>> {
    if shape.is_edges() { EdgeEndpoints::of(body, old).map(Some) } else { Ok(None) }
}

/// The `_key` of a new document, if it has one.
fn given_key<'a>(shape: &CollectionSchema, body: ObjectRef<'a>) -> Result<Option<&'a str>> {
    match body.get("_key") {
        None => Ok(None),
        Some(Ref::String(key)) if is_document_key(key.as_bytes()) => {
            if shape.definition.allow_user_keys {
                Ok(Some(key))
            } else {
                Err(ErrorNumber::DOCUMENT_KEY_UNEXPECTED.into())
            }
        }
        Some(_) => Err(ErrorNumber::DOCUMENT_KEY_BAD.into()),
    }
}
