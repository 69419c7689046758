//! The outcome of waiting for a write to become durable.

use pellucid_clock::Ticks;

use crate::error::Result;

/// When the sync that made a write durable began and ended, on the engine's clock. Zero ticks if
/// the write was durable before anybody asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncTimes {
    /// The beginning: the time from the write to here is the wait for the group.
    pub begun: Ticks,
    /// The end.
    pub ended: Ticks,
    /// Its number among the background jobs ([`crate::Engine::activity`]).
    pub job: u64,
}

/// Called once a write is durable, or cannot become durable any more.
pub type DurableCallback = Box<dyn FnOnce(Result<SyncTimes>) + Send>;
