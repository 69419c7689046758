//! A rustls client, and certificates that it trusts.

use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use pellucid_http::Certificates;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use tempfile::TempDir;

use super::{TestServer, connect, h2_client};

pub(crate) type Client = StreamOwned<ClientConnection, TcpStream>;

/// The names of the certificate and key pairs.
const PAIRS: [&str; 2] = ["first", "second"];

/// A folder with pairs for `localhost`, each signed by an authority of its own. They are made on
/// first use and removed with the folder: a key in a repository is no secret.
static FILES: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    for pair in PAIRS {
        let write = |ending: &str, text: String| {
            std::fs::write(folder.path().join(format!("{pair}{ending}")), text).unwrap();
        };
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, format!("authority {pair}"));
        let authority_key = KeyPair::generate().unwrap();
        write("-ca.pem", authority.self_signed(&authority_key).unwrap().pem());
        let (authority, key) = (Issuer::new(authority, authority_key), KeyPair::generate());
        let (key, names) = (key.unwrap(), ["localhost".to_owned()]);
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority);
        write(".pem", certificate.unwrap().pem());
        write("-key.pem", key.serialize_pem());
    }
    folder
});

pub(crate) fn file(name: &str) -> PathBuf {
    FILES.path().join(name)
}

pub(crate) fn certificates(pair: &str) -> Arc<Certificates> {
    let key = file(&format!("{pair}-key.pem"));
    Arc::new(Certificates::load(&file(&format!("{pair}.pem")), &key).unwrap())
}

pub(crate) fn client_config(
    authority: &str,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    client_config_for(authority, versions, &[])
}

pub(crate) fn client_config_for(
    authority: &str,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&str],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let path = file(&format!("{authority}-ca.pem"));
    roots.add(CertificateDer::from_pem_file(path).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

pub(crate) fn client_of(running: &TestServer, config: &Arc<ClientConfig>) -> Client {
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::clone(config), name).unwrap();
    StreamOwned::new(session, connect(running))
}

/// An HTTP/2 client over a connection of this configuration, whose handshake chooses HTTP/2.
pub(crate) fn http2_of(
    running: &TestServer,
    config: &Arc<ClientConfig>,
) -> h2_client::Client<Client> {
    let mut client = client_of(running, config);
    while client.conn.is_handshaking() {
        client.conn.complete_io(&mut client.sock).unwrap();
    }
    assert_eq!(client.conn.alpn_protocol(), Some(&b"h2"[..]));
    client.sock.set_nonblocking(true).unwrap();
    h2_client::Client::new(client)
}
