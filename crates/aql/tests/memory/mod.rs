//! A source of documents in memory, for tests of queries.
#![allow(clippy::disallowed_types, reason = "locks of tests need no profiling")]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pellucid_aql::{
    Collection, CollectionId, FieldScan, Index, IndexRequest, KillSwitch, OverwriteMode,
    ParsedQuery, Plan, QueryError, QueryOptions, Scan, Source, Visitor, Write, WriteBatch,
    WriteKind, WriteOutcome, number,
};
use pellucid_value::{DuplicateRule, Value, index_key, merge_into, packed};

/// The packed documents, by collection and key.
type Documents = BTreeMap<CollectionId, BTreeMap<String, Vec<u8>>>;

/// A database in memory.
#[derive(Default)]
pub(crate) struct MemoryDatabase {
    collections: Vec<Collection>,
    indexes: BTreeMap<CollectionId, Vec<Index>>,
    documents: Arc<Mutex<Documents>>,
}

impl MemoryDatabase {
    /// Adds a collection and its documents.
    pub(crate) fn with(mut self, name: &str, documents: &str) -> Self {
        let id = self.collections.len() as u64 + 1;
        self.collections.push(Collection { id, name: name.to_owned() });
        let mut kept = BTreeMap::new();
        let documents = json(documents);
        for (place, document) in documents.elements().iter().enumerate() {
            let key = document.attribute("_key");
            let key = key.as_str().map_or_else(|| (place + 1).to_string(), str::to_owned);
            kept.insert(key.clone(), stored(name, &key, document));
        }
        self.documents.lock().unwrap().insert(id, kept);
        self
    }

    /// Adds an index to the collection that was added last.
    pub(crate) fn with_index(mut self, index: Index) -> Self {
        self.indexes.entry(self.collections.len() as u64).or_default().push(index);
        self
    }
}

/// Parses JSON.
pub(crate) fn json(text: &str) -> Value {
    pellucid_value::json::parse_value(text.as_bytes(), DuplicateRule::Refuse).unwrap()
}

/// The packed document with its system attributes.
fn stored(collection: &str, key: &str, document: &Value) -> Vec<u8> {
    let mut builder = packed::Builder::new();
    builder.begin_object();
    for (name, text) in
        [("_key", key.to_owned()), ("_id", format!("{collection}/{key}")), ("_rev", "_r".into())]
    {
        builder.name(name);
        builder.string(&text);
    }
    for (name, value) in document.each_member(false) {
        if !["_key", "_id", "_rev"].contains(&name.as_str()) {
            builder.name(&name);
            builder.value(value.view());
        }
    }
    builder.end();
    builder.finish().unwrap()
}

/// A scan over rows that are in memory.
struct MemoryScan<T>(std::vec::IntoIter<T>);

impl Scan for MemoryScan<Vec<u8>> {
    fn advance(&mut self, visitor: &mut dyn Visitor) -> Result<bool, QueryError> {
        for document in self.0.by_ref() {
            let wants = visitor.wants(packed::open(&document).unwrap());
            let is_over = match wants {
                ControlFlow::Continue(true) => visitor.visit(&document).is_break(),
                ControlFlow::Continue(false) => false,
                ControlFlow::Break(()) => true,
            };
            if is_over {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl FieldScan for MemoryScan<Vec<Value>> {
    fn advance(
        &mut self,
        visit: &mut dyn FnMut(&[Value]) -> ControlFlow<()>,
    ) -> Result<bool, QueryError> {
        for values in self.0.by_ref() {
            if visit(&values).is_break() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl MemoryDatabase {
    /// The values of the fields of each entry, and its document, in the order of the index.
    fn entries(&self, id: CollectionId, request: &IndexRequest) -> Vec<(Vec<Value>, Vec<u8>)> {
        let index = self.indexes(id).into_iter().find(|index| index.id == request.index).unwrap();
        let (low, high) = request.range.key_bounds();
        let mut entries = BTreeMap::new();
        for (key, document) in &self.documents.lock().unwrap()[&id] {
            let value = Value::open(document).unwrap();
            let mut bytes = Vec::new();
            let mut fields = Vec::new();
            for field in &index.fields {
                let found =
                    field.path.iter().fold(value.clone(), |value, name| value.attribute(name));
                index_key::encode(found.view(), &mut bytes);
                fields.push(found);
            }
            if index.sparse && fields.contains(&Value::Null) {
                continue;
            }
            bytes.extend_from_slice(key.as_bytes());
            if low <= bytes && bytes < high {
                entries.insert(bytes, (fields, document.clone()));
            }
        }
        let mut entries: Vec<_> = entries.into_values().collect();
        if request.reverse {
            entries.reverse();
        }
        entries
    }
}

impl Source for MemoryDatabase {
    fn collection(&self, name: &str) -> Option<Collection> {
        self.collections.iter().find(|collection| collection.name == name).cloned()
    }

    fn count(&self, collection: CollectionId) -> Result<u64, QueryError> {
        Ok(self.documents.lock().unwrap()[&collection].len() as u64)
    }

    fn scan(&self, collection: CollectionId) -> Result<Box<dyn Scan>, QueryError> {
        let documents: Vec<_> =
            self.documents.lock().unwrap()[&collection].values().cloned().collect();
        Ok(Box::new(MemoryScan(documents.into_iter())))
    }

    fn indexes(&self, collection: CollectionId) -> Vec<Index> {
        let others = self.indexes.get(&collection).cloned().unwrap_or_default();
        std::iter::once(Index::primary()).chain(others).collect()
    }

    fn index_scan(
        &self,
        collection: CollectionId,
        request: &IndexRequest,
    ) -> Result<Box<dyn Scan>, QueryError> {
        let entries = self.entries(collection, request);
        let documents: Vec<_> = entries.into_iter().map(|(_, document)| document).collect();
        Ok(Box::new(MemoryScan(documents.into_iter())))
    }

    fn index_fields(
        &self,
        collection: CollectionId,
        request: &IndexRequest,
    ) -> Result<Option<Box<dyn FieldScan>>, QueryError> {
        let entries = self.entries(collection, request);
        let fields: Vec<_> = entries.into_iter().map(|(fields, _)| fields).collect();
        Ok(Some(Box::new(MemoryScan(fields.into_iter()))))
    }

    fn document(&self, collection: CollectionId, key: &str) -> Result<Option<Value>, QueryError> {
        let documents = self.documents.lock().unwrap();
        Ok(documents[&collection].get(key).map(|document| Value::open(document).unwrap()))
    }

    fn begin_writes(&self) -> Result<Box<dyn WriteBatch>, QueryError> {
        let names = self.collections.iter().map(|own| (own.id, own.name.clone())).collect();
        let state = self.documents.lock().unwrap().clone();
        Ok(Box::new(Batch { names, state, target: Arc::clone(&self.documents) }))
    }
}

/// A batch of writes: the state after it.
struct Batch {
    names: BTreeMap<CollectionId, String>,
    state: Documents,
    target: Arc<Mutex<Documents>>,
}

impl WriteBatch for Batch {
    fn add(&mut self, write: &Write<'_>) -> Result<WriteOutcome, QueryError> {
        let documents = self.state.get_mut(&write.collection).unwrap();
        let own = write.document.attribute("_key");
        let key = match write.key.or(own.as_str()) {
            Some(key) => key.to_owned(),
            None => (documents.len() + 1).to_string(),
        };
        let old = documents.get(&key).map(|old| Value::open(old).unwrap());
        let mut kind = write.kind;
        match (kind, &old, write.options.overwrite_mode) {
            (WriteKind::Insert, Some(_), OverwriteMode::Conflict) => {
                return Err(QueryError::new(
                    number::UNIQUE_CONSTRAINT,
                    "unique constraint violated",
                ));
            }
            (WriteKind::Insert, Some(_), OverwriteMode::Ignore) => {
                return Ok(WriteOutcome { is_ignored: true, ..WriteOutcome::default() });
            }
            (WriteKind::Insert, Some(_), OverwriteMode::Replace) => kind = WriteKind::Replace,
            (WriteKind::Insert, Some(_), OverwriteMode::Update) => kind = WriteKind::Update,
            (WriteKind::Insert, None, _) | (_, Some(_), _) => {}
            (_, None, _) => {
                return Err(QueryError::new(number::DOCUMENT_NOT_FOUND, "document not found"));
            }
        }
        let old = old.unwrap_or_default();
        if kind == WriteKind::Remove {
            documents.remove(&key);
            return Ok(WriteOutcome { old, ..WriteOutcome::default() });
        }
        let mut document = write.document.clone();
        if kind == WriteKind::Update {
            let options = write.options.merge;
            let mut builder = packed::Builder::new();
            builder.begin_object();
            let (before, after) = (old.view().as_object(), document.view().as_object());
            merge_into(&mut builder, before.unwrap(), after.unwrap(), options, &|_| false);
            builder.end();
            document = Value::open(&builder.finish().unwrap()).unwrap();
        }
        let stored = stored(&self.names[&write.collection], &key, &document);
        let new = Value::open(&stored).unwrap();
        let held_bytes = stored.len();
        documents.insert(key, stored);
        Ok(WriteOutcome { old, new, is_ignored: false, held_bytes })
    }

    fn commit(self: Box<Self>) -> Result<(), QueryError> {
        *self.target.lock().unwrap() = self.state;
        Ok(())
    }
}

/// The CPU time of this thread.
pub(crate) fn thread_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// The result of a query.
pub(crate) struct QueryOutcome {
    /// Its values, as an array.
    pub(crate) result: Value,
    /// The numbers of its warnings.
    pub(crate) warnings: Vec<u16>,
    /// Its counts.
    pub(crate) stats: pellucid_aql::Stats,
    pub(crate) plan: Arc<Plan>,
}

/// Runs a query.
pub(crate) fn run_with(
    source: &Arc<dyn Source>,
    text: &str,
    bind_variables: &str,
    options: QueryOptions,
) -> Result<QueryOutcome, QueryError> {
    let parsed: ParsedQuery = pellucid_aql::parse_within(text, &options)?;
    let (binds, kill) = (json(bind_variables), KillSwitch::default());
    let plan = Arc::new(Plan::new(&parsed, &binds, source, &options, &kill)?);
    let mut execution =
        pellucid_aql::Execution::new(Arc::clone(&plan), &binds, Arc::clone(source), options, kill);
    let mut values = Vec::new();
    while !execution.is_done() {
        values.extend(execution.next(3, usize::MAX)?);
    }
    let warnings = execution.warnings().iter().map(|warning| warning.number).collect();
    Ok(QueryOutcome {
        result: Value::array(values).unwrap(),
        warnings,
        stats: execution.stats(),
        plan,
    })
}

/// Runs a query without bind variables.
pub(crate) fn run(source: &Arc<dyn Source>, text: &str) -> Result<QueryOutcome, QueryError> {
    run_with(source, text, "{}", QueryOptions::default())
}
