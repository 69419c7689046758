//! Tests of the memtable against an ordered map, and with concurrent readers and a writer.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::codec::key_hash;
use crate::ledger::tests::harness::EndOnDrop;

type Model = BTreeMap<(Vec<u8>, Reverse<u64>), u32>;

/// A memtable in memory that an earlier memtable has used.
fn memtable(size_bytes: u64) -> Arc<Memtable> {
    let pool = Arc::new(MemoryPool::new(64 << 20));
    let before = Memtable::new(size_bytes, false, &pool);
    let key = b"before";
    (1..100).for_each(|sequence| before.insert(&Entry::sample(key, sequence), key_hash(key)));
    drop(before);
    Arc::new(Memtable::new(size_bytes, false, &pool))
}

fn fill(keys: &[Vec<u8>], size_bytes: u64) -> (Arc<Memtable>, Model) {
    let memtable = memtable(size_bytes);
    let mut model = Model::new();
    for (key, sequence) in keys.iter().zip(1..) {
        memtable.insert(&Entry::sample(key, sequence), key_hash(key));
        model.insert((key.clone(), Reverse(sequence)), Entry::sample(key, sequence).value_length);
    }
    (memtable, model)
}

fn keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let key = prop_oneof![
        prop::collection::vec(0_u8..3, 1..12),
        prop::collection::vec(any::<u8>(), 1..24),
        Just(vec![0; 8]),
        Just(vec![0; 9]),
    ];
    prop::collection::vec(key, 0..300)
}

proptest! {
    #[test]
    fn look_ups_agree_with_an_ordered_map(
        keys in keys(),
        size_bytes in prop_oneof![Just(1_u64), Just(1 << 20)],
    ) {
        let (memtable, model) = fill(&keys, size_bytes);
        prop_assert_eq!(memtable.entries(), model.len() as u64);
        for (key, at) in keys.iter().zip((0..).step_by(3)) {
            let expected = model.range((key.clone(), Reverse(at))..).next()
                .filter(|((found, _), _)| found == key);
            let found = memtable.get(key, key_hash(key), at);
            let expected = expected.map(|((_, sequence), _)| sequence.0);
            prop_assert_eq!(found.map(|found| found.sequence), expected);
            if let Some(found) = found {
                prop_assert_eq!(found, Entry::sample(key, found.sequence));
            }
        }
        let absent = [9_u8; 30];
        prop_assert!(memtable.get(&absent, key_hash(&absent), u64::MAX).is_none());
    }

    #[test]
    fn cursors_agree_with_an_ordered_map_in_both_directions(
        keys in keys(),
        pivot in prop::collection::vec(0_u8..3, 0..6),
    ) {
        let (memtable, model) = fill(&keys, 1 << 16);
        let place = |entry: Entry<'_>| (entry.key.to_vec(), Reverse(entry.sequence));
        let mut cursor = MemtableCursor::over_all(&memtable);
        cursor.seek_at_or_after(&pivot);
        let mut upwards = Vec::new();
        while let Some(entry) = cursor.entry() {
            upwards.push(place(entry));
            cursor.next();
        }
        let from = (pivot.clone(), Reverse(u64::MAX));
        let expected = model.range(from.clone()..).map(|(place, _)| place.clone());
        let expected: Vec<_> = expected.collect();
        prop_assert_eq!(upwards, expected);
        cursor.seek_before(&pivot);
        let mut downwards = Vec::new();
        while let Some(entry) = cursor.entry() {
            downwards.push(place(entry));
            cursor.previous();
        }
        let expected: Vec<_> = model.range(..from).rev().map(|(place, _)| place.clone()).collect();
        prop_assert_eq!(downwards, expected);
        cursor.seek_last();
        let last = cursor.entry().map(place);
        prop_assert_eq!(last, model.keys().next_back().cloned());
        cursor.seek_first();
        let first = cursor.entry().map(place);
        prop_assert_eq!(first, model.keys().next().cloned());
    }
}

#[test]
fn runs_are_few_and_hold_all_entries_in_order() {
    let memtable = memtable(1 << 16);
    for sequence in 1..=3_000_u64 {
        let key = format!("key{:03}", sequence * 7919 % 701).into_bytes();
        memtable.insert(&Entry::sample(&key, sequence), key_hash(&key));
        let mut places = Vec::new();
        let cursors = MemtableCursor::over_runs(&memtable);
        assert!(cursors.len() <= 12, "{} runs of {sequence} entries", cursors.len());
        if !sequence.is_multiple_of(100) {
            continue;
        }
        for mut cursor in cursors {
            let before = places.len();
            cursor.seek_first();
            while let Some(entry) = cursor.entry() {
                places.push((entry.key.to_vec(), Reverse(entry.sequence)));
                cursor.next();
            }
            assert!(places[before..].is_sorted());
        }
        places.sort_by_key(|(_, sequence)| sequence.0);
        assert!(places.iter().map(|(_, sequence)| sequence.0).eq(1..=sequence));
    }
}

#[test]
fn readers_see_complete_entries_while_a_writer_inserts() {
    const ENTRIES: u64 = if cfg!(miri) { 150 } else { 60_000 };
    /// A reader checks all entries once in this many turns.
    const ALL_EVERY: u64 = if cfg!(miri) { 40 } else { 4_096 };
    let memtable = memtable(if cfg!(miri) { 1 << 12 } else { 1 << 20 });
    let (published, is_done, scans) =
        (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
    let key_of = |sequence: u64| format!("key{:05}", sequence * 7919 % 20_011).into_bytes();
    std::thread::scope(|scope| {
        let readers = [0, 1].map(|reader| {
            let (memtable, published, is_done, scans) = (&memtable, &published, &is_done, &scans);
            scope.spawn(move || {
                let mut turn = reader;
                while !is_done.load(Ordering::Acquire) {
                    let at = published.load(Ordering::Acquire);
                    turn += 1;
                    if at > 0 {
                        let key = key_of(1 + turn % at);
                        let found =
                            memtable.get(&key, key_hash(&key), at).expect("it was published");
                        assert_eq!(found, Entry::sample(&key, found.sequence));
                        assert!(found.sequence <= at);
                    }
                    if turn.is_multiple_of(ALL_EVERY) {
                        let mut seen = 0;
                        for mut cursor in MemtableCursor::over_runs(memtable) {
                            cursor.seek_first();
                            while let Some(found) = cursor.entry() {
                                assert_eq!(found, Entry::sample(found.key, found.sequence));
                                seen += u64::from(found.sequence <= at);
                                cursor.next();
                            }
                        }
                        assert_eq!(seen, at);
                        scans.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        });
        // Set even if the writer panics, so that the readers end.
        let _done = EndOnDrop(&is_done);
        for sequence in 1..=ENTRIES {
            while sequence == ENTRIES / 2 && scans.load(Ordering::Relaxed) == 0 {
                assert!(readers.iter().all(|reader| !reader.is_finished()), "a reader panicked");
                std::thread::yield_now();
            }
            let key = key_of(sequence);
            memtable.insert(&Entry::sample(&key, sequence), key_hash(&key));
            published.store(sequence, Ordering::Release);
        }
    });
    assert_eq!(memtable.entries(), ENTRIES);
}
