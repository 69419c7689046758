//! The data of a query: what [`pellucid_aql`] asks of collections, answered from the store.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use pellucid_account::Timeline;
use pellucid_aql::{
    CollectionId, Index as AqlIndex, IndexField, IndexKind as AqlKind, IndexRequest, QueryError,
    Scan as AqlScan, Source, WriteBatch,
};
use pellucid_store::{Acknowledgement, Range, Scan};
use pellucid_value::Value;

use crate::collection::{Collection, Shape};
use crate::database::Database;
use crate::definition::IndexKind;
use crate::documents::Documents;
use crate::error::DocumentError;
use crate::index::{FieldPath, Index};
use crate::index_range::KeyRange;
use crate::layout::{document_of_entry, end_of_prefix};
use crate::query_writes::QueryWrites;
use crate::revision::revision_of;
use crate::stored::{object_of, reveal_into};
use crate::transaction::Committed;

/// Documents that are handed out before a scan returns to the query.
const DOCUMENTS_AT_ONCE: usize = 64;

/// The share of different values that is assumed of an index that is not unique.
const SELECTIVITY_ASSUMED: f64 = 0.1;

/// The number of the primary index.
const PRIMARY: u64 = 0;

/// What a query reads and writes.
pub struct QueryData {
    pub(crate) documents: Arc<Documents>,
    pub(crate) database: Arc<Database>,
    pub(crate) acknowledgement: Acknowledgement,
    /// The latest write when the query began.
    pub(crate) begun_at: u64,
    /// What became of the writes.
    pub(crate) committed: Arc<Mutex<Option<Committed>>>,
}

impl QueryData {
    /// The data of a query that begins now.
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
            begun_at: documents.last_sequence.load(std::sync::atomic::Ordering::Acquire),
            committed: Arc::default(),
        }
    }

    /// What the query has written, once it has: revisions in its results stand for those to come
    /// until [`crate::settle_revisions`] puts them in.
    #[must_use]
    pub fn committed(&self) -> Option<Committed> {
        *self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn found(&self, id: CollectionId) -> Result<Arc<Collection>, QueryError> {
        Ok(self.database.collection(&id.to_string())?)
    }
}

impl From<DocumentError> for QueryError {
    fn from(error: DocumentError) -> QueryError {
        QueryError::new(error.number.0, error.message)
    }
}

fn store_error(error: pellucid_store::StoreError) -> QueryError {
    DocumentError::from(error).into()
}

impl Source for QueryData {
    fn collection(&self, name: &str) -> Option<pellucid_aql::Collection> {
        let collection = self.database.collection(name).ok()?;
        let (id, name) = (collection.id, collection.name());
        Some(pellucid_aql::Collection { id, name, is_edge: collection.shape().is_edges() })
    }

    fn count(&self, collection: CollectionId) -> Result<u64, QueryError> {
        Ok(self.found(collection)?.count())
    }

    fn scan(&self, collection: CollectionId) -> Result<Box<dyn AqlScan>, QueryError> {
        let shape = self.found(collection)?.shape();
        let scan = self.documents.scan_prefix(&shape.documents_prefix, &shape.documents_prefix)?;
        Ok(Box::new(DocumentScan { shape, scan, bytes: Vec::new() }))
    }

    fn indexes(&self, collection: CollectionId) -> Vec<AqlIndex> {
        let Ok(collection) = self.found(collection) else { return Vec::new() };
        let key = IndexField { path: vec!["_key".to_owned()], expands: false };
        let primary = AqlIndex {
            id: PRIMARY,
            name: "primary".to_owned(),
            kind: AqlKind::Primary,
            fields: vec![key],
            unique: true,
            sparse: false,
            selectivity: 1.0,
        };
        let shape = collection.shape();
        let own = shape.readable_indexes().filter_map(|index| describe(index));
        std::iter::once(primary).chain(own).collect()
    }

    fn index_scan(
        &self,
        collection: CollectionId,
        request: &IndexRequest,
    ) -> Result<Box<dyn AqlScan>, QueryError> {
        let shape = self.found(collection)?.shape();
        if request.index == PRIMARY {
            return self.primary_scan(shape, request);
        }
        let is_it = |index: &&Arc<Index>| index.definition.id == request.index;
        let index = shape.readable_indexes().find(is_it).cloned();
        let index = index.ok_or_else(|| {
            QueryError::new(1212, "an index of the query's plan is gone: try again")
        })?;
        let (low, high) = request.range.key_bounds();
        let keys = KeyRange::new(&index, &low, &high);
        let range = Range { start: &keys.low, end: Some(&keys.high), reverse: request.reverse };
        let documents = Arc::clone(&self.documents);
        let scan = documents.store.scan(documents.table, range).map_err(store_error)?;
        Ok(Box::new(EntryScan {
            documents,
            shape,
            index,
            keys,
            scan,
            begun_at: self.begun_at,
            bytes: Vec::new(),
        }))
    }

    fn document(&self, collection: CollectionId, key: &str) -> Result<Option<Value>, QueryError> {
        let shape = self.found(collection)?.shape();
        let found = self.documents.get(&shape, key.as_bytes(), &mut Timeline::off()).wait();
        let Some(object) = found.map_err(store_error)? else { return Ok(None) };
        let document = crate::read::document_of(&shape, &object)?;
        Ok(Some(value_of(&document)))
    }

    fn begin_writes(&self) -> Result<Box<dyn WriteBatch>, QueryError> {
        Ok(Box::new(QueryWrites::new(self)))
    }
}

impl QueryData {
    /// Documents by their keys, which lie in the order of their bytes.
    fn primary_scan(
        &self,
        shape: Arc<Shape>,
        request: &IndexRequest,
    ) -> Result<Box<dyn AqlScan>, QueryError> {
        use std::ops::Bound;
        let prefix = &shape.documents_prefix;
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
                // All keys are strings: what is below strings is no bound from below, and none of
                // them is at most what is.
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
        let range = Range { start: &low, end: Some(&high), reverse: request.reverse };
        let scan = self.documents.store.scan(self.documents.table, range).map_err(store_error)?;
        Ok(Box::new(DocumentScan { shape, scan, bytes: Vec::new() }))
    }
}

fn is_above_text(value: &Value) -> bool {
    matches!(value.kind(), pellucid_value::Kind::Array | pellucid_value::Kind::Object)
}

/// A packed document as a value.
pub(crate) fn value_of(document: &[u8]) -> Value {
    Value::open(document).unwrap_or_default()
}

/// An index as a query can use it. One whose elements are looked up by a path of their own is not
/// told, nor one of times, which are not those of the documents.
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

/// Documents in the order of their keys.
struct DocumentScan {
    shape: Arc<Shape>,
    scan: Box<dyn Scan>,
    bytes: Vec<u8>,
}

impl AqlScan for DocumentScan {
    fn advance(
        &mut self,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<bool, QueryError> {
        for _ in 0..DOCUMENTS_AT_ONCE {
            let Some((_, object)) = self.scan.next().map_err(store_error)? else {
                return Ok(false);
            };
            let revision = revision_of(object.head.sequence);
            reveal_into(&self.shape, &object.value, &revision, &mut self.bytes)?;
            if visit(&self.bytes).is_break() {
                break;
            }
        }
        Ok(true)
    }
}

/// Documents in the order of an index.
struct EntryScan {
    documents: Arc<Documents>,
    shape: Arc<Shape>,
    index: Arc<Index>,
    keys: KeyRange,
    scan: Box<dyn Scan>,
    begun_at: u64,
    bytes: Vec<u8>,
}

impl AqlScan for EntryScan {
    fn advance(
        &mut self,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<bool, QueryError> {
        let mut timeline = Timeline::off();
        for _ in 0..DOCUMENTS_AT_ONCE {
            let Some((entry, object)) = self.scan.next().map_err(store_error)? else {
                return Ok(false);
            };
            let key = match self.index.definition.unique {
                true => &*object.value,
                false => document_of_entry(entry).unwrap_or_default(),
            };
            let found = self.documents.get(&self.shape, key, &mut timeline).wait();
            let Some(object) = found.map_err(store_error)? else { continue };
            // Written since, it may have left the place where its entry was found.
            if self.keys.is_wider() || object.head.sequence > self.begun_at {
                let (document, key) = (object_of(&object.value)?, String::from_utf8_lossy(key));
                if !self.index.has_within(document, &key, entry, &self.keys) {
                    continue;
                }
            }
            let revision = revision_of(object.head.sequence);
            reveal_into(&self.shape, &object.value, &revision, &mut self.bytes)?;
            if visit(&self.bytes).is_break() {
                break;
            }
        }
        Ok(true)
    }
}
