//! Compares scans by prefix with scans of the same range of keys, which do not use prefixes: after
//! writes, deletes, flushes, merges, deaths of the process, and in snapshots.

use std::ops::Bound;

use crate::common::watched::open_watched;
use crate::common::{Chooser, STORE, collect, fill, open_new, put, settle, small};
use pellucid_clock::{Clock, SimulatedClock};
use pellucid_engine::{
    Acknowledgement, Direction, Engine, EngineOptions, Error, Operation, PrefixRule, ReadMode,
    Scan, Snapshot, TableId,
};
use pellucid_io::simulated::SimulatedFileSystem;

const SEEDS: u64 = 60;
const STEPS: u64 = 200;
const TABLE: &str = "t";

/// Returns the prefix length of a key that begins with `i`: everything up to the first slash.
fn prefix_of(key: &[u8]) -> Option<usize> {
    let at = key.iter().position(|byte| *byte == b'/')?;
    key.starts_with(b"i").then_some(at + 1)
}

fn options(files: &SimulatedFileSystem, background: bool, with_rule: bool) -> EngineOptions {
    let rule = PrefixRule { table: TABLE, prefix_of };
    let prefix_rules = if with_rule { vec![rule] } else { Vec::new() };
    EngineOptions { background, prefix_rules, ..small(files) }
}

fn prefix(choose: &mut Chooser) -> Vec<u8> {
    let length = choose.below(3) as usize;
    let name: Vec<u8> = (0..length).map(|_| b"ab\xff"[choose.below(3) as usize]).collect();
    [&b"i"[..], &name, b"/"].concat()
}

fn key(choose: &mut Chooser) -> Vec<u8> {
    let rest = choose.below(40).to_string();
    match choose.below(4) {
        0 => [&b"o"[..], rest.as_bytes(), b"/"].concat(),
        1 => [&b"i"[..], rest.as_bytes()].concat(),
        _ => [&prefix(choose)[..], rest.as_bytes()].concat(),
    }
}

fn rows(mut scan: Scan) -> Vec<(Vec<u8>, u64)> {
    let mut rows = Vec::new();
    while let Some((key, head)) = scan.next_head().unwrap() {
        rows.push((key.to_vec(), head.sequence));
    }
    rows
}

fn check(snapshot: &Snapshot, table: TableId, prefix: &[u8], context: &str) {
    let mut end = prefix.to_vec();
    *end.last_mut().unwrap() += 1;
    for direction in [Direction::Forward, Direction::Backward] {
        let (low, high) = (Bound::Included(prefix), Bound::Excluded(&end[..]));
        let expected = rows(snapshot.scan(table, low, high, direction).unwrap());
        let found = rows(snapshot.scan_prefix(table, prefix, direction).unwrap());
        assert_eq!(found, expected, "{context}, {prefix:?}, {direction:?}");
    }
}

fn write(engine: &Engine, table: TableId, choose: &mut Chooser) {
    let keys: Vec<_> = (0..1 + choose.below(30)).map(|_| key(choose)).collect();
    for key in keys {
        let one = match choose.below(4) {
            0 => Operation::delete(table, &key),
            _ => Operation::put(table, &key, b""),
        };
        engine.write(&[one], Acknowledgement::Os).unwrap();
    }
}

/// Runs with and without a background thread that builds table directories at the same time.
#[test]
fn scans_by_prefix_find_the_same_keys_as_range_scans() {
    for seed in 0..SEEDS {
        let mut choose = Chooser::new(seed);
        let (files, background) = (SimulatedFileSystem::new(), seed % 3 == 0);
        // Some stores are first written without the rule, so that their files contain nothing for
        // it.
        let with_rule = !seed.is_multiple_of(4);
        let mut engine = Engine::open(STORE, options(&files, background, with_rule)).unwrap();
        let table = engine.table(TABLE).unwrap();
        let mut snapshots = Vec::new();
        for step in 0..STEPS {
            match choose.below(20) {
                0 => engine.flush().unwrap(),
                1 if choose.below(4) == 0 => engine.compact().unwrap(),
                2 if choose.below(2) == 0 => {
                    snapshots.clear();
                    if choose.below(2) == 0 {
                        engine.close().unwrap();
                    }
                    drop(engine);
                    engine = Engine::open(STORE, options(&files, background, true)).unwrap();
                }
                3 => snapshots.push(engine.snapshot()),
                4..12 => write(&engine, table, &mut choose),
                _ => {
                    let prefix = prefix(&mut choose);
                    let context = format!("seed {seed}, step {step}");
                    check(&engine.snapshot(), table, &prefix, &context);
                    for snapshot in &snapshots {
                        check(snapshot, table, &prefix, &context);
                    }
                }
            }
        }
    }
}

/// A lookup by a prefix that does not exist reads no block of any table, and searches no memtable.
#[test]
fn tables_without_the_prefix_are_skipped() {
    let (_files, engine, table) = open_new(|files| options(files, false, true));
    for number in 0..400 {
        let key = format!("i{number:04}/x");
        engine.put(table, key.as_bytes(), b"").unwrap();
        if number % 100 == 99 {
            engine.flush().unwrap();
        }
    }
    let checked = || -> u64 {
        engine.stats().ledger.levels.iter().map(|level| level.blocks_checked).sum::<u64>()
    };
    let before = checked();
    for number in 0..400 {
        let prefix = format!("i{number:04}b/");
        let scan =
            engine.snapshot().scan_prefix(table, prefix.as_bytes(), Direction::Forward).unwrap();
        assert_eq!(rows(scan), []);
    }
    // A tag of only a few bits matches one prefix in several hundred by chance.
    let looked_into = checked() - before;
    assert!(looked_into <= 8, "{looked_into} blocks were looked into");
}

/// Regression: once a table had a rule, scans by prefix found nothing in the tables without one.
#[test]
fn a_table_without_a_rule_is_scanned_beside_one_with_a_rule() {
    let (_files, engine, _with_rule) = open_new(|files| options(files, false, true));
    let other = engine.table("other").unwrap();
    engine.put(other, b"i1/x", b"").unwrap();
    check(&engine.snapshot(), other, b"i1/", "in the memtable");
    engine.flush().unwrap();
    check(&engine.snapshot(), other, b"i1/", "in a table");
}

#[test]
fn the_number_of_prefix_rules_is_limited() {
    let files = SimulatedFileSystem::new();
    let rule = PrefixRule { table: TABLE, prefix_of };
    let options = EngineOptions { prefix_rules: vec![rule; 5], ..small(&files) };
    let error = Engine::open(STORE, options).unwrap_err();
    assert!(error.to_string().contains("prefix_rules"), "{error}");
}

/// Regression: a scan of a range of deleted keys blocked its event loop until it had passed all of
/// them.
#[test]
fn a_nonblocking_scan_skips_only_a_limited_number_of_deleted_keys() {
    // All entries stay in one memtable.
    let (_files, engine, table) =
        open_new(|files| EngineOptions { memory_bytes: 64 << 20, ..small(files) });
    for (deleted, is_brief) in [(1_000_u32, true), (20_000, false)] {
        for number in 0..deleted {
            let key = number.to_be_bytes();
            let delete = Operation::delete(table, &key);
            engine.write(&[delete], Acknowledgement::Os).unwrap();
        }
        put(&engine, table, b"last", b"v").unwrap();
        let all = |mode| {
            let (snapshot, unbounded) = (engine.snapshot_in(mode), Bound::Unbounded);
            snapshot.scan(table, unbounded, unbounded, Direction::Forward).unwrap()
        };
        let done = engine.all_in_memory(|mode| match all(mode).next() {
            Ok(found) => found.unwrap().0 == b"last",
            Err(error) => {
                assert!(matches!(error, Error::NotInMemory), "{error}");
                false
            }
        });
        assert_eq!(done, is_brief, "{deleted}");
        assert_eq!(all(ReadMode::MayBlock).next().unwrap().unwrap().0, b"last");
    }
}

/// Regression: after an error, the next call went on behind rows that had not been returned.
#[test]
fn a_scan_that_failed_fails_again() {
    type Next = fn(&mut Scan) -> Result<bool, Error>;
    let (object, head): (Next, Next) =
        (|scan| Ok(scan.next()?.is_some()), |scan| Ok(scan.next_head()?.is_some()));
    for (value_length, next) in [(0, object), (0, head), (500, object), (500, head)] {
        let (_files, watched, engine, table) = open_watched(small);
        fill(&engine, table, 0..300, &vec![b'v'; value_length]);
        settle(&engine);
        watched.send_away(|_, offset| offset > 1 << 10);
        let (snapshot, unbounded) = (engine.snapshot_in(ReadMode::InMemory), Bound::Unbounded);
        let mut scan = snapshot.scan(table, unbounded, unbounded, Direction::Forward).unwrap();
        while matches!(next(&mut scan), Ok(true)) {}
        watched.send_away(|_, _| false);
        assert!(matches!(next(&mut scan), Err(Error::NotInMemory)), "{value_length}");
    }
}

/// Regression: once a few records had been in memory, a group of reads waited for the others on its
/// event loop.
#[test]
fn nonblocking_reads_end_at_a_record_that_is_not_in_memory() {
    // Simulated reads take no time, so those in memory count as fast.
    let clock = Clock::simulated(SimulatedClock::leaked(1_700_000_000_000));
    let (_files, watched, engine, table) =
        open_watched(|files| EngineOptions { clock, ..small(files) });
    for number in 0..100_u8 {
        put(&engine, table, &[number], &[number; 500]).unwrap();
    }
    engine.flush().unwrap();
    // Half of each segment.
    watched.send_away(|path, offset| {
        path.parent().is_some_and(|folder| folder.ends_with("journal")) && offset > 4 << 10
    });
    let (snapshot, unbounded) = (engine.snapshot_in(ReadMode::InMemory), Bound::Unbounded);
    let scan = snapshot.scan(table, unbounded, unbounded, Direction::Forward).unwrap();
    assert!(matches!(collect(scan), Err(Error::NotInMemory)));
    assert!(engine.is_in_memory(), "the first records were");
    let waits = |number: u8| matches!(snapshot.get(table, &[number]), Err(Error::NotInMemory));
    assert!((0..100).any(waits));
}

/// Regression: a read that must not wait did wait for the page with the offset of its record.
#[test]
fn nonblocking_reads_end_at_an_offset_that_is_not_in_memory() {
    let (_files, watched, engine, table) = open_watched(small);
    for number in 0..100_u8 {
        // The offsets of records of one length would not be read.
        let value = vec![number; 100 + 8 * usize::from(number % 9)];
        put(&engine, table, &[number], &value).unwrap();
    }
    engine.flush().unwrap();
    // No record begins there, but every second entry of the offsets does.
    watched.send_away(|path, offset| {
        path.parent().is_some_and(|folder| folder.ends_with("journal")) && offset % 8 == 4
    });
    let (snapshot, unbounded) = (engine.snapshot_in(ReadMode::InMemory), Bound::Unbounded);
    let waits = |number: u8| matches!(snapshot.get(table, &[number]), Err(Error::NotInMemory));
    assert!((0..100).any(waits));
    let scan = snapshot.scan(table, unbounded, unbounded, Direction::Forward).unwrap();
    assert!(matches!(collect(scan), Err(Error::NotInMemory)));
}
