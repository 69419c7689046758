//! Sectors that cannot be read: `verify`, `salvage` and `rebuild_ledger` name them by file and
//! offset and go on behind them. They read mapped files once, and the first bad sector ended the
//! process.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::path::{Path, PathBuf};

use common::*;
use pellucid_engine::{Engine, EngineOptions, Error, TableId, rebuild_ledger, salvage, verify};
use pellucid_io::simulated::SimulatedFileSystem;

const KEYS: u64 = 1_000;
const PAGE_BYTES: u64 = 4_096;
const SALVAGED: &str = "/salvaged";

fn options(files: &SimulatedFileSystem) -> EngineOptions {
    EngineOptions { segment_size_bytes: 64 << 10, memory_bytes: 4 << 20, ..small(files) }
}

fn value(key: u64) -> Vec<u8> {
    vec![key as u8; 100 + (key as usize * 37) % 300]
}

/// A closed store of several segments of many pages, all of it in tables as well; with the sequence
/// numbers.
fn store() -> (SimulatedFileSystem, TableId, Vec<u64>) {
    let files = SimulatedFileSystem::new();
    let engine = Engine::open(STORE, options(&files)).unwrap();
    let table = engine.table("t").unwrap();
    let write = |key: u64| put(&engine, table, &key.to_le_bytes(), &value(key)).unwrap();
    let sequences = (0..KEYS).map(write).collect();
    engine.flush().unwrap();
    engine.close().unwrap();
    (files, table, sequences)
}

fn path_of(files: &SimulatedFileSystem, folder: &str, index: usize) -> PathBuf {
    Path::new(STORE).join(folder).join(&list(files, folder)[index])
}

#[test]
fn verify_names_what_cannot_be_read_and_looks_behind_it() {
    let (files, ..) = store();
    let (segment, table) = (path_of(&files, "journal", 0), path_of(&files, "ledger", 0));
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
        let path = path_of(&files, "journal", 1);
        files.fail_reads(&path, place..place + 1).unwrap();
        let salvaged = salvage(STORE, SALVAGED, options(&files)).unwrap();
        let is_named = |what: &str| salvaged.lost.iter().any(|lost| lost.what.contains(what));
        assert!(salvaged.lost.iter().all(|lost| lost.path == path), "{:?}", salvaged.lost);
        assert!(is_named("cannot be read"), "{:?}", salvaged.lost);
        let engine = Engine::open(SALVAGED, options(&files)).unwrap();
        let mut lost = 0;
        for (key, sequence) in (0..KEYS).zip(&sequences) {
            match engine.get(table, &key.to_le_bytes()).unwrap() {
                Some(object) => assert_eq!(object.value, value(key)[..]),
                None => {
                    lost += 1;
                    let covers = |lost: &pellucid_engine::Lost| {
                        (lost.first_sequence..=lost.last_sequence).contains(sequence)
                    };
                    assert!(salvaged.lost.iter().any(covers), "{sequence} of {:?}", salvaged.lost);
                }
            }
        }
        assert!((5..60).contains(&lost), "{lost} with a page of 4 KiB at {place}");
    }
}

#[test]
fn a_rebuild_names_the_bad_sector_and_changes_nothing() {
    let (files, table, _) = store();
    let path = path_of(&files, "journal", 0);
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
    assert_eq!(found.value, value(1)[..]);
}
