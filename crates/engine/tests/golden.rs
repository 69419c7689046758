//! Stores of every released format version open, and contain the expected data.
//!
//! Each folder in `golden` was written once by its test, with the folder's name in the environment
//! variable `PELLUCID_GOLDEN`. From the release of its format version on, it stays unchanged: a
//! build that cannot read it cannot read its users' data. `version-1` has records of all kinds,
//! `definitions` has tables with options and indexes, and `packed` has compressed values and values
//! in the ledger. The last two contain only records with long headers.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::tables::{BriefExtractor, brief, head_only, ruled};
use crate::common::*;
use pellucid_clock::{Clock, SimulatedClock};
use pellucid_engine::{
    Acknowledgement, Compression, Direction, Engine, EngineOptions, IndexChange, Operation,
    Selection, TableOptions, rebuild_ledger, verify,
};
use pellucid_io::SystemFileSystem;
use pellucid_io::simulated::SimulatedFileSystem;

/// The time at which the store was written, in milliseconds since the Unix epoch.
const WRITTEN_AT_MS: u64 = 1_800_000_000_000;
/// The time at which half of the keys that expire have expired.
const LATER_MS: u64 = WRITTEN_AT_MS + 5_000;
const KEYS: u8 = 120;

/// The store with records of all kinds.
const VERSION_1: &str = "version-1";
/// The store with tables with options, and with indexes.
const DEFINITIONS: &str = "definitions";

/// The store with compressed values and blocks, and with values in the ledger.
const PACKED: &str = "packed";

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Returns true if the store called `name` is to be written before it is read.
fn is_to_be_written(name: &str) -> bool {
    std::env::var_os("PELLUCID_GOLDEN").is_some_and(|wanted| wanted == name)
}

fn options(clock: &'static SimulatedClock) -> EngineOptions {
    EngineOptions {
        file_system: Arc::new(SystemFileSystem),
        clock: Clock::simulated(clock),
        segment_size_bytes: 4 << 10,
        ..small(&SimulatedFileSystem::new())
    }
}

fn value(key: u8) -> Vec<u8> {
    vec![key; usize::from(key)]
}

/// Writes a store with every kind of content: sealed, collected and growing segments, tables on two
/// levels, tombstones, heads, expiry, a batch, two tables of keys, and records that are only in the
/// journal.
fn write(directory: &Path) {
    let clock = SimulatedClock::leaked(WRITTEN_AT_MS);
    let engine = Engine::open(directory, options(clock)).unwrap();
    let (fruit, other) = (engine.table("fruit").unwrap(), engine.table("other").unwrap());
    for key in 0..KEYS {
        put(&engine, fruit, &[key], b"old").unwrap();
    }
    for key in 0..KEYS {
        let value = value(key);
        let expires_at_ms = if key % 10 == 5 { LATER_MS } else { 0 };
        let operation = Operation::put(fruit, std::slice::from_ref(&key), &value);
        let operation = operation.with_head(b"a head").with_expiry(expires_at_ms);
        engine.write(&[operation], Acknowledgement::Os).unwrap();
    }
    settle(&engine);
    engine.collect().unwrap();
    for key in (0..KEYS).step_by(10) {
        engine.delete(fruit, &[key]).unwrap();
    }
    engine.flush().unwrap();
    let batch = [b"a", b"b"].map(|key| Operation::put(other, key, b"in a batch"));
    engine.write(&batch, Acknowledgement::Disk).unwrap();
    engine.wait_durable(engine.stats().published_sequence).unwrap();
    put(&engine, other, b"c", b"after a mark").unwrap();
    assert!(engine.stats().collected.segments > 0);
    // The engine is dropped without closing it, so the last segment is not sealed.
}

fn check(engine: &Engine, now_ms: u64) {
    let fruit = engine.table("fruit").unwrap();
    for key in 0..KEYS {
        let is_there = key % 10 != 0 && (key % 10 != 5 || now_ms < LATER_MS);
        let object = engine.get(fruit, &[key]).unwrap();
        assert_eq!(object.is_some(), is_there, "{key}");
        if let Some(object) = object {
            assert_eq!((&*object.value, &*object.head.metadata), (&value(key)[..], &b"a head"[..]));
            assert_eq!(object.head.written_at_ms, WRITTEN_AT_MS);
            assert_eq!(object.head.sequence, 2 + u64::from(KEYS) + u64::from(key) + 1);
        }
    }
    let other = engine.table("other").unwrap();
    let unbounded = (Bound::Unbounded, Bound::Unbounded);
    let scan = engine.scan(other, unbounded.0, unbounded.1, Direction::Backward).unwrap();
    let rows: Vec<_> =
        collect(scan).unwrap().into_iter().map(|(key, row)| (key, row.value)).collect();
    let row = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    assert_eq!(
        rows,
        [row(b"c", b"after a mark"), row(b"b", b"in a batch"), row(b"a", b"in a batch")]
    );
}

/// Returns the index terms of a book: one for the parity of its number, and the empty one.
fn terms(number: u8) -> [Vec<u8>; 2] {
    [vec![0, number % 2], Vec::new()]
}

/// Writes a store with all table features, and with index entries that are in ledger tables, only
/// in the journal, removed, and expiring.
fn write_tables(directory: &Path) {
    let clock = SimulatedClock::leaked(WRITTEN_AT_MS);
    let options =
        EngineOptions { metadata_extractors: vec![Arc::new(BriefExtractor)], ..options(clock) };
    let engine = Engine::open(directory, options).unwrap();
    let books = engine.table("books").unwrap();
    let (ruled, seen) = (ruled(), head_only());
    let (letters, seen) =
        (engine.table_with("letters", &ruled).unwrap(), engine.table_with("seen", &seen).unwrap());
    let (by_parity, by_nothing) =
        (engine.index(books, "parity").unwrap(), engine.index(books, "nothing").unwrap());
    for number in 0..KEYS {
        let (key, value, terms) = ([b'b', number], value(number), terms(number));
        let add = [IndexChange::add(by_parity, &terms[0]), IndexChange::add(by_nothing, &terms[1])];
        let expires_at_ms = if number % 10 == 5 { LATER_MS } else { 0 };
        let operations = [
            Operation::put(books, &key, &value).with_index_changes(&add).with_expiry(expires_at_ms),
            Operation::put(letters, &key, &value),
            Operation::put(seen, &key, b"").with_head(&key),
        ];
        engine.write(&operations, Acknowledgement::Os).unwrap();
        if number % 10 == 0 {
            let remove = [IndexChange::remove(by_parity, &terms[0])];
            let delete = Operation::delete(books, &key).with_index_changes(&remove);
            engine.write(&[delete], Acknowledgement::Os).unwrap();
        }
        if number == KEYS / 2 {
            settle(&engine);
            engine.collect().unwrap();
        }
    }
    engine.wait_durable(engine.stats().published_sequence).unwrap();
}

fn check_tables(engine: &Engine, now_ms: u64) {
    let books = engine.table("books").unwrap();
    // At that version, no value could be held in the ledger.
    let held_value_length_max = 0;
    let ruled = TableOptions { held_value_length_max, ..ruled() };
    let head_only = TableOptions { held_value_length_max, ..head_only() };
    let letters = engine.table_with("letters", &ruled).unwrap();
    let seen = engine.table_with("seen", &head_only).unwrap();
    let by_parity = engine.index(books, "parity").unwrap();
    let by_nothing = engine.index(books, "nothing").unwrap();
    assert_eq!((engine.tables().len(), engine.indexes(books).len()), (3, 2));
    for number in 0..KEYS {
        let (key, value) = ([b'b', number], value(number));
        let letter = engine.get(letters, &key).unwrap().unwrap();
        assert_eq!(*letter.value, value);
        assert_eq!(*letter.head.metadata, brief(&key, &value));
        let head = engine.get(seen, &key).unwrap().unwrap();
        assert_eq!((&*head.head.metadata, &*head.value), (&key[..], &b""[..]));
    }
    let entries = |index, is_there: &dyn Fn(u8) -> bool, term: usize| {
        let mut expected: Vec<_> =
            (0..KEYS).filter(|n| is_there(*n)).map(|n| (terms(n)[term].clone(), n)).collect();
        expected.sort();
        let mut scan = engine.scan_index(index, &Selection::default()).unwrap();
        for (term, number) in expected {
            let (entry, object) = scan.next_object().unwrap().expect("one more");
            assert_eq!((entry.term, entry.key), (&term[..], &[b'b', number][..]));
            let expected = (number % 10 != 0).then(|| value(number));
            assert_eq!(object.map(|object| object.value.to_vec()), expected);
        }
        assert_eq!(scan.next().unwrap(), None);
    };
    let is_live = |number: u8| number % 10 != 5 || now_ms < LATER_MS;
    entries(by_parity, &|number| number % 10 != 0 && is_live(number), 0);
    entries(by_nothing, &is_live, 1);
}

/// Copies the golden store, because opening it changes it.
fn copy(name: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for folder in ["", "journal", "ledger"] {
        std::fs::create_dir_all(copy.path().join(folder)).unwrap();
        for entry in std::fs::read_dir(golden(name).join(folder)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                let target = copy.path().join(folder).join(entry.file_name());
                std::fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    copy
}

/// Checks the store called `name` at both times, and again after it was merged, collected and
/// rebuilt.
fn check_golden(name: &str, write: fn(&Path), definitions: usize, check: fn(&Engine, u64)) {
    if is_to_be_written(name) {
        write(&golden(name));
    }
    for now_ms in [WRITTEN_AT_MS, LATER_MS] {
        let copy = copy(name);
        let clock = SimulatedClock::leaked(now_ms);
        let report = verify(copy.path(), &SystemFileSystem).unwrap();
        assert_eq!((report.problems, report.definitions.len()), (Vec::new(), definitions));
        let engine = Engine::open(copy.path(), options(clock)).unwrap();
        check(&engine, now_ms);
        engine.compact().unwrap();
        engine.collect().unwrap();
        check(&engine, now_ms);
        engine.close().unwrap();
        rebuild_ledger(copy.path(), options(clock)).unwrap();
        check(&Engine::open(copy.path(), options(clock)).unwrap(), now_ms);
    }
}

#[test]
fn the_golden_store_has_the_expected_contents() {
    check_golden(VERSION_1, write, 2, check);
}

#[test]
fn the_golden_tables_and_indexes_have_the_expected_contents() {
    check_golden(DEFINITIONS, write_tables, 5, check_tables);
}

/// When only the last writes of a store are still needed, all earlier records are counted as dead,
/// exactly to the byte.
#[test]
fn the_count_of_dead_bytes_is_exact() {
    let copy = copy(VERSION_1);
    let open = || Engine::open(copy.path(), options(SimulatedClock::leaked(WRITTEN_AT_MS)));
    let files = || std::fs::read_dir(copy.path().join("journal")).unwrap();
    let engine = open().unwrap();
    let lost = |engine: &Engine| {
        let stats = engine.stats();
        stats.journal_dead_bytes + stats.journal_marker_bytes
    };
    for round in 0..3 {
        let (other, fruit) = (engine.table("other").unwrap(), engine.table("fruit").unwrap());
        if round == 1 {
            engine.collect().unwrap();
        }
        for key in [b"a", b"b", b"c"] {
            put(&engine, other, key, b"new").unwrap();
        }
        if round == 2 {
            for key in 0..KEYS {
                engine.delete(fruit, &[key]).unwrap();
            }
        }
        settle(&engine);
    }
    let collected = lost(&engine);
    // The records in the active segment have no footer yet; closing the store seals it.
    engine.close().unwrap();
    let engine = open().unwrap();
    assert_eq!(lost(&engine), collected);
    let read =
        |entry: std::io::Result<std::fs::DirEntry>| std::fs::read(entry.unwrap().path()).unwrap();
    let all = records::record_bytes(files().map(read));
    // Three entries are live, with heads, and so are the definitions of two tables.
    let entry = (40 + 2 + 1 + 4 + 3_u64).next_multiple_of(8);
    let definition = (40_u64 + 2 + 5 + 24).next_multiple_of(8);
    assert_eq!(all - 3 * entry - 2 * definition, lost(&engine));
}

/// Returns the options with which the table of [`PACKED`] was created.
fn packed() -> TableOptions {
    TableOptions {
        held_value_length_max: 20,
        value_compression: Compression::Lz4,
        block_compression: Compression::Lz4,
        ..TableOptions::default()
    }
}

fn write_packed(directory: &Path) {
    let engine = Engine::open(directory, options(SimulatedClock::leaked(WRITTEN_AT_MS))).unwrap();
    let table = engine.table_with("packed", &packed()).unwrap();
    for key in 0..KEYS {
        put(&engine, table, &[key], &value(key)).unwrap();
        if key == KEYS - 10 {
            settle(&engine);
        }
    }
    engine.wait_durable(engine.stats().published_sequence).unwrap();
}

fn check_packed(engine: &Engine, _now_ms: u64) {
    let table = engine.table_with("packed", &packed()).unwrap();
    let before = engine.stats().reads;
    for key in 0..KEYS {
        assert_eq!(get(engine, table, &[key]).unwrap(), Some(value(key)), "{key}");
    }
    let after = engine.stats().reads;
    assert_eq!(after.held_values - before.held_values, 21);
    assert_eq!(after.records - before.records, u64::from(KEYS) - 21);
}

#[test]
fn the_golden_store_with_compressed_data_has_the_expected_contents() {
    check_golden(PACKED, write_packed, 1, check_packed);
}
