//! The journal by itself, without a ledger.

use std::path::Path;
use std::sync::Arc;

use pellucid_io::FileSystem;
use pellucid_io::simulated::SimulatedFileSystem;

use super::footer::FOOTER_FIXED_LENGTH;
use super::*;
use crate::codec::FILE_HEADER_LENGTH;
use crate::compression::Compression;
use crate::header_form::HeaderForm;
use crate::ledger::Manifest;

const DIRECTORY: &str = "/store";

fn open(files: &SimulatedFileSystem) -> Result<(Journal, Appender)> {
    files.create_directory(&Path::new(DIRECTORY).join(JOURNAL_FOLDER)).unwrap();
    let setting = JournalSetting {
        file_system: Arc::new(files.clone()),
        directory: DIRECTORY.into(),
        clock: Clock::monotonic(),
        segment_size_bytes: 4096,
        segment_records_max: 1 << 10,
        time: Arc::new(MarkedTime::new(Clock::monotonic(), 0)),
        activity: crate::jobs::activity(),
    };
    Journal::open(setting, &Manifest::empty(7))
}

fn append(journal: &Journal, appender: &mut Appender, key: &[u8], value: &[u8]) -> u64 {
    let record = Record {
        form: HeaderForm::Short,
        sequence: 0,
        written_at_ms: 1,
        expires_at_ms: 0,
        kind: RecordKind::Put,
        batch_goes_on: false,
        key,
        head: b"",
        compression: Compression::None,
        value,
    };
    journal.reserve(appender, record.padded_length(), 1).unwrap();
    let sequence = journal.append(appender, record);
    journal.complete_batch(appender).unwrap();
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
            assert_eq!(
                *journal.read(number, b"\0\x01k", 100, ReadMode::MayBlock).unwrap(),
                value(number)[..]
            );
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
    assert_eq!(*journal.read(2, b"\0\x01b", 100, ReadMode::MayBlock).unwrap(), b"2"[..]);
    assert!(matches!(
        journal.read(2, b"\0\x01a", 100, ReadMode::MayBlock),
        Err(Error::Corruption { .. })
    ));
    assert!(matches!(
        journal.read(3, b"\0\x01a", 100, ReadMode::MayBlock),
        Err(Error::Corruption { .. })
    ));
    assert!(matches!(
        journal.read(0, b"\0\x01a", 100, ReadMode::MayBlock),
        Err(Error::Corruption { .. })
    ));
    let segments = journal.segments();
    segments.segments[0].set_place(1, segments.segments[0].place(2).unwrap());
    assert!(matches!(
        journal.read(1, b"\0\x01b", 100, ReadMode::MayBlock),
        Err(Error::Corruption { .. })
    ));
}

#[test]
fn a_value_larger_than_a_segment_gets_a_segment_of_its_own() {
    let files = SimulatedFileSystem::new();
    let (journal, mut appender) = open(&files).unwrap();
    append(&journal, &mut appender, b"\0\x01a", b"small");
    let large = vec![3; 50_000];
    append(&journal, &mut appender, b"\0\x01b", &large);
    append(&journal, &mut appender, b"\0\x01c", b"small");
    assert_eq!(*journal.read(2, b"\0\x01b", 100, ReadMode::MayBlock).unwrap(), large[..]);
    journal.close(&mut appender).unwrap();
    let (journal, _) = open(&files.crash(1)).unwrap();
    assert_eq!(*journal.read(2, b"\0\x01b", 100, ReadMode::MayBlock).unwrap(), large[..]);
    assert_eq!(*journal.read(3, b"\0\x01c", 100, ReadMode::MayBlock).unwrap(), b"small"[..]);
}

/// While reads are slow, records that are not in memory are read by calls: with the same answers,
/// and what is unexpected is left to the map, which reports it.
#[test]
fn slow_reads_give_the_same_answers() {
    let files = SimulatedFileSystem::new();
    let (journal, mut appender) = open(&files).unwrap();
    let value = |number: u64| vec![number as u8; 100 + number as usize];
    for number in 1..=100 {
        append(&journal, &mut appender, b"\0\x01k", &value(number));
    }
    journal.note_read(u64::MAX);
    let segments = journal.segments();
    let mut by_call = 0;
    for number in 1..=100 {
        let length = HeaderForm::Short.length() + 3 + value(number).len();
        assert_eq!(
            *journal.read(number, b"\0\x01k", length, ReadMode::MayBlock).unwrap(),
            value(number)[..]
        );
        let segment = segments.find(number).unwrap();
        if segment.footer().is_none() {
            continue;
        }
        let place = (number, segment.place(number).unwrap());
        let file = files.open(&segment.shared.path, false).unwrap();
        let read = |key: &[u8], length| segment.read_by_call(&*file, place, key, length);
        assert_eq!(*read(b"\0\x01k", length).unwrap().unwrap(), value(number)[..]);
        assert!(read(b"\0\x01k", length - 1).unwrap().is_none(), "cut short");
        assert!(read(b"\0\x01other", length).unwrap().is_none(), "of another key");
        by_call += 1;
    }
    assert!(by_call > 50);
    for _ in 0..SLOW_READS_REMEMBERED {
        assert!(journal.slow_reads.load(Ordering::Relaxed) > 0);
        journal.note_read(100);
    }
    assert_eq!(journal.slow_reads.load(Ordering::Relaxed), 0, "quick reads are mapped again");
}

/// The system reads megabytes around a page of a map that is not in memory, and an opening waited
/// for ten times as much as it needs.
#[test]
fn an_opening_asks_for_headers_and_footers_and_for_no_records() {
    let files = SimulatedFileSystem::new();
    let (journal, mut appender) = open(&files).unwrap();
    (0..100).for_each(|_| {
        append(&journal, &mut appender, b"\0\x01k", &[7; 200]);
    });
    journal.close(&mut appender).unwrap();
    let files = files.kill();
    let (journal, _) = open(&files).unwrap();
    let segments = journal.segments();
    let ends = segments.segments.iter().map(|segment| {
        let footer = segment.footer().expect("it was sealed");
        FILE_HEADER_LENGTH as u64 + FOOTER_FIXED_LENGTH + footer.length()
    });
    assert!(ends.len() > 3);
    assert_eq!(files.expected_bytes(), ends.sum());
}

/// Places are held in memory until a segment is sealed, so a segment ends when there is no more
/// memory for them, however much of it is left.
#[test]
fn a_segment_has_no_more_records_than_memory_for_their_places() {
    let files = SimulatedFileSystem::new();
    let (journal, mut appender) = open(&files).unwrap();
    let journal = Journal { segment_size_bytes: 1 << 20, segment_records_max: 10, ..journal };
    for _ in 0..35 {
        append(&journal, &mut appender, b"\0\x01k", b"small");
    }
    let segments = journal.segments();
    let records: Vec<_> =
        segments.segments.iter().map(|segment| segment.entries().count()).collect();
    assert_eq!(records, [10, 10, 10, 0], "the last one is not sealed");
    assert!(journal.places_bytes() <= 10 * 4);
}

/// The first record of a batch of two.
fn first_of_batch() -> Record<'static> {
    Record {
        form: HeaderForm::Short,
        sequence: 0,
        written_at_ms: 1,
        expires_at_ms: 0,
        kind: RecordKind::Put,
        batch_goes_on: true,
        compression: Compression::None,
        key: b"\0\x01k",
        head: b"",
        value: b"value",
    }
}

/// Earlier builds put marks within batches: their stores are read, batches whole or not at all.
#[test]
fn a_mark_that_stands_within_a_batch_is_read_over() {
    for is_whole in [true, false] {
        let files = SimulatedFileSystem::new();
        let (journal, mut appender) = open(&files).unwrap();
        let record = first_of_batch();
        append(&journal, &mut appender, b"\0\x01a", b"1");
        journal.reserve(&mut appender, 2 * record.padded_length(), 2).unwrap();
        journal.append(&mut appender, record);
        journal.append_mark(&mut appender, 1);
        if is_whole {
            journal.append(&mut appender, Record { batch_goes_on: false, ..record });
        }
        let (reopened, appender) = open(&files.kill()).unwrap();
        assert_eq!(appender.next_sequence(), if is_whole { 4 } else { 2 });
        assert_eq!(*reopened.read(1, b"\0\x01a", 100, ReadMode::MayBlock).unwrap(), b"1"[..]);
        for sequence in 2..appender.next_sequence() {
            assert_eq!(
                *reopened.read(sequence, record.key, 100, ReadMode::MayBlock).unwrap(),
                *record.value
            );
        }
    }
}

/// A sync that ended while a batch was written put its mark into the batch, and the store, whose
/// process then died, was refused as damaged.
#[test]
fn a_sync_that_ends_within_a_batch_leaves_its_mark_behind_it() {
    let files = SimulatedFileSystem::new();
    let (journal, mut appender) = open(&files).unwrap();
    let record = first_of_batch();
    append(&journal, &mut appender, b"\0\x01a", b"1");
    journal.reserve(&mut appender, 2 * record.padded_length(), 2).unwrap();
    journal.append(&mut appender, record);
    journal.sync_to(1).unwrap();
    journal.append(&mut appender, Record { batch_goes_on: false, ..record });
    journal.complete_batch(&appender).unwrap();
    let offset = |sequence| journal.segments().segments[0].place(sequence).unwrap();
    assert_eq!(offset(3) - offset(2), record.padded_length(), "there is nothing in between");
    append(&journal, &mut appender, b"\0\x01b", b"4");
    assert!(offset(4) - offset(3) > record.padded_length(), "the mark");
    let (_, appender) = open(&files.kill()).unwrap();
    assert_eq!(appender.next_sequence(), 5);
}
