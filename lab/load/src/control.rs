//! The shared state of a thread of a run: the flag that stops it, and its progress.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// The state that a thread shares with the crew that waits for it, and with its script.
#[derive(Debug, Default)]
pub(crate) struct ThreadControl {
    /// Set to end the thread.
    pub(crate) stop: AtomicBool,
    /// Answers so far, for the progress.
    pub(crate) requests: AtomicU64,
    /// Errors so far, for the progress.
    pub(crate) errors: AtomicU64,
}
