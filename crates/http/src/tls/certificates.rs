//! The server's certificate and key, from files that may change while it runs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use pellucid_thread::Mutex;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ProducesTickets;

/// The ALPN name of HTTP/2.
pub(super) const HTTP2: &[u8] = b"h2";
/// The protocols offered by ALPN, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
/// Session tickets sent after a TLS 1.3 handshake: clients keep few, and each costs an encryption.
const TICKETS: usize = 1;

/// The reason for which a certificate cannot be used.
#[derive(Debug)]
pub enum CertificateError {
    /// A file cannot be read, or is not PEM.
    File(PathBuf, pem::Error),
    /// The file holds no certificate.
    NoCertificate(PathBuf),
    /// Certificate and key are unusable, or do not belong together.
    Pair(rustls::Error),
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateError::File(path, pem::Error::Io(error)) => {
                write!(f, "cannot read {}: {error}", path.display())
            }
            CertificateError::File(path, pem::Error::NoItemsFound) => {
                write!(f, "{} holds no private key in PEM", path.display())
            }
            CertificateError::File(path, error) => {
                write!(f, "{} is not a valid PEM file: {error}", path.display())
            }
            CertificateError::NoCertificate(path) => {
                write!(f, "{} holds no certificate in PEM", path.display())
            }
            CertificateError::Pair(error) => {
                write!(f, "certificate and key cannot be used together: {error}")
            }
        }
    }
}

impl std::error::Error for CertificateError {}

/// The modification time and length of the two files, which tell whether they were changed.
type FilesState = [Option<(SystemTime, u64)>; 2];

/// The certificate chain and key for new connections, which can be reloaded from their files.
pub struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    /// The key of session tickets; it outlives reloads, so that clients can resume their sessions.
    ticketer: Arc<dyn ProducesTickets>,
    current: Mutex<LoadedCertificates>,
}

struct LoadedCertificates {
    config: Arc<ServerConfig>,
    files: FilesState,
}

impl Certificates {
    /// Reads a chain (the server's certificate first) and its key, both in PEM.
    ///
    /// # Errors
    /// A [`CertificateError`] if a file cannot be read or used, or the two do not match.
    pub fn load(certificate: &Path, key: &Path) -> Result<Certificates, CertificateError> {
        let ticketer = ring::Ticketer::new().map_err(CertificateError::Pair)?;
        let files = state_of(certificate, key);
        let config = read(certificate, key, &ticketer)?;
        Ok(Certificates {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            ticketer,
            current: Mutex::new(LoadedCertificates { config, files }),
        })
    }

    /// Reads the files again. New connections get the new pair, and open ones keep theirs.
    ///
    /// # Errors
    /// As [`Certificates::load`]; the old pair stays in use then.
    pub fn reload(&self) -> Result<(), CertificateError> {
        let files = state_of(&self.certificate, &self.key);
        let config = read(&self.certificate, &self.key, &self.ticketer)?;
        *self.current.lock() = LoadedCertificates { config, files };
        Ok(())
    }

    /// Reloads like [`Certificates::reload`] if the files were changed since they were last read;
    /// none if they were not. After a failure, each call tries again, because the cause may have
    /// been temporary, such as a lack of descriptors.
    pub fn reload_if_changed(&self) -> Option<Result<(), CertificateError>> {
        let is_changed = state_of(&self.certificate, &self.key) != self.current.lock().files;
        is_changed.then(|| self.reload())
    }

    /// The configuration for a new connection.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.lock().config)
    }
}

fn state_of(certificate: &Path, key: &Path) -> FilesState {
    [certificate, key].map(|path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    })
}

fn read(
    certificate: &Path,
    key: &Path,
    ticketer: &Arc<dyn ProducesTickets>,
) -> Result<Arc<ServerConfig>, CertificateError> {
    let file_error = |path: &Path| {
        let path = path.to_owned();
        move |error| CertificateError::File(path, error)
    };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(file_error(certificate))?;
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(file_error(certificate))?;
    if chain.is_empty() {
        return Err(CertificateError::NoCertificate(certificate.to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(file_error(key))?;
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(CertificateError::Pair)?;
    config.alpn_protocols = PROTOCOLS.map(Vec::from).to_vec();
    config.ticketer = Arc::clone(ticketer);
    config.send_tls13_tickets = TICKETS;
    Ok(Arc::new(config))
}
