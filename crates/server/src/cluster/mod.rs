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
use pellucid_http::{Handled, Request, Response};
use pellucid_thread::HandedOver;

pub(crate) use forward::AskedWrite;
pub(crate) use links::Links;
pub(crate) use owner_parts::OwnerParts;
pub(crate) use page::views;
pub(crate) use serve::Served;
pub(crate) use start::join;

use crate::conditions::KeptConditions;
use crate::service::{Api, Loop, WriteReply, begin_answer};

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

/// Whether a path of the document API works on a cluster: whatever is not about documents.
fn works_on_cluster(path: &str) -> bool {
    let within = match path.strip_prefix("/_db/").and_then(|rest| rest.split_once('/')) {
        Some((_, rest)) => rest,
        None => path.trim_start_matches('/'),
    };
    let begins = |name: &&str| within == *name || within.starts_with(&format!("{name}/"));
    ["_open", "_admin", "_api/version", "_api/user", "_api/token", "_api/engine"].iter().any(begins)
}

impl Api {
    /// Refuses a call to the document API that needs documents, on a cluster.
    pub(crate) fn refuse_documents(
        &self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Option<Handled> {
        if self.shared.cluster.is_none() || works_on_cluster(request.path) {
            return None;
        }
        crate::service::route(exchange, crate::names::Operation::About);
        let message = "documents are not there on a sharded cluster: this server was started with \
                       --cluster, which has the entity API alone";
        let body = serde_json::json!({
            "error": true, "code": 501, "errorNum": 9, "errorMessage": message,
        });
        begin_answer(response, exchange, 501, &[("Content-Type", b"application/json")]);
        response.finish(body.to_string().as_bytes());
        Some(Handled::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_about_documents_works() {
        for path in ["/_open/auth", "/_api/version", "/_db/_system/_api/version", "/_admin/time"] {
            assert!(works_on_cluster(path), "{path}");
        }
        for path in ["/_api/document/c/1", "/_db/x/_api/cursor", "/_api/versions", "/_api/index"] {
            assert!(!works_on_cluster(path), "{path}");
        }
    }
}
