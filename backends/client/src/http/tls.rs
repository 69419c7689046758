//! TLS for clients: the trusted certificate authorities, and the negotiated protocol.
//!
//! The load generator checks its settings with one complete handshake before a run, so that an
//! untrusted certificate is an error message with a remedy, and not a count of failed connections.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use super::error::HttpError;

/// The names of the protocols in ALPN (RFC 7301).
const HTTP1: &[u8] = b"http/1.1";
const HTTP2: &[u8] = b"h2";
/// Files in which systems keep the certificates of trusted authorities; the first existing one is
/// used.
const SYSTEM_AUTHORITIES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];
/// The environment variable that names another file, as for OpenSSL and curl.
const AUTHORITIES_VARIABLE: &str = "SSL_CERT_FILE";

/// The choice of trusted certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// A file with the certificates (PEM) of the authorities that are trusted, instead of the
    /// system's.
    pub ca_file: Option<PathBuf>,
    /// True to trust any certificate. Then the server may be another one than the one that was
    /// meant.
    pub insecure: bool,
}

/// The TLS configuration for connections to one host.
#[derive(Clone, Debug)]
pub struct TlsSetup {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsSetup {
    /// The configuration for a host, with HTTP/2 or HTTP/1.1 as the protocol.
    ///
    /// # Errors
    /// [`HttpError::Tls`] with the reason.
    pub fn new(options: &TlsOptions, host: &str, http2: bool) -> Result<TlsSetup, HttpError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| HttpError::Tls(format!("'{host}' is no name that TLS can check")))?;
        let trusted = if options.insecure { None } else { Some(authorities(options)?) };
        let mut config = config(trusted).map_err(|error| HttpError::Tls(error.to_string()))?;
        config.alpn_protocols = vec![if http2 { HTTP2 } else { HTTP1 }.to_vec()];
        Ok(TlsSetup { config: Arc::new(config), name })
    }

    /// A session for a new connection.
    ///
    /// # Errors
    /// Errors of rustls.
    pub fn session(&self) -> io::Result<ClientConnection> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map_err(io::Error::other)
    }

    /// Makes one complete handshake on `socket`.
    ///
    /// # Errors
    /// Errors of the socket and of the handshake.
    pub fn check(&self, socket: &mut std::net::TcpStream, http2: bool) -> io::Result<()> {
        let mut session = self.session()?;
        while session.is_handshaking() {
            session.complete_io(socket)?;
        }
        agreed(&session, http2)
    }
}

/// The configuration of a client that trusts these authorities; `None` trusts any certificate.
///
/// # Errors
/// Errors of rustls.
pub fn config(trusted: Option<RootCertStore>) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    Ok(match trusted {
        Some(trusted) => builder.with_root_certificates(trusted).with_no_client_auth(),
        None => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificateVerifier(provider)))
            .with_no_client_auth(),
    })
}

/// Checks that the negotiated protocol is the requested one. A server that does not negotiate
/// speaks HTTP/1.1.
///
/// # Errors
/// If HTTP/2 was requested, and the server does not offer it.
pub fn agreed(session: &ClientConnection, http2: bool) -> io::Result<()> {
    if http2 && session.alpn_protocol() != Some(HTTP2) {
        let text = "the server does not offer HTTP/2 (h2 in ALPN); leave --http2 out";
        return Err(io::Error::other(text));
    }
    Ok(())
}

/// The error text of a failed handshake, with a remedy if one is known.
#[must_use]
pub fn cure(error: &io::Error) -> String {
    let text = error.to_string();
    if text.contains("NoApplicationProtocol") {
        return "it does not offer the protocol that was asked for: HTTP/2 with --http2, HTTP/1.1 \
                without"
            .to_owned();
    }
    let about_trust = text.contains("certificate");
    let cure = "; name its authority with --ca FILE, or trust anyone with --insecure";
    if about_trust { text + cure } else { text }
}

fn authorities(options: &TlsOptions) -> Result<RootCertStore, HttpError> {
    let named =
        options.ca_file.clone().or_else(|| std::env::var_os(AUTHORITIES_VARIABLE).map(Into::into));
    let found = || SYSTEM_AUTHORITIES.iter().map(PathBuf::from).find(|path| path.exists());
    let Some(path) = named.or_else(found) else {
        let text = "this system has no list of trusted authorities; name one with --ca FILE, or \
                    trust anyone with --insecure";
        return Err(HttpError::Tls(text.to_owned()));
    };
    read_authorities(&path)
}

fn read_authorities(path: &Path) -> Result<RootCertStore, HttpError> {
    let shown = path.display();
    let wrong = |reason: String| HttpError::Tls(format!("cannot use {shown}: {reason}"));
    let certificates =
        CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        // A single old certificate that cannot be read must not make the whole file useless.
        let _ = roots.add(certificate);
    }
    match roots.is_empty() {
        true => Err(wrong("it holds no certificate (PEM) that can be trusted".to_owned())),
        false => Ok(roots),
    }
}

/// A verifier that trusts any certificate, and checks only that the server has its private key.
#[derive(Debug)]
struct AnyCertificateVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificateVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_a_file_without_authorities() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        for (text, word) in [(None, "ca.pem"), (Some("nothing"), "no certificate")] {
            text.iter().for_each(|text| std::fs::write(&path, text).unwrap());
            let options = TlsOptions { ca_file: Some(path.clone()), insecure: false };
            let error = TlsSetup::new(&options, "localhost", false).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
        let anyone = TlsOptions { insecure: true, ..TlsOptions::default() };
        assert!(TlsSetup::new(&anyone, "not a name", false).is_err());
        assert!(TlsSetup::new(&anyone, "127.0.0.1", true).is_ok());
    }
}
