//! `bench-neighbours`: GETs of one entry in memory at half the highest rate, alone, beside a
//! connection whose reads miss the page cache, and beside one whose writes make the engine flush
//! and merge. Whoever reads what is in memory is not to notice.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Effort;
use crate::bars::{Bar, judge};
use crate::client::Client;
use crate::overload::{Run, load, load_within};
use crate::peers::{Server, start_pellucid_on, text};
use crate::quiet::{columns, rounds};

/// Connections of the GETs that are measured.
const CONNECTIONS: usize = 64;
/// Values that are read from the disk.
const COLD_KEYS: u64 = 40_000;
const COLD_BYTES: usize = 8 * 1024;
/// The least of shares of a processor.
const NICEST: i32 = 19;
/// How often what was read is made to be forgotten.
const EVICT_PAUSE: Duration = Duration::from_millis(50);
/// How the server's metrics begin that count merges, of whichever level.
const MERGES: &str = "pellucid_jobs_total{job=\"compaction_";
/// How long the writes may take until they have made the engine merge.
const MERGE_WAIT_MAX: Duration = Duration::from_secs(180);
/// Writes put one after the other by the neighbour that makes the engine merge.
const WRITES_AT_ONCE: usize = 16;

/// Who else is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Neighbour {
    Nobody,
    ColdReads,
    Writes,
}

/// Runs the benchmark; true if all bars hold.
pub fn run(effort: Effort) -> Result<bool, String> {
    let folder = tempfile::tempdir().map_err(text)?;
    fill(&start_pellucid_on(folder.path())?)?;
    // A server that has not written them has none of them mapped.
    let server = start_pellucid_on(folder.path())?;
    let best = load(&server, CONNECTIONS, None, effort.seconds)?.in_time_per_second;
    let ratios = rounds(effort.runs.div_ceil(2), |_| {
        let alone = beside(&server, folder.path(), Neighbour::Nobody, best / 2.0, effort)?;
        let beside_cold = beside(&server, folder.path(), Neighbour::ColdReads, best / 2.0, effort)?;
        let beside_writes = beside(&server, folder.path(), Neighbour::Writes, best / 2.0, effort)?;
        println!(
            "p99.9 at {:.0}/s: {:.3} ms alone, {:.3} ms beside cold reads, {:.3} ms beside merges",
            best / 2.0,
            alone / 1e6,
            beside_cold / 1e6,
            beside_writes / 1e6
        );
        Ok([beside_cold / alone, beside_writes / alone])
    })?;
    let [cold, merging] = columns(&ratios);
    let held = [
        judge("neighbours_p99_9_beside_cold_reads", &cold, Bar::AtMost(1.5)),
        judge("neighbours_p99_9_beside_merges", &merging, Bar::AtMost(1.5)),
    ];
    Ok(held.into_iter().all(|holds| holds))
}

/// The 99.9th percentile in nanoseconds of GETs at `rate`, beside a neighbour, from when they were
/// due.
fn beside(
    server: &Server,
    folder: &Path,
    neighbour: Neighbour,
    rate: f64,
    effort: Effort,
) -> Result<f64, String> {
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let (read_before, merges_before) = (server.disk_read_bytes(), merges(server)?);
    let measured = std::thread::scope(|scope| {
        let busy = scope.spawn(|| match neighbour {
            Neighbour::Nobody => Ok(()),
            Neighbour::ColdReads => read_cold(server, &over, &done),
            Neighbour::Writes => write(server, &over, &done),
        });
        if neighbour == Neighbour::ColdReads {
            scope.spawn(|| evict_until(folder, &over));
        }
        let goes_on = || !busy.is_finished();
        let run = match neighbour {
            Neighbour::Writes => until_merged(server, rate, effort, goes_on),
            _ => load_within(server, CONNECTIONS, rate, effort.seconds),
        };
        over.store(true, Ordering::Relaxed);
        let busy = busy.join().map_err(|_| "the neighbour panicked".to_owned())?;
        busy.and(run)
    })?;
    let (done, read) = (done.into_inner(), server.disk_read_bytes() - read_before);
    let merged = merges(server)? - merges_before;
    println!(
        "  p99.9 {:.3} ms from when they were sent, {:.3} ms from when they were due; the \
         neighbour had {done} answers, {} MB came from the disk, {merged} merges ended",
        measured.p99_9_ns / 1e6,
        measured.response_p99_9_ns / 1e6,
        read >> 20
    );
    if neighbour == Neighbour::ColdReads && read < done * COLD_BYTES as u64 / 2 {
        return Err("the reads did not miss the page cache".to_owned());
    }
    Ok(measured.response_p99_9_ns)
}

/// A load during which a merge ended. How many writes make one, the engine decides, and how long
/// they take, the machine: so it is measured again while the neighbour `goes_on` writing.
fn until_merged(
    server: &Server,
    rate: f64,
    effort: Effort,
    goes_on: impl Fn() -> bool,
) -> Result<Run, String> {
    let begun = Instant::now();
    loop {
        let before = merges(server)?;
        let run = load_within(server, CONNECTIONS, rate, effort.seconds)?;
        // What has ended the neighbour is told where it is joined.
        if merges(server)? > before || !goes_on() {
            return Ok(run);
        }
        let waited = begun.elapsed();
        if waited > MERGE_WAIT_MAX {
            return Err(format!("the writes of {waited:.0?} made nothing merge"));
        }
        println!("  nothing was merged meanwhile: the writes go on");
    }
}

/// Merges that have ended so far, by the server's metrics.
fn merges(server: &Server) -> Result<f64, String> {
    let mut client = Client::connect(&server.url)?;
    let page = String::from_utf8_lossy(client.call("GET", "/metrics", "")?).into_owned();
    let count_of = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
    let counts = page.lines().filter(|line| line.starts_with(MERGES)).map(count_of);
    counts.sum::<Option<f64>>().ok_or_else(|| "the metrics do not tell of merges".to_owned())
}

fn fill(server: &Server) -> Result<(), String> {
    let value = "c".repeat(COLD_BYTES);
    let mut socket = connect(server)?;
    for key in 0..COLD_KEYS {
        let head = format!(
            "PUT /v0/entity?id=cold-{key} HTTP/1.1\r\nHost: a\r\n\
             Content-Length: {COLD_BYTES}\r\n\r\n"
        );
        socket.write_all(&[head.as_bytes(), value.as_bytes()].concat()).map_err(text)?;
        await_answer(&mut socket)?;
    }
    Ok(())
}

fn connect(server: &Server) -> Result<TcpStream, String> {
    let address = server.url.trim_start_matches("http://");
    let socket = TcpStream::connect(address.split('/').next().unwrap_or_default());
    let socket = socket.map_err(text)?;
    socket.set_nodelay(true).map_err(text)?;
    Ok(socket)
}

/// Reads one answer to its end, by the length that it announces.
fn await_answer(socket: &mut TcpStream) -> Result<(), String> {
    let (mut answer, mut piece) = (Vec::new(), [0; 16 * 1024]);
    loop {
        let count = socket.read(&mut piece).map_err(text)?;
        if count == 0 {
            return Err("the server closed the connection".to_owned());
        }
        answer.extend_from_slice(&piece[..count]);
        let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&answer[..end]);
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = length.and_then(|text| text.parse().ok()).unwrap_or(0);
        if answer.len() >= end + 4 + length {
            return Ok(());
        }
    }
}

/// Has the neighbour's client, which is this thread, stand back where processors are short: it is
/// the server that the load is to share with the neighbour, not the processor of its own.
fn stand_back() -> Result<(), String> {
    // SAFETY: the call touches no memory; zero names the calling thread.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICEST) } {
        0 => Ok(()),
        _ => Err(text(std::io::Error::last_os_error())),
    }
}

fn read_cold(server: &Server, over: &AtomicBool, done: &AtomicU64) -> Result<(), String> {
    stand_back()?;
    let (mut socket, mut random) = (connect(server)?, 1_u64);
    while !over.load(Ordering::Relaxed) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let key = (random >> 33) % COLD_KEYS;
        let request = format!("GET /v0/entity?id=cold-{key} HTTP/1.1\r\nHost: a\r\n\r\n");
        socket.write_all(request.as_bytes()).map_err(text)?;
        await_answer(&mut socket)?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Has the kernel forget what it has of the files, as if there were more of them than memory.
fn evict_until(folder: &Path, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        evict(folder);
        std::thread::sleep(EVICT_PAUSE);
    }
}

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

/// Writes keys in no order, so that flushes and merges follow each other.
fn write(server: &Server, over: &AtomicBool, done: &AtomicU64) -> Result<(), String> {
    stand_back()?;
    let (mut socket, mut random) = (connect(server)?, 7_u64);
    while !over.load(Ordering::Relaxed) {
        let mut requests = String::new();
        for _ in 0..WRITES_AT_ONCE {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            requests += &format!(
                "PUT /v0/entity?id=merged-{random:020} HTTP/1.1\r\nHost: a\r\nContent-Length: 100\
                 \r\n\r\n{:0100}",
                0
            );
        }
        socket.write_all(requests.as_bytes()).map_err(text)?;
        let (mut heads, mut piece, mut last) = (0, [0; 16 * 1024], Vec::new());
        while heads < WRITES_AT_ONCE {
            let count = socket.read(&mut piece).map_err(text)?;
            if count == 0 {
                return Err("the server closed the connection".to_owned());
            }
            last.extend_from_slice(&piece[..count]);
            heads = last.windows(4).filter(|four| *four == b"\r\n\r\n").count();
        }
        done.fetch_add(WRITES_AT_ONCE as u64, Ordering::Relaxed);
    }
    Ok(())
}
