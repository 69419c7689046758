//! Small values are held in the ledger, and values are compressed, if the table's options say so.
//! These tests check reads, the accounting of dead bytes, reopening and rebuilding.

use std::ops::Bound;

use crate::common::*;
use pellucid_engine::{
    Acknowledgement, Compression, Direction, Engine, Error, Operation, TableId, TableOptions,
    rebuild_ledger, verify,
};
use pellucid_io::simulated::SimulatedFileSystem;

const KEYS: u8 = 100;

fn key(number: u8) -> Vec<u8> {
    format!("key {number:03}").into_bytes()
}

/// Returns short and long values, some of them compressible.
fn value(number: u8) -> Vec<u8> {
    let length = usize::from(number) * 2;
    match number % 2 {
        0 => vec![number; length],
        _ => (0..length).map(|at| (at * at / 7 * 31 + usize::from(number)) as u8).collect(),
    }
}

fn fill(engine: &Engine, table: TableId) {
    for number in 0..KEYS {
        put(engine, table, &key(number), &value(number)).unwrap();
    }
}

fn check(engine: &Engine, table: TableId) {
    for number in 0..KEYS {
        assert_eq!(get(engine, table, &key(number)).unwrap(), Some(value(number)), "{number}");
        let head = engine.head(table, &key(number)).unwrap().unwrap();
        assert_eq!(head.value_length as usize, value(number).len());
    }
    let scan = engine.scan(table, Bound::Unbounded, Bound::Unbounded, Direction::Backward).unwrap();
    let mut rows = collect(scan).unwrap();
    rows.reverse();
    assert!(rows.into_iter().map(|(_, held)| held.value).eq((0..KEYS).map(value)));
}

fn held(held_value_length_max: u32) -> TableOptions {
    TableOptions { held_value_length_max, ..TableOptions::default() }
}

/// Overwrites every record in the file of every segment.
fn destroy_journal(files: &SimulatedFileSystem) {
    for path in paths(files, "journal") {
        let length = files.read(&path).unwrap().len() as u64;
        // Overwrites everything between the header and the footer of the segments of this test.
        for offset in (64..length.saturating_sub(400)).step_by(8) {
            files.flip_bits(&path, offset, 0xff).unwrap();
        }
    }
}

#[test]
fn reads_of_held_values_never_touch_the_journal() {
    let (files, engine, table) = open_new_with(small, &held(1_000));
    fill(&engine, table);
    check(&engine, table);
    engine.flush().unwrap();
    check(&engine, table);
    destroy_journal(&files);
    check(&engine, table);
    let reads = engine.stats().reads;
    assert_eq!((reads.records, reads.held_values), (0, 6 * u64::from(KEYS)));
}

#[test]
fn values_above_the_length_come_from_the_journal() {
    let (_files, engine, table) = open_new_with(small, &held(64));
    fill(&engine, table);
    check(&engine, table);
    let reads = engine.stats().reads;
    let short = (0..KEYS).filter(|number| value(*number).len() <= 64).count() as u64;
    assert_eq!((reads.records, reads.held_values), (2 * (u64::from(KEYS) - short), 2 * short));
}

/// A table keeps its options in replay and when its ledger is rebuilt.
#[test]
fn values_are_held_after_a_kill_and_after_rebuilding() {
    let options = TableOptions { value_compression: Compression::Lz4, ..held(1_000) };
    let (files, engine, table) = open_new_with(small, &options);
    engine.flush().unwrap();
    fill(&engine, table);
    let late = engine.table_with("late", &held(0)).unwrap();
    fill(&engine, late);
    let files = files.kill();
    drop(engine);
    let engine = open(&files).unwrap();
    check(&engine, table);
    assert_eq!(engine.stats().reads.records, 0);
    check(&engine, late);
    assert_eq!(engine.stats().reads.records, 2 * (u64::from(KEYS) - 1), "the empty one is held");
    engine.close().unwrap();
    drop(engine);
    rebuild_ledger(STORE, small(&files)).unwrap();
    let engine = open(&files).unwrap();
    check(&engine, table);
    assert_eq!(engine.stats().reads.records, 0);
    check(&engine, late);
}

/// The dead bytes are counted from the stored sizes of the records, so that collection finds all of
/// them.
#[test]
fn dead_bytes_are_exact_with_compressed_values() {
    let options = TableOptions { value_compression: Compression::Lz4, ..held(20) };
    let (_files, engine, table) = open_new_with(small, &options);
    let compressible = vec![5; 3_000];
    for _ in 0..3 {
        for number in 0..KEYS {
            put(&engine, table, &key(number), &compressible).unwrap();
        }
    }
    assert!(engine.stats().journal_bytes < 100_000, "they are compressed");
    fill(&engine, table);
    settle(&engine);
    let stats = engine.stats();
    let record = |stored: u64| (24 + 2 + 7 + 4 + stored).next_multiple_of(8);
    let dead = stats.journal_dead_bytes;
    assert!(dead.is_multiple_of(3 * u64::from(KEYS)), "each record is as long: {dead}");
    let each = dead / 3 / u64::from(KEYS);
    assert!(each >= record(16) && each <= record(64), "{each}");
    engine.collect().unwrap();
    check(&engine, table);
}

/// The blocks of one table are compressed, and those of the tables next to it are not.
#[test]
fn blocks_are_compressed_by_table() {
    let sizes = [Compression::None, Compression::Lz4].map(|block_compression| {
        let files = SimulatedFileSystem::new();
        let engine = open(&files).unwrap();
        let packed = TableOptions { block_compression, ..held(200) };
        let tables = [("a", held(200)), ("b", packed), ("c", held(0))];
        let tables = tables.map(|(name, options)| engine.table_with(name, &options).unwrap());
        tables.iter().for_each(|table| fill(&engine, *table));
        settle(&engine);
        for _ in 0..2 {
            tables.iter().for_each(|table| check(&engine, *table));
        }
        let levels = engine.stats().ledger.levels;
        engine.close().unwrap();
        assert_eq!(verify(STORE, &files).unwrap().problems, []);
        levels.iter().map(|level| level.size_bytes).sum::<u64>()
    });
    assert!(sizes[1] < sizes[0], "{sizes:?}");
}

/// Heads count towards the memory of a batch. A batch that is too large is refused and changes
/// nothing.
#[test]
fn a_batch_beyond_the_memory_of_a_memtable_is_refused() {
    let (_files, engine, table) = open_new(small);
    let head = vec![1; 60 << 10];
    let keys: Vec<Vec<u8>> = (0..20).map(key).collect();
    let operations: Vec<_> =
        keys.iter().map(|key| Operation::put(table, key, b"v").with_head(&head)).collect();
    let write = |operations: &[Operation<'_>]| engine.write(operations, Acknowledgement::Os);
    let sequence = engine.stats().published_sequence;
    let refused = write(&operations).unwrap_err();
    assert!(matches!(refused, Error::BatchMemory { entries: 20, .. }), "{refused}");
    assert_eq!(engine.stats().published_sequence, sequence);
    write(&operations[..2]).unwrap();
    let memory = engine.stats().memory;
    assert_eq!(memory.setting_bytes, 64 << 10);
    assert!(memory.memtables.used_bytes > 0 && memory.tables.limit_bytes > 0);
}
