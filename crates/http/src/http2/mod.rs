//! HTTP/2 (RFC 9113), on the same event loops and before the same services as HTTP/1.1.
//!
//! The `h2` crate knows the protocol and owns no thread, task or socket here: a [`Session`] feeds
//! it what was read and takes from it what is to be written, by way of a [`pipe`], and polls it
//! with a waker that does nothing, because the event loop knows when there is something to do. Each
//! stream is a request with an account of its own.
//!
//! Against abuse stand, beside the crate's own limits on resets, frames and headers: streams and
//! unsent bytes of a connection are bounded, nothing is read from one that does not take its
//! answers, and one that keeps us busy without asking for anything is told to calm down.

mod bodies;
mod failures;
mod heads;
mod pipe;
mod sending;
mod session;
mod streams;
mod sweep;
mod turn;
mod upgrade;

pub(crate) use session::Session;
pub(crate) use upgrade::{SWITCHING, synthetic_headers};

/// What a client begins with that knows of HTTP/2 (RFC 9113, section 3.4).
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes that a stream's client may send before we have taken them in.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// The same for all streams of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// Bytes of DATA that the protocol may hold for one stream.
const SEND_BUFFER_BYTES_MAX: usize = 128 * 1024;
/// Streams that were reset before we looked at them, beyond which the connection is ended: a client
/// that does this again and again wants to keep us busy (CVE-2023-44487).
const RESETS_PENDING_MAX: usize = 20;
/// Streams that we had to reset for errors of the client, beyond which the connection is ended.
const ERROR_RESETS_MAX: usize = 256;
/// Bytes that a client may send without asking for anything, taking or giving any data: PING,
/// SETTINGS, PRIORITY and the like.
const QUIET_BYTES_MAX: usize = 128 * 1024;
