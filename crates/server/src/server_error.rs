//! Errors of a server's start and end.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use pellucid_http::CertificateError;

use crate::access::AccessError;

/// An error that keeps a server from running.
#[derive(Debug)]
pub enum ServerError {
    /// The store could not be opened.
    Store(PathBuf, pellucid_store::StoreError),
    /// The ring of these nodes cannot be used.
    Ring(String, pellucid_store::StoreError),
    /// The address could not be listened on.
    Listen(SocketAddr, std::io::Error),
    /// The certificate cannot be used.
    Certificate(CertificateError),
    /// It may not listen there on these terms.
    Exposed(String),
    /// The accounts could not be read.
    Access(AccessError),
    /// It may not be part of its cluster.
    Cluster(String),
    /// It was to stop, and threads did not end within the time for that. The store is closed.
    Stuck(String),
    /// A thread could not be started, or an event loop failed.
    Run(std::io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::Store(path, error) => {
                write!(f, "the store in {} cannot be used: {error}", path.display())
            }
            ServerError::Ring(nodes, error) => {
                write!(f, "the ring of {nodes} cannot be used: {error}")
            }
            ServerError::Listen(address, error) => {
                write!(f, "cannot listen on {address}: {error}; choose another with --listen")
            }
            ServerError::Certificate(error) => {
                write!(f, "{error}; name both files with --tls-cert and --tls-key")
            }
            ServerError::Exposed(what) | ServerError::Cluster(what) | ServerError::Stuck(what) => {
                f.write_str(what)
            }
            ServerError::Access(error) => error.fmt(f),
            ServerError::Run(error) => write!(f, "the server failed: {error}"),
        }
    }
}

impl std::error::Error for ServerError {}
