//! The store over Cassandra or ScyllaDB: where copies, failover and growth are wanted, Pellucid's
//! servers stand, without a state of their own, in front of an engine that thousands already run.
//!
//! What it promises, and what it does not, is in `docs/stores.md`. In short: a key lies with its
//! neighbours of one part of its table in one partition of the ring; versions are drawn from a
//! clock that never goes back, and are the sequence numbers; writes without conditions are plain
//! ones, and writes with conditions, and all writes to tables in parts, are lightweight
//! transactions.

#![forbid(unsafe_code)]

mod away;
mod conditional;
mod connect;
mod consistency;
mod entry;
mod error;
mod options;
mod parts;
mod place;
mod plain;
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
mod turns;
mod versions;

pub use options::{CqlOptions, CqlTls, Password};
pub use parts::NAMES as PART_NAMES;
pub use store::CqlStore;
