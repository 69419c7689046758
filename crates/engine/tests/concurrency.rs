//! Tests with concurrent writers, readers, scans and snapshots, and with all threads of the engine.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::common::*;
use pellucid_engine::{
    Acknowledgement, Batch, Condition, Direction, Engine, EngineOptions, Error, IndexChange,
    IndexId, Operation, Selection, TableId,
};
use pellucid_io::SeededRandom;
use pellucid_io::simulated::SimulatedFileSystem;

/// The number of pairs of keys; every batch sets both keys of a pair to the same value.
const PAIRS: u64 = 50;
/// The number of objects that move from term to term, and of the moves of each writer.
const MOVED_KEYS: u64 = 30;
const MOVES: u64 = 10_000;
/// The number of batches of each writer.
const BATCHES: u64 = 40_000;

fn busy_options(files: &SimulatedFileSystem) -> EngineOptions {
    EngineOptions { background: true, segment_size_bytes: 64 << 10, ..small(files) }
}

fn pair(number: u64) -> ([u8; 9], [u8; 9]) {
    let (mut left, mut right) = ([b'a'; 9], [b'z'; 9]);
    left[1..].copy_from_slice(&number.to_be_bytes());
    right[1..].copy_from_slice(&number.to_be_bytes());
    (left, right)
}

/// Writes batches; each sets both keys of a pair to one value that is higher than all before.
fn write_pairs(engine: &Engine, table: TableId, counter: &AtomicU64, seed: u64) {
    let mut random = SeededRandom::new(seed);
    for _ in 0..BATCHES {
        let (left, right) = pair(random.below(PAIRS));
        let value = counter.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        let mut batch = Batch::new();
        batch.put(table, &left, b"", &value);
        batch.put(table, &right, b"", &value);
        engine.write(&batch, Acknowledgement::Os).unwrap();
    }
}

fn read_pairs(engine: &Engine, table: TableId, stop: &AtomicBool, seed: u64) {
    let mut random = SeededRandom::new(seed);
    let mut last = vec![0; PAIRS as usize];
    while !stop.load(Ordering::Relaxed) {
        let number = random.below(PAIRS);
        let (left, right) = pair(number);
        if let Some(object) = engine.get(table, &left).unwrap() {
            let seen = &mut last[number as usize];
            assert!(object.head.sequence >= *seen, "a key goes back in time");
            *seen = object.head.sequence;
        }
        let snapshot = engine.snapshot();
        let value = |key: &[u8]| {
            let object = snapshot.get(table, key).unwrap();
            object.map(|object| object.value.to_vec())
        };
        assert_eq!(value(&left), value(&right), "a snapshot sees half a batch");
    }
}

fn scan_pairs(engine: &Engine, table: TableId, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        check_pairs(engine, table);
    }
}

fn check_pairs(engine: &Engine, table: TableId) {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let rows = collect(engine.scan(table, all.0, all.1, Direction::Backward).unwrap()).unwrap();
    let (right, left) = rows.split_at(rows.len() / 2);
    assert_eq!(right.len(), left.len());
    for ((right_key, right), (left_key, left)) in right.iter().zip(left) {
        assert_eq!((&right_key[1..], &right.value), (&left_key[1..], &left.value));
    }
}

#[test]
fn readers_see_complete_batches_in_order_while_two_write() {
    let (files, engine, table) = open_new(busy_options);
    let (stop, counter) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _ends = EndOnDrop(&stop);
        let writers = [1, 2].map(|seed| {
            let (engine, counter) = (&engine, &counter);
            scope.spawn(move || write_pairs(engine, table, counter, seed))
        });
        for seed in [3, 4] {
            let (engine, stop) = (&engine, &stop);
            scope.spawn(move || read_pairs(engine, table, stop, seed));
        }
        scope.spawn(|| scan_pairs(&engine, table, &stop));
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                settle(&engine);
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
    });
    assert_eq!(engine.stats().published_sequence, 1 + 4 * BATCHES);
    engine.close().unwrap();
    drop(engine);
    let engine = Engine::open(STORE, busy_options(&files)).unwrap();
    assert_eq!(engine.stats().published_sequence, 1 + 4 * BATCHES);
    check_pairs(&engine, table);
}

#[test]
fn a_counter_by_compare_and_set_loses_no_increment() {
    let (_files, engine, table) = open_new(busy_options);
    put(&engine, table, b"counter", &0_u64.to_le_bytes()).unwrap();
    let increment = || {
        let mut done = 0;
        while done < 1_000 {
            let object = engine.get(table, b"counter").unwrap().unwrap();
            let value = u64::from_le_bytes((*object.value).try_into().unwrap()) + 1;
            let bytes = value.to_le_bytes();
            let operation = Operation::put(table, b"counter", &bytes)
                .with_condition(Condition::Sequence(object.head.sequence));
            match engine.write(&[operation], Acknowledgement::Os) {
                Ok(_) => done += 1,
                Err(Error::ConditionFailed { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(increment);
        scope.spawn(increment);
    });
    let value = get(&engine, table, b"counter").unwrap().unwrap();
    assert_eq!(value, 2_000_u64.to_le_bytes());
}

#[test]
fn writers_that_wait_for_durability_share_syncs_and_lose_nothing() {
    let (files, engine, table) = open_new(busy_options);
    std::thread::scope(|scope| {
        for writer in 0..4_u8 {
            let engine = &engine;
            scope.spawn(move || {
                for number in 0..200_u8 {
                    put_durable(engine, table, &[b'k', writer, number], &[number]).unwrap();
                }
            });
        }
    });
    let engine = open(&files.crash(0)).unwrap();
    for (writer, number) in (0..4_u8).flat_map(|writer| (0..200_u8).map(move |n| (writer, n))) {
        let value = get(&engine, table, &[b'k', writer, number]).unwrap();
        assert_eq!(value, Some(vec![number]));
    }
}

/// Moves objects from term to term, each time on condition that no other thread has moved it.
fn move_objects(engine: &Engine, table: TableId, index: IndexId, seed: u64) {
    let mut random = SeededRandom::new(seed);
    for _ in 0..MOVES {
        let key = [random.below(MOVED_KEYS) as u8];
        let new = [random.below(5) as u8];
        let found = engine.get(table, &key).unwrap();
        let old = found.as_ref().map(|object| object.value.to_vec());
        let condition =
            found.map_or(Condition::Absent, |object| Condition::Sequence(object.head.sequence));
        let mut changes = vec![];
        changes.extend(old.as_ref().map(|old| IndexChange::remove(index, old)));
        let operation = match random.below(8) {
            0 => Operation::delete(table, &key),
            _ => {
                changes.push(IndexChange::add(index, &new));
                Operation::put(table, &key, &new)
            }
        };
        let operation = operation.with_index_changes(&changes).with_condition(condition);
        match engine.write(&[operation], Acknowledgement::Os) {
            Ok(_) | Err(Error::ConditionFailed { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Checks that every object is found by its value, and by nothing else.
fn check_moved(engine: &Engine, table: TableId, index: IndexId) {
    let (snapshot, all) = (engine.snapshot(), Selection::default());
    let objects = snapshot.fold_objects(table, &all, Vec::new(), |mut found, key, object| {
        found.push((object.value.to_vec(), key.to_vec()));
        ControlFlow::Continue(found)
    });
    let mut objects = objects.unwrap();
    objects.sort();
    assert_eq!(tables::entries(&snapshot, index), objects);
}

#[test]
fn entries_of_an_index_and_their_objects_are_never_seen_apart() {
    let (files, engine, table) = open_new(busy_options);
    let index = engine.index(table, "value").unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = EndOnDrop(&stop);
        let writers = [1, 2].map(|seed| {
            let engine = &engine;
            scope.spawn(move || move_objects(engine, table, index, seed))
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                check_moved(&engine, table, index);
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                settle(&engine);
                engine.collect().unwrap();
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
    });
    check_moved(&engine, table, index);
    drop(engine);
    check_moved(&open(&files.kill()).unwrap(), table, index);
    check_moved(&open(&files.crash(7)).unwrap(), table, index);
}
