//! The outcome of waiting for a write to become durable.

use pellucid_clock::Ticks;

use crate::error::Result;

/// The times of the sync that made a write durable, on the engine's clock. If the write was durable
/// before the call, both are the time of the call, and the job is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncTimes {
    /// The beginning of the sync: the time from the write until then is the wait for the group.
    pub begun: Ticks,
    /// The end of the sync.
    pub ended: Ticks,
    /// The number of the sync among the background jobs ([`crate::Engine::activity`]).
    pub job: u64,
}

/// A callback that is called once a write is durable, or once it cannot become durable any more.
pub type DurableCallback = Box<dyn FnOnce(Result<SyncTimes>) + Send>;
