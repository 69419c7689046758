//! Reading from and writing to a non-blocking socket.

use std::io::{self, ErrorKind};
use std::time::Duration;

use mio::net::TcpStream;
use rustix::net::{RecvFlags, SendFlags};
use socket2::TcpKeepalive;

/// The congestion control of a connection within one machine. No network lies between its ends, so
/// the simplest algorithm, which costs the least, is enough.
const LOCAL_CONGESTION_CONTROL: &[u8] = b"reno";

/// The time without a message after which the system asks the other end whether it still exists.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(60);

/// The result of a read.
pub(crate) enum ReadOutcome {
    /// This many bytes were read; more than zero.
    Bytes(usize),
    /// The socket has no bytes now.
    WouldBlock,
    /// The other end has closed its direction.
    Closed,
}

/// Reads once, as much as the buffer holds.
pub(crate) fn receive(socket: &TcpStream, buffer: &mut [u8]) -> io::Result<ReadOutcome> {
    loop {
        match rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()).map_err(io::Error::from) {
            Ok((0, _)) => return Ok(ReadOutcome::Closed),
            Ok((count, _)) => return Ok(ReadOutcome::Bytes(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Ok(ReadOutcome::WouldBlock);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes as much as the socket takes. Returns the number of bytes written. The next call has the
/// error, if one follows these.
pub(crate) fn send_some(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        let rest = &bytes[sent..];
        match rustix::net::send(socket, rest, SendFlags::NOSIGNAL).map_err(io::Error::from) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) if sent > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Sets the socket options of a connection between nodes. Failures are ignored: the connection
/// works without them, only slower.
pub(crate) fn tune(socket: &TcpStream) {
    let _ = socket.set_nodelay(true);
    let options = socket2::SockRef::from(socket);
    let _ = options.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE_AFTER));
    if socket.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback()) {
        let _ = options.set_tcp_congestion(LOCAL_CONGESTION_CONTROL);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Regression: the connection of a peer or guest whose machine had vanished was kept for ever.
    #[test]
    fn a_connection_is_kept_alive() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        tune(&socket);
        let socket = socket2::SockRef::from(&socket);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEP_ALIVE_AFTER);
    }
}
