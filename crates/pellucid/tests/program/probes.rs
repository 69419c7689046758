//! Tests of the USDT probes of a running server with `bpftrace` and the scripts of this repository.
//!
//! They need root, the tool, and a kernel that lets root trace. Without these the test prints the
//! reason and passes. The scripts run one after the other: each stops the whole process while it is
//! being attached, and three at a time would occupy a small machine completely. Each wait has a
//! limit: `bpftrace` gets the signal to end several times if it ignores the first one, and is then
//! killed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::common::{Client, TestServer, entity, pellucid, signal};
use pellucid_account::Snapshot;
use tempfile::TempDir;

/// The number of pairs of PUT and GET for each script.
const PAIRS: usize = 100;
/// The most that the unit of a record may cut from each border of a phase: eight ticks of at least
/// 0.5 GHz.
const UNIT_NS_MAX: f64 = 16.0;

/// The time limit of all waits; a safety limit, not an expectation.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time that a request has to be reported before the next one is sent.
const LOOK: Duration = Duration::from_millis(250);
/// The duration of sending a request that marks a place in the output, and the least receive time
/// that identifies it; no other request takes as long to be received.
const MARK: Duration = Duration::from_secs(2);
const MARK_SEEN_NS: f64 = 0.5e9;
/// The interval between two signals that ask `bpftrace` to end.
const TELL_AGAIN: Duration = Duration::from_secs(5);

/// A running `bpftrace` that is attached to a server with one of the scripts.
struct BpftraceProcess {
    child: Child,
    lines: Receiver<String>,
}

impl BpftraceProcess {
    fn start(server: &TestServer, script: &Path) -> Option<BpftraceProcess> {
        let mut child = Command::new("bpftrace")
            .args(["-B", "line", "-p", &server.id().to_string()])
            .arg(script)
            .arg(env!("CARGO_BIN_EXE_pellucid"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            // It prints errors about probes whose process ends.
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        // The thread ends with the output, which ends with the child.
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Some(BpftraceProcess { child, lines })
    }

    /// Returns the next line with `columns` numbers, if one comes within `time`.
    fn row_within(&self, columns: usize, time: Duration) -> Result<Option<Vec<f64>>, String> {
        let begun = Instant::now();
        loop {
            let line = match self.lines.recv_timeout(time.saturating_sub(begun.elapsed())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                Err(RecvTimeoutError::Disconnected) => return Err("bpftrace ended".to_owned()),
            };
            let words = line.split_whitespace().map(|word| word.parse().ok());
            let words: Option<Vec<f64>> = words.collect();
            if let Some(row) = words.filter(|row| row.len() == columns) {
                return Ok(Some(row));
            }
        }
    }

    fn row(&self, columns: usize) -> Vec<f64> {
        self.row_within(columns, PATIENCE).unwrap().expect("each request is told")
    }

    /// Sends requests until one is reported, since `bpftrace` does not say when its probes are
    /// attached; returns the reported line.
    fn await_attached(&self, client: &mut Client, columns: usize) -> Result<Vec<f64>, String> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            assert_eq!(client.get("/v0/status").status, 200);
            if let Some(row) = self.row_within(columns, LOOK)? {
                return Ok(row);
            }
        }
        Err(format!("no request was seen within {PATIENCE:?}"))
    }

    /// Ends it, and returns its last output.
    fn stop(self) -> String {
        let (mut rest, begun) = (Vec::new(), Instant::now());
        // A signal that comes before it handles signals is lost if the test runs in the background.
        'told: while begun.elapsed() < PATIENCE {
            signal(&self.child, libc::SIGINT);
            let told = Instant::now();
            while told.elapsed() < TELL_AGAIN {
                match self.lines.recv_timeout(TELL_AGAIN) {
                    Ok(line) => rest.push(line),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break 'told,
                }
            }
        }
        rest.join("\n")
    }
}

impl Drop for BpftraceProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the reason why `bpftrace` cannot be used here, if any. It must report a probe of the
/// server.
fn why_not(server: &TestServer, folder: &Path) -> Option<String> {
    // SAFETY: the call has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Some("this is not root".to_owned());
    }
    let script = folder.join("try.bt");
    std::fs::write(&script, "usdt:$1:pellucid:done { printf(\"%llu\\n\", arg3); }").unwrap();
    let Some(tracing) = BpftraceProcess::start(server, &script) else {
        return Some("there is no program `bpftrace`".to_owned());
    };
    let seen = tracing.await_attached(&mut server.client(), 1);
    tracing.stop();
    seen.err()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/request-life").join(name)
}

/// Starts a server whose threads share one processor, so that the reports of its probes come in
/// order.
fn serve_on_one_processor(data: &Path) -> TestServer {
    use std::os::unix::process::CommandExt;
    let data = data.to_str().unwrap();
    let mut command = pellucid(&["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    command.args(["--threads", "1"]);
    let keep_one = || {
        // SAFETY: the set is a local variable, and the calls access nothing else.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_getaffinity(0, size_of_val(&set), &mut set);
            let first = (0..libc::CPU_SETSIZE as usize).find(|n| libc::CPU_ISSET(*n, &set));
            libc::CPU_ZERO(&mut set);
            libc::CPU_SET(first.unwrap_or(0), &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &set);
        }
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made.
    unsafe { command.pre_exec(keep_one) };
    TestServer::spawn(command)
}

fn requests(client: &mut Client) {
    for number in 0..PAIRS {
        let target = entity(format!("key-{number}"));
        assert_eq!(client.put(&target, "value").status, 201);
        assert_eq!(client.get(&target).status, 200);
    }
}

/// The figures of the probes agree with those of the built-in account.
#[test]
#[allow(
    clippy::print_stderr,
    reason = "whoever reads that this passed has to know what did not run"
)]
fn the_scripts_agree_with_the_account() {
    let folder = TempDir::new().unwrap();
    let server = serve_on_one_processor(&folder.path().join("data"));
    if let Some(why) = why_not(&server, folder.path()) {
        eprintln!("NOT TESTED: bpftrace does not work here: {why}");
        return;
    }
    each_request_is_told_alike_by_the_probes_and_by_its_record(&server);
    the_nine_columns_of_the_study_agree_with_the_account(&server);
    the_histograms_are_printed_at_the_end(&server, folder.path());
}

/// Checks that the total and `execute` of each request are the same in the probes and the records.
fn each_request_is_told_alike_by_the_probes_and_by_its_record(server: &TestServer) {
    let tracing = BpftraceProcess::start(server, &script("agreement.bt")).unwrap();
    let mut client = server.client();
    // The first request may have begun before all of its probes were attached.
    let first = tracing.await_attached(&mut client, 5).unwrap()[0];
    requests(&mut client);
    let (mut numbers, begun) = (Vec::new(), Instant::now());
    while numbers.len() < 2 * PAIRS {
        assert!(begun.elapsed() < PATIENCE, "each request is told; {} were", numbers.len());
        let row = tracing.row(5);
        if row[0] > first {
            assert!((row[1] - row[2]).abs() <= 2.0 * UNIT_NS_MAX, "total: {row:?}");
            assert!((row[3] - row[4]).abs() <= 2.0 * UNIT_NS_MAX, "execute: {row:?}");
            numbers.push(row[0] as u64);
        }
    }
    tracing.stop();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 2 * PAIRS, "each request has a number of its own");
}

/// Returns the number of entity requests in the account, and the sums of their phases in
/// nanoseconds.
fn accounted(client: &mut Client) -> (u64, Vec<f64>) {
    let snapshot: Snapshot = serde_json::from_value(client.get("/_admin/account").json()).unwrap();
    let entities = || snapshot.operations.iter().filter(|of| of.operation.starts_with("entity"));
    let names = ["receive", "parse", "route", "queue", "execute", "encode", "write"];
    let sum = |name: &str| {
        let of_phase = entities().map(|of| {
            let phase = of.phases.iter().find(|phase| phase.name == name).unwrap();
            phase.distribution.mean_ns * of.count as f64
        });
        of_phase.sum()
    };
    (entities().map(|of| of.count).sum(), names.map(sum).to_vec())
}

/// Checks that the nine columns add up, and that they agree with the built-in account.
fn the_nine_columns_of_the_study_agree_with_the_account(server: &TestServer) {
    let mut client = server.client();
    let (count_before, before) = accounted(&mut client);
    let tracing = BpftraceProcess::start(server, &script("phases.bt")).unwrap();
    tracing.await_attached(&mut client, 9).unwrap();
    send_mark(&mut client);
    let begun = Instant::now();
    while tracing.row(9)[1] < MARK_SEEN_NS {
        assert!(begun.elapsed() < PATIENCE, "the mark is told");
    }
    requests(&mut client);
    let rows: Vec<Vec<f64>> = (0..2 * PAIRS).map(|_| tracing.row(9)).collect();
    tracing.stop();
    for row in &rows {
        assert_eq!(row[2..8].iter().sum::<f64>(), row[8], "{row:?}");
    }
    let (count, after) = accounted(&mut client);
    assert_eq!(count - count_before, 2 * PAIRS as u64);
    for (column, (after, before)) in after.iter().zip(before).enumerate() {
        let seen: f64 = rows.iter().map(|row| row[column + 1]).sum();
        let (accounted, bound) = (after - before, UNIT_NS_MAX * rows.len() as f64);
        assert!((seen - accounted).abs() <= bound, "column {column}: {seen} and {accounted}");
    }
}

/// Sends a request slowly, so that its receive time identifies it.
fn send_mark(client: &mut Client) {
    let (begin, end) = ("GET /v0/status HTTP/1.1\r\nHo", "st: test\r\n\r\n");
    client.send(begin.as_bytes());
    client.socket.flush().unwrap();
    std::thread::sleep(MARK);
    client.send(end.as_bytes());
    assert_eq!(client.answer().status, 200);
}

fn the_histograms_are_printed_at_the_end(server: &TestServer, folder: &Path) {
    // The script prints nothing before its end. An added line shows when it is attached.
    let text = std::fs::read_to_string(script("histograms.bt")).unwrap();
    let copy = folder.join("histograms.bt");
    let more = "usdt:$1:pellucid:done { printf(\"%llu\\n\", arg3); }";
    std::fs::write(&copy, format!("{text}\n{more}\n")).unwrap();
    let tracing = BpftraceProcess::start(server, &copy).unwrap();
    let mut client = server.client();
    tracing.await_attached(&mut client, 1).unwrap();
    requests(&mut client);
    let printed = tracing.stop();
    for name in ["receive", "parse", "route", "execute", "encode", "write", "total"] {
        assert!(printed.contains(&format!("@{name}:")), "{name} in {printed}");
    }
}
