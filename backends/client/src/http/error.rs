//! The reasons for which a service cannot be asked.

use std::fmt;
use std::io;

/// A URL, an address or a setup for TLS that is of no use.
#[derive(Debug)]
pub enum HttpError {
    /// The address is not a URL that can be used.
    Url {
        /// The text that was given.
        url: String,
        /// Its fault.
        reason: String,
    },
    /// A header cannot be sent; the text says which and why.
    Header(String),
    /// The name of the host has no address.
    Resolve {
        /// Host and port that were looked up.
        address: String,
        /// The resolver's word.
        reason: io::Error,
    },
    /// No address of the host accepts a connection.
    Connect {
        /// Host and port that were tried.
        address: String,
        /// The last refusal.
        reason: io::Error,
    },
    /// TLS cannot be used as asked for; the text says why and what to do.
    Tls(String),
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpError::Url { url, reason } => write!(f, "invalid URL: {url}: {reason}"),
            HttpError::Header(text) => f.write_str(text),
            HttpError::Resolve { address, reason } => {
                write!(f, "unable to resolve {address}: {reason}")
            }
            HttpError::Connect { address, reason } => {
                write!(f, "unable to connect to {address}: {reason}")
            }
            HttpError::Tls(text) => write!(f, "TLS: {text}"),
        }
    }
}

impl std::error::Error for HttpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            HttpError::Resolve { reason, .. } | HttpError::Connect { reason, .. } => Some(reason),
            HttpError::Url { .. } | HttpError::Header(_) | HttpError::Tls(_) => None,
        }
    }
}
