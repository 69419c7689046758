//! Measures what the longest puts wait for. It runs puts on one thread, as in the published
//! studies. For each slow put, it prints how much of the time was processor time, how long the
//! thread was ready to run without getting a processor, and how long it slept or the host had taken
//! the processor away.
//!
//! It reads these times from `/proc`, so it runs on Linux only.
//!
//! `cargo run --release -p pellucid-engine --example pauses [COUNT] [FOLDER]`

#![expect(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::path::PathBuf;
use std::time::Instant;

use pellucid_engine::{Engine, EngineOptions, Result};
use pellucid_io::SeededRandom;

const COUNT: u64 = 5_000_000;
const VALUE_LENGTH: usize = 280;
/// Puts that take at least this time, in nanoseconds, are reported.
const LONG_NS: u64 = 2_000_000;
/// The times in `/proc` are read once per this many puts: reading them takes as long as ten puts.
const ASKED_EVERY: u64 = 512;
/// The maximum number of slow puts to report.
const TOLD_MAX: usize = 25;

/// The kernel's statistics about this thread.
#[derive(Clone, Copy, Default)]
struct ThreadStatistics {
    processor_ns: u64,
    ready_ns: u64,
    sleeps: u64,
    put_off: u64,
    faults: u64,
    stolen_ticks: u64,
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn number(text: Option<&str>) -> u64 {
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

impl ThreadStatistics {
    fn now() -> ThreadStatistics {
        let (schedule, status) =
            (read("/proc/thread-self/schedstat"), read("/proc/thread-self/status"));
        let (stat, all) = (read("/proc/thread-self/stat"), read("/proc/stat"));
        let mut times = schedule.split(' ');
        let of_status = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name));
            number(line.and_then(|line| line.split(':').nth(1)))
        };
        // The fields follow the name of the thread, which may contain spaces; the first one is the
        // state.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        ThreadStatistics {
            processor_ns: number(times.next()),
            ready_ns: number(times.next()),
            sleeps: of_status("voluntary_ctxt_switches"),
            put_off: of_status("nonvoluntary_ctxt_switches"),
            faults: number(fields.split_whitespace().nth(7)),
            stolen_ticks: number(all.split_whitespace().nth(8)),
        }
    }

    fn since(self, before: ThreadStatistics) -> ThreadStatistics {
        ThreadStatistics {
            processor_ns: self.processor_ns.saturating_sub(before.processor_ns),
            ready_ns: self.ready_ns.saturating_sub(before.ready_ns),
            sleeps: self.sleeps - before.sleeps,
            put_off: self.put_off - before.put_off,
            faults: self.faults - before.faults,
            stolen_ticks: self.stolen_ticks.saturating_sub(before.stolen_ticks),
        }
    }
}

/// A slow put.
struct SlowPut {
    index: u64,
    took_ns: u64,
    /// The time since `/proc` was last read, at most [`ASKED_EVERY`] puts earlier.
    window_ns: u64,
    known: ThreadStatistics,
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

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(COUNT);
    let folder = arguments.next().map_or_else(
        || std::env::temp_dir().join(format!("pellucid-pauses-{}", std::process::id())),
        PathBuf::from,
    );
    let engine = Engine::open(&folder, EngineOptions::default())?;
    let table = engine.table("pauses")?;
    let mut random = SeededRandom::new(1);
    let value = [b'v'; VALUE_LENGTH];
    let mut long = Vec::new();
    let all = ThreadStatistics::now();
    let (mut before, mut asked_at) = (all, Instant::now());
    let (begun, mut last) = (asked_at, asked_at);
    for index in 0..count {
        let key = key(random.below(count));
        engine.put(table, &key, &value)?;
        let now = Instant::now();
        let took_ns = now.duration_since(last).as_nanos() as u64;
        last = now;
        if took_ns >= LONG_NS || index.is_multiple_of(ASKED_EVERY) {
            let known = ThreadStatistics::now();
            if took_ns >= LONG_NS {
                let window_ns = now.duration_since(asked_at).as_nanos() as u64;
                long.push(SlowPut { index, took_ns, window_ns, known: known.since(before) });
            }
            last = Instant::now();
            (before, asked_at) = (known, last);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    engine.flush()?;
    let settled = begun.elapsed().as_secs_f64();
    println!(
        "{count} puts: {:.0}/s, {:.0}/s until flushed",
        count as f64 / seconds,
        count as f64 / settled
    );
    tell("all", (settled * 1e9) as u64, ThreadStatistics::now().since(all));
    println!("{} puts took 2 ms or more", long.len());
    long.sort_by_key(|one| std::cmp::Reverse(one.took_ns));
    for one in long.iter().take(TOLD_MAX) {
        let name = format!("{:>8}: {:.1} ms", one.index, one.took_ns as f64 / 1e6);
        tell(&name, one.window_ns, one.known);
    }
    let stats = engine.stats();
    let seconds_of = |ns: u64| ns as f64 / 1e9;
    let flush = &stats.ledger.flush;
    println!("flushes: {} in {:.2} s: {flush:?}", flush.runs, seconds_of(flush.duration_ns));
    for level in &stats.ledger.levels {
        let merges = &level.compaction;
        if merges.runs > 0 {
            println!(
                "merges: {} in {:.2} s: {merges:?}",
                merges.runs,
                seconds_of(merges.duration_ns)
            );
        }
    }
    println!("{:?}", stats.writes);
    drop(engine);
    if std::env::args().nth(2).is_none() {
        let _ = std::fs::remove_dir_all(&folder);
    }
    Ok(())
}

fn tell(name: &str, window_ns: u64, known: ThreadStatistics) {
    let ms = |ns: u64| ns as f64 / 1e6;
    let rest_ns = window_ns.saturating_sub(known.processor_ns + known.ready_ns);
    println!(
        "{name}: of {:.1} ms processor {:.1}, ready {:.1}, asleep or stolen {:.1}; slept {} times, \
         put off {}, {} faults, {} ticks stolen",
        ms(window_ns),
        ms(known.processor_ns),
        ms(known.ready_ns),
        ms(rest_ns),
        known.sleeps,
        known.put_off,
        known.faults,
        known.stolen_ticks,
    );
}
