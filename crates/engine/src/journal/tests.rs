//! The journal by itself, without a ledger.

use std::path::Path;
use std::sync::Arc;

use pellucid_io::FileSystem;
use pellucid_io::simulated::SimulatedFileSystem;

use super::*;
use crate::ledger::Manifest;

const DIRECTORY: &str = "/store";

fn open(files: &SimulatedFileSystem) -> Result<(Journal, Appender)> {
    files.create_directory(&Path::new(DIRECTORY).join(JOURNAL_FOLDER)).unwrap();
    let setting = JournalSetting {
        file_system: Arc::new(files.clone()),
        directory: DIRECTORY.into(),
        clock: Clock::monotonic(),
        segment_size_bytes: 4096,
        time: Arc::new(MarkedTime::new(Clock::monotonic(), 0)),
    };
    Journal::open(setting, &Manifest::empty(7))
}

fn append(journal: &Journal, appender: &mut Appender, key: &[u8], value: &[u8]) -> u64 {
    let record = Record {
        sequence: 0,
        written_at_ms: 1,
        expires_at_ms: 0,
        kind: RecordKind::Put,
        batch_goes_on: false,
        key,
        head: b"",
        value,
    };
    journal.reserve(appender, record.padded_length(), 1).unwrap();
    let sequence = journal.append(appender, record);
    journal.complete_batch(appender);
    sequence
}

#[test]
fn records_are_read_by_sequence_number_from_all_segments() {
    let files = SimulatedFileSystem::new();
    let (journal, mut appender) = open(&files).unwrap();
    let value = |number: u64| vec![number as u8; 100 + number as usize];
    for number in 1..=100 {
        assert_eq!(append(&journal, &mut appender, b"\0\x01k", &value(number)), number);
    }
    let check = |journal: &Journal| {
        assert!(journal.segments().segments.len() > 3);
        for number in 1..=100 {
            assert_eq!(*journal.read(number, b"\0\x01k", 100).unwrap(), value(number)[..]);
        }
    };
    check(&journal);
    let (reopened, appender) = open(&files.kill()).unwrap();
    check(&reopened);
    assert_eq!(appender.next_sequence(), 101);
}

/// A place that leads to another record, however intact, is an error and not an answer.
#[test]
fn the_record_of_another_key_or_sequence_is_refused() {
    let files = SimulatedFileSystem::new();
    let (journal, mut appender) = open(&files).unwrap();
    append(&journal, &mut appender, b"\0\x01a", b"1");
    append(&journal, &mut appender, b"\0\x01b", b"2");
    assert_eq!(*journal.read(2, b"\0\x01b", 100).unwrap(), b"2"[..]);
    assert!(matches!(journal.read(2, b"\0\x01a", 100), Err(Error::Corruption { .. })));
    assert!(matches!(journal.read(3, b"\0\x01a", 100), Err(Error::Corruption { .. })));
    assert!(matches!(journal.read(0, b"\0\x01a", 100), Err(Error::Corruption { .. })));
    let segments = journal.segments();
    segments.segments[0].set_place(1, segments.segments[0].place(2).unwrap());
    assert!(matches!(journal.read(1, b"\0\x01b", 100), Err(Error::Corruption { .. })));
}

#[test]
fn a_value_larger_than_a_segment_gets_a_segment_of_its_own() {
    let files = SimulatedFileSystem::new();
    let (journal, mut appender) = open(&files).unwrap();
    append(&journal, &mut appender, b"\0\x01a", b"small");
    let large = vec![3; 50_000];
    append(&journal, &mut appender, b"\0\x01b", &large);
    append(&journal, &mut appender, b"\0\x01c", b"small");
    assert_eq!(*journal.read(2, b"\0\x01b", 100).unwrap(), large[..]);
    journal.close(&mut appender).unwrap();
    let (journal, _) = open(&files.crash(1)).unwrap();
    assert_eq!(*journal.read(2, b"\0\x01b", 100).unwrap(), large[..]);
    assert_eq!(*journal.read(3, b"\0\x01c", 100).unwrap(), b"small"[..]);
}

/// A sync that ended while a batch was written put its mark into the batch, and the store, whose
/// process then died, was refused as damaged.
#[test]
fn a_sync_that_ends_within_a_batch_leaves_its_mark_behind_it() {
    let files = SimulatedFileSystem::new();
    let (journal, mut appender) = open(&files).unwrap();
    let record = Record {
        sequence: 0,
        written_at_ms: 1,
        expires_at_ms: 0,
        kind: RecordKind::Put,
        batch_goes_on: true,
        key: b"\0\x01k",
        head: b"",
        value: b"value",
    };
    append(&journal, &mut appender, b"\0\x01a", b"1");
    journal.reserve(&mut appender, 2 * record.padded_length(), 2).unwrap();
    journal.append(&mut appender, record);
    journal.sync_to(1).unwrap();
    journal.append(&mut appender, Record { batch_goes_on: false, ..record });
    journal.complete_batch(&appender);
    let offset = |sequence| journal.segments().segments[0].place(sequence).unwrap();
    assert_eq!(offset(3) - offset(2), record.padded_length(), "there is nothing in between");
    append(&journal, &mut appender, b"\0\x01b", b"4");
    assert!(offset(4) - offset(3) > record.padded_length(), "the mark");
    let (_, appender) = open(&files.kill()).unwrap();
    assert_eq!(appender.next_sequence(), 5);
}
