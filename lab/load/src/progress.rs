//! The progress of a run.

use std::time::Duration;

/// A progress report for the caller of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The target is reachable and the script has begun; the first request goes out next.
    Ready,
    /// The run is in progress; reported about once a second.
    Running {
        /// The time since the start.
        elapsed: Duration,
        /// Answers so far.
        requests: u64,
        /// Errors of all kinds so far.
        errors: u64,
    },
}
