//! Whole runs of the load generator, in virtual time and over sockets.
#![allow(clippy::disallowed_types, reason = "a test's own locks are in no profile")]
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod accuracy;
mod knee;
mod loops;
mod scripts;
mod secure;
mod shapes;
mod sockets;
mod streams;
mod studies;
mod support;
