//! The child process, which does the work on one peer. Each peer has its own process, so that time,
//! memory and disk traffic can be measured per peer. The child prints its figures as a JSON object.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cgroup::CgroupMembership;
use crate::figures::Figures;
use crate::parts;
use crate::pauses::Pauses;
use crate::peer::{self, Outcome, Peer, Setting, text};
use crate::process;
use crate::workload::{self, Latencies, WorkloadGenerator};

/// The longest wait for merges to end.
const SETTLE_MAX: Duration = Duration::from_secs(900);
/// The interval at which the end of merges is checked.
const SETTLE_PERIOD: Duration = Duration::from_millis(10);
/// The number of consecutive checks that must find the store settled.
const SETTLE_SIGHTS: u32 = 3;
/// The rate of the writer beside readers, in puts per second. All peers can hold it, so that all do
/// the same work beside the reads.
pub const WRITER_PER_SECOND: u64 = 50_000;
/// The number of puts after which the writer sleeps.
const WRITER_BURST: u64 = 50;
/// Threads that read beside the writer.
pub const READERS: u64 = 2;
/// The longest time for look-ups in limited memory.
const CONFINED_MAX: Duration = Duration::from_secs(60);

/// The task of a child.
pub struct Task {
    /// The peer.
    pub peer: String,
    /// The folder of its store.
    pub folder: PathBuf,
    /// The number of puts, and of keys that they are drawn from.
    pub keys: u64,
}

/// Fills a store and runs all measurements that need no restart.
pub fn fill(task: &Task) -> Outcome<Figures> {
    let anonymous_before = process::anonymous_bytes();
    let store = peer::open(&task.peer, &task.folder, Setting::default())?;
    let figures = measure_filled(&*store, task, anonymous_before)?;
    // Close it cleanly, because the next measurement is an opening after a clean stop.
    store.close()?;
    Ok(figures)
}

fn measure_filled(store: &dyn Peer, task: &Task, anonymous_before: u64) -> Outcome<Figures> {
    let mut figures = Figures::default();
    figures.note("version", &store.version());
    let (outcome, peak) = process::watching_memory(|| measure_all(store, task, &mut figures));
    outcome?;
    if let Some(setting) = store.memory_setting_bytes() {
        let beyond = peak.saturating_sub(anonymous_before) as f64;
        figures.set("memory_per_setting", beyond / setting as f64);
    }
    figures.set("memory_anonymous_mb", peak as f64 / 1e6);
    Ok(figures)
}

fn measure_all(store: &dyn Peer, task: &Task, figures: &mut Figures) -> Outcome<()> {
    let (draws, traffic) = (WorkloadGenerator::new(task.keys), process::disk_traffic());
    fill_and_settle(store, &draws, task.keys, figures)?;
    if parts::is_wanted(parts::SETTLED) {
        scan(store, "scan_after_fill", figures)?;
        reads(store, &draws, task.keys, "settled_", figures)?;
    }
    let begun = Instant::now();
    store.compact()?;
    settle(store)?;
    figures.set("compaction_s", begun.elapsed().as_secs_f64());
    let written = process::disk_traffic().written_bytes - traffic.written_bytes;
    figures.set("written_with_compaction_per_byte", written / user_bytes(task.keys));
    if let Some(bytes) = store.written_bytes() {
        figures.set("counted_with_compaction_per_byte", bytes as f64 / user_bytes(task.keys));
    }
    let scanned = match parts::is_wanted(parts::SCAN) {
        true => scan(store, "scan_after_compaction", figures)?,
        false => store.scan()?.bytes,
    };
    let disk = process::disk_bytes(&task.folder)? as f64;
    figures.set("live_bytes", scanned as f64);
    figures.set("disk_per_live_byte", disk / scanned as f64);
    if parts::is_wanted(parts::READS) {
        reads(store, &draws, task.keys, "", figures)?;
    }
    if parts::is_wanted(parts::BESIDE) {
        readers_and_writer(store, &draws, task.keys, figures)?;
    }
    Ok(())
}

fn fill_and_settle(
    store: &dyn Peer,
    draws: &WorkloadGenerator,
    keys: u64,
    figures: &mut Figures,
) -> Outcome<()> {
    let (traffic, cpu, begun) = (process::disk_traffic(), process::cpu_seconds(), Instant::now());
    let mut pauses = Pauses::new();
    let latencies = workload::put(store, draws, 0..keys, &mut pauses)?;
    pauses.tell("put", figures);
    figures.set("put_unsettled_per_s", keys as f64 / begun.elapsed().as_secs_f64());
    store.flush()?;
    settle(store)?;
    // The last checks for the settled state are no work of the store.
    let idle = SETTLE_PERIOD * (SETTLE_SIGHTS - 1);
    let seconds = begun.elapsed().saturating_sub(idle).as_secs_f64();
    let cpu_us = (process::cpu_seconds() - cpu) * 1e6 / keys as f64;
    figures.operation("put", keys as f64 / seconds, cpu_us, &latencies);
    let after = process::disk_traffic();
    let per_byte = |bytes: f64| bytes / user_bytes(keys);
    figures.set("written_per_byte", per_byte(after.written_bytes - traffic.written_bytes));
    figures.set("cancelled_per_byte", per_byte(after.cancelled_bytes - traffic.cancelled_bytes));
    if let Some(bytes) = store.written_bytes() {
        figures.set("written_by_own_count_per_byte", per_byte(bytes as f64));
    }
    Ok(())
}

/// The bytes of the keys and values of this number of puts.
fn user_bytes(puts: u64) -> f64 {
    (puts * (workload::KEY_LENGTH + workload::VALUE_LENGTH) as u64) as f64
}

fn settle(store: &dyn Peer) -> Outcome<()> {
    let (begun, mut sights) = (Instant::now(), 0);
    loop {
        sights = if store.is_settled()? { sights + 1 } else { 0 };
        if sights == SETTLE_SIGHTS {
            return Ok(());
        }
        if begun.elapsed() > SETTLE_MAX {
            return Err(format!("merges did not end within {SETTLE_MAX:?}"));
        }
        std::thread::sleep(SETTLE_PERIOD);
    }
}

/// Scans twice, the first time to fill the page cache. Returns the live bytes.
fn scan(store: &dyn Peer, name: &str, figures: &mut Figures) -> Outcome<u64> {
    let first = store.scan()?;
    let (cpu, begun) = (process::cpu_seconds(), Instant::now());
    let second = store.scan()?;
    let rows = second.rows as f64;
    figures.set(&format!("{name}_per_s"), rows / begun.elapsed().as_secs_f64());
    figures.set(&format!("{name}_cpu_us"), (process::cpu_seconds() - cpu) * 1e6 / rows);
    if first.rows != second.rows || first.bytes != second.bytes {
        return Err("two scans of one store differ".to_owned());
    }
    Ok(second.bytes)
}

fn reads(
    store: &dyn Peer,
    draws: &WorkloadGenerator,
    keys: u64,
    prefix: &str,
    figures: &mut Figures,
) -> Outcome<()> {
    let count = keys / 5;
    workload::get_present(store, draws, 1, count)?;
    let mut measure = |name: &str, work: &dyn Fn() -> Outcome<Latencies>| {
        let (cpu, begun) = (process::cpu_seconds(), Instant::now());
        let latencies = work()?;
        let per_second = count as f64 / begun.elapsed().as_secs_f64();
        let cpu_us = (process::cpu_seconds() - cpu) * 1e6 / count as f64;
        figures.operation(&format!("{prefix}{name}"), per_second, cpu_us, &latencies);
        Ok::<(), String>(())
    };
    measure("get", &|| workload::get_present(store, draws, 2, count))?;
    measure("get_missing", &|| workload::get(store, draws, 3, count, |_| true))?;
    let mixed = workload::is_missing_in_mix;
    measure("get_mixed", &|| workload::get(store, draws, 4, count, mixed))?;
    measure("head", &|| workload::head(store, draws, 5, count))
}

/// Two threads read while one writes at a steady rate.
fn readers_and_writer(
    store: &dyn Peer,
    draws: &WorkloadGenerator,
    keys: u64,
    figures: &mut Figures,
) -> Outcome<()> {
    let (is_over, count) = (AtomicBool::new(false), keys / 5);
    let (cpu, begun) = (process::cpu_seconds(), Instant::now());
    let (latencies, seconds, puts) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_steadily(store, draws, &is_over));
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                scope.spawn(move || workload::get_present(store, draws, 10 + reader, count))
            })
            .collect();
        let mut latencies = workload::latencies()?;
        let mut outcome = Ok(());
        for reader in readers {
            let read = reader.join().map_err(|_| "a reader panicked".to_owned())?;
            outcome = outcome.and(read.and_then(|taken| latencies.add(taken).map_err(text)));
        }
        let seconds = begun.elapsed().as_secs_f64();
        is_over.store(true, Ordering::Relaxed);
        let puts = writer.join().map_err(|_| "the writer panicked".to_owned())??;
        outcome.map(|()| (latencies, seconds, puts))
    })?;
    let gets = (count * READERS) as f64;
    let cpu_us = (process::cpu_seconds() - cpu) * 1e6 / gets;
    figures.operation("get_beside_writer", gets / seconds, cpu_us, &latencies);
    figures.set("put_beside_readers_per_s", puts as f64 / seconds);
    Ok(())
}

fn write_steadily(
    store: &dyn Peer,
    draws: &WorkloadGenerator,
    is_over: &AtomicBool,
) -> Outcome<u64> {
    let (begun, mut index) = (Instant::now(), 0);
    while !is_over.load(Ordering::Relaxed) {
        store.put(&draws.put(index), draws.value(!index))?;
        index += 1;
        if index.is_multiple_of(WRITER_BURST) {
            let due = Duration::from_secs_f64(index as f64 / WRITER_PER_SECOND as f64);
            std::thread::sleep(due.saturating_sub(begun.elapsed()));
        }
    }
    Ok(index)
}

/// Measures the time to open a store and read one key.
pub fn open(task: &Task) -> Outcome<Figures> {
    let mut figures = Figures::default();
    let begun = Instant::now();
    let store = peer::open(&task.peer, &task.folder, Setting::default())?;
    workload::get_present(&*store, &WorkloadGenerator::new(task.keys), 0, 1)?;
    figures.set("open_s", begun.elapsed().as_secs_f64());
    store.close()?;
    Ok(figures)
}

/// Scans an existing store.
pub fn scan_again(task: &Task) -> Outcome<Figures> {
    let mut figures = Figures::default();
    let store = peer::open(&task.peer, &task.folder, Setting::default())?;
    scan(&*store, "scan", &mut figures)?;
    store.close()?;
    Ok(figures)
}

/// Writes a fifth of all keys again, and then kills this process without closing the store.
pub fn kill(task: &Task) -> Outcome<Figures> {
    let store = peer::open(&task.peer, &task.folder, Setting::default())?;
    workload::put(
        &*store,
        &WorkloadGenerator::new(task.keys),
        0..task.keys / 5,
        &mut Pauses::new(),
    )?;
    // SAFETY: the signal goes to this process alone.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    Err("the process survived its kill".to_owned())
}

/// Measures look-ups in limited memory, page cache included. `groups` is the file with the
/// description of the control groups.
pub fn confined(task: &Task, limit_bytes: u64, groups: &Path) -> Outcome<Figures> {
    let group = CgroupMembership::enter(groups)?;
    let mut figures = Figures::default();
    let draws = WorkloadGenerator::new(task.keys);
    let setting = Setting { confined_to_bytes: Some(limit_bytes) };
    let store = peer::open(&task.peer, &task.folder, setting)?;
    let wanted = (task.keys / 25).max(1);
    let gets = |seed: u64| -> Outcome<(Latencies, u64)> {
        let (begun, mut done) = (Instant::now(), 0);
        let mut taken = workload::latencies()?;
        while done < wanted && begun.elapsed() < CONFINED_MAX {
            let chunk = (wanted - done).min(1_000);
            let latencies = workload::get_present(&*store, &draws, seed + done, chunk)?;
            taken.add(latencies).map_err(text)?;
            done += chunk;
        }
        Ok((taken, done))
    };
    gets(1_000_000)?;
    let (reads, faults, bytes) =
        (group.disk_reads(), process::major_faults(), process::disk_traffic().read_bytes);
    let (cpu, begun) = (process::cpu_seconds(), Instant::now());
    let (latencies, done) = gets(2_000_000)?;
    let (done, seconds) = (done as f64, begun.elapsed().as_secs_f64());
    let cpu_us = (process::cpu_seconds() - cpu) * 1e6 / done;
    figures.operation("get_confined", done / seconds, cpu_us, &latencies);
    figures.set("confined_faults_per_get", (process::major_faults() - faults) / done);
    let read_bytes = process::disk_traffic().read_bytes - bytes;
    figures.set("confined_bytes_read_per_get", read_bytes / done);
    if let (Some(before), Some(after)) = (reads, group.disk_reads()) {
        figures.set("confined_reads_per_get", (after - before) as f64 / done);
    }
    figures.set("confined_to_mb", limit_bytes as f64 / 1e6);
    Ok(figures)
}
