//! Tests of the transport over real sockets, with a service that is made for them.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[path = "../common/mod.rs"]
mod common;

mod bodies;
mod gone_clients;
mod handshakes;
mod http2;
mod panics;
mod parts;
mod resets;
mod simultaneous_reads;
mod slow_readers;
mod tls;
mod transport;
mod unix;
