//! What comes in the middle: writes while a sync is under way, seals that wait, power that goes
//! between two calls. Threads meet at these moments; here they are brought about.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use crate::common::watched::{Moment, WatchedFiles, is_segment};
use crate::common::*;
use pellucid_engine::{Engine, EngineOptions, Error, TableId};
use pellucid_io::FileSystem;
use pellucid_io::simulated::{Faults, SimulatedFileSystem};

/// The size of segments, and the bytes of a value of which some ten fill one.
const SEGMENT_BYTES: u64 = 8 << 10;
const VALUE_BYTES: usize = 700;
/// Fewer records than any full segment has.
const RECORDS_A_SEGMENT_MIN: u64 = 8;
/// A thread in the background has done its work after this time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time for another thread to take up what it was given, on a machine that is busy.
const MEETING: Duration = Duration::from_millis(200);

/// Opens a store on files that are watched.
fn open_watched(files: &SimulatedFileSystem, background: bool) -> (WatchedFiles, Engine, TableId) {
    let watched = WatchedFiles::new(files);
    let file_system = Arc::new(watched.clone());
    // Nothing is flushed before somebody asks for it.
    let memory_bytes = 4 << 20;
    let options = EngineOptions { file_system, background, memory_bytes, ..small(files) };
    let (engine, table) = open_table(options);
    (watched, engine, table)
}

/// Wants the calls of this thread alone.
fn of_this_thread() -> impl Fn(&Path) -> bool + Send + 'static {
    let thread = std::thread::current().id();
    move |_| std::thread::current().id() == thread
}

/// Checks that the files hold a prefix of the records, whose first sequence number is `first`, and
/// returns the last sequence number of that prefix.
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

/// A sync took what was written in the meantime for durable, too.
#[test]
fn a_sync_vouches_for_no_write_that_came_meanwhile() {
    let files = SimulatedFileSystem::new();
    let (watched, engine, table) = open_watched(&files, false);
    let before = put(&engine, table, b"before", b"1").unwrap();
    let writer = engine.clone();
    watched.at_next(Moment::Synced, is_segment, move || {
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

/// Of callbacks that were left together, all were called after a sync for the first of them.
#[test]
fn a_callback_waits_for_a_sync_that_covers_its_write() {
    let files = SimulatedFileSystem::new();
    let (watched, engine, table) = open_watched(&files, true);
    let first = put(&engine, table, b"a", b"1").unwrap();
    let (sender, outcomes) = mpsc::channel();
    let writer = engine.clone();
    watched.at_next(Moment::Synced, of_this_thread(), move || {
        // With this one, the thread waits for the sync that is under way; the others come together.
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

/// A store with all its threads, and with records in several segments, none of which is synced.
struct Unsealed {
    /// Seals wait until this is told, or gone: before the engine, which waits for them when it
    /// goes.
    release: Sender<()>,
    files: SimulatedFileSystem,
    watched: WatchedFiles,
    engine: Engine,
    first: u64,
    last: u64,
}

impl Unsealed {
    fn with(records: u64) -> Unsealed {
        let files = SimulatedFileSystem::new();
        let (watched, engine, table) = open_watched(&files, true);
        let (release, released) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        watched.at_next(Moment::Sealing, is_segment, move || {
            let _ = begin.send(());
            let _ = released.recv();
            Ok(())
        });
        let first = engine.stats().published_sequence + 1;
        fill(&engine, table, 0..records, &[7; VALUE_BYTES]);
        begun.recv_timeout(PATIENCE).expect("a segment is full");
        let last = first + records - 1;
        assert_eq!(engine.stats().durable_sequence, 0, "nothing is synced");
        Unsealed { release, files, watched, engine, first, last }
    }
}

/// A newer segment was synced before an older one. The power goes when the first sync of several is
/// done: what it covers is there, and is the beginning.
#[test]
fn the_oldest_of_several_segments_is_synced_first() {
    const RECORDS: u64 = 40;
    let store = Unsealed::with(RECORDS);
    let (files, (sender, images)) = (store.files.clone(), mpsc::channel());
    store.watched.at_next(Moment::Synced, of_this_thread(), move || {
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

/// After a sync that failed for an older segment, newer ones were sealed, and their records were
/// taken for durable.
#[test]
fn nothing_is_sealed_after_a_sync_that_failed() {
    let store = Unsealed::with(40);
    let fail = || Err(io::Error::other("injected failure of a sync"));
    store.watched.at_next(Moment::Syncing, of_this_thread(), fail);
    assert!(matches!(store.engine.wait_durable(store.last), Err(Error::Poisoned { .. })));
    store.release.send(()).unwrap();
    // The seals that wait come to their end before the store is closed.
    assert!(matches!(store.engine.close(), Err(Error::Poisoned { .. })));
    for sequence in [store.first, store.first + 2 * RECORDS_A_SEGMENT_MIN - 2, store.last] {
        let outcome = store.engine.wait_durable(sequence);
        assert!(matches!(outcome, Err(Error::Poisoned { .. })), "{sequence}: {outcome:?}");
    }
}

/// A segment behind a hole was dropped as a torn tail although it was sealed: without a sync mark
/// in it, nothing else told that the missing records had been safe.
#[test]
fn a_sealed_segment_behind_a_hole_is_damage() {
    let store = Unsealed::with(60);
    store.release.send(()).unwrap();
    let begun = Instant::now();
    while store.engine.stats().durable_sequence < store.first + 4 * RECORDS_A_SEGMENT_MIN {
        assert!(begun.elapsed() < PATIENCE, "the segments are not sealed");
        std::thread::sleep(Duration::from_millis(1));
    }
    for seed in 0..5 {
        let files = store.files.crash(seed);
        let second = Path::new(STORE).join("journal").join(&list(&files, "journal")[1]);
        files.remove(&second).unwrap();
        let outcome = open(&files);
        assert!(matches!(outcome, Err(Error::Corruption { .. })), "seed {seed}: {outcome:?}");
    }
}

/// The footer of a segment was on the medium before its records: a loss of power left a sealed
/// segment with holes, and the store was refused.
#[test]
fn a_seal_that_is_cut_short_leaves_no_sealed_segment_with_holes() {
    const RECORDS: u64 = 12;
    let files = SimulatedFileSystem::new();
    let (watched, engine, table) = open_watched(&files, false);
    let (seen, (sender, images)) = (files.clone(), mpsc::channel());
    // Once it has its footer, the file is cut to its length.
    let has_footer = move |path: &Path| {
        let content = seen.read(&path.with_extension(""));
        is_segment(path) && content.is_ok_and(|bytes| (bytes.len() as u64) < SEGMENT_BYTES)
    };
    let losing = files.clone();
    watched.at_next(Moment::Syncing, has_footer, move || {
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

/// The manifest that is in place was taken for the one that was written, whatever the medium made
/// of it.
#[test]
fn a_manifest_that_reads_back_differently_is_a_failure_that_is_told() {
    let files = SimulatedFileSystem::new();
    let (watched, engine, table) = open_watched(&files, false);
    put(&engine, table, b"k", b"v").unwrap();
    let damaged = files.clone();
    watched.at_next(
        Moment::FolderSynced,
        |path| path == Path::new(STORE),
        move || damaged.flip_bits(&Path::new(STORE).join("manifest"), 70, 1),
    );
    let outcome = engine.flush();
    assert!(matches!(outcome, Err(Error::Poisoned { .. })), "{outcome:?}");
    assert!(matches!(put(&engine, table, b"k", b"w"), Err(Error::Poisoned { .. })));
    assert_eq!(get(&engine, table, b"k").unwrap(), Some(b"v".to_vec()));
}

/// The manifest was in place, and was opened once more to be read back: for want of a descriptor
/// then, no write was taken any more.
#[test]
fn a_manifest_is_read_back_without_a_descriptor_more() {
    let files = SimulatedFileSystem::new();
    let (watched, engine, table) = open_watched(&files, false);
    put(&engine, table, b"k", b"v").unwrap();
    let exhausted = files.clone();
    watched.at_next(
        Moment::FolderSynced,
        |path| path == Path::new(STORE),
        move || {
            exhausted.set_faults(Faults { exhausted_opens: 1, ..Faults::default() });
            Ok(())
        },
    );
    engine.flush().unwrap();
    put(&engine, table, b"k", b"w").unwrap();
}
