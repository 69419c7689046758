//! The view from outside: `bpftrace` reads the probes of a server with the script of the study, and
//! the result is compared with the server's account of the same requests.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pellucid_account::Distribution;
use pellucid_report::ChartSection;

use super::charts;
use super::client::{RunFigures, ServerProcess};
use super::figures::distribution;
use super::plan::{HAND_OVERS, Operation, ServerPlan, TRANSPORTS};
use crate::error::StudyError;
use crate::process::last_messages;

/// The script for `bpftrace`; it prints nine columns for each request, in nanoseconds.
const SCRIPT: &str = include_str!("../../../../studies/request-life/phases.bt");
/// The columns after the first, which is the time of the request.
const COLUMNS: [&str; 8] =
    ["receive", "parse", "route", "queue", "execute", "encode", "write", "total"];
/// The number of measured requests. It is small, because each probe is a trap into the kernel.
const REQUESTS: u64 = 2_000;
/// The number of requests in each attempt to see whether the probes are attached.
const CALLS: u64 = 20;
/// The longest wait for `bpftrace` to attach its probes.
const ATTACH_LIMIT: Duration = Duration::from_secs(30);
/// The silence after which the output of `bpftrace` counts as complete.
const SILENCE: Duration = Duration::from_millis(500);

/// The row of a request: nanoseconds in each column.
type Row = [u64; COLUMNS.len()];

/// The view of the probes on a run, beside its account.
pub(super) struct ProbeView {
    rows: Vec<Row>,
    /// The account of the same requests.
    pub(super) run: RunFigures,
}

/// Starts a server and traces requests over HTTP/1.1. The inner error is the reason that `bpftrace`
/// cannot trace on this machine.
pub(super) fn look(
    program: &[OsString],
    folder: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Result<ProbeView, String>, StudyError> {
    let script = folder.join("phases.bt");
    std::fs::write(&script, SCRIPT).map_err(|error| StudyError::file("write", &script, error))?;
    let data = folder.join("outside");
    let plan = ServerPlan { data, transport: TRANSPORTS[0], hand_over: HAND_OVERS[0] };
    let mut server = ServerProcess::start(program, plan)?;
    let seen = look_at(&mut server, &program[0], &script)?;
    server.stop()?;
    match &seen {
        Ok(view) => say(&format!("  {} requests seen by their probes", view.rows.len())),
        Err(why) => say(&format!("  not drawn: {why}")),
    }
    Ok(seen)
}

fn look_at(
    server: &mut ServerProcess,
    program: &OsString,
    script: &Path,
) -> Result<Result<ProbeView, String>, StudyError> {
    let mut tracer = match Tracer::start(server.id(), program, script) {
        Ok(tracer) => tracer,
        Err(why) => return Ok(Err(why)),
    };
    let begun = Instant::now();
    while tracer.rows().is_empty() {
        if let Some(why) = tracer.ended() {
            return Ok(Err(why));
        }
        if begun.elapsed() > ATTACH_LIMIT {
            let seconds = ATTACH_LIMIT.as_secs();
            return Ok(Err(format!("bpftrace saw no request within {seconds} s")));
        }
        server.send(Operation::Version, CALLS)?;
    }
    let run = server.measure(Operation::Version, REQUESTS, 1)?;
    let mut rows = tracer.rows();
    // Drop the requests of the warm-up, which were traced too.
    let first = rows.len().saturating_sub(REQUESTS as usize);
    rows.drain(..first);
    Ok(if rows.is_empty() {
        Err("bpftrace showed no request".to_owned())
    } else {
        Ok(ProbeView { rows, run })
    })
}

/// A running `bpftrace` that traces a process.
struct Tracer {
    child: Child,
    lines: Receiver<String>,
    messages: Option<JoinHandle<String>>,
    has_ended: bool,
}

impl Tracer {
    fn start(id: u32, program: &OsString, script: &Path) -> Result<Tracer, String> {
        let mut child = Command::new("bpftrace")
            .args(["-B", "line", "-p", &id.to_string()])
            .arg(script)
            .arg(program)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("bpftrace does not start: {error}"))?;
        let output = child.stdout.take().ok_or("bpftrace has no output")?;
        let messages = child.stderr.take().map(last_messages);
        let (sender, lines) = channel();
        // The thread ends at the end of the output, when the child ends.
        std::thread::spawn(move || {
            let mut lines = BufReader::new(output).lines().map_while(Result::ok);
            lines.try_for_each(|line| sender.send(line))
        });
        Ok(Tracer { child, lines, messages, has_ended: false })
    }

    /// Reads the rows of requests until the output is silent for [`SILENCE`].
    fn rows(&mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        loop {
            match self.lines.recv_timeout(SILENCE) {
                Ok(line) => rows.extend(row(&line)),
                Err(RecvTimeoutError::Timeout) => return rows,
                Err(RecvTimeoutError::Disconnected) => {
                    self.has_ended = true;
                    return rows;
                }
            }
        }
    }

    /// The reason if `bpftrace` has ended, for example because it is not root, or the kernel does
    /// not allow it.
    fn ended(&mut self) -> Option<String> {
        if !self.has_ended {
            return None;
        }
        let messages = self.messages.take().and_then(|messages| messages.join().ok());
        let text = messages.unwrap_or_default();
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        Some(format!("bpftrace ended: {}", line.unwrap_or("without a word").trim()))
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // Both fail only if the child has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parses the columns of a line; `None` if it is not the line of a request.
fn row(line: &str) -> Option<Row> {
    let mut words = line.split_whitespace().map(|word| word.parse().ok());
    words.next()??;
    let mut row = Row::default();
    for column in &mut row {
        *column = words.next()??;
    }
    words.next().is_none().then_some(row)
}

impl ProbeView {
    fn column(&self, name: &str) -> Distribution {
        let at = COLUMNS.iter().position(|column| *column == name).unwrap_or(COLUMNS.len() - 1);
        distribution(self.rows.iter().map(|row| row[at]).collect())
    }

    /// The account's figures for a column.
    fn accounted(&self, name: &str) -> &Distribution {
        if name == "total" { &self.run.server.total } else { self.run.server.phase(name) }
    }

    /// The section of the report. `untraced` is a run without `bpftrace`.
    pub(super) fn section(&self, untraced: Option<&RunFigures>) -> ChartSection {
        let us = |ns: u64| format!("{:.1} µs", ns as f64 / 1e3);
        let traced = us(self.run.server.total.p50_ns);
        let cost = untraced.map_or(String::new(), |run| {
            let without = us(run.server.total.p50_ns);
            format!(" While they are read, the median of the total is {traced}; else {without}.")
        });
        let rows = COLUMNS.map(|name| (name, self.column(name), self.accounted(name).clone()));
        ChartSection::new(
            "From outside",
            format!(
                "The probes of the server, read by bpftrace, as the original did it, beside the \
                 server's own account: {} of {REQUESTS} requests, {}.{cost}",
                self.rows.len(),
                self.run.key.title()
            ),
            vec![charts::outside(&rows)],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_requests_are_told_from_others() {
        assert_eq!(row("9 1 2 3 4 5 6 7 8"), Some([1, 2, 3, 4, 5, 6, 7, 8]));
        for line in [
            "",
            "time receive parse route queue execute encode write total",
            "Attaching 9 probes...",
            "9 1 2 3 4 5 6 7",
            "9 1 2 3 4 5 6 7 8 9",
            "9 1 2 3 -4 5 6 7 8",
        ] {
            assert_eq!(row(line), None, "{line}");
        }
    }
}
