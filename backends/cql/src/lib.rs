//! The store over Cassandra or ScyllaDB, for replication, failover and growth: Pellucid's servers
//! have no state of their own, and stand in front of a database that many already run. This crate
//! calls that database the ring.
//!
//! `docs/stores.md` has its guarantees and limits. In short: all keys of one part of a table are in
//! one partition of the ring. Versions are drawn from a clock that never goes back, and serve as
//! sequence numbers. Writes without conditions are plain writes. Writes with conditions, and all
//! writes to tables in parts, are lightweight transactions.

#![forbid(unsafe_code)]

mod conditional_write;
mod connect;
mod consistency;
mod entry;
mod error;
mod options;
mod partition_locks;
mod partitioned_table;
mod parts;
mod plain_write;
mod read;
mod retry;
mod ring;
mod rows;
mod scan;
mod schema;
mod store;
mod tables;
mod traces;
mod tunnel;
mod unreachable_nodes;
mod versions;

pub use options::{CqlOptions, CqlTls, Password};
pub use parts::NAMES as PART_NAMES;
pub use store::CqlStore;
