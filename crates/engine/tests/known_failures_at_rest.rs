//! Failures that other engines had with the creation and removal of files: descriptors, collection,
//! repair, backlogs. The numbers are those of docs/known-failures.md.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::*;
use pellucid_engine::{Engine, EngineOptions, Error, rebuild_ledger, verify};

/// The maximum number of descriptors that a store holds open, whatever its size: 8 segments that
/// wait to be sealed and one that is being sealed, 4 spare segments and one that is being created;
/// the lock, the manifest and its folder; 3 tables that are being written, and 3 that are being
/// read into maps. How many are open at once depends on the disk: a slow one once had 16.
const DESCRIPTORS_MAX: usize = 14 + 3 + 6;

/// 16: a store of many files ran out of descriptors. Here, files are closed after they are mapped.
#[test]
fn a_store_of_many_files_holds_few_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        segment_size_bytes: 16 << 10,
        memory_bytes: 64 << 10,
        ..EngineOptions::default()
    };
    let engine = Engine::open(folder.path(), options).unwrap();
    let table = engine.table("t").unwrap();
    let most = || -> usize {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        targets.filter(|target| target.starts_with(folder.path())).count()
    };
    let mut highest = 0;
    for number in 0..3_000 {
        engine.put(table, &key(number), &[1; 500]).unwrap();
        highest = highest.max(most());
    }
    assert!(engine.stats().segments > 80, "{} segments", engine.stats().segments);
    assert!(
        highest <= DESCRIPTORS_MAX,
        "{highest} descriptors for {} segments, and {DESCRIPTORS_MAX} are enough for any number",
        engine.stats().segments,
    );
}

/// 19 and 23: a lookup read the location of a value, collection deleted the file, and the read
/// failed.
#[test]
fn reads_and_scans_go_on_while_files_are_collected_below_them() {
    let (_files, engine, table) = open_new(tiny);
    fill(&engine, table, 0..60, &[0; 100]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = EndOnDrop(&is_over);
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for number in 0..60 {
                        let value = get(&engine, table, &key(number)).unwrap();
                        assert!(value.is_some_and(|value| value.len() == 100), "key {number}");
                    }
                }
            });
        }
        let mut collected = 0;
        for round in 1..=200_u8 {
            fill(&engine, table, 0..60, &[round; 100]);
            settle(&engine);
            collected += engine.collect().unwrap().segments;
        }
        assert!(collected > 200, "files did go: {collected}");
    });
}

/// 32: a backlog grew unnoticed in memory. Here, memory is bounded, and writes that do not fit
/// wait.
#[test]
fn a_backlog_of_flushes_never_grows_beyond_its_bound() {
    let (_files, engine, table) = open_new(small);
    let mut highest = 0;
    for number in 0..20_000_u32 {
        put(&engine, table, &key(number), b"v").unwrap();
        let ledger = engine.stats().ledger;
        highest = highest.max(ledger.memtable_bytes);
        assert!(ledger.sealed_memtables <= 8, "{}", ledger.sealed_memtables);
    }
    assert!(highest > 0 && highest <= 64 << 10, "{highest} bytes of memtables");
    // No thread merges in this test, and the statistics show it: writers are told to wait.
    let behind = engine.stats().ledger;
    assert!(behind.levels[0].tables > 50 && behind.debt_bytes > 0 && behind.write_delay_ns > 0);
    engine.compact().unwrap();
    let merged = engine.stats().ledger;
    assert_eq!((merged.levels[0].tables, merged.write_delay_ns), (0, 0));
}

/// 38: the newest version was lost to damage, the middle one was already removed, and a rebuild
/// brought the oldest back. Here, damage stops the rebuild.
#[test]
fn a_rebuild_never_brings_an_older_version_back() {
    let (files, engine, table) = open_new_with(tiny, &journal_only());
    put(&engine, table, b"k", b"the oldest").unwrap();
    fill(&engine, table, 0..40, &[1; 200]);
    put(&engine, table, b"k", b"the middle").unwrap();
    fill(&engine, table, 0..40, &[2; 200]);
    put(&engine, table, b"k", b"the newest").unwrap();
    engine.close().unwrap();
    let (path, offset) = find(&files, b"the newest");
    files.flip_bits(&path, offset, 1).unwrap();
    let outcome = rebuild_ledger(STORE, small(&files));
    assert!(matches!(&outcome, Err(Error::Corruption { path: named, .. }) if *named == path));
    let engine = open(&files).unwrap();
    let found = engine.get(table, b"k");
    assert!(matches!(found, Err(Error::Corruption { .. })), "neither old nor missing: {found:?}");
    drop(engine);
    assert_eq!(verify(STORE, &files).unwrap().problems.len(), 1);
}
