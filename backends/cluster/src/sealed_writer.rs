//! Encrypted output: moves bytes from a buffer of frames to a socket, and encrypts them just before
//! the kernel takes them.

use std::io;

use mio::net::TcpStream;

use crate::session::{RECORD_BYTES_MAX, Sealer};
use crate::socket::send_some;

/// Bytes that are encrypted at a time, before the next call of the kernel.
const SEAL_BYTES: usize = 8 * RECORD_BYTES_MAX;

/// A writer that encrypts frames and sends them to a socket that never blocks.
pub(crate) struct SealedWriter {
    sealer: Sealer,
    /// Encrypted records that the kernel has not taken completely.
    ciphertext: Vec<u8>,
    /// Bytes of these records that the kernel has taken.
    sent: usize,
    /// Bytes of plain text in these records.
    held: usize,
}

impl SealedWriter {
    pub(crate) fn new(sealer: Sealer) -> SealedWriter {
        SealedWriter { sealer, ciphertext: Vec::new(), sent: 0, held: 0 }
    }

    /// Bytes of plain text that are encrypted, and whose records the kernel has not all taken.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Encrypts and sends `out` from the offset `sealed_until` on, as far as the socket takes it,
    /// and advances `sealed_until` to the end of the encrypted part. Returns the number of
    /// encrypted bytes that the kernel has taken.
    pub(crate) fn send(
        &mut self,
        socket: &TcpStream,
        out: &[u8],
        sealed_until: &mut usize,
    ) -> io::Result<usize> {
        let mut count = 0;
        loop {
            if self.held == 0 {
                let rest = &out[*sealed_until..];
                if rest.is_empty() {
                    return Ok(count);
                }
                self.held = rest.len().min(SEAL_BYTES);
                self.sealer.seal(&rest[..self.held], &mut self.ciphertext);
                *sealed_until += self.held;
            }
            let sent = send_some(socket, &self.ciphertext[self.sent..])?;
            (self.sent, count) = (self.sent + sent, count + sent);
            if self.sent < self.ciphertext.len() {
                return Ok(count);
            }
            self.ciphertext.clear();
            (self.sent, self.held) = (0, 0);
        }
    }

    /// Sends the first message of a connection by itself. It has to fit into the socket's empty
    /// buffer: a message that the kernel takes only a part of is an error.
    pub(crate) fn send_first(&mut self, socket: &TcpStream, message: &[u8]) -> io::Result<()> {
        let mut record = Vec::new();
        self.sealer.seal(message, &mut record);
        match send_some(socket, &record)? {
            count if count == record.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }
}
