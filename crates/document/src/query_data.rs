//! The data source of a query: implements [`pellucid_aql::Source`] on one snapshot of the store.

use std::sync::{Arc, OnceLock};

use pellucid_account::Timeline;
use pellucid_aql::{
    CollectionId, FieldScan, Index as AqlIndex, IndexField, IndexKind as AqlKind, IndexRequest,
    QueryError, REPORTED_VERSION, Scan as AqlScan, Source, Visitor, WriteBatch, visit_all,
};
use pellucid_store::{
    Acknowledgement, KEY_LENGTH_MAX, Range, ReadMode, Snapshot, Table, end_of_prefix,
};
use pellucid_thread::Mutex;
use pellucid_value::Value;

use crate::collection::{Collection, CollectionSchema};
use crate::commit::CommitSequences;
use crate::cut_entries::CutEntries;
use crate::database::Database;
use crate::definition::IndexKind;
use crate::documents::Documents;
use crate::error::{DocumentError, ErrorNumber, store_error};
use crate::index::{FieldPath, Index};
use crate::index_range::KeyRange;
use crate::query_counters::{QueryCounters, StoreAccount};
use crate::query_scan::{
    DocumentScan, EntryScan, EntrySource, IndexWalk, SnapshotReader, ValueScan,
};
use crate::query_writes::QueryWrites;
use crate::stored_document::document_of;
use crate::transaction::Transaction;

/// The assumed selectivity (distinct values per entry) of an index that is not unique.
const SELECTIVITY_ASSUMED: f64 = 0.1;

/// The number of the primary index.
const PRIMARY: u64 = 0;

/// The data source of one query.
pub struct QueryData {
    documents: Arc<Documents>,
    database: Arc<Database>,
    acknowledgement: Acknowledgement,
    /// The snapshot that all reads use, taken at the first read. It is taken after the shapes, so
    /// that an index that a shape has is complete in it.
    snapshot: OnceLock<Arc<dyn Snapshot>>,
    /// The collections that the query has asked for, each with its shape at the first time.
    known: Mutex<Vec<(Arc<Collection>, Arc<CollectionSchema>)>>,
    /// The first count of each collection that the query has counted, so that all its rows have the
    /// same.
    counts: Mutex<Vec<(CollectionId, u64)>>,
    /// The commit of the writes, if there are any.
    committed: OnceLock<Arc<Mutex<Option<CommitSequences>>>>,
    /// True if it is read on a thread that must not block, such as an event loop.
    is_light: bool,
    /// The mode of its reads: if they may wait for the disk.
    mode: ReadMode,
    /// Called with true when the query pauses, and with false when it resumes.
    resting: Option<Arc<dyn Fn(bool) + Send + Sync>>,
    /// The check whether a collection may be read; without it, all may.
    may_read: Option<ReadPermission>,
    /// The counts of the store's operations, if they are counted.
    tally: Option<Arc<QueryCounters>>,
    /// The version that the query's function `VERSION` returns.
    reported_version: Option<Arc<str>>,
}

/// A check whether the collection of a name may be read.
pub type ReadPermission = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl QueryData {
    /// The data of a query.
    #[must_use]
    pub fn new(
        documents: &Arc<Documents>,
        database: &Arc<Database>,
        acknowledgement: Acknowledgement,
    ) -> QueryData {
        QueryData {
            documents: Arc::clone(documents),
            database: Arc::clone(database),
            acknowledgement,
            snapshot: OnceLock::new(),
            known: Mutex::default(),
            counts: Mutex::default(),
            committed: OnceLock::new(),
            is_light: false,
            mode: ReadMode::MayBlock,
            resting: None,
            may_read: None,
            tally: None,
            reported_version: None,
        }
    }

    /// Prepares the data for a caller. The function `resting` is called with true when the query
    /// pauses, and with false when it resumes. `may_read` checks collections that the query names
    /// only by values that it computes. The query's function `VERSION` returns `version`. The
    /// store's operations are counted, and timed if `timeline` is on.
    #[must_use]
    pub fn for_caller(
        self,
        resting: Arc<dyn Fn(bool) + Send + Sync>,
        may_read: Option<ReadPermission>,
        version: &Arc<str>,
        timeline: &Timeline,
    ) -> QueryData {
        QueryData {
            resting: Some(resting),
            may_read,
            reported_version: Some(Arc::clone(version)),
            tally: Some(Arc::new(QueryCounters::beside(timeline))),
            ..self
        }
    }

    /// The counts of the store's operations for the query so far; `None` if they are not counted.
    #[must_use]
    pub fn store_account(&self) -> Option<StoreAccount> {
        let names = self.documents.store().properties().part_names;
        self.tally.as_ref().map(|tally| tally.account(names))
    }

    fn count_index_look_up(&self) {
        if let Some(tally) = &self.tally {
            tally.index_look_ups.add(1);
        }
    }

    /// Prepares the data for a thread that must not block. Reads that may have to look at any
    /// number of documents to find one fail with [`QueryError::NotLight`]. All reads use `mode`.
    #[must_use]
    pub fn light(self, mode: ReadMode) -> QueryData {
        QueryData { is_light: true, mode, ..self }
    }

    /// The commit of the query's writes, once there is one. Revisions in the query's results are
    /// provisional until [`CommitSequences::settle_revisions`] replaces them.
    #[must_use]
    pub fn committed(&self) -> Option<CommitSequences> {
        *self.committed.get()?.lock()
    }

    /// The snapshot of the query; takes it at the first call.
    fn snapshot(&self) -> Result<&Arc<dyn Snapshot>, QueryError> {
        if let Some(snapshot) = self.snapshot.get() {
            return Ok(snapshot);
        }
        let taken = self.documents.store().snapshot_in(self.mode).map_err(store_error)?;
        self.check_shapes()?;
        Ok(self.snapshot.get_or_init(|| taken))
    }

    /// Checks that the snapshot, which was taken before this call, has the documents and the
    /// indexes that the query was planned with. What became garbage before may be half removed.
    fn check_shapes(&self) -> Result<(), QueryError> {
        let known = self.known.lock();
        let Some((collection, shape)) =
            known.iter().find(|(collection, shape)| !collection.has_data_of(shape))
        else {
            return Ok(());
        };
        let name = &shape.definition.name;
        if self.is_light {
            // A worker plans the query anew.
            return Err(QueryError::NotInMemory);
        }
        if collection.is_dropped() {
            return Err(DocumentError::collection_not_found(name).into());
        }
        let message = format!(
            "the collection {name} was truncated, or lost an index, before the query began to \
             read: try again"
        );
        Err(DocumentError::new(ErrorNumber::CONFLICT, message).into())
    }

    /// Calls `look` with the collection of this name or number, and with the shape that it had when
    /// the query first asked for it.
    fn known<T>(
        &self,
        name: &str,
        look: impl FnOnce(&Arc<Collection>, &Arc<CollectionSchema>) -> T,
    ) -> Option<T> {
        let mut known = self.known.lock();
        let is_it = |(_, shape): &&(_, Arc<CollectionSchema>)| shape.definition.name == name;
        if let Some((collection, shape)) = known.iter().find(is_it) {
            return Some(look(collection, shape));
        }
        let collection = self.database.collection(name).ok()?;
        if let Some((_, shape)) = known.iter().find(|(other, _)| other.id == collection.id) {
            return Some(look(&collection, shape));
        }
        let shape = collection.shape();
        let looked = look(&collection, &shape);
        known.push((collection, shape));
        Some(looked)
    }

    /// As [`Self::known`], for a collection by its number.
    fn found<T>(
        &self,
        id: CollectionId,
        look: impl FnOnce(&Arc<Collection>, &Arc<CollectionSchema>) -> T,
    ) -> Result<T, QueryError> {
        let known = self.known.lock();
        if let Some((collection, shape)) = known.iter().find(|(collection, _)| collection.id == id)
        {
            return Ok(look(collection, shape));
        }
        drop(known);
        let name = id.to_string();
        self.known(&name, look).ok_or_else(|| DocumentError::collection_not_found(&name).into())
    }

    fn shape(&self, id: CollectionId) -> Result<Arc<CollectionSchema>, QueryError> {
        self.found(id, |_, shape| Arc::clone(shape))
    }

    /// Scans the documents between two bounds, which may be longer than a key of the store.
    fn documents_between(
        &self,
        shape: Arc<CollectionSchema>,
        low: &[u8],
        high: Option<&[u8]>,
        reverse: bool,
    ) -> Result<Box<dyn AqlScan>, QueryError> {
        let range = Range { start: cut(low), end: high.map(cut), reverse };
        let scan = self.snapshot()?.scan(self.table(), range).map_err(store_error)?;
        let tally = self.tally.clone();
        Ok(Box::new(DocumentScan { shape, scan, tally, bytes: Vec::new() }))
    }

    /// Begins a walk over the index entries in the range of `request`.
    fn walk(
        &self,
        collection: CollectionId,
        request: &IndexRequest,
    ) -> Result<IndexWalk, QueryError> {
        let shape = self.shape(collection)?;
        let index = Arc::clone(index_of(&shape, request)?);
        let (snapshot, table) = (Arc::clone(self.snapshot()?), self.table());
        let tally = self.tally.clone();
        let order = CutEntries::new(request, self.is_light);
        self.count_index_look_up();
        if let Some(key) = index.key_of_all(&request.range) {
            let is_unique = index.definition.unique;
            let source = EntrySource::of_key(self.reads()?, &key, is_unique, request.reverse)?;
            return Ok(IndexWalk {
                snapshot,
                table,
                shape,
                index,
                tally,
                keys: None,
                order,
                key,
                source,
            });
        }
        let (low, high) = request.range.key_bounds();
        let keys = KeyRange::new(&index.prefix, &low, &high);
        if self.is_light && keys.is_wider() {
            // Long values are cut in the index, and any number of documents may share a cut value.
            return Err(QueryError::NotLight);
        }
        let range = Range { start: &keys.low, end: Some(&keys.high), reverse: request.reverse };
        let source = EntrySource::Scan(snapshot.scan(table, range).map_err(store_error)?);
        let (key, keys) = (Vec::new(), keys.is_wider().then_some(keys));
        Ok(IndexWalk { snapshot, table, shape, index, tally, keys, order, key, source })
    }

    /// Scans documents by their keys, which are in byte order.
    fn primary_scan(
        &self,
        shape: Arc<CollectionSchema>,
        request: &IndexRequest,
    ) -> Result<Box<dyn AqlScan>, QueryError> {
        use std::ops::Bound;
        let prefix = &shape.documents_prefix.clone();
        let key = |value: &Value| [prefix, value.as_str().unwrap_or_default().as_bytes()].concat();
        let after = |mut key: Vec<u8>| {
            key.push(0);
            key
        };
        let last = end_of_prefix(prefix).unwrap_or_default();
        let is_text = |value: &Value| value.as_str().is_some();
        let (low, high) = match &request.range.equal[..] {
            [equal, ..] if is_text(equal) => (key(equal), after(key(equal))),
            [_, ..] => (prefix.clone(), prefix.clone()),
            [] => {
                // All keys are strings. A lower bound that sorts below all strings excludes no key,
                // and an upper bound that does so excludes all of them.
                let low = match &request.range.low {
                    Bound::Included(value) if is_text(value) => key(value),
                    Bound::Excluded(value) if is_text(value) => after(key(value)),
                    Bound::Included(value) | Bound::Excluded(value) if is_above_text(value) => {
                        last.clone()
                    }
                    _ => prefix.clone(),
                };
                let high = match &request.range.high {
                    Bound::Included(value) if is_text(value) => after(key(value)),
                    Bound::Excluded(value) if is_text(value) => key(value),
                    Bound::Included(value) | Bound::Excluded(value) if !is_above_text(value) => {
                        prefix.clone()
                    }
                    _ => last,
                };
                (low, high)
            }
        };
        let high = high.max(low.clone());
        self.documents_between(shape, &low, Some(&high), request.reverse)
    }

    /// The table of the documents.
    fn table(&self) -> Table {
        self.documents.storage().table()
    }

    /// The reads of the query.
    fn reads(&self) -> Result<SnapshotReader<'_>, QueryError> {
        let (snapshot, tally) = (&**self.snapshot()?, self.tally.as_deref());
        Ok(SnapshotReader { snapshot, table: self.table(), tally })
    }
}

impl Source for QueryData {
    fn collection(&self, name: &str) -> Option<pellucid_aql::Collection> {
        self.known(name, |collection, shape| {
            let (id, name) = (collection.id, shape.definition.name.clone());
            pellucid_aql::Collection { id, name }
        })
    }

    fn reported_version(&self) -> &str {
        self.reported_version.as_deref().unwrap_or(REPORTED_VERSION)
    }

    fn may_read(&self, collection: &str) -> bool {
        self.may_read.as_ref().is_none_or(|may_read| may_read(collection))
    }

    fn version(&self, name: &str) -> Option<u64> {
        self.known(name, |_, shape| shape.version)
    }

    fn count(&self, collection: CollectionId) -> Result<u64, QueryError> {
        let current = self.found(collection, |collection, _| collection.count())?;
        let mut counts = self.counts.lock();
        if let Some((_, first)) = counts.iter().find(|(counted, _)| *counted == collection) {
            return Ok(*first);
        }
        counts.push((collection, current));
        Ok(current)
    }

    fn scan(&self, collection: CollectionId) -> Result<Box<dyn AqlScan>, QueryError> {
        let shape = self.shape(collection)?;
        let (low, high) = (shape.documents_prefix.clone(), end_of_prefix(&shape.documents_prefix));
        self.documents_between(shape, &low, high.as_deref(), false)
    }

    fn indexes(&self, collection: CollectionId) -> Vec<AqlIndex> {
        let Ok(shape) = self.shape(collection) else { return Vec::new() };
        let own = shape.readable_indexes().filter_map(|index| describe(index));
        std::iter::once(AqlIndex::primary()).chain(own).collect()
    }

    fn index_scan(
        &self,
        collection: CollectionId,
        request: &IndexRequest,
    ) -> Result<Box<dyn AqlScan>, QueryError> {
        if request.index == PRIMARY {
            return self.primary_scan(self.shape(collection)?, request);
        }
        let walk = self.walk(collection, request)?;
        Ok(Box::new(EntryScan { walk, bytes: Vec::new() }))
    }

    fn index_visit(
        &self,
        collection: CollectionId,
        request: &IndexRequest,
        visitor: &mut dyn Visitor,
    ) -> Result<(), QueryError> {
        let shape = self.shape(collection)?;
        if request.index != PRIMARY {
            let index = index_of(&shape, request)?;
            if let Some(key) = index.key_of_all(&request.range) {
                self.count_index_look_up();
                let reads = self.reads()?;
                let is_unique = index.definition.unique;
                let source = EntrySource::of_key(reads, &key, is_unique, request.reverse)?;
                return source.visit_all(reads, &shape, index, &key, visitor);
            }
        }
        let mut scan = self.index_scan(collection, request)?;
        visit_all(&mut *scan, visitor)
    }

    fn index_fields(
        &self,
        collection: CollectionId,
        request: &IndexRequest,
    ) -> Result<Option<Box<dyn FieldScan>>, QueryError> {
        let walk = self.walk(collection, request)?;
        // Where long values are cut, only the documents tell which entries are in the range.
        if walk.keys.is_some() {
            return Ok(None);
        }
        Ok(Some(Box::new(ValueScan { walk, values: Vec::new(), documents_read: 0 })))
    }

    fn document(&self, collection: CollectionId, key: &str) -> Result<Option<Value>, QueryError> {
        let shape = self.shape(collection)?;
        let store_key = shape.document_key(key.as_bytes());
        if store_key.len() > KEY_LENGTH_MAX {
            return Ok(None);
        }
        let reads = self.reads()?;
        let Some(object) = reads.get(&store_key)? else { return Ok(None) };
        reads.count_document();
        let document = document_of(&shape, &object)?;
        Ok(Some(Value::open(&document).unwrap_or_default()))
    }

    fn rest(&self, begins: bool) {
        if let Some(resting) = &self.resting {
            resting(begins);
        }
    }

    fn begin_writes(&self) -> Result<Box<dyn WriteBatch>, QueryError> {
        let snapshot = Arc::clone(self.snapshot()?);
        Ok(Box::new(QueryWrites::new(
            Arc::clone(&self.database),
            Transaction::begin_at(&self.documents, snapshot),
            self.acknowledgement,
            Arc::clone(self.committed.get_or_init(Arc::default)),
        )))
    }
}

/// The index of the request.
///
/// # Errors
/// 1212 if it is gone, or not ready.
fn index_of<'a>(
    shape: &'a CollectionSchema,
    request: &IndexRequest,
) -> Result<&'a Arc<Index>, QueryError> {
    let mut indexes = shape.readable_indexes();
    indexes
        .find(|index| index.definition.id == request.index)
        .ok_or_else(|| QueryError::new(1212, "an index of the query's plan is gone: try again"))
}

/// The beginning of a bound, which is no longer than a key of the store. The keys of documents are
/// shorter, so that each is on the same side of it as of the whole bound.
fn cut(bound: &[u8]) -> &[u8] {
    &bound[..bound.len().min(KEY_LENGTH_MAX)]
}

/// True for values that sort above all strings.
fn is_above_text(value: &Value) -> bool {
    matches!(value.kind(), pellucid_value::Kind::Array | pellucid_value::Kind::Object)
}

/// Describes an index to the query; `None` if a query cannot use it. That is an index with a path
/// behind `[*]`, and a TTL index, because its entries hold converted times and not the values of
/// the documents.
fn describe(index: &Index) -> Option<AqlIndex> {
    let definition = &index.definition;
    let kind = match definition.kind {
        IndexKind::Persistent => AqlKind::Persistent,
        IndexKind::Edge => AqlKind::Edge,
        IndexKind::Ttl => return None,
    };
    let mut fields = Vec::with_capacity(index.fields.len());
    for FieldPath { path, within } in &index.fields {
        if within.as_ref().is_some_and(|within| !within.is_empty()) {
            return None;
        }
        fields.push(IndexField { path: path.clone(), expands: within.is_some() });
    }
    Some(AqlIndex {
        id: definition.id,
        name: definition.name.clone(),
        kind,
        fields,
        unique: definition.unique,
        sparse: definition.sparse,
        selectivity: if definition.unique { 1.0 } else { SELECTIVITY_ASSUMED },
    })
}
