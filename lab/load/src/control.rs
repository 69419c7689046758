//! Control over a thread of a run: how it is ended, and how far it is.

use std::sync::atomic::{AtomicBool, AtomicU64};

/// The state that a thread shares with the one that waits for it, and with its script.
#[derive(Debug, Default)]
pub(crate) struct ThreadControl {
    /// Raised to end the thread.
    pub(crate) stop: AtomicBool,
    /// Answers so far, for the progress.
    pub(crate) requests: AtomicU64,
    /// Errors so far, for the progress.
    pub(crate) errors: AtomicU64,
}
