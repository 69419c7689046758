//! One end of a connection of the peer protocol, which a test plays.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use pellucid_cluster::{Ask, AskKind, KeyDerivationInputs, KeyShare, PROTOCOL, Session, Side};
use pellucid_store::{Acknowledgement, Condition};

use super::PATIENCE;

/// The test's end of a connection after the key agreement.
pub(crate) struct PeerEnd {
    pub(crate) socket: TcpStream,
    pub(crate) session: Session,
    /// The decrypted bytes that the other end has sent behind its first record.
    pub(crate) opened: Vec<u8>,
    /// The first record of the other end.
    pub(crate) first: Option<Vec<u8>>,
}

/// The identity that a caller claims.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    pub(crate) list: &'a str,
    pub(crate) secret: Option<&'a [u8]>,
}

fn head_of(socket: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && socket.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).unwrap_or_default().1
}

/// The key share in a node's answer to the request for the upgrade.
pub(crate) fn key_in(socket: &mut TcpStream) -> String {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    header(&head_of(socket), "pellucid-key").to_owned()
}

/// The request for the upgrade to the protocol.
pub(crate) fn hello(caller: Caller<'_>, key: &str) -> String {
    format!(
        "GET /v0/cluster/peer HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL}\r\n\
         Pellucid-From: {}\r\nPellucid-To: {}\r\nPellucid-Key: {key}\r\n\r\n",
        caller.from, caller.to
    )
}

/// An ask of a peer with this number, and without a key.
pub(crate) fn ask_of_peer(id: u64, kind: AskKind) -> Ask<'static> {
    let wait_ms = PATIENCE.as_millis() as u32;
    Ask { id, acknowledgement: Acknowledgement::Os, wait_ms, ..Ask::plain(kind) }
}

impl PeerEnd {
    fn new(socket: TcpStream, session: Session) -> PeerEnd {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        PeerEnd { socket, session, opened: Vec::new(), first: None }
    }

    /// Receives a node's request for the upgrade and its proof, and consents; `with_it` is sent in
    /// the same write as the consent.
    pub(crate) fn owner(mut socket: TcpStream, with_it: &[u8]) -> PeerEnd {
        let head = head_of(&mut socket);
        assert!(head.starts_with("GET /v0/cluster/peer HTTP/1.1\r\n"), "{head}");
        let share = KeyShare::new().unwrap();
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: {PROTOCOL}\r\nPellucid-Key: {}\r\n\r\n",
            share.text()
        );
        let (from, to) = (header(&head, "pellucid-from"), header(&head, "pellucid-to"));
        let parties = KeyDerivationInputs { from, to, secret: None };
        let theirs = header(&head, "pellucid-key");
        let session = Session::agree(share, theirs, Side::Responder, parties).unwrap();
        let mut end = PeerEnd::new(socket, session);
        // If the node is already gone, the test will notice.
        let _ = end.socket.write_all(answer.as_bytes());
        while end.first.is_none() && end.receive() {}
        let mut records = Vec::new();
        end.session.sealer.seal(b"", &mut records);
        if !with_it.is_empty() {
            end.session.sealer.seal(with_it, &mut records);
        }
        let _ = end.socket.write_all(&records);
        end
    }

    /// Does the handshake with a node as `caller`, and sends `frames` in the same write as the
    /// proof.
    pub(crate) fn caller(address: SocketAddr, caller: Caller<'_>, frames: &[u8]) -> PeerEnd {
        let share = KeyShare::new().unwrap();
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(hello(caller, share.text()).as_bytes()).unwrap();
        let head = head_of(&mut socket);
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let parties =
            KeyDerivationInputs { from: caller.from, to: caller.to, secret: caller.secret };
        let theirs = header(&head, "pellucid-key");
        let session = Session::agree(share, theirs, Side::Initiator, parties).unwrap();
        let mut end = PeerEnd::new(socket, session);
        let mut records = Vec::new();
        end.session.sealer.seal(caller.list.as_bytes(), &mut records);
        if !frames.is_empty() {
            end.session.sealer.seal(frames, &mut records);
        }
        end.socket.write_all(&records).unwrap();
        end
    }

    pub(crate) fn send(&mut self, frames: &[u8]) {
        let mut records = Vec::new();
        self.session.sealer.seal(frames, &mut records);
        self.socket.write_all(&records).unwrap();
    }

    /// Reads once; returns false if the other end has closed the connection.
    pub(crate) fn receive(&mut self) -> bool {
        let mut piece = [0; 64 << 10];
        let Ok(count @ 1..) = self.socket.read(&mut piece) else { return false };
        let (first, opened) = (&mut self.first, &mut self.opened);
        let taken = self.session.opener.open(&mut piece[..count], &mut |bytes| {
            match first {
                None => *first = Some(bytes.to_vec()),
                Some(_) => opened.extend_from_slice(bytes),
            }
            Ok(bytes.len())
        });
        taken.unwrap();
        true
    }
}
