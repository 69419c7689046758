//! What the engine says of its memory beside what the operating system says, stage by stage: the
//! setting is to bound both.
//!
//! `cargo run --release -p pellucid-engine --example memory [MEMORY_MB] [COUNT] [VALUE_BYTES]`

#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pellucid_engine::{
    Direction, Engine, EngineOptions, EngineStats, MemoryShare, Result, TableId,
};
use pellucid_io::SeededRandom;

const MEMORY_MB: u64 = 128;
const COUNT: u64 = 5_000_000;
const VALUE_BYTES: u64 = 280;
const SAMPLE_PERIOD: Duration = Duration::from_millis(5);

/// Memory of this process that is no file's page, in bytes.
fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

struct Watch {
    peak_bytes: AtomicU64,
    before_bytes: u64,
    is_over: AtomicBool,
}

impl Watch {
    fn report(&self, stage: &str, stats: &EngineStats) {
        let mb = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let share = |name: &str, share: MemoryShare| {
            format!("{name} {:.1}/{:.1}", mb(share.used_bytes), mb(share.limit_bytes))
        };
        let memory = &stats.memory;
        let peak = self.peak_bytes.swap(0, Ordering::Relaxed).max(anonymous_bytes());
        println!(
            "{stage:<12} peak {:6.1} MiB, {:.2} of the setting, now {:6.1}; {}, {}, {}, {}",
            mb(peak - self.before_bytes),
            (peak - self.before_bytes) as f64 / memory.setting_bytes as f64,
            mb(anonymous_bytes() - self.before_bytes),
            share("memtables", memory.memtables),
            share("tables", memory.tables),
            share("jobs", memory.jobs),
            share("journal", memory.journal),
        );
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:010}").into_bytes()
}

fn work(
    engine: &Engine,
    table: TableId,
    watch: &Watch,
    count: u64,
    value_bytes: u64,
) -> Result<()> {
    let mut random = SeededRandom::new(1);
    let value: Vec<u8> = (0..value_bytes).map(|_| random.below(256) as u8).collect();
    for _ in 0..count {
        let key = key(random.below(count));
        engine.put(table, &key, &value)?;
    }
    watch.report("fill", &engine.stats());
    engine.flush()?;
    watch.report("flush", &engine.stats());
    std::thread::sleep(Duration::from_secs(1));
    watch.report("rest", &engine.stats());
    let mut scan = engine.scan(table, Bound::Unbounded, Bound::Unbounded, Direction::Forward)?;
    while scan.next_head()?.is_some() {}
    drop(scan);
    watch.report("scan", &engine.stats());
    for _ in 0..count / 5 {
        engine.get(table, &key(random.below(count)))?;
    }
    watch.report("get", &engine.stats());
    engine.compact()?;
    watch.report("compact", &engine.stats());
    engine.collect()?;
    watch.report("collect", &engine.stats());
    engine.close()?;
    watch.report("close", &engine.stats());
    Ok(())
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().ok());
    let mut next = |otherwise| arguments.next().flatten().unwrap_or(otherwise);
    let (memory_mb, count, value_bytes) = (next(MEMORY_MB), next(COUNT), next(VALUE_BYTES));
    let folder = std::env::temp_dir().join(format!("pellucid-memory-{}", std::process::id()));
    let (peak_bytes, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let watch = Arc::new(Watch { peak_bytes, before_bytes: anonymous_bytes(), is_over });
    let sampling = Arc::clone(&watch);
    let sampler = std::thread::spawn(move || {
        while !sampling.is_over.load(Ordering::Relaxed) {
            sampling.peak_bytes.fetch_max(anonymous_bytes(), Ordering::Relaxed);
            std::thread::sleep(SAMPLE_PERIOD);
        }
    });
    let options = EngineOptions { memory_bytes: memory_mb << 20, ..EngineOptions::default() };
    let engine = Engine::open(&folder, options)?;
    let table = engine.table("memory")?;
    let outcome = work(&engine, table, &watch, count, value_bytes);
    drop(engine);
    watch.is_over.store(true, Ordering::Relaxed);
    // The sampler has nothing to say.
    let _ = sampler.join();
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}
