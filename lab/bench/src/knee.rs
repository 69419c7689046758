//! Checks that `--find-max` finds the capacity of a server over real sockets. The server runs in
//! this process and answers at an exact rate. The tests of the command check the same in virtual
//! time.

#![allow(clippy::disallowed_types, reason = "a benchmark's own locks are in no profile")]

use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use crate::RunSettings;
use crate::accuracy::{RecordingServer, locked};
use crate::bars::{Bar, judge};
use crate::peers::{pellucid, text};

/// The interval between two answers, which sets the capacity.
const SLOT: Duration = Duration::from_millis(2);
/// The objective of the search. Above the capacity, every objective is missed sooner or later; this
/// one leaves room for the machine's own pauses.
const OBJECTIVE: &str = "p90=50ms";
/// The greatest deviation of the rate from the capacity, as a share of the capacity.
const DEVIATION_AT_MOST: f64 = 0.05;
/// With at most so many runs, the search is a quick one, which finds a rate only once.
const QUICK_RUNS_MAX: usize = 3;

/// Starts a server in which each answer waits for a slot of its own.
fn slots() -> Result<RecordingServer, String> {
    let next = Mutex::new(Duration::ZERO);
    RecordingServer::start(move |_, since| {
        let mut next = locked(&next);
        let slot = since.max(*next);
        *next = slot + SLOT;
        slot - since
    })
}

/// Runs the search; returns true if the rate that it found is near the capacity.
pub fn run(effort: RunSettings) -> Result<bool, String> {
    let server = slots()?;
    let flags = ["load", "-t", "1", "-c", "16", "--find-max", "--slo", OBJECTIVE, "--json"];
    let quick = (effort.runs <= QUICK_RUNS_MAX).then_some("--quick");
    let output = Command::new(pellucid())
        .args(flags.into_iter().chain(quick).chain([server.url.as_str()]))
        .output()
        .map_err(text)?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(text)?;
    let found = result["found_per_second"].as_array().into_iter().flatten();
    let found: Vec<f64> = found.filter_map(serde_json::Value::as_f64).collect();
    let capacity = 1.0 / SLOT.as_secs_f64();
    println!("a server that answers {capacity:.0} requests a second was found to hold {found:.0?}");
    let away: Vec<f64> = found.iter().map(|rate| (rate / capacity - 1.0).abs()).collect();
    Ok(judge("load_find_max_from_capacity", &away, Bar::AtMost(DEVIATION_AT_MOST)))
}
