//! TLS to the ring, outside the driver.
//!
//! The driver's own TLS would add a second cryptography library, which needs a build system of its
//! own. So the driver connects to a loopback socket, one for each node, and a tunnel forwards the
//! bytes to the node over TLS, with the library that the server has anyway. This costs a hop within
//! the machine, and nothing if TLS is off.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pellucid_store::{Result, StoreError};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use scylla::errors::TranslationError;
use scylla::policies::address_translator::{AddressTranslator, UntranslatedPeer};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::options::CqlTls;

/// Limit of the connections to one node: many more than the driver opens.
const CONNECTIONS_MAX: usize = 256;
/// The port of the nodes if none of their addresses has one.
const PORT_USUAL: u16 = 9042;

/// The tunnels to the nodes of a ring.
pub(crate) struct Tunnels {
    way: Arc<TlsSettings>,
    /// The port on which all nodes speak TLS.
    port: u16,
    /// The loopback address of each node's tunnel.
    local: Mutex<HashMap<String, SocketAddr>>,
}

/// The TLS settings that all tunnels share.
struct TlsSettings {
    connector: TlsConnector,
    /// The name in all certificates, if it is not the address or name of each node.
    name: Option<ServerName<'static>>,
    timeout: Duration,
}

impl Tunnels {
    /// Tunnels to the ring of these nodes.
    pub(crate) fn new(tls: &CqlTls, nodes: &[String], timeout: Duration) -> Result<Tunnels> {
        let name = tls.name.as_ref().map(|name| {
            ServerName::try_from(name.clone()).map_err(|_| {
                StoreError::Unacceptable(format!("`{name}` is no name that a certificate can have"))
            })
        });
        let way = TlsSettings { connector: connector(tls)?, name: name.transpose()?, timeout };
        let port = nodes.iter().find_map(|node| port_of(node));
        let (port, local) = (port.unwrap_or(PORT_USUAL), Mutex::default());
        Ok(Tunnels { way: Arc::new(way), port, local })
    }

    /// Opens tunnels to these nodes. Returns their loopback addresses.
    ///
    /// # Errors
    /// If none of the nodes can be reached with a valid certificate.
    pub(crate) async fn begin(&self, nodes: &[String]) -> Result<Vec<SocketAddr>> {
        let nodes: Vec<_> = nodes.iter().map(|node| with_port(node, self.port)).collect();
        let mut wrong = String::new();
        for node in &nodes {
            match self.way.reach(node).await {
                Ok(_) => {
                    let mut local = Vec::new();
                    for node in &nodes {
                        local.push(self.local(node).await.map_err(|error| failed(&error))?);
                    }
                    return Ok(local);
                }
                Err(error) => wrong = format!("{wrong}; {node}: {error}"),
            }
        }
        let wrong = wrong.trim_start_matches("; ");
        Err(StoreError::Unreachable(format!("no node of the ring is reached by TLS: {wrong}")))
    }

    /// The loopback address of a node's tunnel; a new tunnel is opened if there is none.
    async fn local(&self, node: &str) -> io::Result<SocketAddr> {
        let mut local = self.local.lock().await;
        if let Some(address) = local.get(node) {
            return Ok(*address);
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        tokio::spawn(carry_all(Arc::clone(&self.way), node.to_owned(), listener));
        local.insert(node.to_owned(), address);
        Ok(address)
    }
}

type TranslationFuture<'a> =
    Pin<Box<dyn Future<Output = std::result::Result<SocketAddr, TranslationError>> + Send + 'a>>;

impl AddressTranslator for Tunnels {
    fn translate_address<'a, 'b, 'c>(
        &'a self,
        peer: &'b UntranslatedPeer<'_>,
    ) -> TranslationFuture<'c>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        // The driver assumes the port of its first contact for all nodes, and that is a tunnel's.
        let address = SocketAddr::new(peer.untranslated_address().ip(), self.port);
        Box::pin(async move {
            let local = self.local(&address.to_string()).await;
            local.map_err(|_| TranslationError::NoRuleForAddress(address))
        })
    }
}

impl TlsSettings {
    /// Connects to a node by TLS, which checks its certificate.
    async fn reach(&self, node: &str) -> io::Result<TlsStream<TcpStream>> {
        let host = node.rsplit_once(':').map_or(node, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = match &self.name {
            Some(name) => name.clone(),
            None => ServerName::try_from(host).map_err(io::Error::other)?,
        };
        let reach = async {
            let stream = TcpStream::connect(node).await?;
            stream.set_nodelay(true)?;
            self.connector.connect(name, stream).await
        };
        let reached = tokio::time::timeout(self.timeout, reach).await;
        reached.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// The port in the address of a node, if it has one.
fn port_of(node: &str) -> Option<u16> {
    node.rsplit_once(':')?.1.parse().ok()
}

/// The address of a node, with `port` if it has none.
fn with_port(node: &str, port: u16) -> String {
    if port_of(node).is_some() { node.to_owned() } else { format!("{node}:{port}") }
}

/// Accepts connections at `listener`, and forwards each to a node.
async fn carry_all(way: Arc<TlsSettings>, node: String, listener: TcpListener) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((near, _)) = listener.accept().await else {
            // The process may have no free descriptor for now.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (way, node) = (Arc::clone(&way), node.clone());
        tokio::spawn(async move {
            // Any error closes the connection, and the driver sees that.
            if let (Ok(()), Ok(mut far)) = (near.set_nodelay(true), way.reach(&node).await) {
                let mut near = near;
                let _ = copy_bidirectional(&mut near, &mut far).await;
            }
            drop(place);
        });
    }
}

fn connector(tls: &CqlTls) -> Result<TlsConnector> {
    let unfit = |error: &dyn std::fmt::Display| {
        StoreError::Unacceptable(format!("the ring's authorities cannot be used: {error}"))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&tls.authorities_pem) {
        let certificate = certificate.map_err(|error| unfit(&error))?;
        roots.add(certificate).map_err(|error| unfit(&error))?;
    }
    if roots.is_empty() {
        return Err(unfit(&"there is no certificate (PEM) in the file"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unfit(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn failed(error: &io::Error) -> StoreError {
    StoreError::Failed(format!("cannot listen on this machine's loopback: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a node without a port could be reached only without TLS.
    #[test]
    fn nodes_without_a_port_get_that_of_the_ring() {
        for (node, reached) in
            [("a", "a:9"), ("a:1", "a:1"), ("[::1]", "[::1]:9"), ("[::1]:1", "[::1]:1")]
        {
            assert_eq!(with_port(node, 9), reached);
        }
    }
}
