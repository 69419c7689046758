//! TLS: certificates that are reloaded while the server runs, and the sessions of connections.
//!
//! A session sits between a connection's socket and its buffers and owns no thread: it decrypts
//! right after the read and encrypts right before the write, so that the phases `receive` and
//! `write` hold what it costs. [`TlsFigures`] say how much of them it is in all, and each request
//! what lies within its own phases: what its connection had spent when they began is subtracted
//! from what it has when they end.

mod certificates;
mod figures;
mod session;

pub use certificates::{CertificateError, Certificates};
pub use figures::TlsFigures;
pub(crate) use figures::{TlsMeter, add};
pub(crate) use session::{Sent, Session, WIRE_BYTES_MAX};
