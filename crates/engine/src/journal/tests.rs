//! Tests of the journal by itself, without a ledger.

use std::path::Path;
use std::sync::Arc;

use pellucid_io::FileSystem;
use pellucid_io::simulated::{Faults, SimulatedFileSystem};

use pellucid_clock::Clock;

use super::footer::FOOTER_FIXED_LENGTH;
use super::medium::SLOW_READS_REMEMBERED;
use super::record::Damage;
use super::*;
use crate::codec::{FILE_HEADER_LENGTH, checksum_seed};
use crate::error::{Error, Result};
use crate::expiry::ExpiryClock;
use crate::folder::make_folders;
use crate::header_form::HeaderForm;
use crate::ledger::Manifest;
use crate::object::Value;
use crate::read_mode::ReadMode;

const DIRECTORY: &str = "/store";

fn open(files: &SimulatedFileSystem) -> Result<(Journal, JournalWriter)> {
    open_with(files, 4096, 1 << 10)
}

fn open_with(
    files: &SimulatedFileSystem,
    segment_size_bytes: u64,
    segment_records_max: u64,
) -> Result<(Journal, JournalWriter)> {
    make_folders(files, Path::new(DIRECTORY)).unwrap();
    let setting = JournalSetting {
        dead_bound: DeadSpaceLimit { share: 1.0 / 3.0, allowance_bytes: 1 << 20 },
        file_system: Arc::new(files.clone()),
        directory: DIRECTORY.into(),
        clock: Clock::monotonic(),
        segment_size_bytes,
        segment_records_max,
        ledger_room: LedgerRoom { flush_bytes: 0, merge_max_bytes: 0 },
        time: Arc::new(ExpiryClock::new(Clock::monotonic(), 0)),
        activity: crate::jobs::activity(),
    };
    Journal::open(setting, &Manifest::empty(7))
}

fn read(journal: &Journal, sequence: u64, key: &[u8], length: usize) -> Result<Value> {
    let segments = journal.segments();
    let value = segments.read((sequence, key), length, ReadMode::MayBlock, None)?;
    value.ok_or_else(|| segments.missing(sequence))
}

fn append(writer: &mut JournalWriter, key: &[u8], value: &[u8]) -> u64 {
    try_append(writer, key, value, Purpose::Puts).unwrap()
}

fn try_append(
    writer: &mut JournalWriter,
    key: &[u8],
    value: &[u8],
    purpose: Purpose,
) -> Result<u64> {
    let record = Record { key, value, written_at_ms: 1, ..Record::EMPTY };
    writer.reserve(record.padded_length(), 1, purpose)?;
    writer.append(record)
}

#[test]
fn records_are_read_by_sequence_number_from_all_segments() {
    let files = SimulatedFileSystem::new();
    let (journal, mut writer) = open(&files).unwrap();
    let value = |number: u64| vec![number as u8; 100 + number as usize];
    for number in 1..=100 {
        assert_eq!(append(&mut writer, b"\0\x01k", &value(number)), number);
    }
    let check = |journal: &Journal| {
        assert!(journal.segments().list().segments.len() > 3);
        for number in 1..=100 {
            assert_eq!(*read(journal, number, b"\0\x01k", 100).unwrap(), value(number)[..]);
        }
    };
    check(&journal);
    let (reopened, writer) = open(&files.kill()).unwrap();
    check(&reopened);
    assert_eq!(writer.next_sequence(), 101);
}

/// An offset that leads to another record is an error, even if that record is intact.
#[test]
fn the_record_of_another_key_or_sequence_is_refused() {
    let files = SimulatedFileSystem::new();
    let (journal, mut writer) = open(&files).unwrap();
    append(&mut writer, b"\0\x01a", b"1");
    append(&mut writer, b"\0\x01b", b"2");
    assert_eq!(*read(&journal, 2, b"\0\x01b", 100).unwrap(), b"2"[..]);
    assert!(matches!(read(&journal, 2, b"\0\x01a", 100), Err(Error::Corruption { .. })));
    assert!(matches!(read(&journal, 3, b"\0\x01a", 100), Err(Error::Corruption { .. })));
    assert!(matches!(read(&journal, 0, b"\0\x01a", 100), Err(Error::Corruption { .. })));
    let segments = journal.segments().list();
    segments.segments[0].set_offset(1, segments.segments[0].offset(2).unwrap());
    assert!(matches!(read(&journal, 1, b"\0\x01b", 100), Err(Error::Corruption { .. })));
}

#[test]
fn a_value_larger_than_a_segment_gets_a_segment_of_its_own() {
    let files = SimulatedFileSystem::new();
    let (journal, mut writer) = open(&files).unwrap();
    append(&mut writer, b"\0\x01a", b"small");
    let large = vec![3; 50_000];
    append(&mut writer, b"\0\x01b", &large);
    append(&mut writer, b"\0\x01c", b"small");
    assert_eq!(*read(&journal, 2, b"\0\x01b", 100).unwrap(), large[..]);
    writer.close().unwrap();
    let (journal, _) = open(&files.crash(1)).unwrap();
    assert_eq!(*read(&journal, 2, b"\0\x01b", 100).unwrap(), large[..]);
    assert_eq!(*read(&journal, 3, b"\0\x01c", 100).unwrap(), b"small"[..]);
}

/// While reads are slow, records that are not in memory are read with system calls. They give the
/// same answers; anything unexpected is left to the map, which reports it.
#[test]
fn slow_reads_give_the_same_answers() {
    let files = SimulatedFileSystem::new();
    let (journal, mut writer) = open(&files).unwrap();
    let value = |number: u64| vec![number as u8; 100 + number as usize];
    for number in 1..=100 {
        append(&mut writer, b"\0\x01k", &value(number));
    }
    journal.segments().medium().note(u64::MAX);
    let segments = journal.segments().list();
    let mut by_call = 0;
    for number in 1..=100 {
        let length = HeaderForm::Short.length() + 3 + value(number).len();
        assert_eq!(*read(&journal, number, b"\0\x01k", length).unwrap(), value(number)[..]);
        let segment = segments.find(number).unwrap();
        if segment.footer().is_none() {
            continue;
        }
        let place = (number, segment.offset(number).unwrap());
        let file = files.open(&segment.shared.path, false).unwrap();
        let read = |key: &[u8], length| segment.read_by_call(&*file, place, key, length);
        assert_eq!(*read(b"\0\x01k", length).unwrap().unwrap(), value(number)[..]);
        assert!(read(b"\0\x01k", length - 1).unwrap().is_none(), "cut short");
        assert!(read(b"\0\x01other", length).unwrap().is_none(), "another key");
        by_call += 1;
    }
    assert!(by_call > 50);
    for _ in 0..SLOW_READS_REMEMBERED {
        assert!(journal.segments().medium().are_slow());
        journal.segments().medium().note(100);
    }
    assert!(!journal.segments().medium().are_slow(), "quick reads are mapped again");
}

/// Regression: a page fault in a map makes the system read megabytes around the page, so an opening
/// read ten times as much as it needs.
#[test]
fn an_opening_requests_headers_and_footers_but_no_records() {
    let files = SimulatedFileSystem::new();
    let (_journal, mut writer) = open(&files).unwrap();
    (0..100).for_each(|_| {
        append(&mut writer, b"\0\x01k", &[7; 200]);
    });
    writer.close().unwrap();
    let files = files.kill();
    let (journal, _) = open(&files).unwrap();
    let segments = journal.segments().list();
    let ends = segments.segments.iter().map(|segment| {
        let footer = segment.footer().expect("it was sealed");
        FILE_HEADER_LENGTH as u64 + FOOTER_FIXED_LENGTH + footer.length()
    });
    assert!(ends.len() > 3);
    assert_eq!(files.expected_bytes(), ends.sum());
}

/// Offsets are held in memory until a segment is sealed, so a segment ends when the memory for them
/// is used up, even if the file has room left.
#[test]
fn a_segment_has_no_more_records_than_memory_for_their_offsets() {
    let files = SimulatedFileSystem::new();
    let (journal, mut writer) = open_with(&files, 1 << 20, 10).unwrap();
    for _ in 0..35 {
        append(&mut writer, b"\0\x01k", b"small");
    }
    let segments = journal.segments().list();
    let records: Vec<_> =
        segments.segments.iter().map(|segment| segment.entries().count()).collect();
    assert_eq!(records, [10, 10, 10, 0], "the last one is not sealed");
    assert!(journal.offsets_bytes() <= 10 * 4);
}

/// An intact record may still be the wrong one at its offset.
#[test]
fn a_segment_ends_at_a_record_that_does_not_follow() {
    let files = SimulatedFileSystem::new();
    let (journal, mut writer) = open(&files).unwrap();
    (0..5).for_each(|_| {
        append(&mut writer, b"\0\x01k", b"value");
    });
    let path = journal.segments().list().segments[0].shared.path.clone();
    let bytes = files.read(&path).unwrap();
    let scan = |first_sequence| scan_records(&bytes, checksum_seed(&[7]), first_sequence);
    assert_eq!((scan(1).offsets.len(), scan(1).damage), (5, Damage::Nothing));
    for first_sequence in [2, 9] {
        let scanned = scan(first_sequence);
        assert_eq!((scanned.offsets.len(), scanned.damage), (0, Damage::Fields));
    }
}

/// Regression: puts filled the disk to the last byte, so that deletes failed.
#[test]
fn puts_end_at_the_reserve_and_deletes_go_on_in_it() {
    const SMALL_BYTES: u64 = 4 << 10;
    let files = SimulatedFileSystem::new();
    let (journal, mut writer) = open_with(&files, 64 << 10, 1 << 10).unwrap();
    files.set_faults(Faults { space_bytes: Some((1 << 20) + (40 << 10)), ..Faults::default() });
    let (key, value) = (b"\0\x01k", [7; 1_000]);
    let refused = loop {
        if let Err(error) = try_append(&mut writer, key, &value, Purpose::Puts) {
            break error;
        }
    };
    let Error::DiskFull { room: Some(room), .. } = refused else { panic!("{refused}") };
    let sizes: Vec<_> = journal.segments().facts().iter().map(|facts| facts.size_bytes).collect();
    assert!(sizes[0] > 60 << 10, "with enough room they are as usual: {sizes:?}");
    assert_eq!(sizes.last(), Some(&SMALL_BYTES), "and small near the reserve");
    let (kept_bytes, reserve_bytes) = (journal.room().free_bytes(), room.reserve_bytes);
    assert!(reserve_bytes > 100 << 10, "{reserve_bytes}");
    assert!((reserve_bytes..reserve_bytes + SMALL_BYTES).contains(&kept_bytes), "{kept_bytes}");
    for _ in 0..300 {
        try_append(&mut writer, key, b"", Purpose::Deletes).unwrap();
    }
    assert!(journal.room().free_bytes() + SMALL_BYTES < kept_bytes);
    let refused = try_append(&mut writer, key, &value, Purpose::Puts).unwrap_err();
    assert!(matches!(refused, Error::DiskFull { room: Some(_), .. }), "the rest is for deletes");
    files.set_faults(Faults::default());
    let sequence = try_append(&mut writer, key, &value, Purpose::Puts).unwrap();
    assert_eq!(*read(&journal, sequence, key, 1_000).unwrap(), value);
}

/// The first record of a batch of two.
fn first_of_batch() -> Record<'static> {
    Record {
        written_at_ms: 1,
        batch_goes_on: true,
        key: b"\0\x01k",
        value: b"value",
        ..Record::EMPTY
    }
}

/// Regression: a sync that ended while a batch was written put its mark into the batch. If the
/// process then died, the store was refused as damaged.
#[test]
fn a_sync_that_ends_within_a_batch_puts_its_mark_after_the_batch() {
    let files = SimulatedFileSystem::new();
    let (journal, mut writer) = open(&files).unwrap();
    let record = first_of_batch();
    append(&mut writer, b"\0\x01a", b"1");
    writer.reserve(2 * record.padded_length(), 2, Purpose::Puts).unwrap();
    writer.append(record).unwrap();
    journal.sync().sync_to(1).unwrap();
    writer.append(Record { batch_goes_on: false, ..record }).unwrap();
    let offset = |sequence| journal.segments().list().segments[0].offset(sequence).unwrap();
    assert_eq!(offset(3) - offset(2), record.padded_length(), "there is nothing in between");
    append(&mut writer, b"\0\x01b", b"4");
    assert!(offset(4) - offset(3) > record.padded_length(), "the mark");
    let (_, writer) = open(&files.kill()).unwrap();
    assert_eq!(writer.next_sequence(), 5);
}
