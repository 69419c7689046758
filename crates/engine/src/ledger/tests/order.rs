//! Regressions that others had: what is newest stays newest, what is deleted stays deleted.

use super::harness::*;
use crate::ledger::{Kind, LedgerOptions, NEWEST};
use crate::read_mode::ReadMode;

/// lsm-tree#315: a point read returned an older version because runs of level 0 were reordered.
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
            let fs = store.fs.clone();
            store.reopen(fs).unwrap();
        }
        let newest = store.last_sequence() - 1;
        assert_eq!(store.get(b"\0\x01hot", NEWEST).unwrap().sequence, newest);
    }
}

/// A flush that comes in the middle of a merge is newer than everything merged.
#[test]
fn a_flush_within_a_merge_stays_above_it() {
    let mut store = Store::create(small_options());
    for key in 0..2000_u32 {
        store.put(&[&[0, 1], &key.to_be_bytes()[..]].concat());
    }
    store.flush();
    for _ in 0..3 {
        store.put(b"\0\x01\0\0\0\x05");
        store.flush();
    }
    store.put(b"\0\x01\0\0\0\x05");
    store.ledger.seal_for_tests(store.last_sequence());
    assert!(store.ledger.compact_step().unwrap());
    let stats = store.ledger.stats();
    assert_eq!((stats.sealed_memtables, stats.levels[0].tables), (0, 1));
    store.check_all();
}

/// Of many tables of level 0, the newest were merged, and those that stayed above them were older.
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

/// Tables of a level are told apart by the first bytes of their keys, which may all be the same.
#[test]
fn keys_that_begin_alike_are_found_in_whichever_table_they_are() {
    let mut store = Store::create(small_options());
    for number in 0..500_u32 {
        store.put(&[&b"\0\x01all of them begin alike "[..], &number.to_be_bytes()].concat());
    }
    store.flush();
    store.ledger.compact_all().unwrap();
    assert!(store.ledger.stats().levels[1].tables > 2);
    store.check_all();
}

/// badger#2143: a tombstone that was merged below the value that it hides.
#[test]
fn deleted_keys_stay_deleted_at_every_depth() {
    let options = LedgerOptions { level_base_bytes: 1, level_factor: 1, ..small_options() };
    let mut store = Store::create(options);
    let keys: Vec<Vec<u8>> =
        (0..200_u32).map(|key| [&[0, 1], &key.to_be_bytes()[..]].concat()).collect();
    for kind in [Kind::Put, Kind::Delete] {
        for key in &keys {
            store.write(key, kind);
        }
        store.flush();
        // The values sink to the deepest level before the tombstones follow them, step by step.
        loop {
            store.check_all();
            if kind == Kind::Delete {
                assert!(keys.iter().all(|key| {
                    store.get(key, NEWEST).is_none_or(|found| found.kind == Kind::Delete)
                }));
            }
            if !store.ledger.compact_step().unwrap() {
                break;
            }
        }
        store.flush();
        if kind == Kind::Put {
            store.ledger.compact_all().unwrap();
        }
    }
    store.ledger.compact_all().unwrap();
    assert!(store.ledger.sequences_for_tests().is_empty());
    assert_eq!(store.books.dropped.lock().unwrap().len(), 400);
}

/// lsm-tree#321: a merge dropped the version that an open snapshot needs.
#[test]
fn a_snapshot_keeps_its_versions_through_merges() {
    let mut store = Store::create(small_options());
    store.put(b"\0\x01a");
    let snapshot = store.ledger.register_snapshot();
    store.write(b"\0\x01a", Kind::Delete);
    store.flush();
    store.put(b"\0\x01b");
    store.flush();
    store.ledger.compact_all().unwrap();
    assert_eq!(store.get(b"\0\x01a", snapshot.sequence()).unwrap().sequence, 1);
    assert_eq!(store.get(b"\0\x01a", NEWEST).unwrap().kind, Kind::Delete);
    drop(snapshot);
    store.ledger.compact_all().unwrap();
    assert_eq!(store.ledger.sequences_for_tests(), [3]);
}

/// A scan goes on over what it began with, whatever is merged and removed meanwhile.
#[test]
fn a_scan_outlives_the_tables_that_it_reads() {
    use crate::ledger::{Direction, KeyRange};
    use std::ops::Bound::Unbounded;
    let mut store = Store::create(small_options());
    for key in 0..500_u32 {
        store.put(&[&[0, 1], &key.to_be_bytes()[..]].concat());
    }
    store.flush();
    let range = KeyRange { start: Unbounded, end: Unbounded };
    for direction in [Direction::Forward, Direction::Reverse] {
        let mut scan = store.ledger.scan(range, direction, NEWEST, ReadMode::MayBlock).unwrap();
        assert!(scan.next().unwrap().is_some());
        let at = store.ledger.published_sequence();
        for key in 0..500_u32 {
            store.write(&[&[0, 1], &key.to_be_bytes()[..]].concat(), Kind::Put);
        }
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
