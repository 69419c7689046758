//! Accepts new connections, on the first event loop, and gives each to the loop with the fewest.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use mio::net::TcpStream;
use rustix::io::Errno;

use crate::clients::{Clients, ConnectionPermit};
use crate::disconnects::DisconnectReason;
use crate::listener::Listener;
use crate::shared_state::SharedState;

/// The congestion control of a connection within one machine. Nothing between its ends can be
/// congested, and the system's default for real networks (BBR, for example) keeps a timer for each
/// packet.
const LOCAL_CONGESTION_CONTROL: &[u8] = b"reno";

/// The most connections accepted from a listener before open connections are served again.
const ACCEPTS_MAX: usize = 1_024;

/// A connection that was accepted.
pub(crate) struct AcceptedConnection {
    pub(crate) socket: std::net::TcpStream,
    pub(crate) seat: ConnectionPermit,
    /// The index of the loop that will own it; it is already counted among that loop's connections.
    pub(crate) owner: usize,
}

/// The listeners, on the loop that accepts; none on others.
pub(crate) struct Acceptor {
    listeners: Vec<Listener>,
    clients: Clients,
    /// A spare descriptor: it is closed for a moment to accept a connection when there is no other.
    spare: Option<OwnedFd>,
    /// True if there may be more to accept, for which no further event will come.
    is_pending: bool,
}

impl Acceptor {
    pub(crate) fn new(listeners: Vec<Listener>) -> Acceptor {
        let spare = if listeners.is_empty() { None } else { spare_descriptor() };
        Acceptor { listeners, clients: Clients::default(), spare, is_pending: false }
    }

    /// True if the last call of [`Acceptor::accept`] may have left connections.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending
    }

    pub(crate) fn stop(&mut self) {
        self.listeners.clear();
    }

    /// Forgets the addresses that have no connection any more.
    pub(crate) fn forget_gone(&mut self) {
        self.clients.forget_gone();
    }

    /// Accepts the connections that wait, as far as there is room for them.
    pub(crate) fn accept(&mut self, shared: &SharedState) -> Vec<AcceptedConnection> {
        let mut accepted = Vec::new();
        self.is_pending = false;
        for place in 0..self.listeners.len() {
            let may_be_more = self.accept_at(place, shared, &mut accepted);
            self.is_pending |= may_be_more;
        }
        accepted
    }

    /// Accepts the connections that wait at one listener. True if there may be more.
    fn accept_at(
        &mut self,
        place: usize,
        shared: &SharedState,
        accepted: &mut Vec<AcceptedConnection>,
    ) -> bool {
        for _ in 0..ACCEPTS_MAX {
            match self.listeners[place].accept() {
                Ok((socket, address)) => accepted.extend(self.seat(socket, address, shared)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_of_descriptors(&error) && self.turn_away(place, shared) => {}
                // The peer may be gone already, or the system is out of memory: the next sweep
                // tries again.
                Err(_) => return true,
            }
        }
        true
    }

    /// Finds a place for a new connection.
    fn seat(
        &mut self,
        socket: std::net::TcpStream,
        address: Option<IpAddr>,
        shared: &SharedState,
    ) -> Option<AcceptedConnection> {
        if shared.connections_open() >= shared.limits.connections {
            shared.cuts.refused.add(DisconnectReason::Full);
            return None;
        }
        let Some(seat) = self.clients.seat(address, &shared.limits) else {
            shared.cuts.refused.add(DisconnectReason::Address);
            return None;
        };
        let owner = shared.least_busy_loop();
        shared.loads[owner].fetch_add(1, Ordering::Relaxed);
        Some(AcceptedConnection { socket, seat, owner })
    }

    /// Accepts a connection with the spare descriptor, and closes it: else its client would wait in
    /// vain. False if that fails.
    fn turn_away(&mut self, place: usize, shared: &SharedState) -> bool {
        if self.spare.take().is_none() {
            self.spare = spare_descriptor();
            return false;
        }
        let is_accepted = self.listeners[place].accept().is_ok();
        self.spare = spare_descriptor();
        if is_accepted {
            shared.cuts.refused.add(DisconnectReason::System);
        }
        is_accepted
    }
}

/// True if the process, or the system, has no descriptor left.
fn is_of_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

fn spare_descriptor() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

/// The most descriptors that this process may have open; none if there is no limit.
#[must_use]
pub fn descriptors_max() -> Option<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Sets the options of a new connection's socket. `peer` is none for a Unix socket, which needs no
/// options. A failure is ignored: the socket works without an option.
pub(crate) fn tune(socket: &TcpStream, peer: Option<IpAddr>) {
    let Some(peer) = peer else { return };
    // Without `TCP_NODELAY`, a response in two writes waits for the client's delayed
    // acknowledgement.
    let _ = socket.set_nodelay(true);
    if peer.to_canonical().is_loopback() {
        let _ = socket2::SockRef::from(socket).set_tcp_congestion(LOCAL_CONGESTION_CONTROL);
    }
}
