//! The progress of a run.

use std::time::Duration;

/// The news for the caller of a run while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The target is reachable and the script has begun; the first request goes out next.
    Ready,
    /// About once a second.
    Running {
        /// Since the first request.
        elapsed: Duration,
        /// Answers so far.
        requests: u64,
        /// Errors of all kinds so far.
        errors: u64,
    },
}
