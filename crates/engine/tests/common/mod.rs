//! Shared parts of the engine's tests: a small engine on simulated files, and an oracle.

pub(crate) mod records;
pub(crate) mod tables;
pub(crate) mod watched;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::{Bound, Range};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use pellucid_engine::{
    Acknowledgement, Batch, Direction, Engine, EngineOptions, Error, Operation, Result, Scan,
    Snapshot, TableId, TableOptions,
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
    options: impl Fn(&SimulatedFileSystem) -> EngineOptions,
) -> (SimulatedFileSystem, Engine, TableId) {
    let files = SimulatedFileSystem::new();
    let (engine, table) = open_table(options(&files));
    (files, engine, table)
}

/// The table "t", whose values are only in the journal, however short they are.
pub(crate) fn journal_only(engine: &Engine) -> TableId {
    let options = TableOptions { held_value_length_max: 0, ..TableOptions::default() };
    engine.table_with("t", &options).unwrap()
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

/// The files of a folder of the store.
pub(crate) fn list(files: &SimulatedFileSystem, folder: &str) -> Vec<String> {
    files.list(&Path::new(STORE).join(folder)).unwrap_or_default()
}

/// The object of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredObject {
    pub(crate) sequence: u64,
    pub(crate) expires_at_ms: u64,
    pub(crate) head: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

/// A change, as the oracle remembers it.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) key: Vec<u8>,
    pub(crate) put: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) expires_at_ms: u64,
}

pub(crate) type Map = BTreeMap<Vec<u8>, StoredObject>;

/// The state that the store must have, and the states that it may fall back to after a loss of
/// power.
#[derive(Clone, Debug, Default)]
pub(crate) struct Oracle {
    pub(crate) map: Map,
    /// The state at `durable_sequence`.
    durable_map: Map,
    pub(crate) durable_sequence: u64,
    /// The batches after it, each with the sequence number of its last entry.
    pending: Vec<(u64, Vec<Change>)>,
    pub(crate) last_sequence: u64,
}

fn apply(map: &mut Map, last_sequence: u64, changes: &[Change]) {
    let first = last_sequence + 1 - changes.len() as u64;
    for (index, change) in changes.iter().enumerate() {
        match &change.put {
            Some((head, value)) => {
                let (head, value) = (head.clone(), value.clone());
                let sequence = first + index as u64;
                let expires_at_ms = change.expires_at_ms;
                map.insert(
                    change.key.clone(),
                    StoredObject { sequence, expires_at_ms, head, value },
                );
            }
            None => {
                map.remove(&change.key);
            }
        }
    }
}

/// Removes expired entries from `map`.
pub(crate) fn purge(map: &mut Map, now_ms: u64) {
    map.retain(|_, held| held.expires_at_ms == 0 || held.expires_at_ms > now_ms);
}

impl Oracle {
    /// The state of a store whose catalogue was written up to `sequence`.
    pub(crate) fn after(sequence: u64) -> Oracle {
        Oracle { durable_sequence: 0, last_sequence: sequence, ..Oracle::default() }
    }

    pub(crate) fn write(&mut self, last_sequence: u64, changes: Vec<Change>) {
        assert_eq!(last_sequence, self.last_sequence + changes.len() as u64);
        apply(&mut self.map, last_sequence, &changes);
        self.last_sequence = last_sequence;
        self.pending.push((last_sequence, changes));
    }

    /// Notes that everything up to `sequence` is on the medium.
    pub(crate) fn durable(&mut self, sequence: u64) {
        let covered = self.pending.partition_point(|(last, _)| *last <= sequence);
        for (last, changes) in self.pending.drain(..covered) {
            apply(&mut self.durable_map, last, &changes);
            self.durable_sequence = last;
        }
    }

    /// Notes that power was lost, and that the store came back with everything up to `sequence`.
    pub(crate) fn fall_back(&mut self, sequence: u64) {
        assert!(sequence >= self.durable_sequence, "{sequence} < {}", self.durable_sequence);
        assert!(sequence <= self.last_sequence, "{sequence} > {}", self.last_sequence);
        let is_border = sequence == self.last_sequence
            || sequence == self.durable_sequence
            || self.pending.iter().any(|(last, _)| *last == sequence)
            || self
                .pending
                .first()
                .is_none_or(|(last, changes)| sequence <= *last - changes.len() as u64);
        assert!(is_border, "a part of a batch survived up to {sequence}");
        self.durable(sequence);
        self.pending.clear();
        self.map = self.durable_map.clone();
        self.last_sequence = sequence;
        self.durable_sequence = sequence;
    }
}

/// Reads a scan to its end.
pub(crate) fn collect(mut scan: Scan) -> Result<Vec<(Vec<u8>, StoredObject)>> {
    let mut rows = Vec::new();
    while let Some((key, object)) = scan.next()? {
        rows.push((key.to_vec(), tables::held(&object)));
    }
    Ok(rows)
}

/// The rows of the oracle within bounds.
pub(crate) fn expected(
    map: &Map,
    bounds: (Bound<&[u8]>, Bound<&[u8]>),
) -> Vec<(Vec<u8>, StoredObject)> {
    let is_empty = match bounds {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (
            Bound::Included(start) | Bound::Excluded(start),
            Bound::Included(end) | Bound::Excluded(end),
        ) => start >= end,
        _ => false,
    };
    if is_empty {
        return Vec::new();
    }
    map.range::<[u8], _>(bounds).map(|(key, held)| (key.clone(), held.clone())).collect()
}

/// Compares the whole store with the oracle.
pub(crate) fn check_all(engine: &Engine, table: TableId, map: &Map) {
    assert_eq!(rows(engine, table), expected(map, (Bound::Unbounded, Bound::Unbounded)));
    for (key, held) in map {
        let object = engine.get(table, key).unwrap().expect("it is there");
        assert_eq!((object.head.sequence, &*object.value), (held.sequence, &held.value[..]));
        let head = engine.head(table, key).unwrap().expect("it is there");
        assert_eq!((head.sequence, &*head.metadata), (held.sequence, &held.head[..]));
    }
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

    pub(crate) fn change(&mut self) -> Change {
        let key = self.key();
        if self.below(5) == 0 {
            return Change { key, put: None, expires_at_ms: 0 };
        }
        let head_length = [0, 4, 50, 200][self.below(4) as usize];
        let length =
            if self.below(100) == 0 { 20_000 } else { self.below(self.value_length_max + 1) };
        let (head, mut value) = (self.bytes(head_length), self.bytes(length as usize));
        if self.below(2) == 0 {
            // A value that is worth compressing.
            value.iter_mut().for_each(|byte| *byte &= 1);
        }
        Change { key, put: Some((head, value)), expires_at_ms: 0 }
    }

    pub(crate) fn bound<'a>(&mut self, key: &'a [u8]) -> Bound<&'a [u8]> {
        match self.below(3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }
}

/// Writes changes as one batch; returns the last sequence number.
pub(crate) fn write_changes(engine: &Engine, table: TableId, changes: &[Change]) -> Result<u64> {
    let mut batch = Batch::new();
    for change in changes {
        batch.push(operation(table, change));
    }
    let written = engine.write(&batch, Acknowledgement::Os)?;
    Ok(written.sequence)
}

pub(crate) fn operation(table: TableId, change: &Change) -> Operation<'_> {
    match &change.put {
        Some((head, value)) => Operation::put(table, &change.key, value)
            .with_head(head)
            .with_expiry(change.expires_at_ms),
        None => Operation::delete(table, &change.key),
    }
}

/// Compares a snapshot with the state at the time when it was taken.
pub(crate) fn check_snapshot(snapshot: &Snapshot, table: TableId, map: &Map) {
    let scan =
        snapshot.scan(table, Bound::Unbounded, Bound::Unbounded, Direction::Backward).unwrap();
    let mut rows = collect(scan).unwrap();
    rows.reverse();
    assert_eq!(rows, expected(map, (Bound::Unbounded, Bound::Unbounded)));
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
