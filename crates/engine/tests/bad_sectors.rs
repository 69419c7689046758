//! Tests with sectors that cannot be read: `verify`, `salvage` and `rebuild_ledger` name them by
//! file and offset, and continue behind them. Regression: they read mapped files, and the first bad
//! sector ended the process.

use std::path::Path;
use std::sync::Arc;

use crate::common::salvaged::{SALVAGED, check_salvaged, spare_header, store_of, value_of};
use crate::common::watched::{FileEvent, WatchedFiles};
use crate::common::*;
use pellucid_engine::{
    Engine, EngineOptions, Error, TableId, cut_tail, rebuild_ledger, salvage, verify,
};
use pellucid_io::FileSystem;
use pellucid_io::simulated::{Faults, SimulatedFileSystem};

const KEYS: u64 = 1_000;
const PAGE_BYTES: u64 = 4_096;
/// The length of the shortest value.
const LENGTH_MIN: usize = 100;

fn options(files: &SimulatedFileSystem) -> EngineOptions {
    EngineOptions { segment_size_bytes: 64 << 10, memory_bytes: 4 << 20, ..small(files) }
}

/// A closed store with several segments of many pages, completely flushed; also returns the
/// sequence numbers.
fn store() -> (SimulatedFileSystem, TableId, Vec<u64>) {
    let (files, engine, table, sequences) = store_of(options, KEYS, LENGTH_MIN);
    engine.flush().unwrap();
    engine.close().unwrap();
    (files, table, sequences)
}

#[test]
fn verify_names_bad_sectors_and_checks_behind_them() {
    let (files, ..) = store();
    let (segment, table) = (paths(&files, "journal").remove(0), paths(&files, "ledger").remove(0));
    let bad = 3 * PAGE_BYTES;
    files.fail_reads(&segment, bad + 1_000..bad + 1_001).unwrap();
    files.flip_bits(&segment, 6 * PAGE_BYTES, 1).unwrap();
    let in_blocks = 4 * PAGE_BYTES;
    files.fail_reads(&table, PAGE_BYTES + 100..PAGE_BYTES + 101).unwrap();
    files.flip_bits(&table, in_blocks, 1).unwrap();
    let problems = verify(STORE, &files).unwrap().problems;
    let has = |path: &Path, (from, to): (u64, u64), what: &str| {
        problems.iter().any(|problem| {
            let is_there = (from..to).contains(&problem.offset);
            problem.path == path && is_there && problem.what.contains(what)
        })
    };
    assert!(has(&segment, (bad, bad + 1), "cannot be read"), "{problems:?}");
    assert!(has(&segment, (bad + PAGE_BYTES, 6 * PAGE_BYTES + 1), "checksum"), "{problems:?}");
    assert!(has(&table, (PAGE_BYTES, 2 * PAGE_BYTES), "cannot be read"), "{problems:?}");
    assert!(has(&table, (2 * PAGE_BYTES, in_blocks + 1), "checksum"), "{problems:?}");
}

#[test]
fn salvage_loses_the_records_of_a_bad_sector_and_no_others() {
    for place in [0, 2 * PAGE_BYTES, 4 * PAGE_BYTES + 100] {
        let (files, table, sequences) = store();
        let path = paths(&files, "journal").remove(1);
        files.fail_reads(&path, place..place + 1).unwrap();
        let (salvaged, lost) = check_salvaged(&files, options, table, &sequences, LENGTH_MIN);
        let is_named = |what: &str| salvaged.lost.iter().any(|lost| lost.what.contains(what));
        assert!(salvaged.lost.iter().all(|lost| lost.path == path), "{:?}", salvaged.lost);
        assert!(is_named("cannot be read"), "{:?}", salvaged.lost);
        assert!((5..60).contains(&lost), "{lost} with a page of 4 KiB at {place}");
    }
}

/// Regression: the zeros that a map has in place of the page matched the checksum. Reading the
/// record again with a system call failed, and so did the salvage.
#[test]
fn a_record_of_zeros_is_salvaged_from_a_bad_sector() {
    let (files, engine, table) = open_new_with(options, &journal_only());
    put(&engine, table, b"zeros", &[0; 10_000]).unwrap();
    put(&engine, table, b"a", b"value A").unwrap();
    engine.close().unwrap();
    files.fail_reads(&paths(&files, "journal")[0], PAGE_BYTES..PAGE_BYTES + 1).unwrap();
    salvage(STORE, SALVAGED, options(&files)).unwrap();
    let engine = Engine::open(SALVAGED, options(&files)).unwrap();
    assert_eq!(get(&engine, table, b"zeros").unwrap(), Some(vec![0; 10_000]));
    assert_eq!(get(&engine, table, b"a").unwrap(), Some(b"value A".to_vec()));
}

#[test]
fn a_rebuild_names_the_bad_sector_and_changes_nothing() {
    let (files, table, _) = store();
    let path = paths(&files, "journal").remove(0);
    files.fail_reads(&path, 5 * PAGE_BYTES..5 * PAGE_BYTES + 1).unwrap();
    match rebuild_ledger(STORE, options(&files)) {
        Err(Error::Corruption { path: named, offset, what }) => {
            assert_eq!((named, offset), (path, 5 * PAGE_BYTES));
            assert!(what.contains("cannot be read"), "{what}");
        }
        outcome => panic!("{outcome:?}"),
    }
    let engine = Engine::open(STORE, options(&files)).unwrap();
    let found = engine.get(table, &1_u64.to_le_bytes()).unwrap().unwrap();
    assert_eq!(found.value, value_of(1, LENGTH_MIN)[..]);
}

/// Regression: a page that the medium cannot deliver is zeros in a map, and zeros end the records.
/// An opening dropped the records behind it, although they had been acknowledged as durable.
#[test]
fn an_opening_does_not_take_a_bad_sector_for_the_end_of_the_records() {
    let (files, engine, table) = open_new_with(options, &journal_only());
    let last = (0..20).map(|key| put(&engine, table, &[key], &[key; 300]).unwrap()).max().unwrap();
    engine.wait_durable(last).unwrap();
    drop(engine);
    let files = files.crash(1);
    let path = paths(&files, "journal").remove(0);
    files.fail_reads(&path, PAGE_BYTES..PAGE_BYTES + 1).unwrap();
    let before = files.read(&path).unwrap();
    match Engine::open(STORE, options(&files)) {
        Err(Error::Corruption { path: named, offset, .. }) => {
            assert_eq!((named, offset), (path.clone(), PAGE_BYTES));
        }
        outcome => panic!("{:?}", outcome.map(|_| ())),
    }
    assert!(files.read(&path).unwrap() == before, "the file was changed");
}

/// Regression: a map learns of a bad sector only when it is read, and behind a damaged record that
/// is after the check of the segment. The zeros in place of a sync mark proved nothing, and durable
/// records were cut off as a torn tail.
#[test]
fn a_bad_sector_behind_a_damaged_record_is_no_torn_tail() {
    let (files, engine, table) = open_new_with(options, &journal_only());
    put(&engine, table, b"a", b"value A").unwrap();
    put_durable(&engine, table, b"long", &[7; PAGE_BYTES as usize]).unwrap();
    // The sync mark is written before the next record.
    put_durable(&engine, table, b"b", b"value B").unwrap();
    drop(engine);
    let (path, offset) = find(&files, b"value A");
    let crashed = files.crash(1);
    crashed.flip_bits(&path, offset, 1).unwrap();
    // Maps are checked only while any page of any file is known to be bad.
    files.fail_reads(&path, 0..1).unwrap();
    let (segment, bad) = (path.clone(), crashed.clone());
    let watched = WatchedFiles::new(&crashed);
    watched.at_next(
        FileEvent::Checked,
        move |checked| checked == segment,
        move || bad.fail_reads(&find(&bad, b"value B").0, PAGE_BYTES..2 * PAGE_BYTES),
    );
    let file_system = Arc::new(watched);
    match Engine::open(STORE, EngineOptions { file_system, ..options(&crashed) }) {
        Err(Error::Corruption { path: named, offset, .. }) => {
            assert_eq!((named, offset), (path, PAGE_BYTES));
        }
        outcome => panic!("{:?}", outcome.map(|_| ())),
    }
}

/// Regression: after a loss of power, the first records of a segment may be on the medium although
/// its header still says that it is unused. If they could not be read, the zeros in their place
/// said so, too, and an opening removed the file.
#[test]
fn a_segment_with_bad_sectors_is_not_unused() {
    let (files, engine, table) = open_new_with(options, &journal_only());
    put(&engine, table, b"a", b"value A").unwrap();
    engine.close().unwrap();
    let engine = Engine::open(STORE, options(&files)).unwrap();
    put_durable(&engine, table, b"b", &[7; 2 * PAGE_BYTES as usize]).unwrap();
    drop(engine);
    let files = files.crash(1);
    let (path, _) = find(&files, &[7; 100]);
    let content = files.read(&path).unwrap();
    let mut page = spare_header(&content);
    page.resize(PAGE_BYTES as usize, 0);
    files.open(&path, true).unwrap().write_all_at(&page, 0).unwrap();
    // An opening cannot do without the last page.
    files.fail_reads(&path, PAGE_BYTES..content.len() as u64 - PAGE_BYTES).unwrap();
    match Engine::open(STORE, options(&files)) {
        Err(Error::Corruption { path: named, offset, .. }) => {
            assert_eq!((named, offset), (path.clone(), PAGE_BYTES));
        }
        outcome => panic!("{:?}", outcome.map(|_| ())),
    }
    let lost = salvage(STORE, SALVAGED, options(&files)).unwrap().lost;
    assert!(lost.iter().any(|lost| lost.path == path), "{lost:?}");
    cut_tail(STORE, &files).unwrap();
    let engine = Engine::open(STORE, options(&files)).unwrap();
    assert_eq!(get(&engine, table, b"a").unwrap(), Some(b"value A".to_vec()));
    assert!(files.exists(&path.with_extension("journal.dropped")), "the file is kept");
}

/// Regression: a segment without a header that the manifest did not name was taken for a replaced
/// one. Its records were neither salvaged nor reported as lost.
#[test]
fn a_segment_without_its_header_is_salvaged() {
    let (files, engine, table) = open_new_with(small, &journal_only());
    put(&engine, table, b"a", b"value A").unwrap();
    engine.close().unwrap();
    let engine = open(&files).unwrap();
    put_durable(&engine, table, b"b", b"value B").unwrap();
    drop(engine);
    let files = files.crash(1);
    let (path, _) = find(&files, b"value B");
    files.open(&path, true).unwrap().write_all_at(&[0; 64], 0).unwrap();
    let salvaged = salvage(STORE, SALVAGED, small(&files)).unwrap();
    assert!(salvaged.lost.iter().any(|lost| lost.path == path), "{:?}", salvaged.lost);
    let engine = Engine::open(SALVAGED, small(&files)).unwrap();
    assert_eq!(get(&engine, table, b"a").unwrap(), Some(b"value A".to_vec()));
    assert_eq!(get(&engine, table, b"b").unwrap(), Some(b"value B".to_vec()));
}

/// Regression: salvage restored half of a batch, and reported no loss. Where the identity of the
/// mount is unknown, it still did: it took every segment for one of garbage collection. So it did
/// if that identity was known when older segments were made.
#[test]
fn salvage_leaves_out_an_incomplete_batch() {
    for (knew_mount, knows_mount) in [(true, true), (false, false), (true, false)] {
        let files = SimulatedFileSystem::new();
        let hide_mount = |files: &SimulatedFileSystem, hides_mount| {
            files.set_faults(Faults { hides_mount, ..Faults::default() });
        };
        hide_mount(&files, !knew_mount);
        let engine = open(&files).unwrap();
        let table = engine.table_with("t", &journal_only()).unwrap();
        put(&engine, table, b"before", b"whole").unwrap();
        engine.close().unwrap();
        hide_mount(&files, !knows_mount);
        let engine = open(&files).unwrap();
        let values: Vec<Vec<u8>> = (0..6).map(|key| vec![key; 300]).collect();
        let mut batch = pellucid_engine::Batch::new();
        for value in &values {
            batch.put(table, &value[..1], b"", value);
        }
        let written = engine.write(&batch, pellucid_engine::Acknowledgement::Os).unwrap();
        engine.wait_durable(written.sequence).unwrap();
        drop(engine);
        let files = files.crash(1);
        hide_mount(&files, !knows_mount);
        let (path, third) = find(&files, &values[3]);
        let length = files.read(&path).unwrap().len() as u64;
        let zeros = vec![0; (length - third + 40) as usize];
        files.open(&path, true).unwrap().write_all_at(&zeros, third - 40).unwrap();
        let salvaged = salvage(STORE, SALVAGED, small(&files)).unwrap();
        let is_named = |lost: &pellucid_engine::LostRange| {
            lost.first_sequence == written.sequence - 5
                && lost.what.contains("the end of the batch is missing")
        };
        assert!(salvaged.lost.iter().any(is_named), "{knows_mount}: {:?}", salvaged.lost);
        let engine = Engine::open(SALVAGED, small(&files)).unwrap();
        assert_eq!(get(&engine, table, b"before").unwrap(), Some(b"whole".to_vec()));
        assert_eq!(get(&engine, table, &[0]).unwrap(), None);
    }
}
