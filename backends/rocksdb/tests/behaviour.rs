//! Runs the common suite of all stores on the store over RocksDB, and tests its account.
#![cfg(feature = "rocksdb")]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use pellucid_account::Timeline;
use pellucid_clock::Clock;
use pellucid_rocksdb::{PART_NAMES, RocksOptions, RocksStore};
use pellucid_store::suite::{TestedStore, behaves};
use pellucid_store::{Acknowledgement, Answer, Operation, Store};
use tempfile::TempDir;

const VALUE_BYTES_MAX: usize = 100_000;

fn suite(memory_bytes: usize) {
    let folder = TempDir::new().unwrap();
    let options =
        RocksOptions { memory_bytes, value_bytes_max: VALUE_BYTES_MAX, ..RocksOptions::default() };
    behaves(&TestedStore {
        open: &|| Box::new(RocksStore::open(folder.path(), options).unwrap()),
        value_bytes_max: VALUE_BYTES_MAX,
        unsupported: &[],
    });
}

#[test]
fn the_store_over_rocksdb_behaves() {
    suite(RocksOptions::default().memory_bytes);
}

/// The memory is so small that files are written and compacted all the time.
#[test]
fn it_behaves_with_little_memory() {
    suite(512 << 10);
}

/// A put of `value` without conditions.
fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Operation<'a> {
    Operation::plain(key, Some(value))
}

/// The first few tables store their handles elsewhere than all others.
#[test]
fn many_tables_have_their_own_entries() {
    let folder = TempDir::new().unwrap();
    let store = RocksStore::open(folder.path(), RocksOptions::default()).unwrap();
    let tables: Vec<_> = (0..20).map(|n| store.table(&format!("table {n}")).unwrap()).collect();
    let off = &mut Timeline::off();
    for (number, table) in tables.iter().enumerate() {
        let value = [number as u8];
        store.write(*table, &[put(b"key", &value)], Acknowledgement::Os, off).wait().unwrap();
    }
    for (number, table) in tables.iter().enumerate() {
        let object = store.get(*table, b"key", off).wait().unwrap().unwrap();
        assert_eq!(&object.value[..], [number as u8]);
        assert_eq!(store.table(&format!("table {number}")).unwrap(), *table);
    }
}

/// RocksDB's metrics become parts of the request, and their sum is at most the request's duration.
#[test]
fn a_write_accounts_for_its_parts() {
    let folder = TempDir::new().unwrap();
    let store = RocksStore::open(folder.path(), RocksOptions::default()).unwrap();
    let table = store.table("t").unwrap();
    let clock = Clock::monotonic();
    let begun = clock.now();
    let mut timeline = Timeline::begin(clock, begun);
    let operation = put(b"key", &[7; 10_000]);
    store.write(table, &[operation], Acknowledgement::Os, &mut timeline).wait().unwrap();
    let taken = clock.now().since(begun);
    let of = |name: &str| {
        let slot = PART_NAMES.iter().position(|other| *other == name).unwrap();
        timeline.part_ticks(pellucid_account::Part::new(slot as u8))
    };
    assert!(of("write_ahead_log") > 0 && of("memtable") > 0);
    let all: u64 = PART_NAMES.iter().map(|name| of(name)).sum();
    assert!(all <= taken, "{all} of {taken}");
}

/// An entry that is only on the disk is read by a worker, and is in the block cache from then on.
#[test]
fn a_read_from_the_disk_runs_on_a_worker() {
    let folder = TempDir::new().unwrap();
    let open = || RocksStore::open(folder.path(), RocksOptions::default()).unwrap();
    let (key, value) = (b"key", [7; 10_000]);
    let store = open();
    let table = store.table("t").unwrap();
    let mut off = Timeline::off();
    store.write(table, &[put(key, &value)], Acknowledgement::Os, &mut off).wait().unwrap();
    let found = store.get(table, key, &mut off);
    assert!(matches!(found, Answer::Now(Ok(Some(_)))), "it is in the memtable");
    store.close().unwrap();
    drop(store);
    // What the log has is written to a file when it is opened.
    let store = open();
    let table = store.table("t").unwrap();
    let found = store.get(table, key, &mut off);
    assert!(matches!(found, Answer::Later(_)), "nobody has read the file");
    assert_eq!(found.wait().unwrap().unwrap().value.len(), 10_000);
    let is_here = |_| match store.get(table, key, &mut Timeline::off()) {
        Answer::Now(found) => found.unwrap().is_some(),
        later => later.wait().unwrap().is_none(),
    };
    assert!((0..100).any(is_here), "what was read stays in memory");
}

/// The filter excludes a key that is not in the file, but within its range of keys.
#[test]
fn filters_and_blocks_are_counted() {
    let folder = TempDir::new().unwrap();
    let open = || RocksStore::open(folder.path(), RocksOptions::default()).unwrap();
    let store = open();
    let table = store.table("t").unwrap();
    let both = [put(b"first", b"1"), put(b"last", b"2")];
    store.write(table, &both, Acknowledgement::Disk, &mut Timeline::off()).wait().unwrap();
    store.close().unwrap();
    drop(store);
    // What the log has is written to a file when it is opened.
    let store = open();
    let table = store.table("t").unwrap();
    let counted = |key: &[u8]| {
        // The first reads bring the blocks into memory.
        let is_read = |_| store.get(table, key, &mut Timeline::off()).wait().is_ok();
        assert!((0..2).all(is_read));
        let clock = Clock::monotonic();
        let mut timeline = Timeline::begin(clock, clock.now());
        store.get(table, key, &mut timeline).wait().unwrap();
        let counts = timeline.counts;
        (counts.tables, counts.filters_excluded, counts.blocks)
    };
    assert_eq!(counted(b"last"), (1, 0, 1));
    assert_eq!(counted(b"from"), (1, 1, 0));
}
