//! Results of peers' requests that another thread has served, on their way back to the event loop.

use pellucid_account::{InFlightGuard, RequestFacts, Timeline};
use pellucid_cluster::{AnswerStatus, CallerId};
use pellucid_store::{DeliveredAnswer, Head, Object, WriteOutcome};

/// The result of a peer's request.
pub(super) enum AskResult {
    Object(Option<Object>),
    Head(Option<Head>),
    Written(WriteOutcome),
    /// A page of a range, and true if it is the last page.
    Page(Vec<u8>, bool),
    /// A refusal and its reason.
    Refused(AnswerStatus, String),
}

/// A peer's request with the result that another thread has made.
pub(crate) struct ServedRequest {
    pub(super) caller: CallerId,
    pub(super) id: u64,
    pub(super) timeline: Timeline,
    pub(super) facts: RequestFacts,
    pub(super) flight: InFlightGuard,
    pub(super) arrival: DeliveredAnswer<AskResult>,
}
