//! Encrypted output: moves bytes from a buffer of frames to a socket, and encrypts them just before
//! the kernel takes them.

use std::io;

use mio::net::TcpStream;

use crate::session::{RECORD_BYTES_MAX, SEALED_BYTES_MAX, Sealer};
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
    /// Bytes of plain text in these records, sent or not.
    batch_bytes: usize,
}

impl SealedWriter {
    pub(crate) fn new(sealer: Sealer) -> SealedWriter {
        SealedWriter { sealer, ciphertext: Vec::new(), sent: 0, batch_bytes: 0 }
    }

    /// Bytes of plain text that are encrypted, and whose records the kernel has not taken
    /// completely: the other end cannot decrypt them.
    pub(crate) fn undelivered_bytes(&self) -> usize {
        // All records but the last have the full length.
        self.batch_bytes - self.sent / SEALED_BYTES_MAX * RECORD_BYTES_MAX
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
            if self.batch_bytes == 0 {
                let rest = &out[*sealed_until..];
                if rest.is_empty() {
                    return Ok(count);
                }
                self.batch_bytes = rest.len().min(SEAL_BYTES);
                self.sealer.seal(&rest[..self.batch_bytes], &mut self.ciphertext);
                *sealed_until += self.batch_bytes;
            }
            let sent = send_some(socket, &self.ciphertext[self.sent..])?;
            (self.sent, count) = (self.sent + sent, count + sent);
            if self.sent < self.ciphertext.len() {
                return Ok(count);
            }
            self.ciphertext.clear();
            (self.sent, self.batch_bytes) = (0, 0);
        }
    }

    /// Sends the first message of a connection by itself, before any frames. It has to fit into the
    /// socket's empty buffer: a message that the kernel takes only a part of is an error, after
    /// which the connection cannot be used.
    pub(crate) fn send_first(&mut self, socket: &TcpStream, message: &[u8]) -> io::Result<()> {
        debug_assert!(self.batch_bytes == 0, "records that wait would have to be sent before");
        let mut record = Vec::new();
        self.sealer.seal(message, &mut record);
        let (sent, length) = (send_some(socket, &record)?, record.len());
        if sent == length {
            return Ok(());
        }
        let what = format!(
            "the kernel took {sent} of the {length} bytes of the first message, which does not fit \
             into the socket's send buffer (net.ipv4.tcp_wmem)"
        );
        Err(io::Error::new(io::ErrorKind::WriteZero, what))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::session::tests::sessions;

    /// Regression: the error said nothing of the message and its length.
    #[test]
    fn a_first_message_that_is_not_taken_whole_is_an_error_with_its_length() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket.set_nonblocking(true).unwrap();
        let (socket, _reader) = (TcpStream::from_std(socket), listener.accept().unwrap());
        let mut writer = SealedWriter::new(sessions().0.sealer);
        writer.send_first(&socket, b"").unwrap();
        while send_some(&socket, &[0; 1 << 20]).unwrap() > 0 {}
        let error = writer.send_first(&socket, b"").unwrap_err().to_string();
        assert!(error.contains("0 of the 20 bytes of the first message"), "{error}");
    }
}
