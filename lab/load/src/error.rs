//! The errors that keep a run from starting, or end it.

use std::fmt;
use std::io;

use pellucid_client::http::HttpError;

/// An error that ends a run. Errors of single requests are counted in the result instead.
#[derive(Debug)]
pub enum LoadError {
    /// An option, or a combination of options, is invalid; the text says which and why.
    Option(String),
    /// The service cannot be reached, or does not speak the protocol of the run.
    Http(HttpError),
    /// The nodes of the cluster cannot be listed or reached; the text says why.
    Topology(String),
    /// The script cannot be read, or raised an error; the text names file and line.
    Script(String),
    /// The description of work cannot be read; the text names file and line.
    Work(String),
    /// The operating system refused something that every run needs.
    System {
        /// The operation that was refused, to follow `cannot`.
        what: &'static str,
        /// The error of the operating system.
        reason: io::Error,
    },
}

impl LoadError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> LoadError {
        move |reason| LoadError::System { what, reason }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Option(text) => f.write_str(text),
            LoadError::Http(error) => error.fmt(f),
            LoadError::Topology(text) => f.write_str(text),
            LoadError::Script(text) => write!(f, "script error: {text}"),
            LoadError::Work(text) => f.write_str(text),
            LoadError::System { what, reason } => write!(f, "cannot {what}: {reason}"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Http(error) => error.source(),
            LoadError::System { reason, .. } => Some(reason),
            LoadError::Option(_)
            | LoadError::Topology(_)
            | LoadError::Script(_)
            | LoadError::Work(_) => None,
        }
    }
}

impl From<HttpError> for LoadError {
    fn from(error: HttpError) -> LoadError {
        LoadError::Http(error)
    }
}
