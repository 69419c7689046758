//! A sharded cluster as a store, for a program that is not a node of it.
//!
//! The program speaks the peer protocol as a guest ([`pellucid_cluster::GUEST`]): it asks each node
//! for the node's own keys, and no node forwards. One thread owns the connections. Callers of a
//! [`pellucid_store::Store`] may be on any thread, so they hand their requests to that thread, and
//! it delivers the answers. The event loops of a server own their connections and hand nothing over
//! (`server/cluster`). Both use the frames, connections, time limits, merged ranges, errors and
//! accounts of [`pellucid_cluster`].

#![forbid(unsafe_code)]

mod driver;
mod scan;
mod shared_state;
mod store;

pub use store::{ShardedOptions, ShardedStore};
