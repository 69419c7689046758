//! The failures that a client can fail with.

use std::fmt;
use std::io;

use pellucid_topology::TopologyError;

use crate::http::HttpError;

/// The reason for which there is no answer, or no good one.
#[derive(Debug)]
pub enum ClientError {
    /// The node cannot be reached, or the connection broke.
    Io(String, io::Error),
    /// The answer that came is no answer of a Pellucid node.
    Answer(String),
    /// A URL, or the setup for TLS, cannot be used.
    Target(HttpError),
    /// Credentials cannot be sent; the text says why.
    Credentials(String),
    /// A list of nodes cannot be used.
    Topology(TopologyError),
    /// The node refuses.
    Refused {
        /// The status of its answer.
        status: u16,
        /// Its body.
        what: String,
    },
}

impl ClientError {
    /// True if the node had closed the connection, or closed it in answer.
    pub(crate) fn is_of_closed_connection(&self) -> bool {
        use io::ErrorKind::*;
        let ClientError::Io(_, error) = self else { return false };
        matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
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
