//! Peers' requests that another thread has answered, on their way back to their event loop.

use pellucid_account::{Flight, RequestFacts, Timeline};
use pellucid_cluster::{AnswerStatus, CallerId};
use pellucid_store::{Arrival, Head, Object, Written};

/// The answer to a peer.
pub(super) enum AskResult {
    Object(Option<Object>),
    Head(Option<Head>),
    Written(Written),
    /// A page of a range, and whether it is the last.
    Page(Vec<u8>, bool),
    /// A refusal, and its reason.
    Refused(AnswerStatus, String),
}

/// See the module.
pub(crate) struct Served {
    pub(super) caller: CallerId,
    pub(super) id: u64,
    pub(super) timeline: Timeline,
    pub(super) facts: RequestFacts,
    pub(super) flight: Flight,
    pub(super) arrival: Arrival<AskResult>,
}
