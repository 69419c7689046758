//! The entity API over HTTP, on the kind of store that the environment names.

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
