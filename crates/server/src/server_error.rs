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

/// The cure of a thread that the system does not start.
const THREADS_CURE: &str =
    "let the process have more threads and memory (ulimit -u, ulimit -v, TasksMax=, MemoryMax=)";
/// The cure of files that may not become so large.
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

/// The cure of a limit of the process, if the text has the system's error number for it.
fn cure_in(text: &str) -> Option<&'static str> {
    let code = text.split("(os error ").skip(1).filter_map(|rest| rest.split_once(')'));
    let mut codes = code.filter_map(|(code, _)| code.parse().ok());
    codes.find_map(|code| match std::io::Error::from_raw_os_error(code).kind() {
        // Of a socket or a lock it says something else.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Which file is the first that cannot be opened depends on the descriptors that the process
    /// was given; all but the store's came without a cure.
    #[test]
    fn a_lack_has_its_cure_wherever_it_was_met() {
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
}
