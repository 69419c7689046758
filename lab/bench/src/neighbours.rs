//! `bench-neighbours`: GETs of one entry in memory at half the highest rate, alone, beside a
//! connection whose reads miss the page cache, and while the engine merges all that it has. Whoever
//! reads what is in memory is not to notice.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pellucid_io::{Random, SeededRandom};

use crate::Effort;
use crate::bars::{Bar, judge};
use crate::client::Client;
use crate::overload::{load, load_within};
use crate::peers::{LOAD_CORE, Server, start_pellucid_on, text};
use crate::quiet::rounds;

/// Connections of the GETs that are measured.
const CONNECTIONS: usize = 64;
/// Values that are read from the disk.
const COLD_KEYS: u64 = 40_000;
const COLD_BYTES: usize = 8 * 1024;
/// Entries whose merge takes longer than a run, and those that are written before each merge.
const MERGED_KEYS: u64 = 12_000_000;
const MERGED_KEYS_MORE: u64 = 400_000;
/// Writes put one after the other, to fill the store.
const WRITES_AT_ONCE: usize = 256;
/// The length of a merged entry's value, which the ledger has beside the key: it is merged too.
const MERGED_BYTES: usize = 60;
/// How long what writes and merges have left to do may take before a run: flushing, giving files
/// back, and the kernel's own writing.
const SETTLED: Duration = Duration::from_secs(4);
/// How long a merge is given to begin before the load does.
const MERGE_BEGINS: Duration = Duration::from_millis(200);

/// Who else is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Neighbour {
    Nobody,
    ColdReads,
    FullMerge,
}

/// Runs the benchmark; true if all bars hold.
pub fn run(effort: Effort) -> Result<bool, String> {
    let cold = run_cold_reads(effort)?;
    let merging = run_beside(Neighbour::FullMerge, effort)?;
    Ok(judge("neighbours_p99_9_beside_a_merge", &merging, Bar::AtMost(1.5)) && cold)
}

/// The part about reads from the disk alone.
pub fn run_cold_reads(effort: Effort) -> Result<bool, String> {
    let cold = run_beside(Neighbour::ColdReads, effort)?;
    Ok(judge("neighbours_p99_9_beside_cold_reads", &cold, Bar::AtMost(1.5)))
}

/// The p99.9 beside a neighbour, on a store of its own, as shares of that alone.
fn run_beside(neighbour: Neighbour, effort: Effort) -> Result<Vec<f64>, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let mut written = Written { random: SeededRandom::new(2) };
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
    // Single runs lie far apart, as one pause of the host makes a p99.9; a merge takes long.
    let runs =
        if neighbour == Neighbour::FullMerge { effort.runs.div_ceil(2) } else { effort.runs };
    rounds(runs, |round| {
        // What a server has written or read is mapped, and stays in memory for that.
        let server = start_pellucid_on(folder.path())?;
        if neighbour == Neighbour::FullMerge {
            written.go_on(&server, MERGED_KEYS_MORE)?;
        }
        let is_cold = neighbour == Neighbour::ColdReads;
        let measure = |neighbour| {
            if is_cold {
                // Before either run, as the kernel is busy for a while with memory that was freed,
                // and not while the load runs: of so many values hardly one is read twice. Where it
                // fails, the reads do not miss, which is looked at below.
                evict(folder.path());
            }
            std::thread::sleep(SETTLED);
            beside(&server, neighbour, best / 2.0, effort)
        };
        // Neither is always first.
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

/// The 99.9th percentile in nanoseconds of GETs at `rate`, beside a neighbour, from when they were
/// due.
fn beside(server: &Server, neighbour: Neighbour, rate: f64, effort: Effort) -> Result<f64, String> {
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

/// Has the engine merge everything, and waits until it has.
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

/// Has the neighbour's client, which is this thread, have what the load generator leaves of its
/// processor: it is the server that the load is to share with the neighbour.
fn stand_back() -> Result<(), String> {
    let load_core: usize = LOAD_CORE.parse().map_err(text)?;
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: both structures outlive the calls, and zero names the calling thread.
    let outcomes = unsafe {
        let mut cores: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(load_core, &mut cores);
        let pinned = libc::sched_setaffinity(0, size_of_val(&cores), &cores);
        [pinned, libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters)]
    };
    if outcomes == [0, 0] { Ok(()) } else { Err(text(std::io::Error::last_os_error())) }
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

/// Has the kernel forget what it has of the files, as if there were more of them than memory.
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

/// Keys that a merge is about, in no order.
struct Written {
    random: SeededRandom,
}

impl Written {
    /// Writes so many more.
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
