//! Errors of a server's start and end.

use std::fmt;
use std::path::PathBuf;

use pellucid_cluster::NodeListError;
use pellucid_http::{CertificateError, ListenAddress};
use pellucid_store::StoreError;

use crate::access::AccessError;

/// An error that keeps a server from running.
#[derive(Debug)]
pub enum ServerError {
    /// The store could not be opened.
    Store(PathBuf, StoreError),
    /// The store could not be closed.
    Close(PathBuf, StoreError),
    /// The Cassandra or ScyllaDB ring of these nodes cannot be used.
    Ring(String, StoreError),
    /// The server could not listen on the address.
    Listen(ListenAddress, std::io::Error),
    /// The certificate cannot be used.
    Certificate(CertificateError),
    /// The server would be exposed beyond this machine without TLS or accounts.
    Exposed(String),
    /// The accounts could not be read.
    Access(AccessError),
    /// The server cannot be a node of its cluster.
    Cluster(String),
    /// Threads did not end within the time for a stop. The text says whether the store is closed.
    Stuck(String),
    /// A thread could not be started, or an event loop failed.
    Run(std::io::Error),
}

/// The remedy if the process has too few descriptors.
const DESCRIPTORS_CURE: &str = "raise the limit of descriptors (ulimit -n, LimitNOFILE=)";

/// The remedy if the system cannot start a thread.
const THREADS_CURE: &str =
    "let the process have more threads and memory (ulimit -u, ulimit -v, TasksMax=, MemoryMax=)";
/// The remedy if a file has reached the size limit of the process.
const FILE_SIZE_CURE: &str = "raise the limit of the size of files (ulimit -f, LimitFSIZE=)";

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

/// The remedy for a limit of the process, if `text` contains the system's error number for it.
fn cure_in(text: &str) -> Option<&'static str> {
    let code = text.split("(os error ").skip(1).filter_map(|rest| rest.split_once(')'));
    let mut codes = code.filter_map(|(code, _)| code.parse().ok());
    codes.find_map(|code| match std::io::Error::from_raw_os_error(code).kind() {
        // Of a socket or a lock, `WouldBlock` does not mean a limit.
        std::io::ErrorKind::WouldBlock if text.contains("thread") => Some(THREADS_CURE),
        std::io::ErrorKind::FileTooLarge => Some(FILE_SIZE_CURE),
        _ => pellucid_io::is_out_of_descriptors(code).then_some(DESCRIPTORS_CURE),
    })
}

impl ServerError {
    fn text(&self) -> String {
        match self {
            ServerError::Store(path, error) => {
                format!("the store in {} cannot be used: {error}", path.display())
            }
            ServerError::Close(path, error) => {
                let cure = match error {
                    StoreError::Full(_) => {
                        "; its journal has all acknowledged writes, which the next start replays"
                    }
                    _ => "",
                };
                format!("the store in {} could not be closed: {error}{cure}", path.display())
            }
            ServerError::Ring(nodes, error) => {
                format!("the ring of {nodes} cannot be used: {error}")
            }
            ServerError::Listen(address, error) => {
                format!("cannot listen on {address}: {error}; {}", listen_cure(address, error))
            }
            ServerError::Certificate(error) => {
                format!("{error}; name both files with --tls-cert and --tls-key")
            }
            ServerError::Exposed(what) | ServerError::Cluster(what) | ServerError::Stuck(what) => {
                what.clone()
            }
            ServerError::Access(error) => error.to_string(),
            ServerError::Run(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                format!("a thread could not be started: {error}")
            }
            ServerError::Run(error) => format!("the server failed: {error}"),
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.text();
        f.write_str(&text)?;
        match cure_in(&text) {
            Some(cure) if !text.contains("ulimit") => write!(f, "; {cure}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ServerError {}

impl From<NodeListError> for ServerError {
    fn from(error: NodeListError) -> ServerError {
        ServerError::Cluster(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: only errors of the store named the remedy. Which file is the first that cannot
    /// be opened depends on the number of descriptors, so every kind of error needs it.
    #[test]
    fn an_error_of_a_process_limit_names_the_remedy() {
        let error = || std::io::Error::from_raw_os_error(24);
        for error in [
            ServerError::Run(error()),
            ServerError::Cluster(format!("the list of nodes in x cannot be used: {}", error())),
            ServerError::Access(AccessError::File(PathBuf::from("x"), error())),
        ] {
            let text = error.to_string();
            assert_eq!(text.matches("LimitNOFILE").count(), 1, "{text}");
        }
        for (code, cure) in [(11, THREADS_CURE), (27, FILE_SIZE_CURE)] {
            let text = ServerError::Run(std::io::Error::from_raw_os_error(code)).to_string();
            assert!(text.ends_with(cure), "{text}");
        }
        let other = ServerError::Run(std::io::Error::from_raw_os_error(2)).to_string();
        assert!(!other.contains("ulimit"), "{other}");
    }

    /// Regression: a stop on a full disk said that the store could not be used.
    #[test]
    fn a_store_that_could_not_be_closed_on_a_full_disk_lost_nothing() {
        let text = |error| ServerError::Close(PathBuf::from("x"), error).to_string();
        let full = text(StoreError::Full("the disk is full".to_owned()));
        assert!(full.starts_with("the store in x could not be closed: the disk is full"), "{full}");
        assert!(full.contains("acknowledged"), "{full}");
        let other = text(StoreError::Failed("fsync of a: EIO".to_owned()));
        assert!(other.ends_with("could not be closed: fsync of a: EIO"), "{other}");
    }
}
