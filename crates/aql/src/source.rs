//! The source of a query's data.
//!
//! A source belongs to one query and one snapshot: all reads see the same state, whatever other
//! writers do. The query's writes are collected in one batch, which is committed atomically at the
//! end of the query.

use std::ops::{Bound, ControlFlow};

use pellucid_value::{MergeOptions, Ref, Value, index_key};

use crate::{QueryError, Result, number};

/// The most characters of a name in an error.
const NAME_SHOWN_MAX: usize = 64;

/// The version of ArangoDB whose AQL this crate implements.
pub const REPORTED_VERSION: &str = "3.12.10";

/// The number of a collection.
pub type CollectionId = u64;
/// The number of an index within its collection; 0 is the primary one.
pub type IndexId = u64;

/// A collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Its number.
    pub id: CollectionId,
    /// Its current name.
    pub name: String,
}

/// The kind of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// The index on `_key`.
    Primary,
    /// An index on `_from` or on `_to`.
    Edge,
    /// A sorted index on fields that the user chooses.
    Persistent,
}

/// A field of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexField {
    /// The attribute names of its path.
    pub path: Vec<String>,
    /// True if each element of the array at that path is indexed (`[*]`).
    pub expands: bool,
}

/// An index of a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// Its number.
    pub id: IndexId,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: IndexKind,
    /// The fields by which it is sorted, the most significant first.
    pub fields: Vec<IndexField>,
    /// True if no two documents have the same values.
    pub unique: bool,
    /// True if documents in which a field is missing or null have no entry.
    pub sparse: bool,
    /// The number of distinct values divided by the number of entries, above 0 and up to 1.
    pub selectivity: f64,
}

impl Index {
    /// The primary index, which each collection has.
    #[must_use]
    pub fn primary() -> Self {
        Self {
            id: 0,
            name: "primary".to_owned(),
            kind: IndexKind::Primary,
            fields: vec![IndexField { path: vec!["_key".to_owned()], expands: false }],
            unique: true,
            sparse: false,
            selectivity: 1.0,
        }
    }
}

/// A range of the entries of an index: those whose first fields equal `equal`, and whose next field
/// is within the bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexRange {
    /// Values of the first fields.
    pub equal: Vec<Value>,
    /// The lower bound of the next field.
    pub low: Bound<Value>,
    /// The upper bound of the next field.
    pub high: Bound<Value>,
}

/// The bytes for the fields of a key that are reserved first.
const KEY_BYTES_USUAL: usize = 64;

impl IndexRange {
    /// The whole index.
    #[must_use]
    pub fn all() -> Self {
        Self { equal: Vec::new(), low: Bound::Unbounded, high: Bound::Unbounded }
    }

    /// The range as bytes of fields that [`index_key::encode`] encodes one after another: the first
    /// bound is included, the second is excluded. Keys may have further bytes behind the fields.
    #[must_use]
    pub fn key_bounds(&self) -> (Vec<u8>, Vec<u8>) {
        let mut prefix = Vec::with_capacity(KEY_BYTES_USUAL);
        self.equal.iter().for_each(|value| index_key::encode(value.view(), &mut prefix));
        let bound = |value: &Value, after: bool| {
            let mut key = prefix.clone();
            index_key::encode(value.view(), &mut key);
            if after {
                key.push(index_key::ABOVE_ALL);
            }
            key
        };
        let low = match &self.low {
            Bound::Included(value) => bound(value, false),
            Bound::Excluded(value) => bound(value, true),
            Bound::Unbounded => prefix.clone(),
        };
        let high = match &self.high {
            Bound::Included(value) => bound(value, true),
            Bound::Excluded(value) => bound(value, false),
            Bound::Unbounded => {
                prefix.push(index_key::ABOVE_ALL);
                prefix
            }
        };
        (low, high)
    }
}

/// A request for entries of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexRequest {
    /// The number of the index.
    pub index: IndexId,
    /// The range of entries.
    pub range: IndexRange,
    /// True to read from the last entry to the first.
    pub reverse: bool,
    /// The number of leading fields in whose order the documents must come, with those that the
    /// range names; 0 if any order will do.
    pub ordered_fields: usize,
}

/// A visitor of the documents of a [`Scan`].
pub trait Visitor {
    /// Called with each document in its stored form, whose `_id` and `_rev` may not be valid yet.
    /// Returns true if [`Visitor::visit`] has to be called with the document. `Break` stops the
    /// scan.
    fn wants(&mut self, document: Ref<'_>) -> ControlFlow<(), bool>;

    /// Takes a wanted document in packed form, with its system attributes. `Break` stops the scan.
    fn visit(&mut self, document: &[u8]) -> ControlFlow<()>;
}

/// A scan over documents. It keeps its position between calls.
pub trait Scan: Send {
    /// Passes documents to `visitor` until that stops, a bounded number was read, or there are no
    /// more. Returns true if there may be more.
    ///
    /// # Errors
    /// Errors of the store.
    fn advance(&mut self, visitor: &mut dyn Visitor) -> Result<bool>;

    /// The bytes that it holds of entries that wait for their order. The query counts them.
    fn held_bytes(&self) -> usize {
        0
    }

    /// Releases what it can find again, for a query that may not go on for a long time.
    fn release(&mut self) {}
}

/// A scan over the entries of an index, without their documents.
pub trait FieldScan: Send {
    /// Passes the values of all fields of each entry to `visit`, as [`Scan::advance`] does. If the
    /// values in an entry are not exact (`index_key::Decoded::is_exact`), the values of its
    /// document are passed instead.
    ///
    /// # Errors
    /// Errors of the store.
    fn advance(&mut self, visit: &mut dyn FnMut(&[Value]) -> ControlFlow<()>) -> Result<bool>;

    /// The number of documents whose values it has passed.
    fn documents_read(&self) -> u64 {
        0
    }

    /// As [`Scan::held_bytes`].
    fn held_bytes(&self) -> usize {
        0
    }

    /// As [`Scan::release`].
    fn release(&mut self) {}
}

/// The data of a query, in one snapshot.
pub trait Source: Send + Sync {
    /// The collection of that name, or of that number in decimal digits.
    fn collection(&self, name: &str) -> Option<Collection>;

    /// True if the caller may read the collection of that name. For a plan that is reused by other
    /// callers, the rights to its collections ([`Plan::collections`](crate::Plan::collections))
    /// have to be checked for each caller.
    fn may_read(&self, _collection: &str) -> bool {
        true
    }

    /// A version number of a collection, which changes with everything that a plan depends on: the
    /// identity of the collection and its indexes. `None` if plans must not be reused.
    fn version(&self, _name: &str) -> Option<u64> {
        None
    }

    /// The result of `VERSION()`: the version of ArangoDB that is reported.
    fn reported_version(&self) -> &str {
        REPORTED_VERSION
    }

    /// The number of documents that a collection has, the same at each call.
    ///
    /// # Errors
    /// Errors of the store.
    fn count(&self, collection: CollectionId) -> Result<u64>;

    /// All documents of a collection, in the order of their keys.
    ///
    /// # Errors
    /// Errors of the store.
    fn scan(&self, collection: CollectionId) -> Result<Box<dyn Scan>>;

    /// The indexes of a collection, including the primary one.
    fn indexes(&self, collection: CollectionId) -> Vec<Index>;

    /// The documents in a range of an index.
    ///
    /// # Errors
    /// Errors of the store.
    fn index_scan(&self, collection: CollectionId, request: &IndexRequest)
    -> Result<Box<dyn Scan>>;

    /// Passes the documents of [`index_scan`](Self::index_scan) to `visitor` until that stops. A
    /// source can implement this faster than a scan that has to keep its position.
    ///
    /// # Errors
    /// Errors of the store.
    fn index_visit(
        &self,
        collection: CollectionId,
        request: &IndexRequest,
        visitor: &mut dyn Visitor,
    ) -> Result<()> {
        visit_all(&mut *self.index_scan(collection, request)?, visitor)
    }

    /// As [`index_scan`](Self::index_scan), without reading the documents; `None` if the index does
    /// not allow that.
    ///
    /// # Errors
    /// Errors of the store.
    fn index_fields(
        &self,
        _collection: CollectionId,
        _request: &IndexRequest,
    ) -> Result<Option<Box<dyn FieldScan>>> {
        Ok(None)
    }

    /// The document of that key.
    ///
    /// # Errors
    /// Errors of the store.
    fn document(&self, collection: CollectionId, key: &str) -> Result<Option<Value>>;

    /// Called with true when the query pauses and with false when it resumes. In between, another
    /// query can run in place of its thread.
    fn rest(&self, _begins: bool) {}

    /// Begins the batch of a query that writes. It is called at most once.
    ///
    /// # Errors
    /// Errors of the store.
    fn begin_writes(&self) -> Result<Box<dyn WriteBatch>>;
}

/// Passes all documents of a scan to `visitor` until that stops.
///
/// # Errors
/// Those of [`Scan::advance`].
pub fn visit_all(scan: &mut dyn Scan, visitor: &mut dyn Visitor) -> Result<()> {
    let mut visitor = StopTracker { visitor, is_over: false };
    while scan.advance(&mut visitor)? && !visitor.is_over {}
    Ok(())
}

/// A visitor that records whether another visitor has stopped.
struct StopTracker<'a> {
    visitor: &'a mut dyn Visitor,
    is_over: bool,
}

impl Visitor for StopTracker<'_> {
    fn wants(&mut self, document: Ref<'_>) -> ControlFlow<(), bool> {
        let wanted = self.visitor.wants(document);
        self.is_over = wanted.is_break();
        wanted
    }

    fn visit(&mut self, document: &[u8]) -> ControlFlow<()> {
        let goes_on = self.visitor.visit(document);
        self.is_over = goes_on.is_break();
        goes_on
    }
}

/// The batch of a query's writes. If it is dropped without a commit, nothing is written.
pub trait WriteBatch: Send {
    /// Adds a write to the batch, and returns its result. It sees the source's state with the
    /// earlier writes of the batch.
    ///
    /// # Errors
    /// Errors by their [`number`](crate::number). After 1200, 1202, 1210, 1221 and 1227, the batch
    /// is as before this write.
    fn add(&mut self, write: &Write<'_>) -> Result<WriteOutcome>;

    /// Writes the whole batch atomically.
    ///
    /// # Errors
    /// If another writer came first to one of the documents (1200), or the store failed. Then
    /// nothing was written.
    fn commit(self: Box<Self>) -> Result<()>;
}

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// Insert a document.
    Insert,
    /// Merge attributes into a document.
    Update,
    /// Replace all attributes of a document.
    Replace,
    /// Remove a document.
    Remove,
}

impl WriteKind {
    /// ArangoDB's name of the plan node for this kind.
    #[must_use]
    pub fn node_name(self) -> &'static str {
        match self {
            Self::Insert => "InsertNode",
            Self::Update => "UpdateNode",
            Self::Replace => "ReplaceNode",
            Self::Remove => "RemoveNode",
        }
    }
}

/// The action of an insert or an import if a document of that key exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverwriteMode {
    /// Fail with error 1210, a violated unique constraint.
    #[default]
    Conflict,
    /// Leave the existing document unchanged.
    Ignore,
    /// Replace the existing document.
    Replace,
    /// Update the existing document.
    Update,
}

impl OverwriteMode {
    /// The mode of this name in options and parameters.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "conflict" => Some(Self::Conflict),
            "ignore" => Some(Self::Ignore),
            "replace" => Some(Self::Replace),
            "update" => Some(Self::Update),
            _ => None,
        }
    }
}

/// The options of a write.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The merge of an update's attributes with those of the document.
    pub merge: MergeOptions,
    /// True if the commit waits until it is on the disk.
    pub wait_for_sync: bool,
    /// True if a write that fails because of its document is only counted as ignored.
    pub ignore_errors: bool,
    /// True if the `_rev` in the given document must be that of the existing one.
    pub checks_revisions: bool,
    /// The action of an insert if a document of that key exists.
    pub overwrite_mode: OverwriteMode,
}

/// One write.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    /// The kind.
    pub kind: WriteKind,
    /// The number of the collection.
    pub collection: CollectionId,
    /// The key of the existing document; `None` for inserts.
    pub key: Option<&'a str>,
    /// The expected revision of the document; `None` if any will do.
    pub revision: Option<&'a str>,
    /// The new document, or the attributes to merge; null for removals. `_key` is the key of a new
    /// document; `_id` and `_rev` are ignored.
    pub document: &'a Value,
    /// The options.
    pub options: &'a WriteOptions,
}

/// The result of a write.
#[derive(Clone, Debug, Default)]
pub struct WriteOutcome {
    /// The document before the write; null if there was none.
    pub old: Value,
    /// The document after the write; null if there is none.
    pub new: Value,
    /// True if the write did nothing, by its options.
    pub is_ignored: bool,
    /// The bytes that the batch holds for the write until it is committed: the new document, the
    /// entries of indexes.
    pub held_bytes: usize,
}

/// The collection of that name or number, if there is one.
///
/// # Errors
/// 11 if the caller may not read a collection of that name, whether or not it exists.
pub(crate) fn readable(source: &dyn Source, name: &str) -> Result<Option<Collection>> {
    let found = source.collection(name);
    if source.may_read(found.as_ref().map_or(name, |collection| &collection.name)) {
        return Ok(found);
    }
    Err(QueryError::new(number::FORBIDDEN, unreadable(name)))
}

/// The text of the error for a collection that the caller may not read.
#[must_use]
pub fn unreadable(name: &str) -> String {
    let shown: String = name.chars().take(NAME_SHOWN_MAX).collect();
    format!("insufficient rights to read collection '{shown}'")
}
