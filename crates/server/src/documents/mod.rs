//! The document API. It is ArangoDB's HTTP API, so that ArangoDB's drivers work unchanged.
//!
//! Calls for single documents, and those that only read the catalogue, are answered on the event
//! loop, like calls of the entity API. All others go to a pool of worker threads ([`pool`]), and
//! their replies return through the event loop's mailbox.

mod api;
mod array;
mod authorization;
mod backups;
mod call;
mod collections;
mod completion;
mod control;
mod cursor;
mod cursors;
mod dispatch;
mod document;
mod encoding;
mod import;
mod indexes;
mod memory;
mod owner;
mod pool;
mod query_calls;
mod query_extra;
mod query_request;
mod query_runner;
mod reply;
mod running_queries;
mod server_info;
mod settings;
mod slow_queries;
mod unimplemented;
mod upkeep;
mod users;
mod worker_call;
mod write_request;

pub(crate) use api::DocumentApi;
pub(crate) use cursors::{CursorFigures, Cursors};
pub(crate) use dispatch::{call, log_in, no_route, preflight};
pub(crate) use memory::request_memory_default;
pub(crate) use pool::QUEUED_CALLS_MAX;
pub use settings::DocumentSettings;
pub(crate) use slow_queries::{SlowQueries, SlowQuery};
