//! Measures the cost and benefit of holding small values in the ledger as well as in the journal.
//! For values of several lengths, held or not, it prints the rates of puts, GETs, HEADs and scans,
//! and the bytes written per user byte. The default of `TableOptions::held_value_length_max` is
//! based on its table (docs/architecture.md, Small values).
//!
//! `cargo run --release -p pellucid-engine --example small_values [COUNT] [FOLDER]`

#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Instant;

use pellucid_engine::{
    Direction, Engine, EngineOptions, HELD_VALUE_LENGTH_MAX, Result, TableId, TableOptions,
};
use pellucid_io::SeededRandom;

const COUNT: u64 = 1_000_000;
const LENGTHS: [usize; 7] = [0, 8, 16, 32, 64, 128, 256];
const KEY_LENGTH: usize = 10;

fn key(number: u64) -> [u8; KEY_LENGTH] {
    let mut key = *b"0000000000";
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

/// Returns the rate in thousands per second.
fn rate(count: u64, begun: Instant) -> f64 {
    count as f64 / begun.elapsed().as_secs_f64() / 1e3
}

fn scan(engine: &Engine, table: TableId) -> Result<f64> {
    let begun = Instant::now();
    let mut scan = engine.scan(table, Bound::Unbounded, Bound::Unbounded, Direction::Forward)?;
    let (mut rows, mut sum) = (0, 0);
    while let Some((_, object)) = scan.next()? {
        rows += 1;
        sum += object.value.len();
    }
    assert!(sum < usize::MAX && rows > 0);
    Ok(rate(rows, begun))
}

fn look_ups(count: u64, mut each: impl FnMut(&[u8]) -> Result<bool>) -> Result<f64> {
    let mut random = SeededRandom::new(1);
    let begun = Instant::now();
    for _ in 0..count {
        assert!(each(&key(random.below(count)))?, "it was put");
    }
    Ok(rate(count, begun))
}

fn measure(folder: &Path, count: u64, length: usize, is_held: bool) -> Result<()> {
    let engine = Engine::open(folder, EngineOptions::default())?;
    let held_value_length_max = if is_held { HELD_VALUE_LENGTH_MAX } else { 0 };
    let options = TableOptions { held_value_length_max, ..TableOptions::default() };
    let table = engine.table_with("small", &options)?;
    let mut random = SeededRandom::new(1);
    let value = vec![b'v'; length];
    let begun = Instant::now();
    for _ in 0..count {
        let key = key(random.below(count));
        engine.put(table, &key, &value)?;
    }
    engine.flush()?;
    let put = rate(count, begun);
    engine.compact()?;
    // Read everything once to fill the page cache.
    look_ups(count, |key| Ok(engine.get(table, key)?.is_some()))?;
    let get = look_ups(count, |key| Ok(engine.get(table, key)?.is_some()))?;
    let head = look_ups(count, |key| Ok(engine.head(table, key)?.is_some()))?;
    let scanned = scan(&engine, table)?;
    let stats = engine.stats();
    let ledger: u64 = stats.ledger.levels.iter().map(|level| level.size_bytes).sum();
    println!(
        "| {length} | {} | {put:.0} | {get:.0} | {head:.0} | {scanned:.0} | {:.2} | {:.0} |",
        if is_held { "ledger" } else { "journal" },
        stats.write_amplification().unwrap_or(0.0),
        ledger as f64 / stats.ledger.levels.iter().map(|level| level.entries).sum::<u64>() as f64,
    );
    engine.close()
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(COUNT);
    let folder = arguments.next().map_or_else(
        || std::env::temp_dir().join(format!("pellucid-small-{}", std::process::id())),
        PathBuf::from,
    );
    println!(
        "{count} puts over as many uniform random keys of {KEY_LENGTH} bytes, one thread; \
         thousands a second\n\n| value bytes | value read from | put, flush | GET | HEAD | scan | \
         written per user byte | ledger bytes a key |\n|---|---|---|---|---|---|---|---|"
    );
    for length in LENGTHS {
        for is_held in [false, true] {
            measure(&folder, count, length, is_held)?;
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
    Ok(())
}
