//! TLS: certificates that are reloaded while the server runs, and the sessions of connections.
//!
//! A session sits between a connection's socket and its buffers and owns no thread. It decrypts
//! right after the read and encrypts right before the write, so that its cost is part of the phases
//! `receive` and `write`. [`TlsFigures`] have the sum of that cost. Each request has the cost
//! within its own phases: the connection's total at their end, minus that at their beginning.

mod certificates;
mod figures;
mod session;

pub use certificates::{CertificateError, Certificates};
pub use figures::TlsFigures;
pub(crate) use figures::{TlsMeter, add};
pub(crate) use session::{Session, WIRE_BYTES_MAX, WriteResult};
