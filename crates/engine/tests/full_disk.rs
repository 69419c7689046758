//! On a full disk, reads, deletes, flushes, merges, collections and openings go on in the reserve,
//! which puts must not use. Puts are accepted again once there is space that can be freed.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::*;
use pellucid_engine::{
    Acknowledgement, Engine, EngineOptions, Error, Operation, Result, TableId, verify,
};
use pellucid_io::simulated::{Faults, SimulatedFileSystem};

/// The size of the disk, which has space for several hundred segments.
const DISK_BYTES: u64 = 1 << 20;
/// The length of values of which four records fill a segment.
const VALUE_LENGTH: usize = 1_900;
/// A number of keys larger than any test needs to fill the disk.
const KEYS_MAX: u32 = 2_000;
/// The longest time that the background threads of a busy machine need to free space, or to open a
/// store.
const ROOM_MADE_MAX: Duration = Duration::from_secs(60);

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; VALUE_LENGTH]
}

fn bound(files: &SimulatedFileSystem, space_bytes: u64) {
    files.set_faults(Faults { space_bytes: Some(space_bytes), ..Faults::default() });
}

/// A store, and the number of keys that were put until its disk was full.
struct FullStore {
    engine: Engine,
    table: TableId,
    keys: u32,
    has_threads: bool,
}

impl FullStore {
    fn options(files: &SimulatedFileSystem, has_threads: bool) -> EngineOptions {
        EngineOptions { background: has_threads, ..small(files) }
    }

    /// Fills a disk of [`DISK_BYTES`].
    fn fill(files: &SimulatedFileSystem, has_threads: bool) -> FullStore {
        bound(files, DISK_BYTES);
        let (engine, table) = open_table(FullStore::options(files, has_threads));
        for keys in 0..KEYS_MAX {
            if let Err(error) = put(&engine, table, &key(keys), &value(keys)) {
                assert!(is_full(&error), "{error}");
                assert!(keys > 300, "after {keys} keys the disk is full");
                return FullStore { engine, table, keys, has_threads };
            }
        }
        panic!("the disk takes more than it has room for");
    }

    /// Closes and reopens the same store.
    fn reopen(self, files: &SimulatedFileSystem) -> FullStore {
        let FullStore { table, keys, has_threads, engine } = self;
        drop(engine);
        let engine = Engine::open(STORE, FullStore::options(files, has_threads)).unwrap();
        FullStore { engine, table, keys, has_threads }
    }

    /// Puts a key; if background threads have to free space first, it retries until they have.
    fn put(&self, key: &[u8], value: &[u8]) {
        let begun = Instant::now();
        loop {
            match put(&self.engine, self.table, key, value) {
                Ok(_) => return,
                Err(error) => {
                    assert!(is_full(&error) && self.has_threads, "{error}");
                    assert!(begun.elapsed() < ROOM_MADE_MAX, "{:?}", self.engine.stats());
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Checks that exactly the keys for which `is_there` returns true exist.
    fn check(&self, is_there: impl Fn(u32) -> bool) {
        for number in 0..self.keys {
            let found = get(&self.engine, self.table, &key(number)).unwrap();
            assert_eq!(found, is_there(number).then(|| value(number)), "{number}");
        }
    }

    /// Deletes every other key, and puts a quarter of them again.
    fn free_space_and_use_it(&self) {
        for number in (0..self.keys).step_by(2) {
            self.engine.delete(self.table, &key(number)).unwrap();
        }
        self.check(|number| !number.is_multiple_of(2));
        for number in (0..self.keys).step_by(8) {
            self.put(&key(number), &value(number));
        }
        self.check(|number| !number.is_multiple_of(2) || number.is_multiple_of(8));
    }
}

/// Regression: on a full disk, nothing freed space: deletes were refused, and so were the jobs that
/// free space.
#[test]
fn a_full_disk_serves_reads_accepts_deletes_and_then_puts() {
    for has_threads in [false, true] {
        let files = SimulatedFileSystem::new();
        let store = FullStore::fill(&files, has_threads);
        store.check(|_| true);
        store.free_space_and_use_it();
        store.engine.close().unwrap();
        assert_eq!(verify(STORE, &files).unwrap().problems, []);
    }
}

/// A store that was opened on a full disk needs a new segment for the very first delete.
#[test]
fn a_full_store_closes_and_opens_and_accepts_deletes() {
    for has_threads in [false, true] {
        let files = SimulatedFileSystem::new();
        let store = FullStore::fill(&files, has_threads);
        store.engine.close().unwrap();
        let store = store.reopen(&files);
        store.check(|_| true);
        store.free_space_and_use_it();
    }
}

#[test]
fn a_full_store_opens_after_a_power_loss_and_accepts_deletes() {
    let files = SimulatedFileSystem::new();
    let store = FullStore::fill(&files, false);
    store.engine.wait_durable(store.engine.stats().published_sequence).unwrap();
    let (table, keys) = (store.table, store.keys);
    for seed in 0..10 {
        let crashed = files.crash(seed);
        bound(&crashed, DISK_BYTES);
        let engine = Engine::open(STORE, FullStore::options(&crashed, false)).unwrap();
        let found = FullStore { engine, table, keys, has_threads: false };
        found.check(|_| true);
        found.free_space_and_use_it();
    }
}

/// Regression: after one key had been overwritten many times, nearly all data on the disk was dead,
/// but it was never collected, because collection began with a flush for which there was no space.
#[test]
fn a_key_that_is_overwritten_does_not_fill_the_disk() {
    for (has_threads, times) in [(false, 500), (true, 60)] {
        let files = SimulatedFileSystem::new();
        bound(&files, 192 << 10);
        let (engine, table) = open_table(FullStore::options(&files, has_threads));
        let store = FullStore { engine, table, keys: 0, has_threads };
        for round in 0..times {
            store.put(b"key", &[round as u8; 5_000]);
        }
        // Space is also freed for a segment that is larger than usual.
        store.put(b"key", &[7; 40_000]);
        assert_eq!(get(&store.engine, table, b"key").unwrap(), Some(vec![7; 40_000]));
    }
}

#[test]
fn a_refused_put_changes_nothing_and_its_error_suggests_a_remedy() {
    let files = SimulatedFileSystem::new();
    let FullStore { engine, table, .. } = FullStore::fill(&files, false);
    let (before, last) = (rows(&engine, table), engine.stats().published_sequence);
    let refuse = |operations: &[Operation<'_>]| -> Error {
        let outcome: Result<_> = engine.write(operations, Acknowledgement::Os);
        outcome.unwrap_err()
    };
    let large = vec![1; 20_000];
    let error = refuse(&[Operation::put(table, b"new", &large)]);
    let Error::DiskFull { room: Some(room), .. } = &error else { panic!("{error:?}") };
    assert!(room.free_bytes >= room.reserve_bytes / 2 && room.needed_bytes > 20_000, "{room:?}");
    let (text, free) = (error.to_string(), room.free_bytes.to_string());
    for part in [STORE, "kept for deletes", free.as_str()] {
        assert!(text.contains(part), "{text}");
    }
    let mixed = [Operation::delete(table, &before[0].0), Operation::put(table, b"new", &large)];
    assert!(is_full(&refuse(&mixed)), "what puts one key is no delete");
    assert_eq!((rows(&engine, table), engine.stats().published_sequence), (before.clone(), last));
    engine.delete(table, b"new").unwrap();
    assert_eq!(engine.stats().published_sequence, last + 1, "no number is left out");
    let killed = files.kill();
    bound(&killed, DISK_BYTES);
    assert_eq!(rows(&open(&killed).unwrap(), table), before);
}

/// Regression: on a full disk, the replay waited for another attempt of a flush after each batch.
/// With seconds between two attempts, a server needed days to start.
#[test]
fn a_store_with_more_than_its_memory_opens_on_a_full_disk() {
    const KEYS: u32 = 6_000;
    let files = SimulatedFileSystem::new();
    // So much memory that nothing is flushed.
    let (engine, table) = open_table(EngineOptions { memory_bytes: 16 << 20, ..small(&files) });
    fill(&engine, table, 0..KEYS, b"value");
    assert_eq!(engine.stats().flushed_sequence, 0);
    for has_threads in [false, true] {
        let killed = files.kill();
        // Space for the copies of the last segments.
        bound(&killed, killed.used_bytes() + (16 << 10));
        let options = FullStore::options(&killed, has_threads);
        let (sender, opened) = mpsc::channel();
        std::thread::spawn(move || sender.send(Engine::open(STORE, options)));
        let engine = opened.recv_timeout(ROOM_MADE_MAX).expect("it opens at once").unwrap();
        assert!(engine.stats().ledger.trouble.is_some(), "flushes are put off");
        for number in 0..KEYS {
            assert_eq!(get(&engine, table, &key(number)).unwrap(), Some(b"value".to_vec()));
        }
    }
}

/// A segment that is created for a delete has space for puts, which would use up the reserve.
#[test]
fn puts_after_deletes_do_not_use_the_reserve() {
    let files = SimulatedFileSystem::new();
    let store = FullStore::fill(&files, false);
    let mut taken = 0;
    for number in 0..300 {
        // The key does not exist: deleting it frees no space.
        store.engine.delete(store.table, &key(KEYS_MAX + number)).unwrap();
        taken += u32::from(put(&store.engine, store.table, b"new", &value(0)).is_ok());
    }
    assert!(taken <= 2, "{taken} puts were taken");
    store.check(|_| true);
}
