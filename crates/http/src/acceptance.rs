//! New connections: taken in by the first event loop, and given to the one that has fewest.

use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use mio::net::TcpStream;
use mio::{Interest, Token};
use pellucid_clock::Ticks;

use crate::clients::Seat;
use crate::connection::Connection;
use crate::cuts::Cut;
use crate::event_loop::EventLoop;
use crate::service::{Letter, Service};
use crate::tls::Session;

/// How a connection within one machine is paced. There is nothing between its ends that could be
/// congested, and what a system sets for its networks (BBR, say) keeps a timer for each packet.
const LOCAL_CONGESTION_CONTROL: &[u8] = b"reno";

/// Connections accepted before those that are open are served again.
const ACCEPTS_MAX: usize = 1_024;

impl<S: Service> EventLoop<S> {
    pub(crate) fn accept(&mut self, woke: Ticks) {
        self.accept_again = false;
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok((socket, peer)) => self.place(socket, peer.ip(), woke),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_of_descriptors(&error) && self.turn_away() => {}
                // The peer may be gone already, or the system is out of memory: the next sweep
                // tries again, as no event will remind us.
                Err(_) => break,
            }
        }
        self.accept_again = true;
    }

    /// Accepts a connection by the descriptor that is spared for it, and closes it: its client
    /// would wait in vain otherwise. False if that cannot be.
    fn turn_away(&mut self) -> bool {
        if self.spare_descriptor.take().is_none() {
            self.spare_descriptor = spare_descriptor();
            return false;
        }
        let accepted = self.listener.as_ref().map(|listener| listener.accept().is_ok());
        self.spare_descriptor = spare_descriptor();
        if accepted == Some(true) {
            self.shared.cuts.refused(Cut::System);
        }
        accepted == Some(true)
    }

    /// Gives a new connection to the loop that has fewest.
    fn place(&mut self, socket: TcpStream, address: IpAddr, woke: Ticks) {
        if self.shared.connections_open() >= self.limits.connections {
            self.shared.cuts.refused(Cut::Full);
            return;
        }
        let Some(seat) = self.clients.seat(address, &self.limits) else {
            self.shared.cuts.refused(Cut::Address);
            return;
        };
        let owner = self.shared.least_busy_loop();
        self.shared.loads[owner].fetch_add(1, Ordering::Relaxed);
        let socket = std::net::TcpStream::from(socket);
        if owner == self.index {
            self.adopt(socket, seat, woke);
        } else {
            self.mailboxes[owner].post(Letter::Accepted(socket, seat));
        }
    }

    pub(crate) fn adopt(&mut self, socket: std::net::TcpStream, seat: Seat, woke: Ticks) {
        let mut socket = TcpStream::from_std(socket);
        let id = self.connections.next();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered =
            self.poll.registry().register(&mut socket, Token(id.slot as usize), interest);
        if registered.is_err() || self.stop_by.is_some() {
            self.shared.cuts.refused(match registered {
                Err(_) => Cut::System,
                Ok(()) => Cut::Stopping,
            });
            self.shared.loads[self.index].fetch_sub(1, Ordering::Relaxed);
            return;
        }
        tune(&socket, seat.address());
        let number = self.shared.connections_ever.fetch_add(1, Ordering::Relaxed) + 1;
        let mut connection = Connection::new(socket, seat, number as u32, id.generation, woke);
        if let Some(certificates) = &self.shared.certificates {
            let Ok(session) = Session::new(certificates.config()) else {
                self.shared.cuts.refused(Cut::System);
                self.shared.loads[self.index].fetch_sub(1, Ordering::Relaxed);
                return;
            };
            connection.tls = Some(Box::new(session));
        }
        self.connections.insert(Box::new(connection));
    }
}

/// Whether the process, or the system, has no descriptor left.
fn is_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// A descriptor that is given up for a moment where there is no other.
pub(crate) fn spare_descriptor() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

/// How many descriptors this process may have open; nothing if there is no bound.
#[must_use]
pub fn descriptors_max() -> Option<usize> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Sets what a new connection needs of its socket. A socket that does not take an option still
/// works.
fn tune(socket: &TcpStream, peer: IpAddr) {
    // Without it, a response in two writes waits for the client's delayed acknowledgement.
    let _ = socket.set_nodelay(true);
    if peer.to_canonical().is_loopback() {
        #[cfg(target_os = "linux")]
        let _ = socket2::SockRef::from(socket).set_tcp_congestion(LOCAL_CONGESTION_CONTROL);
    }
}
