//! A client of a Pellucid server, or of a sharded cluster. It gets the list of nodes from any node,
//! and sends each request directly to the owner of the key, so that no node has to forward it.
//!
//! The client is blocking and small: one connection to each node, one request at a time. A node
//! that receives a request for another node's key forwards it, so an outdated list costs time, but
//! never correctness.
//!
//! ```no_run
//! let mut client = pellucid_client::Client::connect("http://127.0.0.1:8080")?;
//! client.put(b"key", b"value")?;
//! assert_eq!(client.get(b"key")?.as_deref(), Some(b"value".as_slice()));
//! # Ok::<(), pellucid_client::ClientError>(())
//! ```

#![forbid(unsafe_code)]

/// The program of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod client;
mod connection;
mod error;
pub mod http;
mod options;
mod request_router;
mod topology;

pub use client::Client;
pub use error::ClientError;
pub use options::{ClientOptions, Credentials};
pub use request_router::RequestRouter;
pub use topology::{topology, topology_with};
