//! The document API over HTTP, on the kind of store that the environment asks for.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[path = "../common/mod.rs"]
mod common;

mod again;
mod bad_input;
mod conflicts;
mod crud;
mod golden;
mod limits;
mod queries;
mod refused;
mod rights;
mod users;
