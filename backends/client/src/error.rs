//! Errors of the client.

use std::fmt;
use std::io;

use pellucid_topology::TopologyError;

use crate::http::{HttpError, is_of_closed_connection};

/// The reason why a request has failed.
#[derive(Debug)]
pub enum ClientError {
    /// The server at this address cannot be reached, or the connection broke.
    Io(String, io::Error),
    /// The answer is not one of a Pellucid server.
    Answer(String),
    /// The URL or the TLS settings cannot be used.
    Target(HttpError),
    /// The credentials cannot be sent; the text has the reason.
    Credentials(String),
    /// The list of nodes is invalid.
    Topology(TopologyError),
    /// The server has refused the request.
    Refused {
        /// The status of the answer.
        status: u16,
        /// The body of the answer.
        what: String,
    },
}

impl ClientError {
    /// True if the server closed the connection, before or after the request arrived.
    pub(crate) fn is_of_closed_connection(&self) -> bool {
        matches!(self, ClientError::Io(_, error) if is_of_closed_connection(error))
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Io(node, error) => write!(f, "{node} cannot be asked: {error}"),
            ClientError::Answer(what) | ClientError::Credentials(what) => f.write_str(what),
            ClientError::Target(error) => error.fmt(f),
            ClientError::Topology(error) => error.fmt(f),
            ClientError::Refused { status, what } => write!(f, "refused with {status}: {what}"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<TopologyError> for ClientError {
    fn from(error: TopologyError) -> ClientError {
        ClientError::Topology(error)
    }
}

impl From<HttpError> for ClientError {
    fn from(error: HttpError) -> ClientError {
        ClientError::Target(error)
    }
}
