//! The server of Pellucid: its APIs, on top of the transport and the store.
//!
//! [`start`] opens the store before it listens, so that a client that can connect can be served.
//! The entity API is in `entities`, the document API in `documents`, the server's own pages in
//! `admin`, and the communication with other nodes of a cluster in `cluster`. Their handlers take
//! requests and return values (`answer`, `reply`). Each event loop has a `service`, which finds the
//! handler in the table of `routes` and writes the reply.

#![forbid(unsafe_code)]

pub mod access;
mod admin;
mod answer;
mod certificates;
mod changes;
mod cluster;
mod descriptors;
mod documents;
mod engine_log;
mod engine_metrics;
mod engine_page;
mod entities;
mod exposure;
mod gate;
#[cfg(test)]
mod isolated_process;
mod keys;
mod line_limit;
mod log;
mod metrics;
mod names;
mod observer;
mod openapi;
mod page_thread;
mod panics;
mod places;
mod process;
mod profiles;
mod query;
mod reply;
mod reporter;
#[doc(hidden)]
pub mod route_views;
mod routes;
mod run;
mod server_error;
mod service;
mod timing;

pub use documents::DocumentSettings;
pub use engine_log::ENGINE_TARGET;
pub use engine_page::document as engine_document;
pub use entities::is_entity_table;
pub use exposure::Exposure;
pub use log::Log;
pub use pellucid_account::Accounting;
pub use pellucid_cluster::{
    ClusterOptions, IN_FLIGHT_DEFAULT as CLUSTER_IN_FLIGHT_DEFAULT,
    WAIT_DEFAULT as CLUSTER_WAIT_DEFAULT,
};
#[cfg(feature = "cql")]
pub use pellucid_cql::{CqlOptions, CqlStore, CqlTls, Password as CqlPassword};
pub use pellucid_document::STORE_TIMEOUT_MAX;
pub use pellucid_embedded::EmbeddedOptions;
pub use pellucid_http::{HEADERS_MAX, Limits, ListenAddress};
#[cfg(feature = "rocksdb")]
pub use pellucid_rocksdb::{RocksOptions, RocksStore};
pub use pellucid_store::{Acknowledgement, HandOverPolicy};
pub use pellucid_topology::{NodeList, NodeUrl, TopologyError};
pub use process::ProcessFigures;
pub use reporter::TraceCollector;
pub use run::{
    DOCUMENTS_TABLE, ENTITIES_TABLE, RunningServer, ServerOptions, StoreKind, TlsFiles, start,
    start_on,
};
pub use server_error::ServerError;
