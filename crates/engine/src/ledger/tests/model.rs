//! Random operations under several configurations, checked against an ordered map.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::harness::*;
use crate::ledger::{Direction, EntryKind, KeyRange, LedgerOptions, NEWEST, SnapshotGuard};

#[derive(Clone, Debug)]
enum Operation {
    Put(u8),
    Delete(u8),
    /// Many puts of a few keys.
    Burst(u8),
    Seal,
    Flush,
    CompactStep,
    CompactAll,
    TakeSnapshot,
    DropSnapshot,
    Reopen,
    Scan {
        from: u8,
        to: u8,
        inclusive: bool,
        reverse: bool,
        snapshot: bool,
    },
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let scan = (any::<u8>(), any::<u8>(), any::<[bool; 3]>()).prop_map(
        |(from, to, [inclusive, reverse, snapshot])| Operation::Scan {
            from,
            to,
            inclusive,
            reverse,
            snapshot,
        },
    );
    let operation = prop_oneof![
        24 => any::<u8>().prop_map(Operation::Put),
        10 => any::<u8>().prop_map(Operation::Delete),
        5 => any::<u8>().prop_map(Operation::Burst),
        3 => Just(Operation::Seal),
        4 => Just(Operation::Flush),
        4 => Just(Operation::CompactStep),
        1 => Just(Operation::CompactAll),
        2 => Just(Operation::TakeSnapshot),
        2 => Just(Operation::DropSnapshot),
        1 => Just(Operation::Reopen),
        6 => scan,
    ];
    prop::collection::vec(operation, 1..140)
}

fn configurations() -> impl Strategy<Value = LedgerOptions> {
    let small = small_options();
    let one_entry_blocks = LedgerOptions { block_size_bytes: 1, ..small.clone() };
    let tiny_levels = LedgerOptions {
        level_base_bytes: 1,
        level_factor: 2,
        table_size_bytes: 1,
        ..small.clone()
    };
    let one_level =
        LedgerOptions { level_base_bytes: 1 << 40, level_0_trigger: 1, ..small.clone() };
    let always_in_parts = LedgerOptions {
        merges_in_parts: true,
        level_0_trigger: 1,
        table_size_bytes: 1,
        ..small.clone()
    };
    let weak_filter = LedgerOptions { filter_bits_per_key: 1, ..small.clone() };
    let tiny_memtables = LedgerOptions { memtable_size_bytes: 300, ..small.clone() };
    let choices = [
        small,
        one_entry_blocks,
        tiny_levels,
        one_level,
        weak_filter,
        tiny_memtables,
        always_in_parts,
        LedgerOptions { background: false, ..LedgerOptions::default() },
    ];
    prop::sample::select(choices.to_vec())
}

fn key_of(number: u8) -> Vec<u8> {
    // Some keys are prefixes of one another, and some are longer than a block.
    let number = number % 60;
    let length = if number == 31 { 300 } else { 1 + usize::from(number) % 11 };
    [vec![0, number % 3], vec![b'k'; length], vec![number / 20]].concat()
}

struct Run {
    store: Store,
    snapshots: Vec<SnapshotGuard>,
}

impl Run {
    fn write(&mut self, key: u8, kind: EntryKind) {
        self.store.ledger.wait_for_memtables().unwrap();
        self.store.write(&key_of(key), kind);
        self.store.ledger.rotate_if_full(self.store.last_sequence());
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Put(key) => self.write(*key, EntryKind::Put),
            Operation::Delete(key) => self.write(*key, EntryKind::Delete),
            Operation::Burst(key) => {
                (0..40).for_each(|i| self.write(key.wrapping_add(i % 7), EntryKind::Put))
            }
            Operation::Seal => self.store.ledger.seal_for_tests(self.store.last_sequence()),
            Operation::Flush => self.store.flush(),
            Operation::CompactStep => {
                self.store.ledger.compact_step().unwrap();
            }
            Operation::CompactAll => self.store.ledger.compact_all().unwrap(),
            Operation::TakeSnapshot => self.snapshots.push(self.store.ledger.register_snapshot()),
            Operation::DropSnapshot => {
                let middle = self.snapshots.len() / 2;
                if middle < self.snapshots.len() {
                    self.snapshots.swap_remove(middle);
                }
            }
            Operation::Reopen => {
                // Snapshots end with the process.
                self.snapshots.clear();
                self.store.reopen_as_it_is();
            }
            Operation::Scan { from, to, inclusive, reverse, snapshot } => {
                let at = self.snapshots.last().filter(|_| *snapshot);
                let at = at.map_or(NEWEST, SnapshotGuard::sequence);
                let (from, to) = (key_of(*from), key_of(*to));
                let (start, end) = match inclusive {
                    true => (Bound::Included(&from[..]), Bound::Included(&to[..])),
                    false => (Bound::Excluded(&from[..]), Bound::Excluded(&to[..])),
                };
                self.check_scan(KeyRange { start, end }, *reverse, at);
            }
        }
    }

    fn model_at(&self, at: u64) -> BTreeMap<&[u8], u64> {
        let mut model = BTreeMap::new();
        for record in &self.store.records[..at.min(self.store.last_sequence()) as usize] {
            match record.kind {
                EntryKind::Put => model.insert(&record.key[..], record.sequence),
                EntryKind::Delete => model.remove(&record.key[..]),
            };
        }
        model
    }

    fn check_scan(&self, range: KeyRange<'_>, reverse: bool, at: u64) {
        let model = self.model_at(at);
        let bounds = (range.start, range.end);
        let within =
            model.into_iter().filter(|(key, _)| RangeBounds::<[u8]>::contains(&bounds, *key));
        let mut expected: Vec<_> = within.map(|(key, sequence)| (key.to_vec(), sequence)).collect();
        if reverse {
            expected.reverse();
        }
        let direction = if reverse { Direction::Backward } else { Direction::Forward };
        let found = scanned(&self.store.ledger, range, direction, at);
        assert_eq!(found, expected, "scan {direction:?} of {range:?} at {at}");
    }

    fn check_gets(&self) {
        let snapshots = self.snapshots.iter().map(SnapshotGuard::sequence);
        for at in snapshots.chain([NEWEST]) {
            let model = self.model_at(at);
            for key in (0..60).map(key_of).chain([vec![0, 9], vec![0, 0, 0]]) {
                let found = self.store.get(&key, at).filter(|found| found.kind == EntryKind::Put);
                assert_eq!(
                    found.as_ref().map(|found| found.sequence),
                    model.get(&key[..]).copied()
                );
                if let Some(found) = found {
                    assert_eq!(
                        found,
                        self.store.records[found.sequence as usize - 1].entry().to_found()
                    );
                }
            }
        }
    }

    /// Every inserted entry is either in the tree or was dropped, exactly once.
    fn check_books(&self) {
        let held = self.store.ledger.sequences_for_tests();
        let dropped = self.store.books.dropped.lock().unwrap();
        let unique: BTreeSet<u64> = held.iter().copied().collect();
        assert_eq!(unique.len(), held.len(), "an entry is held twice");
        let all: HashSet<u64> = unique.union(&dropped.iter().copied().collect()).copied().collect();
        assert_eq!(all.len(), held.len() + dropped.len(), "an entry is both held and dropped");
        assert_eq!(all.len() as u64, self.store.last_sequence(), "an entry is lost");
        let bytes_of =
            |sequence: &u64| self.store.records[*sequence as usize - 1].entry().record_size_bytes();
        let dropped_bytes: u64 = dropped.iter().map(bytes_of).sum();
        assert_eq!(dropped_bytes, self.store.books.dropped_bytes.load(Ordering::Relaxed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]
    #[test]
    fn agrees_with_an_ordered_map(operations in operations(), options in configurations()) {
        let mut run = Run { store: Store::create(options), snapshots: Vec::new() };
        for (turn, operation) in operations.iter().enumerate() {
            run.apply(operation);
            if turn % 16 == 0 {
                run.check_gets();
            }
        }
        run.check_gets();
        run.check_books();
        run.check_scan(KeyRange::EVERYTHING, false, NEWEST);
        run.check_scan(KeyRange::EVERYTHING, true, NEWEST);
        run.store.ledger.verify().unwrap();

        // Without snapshots, everything is merged into one level with exactly the live keys.
        run.snapshots.clear();
        run.store.flush();
        run.store.ledger.compact_all().unwrap();
        run.check_gets();
        run.check_books();
        let live: BTreeSet<u64> = run.model_at(NEWEST).into_values().collect();
        prop_assert_eq!(live, run.store.ledger.sequences_for_tests().into_iter().collect());
    }
}
