//! The entity API over HTTP, on the kind of store that the environment names.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
#![allow(clippy::disallowed_types, reason = "a test's own locks are in no profile")]

#[path = "../common/mod.rs"]
mod common;

mod access;
mod api;
mod bad_input;
mod batch;
mod compression;
mod conditions;
mod histories;
mod http_cases;
mod multi_get;
mod ranges;
mod tables;
