//! The USDT probes of a running server, looked at by `bpftrace` with the scripts that come with it.
//!
//! It needs root and a kernel that lets root trace; elsewhere there is nothing to test. Where root
//! could trace and only the tool is missing, the test fails and says so.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use common::{Serving, entity};
use pellucid_account::Snapshot;
use tempfile::TempDir;

/// Requests of each test: pairs of PUT and GET.
const PAIRS: usize = 100;
/// What a record's unit may take from each border of a phase: eight ticks of at least 0.5 GHz.
const UNIT_NS_MAX: f64 = 16.0;

/// How long a line may take that has to come.
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests that are seen come so soon after each other; when none has come for as long, all have.
const SILENCE: Duration = Duration::from_millis(500);
/// The longest that a script is given to be attached before it is ended, in rounds of requests.
const ROUNDS_MAX: usize = 64;

/// Whether `bpftrace` can trace here; fails where only the tool is missing.
fn can_trace() -> bool {
    // SAFETY: the call has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return false;
    }
    let tried = Command::new("bpftrace").args(["-e", "BEGIN { exit(); }"]).output();
    match tried {
        Ok(output) => output.status.success(),
        Err(error) => {
            panic!("bpftrace cannot be run ({error}): install the package `bpftrace`")
        }
    }
}

/// `bpftrace` on a server, with one of the scripts.
struct Tracing {
    child: Child,
    lines: Receiver<String>,
}

impl Tracing {
    fn start(server: &Serving, script: &str) -> Tracing {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../studies/request-life");
        let mut child = Command::new("bpftrace")
            .args(["-B", "line", "-p", &server.id().to_string()])
            .arg(folder.join(script))
            .arg(env!("CARGO_BIN_EXE_pellucid"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        // It ends with the output, which ends with the child.
        std::thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Tracing { child, lines }
    }

    /// The next line that has `columns` numbers, if one comes in time.
    fn row_within(&self, columns: usize, time: Duration) -> Option<Vec<f64>> {
        loop {
            let line = match self.lines.recv_timeout(time) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => panic!("bpftrace ended early"),
            };
            let words: Option<Vec<f64>> =
                line.split_whitespace().map(|word| word.parse().ok()).collect();
            if let Some(row) = words.filter(|row| row.len() == columns) {
                return Some(row);
            }
        }
    }

    fn row(&self, columns: usize) -> Vec<f64> {
        self.row_within(columns, PATIENCE).expect("each request is told")
    }

    /// Sends requests until they are seen: it does not say when its probes are attached.
    fn await_attached(&self, server: &Serving, columns: usize) {
        let mut client = server.client();
        let is_seen = (0..ROUNDS_MAX * 4).any(|_| {
            assert_eq!(client.get("/v0/status").status, 200);
            self.row_within(columns, SILENCE).is_some()
        });
        assert!(is_seen, "no request was seen");
        while self.row_within(columns, SILENCE).is_some() {}
    }

    /// Ends it, and returns what it says last.
    fn stop(mut self) -> String {
        let id = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: a signal to a child that was not waited for reaches no other process.
        assert_eq!(unsafe { libc::kill(id, libc::SIGINT) }, 0);
        let rest: Vec<String> = self.lines.iter().collect();
        self.child.wait().unwrap();
        rest.join("\n")
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn requests(server: &Serving) {
    let mut client = server.client();
    for number in 0..PAIRS {
        let target = entity(format!("key-{number}"));
        assert_eq!(client.put(&target, "value").status, 201);
        assert_eq!(client.get(&target).status, 200);
    }
}

/// The nine columns add up, and their means are those of the built-in account.
#[test]
fn the_nine_columns_of_the_study_agree_with_the_account() {
    if !can_trace() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let server = Serving::start(folder.path(), &[]);
    let tracing = Tracing::start(&server, "phases.bt");
    tracing.await_attached(&server, 9);
    requests(&server);
    let rows: Vec<Vec<f64>> = (0..2 * PAIRS).map(|_| tracing.row(9)).collect();
    tracing.stop();
    for row in &rows {
        assert_eq!(row[2..8].iter().sum::<f64>(), row[8], "{row:?}");
    }
    let answer = server.client().get("/_admin/account");
    let snapshot: Snapshot = serde_json::from_value(answer.json()).unwrap();
    let entities = || snapshot.operations.iter().filter(|of| of.operation.starts_with("entity"));
    assert_eq!(entities().map(|of| of.count).sum::<u64>(), 2 * PAIRS as u64);
    let names = ["receive", "parse", "route", "queue", "execute", "encode", "write"];
    for (column, name) in names.into_iter().enumerate() {
        let seen: f64 = rows.iter().map(|row| row[column + 1]).sum();
        let of_phase = entities().map(|of| {
            let phase = of.phases.iter().find(|phase| phase.name == name).unwrap();
            phase.distribution.mean_ns * of.count as f64
        });
        let accounted: f64 = of_phase.sum();
        let bound = UNIT_NS_MAX * rows.len() as f64;
        assert!((seen - accounted).abs() <= bound, "{name}: {seen} and {accounted}");
    }
}

/// Request by request, total and `execute` of the probes are those of the records.
#[test]
fn each_request_is_told_alike_by_the_probes_and_by_its_record() {
    if !can_trace() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let server = Serving::start(folder.path(), &[]);
    let tracing = Tracing::start(&server, "agreement.bt");
    tracing.await_attached(&server, 5);
    requests(&server);
    let rows: Vec<Vec<f64>> = (0..2 * PAIRS).map(|_| tracing.row(5)).collect();
    tracing.stop();
    for row in &rows {
        assert!((row[1] - row[2]).abs() <= 2.0 * UNIT_NS_MAX, "total: {row:?}");
        assert!((row[3] - row[4]).abs() <= 2.0 * UNIT_NS_MAX, "execute: {row:?}");
    }
    let mut numbers: Vec<u64> = rows.iter().map(|row| row[0] as u64).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 2 * PAIRS, "each request has a number of its own");
}

#[test]
fn the_histograms_are_printed_at_the_end() {
    if !can_trace() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let server = Serving::start(folder.path(), &[]);
    // It says nothing before its end, so it is given longer until it has seen something.
    let mut rounds = 1;
    let printed = loop {
        let tracing = Tracing::start(&server, "histograms.bt");
        for _ in 0..rounds {
            std::thread::sleep(SILENCE);
            requests(&server);
        }
        let printed = tracing.stop();
        if printed.contains("@total:") || rounds >= ROUNDS_MAX {
            break printed;
        }
        rounds *= 2;
    };
    for name in ["receive", "parse", "route", "execute", "encode", "write", "total"] {
        assert!(printed.contains(&format!("@{name}:")), "{name} in {printed}");
    }
}
