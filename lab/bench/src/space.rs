//! Space amplification against write amplification: the bytes that a store takes on the disk for
//! each live byte, and the bytes that it writes for each byte that is put. Both are measured for
//! several values of `dead_share`, the share of dead bytes from which on a segment is collected.
//!
//! One thread puts all keys once in a scattered order, then overwrites them at random, without a
//! call to compact or collect. It waits while merges are behind: a writer at full speed would fill
//! the disk up to the limit of the journal, whatever the share.
//!
//! The table shows the last of these passes: the mean of the allocated bytes on the disk at eight
//! moments, and the bytes written by the engine's own count (journal, copies of collection, flushes
//! and merges).

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use pellucid_engine::{Engine, EngineOptions, EngineStats, TableId};
use pellucid_io::SeededRandom;

use crate::bars::{Bar, judge};
use crate::peers::text;

/// The engine's memory. It is small in comparison with the stores, because the space for memtables
/// and spare segments is constant and would distort the result.
const MEMORY_BYTES: u64 = 16 << 20;
/// The values of `dead_share` that are measured.
const DEAD_SHARES: [f64; 4] = [0.2, 0.35, 0.45, 0.55];
/// The number of passes before the measured one, after which the store is in its steady state.
const PASSES: u64 = 4;
/// The number of times that the disk is measured in the last pass.
const LOOKS: u64 = 8;
/// The bytes that are put between two checks for merges that are due.
const PUT_TOGETHER_BYTES: u64 = 1 << 20;
/// The pause while merges are due, and the greatest number of such pauses in a row.
const DEBT_WAIT: Duration = Duration::from_millis(5);
const DEBT_WAITS_MAX: u32 = 400;
/// The length of a key in bytes.
const KEY_LENGTH: u64 = 10;
/// The most bytes that may be written for each byte that is put, with the default `dead_share`.
const WRITTEN_MAX: f64 = 2.0;

/// A kind of values: random bytes, with lengths evenly distributed over a range.
struct Values {
    name: &'static str,
    lengths: std::ops::RangeInclusive<u64>,
    keys: u64,
}

const VALUES: [Values; 3] = [
    Values { name: "280", lengths: 280..=280, keys: 1_500_000 },
    Values { name: "20 to 2,000", lengths: 20..=2_000, keys: 400_000 },
    Values { name: "16 to 64", lengths: 16..=64, keys: 4_000_000 },
];

/// Prints the curve for each kind of values, and judges the point with the default `dead_share`.
pub fn run(quick: bool) -> Result<bool, String> {
    let pool: Vec<u8> = (0..64_u64 << 10).map(|index| SeededRandom::at(index) as u8).collect();
    let mut holds = true;
    println!("| values, bytes | dead share | disk per live byte | written per byte put |");
    println!("|---|---|---|---|");
    for values in &VALUES {
        let keys = if quick { values.keys / 4 } else { values.keys };
        for dead_share in DEAD_SHARES {
            let point = Point::measure(values, keys, dead_share, &pool)?;
            println!(
                "| {} | {dead_share} | {:.2} | {:.2} |",
                values.name, point.disk, point.written
            );
            if dead_share == EngineOptions::default().dead_share {
                let name = format!("written_per_byte_{}", values.name.replace([',', ' '], ""));
                holds &= judge(&name, &[point.written], Bar::AtMost(WRITTEN_MAX));
            }
        }
    }
    Ok(holds)
}

/// A point of the curve: bytes on the disk per live byte, and bytes written per byte put.
struct Point {
    disk: f64,
    written: f64,
}

impl Point {
    fn measure(values: &Values, keys: u64, dead_share: f64, pool: &[u8]) -> Result<Point, String> {
        let folder = tempfile::tempdir().map_err(text)?;
        let options =
            EngineOptions { dead_share, memory_bytes: MEMORY_BYTES, ..EngineOptions::default() };
        let engine = Engine::open(folder.path(), options).map_err(text)?;
        let mut store = OverwrittenStore {
            table: engine.table("bench").map_err(text)?,
            engine,
            values,
            pool,
            lengths: vec![0; keys as usize],
            put_bytes: 0,
        };
        for index in 0..keys {
            // Each key once, in an order in which no key follows its neighbour.
            store.put(index * 0x9e37_79b1 % keys, index)?;
        }
        for draw in keys..keys * PASSES {
            store.put(SeededRandom::at(draw) % keys, draw)?;
        }
        let (written, put) = (written_bytes(&store.engine.stats()), store.put_bytes);
        let mut disk = 0.0;
        for look in 0..LOOKS {
            let part = |index: u64| keys * PASSES + keys * index / LOOKS;
            for draw in part(look)..part(look + 1) {
                store.put(SeededRandom::at(draw) % keys, draw)?;
            }
            disk += allocated_bytes(folder.path())? as f64 / store.live_bytes() as f64;
        }
        let written = written_bytes(&store.engine.stats()) - written;
        let point = Point {
            disk: disk / LOOKS as f64,
            written: written as f64 / (store.put_bytes - put) as f64,
        };
        store.engine.close().map_err(text)?;
        Ok(point)
    }
}

/// A store whose keys are overwritten many times.
struct OverwrittenStore<'a> {
    engine: Engine,
    table: TableId,
    values: &'a Values,
    pool: &'a [u8],
    /// The length of each key's value.
    lengths: Vec<u16>,
    put_bytes: u64,
}

impl OverwrittenStore<'_> {
    fn put(&mut self, key: u64, draw: u64) -> Result<(), String> {
        let (least, most) = (*self.values.lengths.start(), *self.values.lengths.end());
        let random = SeededRandom::at(!draw);
        let length = least + random % (most - least + 1);
        let begin = (random >> 32) as usize % (self.pool.len() - most as usize);
        let value = &self.pool[begin..begin + length as usize];
        let name = format!("{key:0width$}", width = KEY_LENGTH as usize);
        self.engine.put(self.table, name.as_bytes(), value).map_err(text)?;
        self.lengths[key as usize] = length as u16;
        let put_before = self.put_bytes;
        self.put_bytes += KEY_LENGTH + length;
        if put_before / PUT_TOGETHER_BYTES != self.put_bytes / PUT_TOGETHER_BYTES {
            self.wait_for_merges();
        }
        Ok(())
    }

    fn wait_for_merges(&self) {
        for _ in 0..DEBT_WAITS_MAX {
            if self.engine.stats().ledger.debt_bytes == 0 {
                break;
            }
            std::thread::sleep(DEBT_WAIT);
        }
    }

    /// Returns the bytes of all keys and their current values.
    fn live_bytes(&self) -> u64 {
        self.lengths.iter().map(|length| KEY_LENGTH + u64::from(*length)).sum()
    }
}

/// Returns all bytes that the engine has written.
fn written_bytes(stats: &EngineStats) -> u64 {
    let merges: u64 = stats.ledger.levels.iter().map(|level| level.compaction.bytes_out).sum();
    // The appended bytes are those of the journal, plus the bytes that collection has freed.
    let journal = stats.journal_bytes + stats.collected.freed_bytes;
    journal + stats.collected.copied_bytes + stats.ledger.flush.bytes_out + merges
}

/// Returns the bytes that the files of a folder take on the disk.
fn allocated_bytes(folder: &Path) -> Result<u64, String> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(text)? {
        let entry = entry.map_err(text)?;
        // A background job may have removed the file since the folder was listed.
        let Ok(facts) = entry.metadata() else { continue };
        bytes +=
            if facts.is_dir() { allocated_bytes(&entry.path())? } else { facts.blocks() * 512 };
    }
    Ok(bytes)
}
