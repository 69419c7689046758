//! Why a run could not start or had to end.

use std::fmt;
use std::io;

/// An error that ends a run. Errors of single requests are counted in the result instead.
#[derive(Debug)]
pub enum LoadError {
    /// An option, or a combination of options, makes no sense; the text says which and why.
    Option(String),
    /// The address to load is not a URL that can be used.
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The name of the host has no address.
    Resolve {
        /// Host and port that were looked up.
        address: String,
        /// What the resolver said.
        reason: io::Error,
    },
    /// No address of the host accepts a connection.
    Connect {
        /// Host and port that were tried.
        address: String,
        /// The last refusal.
        reason: io::Error,
    },
    /// It is not known where the nodes of the cluster are; the text says why.
    Topology(String),
    /// TLS cannot be used as asked for; the text says why and what to do.
    Tls(String),
    /// The script cannot be read, or raised an error; the text names file and line.
    Script(String),
    /// The description of work cannot be read; the text names file and line.
    Work(String),
    /// The operating system refused something that every run needs.
    System {
        /// What was asked of it.
        what: &'static str,
        /// What it said.
        reason: io::Error,
    },
}

impl LoadError {
    /// The exit code with which a command should end after this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        1
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> LoadError {
        move |reason| LoadError::System { what, reason }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Option(text) => f.write_str(text),
            LoadError::Url { url, reason } => write!(f, "invalid URL: {url}: {reason}"),
            LoadError::Resolve { address, reason } => {
                write!(f, "unable to resolve {address}: {reason}")
            }
            LoadError::Connect { address, reason } => {
                write!(f, "unable to connect to {address}: {reason}")
            }
            LoadError::Topology(text) => f.write_str(text),
            LoadError::Tls(text) => write!(f, "TLS: {text}"),
            LoadError::Script(text) => write!(f, "script error: {text}"),
            LoadError::Work(text) => f.write_str(text),
            LoadError::System { what, reason } => write!(f, "cannot {what}: {reason}"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Resolve { reason, .. }
            | LoadError::Connect { reason, .. }
            | LoadError::System { reason, .. } => Some(reason),
            LoadError::Option(_)
            | LoadError::Url { .. }
            | LoadError::Topology(_)
            | LoadError::Tls(_)
            | LoadError::Script(_)
            | LoadError::Work(_) => None,
        }
    }
}
