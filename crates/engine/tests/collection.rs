//! Tests of garbage collection of the journal: what it frees, what it keeps, and that no deleted
//! key returns.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::watched::{FileEvent, is_segment, open_watched};
use crate::common::*;
use pellucid_clock::{Clock, SimulatedClock};
use pellucid_engine::{
    Acknowledgement, Engine, EngineOptions, Error, Operation, TableId, rebuild_ledger, verify,
};
use pellucid_io::simulated::{Faults, SimulatedFileSystem};
use pellucid_io::{FileSystem, SeededRandom};

fn delete(engine: &Engine, table: TableId, key: &[u8]) {
    engine.delete(table, key).unwrap();
}

/// A store whose 40 keys were put four times.
fn overwritten() -> (SimulatedFileSystem, Engine, TableId) {
    let (files, engine, table) = open_new(tiny);
    for round in 0..4_u8 {
        fill(&engine, table, 0..40, &[round; 100]);
    }
    settle(&engine);
    (files, engine, table)
}

fn keys(engine: &Engine, table: TableId) -> Vec<Vec<u8>> {
    rows(engine, table).into_iter().map(|(key, _)| key).collect()
}

/// The length of the records of all live keys, in bytes.
fn live_bytes(engine: &Engine, table: TableId) -> u64 {
    let record = |key: usize, held: &StoredObject| {
        let header = if held.head.is_empty() { 24 } else { 40 };
        (header + 2 + key + held.head.len() + held.value.len()) as u64
    };
    rows(engine, table).iter().map(|(key, held)| record(key.len(), held).next_multiple_of(8)).sum()
}

#[test]
fn overwritten_values_are_freed_and_the_others_keep_their_sequence_numbers() {
    let (files, engine, table) = open_new(tiny);
    for round in 0..10_u8 {
        fill(&engine, table, 0..50, &[round; 100]);
    }
    put(&engine, table, b"rarely", b"1").unwrap();
    settle(&engine);
    let before = engine.stats();
    let heads: Vec<u64> = (0..50)
        .map(|number| {
            let head = engine.head(table, &key(number)).unwrap().unwrap();
            head.sequence
        })
        .collect();
    let collected = engine.collect().unwrap();
    let after = engine.stats();
    assert_eq!(before.journal_bytes - after.journal_bytes, collected.freed_bytes);
    assert!(after.journal_bytes < before.journal_bytes / 4, "{before:?} {after:?}");
    assert!(collected.segments > 5 && after.segments < before.segments);
    assert_eq!(after.collected, collected);
    for number in 0..50 {
        let object = engine.get(table, &key(number)).unwrap().unwrap();
        assert_eq!(object.head.sequence, heads[number as usize]);
        assert_eq!(*object.value, [9; 100]);
    }
    assert_eq!(engine.collect().unwrap().segments, 0, "there is nothing left to do");
    assert_eq!(paths(&files, "journal").len() as u64, after.segments, "the old files are gone");
    engine.close().unwrap();
    assert_eq!(verify(STORE, &files).unwrap().problems, []);
    let engine = Engine::open(STORE, tiny(&files)).unwrap();
    assert_eq!(keys(&engine, table).len(), 51);
    assert_eq!(engine.stats().published_sequence, after.published_sequence);
}

/// Regression: most records that a collection read were dropped anyway. A damaged record shows
/// whether it is read: not if the ledger has dropped it since the store was opened, but always
/// after a new opening.
#[test]
fn dropped_records_are_not_read() {
    for is_reopened in [false, true] {
        let (files, mut engine, table) = open_new(tiny);
        for round in 1..=2 {
            for number in 0..100 {
                engine.put(table, &key(number), &[round; 100]).unwrap();
            }
        }
        settle(&engine);
        let (path, hidden) = find(&files, &[1; 100]);
        files.flip_bits(&path, hidden, 1).unwrap();
        if is_reopened {
            engine.close().unwrap();
            engine = Engine::open(STORE, tiny(&files)).unwrap();
            assert!(matches!(engine.collect(), Err(Error::Corruption { .. })));
            continue;
        }
        assert!(engine.collect().unwrap().freed_bytes > 100 * 100);
        assert!(!files.exists(&path));
        assert_eq!(keys(&engine, table).len(), 100);
        engine.close().unwrap();
        assert_eq!(verify(STORE, &files).unwrap().problems, []);
    }
}

/// The dead bytes are exactly the bytes of all records in the files except the live ones.
#[test]
fn the_counts_of_dead_bytes_are_exact() {
    let files = SimulatedFileSystem::new();
    let mut choose = Chooser::new(5);
    for round in 0..6 {
        let (engine, table) = open_table(tiny(&files));
        for _ in 0..150 {
            let key = key(choose.below(80) as u32);
            if choose.below(4) == 0 {
                delete(&engine, table, &key);
            } else {
                let value = vec![round; choose.below(200) as usize];
                let head = if choose.below(2) == 0 { &b"head"[..] } else { b"" };
                let os = Acknowledgement::Os;
                engine.write(&[Operation::put(table, &key, &value).with_head(head)], os).unwrap();
            }
        }
        settle(&engine);
        // Records in the active segment are in no footer yet; closing seals it.
        engine.close().unwrap();
        assert_eq!(verify(STORE, &files).unwrap().problems, []);
        let engine = Engine::open(STORE, tiny(&files)).unwrap();
        for _ in 0..2 {
            let stats = engine.stats();
            // The record of the catalogue: a header of 40 bytes, a table number of 2, the name, a
            // definition of 24.
            let catalogue = (40 + 2 + 1 + 24_u64).next_multiple_of(8);
            let live = live_bytes(&engine, table) + catalogue;
            let lost = stats.journal_dead_bytes + stats.journal_marker_bytes;
            assert_eq!(record_bytes(&files) - live, lost, "round {round}");
            engine.collect().unwrap();
        }
        engine.close().unwrap();
    }
}

/// Length of the records of all segments, without sync marks, in bytes.
fn record_bytes(files: &SimulatedFileSystem) -> u64 {
    let segments = paths(files, "journal").into_iter();
    records::record_bytes(segments.map(|path| files.read(&path).unwrap()))
}

/// badger#2286, leveled#389: a deleted key must not return after a collection, not even if the
/// ledger is rebuilt afterwards from the remaining records.
#[test]
fn deleted_keys_stay_gone_even_from_a_rebuilt_ledger() {
    for keep_every in [1, 3, 50] {
        let (files, engine, table) = open_new(tiny);
        fill(&engine, table, 0..200, &[1; 100]);
        let mut kept = Vec::new();
        for number in 0..200 {
            if number % keep_every == keep_every - 1 {
                kept.push(key(number));
            } else {
                delete(&engine, table, &key(number));
            }
        }
        for pass in 0..4 {
            settle(&engine);
            engine.collect().unwrap();
            assert_eq!(keys(&engine, table), kept, "pass {pass}");
            // Some more writes, so that the segment with the tombstones is sealed.
            put(&engine, table, b"large", &[2; 5_000]).unwrap();
            delete(&engine, table, b"large");
            let copy = files.kill();
            rebuild_ledger(STORE, tiny(&copy)).unwrap();
            let rebuilt = Engine::open(STORE, tiny(&copy)).unwrap();
            assert_eq!(keys(&rebuilt, table), kept, "rebuilt after pass {pass}");
        }
        engine.close().unwrap();
        let copy = files.kill();
        copy.remove(&Path::new(STORE).join("manifest")).unwrap();
        rebuild_ledger(STORE, tiny(&copy)).unwrap();
        let rebuilt = Engine::open(STORE, tiny(&copy)).unwrap();
        assert_eq!(keys(&rebuilt, table), kept);
    }
}

/// Tombstones are collected, too, so that a queue does not grow for ever.
#[test]
fn tombstones_are_collected_once_they_hide_nothing() {
    let (_files, engine, table) = open_new(tiny);
    put(&engine, table, b"stays", &[1; 3_000]).unwrap();
    for round in 0..20 {
        fill(&engine, table, 0..100, &[round; 100]);
        for number in 0..100 {
            delete(&engine, table, &key(number));
        }
        settle(&engine);
        engine.collect().unwrap();
    }
    let stats = engine.stats();
    assert!(stats.segments < 12, "{stats:?}");
    assert!(stats.journal_bytes < 40_000, "{stats:?}");
    assert_eq!(keys(&engine, table), [b"stays".to_vec()]);
}

/// Live records that make a segment too large to be collected together with others.
const LIVE: std::ops::Range<u32> = 0..40;
/// As many other records, and the length of each of these records.
const OTHERS: std::ops::Range<u32> = 100..140;
/// Records that are overwritten later, enough for the list of them to take a file.
const OVERWRITTEN: std::ops::Range<u32> = 200..350;
const LIVE_RECORD_BYTES: u64 = 136;

fn put_all(engine: &Engine, table: TableId, numbers: std::ops::Range<u32>, byte: u8) {
    for number in numbers {
        engine.put(table, &key(number), &[byte; 100]).unwrap();
    }
}

/// Overwrites one key, so that all of its records except the last are dead.
fn put_often(engine: &Engine, table: TableId, times: u32) {
    for _ in 0..times {
        engine.put(table, b"often", &[3; 300]).unwrap();
    }
}

/// Flushes, and seals the active segment by making a backup.
fn end_segment(engine: &Engine, name: &str) {
    engine.backup(Path::new("/ended").join(name)).unwrap();
}

/// Writes the value of `k` to a segment whose other records are live, and its tombstone to the next
/// one, most of which is dead. No table is merged yet.
fn hide_in_the_segment_above(engine: &Engine, table: TableId) {
    engine.put(table, b"k", &[1; 100]).unwrap();
    put_all(engine, table, LIVE, 2);
    end_segment(engine, "first");
    delete(engine, table, b"k");
    put_often(engine, table, 20);
    end_segment(engine, "second");
}

/// Checks that `k` is absent, also from a ledger that is rebuilt from the journal.
fn check_hidden(files: &SimulatedFileSystem, engine: &Engine, table: TableId) {
    assert_eq!(get(engine, table, b"k").unwrap(), None);
    let copy = files.kill();
    rebuild_ledger(STORE, small(&copy)).unwrap();
    let rebuilt = Engine::open(STORE, small(&copy)).unwrap();
    assert_eq!(get(&rebuilt, table, b"k").unwrap(), None, "it came back");
    assert_eq!(get(&rebuilt, table, &key(LIVE.start)).unwrap(), Some(vec![2; 100]));
}

/// Regression: the tombstone was collected, while its value was in a segment that was not worth
/// collecting.
#[test]
fn a_marker_stays_for_a_value_in_an_older_segment() {
    let (files, engine, table) = open_new(small);
    hide_in_the_segment_above(&engine, table);
    settle(&engine);
    assert_eq!(engine.collect().unwrap().segments, 1, "the one above");
    check_hidden(&files, &engine, table);
}

/// Regression: the list of the entries that a merge dropped did not read back from its file. They
/// counted as live, and the tombstone of a value among them as one that hides nothing.
#[test]
fn a_marker_stays_although_the_list_of_dropped_entries_is_damaged() {
    let (files, watched, engine, table) = open_watched(small);
    hide_in_the_segment_above(&engine, table);
    for (byte, name) in [(3, "third"), (4, "fourth")] {
        put_all(&engine, table, OVERWRITTEN, byte);
        end_segment(&engine, name);
    }
    let seen = files.clone();
    let spill = move || {
        let is_spill = |path: &PathBuf| path.to_string_lossy().ends_with(".dropped.new");
        paths(&seen, "ledger").into_iter().find(is_spill)
    };
    let (damaged, is_spilled) = (files.clone(), spill.clone());
    watched.at_next(
        FileEvent::Synced,
        move |_| is_spilled().is_some(),
        move || damaged.flip_bits(&spill().unwrap(), 0, 1),
    );
    settle(&engine);
    let dead_bytes = engine.stats().journal_dead_bytes;
    let overwritten_bytes = u64::from(OVERWRITTEN.end - OVERWRITTEN.start) * LIVE_RECORD_BYTES;
    assert!(dead_bytes < overwritten_bytes, "{dead_bytes}");
    assert!(engine.collect().unwrap().segments > 1, "the second and above");
    check_hidden(&files, &engine, table);
}

/// Regression: the same, after a snapshot had kept the value in a collected segment. The clean
/// sequence number of that segment wrongly included markers above the snapshot.
#[test]
fn a_marker_stays_for_a_value_that_a_snapshot_kept() {
    let (files, engine, table) = open_new(small);
    engine.put(table, b"k", &[1; 100]).unwrap();
    put_all(&engine, table, LIVE, 2);
    put_often(&engine, table, 6);
    end_segment(&engine, "first");
    let snapshot = engine.snapshot();
    delete(&engine, table, b"k");
    put_all(&engine, table, OTHERS, 4);
    end_segment(&engine, "second");
    engine.compact().unwrap();
    assert_eq!(engine.collect().unwrap().segments, 1, "the first");
    assert!(snapshot.get(table, b"k").unwrap().is_some());
    drop(snapshot);
    put_all(&engine, table, OTHERS, 5);
    end_segment(&engine, "third");
    settle(&engine);
    assert_eq!(engine.collect().unwrap().segments, 1, "the second");
    check_hidden(&files, &engine, table);
}

/// Regression: a merge that ended while the collection was deciding removed value and tombstone
/// from the ledger. The counts of dead bytes were from before, when there was nothing to hide.
#[test]
fn a_merge_in_the_middle_of_a_collection_frees_no_marker_too_early() {
    let (files, watched, engine, table) = open_watched(small);
    hide_in_the_segment_above(&engine, table);
    let (begin, begun) = mpsc::channel();
    watched.at_next(FileEvent::Created, is_segment, move || {
        let _ = begin.send(());
        Ok(())
    });
    std::thread::scope(|scope| {
        let merging = &engine;
        scope.spawn(move || {
            begun.recv_timeout(Duration::from_secs(60)).expect("a segment is collected");
            merging.compact().unwrap();
        });
        assert_eq!(engine.collect().unwrap().segments, 1, "the one above");
    });
    check_hidden(&files, &engine, table);
}

/// Regression: records that died while they were copied were counted for the segment that they were
/// copied from, and so were lost from the counts.
#[test]
fn records_dropped_during_a_collection_are_counted_in_the_new_segment() {
    let (_files, watched, engine, table) = open_watched(small);
    put_all(&engine, table, LIVE, 2);
    put_often(&engine, table, 6);
    end_segment(&engine, "first");
    let merging = engine.clone();
    watched.at_next(FileEvent::Synced, is_segment, move || {
        put_all(&merging, table, 0..4, 9);
        settle(&merging);
        Ok(())
    });
    assert_eq!(engine.collect().unwrap().segments, 1);
    let stats = engine.stats();
    let lost = (stats.journal_dead_bytes, stats.journal_marker_bytes);
    assert_eq!(lost, (4 * LIVE_RECORD_BYTES, 0));
    assert_eq!(get(&engine, table, &key(0)).unwrap(), Some(vec![9; 100]));
}

/// Regression: a manifest counted the dead bytes of all merges except the one for which it was
/// written.
#[test]
fn the_counts_of_dead_bytes_survive_a_crash_of_the_process() {
    let (files, engine, table) = open_new(tiny);
    for round in 0..3 {
        put_all(&engine, table, LIVE, round);
        delete(&engine, table, &key(u32::from(round)));
    }
    settle(&engine);
    let lost = |engine: &Engine| {
        let stats = engine.stats();
        (stats.journal_dead_bytes, stats.journal_marker_bytes)
    };
    let before = lost(&engine);
    assert!(before.0 > 2 * 30 * LIVE_RECORD_BYTES && before.1 > 0, "{before:?}");
    assert_eq!(lost(&Engine::open(STORE, tiny(&files.kill())).unwrap()), before);
}

/// titan#167: a collection keeps the records that a snapshot sees. lsm-tree#321: so do a flush and
/// a merge before it.
#[test]
fn a_snapshot_keeps_its_records() {
    let (_files, engine, table) = open_new(tiny);
    fill(&engine, table, 0..100, &[1; 100]);
    let snapshot = engine.snapshot();
    let mut held_scan = scan_all(&engine, table);
    let held_value = engine.get(table, &key(7)).unwrap().unwrap().value;
    for number in 0..100 {
        if number % 2 == 0 {
            delete(&engine, table, &key(number));
        } else {
            put(&engine, table, &key(number), &[2; 100]).unwrap();
        }
    }
    put(&engine, table, b"large", &[2; 5_000]).unwrap();
    settle(&engine);
    engine.collect().unwrap();
    for number in 0..100 {
        let object = snapshot.get(table, &key(number)).unwrap().unwrap();
        assert_eq!(*object.value, [1; 100]);
        let (found, object) = held_scan.next().unwrap().unwrap();
        assert_eq!((found, &*object.value), (&key(number)[..], &[1; 100][..]));
    }
    assert_eq!(get(&engine, table, &key(0)).unwrap(), None);
    drop((snapshot, held_scan));
    settle(&engine);
    assert!(engine.collect().unwrap().freed_bytes > 8_000);
    assert_eq!(*held_value, [1; 100], "a value that was read stays readable");
}

/// A scan loads a new list of segments after some hundred rows. Locations that it found ahead in
/// the previous list are then invalid.
#[test]
fn a_scan_continues_over_segments_collected_meanwhile() {
    let (_files, engine, table) = open_new(tiny);
    for round in 0..3 {
        fill(&engine, table, 0..700, &[round; 100]);
    }
    settle(&engine);
    let mut scan = scan_all(&engine, table);
    for number in 0..700 {
        if number == 200 {
            let before = engine.stats().segments;
            engine.collect().unwrap();
            assert!(engine.stats().segments < before);
        }
        let (found, object) = scan.next().unwrap().unwrap();
        assert_eq!((found, &*object.value), (&key(number)[..], &[2; 100][..]));
    }
    assert!(scan.next().unwrap().is_none());
}

/// titan#81: a record may be collected only if the record that hides it is durable.
#[test]
fn no_key_is_lost_if_power_fails_after_a_collection() {
    for seed in 0..40 {
        let (files, engine, table) = open_new(tiny);
        for _ in 0..3 {
            fill(&engine, table, 0..60, &[1; 100]);
        }
        settle(&engine);
        // These writes are only in memory and in the page cache.
        fill(&engine, table, 0..60, &[2; 10]);
        engine.collect().unwrap();
        let crashed = files.crash(seed);
        let engine = Engine::open(STORE, tiny(&crashed)).unwrap();
        for number in 0..60 {
            let value = get(&engine, table, &key(number)).unwrap().unwrap();
            assert!(value == [1; 100] || value == [2; 10]);
        }
    }
}

/// Power may fail, or the process may die, at any call of a collection.
#[test]
fn a_collection_may_be_interrupted_anywhere() {
    let mut errors = 0;
    for number in 1..400 {
        let (files, engine, table) = open_new(tiny);
        for round in 0..4_u8 {
            fill(&engine, table, 0..40, &[round; 100]);
            delete(&engine, table, &key(u32::from(round)));
        }
        settle(&engine);
        let calls = files.calls();
        let fail_call = Some(number);
        files.set_faults(Faults { fail_call, keep_failing: true, ..Faults::default() });
        let outcome = engine.collect();
        let is_untouched = files.calls() - calls < number;
        // An old file that cannot be removed is not an error: the next opening removes it.
        errors += u32::from(outcome.is_err());
        files.set_faults(Faults::default());
        assert!(!matches!(outcome, Err(Error::Corruption { .. })), "{outcome:?}");
        for found in [files.kill(), files.crash(number), files.crash(number + 1_000)] {
            let engine = Engine::open(STORE, tiny(&found)).unwrap();
            assert_eq!(keys(&engine, table).len(), 39, "call {number}");
            settle(&engine);
            engine.collect().unwrap();
            assert_eq!(keys(&engine, table).len(), 39, "call {number}");
            engine.close().unwrap();
            assert_eq!(verify(STORE, &found).unwrap().problems, [], "call {number}");
            let named = verify(STORE, &found).unwrap().segments.len();
            assert_eq!(paths(&found, "journal").len(), named, "orphans are removed");
        }
        if is_untouched {
            assert!(errors > 10, "the calls did fail");
            return;
        }
    }
    panic!("a collection makes more calls than that");
}

#[test]
fn a_full_disk_leaves_everything_as_it_was() {
    let (files, engine, table) = overwritten();
    let before = engine.stats();
    files.set_faults(Faults { space_bytes: Some(files.used_bytes() + 200), ..Faults::default() });
    assert!(engine.collect().is_err_and(|error| is_full(&error)));
    assert_eq!(engine.stats().journal_bytes, before.journal_bytes);
    assert_eq!(keys(&engine, table).len(), 40);
    files.set_faults(Faults::default());
    assert!(engine.collect().unwrap().freed_bytes > 0);
    put(&engine, table, b"more", b"1").unwrap();
}

#[test]
fn a_damaged_record_is_not_copied_and_stops_nothing_else() {
    let (files, engine, table) = overwritten();
    let path = paths(&files, "journal").remove(0);
    files.flip_bits(&path, 200, 4).unwrap();
    let error = engine.collect().unwrap_err();
    assert!(matches!(&error, Error::Corruption { path: found, .. } if *found == path), "{error}");
    assert!(engine.collect().unwrap().segments > 0, "the others are collected");
    assert_eq!(keys(&engine, table).len(), 40);
    assert!(files.exists(&path));
    // Regression: the error was forgotten at the next run, a second later.
    let trouble = engine.stats().collection_trouble.unwrap();
    assert!(trouble.contains(path.to_str().unwrap()), "{trouble}");
}

/// Regression: the same run was picked again and again.
#[test]
fn a_run_that_needs_a_damaged_table_is_set_aside() {
    let (files, engine, _) = overwritten();
    let path = paths(&files, "ledger").remove(0);
    for offset in 0..files.read(&path).unwrap().len() as u64 / 2 {
        files.flip_bits(&path, offset, 4).unwrap();
    }
    let segments = engine.stats().segments;
    let is_here =
        |error: &Error| matches!(error, Error::Corruption { path: at, .. } if *at == path);
    let failures = (0..=segments).take_while(|_| engine.collect().is_err_and(|e| is_here(&e)));
    assert!((1..=segments).contains(&(failures.count() as u64)));
    assert!(engine.stats().collection_trouble.unwrap().contains(path.to_str().unwrap()));
}

/// Options with small segments and all background threads.
fn busy(files: &SimulatedFileSystem) -> EngineOptions {
    EngineOptions { background: true, ..tiny(files) }
}

/// The thread collects half-dead segments by itself, while writers and readers go on.
#[test]
fn the_thread_collects_while_others_write_and_read() {
    let (files, engine, table) = open_new(busy);
    let mut round = 0_u64;
    while engine.stats().collected.segments == 0 {
        round += 1;
        for number in 0..40 {
            put(&engine, table, &key(number), &round.to_le_bytes()).unwrap();
            let value = get(&engine, table, &key(39 - number)).unwrap();
            assert!(value.is_some() || round == 1);
        }
        if round.is_multiple_of(50) {
            engine.compact().unwrap();
        }
    }
    for number in 0..40 {
        assert_eq!(get(&engine, table, &key(number)).unwrap(), Some(round.to_le_bytes().to_vec()));
    }
    let stats = engine.stats();
    assert_eq!(stats.collection_trouble, None);
    assert!(stats.collected.freed_bytes > 0, "{:?}", stats.collected);
    engine.close().unwrap();
    assert!(matches!(engine.collect(), Err(Error::Closed)));
    assert_eq!(verify(STORE, &files).unwrap().problems, []);
}

/// Waits until a background thread has made `holds` true.
fn until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not come about");
        std::thread::yield_now();
    }
}

/// The space of the spare segment is freed, too, and another one is made when it is needed.
#[test]
fn a_collection_gives_up_the_spare_segment_until_the_active_one_is_half_full() {
    let (files, engine, table) = open_new(busy);
    put(&engine, table, b"k", b"v").unwrap();
    let spares = || paths(&files, "journal").len() as u64 - engine.stats().segments;
    // The spare may still be in the making.
    until(|| spares() == 1);
    until(|| {
        engine.collect().unwrap();
        spares() == 0
    });
    put(&engine, table, b"k", &[1; 2_500]).unwrap();
    assert_eq!(spares(), 0, "when that was put, half was left");
    put(&engine, table, b"k", b"v").unwrap();
    until(|| spares() == 1);
    // If the next segment is needed soon, exactly one spare is kept; once, all were removed. One
    // spare is made when a segment is begun, and one when it is half full.
    put(&engine, table, b"k", &[1; 2_500]).unwrap();
    until(|| spares() == 1);
    put(&engine, table, b"k", b"v").unwrap();
    until(|| spares() == 2);
    until(|| {
        engine.collect().unwrap();
        spares() == 1
    });
    engine.close().unwrap();
}

fn put_expiring(engine: &Engine, table: TableId, key: &[u8], expires_at_ms: u64) {
    let operation = Operation::put(table, key, &[5; 200]).with_expiry(expires_at_ms);
    engine.write(&[operation], Acknowledgement::Os).unwrap();
}

/// Regression: a scan whose reader paused reported corruption, because rows that it had found ahead
/// had expired meanwhile, and their records were collected.
#[test]
fn a_scan_skips_rows_that_expire_between_finding_and_reading() {
    for before_pause in 1..40 {
        let clock = SimulatedClock::leaked(1_000_000);
        let options = |files: &SimulatedFileSystem| EngineOptions {
            clock: Clock::simulated(clock),
            ..tiny(files)
        };
        let (_files, engine, table) = open_new_with(options, &journal_only());
        for number in 0..60 {
            put_expiring(&engine, table, &key(number), 1_010_000);
        }
        put(&engine, table, b"last", &[1; 100]).unwrap();
        settle(&engine);
        let mut scan = scan_all(&engine, table);
        for number in 0..before_pause {
            assert_eq!(scan.next().unwrap().unwrap().0, key(number));
        }
        clock.set_wall_ms(1_010_000);
        for _ in 0..3 {
            settle(&engine);
            engine.collect().unwrap();
        }
        let (rest, _) = scan.next().unwrap().expect("one lasts");
        assert_eq!(rest, b"last", "after {before_pause}");
        assert!(scan.next().unwrap().is_none());
    }
}

/// An expired value hides what was there before it, even after its ledger entry was dropped.
#[test]
fn expired_values_are_freed_and_stay_hidden() {
    let clock = SimulatedClock::leaked(1_000_000);
    let options = |files: &SimulatedFileSystem| EngineOptions {
        clock: Clock::simulated(clock),
        ..tiny(files)
    };
    let (files, engine, table) = open_new(options);
    fill(&engine, table, 0..100, &[1; 100]);
    for number in 0..100 {
        put_expiring(&engine, table, &key(number), 1_010_000);
    }
    put(&engine, table, b"large", &[2; 5_000]).unwrap();
    settle(&engine);
    assert_eq!(keys(&engine, table).len(), 101);
    clock.set_wall_ms(1_010_000);
    assert_eq!(keys(&engine, table), [b"large".to_vec()]);
    let before = engine.stats().journal_bytes;
    for _ in 0..3 {
        settle(&engine);
        engine.collect().unwrap();
        let copy = files.kill();
        rebuild_ledger(STORE, options(&copy)).unwrap();
        let rebuilt = Engine::open(STORE, options(&copy)).unwrap();
        assert_eq!(keys(&rebuilt, table), [b"large".to_vec()]);
    }
    assert!(engine.stats().journal_bytes < before / 3, "{:?}", engine.stats());
    // valkey#2651: the clock goes back, and expired entries stay expired, even after a restart.
    clock.set_wall_ms(900_000);
    assert_eq!(keys(&engine, table), [b"large".to_vec()]);
    engine.close().unwrap();
    let engine = Engine::open(STORE, options(&files)).unwrap();
    assert_eq!(keys(&engine, table), [b"large".to_vec()]);
}

/// The space that a store on real files takes, in bytes.
fn disk_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(facts) if facts.is_dir() => disk_bytes(&entry.path()),
        Ok(facts) => facts.blocks() * 512,
        // A file may be removed between the listing and this call.
        Err(_) => 0,
    };
    std::fs::read_dir(folder).unwrap().map(|entry| bytes(entry.unwrap())).sum()
}

/// The most space that a store with the settings below takes beyond 1.5 times its live bytes: the
/// journal of the active memtable and of the tables of level 0 that are too few for a merge, and
/// spare and active segments.
const SPACE_BEYOND_BYTES: u64 = 32 << 20;
/// The time after which the background jobs of a busy machine have caught up.
const CAUGHT_UP_MAX: Duration = Duration::from_secs(120);

/// Overwrites `keys` values of `length` bytes at random, `rounds` times all of them. After each
/// round the store must shrink by itself to its bound: 1.5 times the space of the live values in a
/// fresh store, plus [`SPACE_BEYOND_BYTES`], plus eight values, each of which may be in a table of
/// level 0.
fn overwrite_in_bounded_space(length: usize, keys: u64, rounds: u64) {
    let options = || EngineOptions {
        memory_bytes: 4 << 20,
        segment_size_bytes: 1 << 20,
        ..EngineOptions::default()
    };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [store, fresh] =
        [0, 1].map(|index| Engine::open(folders[index].path(), options()).unwrap());
    let value = vec![7; length];
    let table = fresh.table("t").unwrap();
    for key in 0..keys {
        fresh.put(table, &key.to_be_bytes(), &value).unwrap();
    }
    settle(&fresh);
    fresh.collect().unwrap();
    let bound_bytes =
        disk_bytes(folders[1].path()) * 3 / 2 + SPACE_BEYOND_BYTES + 8 * length as u64;
    let table = store.table("t").unwrap();
    let mut random = SeededRandom::new(length as u64);
    for round in 0..rounds {
        for _ in 0..keys {
            store.put(table, &random.below(keys).to_be_bytes(), &value).unwrap();
        }
        let began = Instant::now();
        while disk_bytes(folders[0].path()) > bound_bytes {
            let stats = store.stats();
            assert!(began.elapsed() < CAUGHT_UP_MAX, "round {round}: {bound_bytes}: {stats:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Regression: one key of 500 kB, overwritten 300 times, took 150 MB, because a memtable of a few
/// entries was never flushed, so that nothing was known to be dead.
#[test]
fn large_values_that_are_overwritten_take_a_bounded_space() {
    overwrite_in_bounded_space(500_000, 1, 300);
    overwrite_in_bounded_space(500_000, 40, 10);
    overwrite_in_bounded_space(8 << 20, 6, 5);
}

#[test]
fn small_values_that_are_overwritten_take_a_bounded_space() {
    overwrite_in_bounded_space(8, 60_000, 5);
    overwrite_in_bounded_space(280, 40_000, 10);
    overwrite_in_bounded_space(20_000, 1_000, 10);
}
