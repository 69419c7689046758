//! Shared parts of the engine's tests: a small engine on simulated files, and choices from a seed.

pub(crate) mod records;
pub(crate) mod salvaged;
pub(crate) mod tables;
pub(crate) mod watched;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::{Bound, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pellucid_engine::{
    Acknowledgement, Direction, Engine, EngineOptions, Error, Operation, Result, Scan, TableId,
    TableOptions,
};
use pellucid_io::simulated::SimulatedFileSystem;
use pellucid_io::{FileSystem, Random, SeededRandom};

/// The directory of the store in a test.
pub(crate) const STORE: &str = "/store";

/// Options that make everything small and every run deterministic.
pub(crate) fn small(files: &SimulatedFileSystem) -> EngineOptions {
    EngineOptions {
        segment_size_bytes: 8 << 10,
        memory_bytes: 64 << 10,
        background: false,
        file_system: Arc::new(files.clone()),
        clock: pellucid_clock::Clock::monotonic(),
        identity_seed: Some(1),
        ..EngineOptions::default()
    }
}

/// Opens the store of a test with [`small`] options.
pub(crate) fn open(files: &SimulatedFileSystem) -> Result<Engine> {
    Engine::open(STORE, small(files))
}

/// Options with small segments, so that a hundred records fill many of them.
pub(crate) fn tiny(files: &SimulatedFileSystem) -> EngineOptions {
    EngineOptions { segment_size_bytes: 4 << 10, ..small(files) }
}

/// Opens the store of a test and its table "t".
pub(crate) fn open_table(options: EngineOptions) -> (Engine, TableId) {
    let engine = Engine::open(STORE, options).unwrap();
    let table = engine.table("t").unwrap();
    (engine, table)
}

/// Opens a new store as [`open_table`] does.
pub(crate) fn open_new(
    options: impl FnOnce(&SimulatedFileSystem) -> EngineOptions,
) -> (SimulatedFileSystem, Engine, TableId) {
    open_new_with(options, &TableOptions::default())
}

/// Opens a new store, whose table "t" has these options.
pub(crate) fn open_new_with(
    options: impl FnOnce(&SimulatedFileSystem) -> EngineOptions,
    table: &TableOptions,
) -> (SimulatedFileSystem, Engine, TableId) {
    let files = SimulatedFileSystem::new();
    let engine = Engine::open(STORE, options(&files)).unwrap();
    let table = engine.table_with("t", table).unwrap();
    (files, engine, table)
}

/// The options of a table whose values are only in the journal, however short they are.
pub(crate) fn journal_only() -> TableOptions {
    TableOptions { held_value_length_max: 0, ..TableOptions::default() }
}

/// Puts one key.
pub(crate) fn put(engine: &Engine, table: TableId, key: &[u8], value: &[u8]) -> Result<u64> {
    let written = engine
        .write(&[Operation::put(table, key, value).with_head(b"head")], Acknowledgement::Os)?;
    Ok(written.sequence)
}

/// The key with a number; keys sort by their numbers.
pub(crate) fn key(number: impl Display) -> Vec<u8> {
    format!("key {number:05}").into_bytes()
}

/// Puts the keys with these numbers, all with the same value.
pub(crate) fn fill<N: Display>(
    engine: &Engine,
    table: TableId,
    numbers: impl IntoIterator<Item = N>,
    value: &[u8],
) {
    for number in numbers {
        put(engine, table, &key(number), value).unwrap();
    }
}

/// Sets a flag when it is dropped: it ends the other threads of a scope, even after a failed
/// assertion.
pub(crate) struct EndOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Flushes everything in memory, and merges all tables.
pub(crate) fn settle(engine: &Engine) {
    engine.flush().unwrap();
    engine.compact().unwrap();
}

/// All rows in key order.
pub(crate) fn rows(engine: &Engine, table: TableId) -> Vec<(Vec<u8>, StoredObject)> {
    collect(scan_all(engine, table)).unwrap()
}

/// A scan of a whole table, forward.
pub(crate) fn scan_all(engine: &Engine, table: TableId) -> Scan {
    engine.scan(table, Bound::Unbounded, Bound::Unbounded, Direction::Forward).unwrap()
}

/// Puts one key and waits until it is durable.
pub(crate) fn put_durable(
    engine: &Engine,
    table: TableId,
    key: &[u8],
    value: &[u8],
) -> Result<u64> {
    let sequence = put(engine, table, key, value)?;
    engine.wait_durable(sequence)?;
    Ok(sequence)
}

/// The value of one key.
pub(crate) fn get(engine: &Engine, table: TableId, key: &[u8]) -> Result<Option<Vec<u8>>> {
    Ok(engine.get(table, key)?.map(|object| object.value.to_vec()))
}

/// The files in a folder of the store.
pub(crate) fn paths(files: &SimulatedFileSystem, folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(STORE).join(folder);
    let names = files.list(&folder).unwrap_or_default();
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// All files of the store, without its lock file.
pub(crate) fn all_paths(files: &SimulatedFileSystem) -> Vec<PathBuf> {
    let all = ["", "journal", "ledger"].into_iter().flat_map(|folder| paths(files, folder));
    all.filter(|path| !path.ends_with("LOCK")).collect()
}

/// All files of the store with their contents.
pub(crate) fn contents(files: &SimulatedFileSystem) -> Vec<(PathBuf, Vec<u8>)> {
    let with_content = |path: PathBuf| {
        let bytes = files.read(&path).unwrap();
        (path, bytes)
    };
    all_paths(files).into_iter().map(with_content).collect()
}

/// The segment of the journal that contains `bytes`, and their offset.
pub(crate) fn find(files: &SimulatedFileSystem, bytes: &[u8]) -> (PathBuf, u64) {
    for path in paths(files, "journal") {
        let content = files.read(&path).unwrap();
        if let Some(offset) = content.windows(bytes.len()).position(|window| window == bytes) {
            return (path, offset as u64);
        }
    }
    panic!("no segment holds the bytes");
}

/// The object of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredObject {
    pub(crate) sequence: u64,
    pub(crate) expires_at_ms: u64,
    pub(crate) head: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// The objects of a table, by key.
pub(crate) type Map = BTreeMap<Vec<u8>, StoredObject>;

/// The head and the value that a change puts; `None` if it deletes.
pub(crate) type Put = Option<(Vec<u8>, Vec<u8>)>;

/// Removes expired entries from `map`.
pub(crate) fn purge(map: &mut Map, now_ms: u64) {
    map.retain(|_, held| held.expires_at_ms == 0 || held.expires_at_ms > now_ms);
}

/// Reads a scan to its end.
pub(crate) fn collect(mut scan: Scan) -> Result<Vec<(Vec<u8>, StoredObject)>> {
    let mut rows = Vec::new();
    while let Some((key, object)) = scan.next()? {
        rows.push((key.to_vec(), tables::held(&object)));
    }
    Ok(rows)
}

/// The seeds that the environment variable names, one or a range; otherwise `usual` seeds.
pub(crate) fn seeds(usual: u64) -> Range<u64> {
    let Ok(text) = std::env::var("PELLUCID_SEEDS") else { return 0..usual };
    let number = |text: &str| text.parse::<u64>().expect("PELLUCID_SEEDS is a number or a range");
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&text)..number(&text) + 1,
    }
}

/// A source of keys, values and choices for a test, from a seed.
pub(crate) struct Chooser {
    pub(crate) random: SeededRandom,
    keys: u64,
    value_length_max: u64,
}

impl Chooser {
    pub(crate) fn new(seed: u64) -> Chooser {
        let mut random = SeededRandom::new(seed);
        let keys = [5, 40, 300][random.below(3) as usize];
        let value_length_max = [20, 300, 3_000][random.below(3) as usize];
        Chooser { random, keys, value_length_max }
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    pub(crate) fn key(&mut self) -> Vec<u8> {
        let number = self.below(self.keys);
        let mut key = format!("k{number}").into_bytes();
        if number.is_multiple_of(17) {
            key.resize(1 + (number as usize * 61) % 1024, b'x');
            key[0] = number as u8;
        }
        key
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.random.next_u64().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// A key, and what is put there.
    pub(crate) fn change(&mut self) -> (Vec<u8>, Put) {
        let key = self.key();
        if self.below(5) == 0 {
            return (key, None);
        }
        let head_length = [0, 4, 50, 200][self.below(4) as usize];
        let length =
            if self.below(100) == 0 { 20_000 } else { self.below(self.value_length_max + 1) };
        let (head, mut value) = (self.bytes(head_length), self.bytes(length as usize));
        if self.below(2) == 0 {
            // A value that is worth compressing.
            value.iter_mut().for_each(|byte| *byte &= 1);
        }
        (key, Some((head, value)))
    }

    pub(crate) fn bound<'a>(&mut self, key: &'a [u8]) -> Bound<&'a [u8]> {
        match self.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }
}

/// Runs the steps of a test; if one fails, prints the seed and the number of the step.
#[allow(clippy::print_stdout, reason = "the seed is the whole report")]
pub(crate) fn take_steps(seed: u64, steps: u64, mut step: impl FnMut()) {
    for number in 0..steps {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(&mut step)) {
            println!("seed {seed} failed in step {number}");
            resume_unwind(panic);
        }
    }
}

/// Removes a backup, because its files would slow down every later crash.
pub(crate) fn remove_backup(files: &SimulatedFileSystem, backup: &str) {
    for folder in ["", "journal", "ledger"] {
        let folder = Path::new(backup).join(folder);
        for name in files.list(&folder).unwrap() {
            files.remove(&folder.join(name)).unwrap();
        }
    }
}

/// True if an error means a full disk.
pub(crate) fn is_full(error: &Error) -> bool {
    matches!(error, Error::DiskFull { .. })
}
