//! Servers with TLS and HTTP/2, made of the libraries rustls and h2 without code of the generator.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use pellucid_load::{Limit, LoadOptions, Target, TlsOptions};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The server's reply to a request: after a time, or never.
pub(crate) struct Reply {
    pub(crate) after: Option<Duration>,
    pub(crate) response: Response<Vec<u8>>,
}

pub(crate) fn reply(body: &[u8]) -> Reply {
    Reply { after: Some(Duration::ZERO), response: Response::new(body.to_vec()) }
}

/// The behaviour of a server of HTTP/2.
#[derive(Clone, Default)]
pub(crate) struct ServerBehaviour {
    pub(crate) streams_max: Option<u32>,
    /// The number of requests after which a connection is closed gracefully.
    pub(crate) requests_per_connection: Option<usize>,
}

/// A running server with TLS. It ends with the process.
pub(crate) struct SecureServer {
    pub(crate) address: SocketAddr,
    pub(crate) connections: Arc<AtomicUsize>,
    /// The largest number of requests that were in flight at once on any connection.
    pub(crate) most_at_once: Arc<AtomicUsize>,
    /// The folder of `authority.pem` and `server.pem`.
    folder: TempDir,
}

pub(crate) type ResponseFunction = dyn Fn(Request<Vec<u8>>) -> Reply + Send + Sync;

/// A certificate authority, and a server certificate that it signed. They are made for each test,
/// so that no private key is in the repository.
struct Identity {
    authority: String,
    certificate: String,
    key: KeyPair,
}

impl Identity {
    fn new() -> Identity {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name = DistinguishedName::new();
        authority.distinguished_name.push(DnType::CommonName, "authority of the tests");
        let authority_key = KeyPair::generate().unwrap();
        let itself = authority.self_signed(&authority_key).unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let key = KeyPair::generate().unwrap();
        let server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = server.signed_by(&key, &issuer).unwrap();
        Identity { authority: itself.pem(), certificate: certificate.pem(), key }
    }
}

impl SecureServer {
    /// Starts a server of `protocol`, which it offers in ALPN.
    pub(crate) fn start(
        protocol: &'static str,
        respond: impl Fn(Request<Vec<u8>>) -> Reply + Send + Sync + 'static,
    ) -> SecureServer {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let server = SecureServer {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            most_at_once: Arc::default(),
            folder: tempfile::tempdir().unwrap(),
        };
        let identity = Identity::new();
        std::fs::write(server.file("authority.pem"), &identity.authority).unwrap();
        std::fs::write(server.file("server.pem"), &identity.certificate).unwrap();
        let (connections, most) =
            (Arc::clone(&server.connections), Arc::clone(&server.most_at_once));
        let respond: Arc<ResponseFunction> = Arc::new(respond);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                let acceptor = acceptor(&identity, protocol);
                while let Ok((socket, _)) = listener.accept().await {
                    socket.set_nodelay(true).unwrap();
                    connections.fetch_add(1, Ordering::SeqCst);
                    let (acceptor, respond) = (acceptor.clone(), Arc::clone(&respond));
                    let most = Arc::clone(&most);
                    tokio::spawn(async move {
                        let Ok(socket) = acceptor.accept(socket).await else { return };
                        match protocol {
                            "h2" => {
                                let behaviour = ServerBehaviour::default();
                                serve(socket, behaviour, respond, most, real()).await;
                            }
                            _ => serve_http1(socket, respond).await,
                        }
                    });
                }
            });
        });
        server
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn options(&self) -> LoadOptions {
        let url = format!("https://localhost:{}/path?id=1", self.address.port());
        let mut options = LoadOptions::new(Target::parse(&url).unwrap());
        (options.threads, options.connections) = (1, 1);
        // The limit is a count and not a time: a server on a real clock may be slow.
        options.limit = Limit::Requests(40);
        options.timeout = Duration::from_secs(60);
        options.tls = TlsOptions { ca_file: Some(self.file("authority.pem")), insecure: false };
        options
    }
}

fn acceptor(identity: &Identity, protocol: &'static str) -> TlsAcceptor {
    let certificates = CertificateDer::pem_slice_iter(identity.certificate.as_bytes());
    let certificates = certificates.collect::<Result<_, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key.serialize_pem().as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// The functions that a server needs from the world that it runs in.
#[derive(Clone)]
pub(crate) struct ServerRuntime {
    pub(crate) spawn: Arc<dyn Fn(Task) + Send + Sync>,
    pub(crate) sleep: Arc<dyn Fn(Duration) -> Task + Send + Sync>,
}

pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The world with a real clock.
fn real() -> ServerRuntime {
    ServerRuntime {
        spawn: Arc::new(|task| drop(tokio::spawn(task))),
        sleep: Arc::new(|duration| Box::pin(tokio::time::sleep(duration))),
    }
}

/// Serves a connection of HTTP/2.
pub(crate) async fn serve(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    manner: ServerBehaviour,
    respond: Arc<ResponseFunction>,
    most: Arc<AtomicUsize>,
    world: ServerRuntime,
) {
    let mut builder = h2::server::Builder::new();
    if let Some(streams) = manner.streams_max {
        builder.max_concurrent_streams(streams);
    }
    let Ok(mut connection) = builder.handshake::<_, Bytes>(socket).await else { return };
    let under_way = Arc::new(AtomicUsize::new(0));
    let mut count = 0;
    while let Some(Ok((request, mut answer))) = connection.accept().await {
        count += 1;
        if manner.requests_per_connection == Some(count) {
            connection.graceful_shutdown();
        }
        let now = under_way.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(now, Ordering::SeqCst);
        let (respond, under_way) = (Arc::clone(&respond), Arc::clone(&under_way));
        let sleep = Arc::clone(&world.sleep);
        (world.spawn)(Box::pin(async move {
            let (head, mut stream) = request.into_parts();
            let mut body = Vec::new();
            while let Some(Ok(piece)) = stream.data().await {
                stream.flow_control().release_capacity(piece.len()).unwrap();
                body.extend_from_slice(&piece);
            }
            let reply = respond(Request::from_parts(head, body));
            match reply.after {
                Some(Duration::ZERO) => {}
                Some(after) => sleep(after).await,
                None => std::future::pending().await,
            }
            under_way.fetch_sub(1, Ordering::SeqCst);
            let (head, body) = reply.response.into_parts();
            let ends = body.is_empty();
            let sent = answer.send_response(Response::from_parts(head, ()), ends);
            if let (Ok(mut stream), false) = (sent, ends) {
                let _ = stream.send_data(body.into(), true);
            }
        }));
    }
}

async fn serve_http1(
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    respond: Arc<ResponseFunction>,
) {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4_096];
        let Ok(count) = socket.read(&mut buffer).await else { return };
        if count == 0 {
            return;
        }
        bytes.extend_from_slice(&buffer[..count]);
        if !bytes.ends_with(b"\r\n\r\n") {
            continue;
        }
        let mut request = Request::new(std::mem::take(&mut bytes));
        *request.version_mut() = http::Version::HTTP_11;
        let reply = respond(request);
        let body = reply.response.body();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        let answer = [head.as_bytes(), body].concat();
        if socket.write_all(&answer).await.is_err() || socket.flush().await.is_err() {
            return;
        }
    }
}
