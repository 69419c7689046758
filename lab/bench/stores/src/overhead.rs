//! Compares the store over RocksDB with RocksDB's own interface: the same keys and values in the
//! same database, on one thread. Both have the same options, and copy the values that they read.
//! The store adds the head of each entry, the order of the writers of a key, and an answer instead
//! of a wait where RocksDB would stall a write.

use std::cell::Cell;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use pellucid_account::Timeline;
use pellucid_clock::Clock;
use pellucid_rocksdb::{BareTable, RocksOptions, RocksStore};
use pellucid_store::{Acknowledgement, Answer, Operation, Store, Table};

use crate::bars::{Bar, judge, median};
use crate::quiet_rounds::{columns, rounds};
use crate::{Outcome, is_quick, text};

/// The number of keys. They make an odd number of runs, so that each run of keys is measured first
/// by the one side and first by the other in turns.
const KEYS: u64 = 21_000;
/// The smallest length of a value, and the number of lengths. The mean is a KiB, which is more
/// usual than the 103 bytes of the studies. There are many lengths, because RocksDB combines the
/// checksums of a record's head and body in a time that depends on the bits that are set in the
/// body's length. With a single length, the 24 bytes that the store adds would change the time of a
/// PUT by up to three percent in either direction.
const VALUE_BYTES_LEAST: usize = 768;
const VALUE_LENGTHS: usize = 512;
/// The number of requests of a run. It is small, so that the occasional flushes and merges affect
/// only few runs.
const RUN: usize = 1_000;
/// The number of databases, each with a process of its own, one after the other. The layout of a
/// database in its files and of a process in memory makes one side a few percent faster for as long
/// as they exist.
const DATABASES: usize = 7;
/// The number of rounds with each database; the result is the median of their ratios. A round has
/// two runs of each side, one before and one after the other side's, because the side that writes a
/// key second finds its place in the caches.
const ROUNDS: usize = 100;
const ROUNDS_QUICK: usize = 20;
/// The smallest share of RocksDB's throughput that the store must reach.
const SHARE_LEAST: f64 = 0.97;

struct StorePair {
    store: RocksStore,
    table: Table,
    bare: BareTable,
    /// The longest value; the others are prefixes of it.
    value: Vec<u8>,
    keys: Vec<Key>,
    /// The number of requests that were handed to the store's own threads, because RocksDB would
    /// have blocked the caller.
    handed_over: Cell<usize>,
}

/// A key, and the length of its value.
struct Key {
    name: [u8; 16],
    value_length: usize,
}

/// The first argument of the process that measures one database; the second is the path of the file
/// for the shares of each round.
pub const ONE_DATABASE: &str = "rocksdb-database";

/// Runs the benchmark; true if all bars hold.
pub fn run() -> Outcome<bool> {
    let (mut puts, mut gets) = (Vec::new(), Vec::new());
    let folder = tempfile::tempdir().map_err(text)?;
    let shares = folder.path().join("shares");
    let program = std::env::current_exe().map_err(text)?;
    for _ in 0..DATABASES {
        let mut process = Command::new(&program);
        let ended = process.arg(ONE_DATABASE).arg(&shares).status().map_err(text)?;
        if !ended.success() {
            return Err(format!("the process of a database failed: {ended}"));
        }
        let [of_puts, of_gets] = read_shares(&shares)?;
        puts.extend(of_puts);
        gets.extend(of_gets);
    }
    tell_clocks()?;
    let held = [
        judge("rocksdb_put_throughput_vs_c_api", &puts, Bar::AtLeast(SHARE_LEAST)),
        judge("rocksdb_get_throughput_vs_c_api", &gets, Bar::AtLeast(SHARE_LEAST)),
    ];
    Ok(held.into_iter().all(|holds| holds))
}

/// Compares both sides on one database, and writes the shares of each round to `file`: PUTs on the
/// first line, GETs on the second.
pub fn run_one(file: &Path) -> Outcome<bool> {
    let folder = tempfile::tempdir().map_err(text)?;
    let both = StorePair::open(folder.path())?;
    // One disabled timeline serves all requests, as in a server without accounting.
    let off = &mut Timeline::off();
    both.fill(off)?;
    let puts = both.compare("PUT", |key| both.put(key, off), |key| both.bare_put(key))?;
    both.fill(off)?;
    let gets = both.compare("GET", |key| both.get(key, off), |key| both.bare_get(key))?;
    both.store.close().map_err(text)?;
    let line = |shares: &[f64]| shares.iter().map(f64::to_string).collect::<Vec<_>>().join(" ");
    std::fs::write(file, format!("{}\n{}\n", line(&puts), line(&gets))).map_err(text)?;
    Ok(true)
}

fn read_shares(file: &Path) -> Outcome<[Vec<f64>; 2]> {
    let written = std::fs::read_to_string(file).map_err(text)?;
    let line = |line: &str| line.split(' ').map(|share| share.parse().map_err(text)).collect();
    let lines: Vec<_> = written.lines().map(line).collect::<Outcome<_>>()?;
    lines.try_into().map_err(|_| "a process tells the shares of PUTs and GETs".to_owned())
}

/// Prints the cost of RocksDB's own clocks.
fn tell_clocks() -> Outcome<()> {
    let folder = tempfile::tempdir().map_err(text)?;
    let both = StorePair::open(folder.path())?;
    let clock = Clock::system();
    let on = || Timeline::begin(clock, clock.now());
    both.fill(&mut on())?;
    let (put, get) = ("PUT, with RocksDB's clocks on", "GET, with RocksDB's clocks on");
    both.compare(put, |key| both.put(key, &mut on()), |key| both.bare_put(key))?;
    both.fill(&mut on())?;
    both.compare(get, |key| both.get(key, &mut on()), |key| both.bare_get(key))?;
    both.store.close().map_err(text)
}

impl StorePair {
    fn open(folder: &Path) -> Outcome<StorePair> {
        let store = RocksStore::open(folder, RocksOptions::default()).map_err(text)?;
        let table = store.table("bench").map_err(text)?;
        let bare = store.bare(table).map_err(text)?;
        // The order of requests has no relation to the order of keys.
        let mut keys = Vec::new();
        for index in 0..KEYS {
            let name = format!("key {:012}", index * 7_919 % KEYS);
            let name = name.as_bytes().try_into().map_err(text)?;
            let value_length = VALUE_BYTES_LEAST + index as usize % VALUE_LENGTHS;
            keys.push(Key { name, value_length });
        }
        let value = vec![b'v'; VALUE_BYTES_LEAST + VALUE_LENGTHS];
        Ok(StorePair { store, table, bare, value, keys, handed_over: Cell::new(0) })
    }

    /// Writes all keys through the store, so that both sides read its entries.
    fn fill(&self, timeline: &mut Timeline) -> Outcome<()> {
        per_request(&self.keys, |key| self.put(key, timeline)).map(|_| ())
    }

    fn put(&self, key: &Key, timeline: &mut Timeline) -> Outcome<()> {
        let operation = Operation::plain(&key.name, Some(&self.value[..key.value_length]));
        let answer = self.store.write(self.table, &[operation], Acknowledgement::Os, timeline);
        self.arrived(answer).map(|_| ())
    }

    fn get(&self, key: &Key, timeline: &mut Timeline) -> Outcome<()> {
        let found = self.arrived(self.store.get(self.table, &key.name, timeline))?;
        key.is_met_by(black_box(found).map(|object| object.value.len()))
    }

    fn arrived<T: Send + 'static>(&self, answer: Answer<T>) -> Outcome<T> {
        match answer {
            Answer::Now(result) => result.map_err(text),
            Answer::Later(_) => {
                self.handed_over.set(self.handed_over.get() + 1);
                answer.wait().map_err(text)
            }
        }
    }

    fn bare_put(&self, key: &Key) -> Outcome<()> {
        self.bare.put(&key.name, &self.value[..key.value_length]).map_err(text)
    }

    fn bare_get(&self, key: &Key) -> Outcome<()> {
        let found = self.bare.get(&key.name).map_err(text)?;
        key.is_met_by(black_box(found).map(|value| value.len()))
    }

    /// Measures the throughput of the store as a share of RocksDB's, for each round.
    fn compare(
        &self,
        name: &str,
        mut ours: impl FnMut(&Key) -> Outcome<()>,
        mut theirs: impl FnMut(&Key) -> Outcome<()>,
    ) -> Outcome<Vec<f64>> {
        per_request(&self.keys, &mut theirs)?;
        self.handed_over.set(0);
        let count = if is_quick() { ROUNDS_QUICK } else { ROUNDS };
        let mut runs = self.keys.chunks(RUN).cycle();
        let figures = rounds(count, |_| {
            let mut next = || runs.next().ok_or("there are no keys");
            let (first, second) = (next()?, next()?);
            let ours_first = per_request(first, &mut ours)?;
            let theirs_after = per_request(first, &mut theirs)?;
            let theirs_first = per_request(second, &mut theirs)?;
            let ours_after = per_request(second, &mut ours)?;
            let (store, bare) = (ours_first + ours_after, theirs_first + theirs_after);
            let share = |figure: fn(Cost) -> f64| figure(bare) / figure(store);
            let halves = [store.elapsed_ns, bare.elapsed_ns].map(|both| both / 2.0);
            let [store_ns, bare_ns] = halves;
            Ok([store_ns, bare_ns, share(|cost| cost.elapsed_ns), share(|cost| cost.busy_ns)])
        })?;
        let [store_ns, bare_ns, shares, busy] = columns(&figures);
        println!(
            "{name}: {:.0} ns through the store, {:.0} ns by RocksDB itself: {:.3} of its \
             throughput, {:.3} by processor time; {} were handed over",
            median(&store_ns),
            median(&bare_ns),
            median(&shares),
            median(&busy),
            self.handed_over.get()
        );
        Ok(shares)
    }
}

/// The mean cost of a request in a run.
#[derive(Clone, Copy)]
struct Cost {
    elapsed_ns: f64,
    /// The processor time of this thread.
    busy_ns: f64,
}

impl std::ops::Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost {
            elapsed_ns: self.elapsed_ns + other.elapsed_ns,
            busy_ns: self.busy_ns + other.busy_ns,
        }
    }
}

/// Calls `ask` once for each of the keys; returns the mean cost.
fn per_request(keys: &[Key], mut ask: impl FnMut(&Key) -> Outcome<()>) -> Outcome<Cost> {
    let (begun, begun_busy_ns) = (Instant::now(), busy_ns());
    for key in keys {
        ask(key)?;
    }
    let (busy_ns, count) = (busy_ns() - begun_busy_ns, keys.len() as f64);
    Ok(Cost { elapsed_ns: begun.elapsed().as_nanos() as f64 / count, busy_ns: busy_ns / count })
}

/// Returns the processor time of this thread so far, in nanoseconds.
fn busy_ns() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills in the time, which outlives it.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert!(done == 0, "every thread has this clock");
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

impl Key {
    /// Checks the length of a found entry, which is that of the value, plus the store's head where
    /// the store wrote it.
    fn is_met_by(&self, length: Option<usize>) -> Outcome<()> {
        let is_whole = length.is_some_and(|length| length >= self.value_length);
        if is_whole { Ok(()) } else { Err(format!("a value is missing or cut: {length:?}")) }
    }
}
