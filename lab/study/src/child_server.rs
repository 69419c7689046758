//! A server in a child process, both the side of the child and that of the study. The study writes
//! a line for each request, and the child answers with a line.
//!
//! The first line is the plan of the server; the answer is its address. [`answer_to`] handles all
//! later lines.

use std::ffi::OsString;
use std::io::{BufRead, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pellucid_account::{OperationAccount, Snapshot};
use pellucid_server::{Log, RunningServer, ServerOptions, start};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StudyError;
use crate::jobs::{JobSpan, of_account, running};
use crate::proc::ProcessFigures;
use crate::process::Process;
use crate::profile_recording::{ProfileRecording, RecordedProfiles};

/// Limit of a plan in bytes.
const PLAN_BYTES_MAX: u64 = 1 << 20;
/// The longest wait for a store to come to rest.
const REST_MAX: Duration = Duration::from_secs(60);
/// The number of consecutive checks without background jobs after which a store is at rest.
const RESTS: u32 = 5;
/// The pause between two such checks.
const REST_PAUSE: Duration = Duration::from_millis(50);

fn failed(error: impl std::fmt::Display) -> StudyError {
    StudyError::Step(format!("the server's process: {error}"))
}

/// The study's side: a server process that it has started.
pub(crate) struct ChildServer {
    process: Process,
    address: SocketAddr,
}

impl ChildServer {
    /// Starts a server with this plan. `what` names it in messages.
    pub(crate) fn start(
        what: &'static str,
        program: &[OsString],
        plan: &impl Serialize,
    ) -> Result<ChildServer, StudyError> {
        let (process, address) = Process::serving(what, program, plan)?;
        Ok(ChildServer { process, address })
    }

    /// The process ID.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL, without a trailing slash.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The resources that the process has used so far.
    pub(crate) fn figures(&mut self) -> Result<ProcessFigures, StudyError> {
        self.ask("figures")
    }

    /// The server's accounts for the last `seconds`.
    pub(crate) fn account(&mut self, seconds: u64) -> Result<Vec<OperationAccount>, StudyError> {
        let snapshot: Snapshot = self.ask(&format!("account {seconds}"))?;
        Ok(snapshot.operations)
    }

    /// The background jobs of the last `seconds` in the server's account.
    pub(crate) fn jobs(&mut self, seconds: u64) -> Result<Vec<JobSpan>, StudyError> {
        self.ask(&format!("jobs {seconds}"))
    }

    /// Waits until no background job runs; false if one still does after a minute.
    pub(crate) fn rest(&mut self) -> Result<bool, StudyError> {
        self.ask("rest")
    }

    /// The number of keys of the entity API in its own store, counted one by one.
    pub(crate) fn count(&mut self) -> Result<u64, StudyError> {
        self.ask("count")
    }

    /// Starts to profile processor time (with `hertz` samples per second of it), allocations and
    /// waits.
    pub(crate) fn profile(&mut self, hertz: u32) -> Result<(), StudyError> {
        self.ask(&format!("profile {hertz}"))
    }

    /// Ends the profiling, and returns the profiles.
    pub(crate) fn profiles(&mut self) -> Result<RecordedProfiles, StudyError> {
        self.ask("profiles")
    }

    /// Stops the server cleanly.
    pub(crate) fn stop(self) -> Result<(), StudyError> {
        self.process.stop()
    }

    /// Sends a line, and parses the JSON that answers it.
    pub(crate) fn ask<T: DeserializeOwned>(&mut self, line: &str) -> Result<T, StudyError> {
        serde_json::from_str(&self.process.ask(line)?).map_err(failed)
    }
}

/// The child's side: reads the plan, runs a server with the options that `options` derives from it,
/// and answers lines until the input ends.
///
/// # Errors
/// If the server does not start or stop, or a line of the input is invalid.
pub(crate) fn serve<Plan: DeserializeOwned>(
    mut input: impl BufRead,
    output: impl Write,
    options: impl FnOnce(Plan) -> Result<ServerOptions, StudyError>,
) -> Result<(), StudyError> {
    let plan = plan_of(&mut input)?;
    let server = start(options(plan)?, Log::of_process()).map_err(failed)?;
    answer_lines(server, input, output, |_| Ok(None))
}

/// Reads the plan, which is the first line of the input.
pub(crate) fn plan_of<Plan: DeserializeOwned>(
    input: &mut impl BufRead,
) -> Result<Plan, StudyError> {
    let mut line = String::new();
    input.take(PLAN_BYTES_MAX).read_line(&mut line).map_err(failed)?;
    serde_json::from_str(&line)
        .map_err(|error| StudyError::Step(format!("the plan cannot be read: {error}")))
}

/// Writes the address of the server, and answers lines until the input ends; then stops the server.
/// `own` answers the lines of the study; it returns `None` for those of all studies.
///
/// # Errors
/// If the server does not stop, or a line of the input is invalid.
pub(crate) fn answer_lines(
    server: RunningServer,
    input: impl BufRead,
    mut output: impl Write,
    own: impl Fn(&str) -> Result<Option<String>, StudyError>,
) -> Result<(), StudyError> {
    let mut answer =
        |text: String| writeln!(output, "{text}").and_then(|()| output.flush()).map_err(failed);
    answer(server.addresses()[0].to_string())?;
    let mut profiled = None;
    for line in input.lines() {
        let line = line.map_err(failed)?;
        answer(match own(&line)? {
            Some(text) => text,
            None => answer_to(&line, &server, &mut profiled)?,
        })?;
    }
    server.stop().map_err(failed)
}

fn answer_to(
    line: &str,
    server: &RunningServer,
    profiled: &mut Option<ProfileRecording>,
) -> Result<String, StudyError> {
    let account = server.account();
    let seconds = |text: &str| text.parse::<u64>().map_err(failed);
    let answer = match line.split_once(' ').unwrap_or((line, "")) {
        ("figures", _) => serde_json::to_string(&ProcessFigures::now()),
        ("account", text) => serde_json::to_string(&account.snapshot(Some(seconds(text)?))),
        ("jobs", text) => serde_json::to_string(&of_account(&account, seconds(text)?)),
        ("rest", _) => serde_json::to_string(&rest(server)),
        ("count", _) => serde_json::to_string(&server.count_entities().map_err(failed)?),
        ("profile", hertz) => {
            *profiled = Some(ProfileRecording::begin(hertz.parse().map_err(failed)?));
            serde_json::to_string(&())
        }
        ("profiles", _) => {
            let begun = profiled.take().ok_or_else(|| failed("`profiles` comes after `profile`"));
            serde_json::to_string(&begun?.end(account.names().operations))
        }
        _ => return Err(failed(format!("`{line}` is nothing to do"))),
    };
    answer.map_err(failed)
}

/// Waits until the store has no flushes and merges; returns false if that takes longer than
/// [`REST_MAX`]. A store whose jobs are not in the account has their number in its figures.
fn rest(server: &RunningServer) -> bool {
    let begun = Instant::now();
    let mut rests = 0;
    while begun.elapsed() < REST_MAX {
        let figures = server.store_figures();
        let told = figures.iter().filter(|(name, _)| name.contains("_running_"));
        let all = told.map(|(_, number)| number).sum::<u64>() + running(&server.account());
        rests = if all == 0 { rests + 1 } else { 0 };
        if rests == RESTS {
            return true;
        }
        std::thread::sleep(REST_PAUSE);
    }
    false
}
