//! Tests of the crate on simulated files: invariants that hold after any writes, and after a crash
//! at any time.

mod contents;
mod crash;
mod expiry;
mod full_disk;
mod imports;
mod lease;
mod model;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_aql::{
    Execution, IndexRange, IndexRequest, KillSwitch, QueryError, QueryOptions, Source,
    StatementCache, Visitor, Write, WriteKind,
};
use pellucid_embedded::{EmbeddedOptions, EmbeddedStore, EngineOptions, PrefixRule};
use pellucid_io::simulated::SimulatedFileSystem;
use pellucid_store::{Acknowledgement, HandOverPolicy, Store, StoreError};
use pellucid_value::{DuplicateRule, Ref, Value, json, packed};

use crate::commit::PendingCommit;
use crate::definition::{CollectionDefinition, IndexKind, IndexState};
use crate::layout::{FIELDS_KEPT_BYTES, index_prefix};
use crate::{
    Collection, Database, Documents, ErrorNumber, ImportForm, ImportOptions, IndexDefinition,
    Overwrite, Result, Rewrite, TABLE, Transaction, WriteOptions, attempt, attempt_to_end,
    create_index, for_each, import, lookup_prefix,
};

const COLLECTION: &str = "c";

/// Documents as JSON without `_rev`, by key.
type Model = BTreeMap<String, serde_json::Value>;

/// Opens the documents in `files`, with little memory and without background threads.
fn open(files: &SimulatedFileSystem) -> Result<Arc<Documents>> {
    Ok(Arc::new(Documents::open_named(Arc::new(store(files)?) as Arc<dyn Store>, "test")?))
}

fn store(files: &SimulatedFileSystem) -> Result<EmbeddedStore> {
    let engine_options = EngineOptions {
        segment_size_bytes: 64 << 10,
        background: false,
        file_system: Arc::new(files.clone()),
        clock: pellucid_clock::Clock::monotonic(),
        identity_seed: Some(1),
        prefix_rules: vec![PrefixRule { table: TABLE, prefix_of: lookup_prefix }],
        ..EngineOptions::default()
    };
    let options = EmbeddedOptions {
        memory_bytes: 1 << 20,
        value_bytes_max: 16 << 10,
        hand_over: HandOverPolicy::Never,
        ..EmbeddedOptions::default()
    };
    Ok(EmbeddedStore::open_with(Path::new("/store"), options, engine_options)?)
}

fn index(fields: &[&str], unique: bool, sparse: bool) -> IndexDefinition {
    IndexDefinition { unique, sparse, ..IndexDefinition::persistent(fields) }
}

/// Creates the collection, with indexes of several forms.
fn make(documents: &Arc<Documents>) -> Result<Arc<Collection>> {
    let database = documents.database("_system")?;
    let new = CollectionDefinition::named(COLLECTION);
    let collection = documents.create_collection(&database, new)?;
    for index in [
        index(&["a"], false, false),
        index(&["b.c", "a"], false, true),
        index(&["u"], true, true),
        index(&["t[*]"], false, false),
    ] {
        create_index(documents, &collection, index)?;
    }
    Ok(collection)
}

/// A store with the collection, which has one index.
fn with_index() -> (Arc<Documents>, Arc<Database>, Arc<Collection>) {
    let documents = open(&SimulatedFileSystem::new()).unwrap();
    let database = documents.database("_system").unwrap();
    let new = CollectionDefinition::named(COLLECTION);
    let collection = documents.create_collection(&database, new).unwrap();
    create_index(&documents, &collection, index(&["a", "b"], false, false)).unwrap();
    (documents, database, collection)
}

fn found(documents: &Documents) -> Option<Arc<Collection>> {
    documents.database("_system").ok()?.collection(COLLECTION).ok()
}

/// One change.
#[derive(Clone, Debug)]
enum Step {
    Insert(String, serde_json::Value),
    Update(String, serde_json::Value),
    Replace(String, serde_json::Value),
    Remove(String),
    /// An import of lines that replace existing documents.
    Import(Vec<(String, serde_json::Value)>),
}

fn with_key(key: &str, value: &serde_json::Value) -> Vec<u8> {
    let mut value = value.clone();
    value["_key"] = key.into();
    parse(&value)
}

fn parse(value: &serde_json::Value) -> Vec<u8> {
    json::parse_packed(value.to_string().as_bytes(), DuplicateRule::Refuse).unwrap()
}

/// Applies one step through the public interface.
fn apply(documents: &Arc<Documents>, collection: &Arc<Collection>, step: &Step) -> Result<()> {
    let options = WriteOptions::default();
    let mut timeline = Timeline::off();
    if let Step::Import(lines) = step {
        let line = |(key, value): &(String, serde_json::Value)| {
            let document = with_key(key, value);
            json::to_string(packed::open(&document).unwrap_or(Ref::Null)) + "\n"
        };
        let body: String = lines.iter().map(line).collect();
        let options = ImportOptions {
            form: ImportForm::Lines,
            on_duplicate: Overwrite::Replace,
            complete: true,
            ..ImportOptions::default()
        };
        let report =
            import(documents, collection, body.as_bytes(), &options, &|| Ok(()), &mut timeline)?;
        assert_eq!(report.errors, 0, "all or nothing");
        return Ok(());
    }
    let attempt = attempt_to_end(
        documents,
        Acknowledgement::Os,
        false,
        &mut timeline,
        |transaction, timeline| {
            let body = match step {
                Step::Insert(key, value) => with_key(key, value),
                Step::Update(_, value) | Step::Replace(_, value) => parse(value),
                Step::Remove(_) | Step::Import(_) => Vec::new(),
            };
            let object = || packed::open(&body).ok().and_then(Ref::as_object).unwrap();
            match step {
                Step::Insert(..) => transaction.insert(collection, object(), &options, timeline),
                Step::Update(key, _) | Step::Replace(key, _) => {
                    let is_update = matches!(step, Step::Update(..));
                    let rewrite = if is_update { Rewrite::Update } else { Rewrite::Replace };
                    transaction.rewrite(collection, key, object(), rewrite, &options, timeline)
                }
                Step::Remove(key) => transaction.remove(collection, key, &options, timeline),
                Step::Import(_) => unreachable!("it is done above"),
            }
        },
    );
    attempt.map(|_| ())
}

/// Checks that each index has exactly the entries of the documents, and that the count of documents
/// is right. Returns the documents.
fn agree(documents: &Documents, collection: &Collection) -> Model {
    let shape = collection.shape();
    let mut model = Model::new();
    let mut expected = BTreeMap::new();
    let each = for_each(documents, &shape, &|| Ok(()), |key, object| {
        let key = String::from_utf8(key.to_vec()).unwrap();
        let document = crate::document_of(&shape, object)?;
        let document = packed::open(&document).unwrap();
        for index in shape.readable_indexes() {
            for entry in index.entries_of(document.as_object().unwrap(), &key)? {
                let other = expected.insert(entry.key, entry.value);
                assert_eq!(other, None, "{key} has the entry of another document");
            }
        }
        let mut value: serde_json::Value =
            serde_json::from_str(&json::to_string(document)).unwrap();
        let object = value.as_object_mut().unwrap();
        assert_eq!(object.remove("_key").unwrap(), serde_json::json!(key));
        for name in ["_rev", "_id"] {
            assert!(object.remove(name).is_some(), "{key} has no {name}");
        }
        model.insert(key, value);
        Ok(())
    });
    each.unwrap();
    let mut entries = BTreeMap::new();
    for index in shape.readable_indexes() {
        let mut scan = documents.storage().scan(&index.prefix, &index.prefix).unwrap();
        while let Some((key, object)) = scan.next().unwrap() {
            entries.insert(key.to_vec(), object.value.to_vec());
        }
    }
    assert_eq!(entries, expected, "entries of indexes beside those of the documents");
    assert_eq!(collection.count(), model.len() as u64);
    model
}

/// Regression: a generated key could be that of a document in the same batch, which was then
/// overwritten although both were acknowledged.
#[test]
fn a_generated_key_is_none_of_the_same_batch() {
    let documents = open(&SimulatedFileSystem::new()).unwrap();
    let collection = make(&documents).unwrap();
    let next = documents.next_tick().unwrap() + 1;
    let mut bodies: Vec<_> = (next..next + 50)
        .map(|key| with_key(&key.to_string(), &serde_json::json!({ "a": key })))
        .collect();
    bodies.push(parse(&serde_json::json!({ "a": 2 })));
    let (options, mut timeline) = (WriteOptions::default(), Timeline::off());
    let written = attempt_to_end(
        &documents,
        Acknowledgement::Os,
        true,
        &mut timeline,
        |transaction, timeline| {
            bodies.iter().try_for_each(|body| {
                let object = packed::open(body).ok().and_then(Ref::as_object).unwrap();
                transaction.insert(&collection, object, &options, timeline).map(drop)
            })
        },
    );
    written.unwrap();
    assert_eq!(agree(&documents, &collection).len(), 51);
}

/// Regression: an index on elements behind other fields returned a document once for each of its
/// entries, and a sparse one hid documents without its other fields.
#[test]
fn an_index_on_elements_finds_each_document_once() {
    let documents = open(&SimulatedFileSystem::new()).unwrap();
    let collection = make(&documents).unwrap();
    for (fields, sparse) in
        [(&["s", "l[*]"], false), (&["m[*]", "l[*]"], false), (&["n[*]", "s"], true)]
    {
        create_index(&documents, &collection, index(fields, false, sparse)).unwrap();
    }
    for (key, value) in [
        ("1", serde_json::json!({ "s": 1, "l": [1, 2, 3], "m": ["x", "y"], "n": ["x"] })),
        ("2", serde_json::json!({ "l": [1, 2], "m": ["x"], "n": ["x"] })),
    ] {
        apply(&documents, &collection, &Step::Insert(key.to_owned(), value)).unwrap();
    }
    for (rest, expected) in [
        ("FILTER d.s == 1", &["1"][..]),
        ("SORT d.s DESC LIMIT 5", &["1", "2"]),
        ("FILTER \"x\" IN d.m[*] SORT d._key", &["1", "2"]),
        ("FILTER \"x\" IN d.n SORT d._key", &["1", "2"]),
    ] {
        let text = format!("FOR d IN {COLLECTION} {rest} RETURN d._key");
        let expected: Vec<_> = expected.iter().map(|key| Value::from(*key)).collect();
        assert_eq!(query(&documents, &text, &serde_json::json!({})), expected, "{rest}");
    }
}

/// Regression: the entries of a step of a build were one batch, which a store with little memory
/// refused at every try.
#[test]
fn an_index_with_many_entries_is_built_with_little_memory() {
    let documents = open(&SimulatedFileSystem::new()).unwrap();
    let collection = make(&documents).unwrap();
    let tags: Vec<_> = (0..60).map(|tag| format!("tag {tag}")).collect();
    for number in 0..600 {
        let step = Step::Insert(number.to_string(), serde_json::json!({ "tags": tags }));
        apply(&documents, &collection, &step).unwrap();
    }
    create_index(&documents, &collection, index(&["tags[*]"], false, false)).unwrap();
    assert_eq!(agree(&documents, &collection).len(), 600);
}

/// Regression: long values are cut in an index, so that a look-up may have to read any number of
/// other entries. An event loop did that in one step that could not be cancelled.
#[test]
fn entries_with_the_same_cut_key_are_read_in_steps_and_refused_to_light_queries() {
    let documents = open(&SimulatedFileSystem::new()).unwrap();
    let collection = make(&documents).unwrap();
    let long = |number: usize| format!("{}{number}", "x".repeat(1_000));
    for number in 0..200 {
        let step = Step::Insert(number.to_string(), serde_json::json!({ "a": long(number) }));
        apply(&documents, &collection, &step).unwrap();
    }
    let binds = serde_json::json!({ "a": long(7) });
    let text = "FOR d IN c FILTER d.a == @a RETURN d._key";
    assert_eq!(query(&documents, text, &binds), [Value::from("7")]);

    let database = documents.database("_system").unwrap();
    let data = || crate::QueryData::new(&documents, &database, Acknowledgement::Os);
    let shape = collection.shape();
    let range = IndexRange { equal: vec![Value::from(&*long(7))], ..IndexRange::all() };
    let index = shape.indexes[0].definition.id;
    let request = IndexRequest { index, range, reverse: false, ordered_fields: 0 };
    let mut scan = data().index_scan(collection.id, &request).unwrap();
    let mut counting = DocumentCounter(0);
    let mut steps = 1;
    while scan.advance(&mut counting).unwrap() {
        steps += 1;
    }
    assert_eq!(counting.0, 1);
    assert!(steps >= 3, "200 entries in {steps} steps");
    let light = data()
        .light(pellucid_store::ReadMode::MayBlock)
        .index_scan(collection.id, &request)
        .err()
        .unwrap();
    assert_eq!(light, QueryError::NotLight);
    let mut counting = DocumentCounter(0);
    data().index_visit(collection.id, &request, &mut counting).unwrap();
    assert_eq!(counting.0, 1, "of the visited entries");
}

/// Regression: the hash at the end of an entry that was cut passed for the value of a field.
#[test]
fn a_cut_entry_gives_the_values_of_its_document() {
    let (documents, database, collection) = with_index();
    // The encoding of the first field, with 3 bytes around the text, is all that is kept. The
    // hashes of numbers 0 and 20 are encodings of values.
    let a = "x".repeat(FIELDS_KEPT_BYTES - 3);
    let b = |number: usize| format!("{number:0100}");
    for number in 0..30 {
        let document = serde_json::json!({ "a": a, "b": b(number) });
        apply(&documents, &collection, &Step::Insert(number.to_string(), document)).unwrap();
    }
    let data = crate::QueryData::new(&documents, &database, Acknowledgement::Os);
    let id = collection.shape().indexes[0].definition.id;
    let range = IndexRange::all();
    let request = IndexRequest { index: id, range, reverse: false, ordered_fields: 0 };
    let mut scan = data.index_fields(collection.id, &request).unwrap().unwrap();
    let mut values = Vec::new();
    let mut visit = |fields: &[Value]| -> ControlFlow<()> {
        values.push(fields[1].to_json());
        ControlFlow::Continue(())
    };
    while scan.advance(&mut visit).unwrap() {}
    values.sort_unstable();
    let expected: Vec<_> = (0..30).map(|number| format!("\"{}\"", b(number))).collect();
    assert_eq!(values, expected);
}

/// Regression: where an index replaced a sort, entries that are cut came in the order of their
/// hashes.
#[test]
fn long_values_are_in_order_behind_the_cut_of_their_entries() {
    let (documents, database, collection) = with_index();
    create_index(&documents, &collection, index(&["u"], true, false)).unwrap();
    // In the first index, the entries of 630 and more characters are cut. Those of 623 and 625 are
    // whole, and have the same first bytes.
    let lengths = [10, 610, 618, 623, 625, 630, 640, 700];
    let a = |number: usize| format!("{}{}", "x".repeat(lengths[number % 8]), number / 8 % 2);
    for number in 0..160 {
        let (a, b) = (a(number), number * 37 % 160);
        let document = serde_json::json!({ "a": a, "b": b, "c": number, "u": format!("{a}{b}") });
        apply(&documents, &collection, &Step::Insert(number.to_string(), document)).unwrap();
    }
    let one = format!("FILTER d.a == '{}'", a(15));
    for (filter, field, value) in [
        (&*one, "d.b", "d.b"),
        (&*one, "d.b", "d.c"),
        ("", "d.a", "d.a"),
        ("", "d.u", "d.u"),
        ("", "d.u", "d.c"),
    ] {
        for order in ["ASC", "DESC"] {
            let rows = |by: &str| {
                let text = format!("FOR d IN c {filter} SORT {by} {order} LIMIT 90 RETURN {value}");
                query(&documents, &text, &serde_json::json!({}))
            };
            assert_eq!(rows(field), rows(&format!("NOEVAL({field})")), "{field} {order} {value}");
        }
    }
    let (index, range) = (collection.shape().indexes[0].definition.id, IndexRange::all());
    let request = IndexRequest { index, range, reverse: false, ordered_fields: 1 };
    let data = crate::QueryData::new(&documents, &database, Acknowledgement::Os);
    let light = data.light(pellucid_store::ReadMode::MayBlock);
    let visited = light.index_visit(collection.id, &request, &mut DocumentCounter(0));
    assert_eq!(visited, Err(QueryError::NotLight));
}

/// Regression: entries waited for others that are cut although the fields of the sort were whole,
/// and no limit of memory counted them.
#[test]
fn entries_wait_only_for_the_order_of_cut_fields_and_in_the_memory_of_the_query() {
    let (documents, database, collection) = with_index();
    for number in 0..200 {
        let b = format!("{}{number}", "x".repeat(2_000));
        let document = serde_json::json!({ "a": number % 2, "b": b });
        apply(&documents, &collection, &Step::Insert(number.to_string(), document)).unwrap();
    }
    let data = || crate::QueryData::new(&documents, &database, Acknowledgement::Os);
    let rows = |data: crate::QueryData, text: &str, memory_bytes_max: usize| {
        let options = QueryOptions { memory_bytes_max, ..QueryOptions::default() };
        execution(data, text, &serde_json::json!({}), options).next(usize::MAX / 2, usize::MAX)
    };
    for (rest, a) in [("SORT d.a", 0_i64), ("SORT d.a DESC", 1), ("FILTER d.a == 1 SORT d.a", 1)] {
        let light = data().light(pellucid_store::ReadMode::MayBlock);
        let text = format!("FOR d IN c {rest} LIMIT 10 RETURN d.a");
        assert_eq!(rows(light, &text, 0), Ok(vec![Value::from(a); 10]), "{rest}");
    }
    // Each of the two groups takes some 150 kB.
    for value in ["d.a", "d.c"] {
        let text = format!("FOR d IN c SORT d.a, d.b LIMIT 1 RETURN {value}");
        let refused = rows(data(), &text, 64 << 10).unwrap_err();
        assert_eq!(refused.number(), pellucid_aql::number::RESOURCE_LIMIT, "{value}");
    }
    let text = "FOR d IN c SORT d.a, d.b LIMIT 200 RETURN d.a";
    let expected: Vec<_> = (0..200_i64).map(|number| Value::from(number / 100)).collect();
    assert_eq!(rows(data(), text, 256 << 10), Ok(expected));
}

/// Regression: a bind variable that is compared was not a constant where one is needed, because
/// the plan was to be reused for its other values.
#[test]
fn a_compared_bind_variable_may_decide_the_plan() {
    let documents = open(&SimulatedFileSystem::new()).unwrap();
    for text in [
        "FOR i IN 1..9 LIMIT @a == 1 ? 2 : 3 RETURN i",
        "LET n = @a == 1 ? 2 : 3 FOR i IN 1..9 LIMIT n RETURN i",
        "FOR i IN 1..2 SORT i @a == 1 RETURN i",
    ] {
        assert_eq!(query(&documents, text, &serde_json::json!({ "a": 1 })).len(), 2, "{text}");
    }
}

/// Counts documents.
struct DocumentCounter(usize);

impl Visitor for DocumentCounter {
    fn wants(&mut self, _: Ref<'_>) -> ControlFlow<(), bool> {
        ControlFlow::Continue(true)
    }

    fn visit(&mut self, _: &[u8]) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}

/// Regression: a collection whose database was not there kept the whole store from being opened.
#[test]
fn a_collection_without_its_database_is_left_out() {
    let files = SimulatedFileSystem::new();
    let documents = open(&files).unwrap();
    let mut definition = make(&documents).unwrap().shape().definition.clone();
    (definition.id, definition.database, definition.name) = (77, 78, "orphan".to_owned());
    documents.storage().change_collection(&definition, &[]).unwrap();
    documents.store().close().unwrap();
    drop(documents);
    let documents = open(&files).unwrap();
    assert!(found(&documents).is_some());
    assert_eq!(documents.take_orphans(), ["orphan"]);
    assert!(documents.take_orphans().is_empty());
}

/// Regression: if it was unknown whether a write took effect, the count of documents was wrong for
/// good, because it was noted for the next opening.
#[test]
fn an_uncertain_count_is_counted_anew() {
    let files = SimulatedFileSystem::new();
    let documents = open(&files).unwrap();
    let collection = make(&documents).unwrap();
    apply(&documents, &collection, &Step::Insert("a".to_owned(), serde_json::json!({}))).unwrap();
    let lose_an_answer = |collection: &Arc<Collection>| {
        collection.note_written(-1, 0);
        let commit = PendingCommit::new(vec![(collection.begin_batch(), 1)], 1, Vec::new(), None);
        commit.finish(Err(StoreError::Unreachable(String::new()))).unwrap_err();
        assert_eq!(collection.count(), 0);
    };
    lose_an_answer(&collection);
    let cancelled = || Err(ErrorNumber::QUERY_KILLED.into());
    let error = documents.recount(&collection, &cancelled).unwrap_err();
    assert_eq!(error.number, ErrorNumber::QUERY_KILLED);
    documents.recount(&collection, &|| Ok(())).unwrap();
    assert_eq!(agree(&documents, &collection).len(), 1);
    lose_an_answer(&collection);
    documents.note_counts().unwrap();
    documents.store().close().unwrap();
    drop(documents);
    let documents = open(&files).unwrap();
    assert_eq!(agree(&documents, &found(&documents).unwrap()).len(), 1);
}

/// Regression: a query that was planned before an index was removed, and read after that, found
/// what the removal had left of it, as if that were all.
#[test]
fn a_query_reads_no_index_and_no_documents_that_are_garbage() {
    let documents = open(&SimulatedFileSystem::new()).unwrap();
    let collection = make(&documents).unwrap();
    let system = documents.database("_system").unwrap();
    let insert = |key: &str| {
        let step = Step::Insert(key.to_owned(), serde_json::json!({ "a": 1 }));
        apply(&documents, &collection, &step).unwrap();
    };
    insert("one");
    let number_after = |change: &dyn Fn() -> Result<()>| {
        let text = "FOR d IN c FILTER d.a == 1 RETURN d._key";
        let mut execution = planned(&documents, text, &serde_json::json!({}));
        change().unwrap();
        while documents.remove_garbage().unwrap() {}
        let rows = execution.next(usize::MAX / 2, usize::MAX);
        rows.map(|rows| rows.len()).map_err(|error| error.number())
    };
    assert_eq!(number_after(&|| documents.set_wait_for_sync(&collection, true)), Ok(1));
    let id = collection.shape().indexes[0].definition.id;
    assert_eq!(number_after(&|| crate::drop_index(&documents, &collection, id)), Err(1200));
    assert_eq!(number_after(&|| documents.truncate(&collection)), Err(1200));
    insert("two");
    assert_eq!(number_after(&|| documents.drop_collection(&system, &collection)), Err(1203));
}

/// Regression: the garbage of a change could be removed while queries were still planned with the
/// definition before the change.
#[test]
fn no_garbage_is_removed_while_a_definition_changes() {
    let documents = open(&SimulatedFileSystem::new()).unwrap();
    let collection = make(&documents).unwrap();
    documents.truncate(&collection).unwrap();
    let garbage = || documents.storage().reader().garbage().unwrap().len();
    let turn = documents.change_turn();
    assert!(!documents.remove_garbage().unwrap());
    assert_eq!(garbage(), 1);
    drop(turn);
    while documents.remove_garbage().unwrap() {}
    assert_eq!(garbage(), 0);
}

/// Regression: an index whose failed build could not be removed stayed in the definition, and
/// stopped others from being built.
#[test]
fn an_index_that_a_failed_build_left_over_is_removed_by_the_next_build() {
    let documents = open(&SimulatedFileSystem::new()).unwrap();
    let collection = make(&documents).unwrap();
    let expires = |field: &str| IndexDefinition {
        kind: IndexKind::Ttl,
        expire_after_seconds: Some(1.0),
        ..index(&[field], false, true)
    };
    let left_over = IndexDefinition {
        id: documents.next_tick().unwrap(),
        name: "left over".to_owned(),
        state: IndexState::Filling,
        ..expires("x")
    };
    let turn = documents.change_turn();
    let change = |definition: &mut CollectionDefinition| {
        definition.indexes.push(left_over.clone());
        Ok(((), Vec::new()))
    };
    documents.change_collection(&collection, change).unwrap();
    drop(turn);
    create_index(&documents, &collection, expires("y")).unwrap();
    let shape = collection.shape();
    let mut indexes = shape.indexes.iter();
    assert!(indexes.all(|index| index.definition.state == IndexState::Ready));
    let prefix = index_prefix(shape.definition.storage, left_over.id, false);
    assert_eq!(documents.storage().reader().garbage().unwrap(), [prefix]);
}

/// Regression: after any conflict of a batch with a generated key, each further number was looked
/// up before it became a key.
#[test]
fn only_a_conflict_of_a_generated_key_makes_numbers_looked_up() {
    let documents = open(&SimulatedFileSystem::new()).unwrap();
    let collection = make(&documents).unwrap();
    let insert = Step::Insert("one".to_owned(), serde_json::json!({}));
    apply(&documents, &collection, &insert).unwrap();
    let (options, mut timeline) = (WriteOptions::default(), Timeline::off());
    let body = parse(&serde_json::json!({ "a": 1 }));
    let body = packed::open(&body).ok().and_then(Ref::as_object).unwrap();
    let mut transaction = Transaction::begin(&documents);
    transaction.insert(&collection, body, &options, &mut timeline).unwrap();
    let rewrite = Rewrite::Update;
    transaction.rewrite(&collection, "one", body, rewrite, &options, &mut timeline).unwrap();
    let update = Step::Update("one".to_owned(), serde_json::json!({ "a": 2 }));
    apply(&documents, &collection, &update).unwrap();
    let refused = transaction.commit(Acknowledgement::Os, &mut timeline).wait();
    assert!(refused.unwrap_err().is_conflict());
    assert!(!collection.has_number_keys());
}

/// Regression: the entries of indexes that a query adds or removes were in no limit of memory, and
/// there may be ten thousand for a small document.
#[test]
fn the_index_entries_of_a_query_take_its_memory() {
    let documents = open(&SimulatedFileSystem::new()).unwrap();
    let database = documents.database("_system").unwrap();
    let new = CollectionDefinition::named(COLLECTION);
    let collection = documents.create_collection(&database, new).unwrap();
    create_index(&documents, &collection, index(&["a[*]", "b[*]"], false, false)).unwrap();
    let (a, b): (Vec<_>, Vec<_>) = ((0..10).collect(), (0..20).collect());
    for number in 0..100 {
        let document = serde_json::json!({ "a": a, "b": b });
        apply(&documents, &collection, &Step::Insert(number.to_string(), document)).unwrap();
    }
    for text in ["FOR i IN 1..20 INSERT {a: 1..100, b: 1..100} INTO c", "FOR d IN c REMOVE d IN c"]
    {
        let data = crate::QueryData::new(&documents, &database, Acknowledgement::Os);
        let options = QueryOptions { memory_bytes_max: 4 << 20, ..QueryOptions::default() };
        let mut execution = execution(data, text, &serde_json::json!({}), options);
        let refused = execution.next(usize::MAX / 2, usize::MAX).unwrap_err();
        // The store refuses such a batch with the same number, but only at the end.
        assert_eq!(refused.number(), pellucid_aql::number::RESOURCE_LIMIT, "{text}");
        assert!(refused.to_string().starts_with("query would use more memory"), "{refused}");
    }
}

/// Regression: an event loop waited in the commit of a document for a step of an index build that
/// had begun after it had looked, or tried again and again meanwhile.
#[test]
fn a_commit_that_never_waits_is_refused_while_the_definition_changes() {
    let documents = open(&SimulatedFileSystem::new()).unwrap();
    let collection = make(&documents).unwrap();
    let (options, mut timeline) = (WriteOptions::default(), Timeline::off());
    let body = parse(&serde_json::json!({ "a": 1 }));
    let body = packed::open(&body).ok().and_then(Ref::as_object).unwrap();
    let mut attempts = 0;
    let mut write = || {
        let os = Acknowledgement::Os;
        let attempt = attempt(&documents, os, false, &mut timeline, |transaction, timeline| {
            attempts += 1;
            transaction.never_wait();
            transaction.insert(&collection, body, &options, timeline)
        });
        attempt.unwrap().1.wait()
    };
    let writers = collection.hold_writers().unwrap();
    assert_eq!(write().unwrap_err().number, ErrorNumber::LOCKED);
    drop(writers);
    write().unwrap();
    assert_eq!((attempts, agree(&documents, &collection).len()), (2, 1));
}

/// Regression: a text that is too long for a key, and is compared with keys, ended the query.
#[test]
fn a_text_that_is_too_long_for_a_key_finds_nothing() {
    let (documents, ..) = with_index();
    let binds = serde_json::json!({ "k": "x".repeat(2_000) });
    for (text, expected) in [
        ("FOR d IN c FILTER d._key == @k RETURN 1", vec![]),
        ("FOR d IN c FILTER d._key IN [@k] RETURN 1", vec![]),
        ("FOR d IN c FILTER d._id == CONCAT('c/', @k) RETURN 1", vec![]),
        ("RETURN DOCUMENT(CONCAT('c/', @k))", vec![Value::Null]),
        ("REMOVE @k IN c OPTIONS {ignoreErrors: true}", vec![]),
    ] {
        assert_eq!(query(&documents, text, &binds), expected, "{text}");
    }
    let refused = planned(&documents, "REMOVE @k IN c", &binds).next(1, usize::MAX).unwrap_err();
    assert_eq!(refused.number(), pellucid_aql::number::DOCUMENT_NOT_FOUND);
}

/// Regression: a covering index whose values are cut reads documents, which counted neither for the
/// limit of light queries nor as look-ups.
#[test]
fn the_documents_that_a_covering_index_reads_count() {
    let (documents, database, collection) = with_index();
    for number in 0..40 {
        let document = serde_json::json!({ "a": 1, "b": "x".repeat(10_000) });
        apply(&documents, &collection, &Step::Insert(number.to_string(), document)).unwrap();
    }
    let data = || crate::QueryData::new(&documents, &database, Acknowledgement::Os);
    let (text, binds) = ("FOR d IN c FILTER d.a == 1 RETURN d.b", serde_json::json!({}));
    let mut execution_of_worker = execution(data(), text, &binds, QueryOptions::default());
    assert_eq!(execution_of_worker.next(100, usize::MAX).unwrap().len(), 40);
    assert_eq!(execution_of_worker.stats().document_lookups, 40);
    let light = data().light(pellucid_store::ReadMode::MayBlock);
    let limits = QueryOptions { is_light: true, ..QueryOptions::default() };
    let refused = execution(light, text, &binds, limits).next(100, usize::MAX);
    assert_eq!(refused, Err(QueryError::NotLight));
}

/// Regression: the write of a document that another writer had removed after the query's snapshot
/// was refused as not found, and so clients did not repeat the query. An insertion that overwrites
/// made the document anew.
#[test]
fn a_write_to_a_document_that_was_removed_after_the_snapshot_is_a_conflict() {
    let (documents, database, collection) = with_index();
    for key in ["own", "other"] {
        let step = Step::Insert(key.to_owned(), serde_json::json!({ "a": 1 }));
        apply(&documents, &collection, &step).unwrap();
    }
    let data = crate::QueryData::new(&documents, &database, Acknowledgement::Os);
    data.scan(collection.id).unwrap();
    apply(&documents, &collection, &Step::Remove("other".to_owned())).unwrap();
    let mut writes = data.begin_writes().unwrap();
    let mut refusal = |kind: WriteKind, key: &str, overwrite_mode: Overwrite| {
        let document = serde_json::json!({ "_key": key, "a": 2 });
        let document = &Value::open(&parse(&document)).unwrap();
        let options = &pellucid_aql::WriteOptions { overwrite_mode, ..Default::default() };
        let (key, collection) = (Some(key), collection.id);
        let write = Write { kind, collection, key, revision: None, document, options };
        writes.add(&write).err().map(|error| error.number())
    };
    for kind in [WriteKind::Update, WriteKind::Replace, WriteKind::Remove] {
        assert_eq!(refusal(kind, "other", Overwrite::Conflict), Some(1200), "{kind:?}");
    }
    for mode in [Overwrite::Ignore, Overwrite::Update, Overwrite::Replace] {
        assert_eq!(refusal(WriteKind::Insert, "other", mode), Some(1200), "{mode:?}");
    }
    let mut removal = |key: &str| refusal(WriteKind::Remove, key, Overwrite::Conflict);
    assert_eq!(removal("nothing"), Some(1202));
    assert_eq!(removal("own"), None);
    assert_eq!(removal("own"), Some(1202), "the query removed it itself");
    assert_eq!(refusal(WriteKind::Insert, "own", Overwrite::Update), None);
}

/// Regression: with `ignoreRevs: false`, an upsert conflicted with a document that its query had
/// written, and the revision that the update named was not looked at.
#[test]
fn an_upsert_expects_the_revision_that_its_update_names() {
    let (documents, ..) = with_index();
    let rows = |update: &str| {
        let text = format!(
            "FOR i IN 1..2 UPSERT {{a: 1}} INSERT {{a: 1, n: 1}} UPDATE {update} IN c \
             OPTIONS {{ignoreRevs: false}} RETURN NEW.n"
        );
        let rows = planned(&documents, &text, &serde_json::json!({})).next(9, usize::MAX);
        rows.map_err(|error| error.number())
    };
    let numbers = |numbers: [i64; 2]| Ok(numbers.map(Value::from).to_vec());
    assert_eq!(rows("{n: OLD.n + 1}"), numbers([1, 2]));
    assert_eq!(rows("MERGE(OLD, {n: OLD.n + 1})"), numbers([3, 4]));
    assert_eq!(rows("{_rev: 'x', n: 9}"), Err(1200));
}

/// Regression: each row counted a collection anew, and so rows of one query differed.
#[test]
fn all_rows_of_a_query_have_the_same_count() {
    let (documents, _, collection) = with_index();
    let text = "FOR i IN 1..100 RETURN LENGTH(c)";
    let mut execution = planned(&documents, text, &serde_json::json!({}));
    let mut counts = execution.next(10, usize::MAX).unwrap();
    let insert = Step::Insert("one".to_owned(), serde_json::json!({}));
    apply(&documents, &collection, &insert).unwrap();
    counts.extend(execution.next(usize::MAX / 2, usize::MAX).unwrap());
    assert_eq!(counts, vec![Value::from(0_i64); 100]);
}

/// The result of a query.
fn query(documents: &Arc<Documents>, text: &str, binds: &serde_json::Value) -> Vec<Value> {
    planned(documents, text, binds).next(usize::MAX / 2, usize::MAX).unwrap()
}

/// A query that is planned and has not read anything.
fn planned(documents: &Arc<Documents>, text: &str, binds: &serde_json::Value) -> Execution {
    let database = documents.database("_system").unwrap();
    let data = crate::QueryData::new(documents, &database, Acknowledgement::Os);
    execution(data, text, binds, QueryOptions::default())
}

/// As [`planned`], for a query on `data` that is executed with `limits`.
fn execution(
    data: crate::QueryData,
    text: &str,
    binds: &serde_json::Value,
    limits: QueryOptions,
) -> Execution {
    let source: Arc<dyn Source> = Arc::new(data);
    let binds = Value::open(&parse(binds)).unwrap();
    let options = QueryOptions::default();
    let plan = StatementCache::default()
        .read(text, &options)
        .unwrap()
        .plan(&binds, &source, &options, &KillSwitch::default())
        .unwrap();
    Execution::new(plan, &binds, source, limits, KillSwitch::default())
}
