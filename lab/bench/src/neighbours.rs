//! `bench-neighbours`: measures GETs of one entry in memory at half the highest rate: alone, beside
//! a connection whose reads miss the page cache, and while the engine merges everything. Neither
//! neighbour may slow the reads from memory down.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pellucid_io::{Random, SeededRandom};

use crate::RunSettings;
use crate::bars::{Bar, judge};
use crate::client::Client;
use crate::overload::{load, load_within};
use crate::peers::{LOAD_CORE, Server, pin_to, start_pellucid_on, text};
use crate::quiet_rounds::rounds;

/// The number of connections of the measured GETs.
const CONNECTIONS: usize = 64;
/// The number of values that are read from the disk, and the length of each in bytes.
const COLD_KEYS: u64 = 40_000;
const COLD_BYTES: usize = 8 * 1024;
/// The number of entries, chosen so that their merge takes longer than a run, and the number of
/// entries that are written before each merge.
const MERGED_KEYS: u64 = 12_000_000;
const MERGED_KEYS_MORE: u64 = 400_000;
/// The number of pipelined writes when the store is filled.
const WRITES_AT_ONCE: usize = 256;
/// The length in bytes of a merged entry's value. It is short enough for the ledger to keep it
/// beside the key, so it is merged too.
const MERGED_BYTES: usize = 60;
/// The pause before a run, in which the remaining work of writes and merges ends: flushes, deletion
/// of files, and the kernel's write-back.
const SETTLED: Duration = Duration::from_secs(4);
/// The time that a merge has to begin before the load does.
const MERGE_BEGINS: Duration = Duration::from_millis(200);

/// The other load on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Neighbour {
    Nobody,
    ColdReads,
    FullMerge,
}

/// Runs the benchmark; true if all bars hold.
pub fn run(effort: RunSettings) -> Result<bool, String> {
    let cold = run_cold_reads(effort)?;
    let merging = run_beside(Neighbour::FullMerge, effort)?;
    Ok(judge("neighbours_p99_9_beside_a_merge", &merging, Bar::AtMost(1.5)) && cold)
}

/// Runs only the part with reads from the disk.
pub fn run_cold_reads(effort: RunSettings) -> Result<bool, String> {
    let cold = run_beside(Neighbour::ColdReads, effort)?;
    Ok(judge("neighbours_p99_9_beside_cold_reads", &cold, Bar::AtMost(1.5)))
}

/// Measures the p99.9 beside a neighbour, on a store of its own; returns the ratios to the p99.9
/// alone.
fn run_beside(neighbour: Neighbour, effort: RunSettings) -> Result<Vec<f64>, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let mut written = EntryWriter { random: SeededRandom::new(2) };
    {
        let server = start_pellucid_on(folder.path())?;
        match neighbour {
            Neighbour::FullMerge => written.go_on(&server, MERGED_KEYS)?,
            _ => fill(&server)?,
        }
    }
    let best = {
        let server = start_pellucid_on(folder.path())?;
        load(&server, CONNECTIONS, None, effort.seconds)?.in_time_per_second
    };
    // The p99.9 of single runs varies widely, as one pause of the host decides it. So there are
    // many runs, but half as many with merges, which take long.
    let runs =
        if neighbour == Neighbour::FullMerge { effort.runs.div_ceil(2) } else { effort.runs };
    rounds(runs, |round| {
        // A new server for each round: segments that a server has written or read are mapped, so
        // the kernel cannot evict their pages.
        let server = start_pellucid_on(folder.path())?;
        if neighbour == Neighbour::FullMerge {
            written.go_on(&server, MERGED_KEYS_MORE)?;
        }
        let is_cold = neighbour == Neighbour::ColdReads;
        let measure = |neighbour| {
            if is_cold {
                // This is done before both runs, because freed memory keeps the kernel busy for a
                // while. It is not repeated while the load runs: of so many values hardly one is
                // read twice. If eviction fails, the reads hit the page cache, and the check in
                // `beside` reports it.
                evict(folder.path());
            }
            std::thread::sleep(SETTLED);
            beside(&server, neighbour, best / 2.0, effort)
        };
        // Each of both is first in every second round.
        let (alone, together) = if round % 2 == 0 {
            let alone = measure(Neighbour::Nobody)?;
            (alone, measure(neighbour)?)
        } else {
            let together = measure(neighbour)?;
            (measure(Neighbour::Nobody)?, together)
        };
        println!(
            "p99.9 at {:.0}/s: {:.3} ms alone, {:.3} ms beside {neighbour:?}",
            best / 2.0,
            alone / 1e6,
            together / 1e6
        );
        Ok(together / alone)
    })
}

/// Measures the 99.9th percentile, in nanoseconds, of GETs at `rate` beside a neighbour. Latencies
/// count from the time at which a request was due.
fn beside(
    server: &Server,
    neighbour: Neighbour,
    rate: f64,
    effort: RunSettings,
) -> Result<f64, String> {
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let read_before = server.disk_read_bytes();
    let measured = std::thread::scope(|scope| {
        let busy = scope.spawn(|| match neighbour {
            Neighbour::Nobody => Ok(()),
            Neighbour::ColdReads => read_cold(server, &over, &done),
            Neighbour::FullMerge => merge(server),
        });
        if neighbour == Neighbour::FullMerge {
            std::thread::sleep(MERGE_BEGINS);
        }
        let run = load_within(server, CONNECTIONS, rate, effort.seconds);
        let is_over = busy.is_finished();
        over.store(true, Ordering::Relaxed);
        busy.join().map_err(|_| "the neighbour panicked".to_owned())??;
        if neighbour == Neighbour::FullMerge && is_over {
            return Err("the merge was over before the load: MERGED_KEYS are too few".to_owned());
        }
        run
    })?;
    let (done, read) = (done.into_inner(), server.disk_read_bytes() - read_before);
    println!(
        "  p99.9 {:.3} ms from when they were sent, {:.3} ms from when they were due; the \
         neighbour had {done} answers, {} MB came from the disk",
        measured.p99_9_ns / 1e6,
        measured.response_p99_9_ns / 1e6,
        read >> 20
    );
    let is_cold = done > 0 && read >= done * COLD_BYTES as u64 / 2;
    if neighbour == Neighbour::ColdReads && !is_cold {
        return Err("the reads did not miss the page cache".to_owned());
    }
    Ok(measured.response_p99_9_ns)
}

/// Makes the engine merge everything, and waits for the end of the merge.
fn merge(server: &Server) -> Result<(), String> {
    Client::connect(&server.url)?.call("PUT", "/_admin/compact", "").map(|_| ())
}

fn fill(server: &Server) -> Result<(), String> {
    let (mut client, value) = (Client::connect(&server.url)?, "c".repeat(COLD_BYTES));
    for key in 0..COLD_KEYS {
        client.call("PUT", &format!("/v0/entity?id=cold-{key}"), &value)?;
    }
    Ok(())
}

/// Restricts this thread, the neighbour's client, to the processor time that the load generator
/// leaves. The load and the neighbour are to compete for the server, not for the client's core.
fn stand_back() -> Result<(), String> {
    pin_to(LOAD_CORE)?;
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure outlives the call, and zero names the calling thread.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) };
    if set == 0 { Ok(()) } else { Err(text(std::io::Error::last_os_error())) }
}

fn read_cold(server: &Server, over: &AtomicBool, done: &AtomicU64) -> Result<(), String> {
    stand_back()?;
    let (mut client, mut random) = (Client::connect(&server.url)?, SeededRandom::new(1));
    while !over.load(Ordering::Relaxed) {
        let key = random.below(COLD_KEYS);
        client.call("GET", &format!("/v0/entity?id=cold-{key}"), "")?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Evicts the files of `folder` from the page cache, as if they did not fit into memory.
fn evict(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            evict(&path);
        } else if let Ok(file) = File::open(&path) {
            // SAFETY: the descriptor is open; the call forgets pages and touches no memory.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        }
    }
}

/// The writer of the entries that are merged, with keys in random order.
struct EntryWriter {
    random: SeededRandom,
}

impl EntryWriter {
    /// Writes `keys` more entries.
    fn go_on(&mut self, server: &Server, keys: u64) -> Result<(), String> {
        let mut client = Client::connect(&server.url)?;
        let value = "m".repeat(MERGED_BYTES);
        for _ in 0..keys / WRITES_AT_ONCE as u64 {
            let each = (0..WRITES_AT_ONCE).map(|_| {
                let key = self.random.next_u64();
                ("PUT", format!("/v0/entity?id=merged-{key:020}"), &*value)
            });
            client.call_all(each)?;
        }
        Ok(())
    }
}
