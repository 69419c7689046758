//! The client of the tests over TLS.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::client::Client;

pub(crate) type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

/// The setup of a client that trusts this authority.
pub(crate) fn client_config(authority: CertificateDer<'_>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.into_owned()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(rustls::ALL_VERSIONS).unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

pub(crate) fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> TlsClient {
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(Arc::clone(config), name).unwrap();
    Client::connect(address).map_socket(|socket| StreamOwned::new(session, socket))
}
