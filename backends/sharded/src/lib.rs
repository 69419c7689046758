//! The kind of store that lies on the nodes of a sharded cluster: for a program that is no node
//! itself, and reads and writes through the same interface as any other store.
//!
//! It speaks the peer protocol as a guest ([`pellucid_cluster::GUEST`]), so each node is asked for
//! what is its own, and nothing is forwarded. One thread has the connections, and answers come on
//! it: callers of a [`pellucid_store::Store`] may be on any thread, so a hand-over is what there
//! has to be here. The event loops of a server have their connections themselves and no hand-over
//! (`server/cluster`); frames, connections, time limits, the merging of ranges and the terms of
//! errors and of the account are the same code, in [`pellucid_cluster`].

#![forbid(unsafe_code)]

mod driver;
mod inner;
mod scan;
mod store;

pub use store::{ShardedOptions, ShardedStore};
