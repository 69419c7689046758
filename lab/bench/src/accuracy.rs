//! Checks the percentiles of the load generator over real sockets. A server in this process delays
//! its answers, and records how long each took; the two sides must agree. Further cases are tested
//! in virtual time (`lab/load/tests/generator/accuracy.rs`).

#![allow(clippy::disallowed_types, reason = "a benchmark's own locks are in no profile")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::RunSettings;
use crate::bars::{Bar, judge, median};
use crate::peers::{pellucid, text};
use crate::quiet_rounds::{columns, rounds};

/// Requests per second; few enough that the processors are mostly idle.
const RATE: u64 = 200;
/// The usual delay of an answer. The two sides differ by the time in the kernel and its wake-ups,
/// sometimes a third of a millisecond, which is less than a hundredth of this delay.
const USUAL: Duration = Duration::from_millis(50);
/// The delay of a slow answer.
const SLOW: Duration = Duration::from_millis(100);
/// One request in this many is slow.
const SLOW_ONE_IN: u64 = 100;
/// The length of the freeze.
const FREEZE: Duration = Duration::from_secs(1);
/// The start of the freeze, after the first request.
const FREEZE_BEGIN: Duration = Duration::from_millis(1_500);
/// The largest relative difference between the two sides.
const DEVIATION_AT_MOST: f64 = 0.01;
/// The largest p99 of the service time as a share of the freeze. It should not contain any of the
/// freeze, but each answer takes some time.
const SERVICE_SHARE_AT_MOST: f64 = 0.02;
/// The shortest run with a freeze in seconds: it needs time before and after the freeze.
const FREEZE_SECONDS_MIN: u64 = 5;
/// The longest head of a request that is read.
const HEAD_BYTES_MAX: usize = 4_096;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A function that returns the delay of an answer, from the number of the request and the time
/// since the first request.
type Delay = fn(u64, Duration) -> Duration;

/// A server that records how long each answer took.
pub struct RecordingServer {
    url: String,
    times_ns: Arc<Mutex<Vec<u64>>>,
}

/// The state that the connections of a server share.
struct SharedState {
    delay: Box<dyn Fn(u64, Duration) -> Duration + Send + Sync>,
    number: AtomicU64,
    begun: Mutex<Option<Instant>>,
    times_ns: Arc<Mutex<Vec<u64>>>,
}

impl RecordingServer {
    /// Serves on a free port. The thread of each connection ends with it; the accepting thread ends
    /// with the process.
    pub fn start(
        delay: impl Fn(u64, Duration) -> Duration + Send + Sync + 'static,
    ) -> Result<RecordingServer, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(text)?;
        let url = format!("http://{}/", listener.local_addr().map_err(text)?);
        let times_ns: Arc<Mutex<Vec<u64>>> = Arc::default();
        let shared = Arc::new(SharedState {
            delay: Box::new(delay),
            number: AtomicU64::new(0),
            begun: Mutex::new(None),
            times_ns: Arc::clone(&times_ns),
        });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Ok(RecordingServer { url, times_ns })
    }

    /// Loads the server from one thread; returns the result.
    pub fn load(&self, connections: usize, arguments: &[&str]) -> Result<Value, String> {
        let output = Command::new(pellucid())
            .args(["load", "-t", "1", "-c", &connections.to_string(), "--json"])
            .args(arguments)
            .arg(&self.url)
            .output()
            .map_err(text)?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        serde_json::from_slice(&output.stdout).map_err(text)
    }

    /// The recorded times, sorted.
    fn noted(&self) -> Vec<u64> {
        let mut times_ns = locked(&self.times_ns).clone();
        times_ns.sort_unstable();
        times_ns
    }
}

impl SharedState {
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        stream.set_nodelay(true).ok()?;
        let mut head = Vec::new();
        let mut buffer = [0; HEAD_BYTES_MAX];
        loop {
            let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
            let received = Instant::now();
            head.extend_from_slice(&buffer[..count]);
            if !head.ends_with(b"\r\n\r\n") {
                if head.len() > HEAD_BYTES_MAX {
                    return None;
                }
                continue;
            }
            head.clear();
            let begun = *locked(&self.begun).get_or_insert(received);
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            let due = received + (self.delay)(number, received.saturating_duration_since(begun));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let taken_ns = u64::try_from(received.elapsed().as_nanos()).unwrap_or(u64::MAX);
            locked(&self.times_ns).push(taken_ns);
            stream.write_all(ANSWER).ok()?;
        }
    }
}

pub fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn load(server: &RecordingServer, connections: usize, seconds: u64) -> Result<Value, String> {
    let (rate, length) = (RATE.to_string(), format!("{seconds}s"));
    server.load(connections, &["-R", &rate, "--no-timing", "-d", &length])
}

fn quantile(sorted: &[u64], quantile: f64) -> f64 {
    let rank = (sorted.len() as f64 * quantile).ceil() as usize;
    sorted.get(rank.max(1) - 1).map_or(f64::NAN, |ns| *ns as f64)
}

/// The largest relative difference between the client's and the server's figures, over these
/// percentiles of response time and service time. The caller leaves out percentiles at the border
/// between two delays, which are not determined.
fn deviation(delay: Delay, percentiles: &[(&str, f64)], seconds: u64) -> Result<f64, String> {
    let server = RecordingServer::start(delay)?;
    // More connections than are ever busy, so that no request waits for one.
    let result = load(&server, 64, seconds)?;
    let noted = server.noted();
    let mut most = 0.0_f64;
    for times in ["response_time", "service_time"] {
        for (name, at) in percentiles {
            let said = result[times][format!("{name}_ns")].as_f64();
            let said = said.ok_or_else(|| format!("the result has no {name} of {times}"))?;
            most = most.max((said / quantile(&noted, *at) - 1.0).abs());
        }
    }
    Ok(most)
}

/// Measures a freeze of the server. Returns the relative error of the longest response time, the
/// relative error of the p99 of the response time, and the p99 of the service time as a share of
/// the freeze.
fn freeze(seconds: u64) -> Result<[f64; 3], String> {
    let server = RecordingServer::start(|_, since| {
        let thaws = FREEZE_BEGIN + FREEZE;
        if since >= FREEZE_BEGIN && since < thaws { thaws - since } else { Duration::ZERO }
    })?;
    // Two connections: while both are busy, requests that are due have to wait.
    let result = load(&server, 2, seconds.max(FREEZE_SECONDS_MIN))?;
    let longest_ns = server.noted().last().copied().ok_or("the server was asked nothing")? as f64;
    let figure = |times: &str, name: &str| {
        let found = result[times][name].as_f64();
        found.ok_or_else(|| format!("the result has no {name} of {times}"))
    };
    // Requests are due at equal intervals, so each waits one interval less than the one before it.
    let beyond = (figure("response_time", "count")? * 0.01).floor();
    let expected_ns = longest_ns - beyond * 1e9 / RATE as f64;
    Ok([
        (figure("response_time", "max_ns")? / longest_ns - 1.0).abs(),
        (figure("response_time", "p99_ns")? / expected_ns - 1.0).abs(),
        figure("service_time", "p99_ns")? / longest_ns,
    ])
}

/// Runs the comparison; returns true if all bars hold.
pub fn run(effort: RunSettings) -> Result<bool, String> {
    let RunSettings { seconds, runs } = effort;
    let constant = rounds(runs, |_| {
        deviation(|_, _| USUAL, &[("p50", 0.5), ("p90", 0.9), ("p99", 0.99)], seconds)
    })?;
    // Without p99, which is at the border between the two delays.
    let slow = rounds(runs, |_| {
        let delay: Delay = |number, _| if number % SLOW_ONE_IN == 7 { SLOW } else { USUAL };
        deviation(delay, &[("p50", 0.5), ("p90", 0.9), ("p99.9", 0.999)], seconds)
    })?;
    let [longest, tail, service] = columns(&rounds(runs, |_| freeze(seconds))?);
    println!(
        "pellucid load beside what the server noted: off by {:.2} % with a constant delay, by \
         {:.2} % with one request in {SLOW_ONE_IN} slow",
        median(&constant) * 100.0,
        median(&slow) * 100.0
    );
    let mut all_hold = true;
    for (name, figures) in [
        ("load_accuracy_constant_delay", &constant),
        ("load_accuracy_one_percent_slow", &slow),
        ("load_accuracy_freeze_longest", &longest),
        ("load_accuracy_freeze_p99", &tail),
    ] {
        all_hold &= judge(name, figures, Bar::AtMost(DEVIATION_AT_MOST));
    }
    let share = Bar::AtMost(SERVICE_SHARE_AT_MOST);
    Ok(judge("load_freeze_share_of_service_p99", &service, share) && all_hold)
}
