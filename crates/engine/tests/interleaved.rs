//! Events in the middle of an operation: writes during a sync, seals that wait, and power losses
//! between two calls. In production, threads meet at these moments by chance; these tests bring
//! them about.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use crate::common::watched::{FileEvent, WatchedFiles, is_segment, open_watched};
use crate::common::*;
use pellucid_account::Timeline;
use pellucid_clock::Clock;
use pellucid_engine::{
    Acknowledgement, Condition, Engine, EngineOptions, Error, MetadataExtractor, Operation,
    TableOptions, parts,
};
use pellucid_io::FileSystem;
use pellucid_io::simulated::{Faults, SimulatedFileSystem};

/// The size of segments, and the length of values of which about ten fill one.
const SEGMENT_BYTES: u64 = 8 << 10;
const VALUE_BYTES: usize = 700;
/// A lower bound for the records in any full segment.
const RECORDS_A_SEGMENT_MIN: u64 = 8;
/// The longest time that a background thread needs to finish its work.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for another thread on a busy machine to start the work that it was given.
const MEETING: Duration = Duration::from_millis(200);
/// The time that a slow metadata extractor takes.
const EXTRACTION: Duration = Duration::from_secs(2);

/// Options with which nothing is flushed until it is requested.
fn roomy(files: &SimulatedFileSystem) -> EngineOptions {
    EngineOptions { memory_bytes: 4 << 20, ..small(files) }
}

/// The same, with all background threads.
fn roomy_with_threads(files: &SimulatedFileSystem) -> EngineOptions {
    EngineOptions { background: true, ..roomy(files) }
}

/// Returns a filter that accepts only calls of the current thread.
fn of_this_thread() -> impl Fn(&Path) -> bool + Send + 'static {
    let thread = std::thread::current().id();
    move |_| std::thread::current().id() == thread
}

/// Checks that the files contain a prefix of the records, whose first sequence number is `first`,
/// and returns the last sequence number of that prefix.
fn check_prefix(files: &SimulatedFileSystem, first: u64, records: u64) -> u64 {
    let engine = open(files).unwrap();
    let kept = engine.stats().published_sequence;
    let table = engine.table("t").unwrap();
    for number in 0..records {
        let is_there = get(&engine, table, &key(number)).unwrap().is_some();
        assert_eq!(is_there, first + number <= kept, "{number} with {kept} from {first} on");
    }
    kept
}

/// Regression: a sync also marked writes as durable that were appended while it ran.
#[test]
fn a_sync_does_not_cover_writes_appended_while_it_runs() {
    let (files, watched, engine, table) = open_watched(roomy);
    let before = put(&engine, table, b"before", b"1").unwrap();
    let writer = engine.clone();
    watched.at_next(FileEvent::Synced, is_segment, move || {
        put(&writer, table, b"meanwhile", b"2").unwrap();
        Ok(())
    });
    engine.wait_durable(before).unwrap();
    assert_eq!(engine.stats().published_sequence, before + 1, "the write did come");
    assert_eq!(engine.stats().durable_sequence, before);
    engine.wait_durable(before + 1).unwrap();
    for seed in 0..20 {
        let engine = open(&files.crash(seed)).unwrap();
        let found = get(&engine, table, b"meanwhile").unwrap();
        assert_eq!(found, Some(b"2".to_vec()), "seed {seed}");
    }
}

/// Regression: of several callbacks that were registered together, all were called after a sync
/// that covered only the first.
#[test]
fn a_callback_waits_for_a_sync_that_covers_its_write() {
    let (files, watched, engine, table) = open_watched(roomy_with_threads);
    let first = put(&engine, table, b"a", b"1").unwrap();
    let (sender, outcomes) = mpsc::channel();
    let writer = engine.clone();
    watched.at_next(FileEvent::Synced, of_this_thread(), move || {
        // After this call, the thread waits for the sync in progress; the other callbacks arrive
        // together.
        writer.when_durable(first, Box::new(|_| ()));
        std::thread::sleep(MEETING);
        let second = put(&writer, table, b"b", b"2").unwrap();
        writer.when_durable(first, Box::new(|_| ()));
        writer.when_durable(second, Box::new(move |outcome| sender.send(outcome).unwrap()));
        Ok(())
    });
    engine.wait_durable(first).unwrap();
    outcomes.recv_timeout(PATIENCE).unwrap().unwrap();
    for seed in 0..20 {
        let engine = open(&files.crash(seed)).unwrap();
        assert_eq!(get(&engine, table, b"b").unwrap(), Some(b"2".to_vec()), "seed {seed}");
    }
}

/// Regression: the callback of a write that was durable already was called only after a sync of
/// newer writes, and its caller waited meanwhile.
#[test]
fn a_durable_write_is_not_held_up_by_the_sync_of_a_newer_one() {
    let (_files, watched, engine, table) = open_watched(roomy_with_threads);
    let first = put_durable(&engine, table, b"a", b"1").unwrap();
    let second = put(&engine, table, b"b", b"2").unwrap();
    let (release, released) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    std::thread::scope(|scope| {
        let writer = &engine;
        scope.spawn(move || {
            watched.at_next(FileEvent::Syncing, of_this_thread(), move || {
                begin.send(()).unwrap();
                let _ = released.recv_timeout(PATIENCE);
                Ok(())
            });
            writer.wait_durable(second).unwrap();
        });
        begun.recv_timeout(PATIENCE).expect("a sync began");
        let (sender, outcomes) = mpsc::channel();
        engine.when_durable(first, Box::new(move |outcome| sender.send(outcome).unwrap()));
        let times = outcomes.recv_timeout(PATIENCE).unwrap().unwrap();
        assert_eq!((times.begun, times.job), (times.ended, 0), "it did not wait");
        assert!(release.send(()).is_ok(), "the sync still runs");
    });
}

/// Regression: a full merge runs on the thread that requests it, so closing has no thread to join.
/// It returned while the merge was still removing tables, when the directory could belong to
/// another opening.
#[test]
fn closing_waits_until_a_merge_on_request_has_given_up() {
    let (files, watched, engine, table) = open_watched(roomy_with_threads);
    for value in 1..=2 {
        fill(&engine, table, 0..100, &[value; 40]);
        engine.flush().unwrap();
    }
    let (release, released) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let merger = engine.clone();
    let merging = std::thread::spawn(move || {
        watched.at_next(FileEvent::Syncing, of_this_thread(), move || {
            begin.send(()).unwrap();
            let _ = released.recv_timeout(PATIENCE);
            Ok(())
        });
        merger.compact()
    });
    begun.recv_timeout(PATIENCE).expect("a merge began");
    let (sender, closed) = mpsc::channel();
    let closing = files.clone();
    std::thread::spawn(move || {
        engine.close().unwrap();
        sender.send(paths(&closing, "ledger")).unwrap();
    });
    let early = closed.recv_timeout(MEETING);
    assert!(early.is_err(), "it was closed beside a merge");
    release.send(()).unwrap();
    let merged = merging.join().unwrap();
    assert!(matches!(merged, Ok(()) | Err(Error::Closed)), "{merged:?}");
    let at_close = closed.recv_timeout(PATIENCE).expect("closing ends");
    assert_eq!(paths(&files, "ledger"), at_close);
    let engine = open(&files).unwrap();
    for number in 0..100 {
        assert_eq!(get(&engine, table, &key(number)).unwrap(), Some(vec![2; 40]));
    }
}

/// An extractor that takes some time, and then sends a message.
struct SlowExtractor(Sender<()>);

impl MetadataExtractor for SlowExtractor {
    fn name(&self) -> &str {
        "slow"
    }

    fn derive(&self, _: &[u8], _: &[u8], _: &mut Vec<u8>) -> Result<(), String> {
        std::thread::sleep(EXTRACTION);
        self.0.send(()).map_err(|error| error.to_string())
    }
}

/// Regression: if a write had to wait for another writer, the time of its metadata extractor
/// counted as a part of that wait.
#[test]
fn preparing_a_write_is_not_part_of_its_wait_for_another_writer() {
    let (sender, derived) = mpsc::channel();
    let (_files, watched, engine, table) = open_watched(|files| EngineOptions {
        metadata_extractors: vec![Arc::new(SlowExtractor(sender))],
        ..small(files)
    });
    let slow = TableOptions { metadata_extractor: Some("slow".into()), ..TableOptions::default() };
    let slow = engine.table_with("slow", &slow).unwrap();
    put(&engine, table, b"a", b"1").unwrap();
    let (begin, begun) = mpsc::channel();
    watched.at_next(
        FileEvent::Syncing,
        |_| true,
        move || {
            begin.send(()).unwrap();
            derived.recv_timeout(PATIENCE).expect("the write is prepared");
            std::thread::sleep(MEETING);
            Ok(())
        },
    );
    let clock = Clock::monotonic();
    let mut timeline = Timeline::begin(clock, clock.now());
    std::thread::scope(|scope| {
        // A flush takes the turn of a writer.
        scope.spawn(|| engine.flush().unwrap());
        begun.recv_timeout(PATIENCE).expect("a flush began");
        let write = [Operation::put(slow, b"b", b"2")];
        engine.write_timed(&write, Acknowledgement::Os, &mut timeline).unwrap();
    });
    let waited_ns = clock.nanoseconds(timeline.part_ticks(parts::WRITER_WAIT));
    assert!(u128::from(waited_ns) < EXTRACTION.as_nanos(), "{waited_ns} ns");
}

/// Regression: if no other writer held a write up, the time of its metadata extractor counted as
/// time of the journal, or of the ledger if the write had a condition.
#[test]
fn preparing_a_write_is_not_part_of_its_work_in_the_journal_and_the_ledger() {
    let (sender, derived) = mpsc::channel();
    let (_files, engine, _) = open_new(|files| EngineOptions {
        metadata_extractors: vec![Arc::new(SlowExtractor(sender))],
        ..small(files)
    });
    let slow = TableOptions { metadata_extractor: Some("slow".into()), ..TableOptions::default() };
    let slow = engine.table_with("slow", &slow).unwrap();
    let write = Operation::put(slow, b"a", b"1");
    let clock = Clock::monotonic();
    for write in [write.with_condition(Condition::Absent), write] {
        let mut timeline = Timeline::begin(clock, clock.now());
        engine.write_timed(&[write], Acknowledgement::Os, &mut timeline).unwrap();
        derived.recv_timeout(PATIENCE).expect("the extractor was called");
        for part in [parts::JOURNAL_APPEND, parts::LEDGER, parts::WRITER_WAIT] {
            let part_ns = clock.nanoseconds(timeline.part_ticks(part));
            assert!(u128::from(part_ns) < EXTRACTION.as_nanos(), "{part:?}: {part_ns} ns");
        }
    }
}

/// A store with all its background threads, and with records in several segments, none of which is
/// synced.
struct UnsealedStore {
    /// Seals wait until a message arrives here, or this sender is dropped. The field precedes the
    /// engine, which waits for the seals when it is dropped.
    release: Sender<()>,
    files: SimulatedFileSystem,
    watched: WatchedFiles,
    engine: Engine,
    first: u64,
    last: u64,
}

impl UnsealedStore {
    fn with(records: u64) -> UnsealedStore {
        let (files, watched, engine, table) = open_watched(roomy_with_threads);
        let (release, released) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        watched.at_next(FileEvent::Sealing, is_segment, move || {
            let _ = begin.send(());
            let _ = released.recv();
            Ok(())
        });
        let first = engine.stats().published_sequence + 1;
        fill(&engine, table, 0..records, &[7; VALUE_BYTES]);
        begun.recv_timeout(PATIENCE).expect("a segment is full");
        let last = first + records - 1;
        assert_eq!(engine.stats().durable_sequence, 0, "nothing is synced");
        UnsealedStore { release, files, watched, engine, first, last }
    }
}

/// Regression: a newer segment was synced before an older one. The power loss happens after the
/// first of several syncs: the records that it covers are there, and they are the oldest.
#[test]
fn the_oldest_of_several_segments_is_synced_first() {
    const RECORDS: u64 = 40;
    let store = UnsealedStore::with(RECORDS);
    let (files, (sender, images)) = (store.files.clone(), mpsc::channel());
    store.watched.at_next(FileEvent::Synced, of_this_thread(), move || {
        (0..12).for_each(|seed| sender.send(files.crash(seed)).unwrap());
        Ok(())
    });
    store.engine.wait_durable(store.last).unwrap();
    let images: Vec<_> = images.try_iter().collect();
    assert_eq!(images.len(), 12);
    for image in images {
        let kept = check_prefix(&image, store.first, RECORDS);
        assert!(kept + 1 >= store.first + RECORDS_A_SEGMENT_MIN, "{kept} from {}", store.first);
    }
    check_prefix(&store.files.crash(0), store.first, RECORDS);
}

/// Regression: after a failed sync of an older segment, newer ones were sealed, and their records
/// were treated as durable.
#[test]
fn nothing_is_sealed_after_a_failed_sync() {
    let store = UnsealedStore::with(40);
    let fail = || Err(io::Error::other("injected failure of a sync"));
    store.watched.at_next(FileEvent::Syncing, of_this_thread(), fail);
    assert!(matches!(store.engine.wait_durable(store.last), Err(Error::Poisoned { .. })));
    store.release.send(()).unwrap();
    // The waiting seals finish before the store is closed.
    assert!(matches!(store.engine.close(), Err(Error::Poisoned { .. })));
    for sequence in [store.first, store.first + 2 * RECORDS_A_SEGMENT_MIN - 2, store.last] {
        let outcome = store.engine.wait_durable(sequence);
        assert!(matches!(outcome, Err(Error::Poisoned { .. })), "{sequence}: {outcome:?}");
    }
}

/// Regression: a segment behind a hole was dropped as a torn tail although it was sealed. It
/// contained no sync mark, so nothing else showed that the missing records had been durable.
#[test]
fn a_sealed_segment_behind_a_hole_is_damage() {
    let store = UnsealedStore::with(60);
    store.release.send(()).unwrap();
    let begun = Instant::now();
    while store.engine.stats().durable_sequence < store.first + 4 * RECORDS_A_SEGMENT_MIN {
        assert!(begun.elapsed() < PATIENCE, "the segments are not sealed");
        std::thread::sleep(Duration::from_millis(1));
    }
    for seed in 0..5 {
        let files = store.files.crash(seed);
        files.remove(&paths(&files, "journal")[1]).unwrap();
        let outcome = open(&files);
        assert!(matches!(outcome, Err(Error::Corruption { .. })), "seed {seed}: {outcome:?}");
    }
}

/// Returns a filter that accepts segments with a footer: then the file is truncated to its length.
fn has_footer(files: SimulatedFileSystem) -> impl Fn(&Path) -> bool + Send + 'static {
    move |path: &Path| {
        let content = files.read(&path.with_extension(""));
        is_segment(path) && content.is_ok_and(|bytes| (bytes.len() as u64) < SEGMENT_BYTES)
    }
}

/// Regression: the footer of a segment reached the medium before its records. A power loss left a
/// sealed segment with holes, and the store refused to open.
#[test]
fn an_interrupted_seal_leaves_no_sealed_segment_with_holes() {
    const RECORDS: u64 = 12;
    let (files, watched, engine, table) = open_watched(roomy);
    let (losing, (sender, images)) = (files.clone(), mpsc::channel());
    watched.at_next(FileEvent::Syncing, has_footer(files.clone()), move || {
        (0..60).for_each(|seed| sender.send(losing.crash(seed)).unwrap());
        Ok(())
    });
    let first = engine.stats().published_sequence + 1;
    for number in 0..RECORDS {
        put(&engine, table, &key(number), &[number as u8; VALUE_BYTES]).unwrap();
    }
    let images: Vec<_> = images.try_iter().collect();
    assert_eq!(images.len(), 60, "a segment was sealed");
    for image in images {
        let kept = check_prefix(&image, first, RECORDS_A_SEGMENT_MIN);
        assert!(kept + 1 >= first + RECORDS_A_SEGMENT_MIN, "{kept} from {first}");
    }
}

/// Regression: a footer that read back wrong was a panic where data may be half changed, which ends
/// the process.
#[test]
fn a_footer_that_reads_back_differently_is_reported_as_an_error() {
    let (files, watched, engine, table) = open_watched(roomy_with_threads);
    watched.at_next(FileEvent::Synced, has_footer(files.clone()), move || {
        let path = &paths(&files, "journal")[0];
        files.flip_bits(path, files.read(path)?.len() as u64 - 1, 1)
    });
    for number in 0..12 {
        // The last ones may be refused.
        let _ = put(&engine, table, &key(number), &[7; VALUE_BYTES]);
    }
    let (sender, outcomes) = mpsc::channel();
    std::thread::spawn(move || sender.send(engine.close()));
    let outcome = outcomes.recv_timeout(PATIENCE).expect("closing ends");
    assert!(matches!(outcome, Err(Error::Poisoned { .. })), "{outcome:?}");
}

/// Regression: the manifest file was assumed to contain what was written, whatever the medium had
/// stored.
#[test]
fn a_manifest_that_reads_back_differently_is_reported_as_an_error() {
    let (files, watched, engine, table) = open_watched(roomy);
    put(&engine, table, b"k", b"v").unwrap();
    let damaged = files.clone();
    watched.at_next(
        FileEvent::FolderSynced,
        |path| path == Path::new(STORE),
        move || damaged.flip_bits(&Path::new(STORE).join("manifest"), 70, 1),
    );
    let outcome = engine.flush();
    assert!(matches!(outcome, Err(Error::Poisoned { .. })), "{outcome:?}");
    assert!(matches!(put(&engine, table, b"k", b"w"), Err(Error::Poisoned { .. })));
    assert_eq!(get(&engine, table, b"k").unwrap(), Some(b"v".to_vec()));
}

/// Regression: the manifest was opened again after it was in place, to read it back. If no file
/// descriptor was available at that moment, all later writes failed.
#[test]
fn a_manifest_is_read_back_without_another_descriptor() {
    let (files, watched, engine, table) = open_watched(roomy);
    put(&engine, table, b"k", b"v").unwrap();
    let exhausted = files.clone();
    watched.at_next(
        FileEvent::FolderSynced,
        |path| path == Path::new(STORE),
        move || {
            exhausted.set_faults(Faults { exhausted_opens: 1, ..Faults::default() });
            Ok(())
        },
    );
    engine.flush().unwrap();
    put(&engine, table, b"k", b"w").unwrap();
}
