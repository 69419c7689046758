//! The entity API on a sharded cluster: requests for keys of other nodes are forwarded, and those
//! that other nodes forward are served.
//!
//! Each event loop has its own connections to peers ([`pellucid_cluster::Peers`]), so a request
//! leaves and comes back on the loop that read it. docs/cluster.md has the whole.

mod forward;
mod links;
mod owner_parts;
mod page;
mod range;
mod serve;
mod start;

use pellucid_cluster::{Failure, OwnerAnswer};
use pellucid_http::{Handled, Response};
use pellucid_thread::HandedOver;

pub(crate) use forward::AskedWrite;
pub(crate) use links::Links;
pub(crate) use owner_parts::OwnerParts;
pub(crate) use page::views;
pub(crate) use serve::Served;
pub(crate) use start::join;

use crate::conditions::KeptConditions;
use crate::service::{Loop, WriteReply, begin_answer};

/// What an ask was for, until its answer comes.
pub(crate) enum Waiting {
    /// A GET, and its conditions.
    Get(Option<Box<KeptConditions>>),
    /// A HEAD, and its conditions.
    Head(Option<Box<KeptConditions>>),
    /// A write.
    Write(WriteReply),
}

/// What came of a forwarded request.
pub(crate) struct Brought {
    pub(crate) waiting: Waiting,
    /// Since it was forwarded.
    pub(crate) put_down: HandedOver,
    pub(crate) result: Result<OwnerAnswer, Failure>,
    /// The value, or why there is none.
    pub(crate) payload: Vec<u8>,
}

/// Refuses a call that needs documents, on a cluster.
pub(crate) fn no_documents(response: &mut Response<'_>, exchange: &mut Loop<'_>) -> Handled {
    crate::service::route(exchange, crate::names::Operation::About);
    let message = "documents are not there on a sharded cluster: this server was started with \
                   --cluster, which has the entity API alone";
    let body = serde_json::json!({
        "error": true, "code": 501, "errorNum": 9, "errorMessage": message,
    });
    begin_answer(response, exchange, 501, &[("Content-Type", b"application/json")]);
    response.finish(body.to_string().as_bytes());
    Handled::Done
}
