//! Servers over real sockets. `entities` and `documents` run on the kind of store that the
//! environment names.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
#![allow(clippy::disallowed_types, reason = "a test's own locks are in no profile")]

#[path = "../common/mod.rs"]
mod common;

mod cluster;
mod documents;
mod embedded;
mod entities;
