//! The source of a query's data.
//!
//! A source stands for one query and one moment: all reads see the same state, whatever others
//! write meanwhile. Its writes are collected in one batch and become visible together or not at
//! all, once the query is through.

use std::ops::{Bound, ControlFlow};

use pellucid_value::{Ref, Value, index_key};

use crate::{QueryError, Result, number};

/// Characters of a name that an error shows.
const NAME_SHOWN_MAX: usize = 64;

/// The version of ArangoDB whose language this is.
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
    /// Its name now.
    pub name: String,
    /// True if its documents are edges.
    pub is_edge: bool,
}

/// The kind of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Over `_key`.
    Primary,
    /// Over `_from` or over `_to`.
    Edge,
    /// Sorted, over fields of the user's choice.
    Persistent,
    /// Sorted, over the field by which documents expire.
    Ttl,
}

/// A field of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexField {
    /// The names on the way to it.
    pub path: Vec<String>,
    /// True if the elements of the array there are indexed, one by one (`[*]`).
    pub expands: bool,
}

/// An index of a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// Its number.
    pub id: IndexId,
    /// Its name.
    pub name: String,
    /// The way in which it is kept.
    pub kind: IndexKind,
    /// The fields by which it is sorted, the most significant first.
    pub fields: Vec<IndexField>,
    /// True if no two documents have the same values.
    pub unique: bool,
    /// True if documents stay out of it that lack a field or have null there.
    pub sparse: bool,
    /// The share of different values among all, above 0 and up to 1.
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

/// Bytes that the fields of most keys take.
const KEY_BYTES_USUAL: usize = 64;

impl IndexRange {
    /// The whole index.
    #[must_use]
    pub fn all() -> Self {
        Self { equal: Vec::new(), low: Bound::Unbounded, high: Bound::Unbounded }
    }

    /// The range in bytes of fields that were encoded one after another by [`index_key::encode`]:
    /// from the first on, which belongs to it, to the second, which does not. Anything may follow
    /// the fields in a key.
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

/// A look at an index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexRequest {
    /// The index.
    pub index: IndexId,
    /// The entries.
    pub range: IndexRange,
    /// From the last entry to the first.
    pub reverse: bool,
}

/// Takes documents out of a [`Scan`].
pub trait Visitor {
    /// Asked of each document as it lies in the store, before it is made whole: its `_id` and
    /// `_rev` are not to be looked at. What is not wanted is passed over, and not visited.
    fn wants(&mut self, document: Ref<'_>) -> ControlFlow<(), bool>;

    /// Takes a packed document, with the system attributes in it.
    fn visit(&mut self, document: &[u8]) -> ControlFlow<()>;
}

/// Documents, one after another. It keeps its place between calls, and what it needs of its source.
pub trait Scan: Send {
    /// Hands documents to `visitor` until that says to stop, some were looked at, or there are no
    /// more. Returns whether there may be more.
    ///
    /// # Errors
    /// Errors of the store.
    fn advance(&mut self, visitor: &mut dyn Visitor) -> Result<bool>;
}

/// Entries of an index, without their documents.
pub trait FieldScan: Send {
    /// Hands the values of all fields of each entry to `visit`, as [`Scan::advance`] does. An entry
    /// whose values are not exact (`index_key::Decoded::is_exact`) comes with those of its
    /// document.
    ///
    /// # Errors
    /// Errors of the store.
    fn advance(&mut self, visit: &mut dyn FnMut(&[Value]) -> ControlFlow<()>) -> Result<bool>;
}

/// The data of a query, at one moment.
pub trait Source: Send + Sync {
    /// The collection of that name, or of that number in decimal digits.
    fn collection(&self, name: &str) -> Option<Collection>;

    /// True if the caller may read the collection of that name. A plan that is kept for other
    /// callers has the names of its collections, to be judged for each of them.
    fn may_read(&self, _collection: &str) -> bool {
        true
    }

    /// A number that is another one as soon as anything of a collection is different that a plan
    /// depends on: which one it is, and its indexes. Nothing if plans are not to be kept.
    fn version(&self, _name: &str) -> Option<u64> {
        None
    }

    /// The result of `VERSION()`: the version of ArangoDB that is spoken.
    fn reported_version(&self) -> &str {
        REPORTED_VERSION
    }

    /// The number of documents that a collection has.
    ///
    /// # Errors
    /// Errors of the store.
    fn count(&self, collection: CollectionId) -> Result<u64>;

    /// All documents of a collection, in the order of their keys.
    ///
    /// # Errors
    /// Errors of the store.
    fn scan(&self, collection: CollectionId) -> Result<Box<dyn Scan>>;

    /// The indexes of a collection, the primary one too.
    fn indexes(&self, collection: CollectionId) -> Vec<Index>;

    /// The documents that an index has within a range, in its order.
    ///
    /// # Errors
    /// Errors of the store.
    fn index_scan(&self, collection: CollectionId, request: &IndexRequest)
    -> Result<Box<dyn Scan>>;

    /// Hands the documents of [`index_scan`](Self::index_scan) to `visitor` until that says to
    /// stop: a source that need not keep its place may find them with less ado.
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

    /// As [`index_scan`](Self::index_scan), without reading documents; nothing if the index cannot
    /// do that.
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

    /// The query does nothing from here on until it says so again with false: another one can have
    /// its thread's place meanwhile.
    fn rest(&self, _begins: bool) {}

    /// Begins the batch of a query that writes; there is one at most.
    ///
    /// # Errors
    /// Errors of the store.
    fn begin_writes(&self) -> Result<Box<dyn WriteBatch>>;
}

/// Hands all documents of a scan to `visitor` until that says to stop.
///
/// # Errors
/// As [`Scan::advance`].
pub fn visit_all(scan: &mut dyn Scan, visitor: &mut dyn Visitor) -> Result<()> {
    let mut visitor = Watched { visitor, is_over: false };
    while scan.advance(&mut visitor)? && !visitor.is_over {}
    Ok(())
}

/// A visitor that is seen to say that it wants no more.
struct Watched<'a> {
    visitor: &'a mut dyn Visitor,
    is_over: bool,
}

impl Visitor for Watched<'_> {
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

/// The writes of a query. Dropped without a commit, they never were.
pub trait WriteBatch: Send {
    /// Adds a write to the batch, and says what it will have done. It sees the state of the source
    /// with the writes of the batch so far.
    ///
    /// # Errors
    /// As [`number`](crate::number) has them: 1202, 1210, 1221, 1227 and 1200 mean that this write
    /// was not added, and the batch is as before.
    fn add(&mut self, write: &Write<'_>) -> Result<Written>;

    /// Writes all of it together.
    ///
    /// # Errors
    /// If another writer came first to one of the documents (1200), or the store failed. Then
    /// nothing was written.
    fn commit(self: Box<Self>) -> Result<()>;
}

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// Adds a document.
    Insert,
    /// Merges attributes into one.
    Update,
    /// Puts other attributes in the place of all of its own.
    Replace,
    /// Removes one.
    Remove,
}

impl WriteKind {
    /// The node of a plan that does it.
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

/// The action of an insert or an import where a document of that key is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverwriteMode {
    /// It fails with error 1210, a unique constraint that is violated.
    #[default]
    Conflict,
    /// It does nothing.
    Ignore,
    /// It replaces that one.
    Replace,
    /// It updates that one.
    Update,
}

/// The options of a write.
#[derive(Clone, Debug, PartialEq)]
pub struct WriteOptions {
    /// Attributes that are updated to null stay; otherwise they go.
    pub keep_null: bool,
    /// Objects within a document are merged by an update.
    pub merge_objects: bool,
    /// Wait for the medium.
    pub wait_for_sync: bool,
    /// A write that fails on its document is counted as ignored, and the query goes on.
    pub ignore_errors: bool,
    /// The revision in the document that is given does not matter.
    pub ignore_revisions: bool,
    /// For inserts.
    pub overwrite_mode: OverwriteMode,
    /// An update or replacement happens only if this attribute gets greater.
    pub version_attribute: Option<String>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            keep_null: true,
            merge_objects: true,
            wait_for_sync: false,
            ignore_errors: false,
            ignore_revisions: true,
            overwrite_mode: OverwriteMode::Conflict,
            version_attribute: None,
        }
    }
}

/// One write.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    /// The kind.
    pub kind: WriteKind,
    /// To which collection.
    pub collection: CollectionId,
    /// The key of the document that is there; none for inserts.
    pub key: Option<&'a str>,
    /// The revision that the document should have, where the options do not ignore it.
    pub revision: Option<&'a str>,
    /// The new document, or the attributes to merge; null for removals. What is in `_key` of a new
    /// document is its key; `_id` and `_rev` do not matter.
    pub document: &'a Value,
    /// The options.
    pub options: &'a WriteOptions,
}

/// The result of a write.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The document as it was, null if there was none.
    pub old: Value,
    /// The document as it will be, null if there will be none.
    pub new: Value,
    /// It did nothing, by its options.
    pub is_ignored: bool,
}

/// The collection of that name or number, if there is one. A forbidden collection and an absent one
/// of a forbidden name give the same error.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_what_they_should() {
        let range = IndexRange {
            equal: vec![Value::from("a")],
            low: Bound::Excluded(Value::Int(1)),
            high: Bound::Included(Value::Int(3)),
        };
        let (low, high) = range.key_bounds();
        for (fields, is_within) in
            [(["a", "1"], false), (["a", "2"], true), (["a", "3"], true), (["a", "4"], false)]
        {
            let mut key = Vec::new();
            index_key::encode(Value::from(fields[0]).view(), &mut key);
            index_key::encode(Value::Int(fields[1].parse().unwrap()).view(), &mut key);
            key.extend_from_slice(b"document key");
            assert_eq!(low <= key && key < high, is_within, "{fields:?}");
        }
    }
}
