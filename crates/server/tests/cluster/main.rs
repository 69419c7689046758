//! Servers that are nodes of a cluster.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
#![allow(clippy::disallowed_types, reason = "a test's own locks are in no profile")]

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, reason = "other crates use other parts")]
#[path = "../../../http/tests/common/h2_client.rs"]
mod h2_client;

mod attackers;
mod faults;
mod histories;
mod http2;
mod nodes;
mod sharded;
mod start;
mod trace;
