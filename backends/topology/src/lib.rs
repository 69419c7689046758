//! The mapping of keys to the nodes of a cluster.
//!
//! Servers and clients have to agree on the owner of a key without asking each other, for as long
//! as the data exists. So the rule has a crate of its own, without a store or a transport. Its
//! definition and examples are in docs/cluster.md, for implementations in other languages.

#![forbid(unsafe_code)]

mod hash;
mod list;
mod url;

pub use hash::{key_hash, node_seed, score};
pub use list::{NODES_MAX, NodeList};
pub use url::{NodeUrl, TopologyError, URL_BYTES_MAX};
