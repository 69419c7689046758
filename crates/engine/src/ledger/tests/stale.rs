//! Merges of tables of which much has expired: they end, and hide nothing from a snapshot.

use std::sync::atomic::Ordering;

use super::harness::*;
use crate::ledger::LedgerOptions;

/// More merges than any of these trees needs.
const STEPS_MAX: u32 = 30;
/// A time at which everything that can expire has: one in four entries can.
const LATER_MS: u64 = 1_000_000;

fn put_all(store: &mut Store, numbers: std::ops::Range<u32>) {
    numbers.for_each(|number| store.put(&key(number)));
}

/// Merges for as long as a merge is due; says how many were.
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

/// A table whose expired entries a snapshot keeps was merged again and again.
#[test]
fn what_has_expired_goes_once_no_snapshot_is_in_the_way() {
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

/// A table with something below it was written anew where it was: that could not let anything go,
/// and was due again.
#[test]
fn what_has_expired_sinks_to_what_it_may_hide() {
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
