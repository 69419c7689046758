//! Reading from and writing to a socket that never blocks.

use std::io::{self, ErrorKind};

use mio::net::TcpStream;
use rustix::net::{RecvFlags, SendFlags};

/// The pacing of a connection within one machine: there is nothing between its ends
/// that could be congested.
const LOCAL_CONGESTION_CONTROL: &[u8] = b"reno";

/// The result of a read.
pub(crate) enum Received {
    Bytes(usize),
    Nothing,
    End,
}

pub(crate) fn receive(socket: &TcpStream, buffer: &mut [u8]) -> io::Result<Received> {
    loop {
        match rustix::net::recv(socket, &mut *buffer, RecvFlags::empty()).map_err(io::Error::from) {
            Ok((0, _)) => return Ok(Received::End),
            Ok((count, _)) => return Ok(Received::Bytes(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Received::Nothing),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes as much as the socket takes.
pub(crate) fn send_some(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        let rest = &bytes[sent..];
        match rustix::net::send(socket, rest, SendFlags::NOSIGNAL).map_err(io::Error::from) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => sent += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Sets what a connection between nodes needs; one that does not take an option still works.
pub(crate) fn tune(socket: &TcpStream) {
    let _ = socket.set_nodelay(true);
    if socket.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback()) {
        let _ = socket2::SockRef::from(socket).set_tcp_congestion(LOCAL_CONGESTION_CONTROL);
    }
}
