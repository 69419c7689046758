//! Failures of other stores: the newest version must stay the newest, and deleted keys deleted.

use std::ops::Bound;
use std::path::Path;

use pellucid_io::FileSystem;
use pellucid_io::simulated::SimulatedFileSystem;

use super::harness::*;
use crate::codec::{FILE_HEADER_LENGTH, checksum, checksum_seed, read_u32};
use crate::ledger::{Direction, EntryKind, KeyRange, LedgerOptions, Manifest, NEWEST};
use crate::read_mode::ReadMode;

/// lsm-tree#315: a point read returned an older version, because runs of level 0 were reordered.
#[test]
fn level_0_keeps_its_order_through_merges_and_reopening() {
    let mut store = Store::create(LedgerOptions { level_0_trigger: 4, ..small_options() });
    for round in 0..30_u8 {
        store.put(b"\0\x01hot");
        store.put(&[0, 1, round]);
        store.flush();
        if round % 7 == 6 {
            store.ledger.compact_step().unwrap();
        }
        if round % 5 == 4 {
            store.reopen_as_it_is();
        }
        let newest = store.last_sequence() - 1;
        assert_eq!(store.get(b"\0\x01hot", NEWEST).unwrap().sequence, newest);
    }
}

/// A flush in the middle of a merge is newer than everything that is merged.
#[test]
fn a_flush_within_a_merge_stays_above_it() {
    let mut store = Store::create(small_options());
    (0..2_000).for_each(|number| store.put(&key(number)));
    store.flush();
    for _ in 0..3 {
        store.put(&key(5));
        store.flush();
    }
    store.put(&key(5));
    store.ledger.seal_for_tests(store.last_sequence());
    assert!(store.ledger.compact_step().unwrap());
    let stats = store.ledger.stats();
    assert_eq!((stats.sealed_memtables, stats.levels[0].tables), (0, 1));
    store.check_all();
}

/// Regression: of many tables of level 0, the newest were merged, so that older ones stayed above.
#[test]
fn of_a_long_backlog_the_oldest_tables_go_first() {
    let mut store = Store::create(small_options());
    for round in 0..20_u8 {
        store.put(b"\0\x01hot");
        store.put(&[0, 1, round]);
        store.flush();
    }
    assert!(store.ledger.compact_step().unwrap());
    let left = store.ledger.stats().levels[0].tables;
    assert!((1..20).contains(&left), "{left} tables are left");
    let newest = store.last_sequence() - 1;
    assert_eq!(store.get(b"\0\x01hot", NEWEST).unwrap().sequence, newest);
    store.check_all();
}

/// Regression: a writer as fast as the flushes delayed merges for ever. Level 0 grew to thousands
/// of tables, and each flush wrote a manifest that named all of them.
#[test]
fn a_crowded_level_0_is_merged_before_the_next_flush() {
    // Merges of lower levels, which are often due if level 1 is small, take nothing from level 0.
    for level_base_bytes in [1, 1 << 20] {
        let options = LedgerOptions { level_0_trigger: 2, level_base_bytes, ..small_options() };
        let mut store = Store::create(options);
        for round in 0..200_u8 {
            // When a job flushes one memtable, the next one is waiting already.
            for key in [[0, 1, round, 0], [0, 1, round, 1]] {
                store.put(&key);
                store.ledger.seal_for_tests(store.last_sequence());
            }
            store.ledger.job_step().unwrap();
            let tables = store.ledger.stats().levels[0].tables;
            assert!(tables <= 32, "{tables} tables in level 0");
        }
        while store.ledger.job_step().unwrap() {}
        store.check_all();
    }
}

/// Regression: behind a merge of everything, level 0 may have many times the tables of a crowded
/// one, and all writers waited for the merges of most of them.
#[test]
fn a_merge_that_makes_level_0_smaller_is_followed_by_a_flush() {
    let mut store = Store::create(LedgerOptions { level_0_trigger: 1, ..small_options() });
    for round in 0..50_u8 {
        store.put(&[0, 1, round]);
        store.flush();
    }
    store.put(b"\0\x01hot");
    store.ledger.seal_for_tests(store.last_sequence());
    assert!(store.ledger.job_step().unwrap());
    let stats = store.ledger.stats();
    assert_eq!((stats.sealed_memtables, stats.levels[0].tables), (0, 50 - 16 + 1));
    store.check_all();
}

/// Tables of a level are distinguished by the first bytes of their keys, which may all be equal.
#[test]
fn keys_with_equal_fronts_are_found_in_all_tables() {
    let mut store = Store::create(small_options());
    for number in 0..500_u32 {
        store.put(&[&b"\0\x01all of them begin alike "[..], &number.to_be_bytes()].concat());
    }
    store.flush();
    store.ledger.compact_all().unwrap();
    assert!(store.ledger.stats().levels[1].tables > 2);
    store.check_all();
}

/// badger#2143: a tombstone was merged below the value that it hides.
#[test]
fn deleted_keys_stay_deleted_at_every_depth() {
    let options = LedgerOptions { level_base_bytes: 1, level_factor: 1, ..small_options() };
    let mut store = Store::create(options);
    let keys: Vec<_> = (0..200).map(key).collect();
    for kind in [EntryKind::Put, EntryKind::Delete] {
        for key in &keys {
            store.write(key, kind);
        }
        store.flush();
        // The values move to the deepest level first; the tombstones follow step by step.
        loop {
            store.check_all();
            if kind == EntryKind::Delete {
                assert!(keys.iter().all(|key| {
                    store.get(key, NEWEST).is_none_or(|found| found.kind == EntryKind::Delete)
                }));
            }
            if !store.ledger.compact_step().unwrap() {
                break;
            }
        }
        store.flush();
        if kind == EntryKind::Put {
            store.ledger.compact_all().unwrap();
        }
    }
    store.ledger.compact_all().unwrap();
    assert!(store.ledger.sequences_for_tests().is_empty());
    assert_eq!(store.books.dropped.lock().unwrap().len(), 400);
}

/// lsm-tree#321: a merge dropped a version that an open snapshot needs.
#[test]
fn a_snapshot_keeps_its_versions_through_merges() {
    let mut store = Store::create(small_options());
    store.put(b"\0\x01a");
    let snapshot = store.ledger.register_snapshot();
    store.write(b"\0\x01a", EntryKind::Delete);
    store.flush();
    store.put(b"\0\x01b");
    store.flush();
    store.ledger.compact_all().unwrap();
    assert_eq!(store.get(b"\0\x01a", snapshot.sequence()).unwrap().sequence, 1);
    assert_eq!(store.get(b"\0\x01a", NEWEST).unwrap().kind, EntryKind::Delete);
    drop(snapshot);
    store.ledger.compact_all().unwrap();
    assert_eq!(store.ledger.sequences_for_tests(), [3]);
}

/// A scan continues on the tables with which it began, even if they are merged and removed.
#[test]
fn a_scan_outlives_the_tables_that_it_reads() {
    let mut store = Store::create(small_options());
    (0..500).for_each(|number| store.put(&key(number)));
    store.flush();
    for direction in [Direction::Forward, Direction::Backward] {
        let mut scan =
            store.ledger.scan(KeyRange::EVERYTHING, direction, NEWEST, ReadMode::MayBlock).unwrap();
        assert!(scan.next().unwrap().is_some());
        let at = store.ledger.published_sequence();
        (0..500).for_each(|number| store.put(&key(number)));
        store.flush();
        store.ledger.compact_all().unwrap();
        let mut seen = 1;
        while let Some((_, found)) = scan.next().unwrap() {
            assert!(found.sequence <= at);
            seen += 1;
        }
        assert_eq!(seen, 500);
    }
}

/// Changes the key `from` in the first block of the table at `path` to `to`, and corrects the
/// checksum of the block.
fn change_key(fs: &SimulatedFileSystem, path: &Path, from: u8, to: u8) {
    let number = Manifest::read(fs, directory()).unwrap().unwrap().tables[0].1.number;
    let begin = FILE_HEADER_LENGTH;
    let length = read_u32(&fs.read(path).unwrap(), begin + 4) as usize;
    let block = fs.read(path).unwrap()[begin..begin + length].to_vec();
    // The length of the rest of a key precedes it.
    let place = block.windows(2).position(|bytes| bytes == [1, from]).unwrap() + 1;
    fs.flip_bits(path, (begin + place) as u64, from ^ to).unwrap();
    let block = fs.read(path).unwrap()[begin..begin + length].to_vec();
    let sum = checksum(checksum_seed(&[STORE, number, begin as u64]), &block[4..]).to_le_bytes();
    for (index, (old, new)) in block.iter().zip(sum).enumerate() {
        fs.flip_bits(path, (begin + index) as u64, old ^ new).unwrap();
    }
}

/// Regression, found by the fuzz target `store`: for a block with a valid checksum and keys out of
/// order, a scan returned keys outside its range, some of them so short that the engine panicked.
#[test]
fn a_scan_refuses_a_table_with_keys_out_of_order() {
    for (direction, from, to) in
        [(Direction::Forward, b'd', b'a'), (Direction::Backward, b'b', b'f')]
    {
        let mut store = Store::create(small_options());
        [b"\0\x01b", b"\0\x01c", b"\0\x01d"].iter().for_each(|key| store.put(*key));
        store.flush();
        let fs = store.fs.kill();
        let name = fs.list(&directory().join("ledger")).unwrap().remove(0);
        let path = directory().join("ledger").join(name);
        change_key(&fs, &path, from, to);
        store.reopen(fs).unwrap();
        let range =
            KeyRange { start: Bound::Included(b"\0\x01b"), end: Bound::Excluded(b"\0\x01e") };
        let mut scan = store.ledger.scan(range, direction, NEWEST, ReadMode::MayBlock).unwrap();
        let error = loop {
            match scan.next() {
                Ok(Some((key, _))) => assert!((b'b'..b'e').contains(&key[2]), "{key:?}"),
                Ok(None) => panic!("a scan ended as if all were in order"),
                Err(error) => break error.to_string(),
            }
        };
        let place = format!("{} is damaged at offset {FILE_HEADER_LENGTH}", path.display());
        assert!(error.starts_with(&place) && error.contains("out of order"), "{error}");
    }
}
