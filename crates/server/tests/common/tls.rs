//! A TLS client for tests.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use pellucid_server::TlsFiles;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::client::Client;

pub(crate) type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

/// Creates a certificate for `localhost` and its key as files in `folder`, and the configuration of
/// a client that trusts it.
pub(crate) fn localhost(folder: &Path) -> (TlsFiles, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(rustls::ALL_VERSIONS).unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    (TlsFiles { certificate, key }, Arc::new(config))
}

pub(crate) fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> TlsClient {
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::clone(config), name).unwrap();
    Client::connect(address).map_socket(|socket| StreamOwned::new(session, socket))
}
