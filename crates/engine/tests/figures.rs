//! The engine's own statistics: counts are exact, and totals add up.

use std::ops::Bound;

use crate::common::watched::open_watched;
use crate::common::{STORE, fill, journal_only, key, open_new_with};
use pellucid_account::Timeline;
use pellucid_clock::{Clock, SimulatedClock};
use pellucid_engine::{
    Acknowledgement, Direction, Engine, EngineOptions, Operation, ReadMode, ReadResult,
    SAMPLED_EVERY, TableId, TableOptions,
};
use pellucid_io::simulated::SimulatedFileSystem;

const KEYS: u64 = 1_000;

/// Options without threads. Tables of these tests are [`journal_only`], so that reads are counted.
fn options(files: &SimulatedFileSystem) -> EngineOptions {
    EngineOptions {
        file_system: std::sync::Arc::new(files.clone()),
        background: false,
        ..EngineOptions::default()
    }
}

fn get(engine: &Engine, table: TableId, number: u64) -> bool {
    engine.get(table, &key(number)).unwrap().is_some()
}

#[test]
fn lookups_are_counted_by_where_they_end() {
    // The simulated reads take no time; otherwise, lookups would read block by block on a slow
    // machine.
    let clock = Clock::simulated(SimulatedClock::leaked(1_700_000_000_000));
    let options = |files: &SimulatedFileSystem| EngineOptions { clock, ..options(files) };
    let (_files, engine, table) = open_new_with(options, &journal_only());
    fill(&engine, table, 0..KEYS, b"value");
    engine.flush().unwrap();
    engine.compact().unwrap();
    // The engine does not know yet that the files of a newly opened store are in memory.
    assert!((0..8 * SAMPLED_EVERY).all(|_| get(&engine, table, 0)));
    fill(&engine, table, KEYS..2 * KEYS, b"value");
    engine.flush().unwrap();
    fill(&engine, table, 2 * KEYS..3 * KEYS, b"value");
    let before = engine.stats();
    assert!((0..4 * KEYS).all(|number| get(&engine, table, number) == (number < 3 * KEYS)));
    let head = engine.head(table, &key(0)).unwrap();
    assert!(head.is_some());
    let after = engine.stats();
    let found = |place: fn(&pellucid_engine::ReadFigures) -> u64| {
        place(&after.reads) - place(&before.reads)
    };
    assert_eq!(found(|reads| reads.missing.count), KEYS);
    assert_eq!(found(|reads| reads.memtable.count), KEYS);
    assert_eq!(found(|reads| reads.levels[0].count), KEYS);
    assert_eq!(found(|reads| reads.levels[1].count), KEYS + 1);
    assert_eq!(found(|reads| reads.levels[2].count), 0);
    assert_eq!(found(|reads| reads.records), 3 * KEYS);
    assert_eq!(found(|reads| reads.record_bytes), 3 * KEYS * 5);
    for (level, before) in after.ledger.levels[..2].iter().zip(&before.ledger.levels) {
        let (reads, earlier) = (level.reads, before.reads);
        let found = reads.asked - reads.excluded - reads.false_positives;
        assert!(found >= KEYS, "{reads:?}");
        // Records that directories refer to answer all lookups except the samples, which are timed
        // as a whole or by step and read their records step by step.
        let searched = (reads.blocks_searched - earlier.blocks_searched)
            - (reads.false_positives - earlier.false_positives);
        let sampled = KEYS / SAMPLED_EVERY;
        assert!((sampled..=4 * (sampled + 1)).contains(&searched), "{searched}: {reads:?}");
        assert!(level.blocks_checked > 0 && level.blocks_checked <= level.blocks);
        assert_eq!(reads.by_index, 0, "tables that this process wrote have directories");
        assert!(level.directory_bytes > 0);
    }
    assert_eq!(after.ledger.levels[2].reads, pellucid_engine::LevelReads::default());
}

/// Regression: a look-up whose block was not in memory counted as one of a missing key, and the key
/// was then looked up and counted again.
#[test]
fn a_look_up_that_is_abandoned_is_not_counted() {
    // In a store that was just opened, reads count as slow.
    let (_files, watched, engine, table) = open_watched(options);
    fill(&engine, table, 0..1, b"value");
    engine.flush().unwrap();
    watched.send_away(|path, _| path.parent().is_some_and(|folder| folder.ends_with("ledger")));
    let before = engine.stats().reads;
    let read = |mode| engine.get_timed(table, &key(0), mode, &mut Timeline::off()).unwrap();
    assert!(matches!(read(ReadMode::InMemory), ReadResult::NotInMemory));
    assert!(matches!(read(ReadMode::MayBlock), ReadResult::Value(_)));
    let after = engine.stats().reads;
    assert_eq!(after.missing.count, before.missing.count);
    assert_eq!(after.levels[0].count, before.levels[0].count + 1);
}

/// Regression: with accounting off, the engine did not learn from slow reads.
#[test]
fn a_slow_read_is_noticed_without_an_account() {
    let simulated = SimulatedClock::leaked(1_700_000_000_000);
    let clock = Clock::simulated(simulated);
    let options = |files: &SimulatedFileSystem| EngineOptions { clock, ..options(files) };
    let (_files, engine, table) = open_new_with(options, &journal_only());
    fill(&engine, table, 0..1, b"value");
    // The engine does not know yet that the files of a newly opened store are in memory.
    assert!((0..8 * SAMPLED_EVERY).all(|_| get(&engine, table, 0)));
    assert!(engine.is_in_memory());
    simulated.step_by_ns(10_000);
    let timeline = &mut Timeline::off();
    let head = engine.head_timed(table, &key(0), ReadMode::InMemory, timeline).unwrap();
    assert!(matches!(head, ReadResult::Value(_)));
    assert!(!engine.is_in_memory());
}

/// Regression: only reads of records ended the time for which reads count as slow. Until then, a
/// write with a condition looks up its key twice.
#[test]
fn heads_in_memory_end_the_time_of_slow_reads() {
    let clock = Clock::simulated(SimulatedClock::leaked(1_700_000_000_000));
    let options = |files: &SimulatedFileSystem| EngineOptions { clock, ..options(files) };
    let (_files, engine, table) = open_new_with(options, &journal_only());
    fill(&engine, table, 0..1, b"value");
    assert!(!engine.is_in_memory(), "it was just opened");
    let timeline = &mut Timeline::off();
    assert!((0..10_000).any(|_| {
        let head = engine.head_timed(table, &key(0), ReadMode::InMemory, timeline).unwrap();
        matches!(head, ReadResult::Value(_)) && engine.is_in_memory()
    }));
}

#[test]
fn a_sample_is_timed_and_an_opened_table_answers_by_its_index() {
    let (files, engine, table) = open_new_with(options, &journal_only());
    fill(&engine, table, 0..KEYS, b"value");
    engine.close().unwrap();
    drop(engine);
    let engine = Engine::open(STORE, options(&files)).unwrap();
    assert!((0..KEYS).all(|number| get(&engine, table, number)));
    let stats = engine.stats();
    let level = &stats.ledger.levels[0];
    assert_eq!((level.reads.asked, level.reads.by_index), (KEYS, KEYS));
    assert_eq!(stats.reads.levels[0].time.samples, KEYS.div_ceil(SAMPLED_EVERY));
    assert_eq!(stats.reads.record_time.samples, KEYS.div_ceil(SAMPLED_EVERY));
    assert_eq!(level.reads.time.samples, stats.reads.levels[0].time.samples);
    assert!(level.reads.time.sum_ns <= stats.reads.levels[0].time.sum_ns);
}

/// The steps are measured on other lookups than the total times, so that neither is part of the
/// other.
#[test]
fn steps_are_timed_in_tables_with_and_without_a_directory() {
    let (files, engine, table) = open_new_with(options, &journal_only());
    fill(&engine, table, 0..KEYS, b"value");
    engine.flush().unwrap();
    (0..2 * KEYS).for_each(|number| assert_eq!(get(&engine, table, number), number < KEYS));
    let sampled = KEYS / SAMPLED_EVERY;
    let (stats, few) = (engine.stats(), sampled..=2 * sampled + 2);
    let steps = stats.ledger.levels[0].reads.steps;
    assert!(few.contains(&steps.directory.samples), "{steps:?}");
    assert_eq!((steps.filter.samples, steps.index.samples), (0, 0));
    assert_eq!(steps.fetch_cached.samples, steps.search.samples);
    assert!(steps.search.samples >= sampled && steps.directory.sum_ns > 0);
    assert_eq!(steps.fetch_disk.samples, 0, "the files of this test are in memory");
    let reads = stats.reads;
    assert!((sampled..=sampled + 1).contains(&reads.place_time.samples), "{reads:?}");
    assert_eq!(reads.cached_time.samples, reads.place_time.samples);
    assert!(reads.cached_time.sum_ns > 0 && reads.disk_time.samples == 0);
    engine.close().unwrap();
    drop(engine);
    let engine = Engine::open(STORE, options(&files)).unwrap();
    (0..2 * KEYS).for_each(|number| assert_eq!(get(&engine, table, number), number < KEYS));
    let steps = engine.stats().ledger.levels[0].reads.steps;
    assert_eq!(steps.directory.samples, 0, "a table that was opened has no directory");
    assert!(steps.filter.samples >= steps.index.samples && steps.index.samples >= sampled);
    assert_eq!(steps.search.samples, steps.index.samples);
}

#[test]
fn waits_for_the_medium_are_counted_with_their_parts() {
    let (_files, engine, table) = open_new_with(options, &journal_only());
    let put = |number: u64| {
        let key = key(number);
        engine.write(&[Operation::put(table, &key, b"value")], Acknowledgement::Disk).unwrap()
    };
    assert_eq!(engine.stats().durability, pellucid_engine::DurabilityFigures::default());
    let written = put(1);
    assert!(written.pending);
    engine.wait_durable(written.sequence).unwrap();
    let once = engine.stats().durability;
    assert!(once.waits == 1 && once.sync_waited_ns > 0 && once.sync_waited_ns <= once.sync_ns);
    engine.wait_durable(written.sequence).unwrap();
    assert_eq!(engine.stats().durability, once, "what is durable is not waited for");
    let (sender, receiver) = std::sync::mpsc::channel();
    let sequence = put(2).sequence;
    engine.when_durable(sequence, Box::new(move |outcome| sender.send(outcome).unwrap()));
    let times = receiver.recv().unwrap().unwrap();
    assert!(times.ended > times.begun);
    assert!(engine.stats().durable_sequence >= sequence);
    let twice = engine.stats().durability;
    assert!(twice.waits == 2 && twice.sync_ns > once.sync_ns, "{twice:?}");
    assert!(twice.group_waited_ns >= once.group_waited_ns);
    // Waiting for a sequence number that was never assigned covers everything that exists.
    engine.wait_durable(u64::MAX).unwrap();
}

/// Regression: a flush left the count of the journal's bytes, so the next memtable was sealed too
/// early.
#[test]
fn a_memtable_after_a_flush_takes_as_many_bytes_as_one_before() {
    let small =
        |files: &SimulatedFileSystem| EngineOptions { memory_bytes: 1 << 20, ..options(files) };
    let (_files, engine, table) = open_new_with(small, &journal_only());
    let waits_after_put = |number: u64| {
        engine.put(table, &key(number), &[7; 16 << 10]).unwrap();
        engine.stats().ledger.sealed_memtables > 0
    };
    let filled_by = (1..10_000).find(|number| waits_after_put(*number)).unwrap();
    assert!(filled_by > 2);
    for _ in 0..3 {
        engine.flush().unwrap();
        assert!(!(1..filled_by).any(waits_after_put), "sealed before {filled_by} values");
    }
}

#[test]
fn writes_and_jobs_are_counted() {
    let (_files, engine, table) = open_new_with(options, &journal_only());
    let before = engine.stats();
    assert!(before.ledger.levels.iter().all(|level| level.tables == 0));
    fill(&engine, table, 0..KEYS, b"value");
    engine.flush().unwrap();
    fill(&engine, table, 0..KEYS, b"value");
    engine.flush().unwrap();
    engine.compact().unwrap();
    let stats = engine.stats();
    assert_eq!(stats.writes.batches - before.writes.batches, 2 * KEYS);
    assert_eq!(stats.writes.entries - before.writes.entries, 2 * KEYS);
    assert_eq!(stats.writes.user_bytes - before.writes.user_bytes, 2 * KEYS * (9 + 4 + 5));
    let samples = (2 * KEYS + 1).div_ceil(SAMPLED_EVERY);
    assert_eq!(stats.writes.append_time.samples, samples);
    assert_eq!(stats.writes.memtable_time.samples, samples);
    let (flush, merge) = (stats.ledger.flush, stats.ledger.levels[0].compaction);
    assert_eq!((flush.runs, merge.runs), (2, 1));
    assert_eq!(merge.entries_dropped, KEYS);
    for job in [flush, merge] {
        // Exactly timed parts lie within the job; samples only represent the group that they are
        // drawn from.
        let exact_ns = job.order_ns + job.filter_ns + job.write_ns + job.sync_ns;
        assert!(exact_ns + job.journal_sync_ns + job.commit_ns <= job.duration_ns, "{job:?}");
        assert!(job.build_ns > 0 && job.merge_ns > 0 && job.write_ns > 0);
    }
    assert!(stats.write_amplification().is_some_and(|ratio| ratio > 1.0));
    assert!(stats.space_amplification().is_some_and(|ratio| ratio > 1.0));
}

/// Regression: the records and values that scans read were not counted.
#[test]
fn reads_of_scans_are_counted() {
    let (_files, engine, table) = open_new_with(options, &journal_only());
    fill(&engine, table, 0..KEYS, b"value");
    let held = engine.table_with("held", &TableOptions::default()).unwrap();
    fill(&engine, held, 0..KEYS, b"value");
    for table in [table, held] {
        let (start, end) = (Bound::Unbounded, Bound::Unbounded);
        let mut scan = engine.scan(table, start, end, Direction::Forward).unwrap();
        while scan.next().unwrap().is_some() {}
    }
    let reads = engine.stats().reads;
    assert_eq!((reads.records, reads.record_bytes), (KEYS, 5 * KEYS));
    assert_eq!(reads.held_values, KEYS);
}

/// Regression: a scan wrote to the engine's counters for each row. It does for many rows at once,
/// and for the rest when it is dropped.
#[test]
fn a_scan_counts_its_reads_together() {
    let (_files, engine, table) = open_new_with(options, &journal_only());
    fill(&engine, table, 0..KEYS, b"value");
    let (start, end) = (Bound::Unbounded, Bound::Unbounded);
    let mut scan = engine.scan(table, start, end, Direction::Forward).unwrap();
    (0..10).for_each(|_| assert!(scan.next().unwrap().is_some()));
    assert_eq!(engine.stats().reads.records, 0);
    drop(scan);
    let reads = engine.stats().reads;
    assert_eq!((reads.records, reads.record_bytes), (10, 50));
}
