//! Errors of HTTP requests before they are sent.

use std::fmt;
use std::io;

/// The reason why a URL, an address or the TLS settings cannot be used.
#[derive(Debug)]
pub enum HttpError {
    /// The URL is invalid.
    Url {
        /// The text that was given, without a user.
        url: String,
        /// The reason.
        reason: String,
    },
    /// A header cannot be sent; the text shows it.
    Header(String),
    /// The name of the host has no address.
    Resolve {
        /// The host and the port that were looked up.
        address: String,
        /// The error of the lookup.
        reason: io::Error,
    },
    /// No address of the host accepts a connection.
    Connect {
        /// The host and the port, or the Unix socket.
        address: String,
        /// The error of the last attempt.
        reason: io::Error,
    },
    /// TLS cannot be used with these settings; the text has the reason and the remedy.
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
