//! Checks that `--find-max` finds the capacity of a server over real sockets. The server runs in
//! this process and answers at an exact rate. The tests of the command check the same in virtual
//! time.

#![allow(clippy::disallowed_types, reason = "a benchmark's own locks are in no profile")]

use std::sync::Mutex;
use std::time::Duration;

use crate::RunSettings;
use crate::accuracy::{RecordingServer, locked};
use crate::bars::{Bar, judge};

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
    let mut arguments = vec!["--find-max", "--slo", OBJECTIVE];
    arguments.extend((effort.runs <= QUICK_RUNS_MAX).then_some("--quick"));
    let result = server.load(16, &arguments)?;
    let found = result["found_per_second"].as_array().into_iter().flatten();
    let found: Vec<f64> = found.filter_map(serde_json::Value::as_f64).collect();
    let capacity = 1.0 / SLOT.as_secs_f64();
    println!("a server that answers {capacity:.0} requests a second was found to hold {found:.0?}");
    let away: Vec<f64> = found.iter().map(|rate| (rate / capacity - 1.0).abs()).collect();
    Ok(judge("load_find_max_from_capacity", &away, Bar::AtMost(DEVIATION_AT_MOST)))
}
