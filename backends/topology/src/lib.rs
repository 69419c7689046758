//! The node of a cluster that a key belongs to.
//!
//! Servers and clients have to agree on it without asking each other, for as long as there is data.
//! So the rule stands alone here, without a store or a transport around it, and its definition and
//! examples in docs/cluster.md are for those who write it in another language.

#![forbid(unsafe_code)]

mod hash;
mod list;
mod url;

pub use hash::{key_hash, node_seed, score};
pub use list::{NODES_MAX, NodeList};
pub use url::{NodeUrl, TopologyError, URL_BYTES_MAX};
