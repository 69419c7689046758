//! The entity API on a sharded cluster: forwards requests for keys that other nodes own, and serves
//! the requests that other nodes forward.
//!
//! Each event loop has its own connections to peers ([`pellucid_cluster::Peers`]), so a request is
//! sent and answered on the loop that read it. docs/cluster.md describes the design.

mod links;
mod merged_entries;
mod owner_parts;
mod owner_reply;
mod page;
mod range;
mod serve;
mod served_request;
mod start;

pub(crate) use links::Links;
use owner_parts::OwnerParts;
pub(crate) use owner_reply::OwnerReply;
pub(crate) use page::{PEER_FIGURES, cluster_document, views};
pub(crate) use range::merged_range;
pub(crate) use serve::Owner;
pub(crate) use served_request::ServedRequest;
pub(crate) use start::join;
