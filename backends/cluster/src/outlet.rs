//! The way from a buffer of frames to a socket: what the kernel takes is sealed just before.

use std::io;

use mio::net::TcpStream;

use crate::session::{BUNDLE_BYTES_MAX, Sealer};
use crate::socket::send_some;

/// Bytes that are sealed before the kernel is asked to take them.
const SEAL_BYTES: usize = 8 * BUNDLE_BYTES_MAX;

/// See the module.
pub(crate) struct Outlet {
    sealer: Sealer,
    /// Bundles, and how much of them the kernel has.
    sealed: Vec<u8>,
    sent: usize,
    /// Bytes of the buffer that these bundles hold.
    held: usize,
}

impl Outlet {
    pub(crate) fn new(sealer: Sealer) -> Outlet {
        Outlet { sealer, sealed: Vec::new(), sent: 0, held: 0 }
    }

    /// Bytes of the buffer that are sealed, and that the kernel does not have all of.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Sends what `out` has behind `sealed`, as far as the socket takes it, and moves `sealed` on.
    /// Returns how many bytes went to the kernel.
    pub(crate) fn send(
        &mut self,
        socket: &TcpStream,
        out: &[u8],
        sealed: &mut usize,
    ) -> io::Result<usize> {
        let mut count = 0;
        loop {
            if self.held == 0 {
                let rest = &out[*sealed..];
                if rest.is_empty() {
                    return Ok(count);
                }
                self.held = rest.len().min(SEAL_BYTES);
                self.sealer.seal(&rest[..self.held], &mut self.sealed);
                *sealed += self.held;
            }
            let sent = send_some(socket, &self.sealed[self.sent..])?;
            (self.sent, count) = (self.sent + sent, count + sent);
            if self.sent < self.sealed.len() {
                return Ok(count);
            }
            self.sealed.clear();
            (self.sent, self.held) = (0, 0);
        }
    }

    /// Sends one message by itself, as far as the socket takes it: the first of a connection, for
    /// which there is room.
    pub(crate) fn send_first(&mut self, socket: &TcpStream, message: &[u8]) -> io::Result<()> {
        let mut bundle = Vec::new();
        self.sealer.seal(message, &mut bundle);
        match send_some(socket, &bundle)? {
            count if count == bundle.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}
