//! Raw bytes over sockets.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use super::attack_servers::AttackServers;

/// The time that an attack waits for the server to close a connection.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// An attack: its name and its function, which panics if the server does not behave as expected.
pub(crate) struct Attack {
    pub(crate) name: String,
    pub(crate) run: Box<dyn Fn(&AttackServers)>,
}

/// A name, and the function of the attack with that name.
pub(crate) type NamedAttack = (&'static str, fn(&AttackServers));

impl Attack {
    pub(crate) fn new(name: impl Into<String>, run: impl Fn(&AttackServers) + 'static) -> Attack {
        Attack { name: name.into(), run: Box::new(run) }
    }
}

/// Opens a connection whose reads and writes fail after [`PATIENCE`].
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

/// Sends `bytes`, or as many of them as the server accepts.
pub(crate) fn send(socket: &mut TcpStream, bytes: &[u8]) {
    // The server may have refused and closed the connection already.
    let _ = socket.write_all(bytes);
}

/// Closes a connection so that the other side sees a reset.
pub(crate) fn reset(socket: TcpStream) {
    SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
}

/// Returns the statuses of all HTTP/1.1 responses in `bytes`.
pub(crate) fn statuses(bytes: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(bytes);
    let heads = text.match_indices("HTTP/1.1 ");
    heads.filter_map(|(at, _)| text.get(at + 9..at + 12)?.parse().ok()).collect()
}
