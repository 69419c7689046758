//! Scans of a query over documents in one snapshot, in the order of their keys or of an index.

use std::ops::ControlFlow;
use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_aql::{FieldScan, QueryError, Scan as AqlScan, Visitor};
use pellucid_store::{Object, Scan, Snapshot, Table};
use pellucid_value::{Ref, Value, index_key};

use crate::collection::CollectionSchema;
use crate::cut_entries::CutEntries;
use crate::error::{DocumentError, store_error};
use crate::index::Index;
use crate::index_range::KeyRange;
use crate::layout::{document_of_entry, whole_fields};
use crate::query_counters::QueryCounters;
use crate::revision::revision_of;
use crate::stored_document::{object_of, reveal_into};

/// The reads of a query in its snapshot. They are counted if there is a tally.
#[derive(Clone, Copy)]
pub(crate) struct SnapshotReader<'a> {
    pub(crate) snapshot: &'a dyn Snapshot,
    pub(crate) table: Table,
    pub(crate) tally: Option<&'a QueryCounters>,
}

impl SnapshotReader<'_> {
    /// The object under a key.
    pub(crate) fn get(self, key: &[u8]) -> Result<Option<Object>, QueryError> {
        let found = match self.tally {
            Some(tally) => tally.get(self.snapshot, self.table, key),
            None => self.snapshot.get(self.table, key, &mut Timeline::off()),
        };
        found.map_err(store_error)
    }

    /// The document of an index entry, by the document's key.
    fn document(self, shape: &CollectionSchema, key: &[u8]) -> Result<Object, QueryError> {
        let found = self.get(&shape.document_key(key))?;
        self.count_document();
        // The document and its entry are written in one batch, so a snapshot has both.
        found.ok_or_else(|| {
            QueryError::new(pellucid_aql::number::INTERNAL, "an entry of an index has no document")
        })
    }

    pub(crate) fn count_document(self) {
        if let Some(tally) = self.tally {
            tally.document_reads.add(1);
        }
    }

    fn count_entry(self) {
        if let Some(tally) = self.tally {
            tally.index_entries.add(1);
        }
    }
}

/// The most documents or entries that a scan reads before it returns to the query.
const DOCUMENTS_AT_ONCE: usize = 64;

/// Passes a document to the visitor: first its stored form to `wants`, then, if that returns true,
/// the document with its revision to `visit`.
fn show(
    shape: &CollectionSchema,
    object: &Object,
    bytes: &mut Vec<u8>,
    visitor: &mut dyn Visitor,
) -> Result<ControlFlow<()>, DocumentError> {
    let value = &object.value;
    // The zeros of an unreadable page may look like damage.
    let cause = |error: DocumentError| value.check_read().err().map_or(error, DocumentError::from);
    match visitor.wants(Ref::Object(object_of(value).map_err(cause)?)) {
        ControlFlow::Continue(true) => {
            let revision = revision_of(object.head.sequence);
            reveal_into(shape, value, &revision, bytes).map_err(cause)?;
            value.check_read()?;
            Ok(visitor.visit(bytes))
        }
        passed => {
            value.check_read()?;
            Ok(passed.map_continue(|_| ()))
        }
    }
}

/// A scan over documents in the order of their keys.
pub(crate) struct DocumentScan {
    pub(crate) shape: Arc<CollectionSchema>,
    pub(crate) scan: Box<dyn Scan>,
    pub(crate) tally: Option<Arc<QueryCounters>>,
    pub(crate) bytes: Vec<u8>,
}

impl AqlScan for DocumentScan {
    fn advance(&mut self, visitor: &mut dyn Visitor) -> Result<bool, QueryError> {
        let (mut read, mut is_over) = (0, false);
        while read < DOCUMENTS_AT_ONCE {
            let Some((_, object)) = self.scan.next().map_err(store_error)? else {
                is_over = true;
                break;
            };
            read += 1;
            if show(&self.shape, &object, &mut self.bytes, visitor)?.is_break() {
                break;
            }
        }
        if let Some(tally) = &self.tally {
            tally.document_reads.add(read as u64);
        }
        Ok(!is_over)
    }

    fn release(&mut self) {
        self.scan.release();
    }
}

/// A walk over an index.
pub(crate) struct IndexWalk {
    pub(crate) snapshot: Arc<dyn Snapshot>,
    pub(crate) table: Table,
    pub(crate) shape: Arc<CollectionSchema>,
    pub(crate) index: Arc<Index>,
    pub(crate) tally: Option<Arc<QueryCounters>>,
    /// The exact range, if the scan covers more than it.
    pub(crate) keys: Option<KeyRange>,
    /// The order of entries that are cut.
    pub(crate) order: CutEntries,
    /// The prefix of the keys of all wanted entries, if the query names one value for each field;
    /// for a unique index, the key of the only entry. Empty for other ranges.
    pub(crate) key: Vec<u8>,
    pub(crate) source: EntrySource,
}

/// The source of entries.
pub(crate) enum EntrySource {
    /// Any number of entries.
    Scan(Box<dyn Scan>),
    /// At most one entry of a unique index; `None` once it was returned.
    One(Option<Object>),
}

/// The key of an entry, and its object if its index is unique.
type EntryRead<'a> = (&'a [u8], Option<Object>);

impl EntrySource {
    /// The entries whose keys begin with `key`, or the only one that has it if the index is unique.
    pub(crate) fn of_key(
        reads: SnapshotReader<'_>,
        key: &[u8],
        is_unique: bool,
        reverse: bool,
    ) -> Result<EntrySource, QueryError> {
        if is_unique {
            return Ok(EntrySource::One(reads.get(key)?));
        }
        let scan = reads.snapshot.scan_prefix(reads.table, key, reverse);
        scan.map(EntrySource::Scan).map_err(store_error)
    }

    /// Passes the documents of the entries to `visitor` until it wants no more. `only` is as in
    /// [`EntrySource::next`].
    pub(crate) fn visit_all(
        mut self,
        reads: SnapshotReader<'_>,
        shape: &CollectionSchema,
        index: &Index,
        only: &[u8],
        visitor: &mut dyn Visitor,
    ) -> Result<(), QueryError> {
        let mut bytes = Vec::new();
        while let Some((entry, object)) = self.next(only, index.definition.unique)? {
            let object = reads.document(shape, document_key(entry, &object))?;
            reads.count_entry();
            if show(shape, &object, &mut bytes, visitor)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The next entry: its key, and its object if the index is unique (other entries have empty
    /// values). `only` is the key of the entry of [`EntrySource::One`].
    fn next<'a>(
        &'a mut self,
        only: &'a [u8],
        is_unique: bool,
    ) -> Result<Option<EntryRead<'a>>, QueryError> {
        let scan = match self {
            EntrySource::One(object) => {
                return Ok(object.take().map(|object| (only, Some(object))));
            }
            EntrySource::Scan(scan) => scan,
        };
        if is_unique {
            let found = scan.next().map_err(store_error)?;
            return Ok(found.map(|(entry, object)| (entry, Some(object))));
        }
        Ok(scan.next_head().map_err(store_error)?.map(|(entry, _)| (entry, None)))
    }
}

/// The key of the document of an entry.
fn document_key<'a>(entry: &'a [u8], object: &'a Option<Object>) -> &'a [u8] {
    match object {
        Some(object) => &object.value,
        None => document_of_entry(entry).unwrap_or_default(),
    }
}

/// The next step of a walk over an index.
enum Step {
    Document(Object),
    /// An entry that has the values of all fields.
    Values,
    /// An entry whose key is cut, so that its document had to be read: it is outside the range, or
    /// waits for others to be put in order.
    NoDocument,
    End,
}

impl IndexWalk {
    /// Takes the next entry. If `values` are given, they are filled from the entry where it has
    /// them. An entry without a document is a step of its own, because there may be any number of
    /// them, and the query must be able to stop in between.
    fn next(&mut self, values: Option<&mut Vec<Value>>) -> Result<Step, QueryError> {
        let (index, order, tally) = (&self.index, &mut self.order, self.tally.as_deref());
        let reads = SnapshotReader { snapshot: &*self.snapshot, table: self.table, tally };
        if let Some(key) = order.next_document() {
            return reads.document(&self.shape, &key).map(Step::Document);
        }
        let Some((entry, object)) = self.source.next(&self.key, index.definition.unique)? else {
            return Ok(if order.end_group(None) { Step::NoDocument } else { Step::End });
        };
        let key = document_key(entry, &object);
        reads.count_entry();
        let cut = order.length_to_cut(entry, index.prefix.len());
        if cut.is_none() {
            // The bounds of a range are on ordered fields, so this entry is within them.
            if order.end_group(Some(key)) {
                return Ok(Step::NoDocument);
            }
            if values.is_some_and(|values| read_values(index, entry, values)) {
                return Ok(Step::Values);
            }
        }
        let found = reads.document(&self.shape, key)?;
        if cut.is_none() && self.keys.is_none() {
            return Ok(Step::Document(found));
        }
        let (document, name) = (object_of(&found.value)?, String::from_utf8_lossy(key));
        let uncut = index.uncut_key(document, &name, entry, self.keys.as_ref());
        // The zeros of an unreadable page may look like other values.
        found.value.check_read().map_err(store_error)?;
        match (uncut, cut) {
            (Some(uncut), Some(length)) => order.add(uncut, length, key)?,
            (Some(_), None) => return Ok(Step::Document(found)),
            (None, _) => {}
        }
        Ok(Step::NoDocument)
    }

    fn release(&mut self) {
        if let EntrySource::Scan(scan) = &mut self.source {
            scan.release();
        }
    }
}

/// Fills `values` with the fields of an entry. Returns false if its key does not hold all of them,
/// or not exactly.
fn read_values(index: &Index, entry: &[u8], values: &mut Vec<Value>) -> bool {
    values.clear();
    let mut rest = whole_fields(entry, index.prefix.len()).unwrap_or_default();
    for _ in &index.fields {
        match index_key::decode(rest) {
            Some((decoded, length)) if decoded.is_exact => {
                values.push(decoded.value);
                rest = &rest[length..];
            }
            _ => return false,
        }
    }
    true
}

/// A scan over documents in the order of an index.
pub(crate) struct EntryScan {
    pub(crate) walk: IndexWalk,
    pub(crate) bytes: Vec<u8>,
}

impl AqlScan for EntryScan {
    fn advance(&mut self, visitor: &mut dyn Visitor) -> Result<bool, QueryError> {
        for _ in 0..DOCUMENTS_AT_ONCE {
            let object = match self.walk.next(None)? {
                Step::Document(object) => object,
                // The query first counts what is held.
                Step::Values | Step::NoDocument => return Ok(true),
                Step::End => return Ok(false),
            };
            let shape = &self.walk.shape;
            if show(shape, &object, &mut self.bytes, visitor)?.is_break() {
                break;
            }
        }
        Ok(true)
    }

    fn held_bytes(&self) -> usize {
        self.walk.order.held_bytes()
    }

    fn release(&mut self) {
        self.walk.release();
    }
}

/// A scan over the values of an index that does not read the documents where it can avoid it.
pub(crate) struct ValueScan {
    pub(crate) walk: IndexWalk,
    pub(crate) values: Vec<Value>,
    pub(crate) documents_read: u64,
}

impl ValueScan {
    /// Fills `values` from the document of an entry that does not have them.
    fn read_document(&mut self, object: &Object) -> Result<(), QueryError> {
        self.documents_read += 1;
        let document = Ref::Object(object_of(&object.value)?);
        let value = |path: &[String]| {
            path.iter().fold(document, |value, name| value.attribute(name)).to_value()
        };
        self.values.clear();
        self.values.extend(self.walk.index.fields.iter().map(|field| value(&field.path)));
        object.value.check_read().map_err(store_error)
    }
}

impl FieldScan for ValueScan {
    fn advance(
        &mut self,
        visit: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
    ) -> Result<bool, QueryError> {
        for _ in 0..DOCUMENTS_AT_ONCE {
            match self.walk.next(Some(&mut self.values))? {
                Step::Values => {}
                Step::Document(object) => self.read_document(&object)?,
                Step::NoDocument => return Ok(true),
                Step::End => return Ok(false),
            }
            if visit(&self.values).is_break() {
                break;
            }
        }
        Ok(true)
    }

    fn documents_read(&self) -> u64 {
        self.documents_read
    }

    fn held_bytes(&self) -> usize {
        self.walk.order.held_bytes()
    }

    fn release(&mut self) {
        self.walk.release();
    }
}
