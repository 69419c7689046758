//! Merges in two concurrent parts.

use pellucid_io::FileSystem;
use pellucid_io::simulated::Faults;

use super::harness::*;
use crate::error::Error;
use crate::ledger::{EntryKind, LedgerOptions, Manifest, NEWEST};

const ROUNDS: u32 = 5;

/// A tree whose merges are behind: five tables in level 0, where three make a merge due.
fn behind(merges_in_parts: bool) -> Store {
    let mut store = Store::create(LedgerOptions { merges_in_parts, ..small_options() });
    for round in 0..ROUNDS {
        for number in 0..80 {
            let kind = if (number + round) % 5 == 0 { EntryKind::Delete } else { EntryKind::Put };
            store.write(&key(number * (round + 1) % 97), kind);
        }
        store.flush();
    }
    assert_eq!(store.ledger.stats().levels[0].tables, u64::from(ROUNDS));
    store
}

fn merges_in_parts(store: &Store) -> u64 {
    store.ledger.stats().levels[0].compaction.in_parts
}

#[test]
fn a_merge_in_parts_has_the_same_result_as_a_whole_one() {
    let (mut parted, whole) = (behind(true), behind(false));
    let snapshot = parted.ledger.register_snapshot();
    let same = whole.ledger.register_snapshot();
    for store in [&parted, &whole] {
        assert!(store.ledger.compact_step().unwrap());
        store.check_all();
        for number in 0..97 {
            let expected = store.expected(&key(number), snapshot.sequence());
            let found = store.get(&key(number), snapshot.sequence());
            let is_there = expected.is_some_and(|record| record.kind == EntryKind::Put);
            assert!(!is_there || found.is_some(), "{number} is lost to the snapshot");
        }
    }
    drop((snapshot, same));
    assert_eq!((merges_in_parts(&parted), merges_in_parts(&whole)), (1, 0));
    assert_eq!(parted.ledger.sequences_for_tests(), whole.ledger.sequences_for_tests());
    let dropped = |store: &Store| store.books.dropped.lock().unwrap().clone();
    assert_eq!(dropped(&parted), dropped(&whole));
    let figures = |store: &Store| {
        let merges = store.ledger.stats().levels[0].compaction;
        (merges.runs, merges.entries_in, merges.entries_dropped, merges.bytes_in)
    };
    assert_eq!(figures(&parted), figures(&whole));
    parted.reopen_as_it_is();
    parted.check_all();
}

/// Whichever call of whichever part fails, no file of either part is left, and the error is the
/// cause.
#[test]
fn a_failed_part_fails_the_whole_merge() {
    for fail_at in 1.. {
        let mut store = behind(true);
        let files = || store.fs.list(&directory().join("ledger")).unwrap().len();
        let before = (files(), store.fs.calls());
        store.fs.set_faults(Faults { fail_call: Some(fail_at), ..Faults::default() });
        let outcome = store.ledger.compact_step();
        let made = store.fs.calls() - before.1;
        store.fs.set_faults(Faults::default());
        store.check_all();
        if let Err(error) = &outcome {
            assert!(!matches!(error, Error::Closed), "call {fail_at}: the cause is hidden");
            assert!(store.ledger.wait_for_memtables().is_err(), "call {fail_at} failed for good");
        }
        let fs = store.fs.kill();
        store.reopen(fs).unwrap_or_else(|error| panic!("call {fail_at}: {error}"));
        store.check_all();
        let named = Manifest::read(&store.fs, directory()).unwrap().unwrap().tables.len();
        assert_eq!(store.fs.list(&directory().join("ledger")).unwrap().len(), named);
        if made < fail_at {
            outcome.unwrap();
            assert!(fail_at > 20, "a merge in parts makes only {made} calls");
            return;
        }
    }
}

/// A full disk during a merge in parts is temporary, too.
#[test]
fn a_full_disk_delays_a_merge_in_parts() {
    let store = behind(true);
    let used = store.fs.used_bytes();
    store.fs.set_faults(Faults { space_bytes: Some(used + 500), ..Faults::default() });
    let refused = store.ledger.compact_step().unwrap_err();
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    assert!(store.fs.used_bytes() <= used, "what both parts wrote is gone");
    store.fs.set_faults(Faults::default());
    assert!(store.ledger.compact_step().unwrap());
    assert_eq!(merges_in_parts(&store), 1);
    assert!(store.get(&key(1), NEWEST).is_some());
    store.check_all();
}
