//! The runs of the study: their operations, transports, and modes of hand-over.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use pellucid_load::LoadOptions;
use pellucid_server::{HandOverPolicy as ServerHandOver, ServerOptions, TlsFiles};
use serde::{Deserialize, Serialize};

use crate::error::StudyError;
use crate::study::Scale;

/// Requests of each run.
const REQUESTS_QUICK: u64 = 10_000;
const REQUESTS_DEFAULT: u64 = 100_000;
const REQUESTS_FULL: u64 = 1_000_000;
/// The number of keys that are read and written.
pub(crate) const KEYS: u64 = 1_000;
/// The length of each value in bytes.
pub(crate) const VALUE_BYTES: usize = 100;

/// The options of the study.
#[derive(Clone, Debug, Default)]
pub struct RequestLifeOptions {
    /// The size of the study.
    pub scale: Scale,
    /// The number of requests of each run, in place of the default of the scale.
    pub requests: Option<u64>,
    /// The folder in which the store is made and removed; the system's temporary folder if `None`.
    pub data: Option<PathBuf>,
}

impl RequestLifeOptions {
    /// Requests of each run.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.unwrap_or(match self.scale {
            Scale::Quick => REQUESTS_QUICK,
            Scale::Default => REQUESTS_DEFAULT,
            Scale::Full => REQUESTS_FULL,
        })
    }
}

/// The operation of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Operation {
    Version,
    Get,
    Put,
}

pub(crate) const OPERATIONS: [Operation; 3] = [Operation::Version, Operation::Get, Operation::Put];

impl Operation {
    /// The name in titles.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Operation::Version => "/_api/version",
            Operation::Get => "entity GET",
            Operation::Put => "entity PUT",
        }
    }

    /// The name for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Version => "version",
            Operation::Get => "get",
            Operation::Put => "put",
        }
    }

    /// The name in the server's account.
    pub(crate) fn accounted(self) -> &'static str {
        match self {
            Operation::Version => "version",
            Operation::Get => "entity_get",
            Operation::Put => "entity_put",
        }
    }
}

/// The transport of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Transport {
    Http1,
    Tls,
    Http2,
}

/// The transports that are compared.
pub(crate) const TRANSPORTS: [Transport; 3] = [Transport::Http1, Transport::Tls, Transport::Http2];

impl Transport {
    /// The name in titles.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Transport::Http1 => "HTTP/1.1",
            Transport::Tls => "HTTP/1.1 over TLS",
            Transport::Http2 => "HTTP/2 over TLS",
        }
    }

    /// The name for programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Transport::Http1 => "http1",
            Transport::Tls => "tls",
            Transport::Http2 => "http2",
        }
    }
}

/// The mode of hand-over: whether requests leave the thread of their event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum HandOver {
    Auto,
    Always,
    Never,
}

/// The modes that are compared.
pub(crate) const HAND_OVERS: [HandOver; 3] = [HandOver::Auto, HandOver::Always, HandOver::Never];

impl HandOver {
    /// The name on the server's command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            HandOver::Auto => "auto",
            HandOver::Always => "always",
            HandOver::Never => "never",
        }
    }

    /// The mode as a setting of the server.
    fn of_server(self) -> ServerHandOver {
        match self {
            HandOver::Auto => ServerHandOver::Auto,
            HandOver::Always => ServerHandOver::Always,
            HandOver::Never => ServerHandOver::Never,
        }
    }
}

/// The plan of the server that the child starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ServerPlan {
    pub(crate) data: PathBuf,
    pub(crate) transport: Transport,
    pub(crate) hand_over: HandOver,
}

/// One run: requests of one kind to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunKey {
    pub(crate) operation: Operation,
    pub(crate) transport: Transport,
    pub(crate) hand_over: HandOver,
}

impl RunKey {
    /// The name in titles.
    pub(crate) fn title(self) -> String {
        let (operation, transport) = (self.operation.title(), self.transport.title());
        format!("{operation}, {transport}, hand-over {}", self.hand_over.name())
    }

    /// The name for programs.
    pub(crate) fn name(self) -> String {
        let (operation, transport) = (self.operation.name(), self.transport.name());
        format!("{operation}_{transport}_{}", self.hand_over.name())
    }
}

impl Transport {
    /// The URL of requests.
    pub(crate) fn url(self, address: SocketAddr) -> String {
        match self {
            Transport::Http1 => format!("http://{address}/"),
            Transport::Tls | Transport::Http2 => format!("https://{address}/"),
        }
    }

    /// Sets the client's options.
    pub(crate) fn set(self, options: &mut LoadOptions) {
        // The study's certificate is self-signed.
        options.tls.insecure = self != Transport::Http1;
        // One request at a time, as over HTTP/1.1.
        options.http2_streams = (self == Transport::Http2).then_some(1);
    }
}

impl ServerPlan {
    /// Sets the server's options. With TLS, also writes the certificate and the key beside the
    /// server's data.
    ///
    /// # Errors
    /// If the certificate cannot be made or written.
    pub(crate) fn apply(&self, options: &mut ServerOptions) -> Result<(), StudyError> {
        options.embedded.hand_over = self.hand_over.of_server();
        if self.transport == Transport::Http1 {
            return Ok(());
        }
        let (certificate, key) = certificate()?;
        let file = |ending: &str, content: &str| {
            let path = self.data.with_extension(ending);
            let written = std::fs::write(&path, content);
            written.map_err(|error| StudyError::file("write", &path, error))?;
            Ok(path)
        };
        let certificate = file("certificate.pem", &certificate)?;
        options.tls = Some(TlsFiles { certificate, key: file("key.pem", &key)? });
        Ok(())
    }
}

/// Makes a self-signed certificate for the loopback address, and its key, both in PEM.
fn certificate() -> Result<(String, String), StudyError> {
    let made = rcgen::generate_simple_self_signed([Ipv4Addr::LOCALHOST.to_string()]);
    let made = made.map_err(|error| StudyError::Step(format!("the certificate: {error}")))?;
    Ok((made.cert.pem(), made.signing_key.serialize_pem()))
}
