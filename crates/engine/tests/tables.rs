//! Tables with options, metadata extractors and indexes: accepted and refused operations, and the
//! state that persists.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::common::tables::{entries, head_only};
use crate::common::*;
use pellucid_account::Timeline;
use pellucid_engine::{
    Acknowledgement, Engine, EngineOptions, Error, HEAD_LENGTH_MAX, INDEX_NAME_LENGTH_MAX,
    IndexChange, IndexEntry, KEY_LENGTH_MAX, MetadataExtractor, Operation, ReadMode, Selection,
    TERM_LENGTH_MAX, TableId, TableOptions, WriteOutcome, salvage, verify,
};
use pellucid_io::simulated::SimulatedFileSystem;

/// An extractor whose head is the first byte of the value, repeated as often as the value is long.
struct RepeatingExtractor(&'static str);

impl MetadataExtractor for RepeatingExtractor {
    fn name(&self) -> &str {
        self.0
    }

    fn derive(&self, key: &[u8], value: &[u8], head: &mut Vec<u8>) -> Result<(), String> {
        assert!(head.is_empty() && !key.is_empty());
        let first = value.first().ok_or("the value is empty")?;
        head.resize(value.len(), *first);
        Ok(())
    }
}

fn ruled(name: &str) -> TableOptions {
    TableOptions { metadata_extractor: Some(name.to_owned()), ..TableOptions::default() }
}

fn with_rules(files: &SimulatedFileSystem, names: &[&'static str]) -> EngineOptions {
    let rule =
        |name: &&'static str| Arc::new(RepeatingExtractor(name)) as Arc<dyn MetadataExtractor>;
    EngineOptions { metadata_extractors: names.iter().map(rule).collect(), ..small(files) }
}

fn write(engine: &Engine, operation: Operation<'_>) -> pellucid_engine::Result<WriteOutcome> {
    engine.write(&[operation], Acknowledgement::Os)
}

fn heads(engine: &Engine, table: TableId) -> Vec<Vec<u8>> {
    let found = engine.snapshot().fold_heads(
        table,
        &Selection::default(),
        Vec::new(),
        |mut heads, _, head| {
            heads.push(head.metadata.to_vec());
            ControlFlow::Continue(heads)
        },
    );
    found.unwrap()
}

#[test]
fn options_are_persistent_and_different_ones_are_refused() {
    let files = SimulatedFileSystem::new();
    let engine = Engine::open(STORE, with_rules(&files, &["a", "b"])).unwrap();
    let plain = engine.table("plain").unwrap();
    let seen = engine.table_with("seen", &head_only()).unwrap();
    let by_a = engine.table_with("by a", &ruled("a")).unwrap();
    let check = |engine: &Engine| {
        assert_eq!(engine.table("seen").unwrap(), seen, "whatever its options are");
        assert_eq!(engine.table_with("by a", &ruled("a")).unwrap(), by_a);
        assert_eq!(engine.table_with("plain", &TableOptions::default()).unwrap(), plain);
        assert_eq!(engine.table_options(seen), Some(head_only()));
        assert_eq!(engine.table_options(plain), Some(TableOptions::default()));
        let refused = |name, options, expected: &str| {
            let error = engine.table_with(name, &options).unwrap_err();
            assert!(matches!(error, Error::TableDiffers { .. }), "{error:?}");
            assert!(error.to_string().contains(expected), "{error}");
        };
        refused("plain", head_only(), "values, too, and not keys and heads only");
        refused("seen", TableOptions::default(), "keys and heads only, and not values, too");
        refused("plain", ruled("a"), "no metadata extractor, and not the metadata extractor `a`");
        refused(
            "by a",
            ruled("b"),
            "the metadata extractor `a`, and not the metadata extractor `b`",
        );
        assert_eq!(engine.tables().len(), 3);
    };
    check(&engine);
    let both = TableOptions { head_only: true, ..ruled("a") };
    assert!(matches!(engine.table_with("both", &both), Err(Error::Option { .. })));
    engine.close().unwrap();
    check(&Engine::open(STORE, with_rules(&files, &["b", "a"])).unwrap());
    // An existing table can be read without its extractor; a new one cannot be created.
    let engine = open(&files).unwrap();
    check(&engine);
    let error = engine.table_with("new", &ruled("a")).unwrap_err();
    assert!(matches!(error, Error::ExtractorMissing { rule } if rule == "a"));
    assert_eq!(engine.tables().len(), 3);
}

#[test]
fn a_table_of_heads_only_answers_from_the_ledger() {
    let files = SimulatedFileSystem::new();
    let engine = open(&files).unwrap();
    let seen = engine.table_with("seen", &head_only()).unwrap();
    let sequence =
        write(&engine, Operation::put(seen, b"k", b"").with_head(b"h")).unwrap().sequence;
    let refused = write(&engine, Operation::put(seen, b"k", b"v").with_head(b"other"));
    assert!(matches!(refused, Err(Error::ValueRefused { number }) if number == seen.number()));
    let mut timeline = Timeline::off();
    for _ in 0..2 {
        let object = engine.get_timed(seen, b"k", ReadMode::MayBlock, &mut timeline);
        let object = object.unwrap().value().unwrap();
        assert_eq!((object.head.sequence, &*object.head.metadata), (sequence, &b"h"[..]));
        assert!(object.value.is_empty());
        engine.flush().unwrap();
    }
    assert_eq!(timeline.counts.records, 0, "the journal is not touched");
    assert_eq!(engine.stats().reads.records, 0);
    write(&engine, Operation::delete(seen, b"k")).unwrap();
    assert!(engine.get(seen, b"k").unwrap().is_none());
}

#[test]
fn heads_come_from_the_extractor_only() {
    let (files, engine, table) = open_new_with(|files| with_rules(files, &["a"]), &ruled("a"));
    let other = engine.table("other").unwrap();
    let operations = [
        Operation::put(other, b"k", b"v").with_head(b"given"),
        Operation::put(table, b"k1", b"xyz"),
        Operation::delete(table, b"k0"),
        Operation::put(table, b"k2", b"pq"),
    ];
    let before = engine.stats().published_sequence;
    let written = engine.write(&operations, Acknowledgement::Os).unwrap();
    assert_eq!(written.sequence, before + 4);
    assert_eq!(heads(&engine, table), [b"xxx".to_vec(), b"pp".to_vec()]);
    assert_eq!(heads(&engine, other), [b"given"]);
    let given = write(&engine, Operation::put(table, b"k1", b"v").with_head(b"v"));
    assert!(matches!(given, Err(Error::HeadGiven { .. })));
    let refused = write(&engine, Operation::put(table, b"k1", b"")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the metadata extractor `a` refuses the object: the value is empty"
    );
    let long = vec![1; HEAD_LENGTH_MAX + 1];
    let refused = write(&engine, Operation::put(table, b"k1", &long));
    assert!(matches!(refused, Err(Error::HeadLength { .. })));
    assert_eq!(engine.stats().published_sequence, before + 4, "nothing was written");
    engine.close().unwrap();

    let engine = open(&files).unwrap();
    assert_eq!(heads(&engine, table), [b"xxx".to_vec(), b"pp".to_vec()]);
    assert_eq!(get(&engine, table, b"k1").unwrap().unwrap(), b"xyz");
    for operation in [Operation::put(table, b"k1", b"v"), Operation::delete(table, b"k1")] {
        let refused = write(&engine, operation).unwrap_err();
        assert!(matches!(refused, Error::ExtractorMissing { rule } if rule == "a"));
    }
    put(&engine, other, b"k", b"other tables go on").unwrap();
}

#[test]
fn extractors_with_invalid_or_equal_names_are_refused() {
    let files = SimulatedFileSystem::new();
    for names in [&["a", "b", "a"][..], &[""]] {
        let refused = Engine::open(STORE, with_rules(&files, names));
        assert!(matches!(refused, Err(Error::Option { .. })));
    }
}

#[test]
fn an_index_is_found_by_name_and_belongs_to_its_table() {
    let files = SimulatedFileSystem::new();
    let engine = open(&files).unwrap();
    let (fruit, trees) = (engine.table("fruit").unwrap(), engine.table("trees").unwrap());
    let by_colour = engine.index(fruit, "colour").unwrap();
    let other = engine.index(trees, "colour").unwrap();
    assert_ne!(by_colour, other);
    assert_eq!((by_colour.table(), other.table()), (fruit, trees));
    let long = "n".repeat(INDEX_NAME_LENGTH_MAX);
    let longest = engine.index(fruit, &long).unwrap();
    for name in [String::new(), format!("{long}n")] {
        assert!(matches!(engine.index(fruit, &name), Err(Error::Option { .. })));
    }
    engine.close().unwrap();
    let engine = open(&files).unwrap();
    assert_eq!(engine.index(fruit, "colour").unwrap(), by_colour);
    let named = [("colour".to_owned(), by_colour), (long, longest)];
    assert_eq!(engine.indexes(fruit), named);
    assert_eq!(engine.tables().len(), 2, "an index is no table of objects");
    for change in [IndexChange::add(other, b"red"), IndexChange::remove(other, b"red")] {
        let put = Operation::put(fruit, b"apple", b"");
        let refused = write(&engine, put.with_index_changes(&[change]));
        assert!(matches!(refused, Err(Error::IndexUnknown { .. })));
    }
    // Another store has tables with other numbers.
    let strange = open(&SimulatedFileSystem::new()).unwrap();
    strange.table("only one").unwrap();
    assert!(matches!(strange.index(trees, "colour"), Err(Error::TableUnknown { .. })));
    let add = [IndexChange::add(by_colour, b"red")];
    let put = Operation::put(fruit, b"apple", b"").with_index_changes(&add);
    assert!(matches!(write(&strange, put), Err(Error::IndexUnknown { .. })));
    let refused = strange.scan_index(by_colour, &Selection::default());
    assert!(matches!(refused, Err(Error::IndexUnknown { .. })));
}

/// Regression: an index that was created late began empty without any error, and its scans left
/// objects out.
#[test]
fn a_new_index_on_a_table_with_objects_is_refused() {
    let (_files, engine, table) = open_new(small);
    let early = engine.index(table, "early").unwrap();
    write(&engine, Operation::put(table, b"a", b"v")).unwrap();
    let refused = engine.index(table, "late");
    assert!(matches!(refused, Err(Error::IndexLate { table: 1, .. })), "{refused:?}");
    assert_eq!(engine.index(table, "early").unwrap(), early);
    assert_eq!(engine.indexes(table).len(), 1);
    write(&engine, Operation::delete(table, b"a")).unwrap();
    assert!(engine.index(table, "late").is_ok(), "nothing is left that it would not know");
}

#[test]
fn limits_of_index_changes_are_enforced() {
    let (_files, engine, table) =
        open_new(|files| EngineOptions { batch_entries_max: 4, ..small(files) });
    let index = engine.index(table, "i").unwrap();
    let term = [7; TERM_LENGTH_MAX + 1];
    let add = |length: usize| IndexChange::add(index, &term[..length]);
    let before = engine.stats().published_sequence;
    let key = [1; KEY_LENGTH_MAX + 1];
    let put = |key_length: usize| Operation::put(table, &key[..key_length], b"v");
    let refused = write(&engine, put(1).with_index_changes(&[add(1), add(TERM_LENGTH_MAX + 1)]));
    assert!(matches!(refused, Err(Error::TermLength { length: 513, limit: 512 })));
    for key_length in [0, KEY_LENGTH_MAX + 1] {
        let refused = write(&engine, put(key_length).with_index_changes(&[add(1)]));
        assert!(matches!(refused, Err(Error::KeyLength { limit: KEY_LENGTH_MAX, .. })));
    }
    let refused = write(&engine, put(1).with_index_changes(&[1, 2, 3, 4].map(add)));
    let limit = Error::BatchSize {
        entries: 5,
        size_bytes: 0,
        entries_limit: 4,
        size_limit_bytes: 128 << 20,
    };
    assert_eq!(refused.unwrap_err().to_string(), limit.to_string());
    let refused = write(&engine, Operation::delete(table, b"k").with_index_changes(&[add(1)]));
    assert!(matches!(refused, Err(Error::IndexedDelete { .. })));
    assert_eq!(engine.stats().published_sequence, before, "nothing was written");

    let longest = [add(0), add(TERM_LENGTH_MAX)];
    let written = write(&engine, put(KEY_LENGTH_MAX).with_index_changes(&longest)).unwrap();
    assert_eq!(written.sequence, before + 3);
    let head = engine.head(table, &key[..KEY_LENGTH_MAX]).unwrap().unwrap();
    assert_eq!(head.sequence, written.sequence, "the operation's own is the last");
    engine.flush().unwrap();
    let key = key[..KEY_LENGTH_MAX].to_vec();
    let expected = [(Vec::new(), key.clone()), (term[..TERM_LENGTH_MAX].to_vec(), key)];
    assert_eq!(entries(&engine.snapshot(), index), expected);
}

#[test]
fn the_last_of_several_changes_of_one_entry_wins() {
    let (engine, table) = open_table(small(&SimulatedFileSystem::new()));
    let index = engine.index(table, "i").unwrap();
    let (add, remove) = (IndexChange::add(index, b"t"), IndexChange::remove(index, b"t"));
    let key = b"k".to_vec();
    for (changes, stays) in [([remove, add], true), ([add, remove], false)] {
        write(&engine, Operation::put(table, &key, b"").with_index_changes(&changes)).unwrap();
        let expected = if stays { vec![(b"t".to_vec(), key.clone())] } else { Vec::new() };
        assert_eq!(entries(&engine.snapshot(), index), expected);
    }
}

#[test]
fn an_entry_of_a_deleted_object_has_no_object() {
    let (engine, table) = open_table(small(&SimulatedFileSystem::new()));
    let index = engine.index(table, "i").unwrap();
    let add = [IndexChange::add(index, b"t")];
    write(&engine, Operation::put(table, b"k", b"v").with_index_changes(&add)).unwrap();
    let snapshot = engine.snapshot();
    write(&engine, Operation::delete(table, b"k")).unwrap();
    let all = Selection::default();
    let expected = IndexEntry { term: b"t", key: b"k" };
    let mut scan = engine.scan_index(index, &all).unwrap();
    let (entry, object) = scan.next_object().unwrap().unwrap();
    assert_eq!((entry, object.is_none()), (expected, true));
    let mut scan = snapshot.scan_index(index, &all).unwrap();
    let (entry, object) = scan.next_object().unwrap().unwrap();
    assert_eq!((entry, &*object.unwrap().value), (expected, &b"v"[..]));
    assert!(scan.next_object().unwrap().is_none());
}

#[test]
fn salvage_and_verify_support_indexes() {
    let (files, engine, table) = open_new_with(|files| with_rules(files, &["a"]), &ruled("a"));
    let index = engine.index(table, "i").unwrap();
    for number in 0..100_u8 {
        let (key, term) = ([number], [number % 7]);
        let changes = [IndexChange::add(index, &term)];
        write(&engine, Operation::put(table, &key, b"value").with_index_changes(&changes)).unwrap();
    }
    let expected = entries(&engine.snapshot(), index);
    assert_eq!(expected.len(), 100);
    engine.close().unwrap();
    assert_eq!(verify(STORE, &files).unwrap().problems, []);
    let salvaged = salvage(STORE, "/salvaged", small(&files)).unwrap();
    assert_eq!(salvaged.lost, []);
    let engine = Engine::open("/salvaged", small(&files)).unwrap();
    assert_eq!(engine.index(table, "i").unwrap(), index);
    assert_eq!(entries(&engine.snapshot(), index), expected);
    assert_eq!(heads(&engine, table), vec![b"vvvvv".to_vec(); 100]);
}

/// A new table must not find the entries of a table whose definition was lost.
#[test]
fn the_number_of_a_lost_table_is_not_reused() {
    let files = SimulatedFileSystem::new();
    let engine = open(&files).unwrap();
    let lost = engine.table("lost").unwrap();
    put(&engine, lost, b"k", b"of the lost table").unwrap();
    engine.close().unwrap();
    // The definition is the first record of the first segment.
    files.flip_bits(&paths(&files, "journal")[0], 64 + 50, 1).unwrap();
    let salvaged = salvage(STORE, "/salvaged", small(&files)).unwrap();
    assert_eq!((salvaged.records, salvaged.lost.len()), (1, 1));
    let engine = Engine::open("/salvaged", small(&files)).unwrap();
    assert_eq!(engine.tables(), []);
    let new = engine.table("new").unwrap();
    assert!(new.number() > lost.number());
    assert_eq!(get(&engine, new, b"k").unwrap(), None);
}
