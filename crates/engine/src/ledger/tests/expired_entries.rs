//! Merges of tables with many expired entries: they terminate, and hide nothing from a snapshot.

use std::sync::atomic::Ordering;

use super::harness::*;
use crate::ledger::LedgerOptions;

/// More merges than any of these trees needs.
const STEPS_MAX: u32 = 30;
/// A time at which all entries with an expiry, one in four, have expired.
const LATER_MS: u64 = 1_000_000;

fn put_all(store: &mut Store, numbers: std::ops::Range<u32>) {
    numbers.for_each(|number| store.put(&key(number)));
}

/// Merges as long as a merge is due; returns the number of merges.
fn merge_all(store: &Store) -> u32 {
    let mut steps = 0;
    while store.ledger.compact_step().unwrap() {
        steps += 1;
        assert!(steps < STEPS_MAX, "merges have no end");
    }
    steps
}

fn check_nothing_has_expired(store: &Store) {
    let left = store.ledger.sequences_for_tests();
    let expires = |sequence: &u64| store.records[*sequence as usize - 1].entry().expires_at_ms > 0;
    assert!(!left.is_empty() && !left.iter().any(expires), "{left:?}");
}

/// Regression: a table whose expired entries a snapshot keeps was merged again and again.
#[test]
fn expired_entries_are_dropped_once_no_snapshot_needs_them() {
    let mut store = Store::create(small_options());
    put_all(&mut store, 0..20);
    let snapshot = store.ledger.register_snapshot();
    put_all(&mut store, 10..30);
    store.flush();
    assert_eq!(merge_all(&store), 0, "nothing has expired yet");
    store.books.now_ms.store(LATER_MS, Ordering::Relaxed);
    assert_eq!(merge_all(&store), 0, "the snapshot is in the way");
    drop(snapshot);
    assert!(merge_all(&store) > 0);
    check_nothing_has_expired(&store);
}

/// Regression: a table above others was rewritten in place. That could not drop any entry, so the
/// table was due again at once.
#[test]
fn expired_entries_are_merged_with_what_they_may_hide() {
    let sinking = LedgerOptions {
        level_0_trigger: 1,
        level_base_bytes: 1,
        level_factor: 1 << 40,
        ..small_options()
    };
    let mut store = Store::create(sinking.clone());
    put_all(&mut store, 0..40);
    store.flush();
    merge_all(&store);
    // From now on, tables stay in level 1.
    store.options = LedgerOptions { level_base_bytes: 1 << 40, ..sinking };
    store.reopen_as_it_is();
    put_all(&mut store, 0..40);
    store.flush();
    merge_all(&store);
    let levels = store.ledger.stats().levels;
    assert!(levels[1].tables > 0 && levels[2].tables > 0, "{levels:?}");
    store.check_all();
    store.books.now_ms.store(LATER_MS, Ordering::Relaxed);
    assert!(merge_all(&store) > 0);
    check_nothing_has_expired(&store);
}
