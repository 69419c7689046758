//! Errors of a server's start and end.

use std::fmt;
use std::path::PathBuf;

use pellucid_http::{CertificateError, ListenAddress};

use crate::access::AccessError;

/// An error that keeps a server from running.
#[derive(Debug)]
pub enum ServerError {
    /// The store could not be opened.
    Store(PathBuf, pellucid_store::StoreError),
    /// The ring of these nodes cannot be used.
    Ring(String, pellucid_store::StoreError),
    /// The address could not be listened on.
    Listen(ListenAddress, std::io::Error),
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

/// The cure of too few descriptors.
const DESCRIPTORS_CURE: &str = "raise the limit of descriptors (ulimit -n, LimitNOFILE=)";

fn is_scarce(error: &std::io::Error) -> bool {
    error.raw_os_error().is_some_and(pellucid_io::is_out_of_descriptors)
}

fn listen_cure(address: &ListenAddress, error: &std::io::Error) -> &'static str {
    let is_file = matches!(address, ListenAddress::Unix(_));
    match error.kind() {
        _ if is_scarce(error) => DESCRIPTORS_CURE,
        std::io::ErrorKind::PermissionDenied if is_file => {
            "let the program write to the socket's folder, or choose another with --listen"
        }
        std::io::ErrorKind::NotFound if is_file => {
            "make the socket's folder, or choose another with --listen"
        }
        std::io::ErrorKind::PermissionDenied => {
            "choose a port from 1024 on with --listen, or let the program have lower ones \
             (AmbientCapabilities=CAP_NET_BIND_SERVICE)"
        }
        _ => "choose another with --listen",
    }
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
                write!(f, "cannot listen on {address}: {error}; {}", listen_cure(address, error))
            }
            ServerError::Certificate(error) => {
                write!(f, "{error}; name both files with --tls-cert and --tls-key")
            }
            ServerError::Exposed(what) | ServerError::Cluster(what) | ServerError::Stuck(what) => {
                f.write_str(what)
            }
            ServerError::Access(error) => error.fmt(f),
            ServerError::Run(error) if is_scarce(error) => {
                write!(f, "the server failed: {error}; {DESCRIPTORS_CURE}")
            }
            ServerError::Run(error) => write!(f, "the server failed: {error}"),
        }
    }
}

impl std::error::Error for ServerError {}
