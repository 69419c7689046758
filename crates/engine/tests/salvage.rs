//! Salvage recovers everything that is not damaged, and reports everything that is lost.

use std::path::Path;
use std::sync::{Arc, mpsc};

use crate::common::salvaged::{SALVAGED, check_salvaged, spare_header, store_of, value_of};
use crate::common::watched::{FileEvent, WatchedFiles};
use crate::common::*;
use pellucid_engine::{Engine, EngineOptions, Error, SalvageReport, TableId, salvage};
use pellucid_io::simulated::SimulatedFileSystem;
use pellucid_io::{FileSystem, Random, SeededRandom};

const KEYS: u64 = 200;
/// The length of the shortest value.
const LENGTH_MIN: usize = 20;

/// Returns a closed store with one record for each key, in several segments, and the sequence
/// numbers of the records.
fn store() -> (SimulatedFileSystem, TableId, Vec<u64>) {
    let (files, engine, table, sequences) = store_of(small, KEYS, LENGTH_MIN);
    engine.close().unwrap();
    (files, table, sequences)
}

fn check(files: &SimulatedFileSystem, table: TableId, sequences: &[u64]) -> (SalvageReport, usize) {
    check_salvaged(files, small, table, sequences, LENGTH_MIN)
}

#[test]
fn an_intact_store_comes_back_whole() {
    let (files, table, sequences) = store();
    let (salvaged, lost) = check(&files, table, &sequences);
    assert_eq!((salvaged.lost, lost), (vec![], 0));
    assert_eq!(salvaged.records, KEYS + 1);
}

/// Flips bits anywhere in the journal: only records that are hit may be lost.
///
/// 25 of docs/known-failures.md: the repair tool destroyed files that it did not recognise. Here,
/// salvage writes to another folder.
#[test]
fn flipped_bits_lose_only_the_records_that_they_hit() {
    let mut lost_of_all = 0;
    for seed in 0..60 {
        let (files, table, sequences) = store();
        let mut random = SeededRandom::new(seed);
        let mut hits = 0;
        for path in paths(&files, "journal") {
            let length = files.read(&path).unwrap().len() as u64;
            for _ in 0..random.below(4) {
                files.flip_bits(&path, random.below(length), 1 << random.below(8)).unwrap();
                hits += 1;
            }
        }
        let before = contents(&files);
        let (_, lost) = check(&files, table, &sequences);
        assert!(lost <= hits, "seed {seed}: {lost} lost with {hits} flips");
        assert!(contents(&files) == before, "the damaged store stays as it is");
        lost_of_all += lost;
    }
    assert!(lost_of_all > 0);
}

#[test]
fn a_long_stretch_of_garbage_is_one_loss() {
    let (files, table, sequences) = store();
    let path = &paths(&files, "journal")[1];
    let mut garbage = vec![0; 2_000];
    let mut random = SeededRandom::new(1);
    for chunk in garbage.chunks_mut(8) {
        chunk.copy_from_slice(&random.next_u64().to_le_bytes()[..chunk.len()]);
    }
    files.open(path, true).unwrap().write_all_at(&garbage, 1_003).unwrap();
    let (salvaged, lost) = check(&files, table, &sequences);
    assert_eq!(salvaged.lost.len(), 1, "{:?}", salvaged.lost);
    let loss = &salvaged.lost[0];
    assert_eq!(&loss.path, path);
    assert!(loss.offset <= 1_003 && loss.offset + loss.length >= 3_003);
    assert!((4..20).contains(&lost));
    assert_eq!(loss.last_sequence + 1 - loss.first_sequence, lost as u64);
}

#[test]
fn files_and_the_manifest_may_be_missing() {
    let (files, table, sequences) = store();
    files.remove(&paths(&files, "journal")[2]).unwrap();
    let (salvaged, lost) = check(&files, table, &sequences);
    assert_eq!(salvaged.lost.len(), 1);
    assert!(lost > 10);

    let (files, table, sequences) = store();
    files.remove(&Path::new(STORE).join("manifest")).unwrap();
    let (salvaged, lost) = check(&files, table, &sequences);
    assert_eq!((salvaged.lost, lost), (vec![], 0));
}

/// Regression: a damaged manifest was treated as a missing one. Nothing reported that a segment at
/// the end, or the time, may be missing.
#[test]
fn a_damaged_manifest_is_reported() {
    let (files, _, _) = store();
    let manifest = Path::new(STORE).join("manifest");
    let mut bytes = files.read(&manifest).unwrap();
    let offset = bytes.len() - 20;
    bytes[offset] ^= 64;
    files.create(&manifest).unwrap().write_all_at(&bytes, 0).unwrap();
    let lost = salvage(STORE, SALVAGED, small(&files)).unwrap().lost;
    assert!(lost.iter().any(|lost| lost.path == manifest), "{lost:?}");
}

/// Regression: a sealed segment that was reset to an earlier state, or whose end is zeros, looks as
/// if it had never held the missing records: they were neither salvaged nor reported as lost.
#[test]
fn records_missing_from_a_sealed_segment_are_reported_as_lost() {
    for form in 0..4 {
        let (files, table, sequences) = store();
        let path = &paths(&files, "journal")[1];
        let mut content = files.read(path).unwrap();
        let length = content.len();
        let number = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().unwrap());
        // Dense: the number of records, and the offset of each in units of 8 bytes.
        let (footer, records) = (number(length - 16) as usize, number(length - 28) as usize);
        let record = 8 * number(footer + 4 * (records - 5)) as usize;
        match form {
            0 => content[64..].fill(0),
            1 => content[length - 2_000..].fill(0),
            2 => content[record..footer].fill(0),
            _ => {
                let header = spare_header(&content);
                content.fill(0);
                content[..64].copy_from_slice(&header);
            }
        }
        files.open(path, true).unwrap().write_all_at(&content, 0).unwrap();
        let (salvaged, lost) = check(&files, table, &sequences);
        assert!(lost > 3, "form {form}");
        assert!(salvaged.lost.iter().all(|lost| lost.path == *path), "{:?}", salvaged.lost);
        let named = salvaged.lost.iter().map(|lost| lost.last_sequence + 1 - lost.first_sequence);
        assert_eq!(named.sum::<u64>(), lost as u64, "form {form}: {:?}", salvaged.lost);
    }
}

/// Regression: after a power loss, the sequence number of a lost record is used again. Of two
/// records with one number, the older one came back; it also did if no current record had its
/// number.
#[test]
fn a_record_lost_to_a_power_loss_does_not_come_back_with_an_old_segment() {
    for (is_used_again, is_closed) in [(true, true), (true, false), (false, true)] {
        let (files, engine, table) = open_new_with(small, &journal_only());
        put_durable(&engine, table, b"a", b"kept").unwrap();
        if is_used_again {
            // A manifest lists the segment, which is not sealed.
            engine.flush().unwrap();
        }
        let lost = put(&engine, table, b"b", b"lost").unwrap();
        let path = &paths(&files, "journal")[0];
        let former = files.read(path).unwrap();
        drop(engine);
        let is_lost = |engine: &Engine| engine.get(table, b"b").unwrap().is_none();
        let mut crashed = (0..).map(|seed| files.crash(seed));
        let files = crashed.find(|files| is_lost(&open(&files.kill()).unwrap())).unwrap();
        let engine = open(&files).unwrap();
        if is_used_again {
            assert_eq!(put_durable(&engine, table, b"b", b"new").unwrap(), lost);
        }
        if is_closed {
            engine.close().unwrap();
        }
        drop(engine);
        let files = files.kill();
        files.open(path, true).unwrap().write_all_at(&former, 0).unwrap();
        salvage(STORE, SALVAGED, small(&files)).unwrap();
        let engine = Engine::open(SALVAGED, small(&files)).unwrap();
        assert_eq!(get(&engine, table, b"a").unwrap(), Some(b"kept".to_vec()));
        let expected = is_used_again.then(|| b"new".to_vec());
        assert_eq!(get(&engine, table, b"b").unwrap(), expected, "closed: {is_closed}");
    }
}

#[test]
fn an_open_store_and_a_folder_in_use_are_refused() {
    let (files, _, _) = store();
    let engine = open(&files).unwrap();
    assert!(matches!(salvage(STORE, SALVAGED, small(&files)), Err(Error::Locked { .. })));
    drop(engine);
    salvage(STORE, SALVAGED, small(&files)).unwrap();
    assert!(matches!(salvage(STORE, SALVAGED, small(&files)), Err(Error::Occupied { .. })));
}

/// Regression: a server that was started on the new store before it was complete made a store of
/// its own there, and salvage replaced the first segment of that.
#[test]
fn the_new_store_is_locked_until_it_is_complete() {
    let (files, _, _) = store();
    let (watched, options, (sender, outcomes)) =
        (WatchedFiles::new(&files), small(&files), mpsc::channel());
    watched.at_next(
        FileEvent::Syncing,
        |path| path.starts_with(Path::new(SALVAGED).join("journal")),
        move || {
            sender.send(Engine::open(SALVAGED, options).map(drop)).unwrap();
            Ok(())
        },
    );
    let file_system = Arc::new(watched);
    salvage(STORE, SALVAGED, EngineOptions { file_system, ..small(&files) }).unwrap();
    let outcome = outcomes.try_recv().unwrap();
    assert!(matches!(outcome, Err(Error::Locked { .. })), "{outcome:?}");
}

/// Overwrites three of four keys of [`store`], and lets a collection remove their old records.
fn collect_three_of_four(files: &SimulatedFileSystem, table: TableId) {
    let engine = open(files).unwrap();
    for key in (0..KEYS).filter(|key| key % 4 != 0) {
        put(&engine, table, &key.to_le_bytes(), b"newer").unwrap();
    }
    settle(&engine);
    assert!(engine.collect().unwrap().segments > 0);
    engine.close().unwrap();
}

/// Checks that everything from that store was salvaged.
fn check_three_of_four(files: &SimulatedFileSystem, table: TableId) {
    let engine = Engine::open(SALVAGED, small(files)).unwrap();
    for key in 0..KEYS {
        let right = if key % 4 == 0 { value_of(key, LENGTH_MIN) } else { b"newer".to_vec() };
        assert_eq!(get(&engine, table, &key.to_le_bytes()).unwrap(), Some(right));
    }
}

/// Regression: an outdated manifest lists removed segments, and not the segment that collection has
/// written since. That segment was treated as a leftover, and was neither salvaged nor reported as
/// lost.
#[test]
fn a_collected_segment_is_salvaged_with_an_outdated_manifest() {
    let (files, table, _) = store();
    let manifest = Path::new(STORE).join("manifest");
    let former = files.read(&manifest).unwrap();
    collect_three_of_four(&files, table);
    files.create(&manifest).unwrap().write_all_at(&former, 0).unwrap();
    let salvaged = salvage(STORE, SALVAGED, small(&files)).unwrap();
    assert!(salvaged.lost.iter().all(|lost| lost.what == "the file is gone"), "{salvaged:?}");
    check_three_of_four(&files, table);
}

/// Regression: records that a collection left out between two others were not needed, and the
/// footer says so. If the footer was destroyed, each gap of numbers was reported as a loss.
#[test]
fn a_collected_segment_without_its_footer_may_lose_only_its_end() {
    let (files, table, _) = store();
    collect_three_of_four(&files, table);
    for path in paths(&files, "journal") {
        let files = files.kill();
        let length = files.read(&path).unwrap().len() as u64;
        files.flip_bits(&path, length - 20, 1).unwrap();
        let salvaged = salvage(STORE, SALVAGED, small(&files)).unwrap();
        assert!(salvaged.lost.len() <= 2, "{:?}", salvaged.lost);
        check_three_of_four(&files, table);
    }
}

/// Deleted and overwritten keys stay deleted and overwritten, even after a collection and a death
/// of the process.
#[test]
fn the_newest_record_of_a_key_wins() {
    let (files, table, _) = store();
    let engine = open(&files).unwrap();
    for key in 0..KEYS {
        let key = key.to_le_bytes();
        if key[0].is_multiple_of(3) {
            engine.delete(table, &key).unwrap();
        } else {
            put(&engine, table, &key, b"newer").unwrap();
        }
    }
    settle(&engine);
    engine.collect().unwrap();
    put(&engine, table, b"last", b"1").unwrap();
    drop(engine);
    let files = files.kill();
    let salvaged = salvage(STORE, SALVAGED, small(&files)).unwrap();
    assert_eq!(salvaged.lost, []);
    let engine = Engine::open(SALVAGED, small(&files)).unwrap();
    for key in 0..KEYS {
        let key = key.to_le_bytes();
        let expected = (!key[0].is_multiple_of(3)).then(|| b"newer".to_vec());
        assert_eq!(get(&engine, table, &key).unwrap(), expected);
    }
    assert_eq!(get(&engine, table, b"last").unwrap(), Some(b"1".to_vec()));
}
