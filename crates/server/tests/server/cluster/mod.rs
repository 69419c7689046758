//! Servers that are nodes of a cluster.

#[allow(dead_code, reason = "other crates use other parts")]
#[path = "../../../../http/tests/common/h2_client.rs"]
mod h2_client;

mod attackers;
mod faults;
mod histories;
mod http2;
mod nodes;
mod sharded;
mod start;
mod trace;
