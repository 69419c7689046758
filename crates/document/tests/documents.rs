//! Tests of collections, documents and indexes on the embedded store.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{parse, persistent, world, world_of, world_that_hands_over};
use pellucid_account::Timeline;
use pellucid_budget::Budget;
use pellucid_document::{
    CollectionDefinition, CollectionKind, Commit, DocumentError, ErrorNumber, ImportForm,
    ImportOptions, IndexDefinition, IndexKind, Overwrite, Rewrite, Transaction, WriteOptions,
    create_index, create_index_while, import, remove_expired,
};
use pellucid_store::{Acknowledgement, Answer};
use pellucid_value::{Ref, packed};
use serde_json::json;

#[test]
fn documents_are_there_after_a_restart_with_their_collections_and_counts() {
    let world = world();
    let database = world.documents.create_database("other").unwrap();
    assert_eq!(world.documents.create_database("other").unwrap_err().number.0, 1207);
    assert_eq!(database.collections().len(), 0);
    let people = world.make("people");
    assert_eq!(world.insert(&people, r#"{"_key":"ann","age":7}"#).unwrap(), "ann");
    let number = world.insert(&people, r#"{"age":8}"#).unwrap();
    let world = world.reopened();
    assert_eq!(world.documents.database_names(), ["_system", "other"]);
    let people = world.system().collection("people").unwrap();
    assert_eq!(people.count(), 2);
    let expected = json!({"_key": "ann", "_id": "people/ann", "age": 7});
    assert_eq!(world.read(&people, "ann").unwrap(), expected);
    let next: u64 = world.insert(&people, "{}").unwrap().parse().unwrap();
    assert!(next > number.parse().unwrap());
    assert_eq!(world.system().collection(&people.id.to_string()).unwrap().name(), "people");
    assert_eq!(world.system().collection("nobody").unwrap_err().number.0, 1203);
}

/// Regression: a collection could be created in a database that was dropped meanwhile. Its
/// definition then kept the store from being opened.
#[test]
fn no_collection_is_created_in_a_dropped_database() {
    let world = world();
    let database = world.documents.create_database("d").unwrap();
    world.documents.drop_database("d").unwrap();
    let made = world.documents.create_collection(&database, CollectionDefinition::named("c"));
    assert_eq!(made.unwrap_err().number, ErrorNumber::DATABASE_NOT_FOUND);
    assert_eq!(world.reopened().documents.database_names(), ["_system"]);
}

/// Regression: inserts without a key failed with a conflict if the next numbers were keys already,
/// such as those of an import from another database.
#[test]
fn generated_keys_skip_numbers_that_are_keys() {
    let (world, people) = world_of("people");
    let number: u64 = world.insert(&people, "{}").unwrap().parse().unwrap();
    for taken in number + 1..=number + 200 {
        world.insert(&people, &format!(r#"{{"_key":"{taken}"}}"#)).unwrap();
    }
    let mut query = common::begin_query(&world.documents);
    let next: u64 = world.insert(&people, "{}").unwrap().parse().unwrap();
    assert!(next > number + 200, "{next}");
    for taken in next + 1..=next + 200 {
        world.insert(&people, &format!(r#"{{"_key":"{taken}"}}"#)).unwrap();
    }
    let (document, options, mut timeline) = (parse("{}"), WriteOptions::default(), Timeline::off());
    let body = packed::open(&document).unwrap().as_object().unwrap();
    query.insert(&people, body, &options, &mut timeline).unwrap();
    query.commit(Acknowledgement::Os, &mut timeline).wait().unwrap();
    assert_eq!(people.count(), 403);
    // After a restart, the first conflict tells.
    let people = |world: &common::TestFixture| world.system().collection("people").unwrap();
    let world = world.reopened();
    let number: u64 = world.insert(&people(&world), "{}").unwrap().parse().unwrap();
    let next = number + (1 << 16);
    for taken in next..next + 200 {
        world.insert(&people(&world), &format!(r#"{{"_key":"{taken}"}}"#)).unwrap();
    }
    let world = world.reopened();
    let number: u64 = world.insert(&people(&world), "{}").unwrap().parse().unwrap();
    assert!(number >= next + 200, "{number}");
    // A query is not run again after a conflict.
    let next = next + (1 << 16);
    for taken in next..next + 200 {
        world.insert(&people(&world), &format!(r#"{{"_key":"{taken}"}}"#)).unwrap();
    }
    let world = world.reopened();
    let people = people(&world);
    let mut query = common::begin_query(&world.documents);
    query.insert(&people, body, &options, &mut timeline).unwrap();
    query.commit(Acknowledgement::Os, &mut timeline).wait().unwrap();
    assert!(people.last_number() >= next + 200, "{}", people.last_number());
}

#[test]
fn invalid_keys_and_duplicate_keys_are_refused() {
    let (world, people) = world_of("people");
    for key in ["1", r#""""#, r#""a/b""#, "null"] {
        let text = format!(r#"{{"_key":{key}}}"#);
        assert_eq!(world.insert(&people, &text).unwrap_err().number.0, 1221, "{text}");
    }
    world.insert(&people, r#"{"_key":"a","x":1,"deep":{"one":1}}"#).unwrap();
    let error = world.insert(&people, r#"{"_key":"a"}"#).unwrap_err();
    assert_eq!(
        error.message,
        "unique constraint violated - in index primary of type primary over '_key'; conflicting \
         key: a"
    );
    let with = |overwrite, text: &str| {
        let options = WriteOptions { overwrite, ..WriteOptions::default() };
        world.insert_with(&people, text, &options).unwrap();
        world.read(&people, "a").unwrap()
    };
    let before = world.read(&people, "a").unwrap();
    assert_eq!(with(Overwrite::Ignore, r#"{"_key":"a","x":2}"#), before);
    let updated = with(Overwrite::Update, r#"{"_key":"a","x":2,"deep":{"two":2}}"#);
    assert_eq!((&updated["x"], &updated["deep"]), (&json!(2), &json!({"one": 1, "two": 2})));
    let replaced = with(Overwrite::Replace, r#"{"_key":"a","y":3}"#);
    assert_eq!(replaced, json!({"_key": "a", "_id": "people/a", "y": 3}));
    assert_eq!(people.count(), 1);
    world.remove(&people, "a").unwrap();
    assert_eq!(world.remove(&people, "a").unwrap_err().number.0, 1202);
    assert_eq!(people.count(), 0);
}

#[test]
fn edges_need_their_ends() {
    let world = world();
    let edges = world.make_of("edges", CollectionKind::Edges);
    for text in [r"{}", r#"{"_from":"a/1"}"#, r#"{"_from":"a/1","_to":"b"}"#] {
        let error = world.insert(&edges, text).unwrap_err();
        assert_eq!(error.number, ErrorNumber::INVALID_EDGE_ATTRIBUTE);
    }
    world.insert(&edges, r#"{"_key":"e","x":1,"_from":"a/1","_to":"b/2"}"#).unwrap();
    world.update(&edges, "e", r#"{"_to":"b/3"}"#).unwrap();
    let expected = json!({"_key": "e", "_id": "edges/e", "_from": "a/1", "_to": "b/3", "x": 1});
    assert_eq!(world.read(&edges, "e").unwrap(), expected);
}

#[test]
fn unique_indexes_refuse_existing_values_and_accept_removed_ones() {
    let (world, people) = world_of("people");
    let (index, is_new) =
        create_index(&world.documents, &people, persistent(&["mail", "n"], true, false)).unwrap();
    assert!(is_new);
    world.insert(&people, r#"{"_key":"a","mail":"x"}"#).unwrap();
    let error = world.insert(&people, r#"{"_key":"b","mail":"x"}"#).unwrap_err();
    assert_eq!(
        error.message,
        format!(
            "unique constraint violated - in index {} of type persistent over 'mail, n'; \
             conflicting key: a",
            index.name
        )
    );
    assert_eq!(world.read(&people, "b"), None);
    world.update(&people, "a", r#"{"mail":"y"}"#).unwrap();
    world.insert(&people, r#"{"_key":"b","mail":"x"}"#).unwrap();
    assert_eq!(world.update(&people, "a", r#"{"mail":"x"}"#).unwrap_err().number.0, 1210);
    world.remove(&people, "b").unwrap();
    world.update(&people, "a", r#"{"mail":"x"}"#).unwrap();
    // One document and one entry: the refused writes left nothing behind.
    assert_eq!(world.store_keys(), 2);
    let same = create_index(&world.documents, &people, persistent(&["mail", "n"], true, false));
    assert_eq!(same.unwrap(), (index, false));
}

#[test]
fn indexes_are_filled_and_refused_if_documents_do_not_fit() {
    let (world, people) = world_of("people");
    for number in 0..2_000 {
        let text = format!(r#"{{"_key":"k{number}","n":{number},"half":{}}}"#, number / 2);
        world.insert(&people, &text).unwrap();
    }
    create_index(&world.documents, &people, persistent(&["n"], true, false)).unwrap();
    assert_eq!(world.store_keys(), 4_000);
    let error = create_index(&world.documents, &people, persistent(&["half"], true, false));
    assert_eq!(error.unwrap_err().number, ErrorNumber::UNIQUE_CONSTRAINT);
    while world.documents.remove_garbage().unwrap() {}
    assert_eq!((world.store_keys(), people.shape().indexes.len()), (4_000, 1));
    world.documents.truncate(&people).unwrap();
    assert_eq!((people.count(), world.read(&people, "k1")), (0, None));
    world.insert(&people, r#"{"_key":"k1","n":1}"#).unwrap();
    while world.documents.remove_garbage().unwrap() {}
    assert_eq!(world.store_keys(), 2);
    world.documents.drop_collection(&world.system(), &people).unwrap();
    assert_eq!(world.insert(&people, "{}").unwrap_err().number.0, 1203);
    while world.documents.remove_garbage().unwrap() {}
    assert_eq!(world.store_keys(), 0);
}

/// Regression: an index that existed under another name was returned, or refused for the name of a
/// third one, by the order of the indexes.
#[test]
fn an_existing_index_is_returned_whatever_name_is_asked_for() {
    let (world, people) = world_of("people");
    let named = |name: &str, field: &str| IndexDefinition {
        name: name.to_owned(),
        ..persistent(&[field], false, false)
    };
    let create = |wanted| create_index(&world.documents, &people, wanted);
    let (_, is_new) = create(named("a", "y")).unwrap();
    let (on_x, _) = create(named("b", "x")).unwrap();
    assert!(is_new);
    assert_eq!(create(named("a", "x")).unwrap(), (on_x, false));
    assert_eq!(create(named("a", "z")).unwrap_err().number, ErrorNumber::DUPLICATE_IDENTIFIER);
}

/// Regression: the name that was made for an index could be that of another one, which was then
/// removed in its place.
#[test]
fn a_made_index_name_is_not_taken() {
    let (world, people) = world_of("people");
    let create = |name: &str, field: &str| {
        let name = name.to_owned();
        let wanted = IndexDefinition { name, ..persistent(&[field], false, false) };
        create_index(&world.documents, &people, wanted).unwrap().0
    };
    let first = create("", "first");
    // These indexes take the numbers up to those in their names.
    for number in 1..=20 {
        create(&format!("idx_{}", first.id + 20 + number), &format!("n{number}"));
    }
    create("", "last");
    let shape = people.shape();
    let mut names: Vec<_> = shape.indexes.iter().map(|index| &index.definition.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 22);
}

/// Regression: the count that was noted for the next opening lacked the documents of writes that
/// the store had not answered, and wrote when it was closed.
#[test]
fn no_count_is_noted_that_a_write_under_way_changes() {
    let world = world_that_hands_over();
    let people = world.make("people");
    let document = parse("{}");
    let body = packed::open(&document).unwrap().as_object().unwrap();
    let mut timeline = Timeline::off();
    let mut transaction = Transaction::begin(&world.documents);
    transaction.insert(&people, body, &WriteOptions::default(), &mut timeline).unwrap();
    let commit = transaction.commit(Acknowledgement::Disk, &mut timeline);
    assert!(matches!(commit, Commit::Later(..)), "it is handed over");
    world.documents.note_counts().unwrap();
    commit.wait().unwrap();
    let world = world.reopened();
    assert_eq!(world.system().collection("people").unwrap().count(), 1);
}

/// Regression: garbage was looked for every second, which sorted the whole memtable each time.
#[test]
fn garbage_is_looked_for_until_there_is_none() {
    let (world, people) = world_of("people");
    world.insert(&people, r#"{"_key":"a"}"#).unwrap();
    while world.documents.remove_garbage().unwrap() {}
    world.documents.drop_collection(&world.system(), &people).unwrap();
    let world = world.reopened();
    assert!(
        world.documents.remove_garbage().unwrap(),
        "the collection was dropped before the store was opened"
    );
    while world.documents.remove_garbage().unwrap() {}
    assert_eq!(world.store_keys(), 0);
    world.documents.store().close().unwrap();
    assert!(!world.documents.remove_garbage().unwrap(), "a closed store would refuse a scan");
}

#[test]
fn arrays_have_an_entry_for_each_element_and_sparse_indexes_none_for_null() {
    let (world, people) = world_of("people");
    create_index(&world.documents, &people, persistent(&["tags[*].name"], false, true)).unwrap();
    create_index(&world.documents, &people, persistent(&["a.b"], false, true)).unwrap();
    world.insert(&people, r#"{"tags":[{"name":"x"},{"name":"y"},{"name":"x"},{}]}"#).unwrap();
    assert_eq!(world.store_keys(), 3);
    world.insert(&people, r#"{"tags":"x","a":{"b":null}}"#).unwrap();
    assert_eq!(world.store_keys(), 4);
    world.insert(&people, r#"{"a":{"b":1}}"#).unwrap();
    assert_eq!(world.store_keys(), 6);
}

/// A TTL index on `at`.
fn ttl(expire_after_seconds: f64) -> IndexDefinition {
    IndexDefinition {
        kind: IndexKind::Ttl,
        expire_after_seconds: Some(expire_after_seconds),
        ..persistent(&["at"], false, true)
    }
}

#[test]
fn documents_expire_at_their_time_and_not_before() {
    let (world, sessions) = world_of("sessions");
    create_index(&world.documents, &sessions, ttl(10.0)).unwrap();
    world.insert(&sessions, r#"{"_key":"early","at":100}"#).unwrap();
    world.insert(&sessions, r#"{"_key":"text","at":"1970-01-01T00:01:40Z"}"#).unwrap();
    world.insert(&sessions, r#"{"_key":"late","at":200}"#).unwrap();
    world.insert(&sessions, r#"{"_key":"never","at":"soon"}"#).unwrap();
    assert_eq!(remove_expired(&world.documents, 109.0), (0, Ok(())));
    assert_eq!(remove_expired(&world.documents, 111.0), (2, Ok(())));
    assert!(world.read(&sessions, "early").is_none() && world.read(&sessions, "text").is_none());
    assert_eq!(remove_expired(&world.documents, 1e9), (1, Ok(())));
    assert!(world.read(&sessions, "never").is_some());
}

/// Regression: times before 1970, such as -1 for "never", were over at once.
#[test]
fn times_from_1970_on_expire_in_the_forms_of_dates_in_queries() {
    let (world, sessions) = world_of("sessions");
    create_index(&world.documents, &sessions, ttl(0.0)).unwrap();
    for (at, seconds) in [
        ("0", Some(0.0)),
        ("0.25", Some(0.25)),
        ("-1", None),
        ("-0.25", None),
        ("true", None),
        (r#""1577836800""#, None),
        (r#""1960-01-01""#, None),
        (r#""1969-12-31T23:59:59.500Z""#, None),
        (r#""1970-01-01""#, Some(0.0)),
        (r#""2020""#, Some(1_577_836_800.0)),
        (r#""2020-01""#, Some(1_577_836_800.0)),
        (r#"" 2020-1-1 00:00Z ""#, Some(1_577_836_800.0)),
        (r#""2020-01-01T00:00:00.999Z""#, Some(1_577_836_800.0)),
        (r#""2020-01-01T02:00:00+02:00""#, Some(1_577_836_800.0)),
        (r#""2019-02-31""#, Some(1_551_571_200.0)),
        (r#""2019-02-32""#, None),
        (r#""2020-01-01t00:00:00z""#, None),
        (r#""2020-01-01T""#, None),
        (r#""2020-01-01T24:00:00""#, None),
    ] {
        world.insert(&sessions, &format!(r#"{{"_key":"k","at":{at}}}"#)).unwrap();
        match seconds {
            Some(seconds) => {
                assert_eq!(remove_expired(&world.documents, seconds), (0, Ok(())), "{at}");
                assert_eq!(remove_expired(&world.documents, seconds + 0.5), (1, Ok(())), "{at}");
            }
            None => {
                assert_eq!(remove_expired(&world.documents, 1e12), (0, Ok(())), "{at}");
                world.remove(&sessions, "k").unwrap();
            }
        }
    }
}

/// Regression: expired documents with many entries in another index did not fit in one batch, so
/// they were never removed.
#[test]
fn documents_with_many_entries_expire_one_by_one() {
    let (world, sessions) = world_of("sessions");
    create_index(&world.documents, &sessions, ttl(0.0)).unwrap();
    create_index(&world.documents, &sessions, persistent(&["tags[*]"], false, false)).unwrap();
    let tags: Vec<String> = (0..10_000).map(|tag| tag.to_string()).collect();
    let tags = tags.join(",");
    for _ in 0..7 {
        world.insert(&sessions, &format!(r#"{{"at":1,"tags":[{tags}]}}"#)).unwrap();
    }
    let steps = (0..8).map(|_| remove_expired(&world.documents, 2.0).0);
    assert_eq!(steps.sum::<usize>(), 7);
    assert_eq!(world.store_keys(), 0);
}

/// Of two transactions that read the same state, the second to commit is refused as a whole.
#[test]
fn a_batch_that_conflicts_leaves_nothing_behind() {
    let (world, people) = world_of("people");
    create_index(&world.documents, &people, persistent(&["n"], false, false)).unwrap();
    world.insert(&people, r#"{"_key":"a","n":1}"#).unwrap();
    let document = parse(r#"{"n":2}"#);
    let body = packed::open(&document).unwrap().as_object().unwrap();
    let (options, mut timeline) = (WriteOptions::default(), Timeline::off());
    let mut first = Transaction::begin(&world.documents);
    first.rewrite(&people, "a", body, Rewrite::Update, &options, &mut timeline).unwrap();
    first.insert(&people, body, &options, &mut timeline).unwrap();
    world.update(&people, "a", r#"{"n":3}"#).unwrap();
    let commit = first.commit(Acknowledgement::Os, &mut timeline);
    assert!(commit.conflict());
    assert_eq!((people.count(), world.store_keys()), (1, 2));
    assert_eq!(world.read(&people, "a").unwrap()["n"], 3);
}

/// Regression: a batch that the store answered later could take effect after its collection had
/// changed. Its document then lacked the entry of a new index, or was counted after a truncate.
#[test]
fn a_collection_does_not_change_while_a_batch_is_under_way() {
    let world = world_that_hands_over();
    let people = world.make("people");
    let document = parse(r#"{"_key":"a","n":1}"#);
    let body = packed::open(&document).unwrap().as_object().unwrap();
    let change_during_insertion = |change: &(dyn Fn() -> Result<(), DocumentError> + Sync)| {
        let (options, mut timeline) = (WriteOptions::default(), Timeline::off());
        let mut transaction = Transaction::begin(&world.documents);
        transaction.insert(&people, body, &options, &mut timeline).unwrap();
        let commit = transaction.commit(Acknowledgement::Disk, &mut timeline);
        let Commit::Later(pending, unfinished) = commit else { panic!("it is handed over") };
        let shape = people.shape();
        std::thread::scope(|scope| {
            let (begin, begun) = std::sync::mpsc::channel();
            let changed = scope.spawn(move || {
                begin.send(()).unwrap();
                change()
            });
            begun.recv().unwrap();
            std::thread::sleep(Duration::from_millis(50));
            assert!(Arc::ptr_eq(&shape, &people.shape()), "the change waits");
            unfinished.finish(Answer::Later(pending).wait()).unwrap();
            changed.join().unwrap().unwrap();
        });
    };
    change_during_insertion(&|| {
        create_index(&world.documents, &people, persistent(&["n"], true, false)).map(drop)
    });
    assert_eq!((people.count(), world.store_keys()), (1, 2), "the document and its entry");
    world.remove(&people, "a").unwrap();
    change_during_insertion(&|| world.documents.truncate(&people));
    assert_eq!(people.count(), 0);
}

/// A query must not write a document that another writer changed after the query's snapshot.
#[test]
fn a_query_conflicts_with_changes_after_its_snapshot() {
    let (world, people) = world_of("people");
    world.insert(&people, r#"{"_key":"a","n":1}"#).unwrap();
    let mut query = common::begin_query(&world.documents);
    world.update(&people, "a", r#"{"n":2}"#).unwrap();
    let document = parse(r#"{"n":5}"#);
    let body = packed::open(&document).unwrap().as_object().unwrap();
    let options = WriteOptions::default();
    let (rewrite, mut timeline) = (Rewrite::Update, Timeline::off());
    let written = query.rewrite(&people, "a", body, rewrite, &options, &mut timeline);
    assert_eq!(written.unwrap_err().number, ErrorNumber::CONFLICT);
}

#[test]
fn no_parallel_change_of_one_document_is_lost() {
    let world = Arc::new(world());
    let counters = world.make("counters");
    create_index(&world.documents, &counters, persistent(&["n"], false, false)).unwrap();
    world.insert(&counters, r#"{"_key":"c","n":0}"#).unwrap();
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while done.fetch_add(1, Ordering::Relaxed) < 1_000 {
                    add_one(&world, &counters);
                }
            });
        }
    });
    assert_eq!(world.read(&counters, "c").unwrap()["n"], 1_000);
    assert_eq!(world.store_keys(), 2);
}

/// Reads the counter, adds one, and writes it on condition of the revision read; retries conflicts.
fn add_one(world: &common::TestFixture, counters: &Arc<pellucid_document::Collection>) {
    loop {
        let mut timeline = Timeline::off();
        let mut query = common::begin_query(&world.documents);
        let shape = counters.shape();
        let found = world.documents.get(&shape, b"c", &mut timeline).wait().unwrap().unwrap();
        let document = pellucid_document::document_of(&shape, &found).unwrap();
        let Ref::Number(number) = packed::open(&document).unwrap().attribute("n") else {
            panic!("a number was written")
        };
        let changed = parse(&format!(r#"{{"n":{}}}"#, number.to_int() + 1));
        let body = packed::open(&changed).unwrap().as_object().unwrap();
        let options = WriteOptions::default();
        if query.rewrite(counters, "c", body, Rewrite::Update, &options, &mut timeline).is_ok()
            && query.commit(Acknowledgement::Os, &mut timeline).wait().is_ok()
        {
            return;
        }
    }
}

fn import_options(form: ImportForm) -> ImportOptions {
    ImportOptions { form, details: true, ..ImportOptions::default() }
}

/// Regression: a large import reserved memory for all its changes at once, and the process ended.
#[test]
fn an_import_beyond_one_transaction_is_refused_while_it_is_read() {
    let (world, people) = world_of("people");
    let body = "{}\n".repeat(100_000);
    let options = ImportOptions { complete: true, ..import_options(ImportForm::Lines) };
    let (body, mut timeline) = (body.as_bytes(), Timeline::off());
    let refused = import(&world.documents, &people, body, &options, &|| Ok(()), &mut timeline);
    assert_eq!(refused.unwrap_err().number, ErrorNumber::RESOURCE_LIMIT);
    assert_eq!(people.count(), 0);
}

/// Regression: the size was that of a batch in which all documents are new.
#[test]
fn an_import_of_documents_that_are_there_is_not_too_large() {
    let (world, people) = world_of("people");
    let line = |number: usize| format!("{{\"_key\":\"person-{number}\"}}\n");
    let body: String = (0..60_000).map(line).collect();
    let sent = |complete| {
        let on_duplicate = Overwrite::Ignore;
        let options = ImportOptions { complete, on_duplicate, ..import_options(ImportForm::Lines) };
        let (body, mut timeline) = (body.as_bytes(), Timeline::off());
        import(&world.documents, &people, body, &options, &|| Ok(()), &mut timeline).unwrap()
    };
    assert_eq!(sent(false).created, 60_000);
    assert_eq!(sent(true).ignored, 60_000);
}

/// Regression: any number of index builds could wait for another one, and each blocked a thread.
#[test]
fn waiting_index_builds_are_bounded_and_can_be_cancelled() {
    let (world, people) = world_of("people");
    (0..3_000).for_each(|n| drop(world.insert(&people, &format!(r#"{{"n":{n}}}"#)).unwrap()));
    let (begun, begins) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let (documents, people) = (&world.documents, &people);
        let ends = pellucid_thread::Mutex::new(ends);
        scope.spawn(move || {
            let waits = || {
                let _ = begun.send(());
                let _ = ends.lock().recv();
                Ok(())
            };
            create_index_while(documents, people, persistent(&["n"], false, false), &waits)
        });
        begins.recv().unwrap();
        let told = || Err(ErrorNumber::QUERY_KILLED.into());
        let index = |name: &str| persistent(&[name], false, false);
        let ended = create_index_while(documents, people, index("m"), &told);
        assert_eq!(ended.unwrap_err().number, ErrorNumber::QUERY_KILLED);
        let waiting: Vec<_> = (0..16)
            .map(|number| {
                let (asked, is_asked) = std::sync::mpsc::channel();
                let name = format!("w{number}");
                scope.spawn(move || {
                    let asks = || {
                        let _ = asked.send(());
                        Ok(())
                    };
                    create_index_while(documents, people, index(&name), &asks).unwrap();
                });
                is_asked
            })
            .collect();
        waiting.iter().for_each(|is_asked| is_asked.recv().unwrap());
        let refused = create_index(documents, people, index("m"));
        assert_eq!(refused.unwrap_err().number, ErrorNumber::QUEUE_FULL);
        drop(end);
    });
    assert_eq!(people.shape().indexes.len(), 17);
}

/// Regression: an import or an index build could not be cancelled.
#[test]
fn imports_and_index_builds_can_be_cancelled() {
    let (world, people) = world_of("people");
    let lines = "{\"n\":1}\n".repeat(5_000);
    let (asked, refusal) = (AtomicU64::new(0), ErrorNumber::QUERY_KILLED);
    let once = || match asked.fetch_add(1, Ordering::Relaxed) {
        0 => Ok(()),
        _ => Err(refusal.into()),
    };
    let options = import_options(ImportForm::Lines);
    let (body, mut timeline) = (lines.as_bytes(), Timeline::off());
    let ended = import(&world.documents, &people, body, &options, &once, &mut timeline);
    assert_eq!(ended.unwrap_err().number, refusal);
    assert_eq!(people.count(), 2_000, "what was written until then is there");
    asked.store(0, Ordering::Relaxed);
    let index = || persistent(&["n"], false, false);
    let ended = create_index_while(&world.documents, &people, index(), &once);
    assert_eq!(ended.unwrap_err().number, refusal);
    assert!(people.shape().indexes.is_empty());
    assert!(create_index(&world.documents, &people, index()).unwrap().1);
}

/// Regression: a document that a new unique index had no entry of yet took the entry of another
/// document with it when it was removed or updated, so that the index was not unique.
#[test]
fn a_unique_index_keeps_the_entries_of_others_while_it_is_built() {
    let (world, people) = world_of("people");
    for n in 0..2_000 {
        world.insert(&people, &format!(r#"{{"_key":"k{n:04}","n":{n}}}"#)).unwrap();
    }
    let is_first = AtomicBool::new(true);
    let changes = || {
        if is_first.swap(false, Ordering::Relaxed) {
            world.insert(&people, r#"{"_key":"a","n":1999}"#).unwrap();
            world.remove(&people, "k1999").unwrap();
            world.insert(&people, r#"{"_key":"b","n":1998}"#).unwrap();
            world.update(&people, "k1998", r#"{"n":5000}"#).unwrap();
            world.update(&people, "k1997", r#"{"n":5002}"#).unwrap();
            // These have entries already.
            world.remove(&people, "k0000").unwrap();
            world.update(&people, "k0001", r#"{"n":5001}"#).unwrap();
        }
        Ok(())
    };
    create_index_while(&world.documents, &people, persistent(&["n"], true, false), &changes)
        .unwrap();
    assert_eq!((people.count(), world.store_keys()), (2_000, 4_000));
    for n in [1998, 1999, 5000, 5001, 5002] {
        let error = world.insert(&people, &format!(r#"{{"n":{n}}}"#)).unwrap_err();
        assert_eq!(error.number, ErrorNumber::UNIQUE_CONSTRAINT, "{n}");
    }
    for n in [0, 1, 1997] {
        world.insert(&people, &format!(r#"{{"n":{n}}}"#)).unwrap();
    }
}

/// Regression: the size of a batch of an import was that of its documents alone, so that documents
/// with many index entries or large old versions did not fit, and the import ended half-way.
#[test]
fn an_import_of_documents_with_many_entries_is_written_in_smaller_batches() {
    let (world, people) = world_of("people");
    create_index(&world.documents, &people, persistent(&["tags[*]"], false, false)).unwrap();
    let tags: Vec<String> = (0..40).map(|tag| tag.to_string()).collect();
    let body = format!("{{\"tags\":[{}]}}\n", tags.join(",")).repeat(2_000);
    let many: Vec<String> = (0..9_000).map(|tag| tag.to_string()).collect();
    let body = body + &format!("{{\"tags\":[{}]}}\n", many.join(",")).repeat(20);
    let options = import_options(ImportForm::Lines);
    let (body, mut timeline) = (body.as_bytes(), Timeline::off());
    let report = import(&world.documents, &people, body, &options, &|| Ok(()), &mut timeline);
    let report = report.unwrap();
    assert_eq!((report.created, report.errors), (2_020, 0));
}

/// Regression: after a document that was too large, an import wrote each further one in a batch of
/// its own.
#[test]
fn an_import_goes_on_in_large_batches_after_a_document_that_is_too_large() {
    let (world, people) = world_of("people");
    for number in 0..24 {
        let fields = ["tags[*]", &format!("x{number}")];
        create_index(&world.documents, &people, persistent(&fields, false, true)).unwrap();
    }
    let fields: Vec<String> = (0..24).map(|number| format!("\"x{number}\":1")).collect();
    let tags: Vec<String> = (0..9_000).map(|tag| tag.to_string()).collect();
    let body = format!("{{\"tags\":[{}],{}}}\n", tags.join(","), fields.join(","));
    let body = body + &"{}\n".repeat(1_000);
    let syncs = || {
        let figures = world.documents.store().figures();
        figures.into_iter().find(|figure| figure.0 == "engine_syncs_total").unwrap().1
    };
    let (before, acknowledgement) = (syncs(), Acknowledgement::Disk);
    let options = ImportOptions { acknowledgement, ..import_options(ImportForm::Lines) };
    let (body, mut timeline) = (body.as_bytes(), Timeline::off());
    let report = import(&world.documents, &people, body, &options, &|| Ok(()), &mut timeline);
    let report = report.unwrap();
    assert_eq!((report.created, report.errors), (1_000, 1));
    assert!(syncs() - before < 100, "{} syncs", syncs() - before);
}

#[test]
fn an_import_counts_its_outcomes() {
    let (world, people) = world_of("people");
    let import = |text: &str, options: &ImportOptions| {
        let (text, mut timeline) = (text.as_bytes(), Timeline::off());
        import(&world.documents, &people, text, options, &|| Ok(()), &mut timeline)
    };
    let lines = import_options(ImportForm::Lines);
    let report =
        import("{\"_key\":\"a\"}\r\n\r\n{\"_key\":\"a\",\"x\":1}\r\n{x\r\n[]\r\n", &lines).unwrap();
    assert_eq!((report.created, report.errors, report.empty), (1, 3, 1));
    assert_eq!(
        report.details[2],
        "at position 2: creating document failed with error 'unique constraint violated', \
         offending document: {\"_key\":\"a\",\"x\":1}"
    );
    let complete = ImportOptions { complete: true, ..lines.clone() };
    let error = import("{\"_key\":\"b\"}\n{\"_key\":\"a\"}\n", &complete).unwrap_err();
    let blamed = "at position 1: unique constraint violated";
    assert_eq!((error.number.0, &*error.message), (1210, blamed));
    assert_eq!(people.count(), 1);
    let update = ImportOptions { on_duplicate: Overwrite::Update, ..lines.clone() };
    let array = ImportOptions { form: ImportForm::Array, ..update };
    let report = import(r#"[{"_key":"a","y":2},{"_key":"c"}]"#, &array).unwrap();
    assert_eq!((report.created, report.updated), (1, 1));
    let rows = import_options(ImportForm::Rows);
    let report = import("[\"_key\",\"n\"]\n[\"d\",1]\n[\"e\"]\n", &rows).unwrap();
    assert_eq!((report.created, report.errors), (1, 1));
    assert_eq!(world.read(&people, "d").unwrap()["n"], 1);
    assert_eq!(import("{}", &rows).unwrap_err().number.0, 400);
    let auto = import_options(ImportForm::Auto);
    assert_eq!(import(" [{},{}]", &auto).unwrap().created, 2);
}

/// Regression: an import of a truncated body emptied the collection, or wrote a part of the body.
#[test]
fn an_import_of_a_malformed_body_changes_nothing() {
    let (world, people) = world_of("people");
    world.insert(&people, r#"{"_key":"kept"}"#).unwrap();
    let import = |text: &str, options: &ImportOptions| {
        let (text, mut timeline) = (text.as_bytes(), Timeline::off());
        import(&world.documents, &people, text, options, &|| Ok(()), &mut timeline)
    };
    let long = format!("[{}{{\"n\"", "{\"n\":1},".repeat(5_000));
    let line = "{\"n\":1}\n{\n";
    for (form, body, overwrite, complete) in [
        (ImportForm::Array, "[{}", true, false),
        (ImportForm::Array, "[{}", true, true),
        (ImportForm::Array, &*long, false, false),
        (ImportForm::Auto, &*long, true, false),
        (ImportForm::Rows, "{}", true, false),
        (ImportForm::Lines, line, true, true),
    ] {
        let options = ImportOptions { overwrite, complete, ..import_options(form) };
        assert!(import(body, &options).is_err(), "{form:?}");
        assert_eq!(people.count(), 1, "{form:?}");
    }
    for complete in [false, true] {
        let lines = import_options(ImportForm::Lines);
        let options = ImportOptions { overwrite: true, complete, ..lines };
        assert_eq!(import("{\"n\":1}\n{\"n\":2}\n", &options).unwrap().created, 2);
        assert_eq!(people.count(), 2);
    }
}

/// Regression: an import that lacked memory for its values was refused only after it had emptied
/// the collection.
#[test]
fn an_import_takes_the_memory_of_its_values_before_it_empties_the_collection() {
    let (world, people) = world_of("people");
    world.insert(&people, r#"{"_key":"kept"}"#).unwrap();
    let body = format!("{{\"v\":\"{}\"}}\n", "v".repeat(100_000)).repeat(10);
    let import = |memory_bytes: usize| {
        let memory = Some(Budget::new(memory_bytes));
        let lines = import_options(ImportForm::Lines);
        let options = ImportOptions { overwrite: true, complete: true, memory, ..lines };
        let (body, mut timeline) = (body.as_bytes(), Timeline::off());
        import(&world.documents, &people, body, &options, &|| Ok(()), &mut timeline)
    };
    let refused = import(body.len() * 3 / 2).unwrap_err();
    assert_eq!((refused.number, people.count()), (ErrorNumber::RESOURCE_LIMIT, 1));
    assert_eq!(import(body.len() * 3).unwrap().created, 10);
    assert_eq!(people.count(), 10);
}

/// Regression: to read a document that a merge had made deep overflowed the stack.
#[test]
fn documents_of_the_greatest_depth_are_merged_and_indexed() {
    let (world, deep) = world_of("deep");
    let nested = |levels: usize| "{\"a\":".repeat(levels) + "1" + &"}".repeat(levels);
    let old = format!("{{\"_key\":\"k\",\"a\":{}}}", nested(150));
    world.insert(&deep, &old).unwrap();
    create_index(&world.documents, &deep, persistent(&["a"], false, false)).unwrap();
    world.update(&deep, "k", &nested(packed::DEPTH_MAX)).unwrap();
    assert_eq!(world.store_keys(), 2, "the document and its entry");
    world.remove(&deep, "k").unwrap();
    assert_eq!(world.store_keys(), 0);
}
