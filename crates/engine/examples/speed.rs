//! How fast the engine is by itself: the work of the studies, 5,000,000 puts of 10-byte keys and
//! 280-byte values over uniform random keys, then look-ups and scans, on one thread.
//!
//! Beside the time on the wall stands processor time: that of the thread, and in brackets that of
//! the whole process, background work included (where `/proc` tells it).
//!
//! `cargo run --release -p pellucid-engine --example speed [COUNT] [FOLDER]`

#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::ops::Bound;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pellucid_engine::{Direction, Engine, EngineOptions, Result, TableId};
use pellucid_io::SeededRandom;

const COUNT: u64 = 5_000_000;
const READS: u64 = 1_000_000;
const VALUE_LENGTH: usize = 280;

/// Processor time of this thread and of all threads of the process, in nanoseconds.
fn processor_time_ns() -> (u64, u64) {
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0)
    };
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    (read("/proc/thread-self".into()), threads.map(|thread| read(thread.path())).sum())
}

/// The latencies of one kind of work, in nanoseconds.
struct Latencies {
    name: &'static str,
    begun: Instant,
    processor_begun_ns: (u64, u64),
    each_ns: Vec<u32>,
}

impl Latencies {
    fn new(name: &'static str, count: u64) -> Latencies {
        let each_ns = Vec::with_capacity(count as usize);
        Latencies { name, begun: Instant::now(), processor_begun_ns: processor_time_ns(), each_ns }
    }

    fn report(mut self) {
        let took = self.begun.elapsed();
        let (thread_ns, all_ns) = processor_time_ns();
        self.each_ns.sort_unstable();
        let count = self.each_ns.len().max(1);
        let quantile = |share: f64| {
            let index = (count as f64 * share) as usize;
            let ns = self.each_ns.get(index.min(count - 1)).copied().unwrap_or(0);
            format!("{:.2}", f64::from(ns) / 1_000.0)
        };
        println!(
            "{:<14} {:>9.0}/s  mean {:.2} µs, of processor {:.2} ({:.2})  \
             p50 {}  p99 {}  p99.9 {}  max {}",
            self.name,
            count as f64 / took.as_secs_f64(),
            took.as_secs_f64() * 1e6 / count as f64,
            (thread_ns - self.processor_begun_ns.0) as f64 / 1e3 / count as f64,
            (all_ns - self.processor_begun_ns.1) as f64 / 1e3 / count as f64,
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            quantile(1.0),
        );
    }
}

fn key(number: u64) -> [u8; 10] {
    let mut key = *b"0000000000";
    let mut rest = number;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn measure(name: &'static str, count: u64, mut each: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let mut latencies = Latencies::new(name, count);
    let mut last = latencies.begun;
    for index in 0..count {
        each(index)?;
        let now = Instant::now();
        let elapsed = now.duration_since(last);
        latencies.each_ns.push(u32::try_from(elapsed.as_nanos()).unwrap_or(u32::MAX));
        last = now;
    }
    latencies.report();
    Ok(())
}

fn scan(engine: &Engine, table: TableId, with_values: bool) -> Result<u64> {
    let mut scan = engine.scan(table, Bound::Unbounded, Bound::Unbounded, Direction::Forward)?;
    let (begun, mut rows, mut bytes) = (Instant::now(), 0_u64, 0_usize);
    loop {
        let length = if with_values {
            scan.next()?.map(|(key, object)| key.len() + object.value.len())
        } else {
            scan.next_head()?.map(|(key, _)| key.len())
        };
        let Some(length) = length else { break };
        rows += 1;
        bytes += length;
    }
    let name = if with_values { "scan" } else { "scan of keys" };
    let rate = rows as f64 / begun.elapsed().as_secs_f64();
    println!("{name:<14} {rate:>9.0}/s  {rows} rows, {bytes} bytes");
    Ok(rows)
}

fn reads(engine: &Engine, table: TableId, count: u64) -> Result<()> {
    let mut random = SeededRandom::new(1);
    let mut sum = 0_u64;
    // The same seed draws the keys that were put.
    measure("get present", READS.min(count), |_| {
        let object = engine.get(table, &key(random.below(count)))?;
        sum += u64::from(object.expect("it was put").value[0]);
        Ok(())
    })?;
    let mut random = SeededRandom::new(9);
    let mut found = 0_u64;
    measure("get mixed", READS, |_| {
        found += u64::from(engine.get(table, &key(random.below(count)))?.is_some());
        Ok(())
    })?;
    println!("{:<14} {found} of {READS} found", "");
    measure("get missing", READS, |_| {
        let key = key(5_000_000_000 + random.below(count));
        assert!(engine.get(table, &key)?.is_none());
        Ok(())
    })?;
    let mut random = SeededRandom::new(1);
    measure("head", READS.min(count), |_| {
        let head = engine.head(table, &key(random.below(count)))?;
        assert_eq!(head.map(|head| head.value_length as usize), Some(VALUE_LENGTH));
        Ok(())
    })?;
    scan(engine, table, false)?;
    scan(engine, table, true)?;
    Ok(())
}

/// What the store has written for each byte of its user, and takes for each one that is live.
fn space(engine: &Engine, when: &str, puts: u64, live: u64) {
    let stats = engine.stats();
    let each = (key(0).len() + VALUE_LENGTH) as u64;
    let levels = stats.ledger.levels.iter();
    let merged: u64 = levels.clone().map(|level| level.compaction.bytes_out).sum();
    let tables: u64 = levels.map(|level| level.size_bytes).sum();
    // What was collected is no longer in the files, but was written.
    let journal = stats.journal_bytes + stats.collected.freed_bytes;
    let written = journal + stats.collected.copied_bytes + stats.ledger.flush.bytes_out + merged;
    println!(
        "{when}: {:.2} bytes written for each put, {:.2} bytes taken for each live one \
         (dead {:.0} %, collected {} segments, copied {} MB)",
        written as f64 / (puts * each) as f64,
        (stats.journal_bytes + tables) as f64 / (live * each) as f64,
        stats.journal_dead_bytes as f64 / stats.journal_bytes as f64 * 100.0,
        stats.collected.segments,
        stats.collected.copied_bytes / 1_000_000,
    );
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(COUNT);
    let folder = arguments.next().map_or_else(
        || std::env::temp_dir().join(format!("pellucid-speed-{}", std::process::id())),
        PathBuf::from,
    );
    let engine = Engine::open(&folder, EngineOptions::default())?;
    let table = engine.table("speed")?;
    let mut random = SeededRandom::new(1);
    let value = [b'v'; VALUE_LENGTH];
    measure("put", count, |_| {
        let key = key(random.below(count));
        engine.put(table, &key, &value).map(|_| ())
    })?;
    reads(&engine, table, count)?;
    let live = scan(&engine, table, false)?;
    space(&engine, "after the fill", count, live);
    let begun = Instant::now();
    engine.flush()?;
    engine.compact()?;
    println!("compact: {:.2} s", begun.elapsed().as_secs_f64());
    space(&engine, "after compaction", count, live);
    let begun = Instant::now();
    let collected = engine.collect()?;
    println!("collect: {:.2} s, {collected:?}", begun.elapsed().as_secs_f64());
    space(&engine, "after collection", count, live);
    reads(&engine, table, count)?;
    println!("{:#?}", engine.stats());
    let elapsed = |begun: Instant| Duration::as_secs_f64(&begun.elapsed());
    let begun = Instant::now();
    engine.close()?;
    println!("close: {:.3} s", elapsed(begun));
    drop(engine);
    let begun = Instant::now();
    let engine = Engine::open(&folder, EngineOptions::default())?;
    println!("open after a clean stop: {:.3} s", elapsed(begun));
    let table = engine.table("speed")?;
    measure("put again", count / 5, |_| {
        let key = key(random.below(count));
        engine.put(table, &key, &value).map(|_| ())
    })?;
    drop(engine);
    let begun = Instant::now();
    let engine = Engine::open(&folder, EngineOptions::default())?;
    println!("open after a stop without closing: {:.3} s", elapsed(begun));
    drop(engine);
    if std::env::args().nth(2).is_none() {
        let _ = std::fs::remove_dir_all(&folder);
    }
    Ok(())
}
