//! The login to a ring: the password is sent only over TLS, and only to a node with a valid
//! certificate. A stub takes the place of a node: it speaks the first messages of the protocol, and
//! refuses every login.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use pellucid_cql::{CqlOptions, CqlStore, CqlTls, Password};
use pellucid_store::StoreError;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const NAME: &str = "ring.example";

/// A stub of a node, with a certificate, that refuses every login.
struct Node {
    address: SocketAddr,
    /// The self-signed certificate of the node.
    pem: String,
    /// The logins that the node has received.
    told: Receiver<Vec<u8>>,
}

impl Node {
    fn start() -> Node {
        let certified = rcgen::generate_simple_self_signed(vec![NAME.to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], PrivateKeyDer::Pkcs8(key))
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, told) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let mut stream = StreamOwned::new(connection, stream.unwrap());
                // A client that does not trust the node closes the connection.
                if let Ok(login) = greet(&mut stream) {
                    let _ = sender.send(login);
                }
            }
        });
        Node { address, pem: certified.cert.pem(), told }
    }

    fn options(&self, pem: &str, name: &str) -> CqlOptions {
        let tls = CqlTls { authorities_pem: pem.as_bytes().to_vec(), name: Some(name.to_owned()) };
        let login = Some(("user".to_owned(), Password("secret".to_owned())));
        let nodes = vec![self.address.to_string()];
        CqlOptions { tls: Some(tls), login, ..CqlOptions::new(nodes) }
    }
}

/// Speaks the native protocol, version 4: frames with a head of nine bytes and a body. Returns the
/// login that it refuses.
fn greet(stream: &mut StreamOwned<ServerConnection, TcpStream>) -> std::io::Result<Vec<u8>> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes(head[5..].try_into().unwrap()) as usize;
        assert!(length < 10_000, "no greeting is so long");
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let text = |text: &str| [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat();
        let (kind, answer) = match head[4] {
            // OPTIONS is answered SUPPORTED: nothing in particular.
            0x05 => (0x06, vec![0, 0]),
            // STARTUP is answered AUTHENTICATE.
            0x01 => (0x03, text("org.apache.cassandra.auth.PasswordAuthenticator")),
            // AUTH_RESPONSE is answered ERROR: bad credentials.
            0x0f => (0x00, [&0x0100_i32.to_be_bytes()[..], &text("nobody gets in")].concat()),
            other => panic!("{other:#x} is no greeting"),
        };
        let length = (answer.len() as u32).to_be_bytes();
        stream.write_all(&[&[0x84, 0, head[2], head[3], kind][..], &length, &answer].concat())?;
        stream.flush()?;
        if kind == 0 {
            return Ok(body);
        }
    }
}

fn refused(options: &CqlOptions) -> String {
    match CqlStore::open(options) {
        Err(StoreError::Unreachable(text)) => text,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("nobody gets in"),
    }
}

#[test]
fn a_node_with_a_valid_certificate_receives_the_login() {
    let node = Node::start();
    let text = refused(&node.options(&node.pem, NAME));
    assert!(text.contains("nobody gets in") && text.contains("`user`"), "{text}");
    assert!(text.contains("look at --cql-user and --cql-password-file"), "{text}");
    let told = node.told.recv().unwrap();
    assert!(told.ends_with(b"\0user\0secret"), "{told:?}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn an_error_without_a_login_names_the_settings() {
    let node = Node::start();
    let text = refused(&CqlOptions { login: None, ..node.options(&node.pem, NAME) });
    assert!(text.contains("asks for a name and a password"), "{text}");
    assert!(text.contains("--cql-user") && text.contains("--cql-password-file"), "{text}");
    assert!(!text.contains("SessionBuilder"), "the driver's words are for programs: {text}");
    assert!(node.told.try_recv().is_err(), "there is nothing to tell");
}

#[test]
fn a_node_without_a_valid_certificate_receives_nothing() {
    let (node, other) = (Node::start(), Node::start());
    for options in [node.options(&other.pem, NAME), node.options(&node.pem, "other.example")] {
        let text = refused(&options);
        assert!(text.contains("certificate"), "{text}");
        assert!(node.told.try_recv().is_err(), "it was told a password");
    }
    let unfit = CqlStore::open(&node.options("no certificate", NAME));
    assert!(matches!(unfit, Err(StoreError::Unacceptable(_))));
}
