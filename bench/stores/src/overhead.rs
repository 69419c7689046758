//! The store over RocksDB beside RocksDB's own interface: the same keys and values in the same
//! database, by the one and by the other, on one thread.

use std::hint::black_box;
use std::time::Instant;

use pellucid_account::Timeline;
use pellucid_clock::Clock;
use pellucid_rocksdb::{Bare, RocksOptions, RocksStore};
use pellucid_store::{Acknowledgement, Condition, Operation, Store, Table};

use crate::bars::{Bar, judge, median};
use crate::{Outcome, is_quick, text};

const KEYS: u64 = 20_000;
/// The value of the studies has 103 bytes, and this is the more usual 1 KiB.
const VALUE_BYTES: usize = 1_024;
/// Requests of a run: few, so that flushes and merges, which come now and then, are in few of them.
const RUN: usize = 1_000;
/// Pairs of runs; the figure is the median of their ratios.
const PAIRS: usize = 1_000;
const PAIRS_QUICK: usize = 200;
/// Of RocksDB's throughput at least so much is left.
const SHARE_LEAST: f64 = 0.97;

struct Both {
    store: RocksStore,
    table: Table,
    bare: Bare,
    value: Vec<u8>,
    keys: Vec<[u8; 16]>,
}

/// Runs the benchmark; true if all bars hold.
pub fn run() -> Outcome<bool> {
    let folder = tempfile::tempdir().map_err(text)?;
    let both = Both::open(folder.path())?;
    let off = Timeline::off;
    per_request(&both.keys, |key| both.put(key, off()))?;
    let puts = both.compare("PUT", |key| both.put(key, off()), |key| both.bare_put(key))?;
    // The last writes are the store's, so that both read its entries.
    per_request(&both.keys, |key| both.put(key, off()))?;
    let gets = both.compare("GET", |key| both.get(key, off()), |key| both.bare_get(key))?;
    let clock = Clock::system();
    let on = || Timeline::begin(clock, clock.now());
    both.compare(
        "PUT, with RocksDB's clocks on",
        |key| both.put(key, on()),
        |key| both.bare_put(key),
    )?;
    per_request(&both.keys, |key| both.put(key, off()))?;
    both.compare(
        "GET, with RocksDB's clocks on",
        |key| both.get(key, on()),
        |key| both.bare_get(key),
    )?;
    both.store.close().map_err(text)?;
    let held = [
        judge("rocksdb_put_throughput_vs_c_api", &puts, Bar::AtLeast(SHARE_LEAST)),
        judge("rocksdb_get_throughput_vs_c_api", &gets, Bar::AtLeast(SHARE_LEAST)),
    ];
    Ok(held.into_iter().all(|holds| holds))
}

impl Both {
    fn open(folder: &std::path::Path) -> Outcome<Both> {
        let store = RocksStore::open(folder, RocksOptions::default()).map_err(text)?;
        let table = store.table("bench").map_err(text)?;
        let bare = store.bare(table).map_err(text)?;
        // In an order that has nothing to do with theirs.
        let mut keys = Vec::new();
        for index in 0..KEYS {
            let name = format!("key {:012}", index * 7_919 % KEYS);
            keys.push(name.as_bytes().try_into().map_err(text)?);
        }
        Ok(Both { store, table, bare, value: vec![b'v'; VALUE_BYTES], keys })
    }

    fn put(&self, key: &[u8], mut timeline: Timeline) -> Outcome<()> {
        let (value, condition) = (Some(&self.value[..]), Condition::None);
        let operation = Operation { key, value, condition, lifetime_ms: None };
        let answer = self.store.write(self.table, &[operation], Acknowledgement::Os, &mut timeline);
        answer.wait().map(|_| ()).map_err(text)
    }

    fn get(&self, key: &[u8], mut timeline: Timeline) -> Outcome<()> {
        let found = self.store.get(self.table, key, &mut timeline).wait().map_err(text)?;
        is_whole(black_box(found).map(|object| object.value.len()))
    }

    fn bare_put(&self, key: &[u8]) -> Outcome<()> {
        self.bare.put(key, &self.value).map_err(text)
    }

    fn bare_get(&self, key: &[u8]) -> Outcome<()> {
        let found = self.bare.get(key).map_err(text)?;
        is_whole(black_box(found).map(|value| value.len()))
    }

    /// The throughput of the store as a share of RocksDB's, by pair of runs.
    fn compare(
        &self,
        name: &str,
        ours: impl Fn(&[u8]) -> Outcome<()>,
        theirs: impl Fn(&[u8]) -> Outcome<()>,
    ) -> Outcome<Vec<f64>> {
        per_request(&self.keys, &theirs)?;
        let (mut store_ns, mut bare_ns, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        let pairs = if is_quick() { PAIRS_QUICK } else { PAIRS };
        for (pair, keys) in self.keys.chunks(RUN).cycle().take(pairs).enumerate() {
            let (store, bare) = if pair % 2 == 0 {
                let store = per_request(keys, &ours)?;
                (store, per_request(keys, &theirs)?)
            } else {
                let bare = per_request(keys, &theirs)?;
                (per_request(keys, &ours)?, bare)
            };
            store_ns.push(store);
            bare_ns.push(bare);
            shares.push(bare / store);
        }
        println!(
            "{name}: {:.0} ns through the store, {:.0} ns by RocksDB itself: {:.3} of its \
             throughput",
            median(&store_ns),
            median(&bare_ns),
            median(&shares)
        );
        Ok(shares)
    }
}

/// Asks for each of the keys once. Returns nanoseconds for each.
fn per_request(keys: &[[u8; 16]], ask: impl Fn(&[u8]) -> Outcome<()>) -> Outcome<f64> {
    let begun = Instant::now();
    for key in keys {
        ask(key)?;
    }
    Ok(begun.elapsed().as_nanos() as f64 / keys.len() as f64)
}

fn is_whole(length: Option<usize>) -> Outcome<()> {
    let is_whole = length.is_some_and(|length| length >= VALUE_BYTES);
    if is_whole { Ok(()) } else { Err(format!("a value is missing or cut: {length:?}")) }
}
