//! The reasons for which a socket is given up.

use std::io;

use pellucid_client::http::ResponseError;

/// The reason for which a socket was given up.
#[derive(Debug)]
pub(crate) enum DisconnectReason {
    Connect(io::Error),
    Read(io::Error),
    Write(io::Error),
    Malformed(ResponseError),
    /// Its request is far older than the timeout, which was counted before.
    Abandoned,
    /// It ended between requests, or as announced: not an error.
    Ended,
}
