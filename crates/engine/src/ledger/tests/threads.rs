//! Tests of the background thread with concurrent readers and a writer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::time::Duration;

use pellucid_account::EngineCounts;
use pellucid_io::pass_on;
use pellucid_io::simulated::Faults;

use super::harness::*;
use crate::error::{Error, Result};
use crate::ledger::state::ENTRIES_A_SLICE;
use crate::ledger::{
    Direction, DroppedList, EntryKind, JournalLink, KeyRange, Ledger, LedgerOptions, Manifest,
    NEWEST, SegmentMetadata,
};
use crate::read_mode::ReadMode;

fn background_options() -> LedgerOptions {
    LedgerOptions {
        background: true,
        merges_in_parts: true,
        memtable_size_bytes: 16 << 10,
        ..small_options()
    }
}

fn record(sequence: u64) -> Record {
    let number = sequence * 7919 % 1009;
    let kind = if sequence.is_multiple_of(11) { EntryKind::Delete } else { EntryKind::Put };
    Record { key: [&[0, 1], &number.to_be_bytes()[..]].concat(), sequence, kind }
}

/// Readers of the newest version never miss a key and never go back, while old versions are
/// dropped.
#[test]
fn readers_never_go_back_while_jobs_run() {
    const RECORDS: u64 = 12_000;
    let Store { books, ledger, .. } = Store::create(background_options());
    ledger.start_background().unwrap();
    let done = AtomicBool::new(false);
    let read = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let reader = |seed: u64| {
            let mut newest = vec![0; 1009];
            let mut turn = seed;
            while !done.load(Ordering::Relaxed) {
                turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let sequence = 1 + (turn >> 33) % ledger.published_sequence().max(1);
                let key = record(sequence).key;
                let found = ledger
                    .get(&key, NEWEST, ReadMode::MayBlock, &mut EngineCounts::default())
                    .unwrap();
                let slot = (sequence * 7919 % 1009) as usize;
                if let Some(found) = found {
                    assert_eq!(found, record(found.sequence).entry().to_found());
                    assert!(found.sequence >= newest[slot], "{slot} went back");
                    newest[slot] = found.sequence;
                }
                if turn.is_multiple_of(512) {
                    let snapshot = ledger.register_snapshot();
                    let at = snapshot.sequence();
                    let seen = || scanned(&ledger, KeyRange::EVERYTHING, Direction::Forward, at);
                    assert_eq!(seen(), seen(), "a snapshot changed");
                }
                read.fetch_add(1, Ordering::Relaxed);
            }
        };
        let ends = EndOnDrop(&done);
        let reading = scope.spawn(move || reader(1));
        for sequence in 1..=RECORDS {
            ledger.wait_for_memtables().unwrap();
            ledger.insert(&record(sequence).entry());
            ledger.publish(sequence);
            ledger.rotate_if_full(sequence);
        }
        ledger.flush_now(RECORDS).unwrap();
        while read.load(Ordering::Relaxed) < 100 && !reading.is_finished() {
            std::thread::yield_now();
        }
        drop(ends);
    });
    ledger.compact_all().unwrap();
    ledger.close();
    let stats = ledger.stats();
    assert!(stats.flush.runs > 0 && stats.running.is_none());
    assert_eq!(stats.trouble, None);
    let held = ledger.sequences_for_tests();
    let dropped = books.dropped.lock().unwrap();
    assert_eq!(held.len() + dropped.len(), RECORDS as usize);
}

/// A pretended journal that takes its time.
struct SlowMockJournal {
    books: MockJournal,
    /// Notified when entries are handed over.
    begun: mpsc::Sender<()>,
    is_over: AtomicBool,
}

impl JournalLink for SlowMockJournal {
    pass_on! { books:
        fn make_durable(sequence: u64) -> Result<()>;
        fn segment_facts(dropped: &DroppedList) -> Vec<SegmentMetadata>;
        fn now_ms() -> u64;
        fn after_manifest(flushed_sequence: u64, tables_bytes: u64);
    }

    fn on_dropped(&self, dropped: &DroppedList) {
        if dropped.count() > 0 {
            let _ = self.begun.send(());
            std::thread::sleep(Duration::from_millis(100));
            self.is_over.store(true, Ordering::Release);
        }
        self.books.on_dropped(dropped);
    }
}

/// Regression: garbage collection counted a record twice if the tree had dropped its entry and the
/// journal did not know it yet.
#[test]
fn entries_that_a_pinned_tree_lacks_were_handed_over() {
    let (begun, begins) = mpsc::channel();
    let books = MockJournal::default();
    let link = Arc::new(SlowMockJournal { books, begun, is_over: AtomicBool::new(false) });
    let (fs, manifest) = (Arc::new(empty_store()), Manifest::empty(STORE));
    let as_link = Arc::clone(&link) as Arc<dyn JournalLink>;
    let ledger = Ledger::open(fs, directory(), manifest, small_options(), as_link).unwrap();
    for sequence in 1..=2 {
        let record = Record { key: vec![0, 1, 7], sequence, kind: EntryKind::Put };
        ledger.insert(&record.entry());
        ledger.publish(sequence);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| ledger.flush_now(2).unwrap());
        begins.recv().unwrap();
        drop(ledger.pin());
        assert!(link.is_over.load(Ordering::Acquire), "the first version was not handed over yet");
    });
    assert!(link.books.dropped.lock().unwrap().contains(&1));
}

/// The number of memtables after which the writer ends, so that a test that fails ends, too.
const BUSY_MEMTABLES: u64 = 50;

/// A pretended journal with a writer that fills a memtable during each sync.
#[derive(Default)]
struct BusyMockJournal {
    books: MockJournal,
    ledger: OnceLock<Weak<Ledger>>,
    last_sequence: AtomicU64,
    memtables: AtomicU64,
}

impl BusyMockJournal {
    /// A ledger with this journal.
    fn open(options: LedgerOptions) -> (Arc<BusyMockJournal>, Arc<Ledger>) {
        let link = Arc::new(BusyMockJournal::default());
        let (fs, manifest) = (Arc::new(empty_store()), Manifest::empty(STORE));
        let as_link = Arc::clone(&link) as Arc<dyn JournalLink>;
        let ledger = Arc::new(Ledger::open(fs, directory(), manifest, options, as_link).unwrap());
        link.ledger.set(Arc::downgrade(&ledger)).unwrap();
        (link, ledger)
    }

    /// Writes an entry, and seals the memtable.
    fn fill_memtable(&self) {
        let ledger = self.ledger.get().and_then(Weak::upgrade).unwrap();
        let sequence = self.last_sequence.fetch_add(1, Ordering::Relaxed) + 1;
        ledger.insert(&record(sequence).entry());
        ledger.publish(sequence);
        ledger.seal_for_tests(sequence);
    }
}

impl JournalLink for BusyMockJournal {
    pass_on! { books:
        fn on_dropped(dropped: &DroppedList);
        fn segment_facts(dropped: &DroppedList) -> Vec<SegmentMetadata>;
        fn now_ms() -> u64;
        fn after_manifest(flushed_sequence: u64, tables_bytes: u64);
    }

    fn make_durable(&self, sequence: u64) -> Result<()> {
        if self.memtables.fetch_add(1, Ordering::Relaxed) < BUSY_MEMTABLES {
            self.fill_memtable();
        }
        self.books.make_durable(sequence)
    }
}

/// Regression: compactions and backups did not end while a writer was as fast as the flushes.
#[test]
fn jobs_flush_only_what_was_sealed_before() {
    let jobs: [fn(&Ledger) -> Result<()>; 2] = [Ledger::compact_all, Ledger::wait_for_flushes];
    for job in jobs {
        let (link, ledger) = BusyMockJournal::open(small_options());
        link.fill_memtable();
        job(&ledger).unwrap();
        assert_eq!(ledger.stats().flush.runs, 1);
    }
}

/// A ledger with a busy writer, of which a merge of everything has a slice for each memtable, and a
/// few more.
fn busy_before_a_merge(level_0_trigger: usize) -> (Arc<BusyMockJournal>, Arc<Ledger>) {
    let (link, ledger) = BusyMockJournal::open(LedgerOptions {
        level_0_trigger,
        table_size_bytes: 1 << 20,
        ..small_options()
    });
    let entries = (BUSY_MEMTABLES + 10) * ENTRIES_A_SLICE;
    for sequence in 1..=entries {
        let (key, kind) = (key(sequence as u32), EntryKind::Put);
        ledger.insert(&Record { key, sequence, kind }.entry());
        ledger.publish(sequence);
    }
    link.last_sequence.store(entries, Ordering::Relaxed);
    link.memtables.store(BUSY_MEMTABLES, Ordering::Relaxed);
    ledger.flush_now(entries).unwrap();
    link.memtables.store(0, Ordering::Relaxed);
    link.fill_memtable();
    (link, ledger)
}

/// Regression: during a merge of everything flushes stopped once level 0 was crowded, and writers
/// waited until the merge had ended.
#[test]
fn a_merge_of_everything_flushes_however_crowded_level_0_is() {
    let (link, ledger) = busy_before_a_merge(2);
    let first = link.last_sequence.load(Ordering::Relaxed);
    ledger.compact_all().unwrap();
    assert_eq!(link.last_sequence.load(Ordering::Relaxed), first + BUSY_MEMTABLES);
    assert_eq!(ledger.stats().sealed_memtables, 0);
}

/// Regression: level 0 grew without a limit during a merge of everything.
#[test]
fn a_merge_of_everything_is_given_up_when_flushes_add_too_many_tables() {
    let (link, ledger) = busy_before_a_merge(1);
    let refused = ledger.compact_all().unwrap_err();
    assert!(matches!(refused, Error::MergeOvertaken { .. }), "{refused}");
    assert!(ledger.stats().levels[0].tables < BUSY_MEMTABLES);
    // The writer ends, and the next attempt succeeds.
    link.memtables.store(BUSY_MEMTABLES, Ordering::Relaxed);
    ledger.compact_all().unwrap();
    assert_eq!(ledger.stats().levels[0].tables, 0);
}

/// Regression: a scan that waited for its client kept memtables and merged tables, in no budget.
#[test]
fn a_released_scan_holds_no_memtable_and_goes_on_at_its_snapshot() {
    for direction in [Direction::Forward, Direction::Backward] {
        let mut store = Store::create(small_options());
        (0..10).for_each(|number| store.put(&key(number)));
        let active = Arc::downgrade(&store.ledger.pin().version.active);
        let snapshot = store.ledger.register_snapshot();
        let (range, at, mode) = (KeyRange::EVERYTHING, snapshot.sequence(), ReadMode::MayBlock);
        let expected = scanned(&store.ledger, range, direction, at);
        let mut scan = store.ledger.scan(range, direction, at, mode).unwrap();
        let mut found = Vec::new();
        while let Some((next, entry)) = scan.next().unwrap() {
            found.push((next.to_vec(), entry.sequence));
            scan.release();
            (0..10).for_each(|number| store.write(&key(number), EntryKind::Delete));
            store.flush();
            store.ledger.compact_all().unwrap();
            assert!(active.upgrade().is_none(), "the scan holds the memtable");
            store.ledger.resume(&mut scan, mode).unwrap();
        }
        assert_eq!(found, expected);
        assert_eq!(found.len(), 10);
    }
}

/// Regression: a scan that went on at its old snapshot sorted and walked through newer entries.
#[test]
fn a_resumed_scan_leaves_out_what_its_snapshot_cannot_see() {
    let mut store = Store::create(small_options());
    (0..3).for_each(|number| store.put(&key(number)));
    let snapshot = store.ledger.register_snapshot();
    let (range, at, mode) = (KeyRange::EVERYTHING, snapshot.sequence(), ReadMode::MayBlock);
    let expected = scanned(&store.ledger, range, Direction::Forward, at);
    let mut scan = store.ledger.scan(range, Direction::Forward, at, mode).unwrap();
    scan.release();
    store.flush();
    store.put(&key(0));
    let memtable = Arc::downgrade(&store.ledger.pin().version.active);
    store.ledger.resume(&mut scan, mode).unwrap();
    store.flush();
    assert!(memtable.upgrade().is_none(), "the scan holds the memtable");
    scan.release();
    let table = Arc::downgrade(&store.ledger.pin().version.levels.level(0)[0]);
    store.ledger.resume(&mut scan, mode).unwrap();
    store.ledger.compact_all().unwrap();
    assert!(table.upgrade().is_none(), "the scan holds the table");
    let mut found = Vec::new();
    while let Some((key, entry)) = scan.next().unwrap() {
        found.push((key.to_vec(), entry.sequence));
    }
    assert_eq!(found, expected);
}

/// rocksdb#2495: the next write reports a flush that failed in the background.
#[test]
fn a_background_failure_reaches_the_writer() {
    let mut store = Store::create(background_options());
    store.ledger.start_background().unwrap();
    store.books.refuses_sync.store(true, Ordering::Relaxed);
    store.put(&record(1).key);
    let refused = store.ledger.flush_now(1).unwrap_err();
    assert!(
        matches!(&refused, Error::Poisoned { cause } if cause.contains("refused")),
        "{refused}"
    );
    assert!(store.ledger.wait_for_memtables().is_err());
    assert!(store.get(&record(1).key, NEWEST).is_some());
}

/// A full disk in the background: writers get the error while it lasts, and continue afterwards.
#[test]
fn a_full_disk_in_the_background_is_temporary() {
    let mut store = Store::create(background_options());
    store.ledger.start_background().unwrap();
    let used = store.fs.used_bytes();
    store.fs.set_faults(Faults { space_bytes: Some(used + 100), ..Faults::default() });
    (1..300).for_each(|sequence| store.put(&record(sequence).key));
    let refused = store.ledger.flush_now(store.last_sequence()).unwrap_err();
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    store.fs.set_faults(Faults::default());
    while let Err(error) = store.ledger.flush_now(store.last_sequence()) {
        assert!(matches!(error, Error::DiskFull { .. }), "{error}");
    }
    assert_eq!(store.ledger.flushed_sequence(), store.last_sequence());
    store.check_all();
}

/// Regression: the first writer that was refused took the reason away, and the figures said that
/// nothing was wrong while writes were refused.
#[test]
fn the_figures_name_the_trouble_while_flushes_are_put_off() {
    let mut store = Store::create(background_options());
    store.ledger.start_background().unwrap();
    let space_bytes = Some(store.fs.used_bytes());
    store.fs.set_faults(Faults { space_bytes, ..Faults::default() });
    let refused = loop {
        store.put(&record(store.last_sequence() + 1).key);
        store.ledger.rotate_if_full(store.last_sequence());
        if let Err(refused) = store.ledger.wait_for_memtables() {
            break refused;
        }
    };
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    assert!(store.ledger.stats().trouble.is_some());
}

/// Closing does not wait for merges, and the next opening finds everything.
#[test]
fn closing_in_the_middle_of_work_loses_nothing() {
    let mut store = Store::create(background_options());
    store.ledger.start_background().unwrap();
    for sequence in 1..3_000 {
        store.ledger.wait_for_memtables().unwrap();
        let record = record(sequence);
        store.write(&record.key, record.kind);
        store.ledger.rotate_if_full(sequence);
    }
    store.reopen_as_it_is();
    store.check_all();
}
