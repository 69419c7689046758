//! A harness for the tests of the ledger: a journal that only keeps accounts, and a writer.
#![allow(clippy::disallowed_types, reason = "locks of tests are not profiled")]

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pellucid_account::EngineCounts;
use pellucid_io::simulated::SimulatedFileSystem;

use crate::error::{Error, Result};
use crate::folder::make_folders;
use crate::ledger::{
    Direction, DroppedList, Entry, EntryKind, FoundEntry, JournalLink, KeyRange, Ledger,
    LedgerOptions, Manifest, NEWEST, SegmentMetadata,
};
use crate::read_mode::ReadMode;

pub(super) const STORE: u64 = 0xfeed;
/// The number of sequence numbers per segment of the pretended journal.
const SEGMENT_SEQUENCES: u64 = 64;

/// Sets a flag when it is dropped: it stops the readers, even if the writer panics.
pub(crate) struct EndOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

pub(super) fn directory() -> &'static Path {
    Path::new("/store")
}

/// The key with a number, in table 1.
pub(super) fn key(number: u32) -> Vec<u8> {
    [&[0, 1], &number.to_be_bytes()[..]].concat()
}

/// A file system with the empty folders of a store.
pub(super) fn empty_store() -> SimulatedFileSystem {
    let fs = SimulatedFileSystem::new();
    make_folders(&fs, directory()).unwrap();
    fs
}

/// Options with which a few hundred entries fill several levels.
pub(super) fn small_options() -> LedgerOptions {
    LedgerOptions {
        memtable_size_bytes: 4 << 10,
        block_size_bytes: 200,
        table_size_bytes: 2 << 10,
        level_base_bytes: 4 << 10,
        level_factor: 3,
        level_0_trigger: 3,
        sealed_memtables_max: 2,
        tables_memory_bytes: 32 << 10,
        job_memory_bytes: 64 << 10,
        background: false,
        ..LedgerOptions::default()
    }
}

/// A pretended journal that accounts for everything that the ledger reports to it.
#[derive(Default)]
pub(super) struct MockJournal {
    dead_bytes: Mutex<Vec<u64>>,
    pub(super) dropped: Mutex<HashSet<u64>>,
    pub(super) dropped_bytes: AtomicU64,
    pub(super) durable: AtomicU64,
    /// The time by which entries expire.
    pub(super) now_ms: AtomicU64,
    pub(super) refuses_sync: AtomicBool,
}

/// Adds the bytes of dropped entries to their segments.
fn count_dead(dead_bytes: &mut Vec<u64>, dropped: &DroppedList) {
    for entry in dropped.iter() {
        let segment = (entry.sequence / SEGMENT_SEQUENCES) as usize;
        dead_bytes.resize(dead_bytes.len().max(segment + 1), 0);
        dead_bytes[segment] += entry.record_bytes;
    }
}

impl JournalLink for MockJournal {
    fn make_durable(&self, sequence: u64) -> Result<()> {
        if self.refuses_sync.load(Ordering::Relaxed) {
            let error = std::io::Error::other("the sync was refused");
            return Err(Error::io("sync", Path::new("journal"), error));
        }
        self.durable.fetch_max(sequence, Ordering::Relaxed);
        Ok(())
    }

    fn on_dropped(&self, dropped: &DroppedList) {
        let mut seen = self.dropped.lock().unwrap();
        let mut dead_bytes = self.dead_bytes.lock().unwrap();
        for entry in dropped.iter() {
            assert!(seen.insert(entry.sequence), "{} was dropped twice", entry.sequence);
            self.dropped_bytes.fetch_add(entry.record_bytes, Ordering::Relaxed);
        }
        count_dead(&mut dead_bytes, dropped);
    }

    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    fn segment_facts(&self, dropped: &DroppedList) -> Vec<SegmentMetadata> {
        let mut dead_bytes = self.dead_bytes.lock().unwrap().clone();
        count_dead(&mut dead_bytes, dropped);
        (0..200)
            .map(|number| SegmentMetadata {
                number,
                first_sequence: number * SEGMENT_SEQUENCES,
                dead_bytes: dead_bytes.get(number as usize).copied().unwrap_or_default(),
                ..SegmentMetadata::default()
            })
            .collect()
    }

    fn after_manifest(&self, flushed_sequence: u64, _tables_bytes: u64) {
        assert!(
            flushed_sequence <= self.durable.load(Ordering::Relaxed),
            "flushed before it was durable"
        );
    }
}

/// A record as the journal would hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) key: Vec<u8>,
    pub(super) sequence: u64,
    pub(super) kind: EntryKind,
}

impl Record {
    pub(super) fn entry(&self) -> Entry<'_> {
        let is_held = self.kind == EntryKind::Put && self.sequence.is_multiple_of(3);
        let length = if self.kind == EntryKind::Put { self.sequence as u32 % 300 } else { 0 };
        let value_length = if is_held { self.key.len() as u32 } else { length };
        Entry {
            key: &self.key,
            sequence: self.sequence,
            kind: self.kind,
            value_length,
            stored_length: value_length - value_length / 3,
            value: is_held.then_some(&self.key[..]),
            written_at_ms: 1_700_000_000_000 + self.sequence,
            expires_at_ms: if self.sequence.is_multiple_of(4) { self.sequence } else { 0 },
            head: &b"0123456789012345678901234567890123456789012345"[..self.sequence as usize % 46],
        }
    }
}

/// The keys that a scan of `ledger` at `at` finds, with their sequence numbers.
pub(super) fn scanned(
    ledger: &Ledger,
    range: KeyRange<'_>,
    direction: Direction,
    at: u64,
) -> Vec<(Vec<u8>, u64)> {
    let mut scan = ledger.scan(range, direction, at, ReadMode::MayBlock).unwrap();
    let mut found = Vec::new();
    while let Some((key, entry)) = scan.next().unwrap() {
        found.push((key.to_vec(), entry.sequence));
    }
    found
}

/// A ledger with its pretended journal and all records that were written.
pub(super) struct Store {
    pub(super) fs: SimulatedFileSystem,
    pub(super) options: LedgerOptions,
    pub(super) books: Arc<MockJournal>,
    pub(super) ledger: Ledger,
    pub(super) records: Vec<Record>,
}

impl Store {
    pub(super) fn create(options: LedgerOptions) -> Store {
        let fs = empty_store();
        let books = Arc::new(MockJournal::default());
        let link = Arc::clone(&books) as Arc<dyn JournalLink>;
        let (files, manifest) = (Arc::new(fs.clone()), Manifest::empty(STORE));
        let ledger = Ledger::open(files, directory(), manifest, options.clone(), link).unwrap();
        ledger.write_manifest().unwrap();
        Store { fs, options, books, ledger, records: Vec::new() }
    }

    pub(super) fn last_sequence(&self) -> u64 {
        self.records.len() as u64
    }

    /// Writes a record without waiting for room.
    pub(super) fn write(&mut self, key: &[u8], kind: EntryKind) {
        let record = Record { key: key.to_vec(), sequence: self.last_sequence() + 1, kind };
        self.ledger.insert(&record.entry());
        self.ledger.publish(record.sequence);
        self.records.push(record);
    }

    pub(super) fn put(&mut self, key: &[u8]) {
        self.write(key, EntryKind::Put);
    }

    pub(super) fn flush(&self) {
        self.ledger.flush_now(self.last_sequence()).unwrap();
    }

    pub(super) fn get(&self, key: &[u8], at: u64) -> Option<FoundEntry> {
        self.ledger.get(key, at, ReadMode::MayBlock, &mut EngineCounts::default()).unwrap()
    }

    /// The newest record of a key at or below a sequence number, from the list of all records.
    pub(super) fn expected(&self, key: &[u8], at: u64) -> Option<&Record> {
        let at = at.min(self.last_sequence()) as usize;
        self.records[..at].iter().rev().find(|record| record.key == key)
    }

    /// Closes the ledger, opens it again on `fs`, and replays the records that are not flushed.
    pub(super) fn reopen(&mut self, fs: SimulatedFileSystem) -> Result<()> {
        self.ledger.close();
        let manifest = Manifest::read(&fs, directory())?.expect("there is a manifest");
        let books = MockJournal::default();
        let held: Vec<u64> = manifest.segments.iter().map(|segment| segment.dead_bytes).collect();
        // The counts in the manifest include everything that was dropped before it was written.
        assert!(held.iter().sum::<u64>() >= self.books.dropped_bytes.load(Ordering::Relaxed));
        *books.dropped.lock().unwrap() = self.books.dropped.lock().unwrap().clone();
        books.dropped_bytes.store(held.iter().sum(), Ordering::Relaxed);
        books.durable.store(manifest.flushed_sequence, Ordering::Relaxed);
        *books.dead_bytes.lock().unwrap() = held;
        self.books = Arc::new(books);
        let flushed = manifest.flushed_sequence as usize;
        let link = Arc::clone(&self.books) as Arc<dyn JournalLink>;
        self.fs = fs.clone();
        self.ledger =
            Ledger::open(Arc::new(fs), directory(), manifest, self.options.clone(), link)?;
        assert_eq!(self.ledger.published_sequence(), flushed as u64);
        for record in &self.records[flushed..] {
            self.ledger.wait_for_memtables()?;
            self.ledger.insert(&record.entry());
            self.ledger.publish(record.sequence);
            self.ledger.rotate_if_full(record.sequence);
        }
        Ok(())
    }

    /// Reopens as [`Store::reopen`] does, on the same files.
    pub(super) fn reopen_as_it_is(&mut self) {
        self.reopen(self.fs.clone()).unwrap();
    }

    /// Checks every key that was ever written.
    pub(super) fn check_all(&self) {
        for key in self.records.iter().map(|record| &record.key).collect::<HashSet<_>>() {
            let expected = self.expected(key, NEWEST);
            let found = self.get(key, NEWEST);
            match (&found, expected) {
                (Some(found), Some(record)) => assert_eq!(*found, record.entry().to_found()),
                (None, Some(record)) => {
                    assert_eq!(record.kind, EntryKind::Delete, "{key:?} is lost")
                }
                (None, None) => {}
                (Some(_), None) => panic!("{key:?} was never written"),
            }
        }
    }
}
