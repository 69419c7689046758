//! The TLS session of one connection, between its socket and its buffers.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use mio::net::TcpStream;
use pellucid_clock::{Clock, Ticks};
use rustls::{ServerConfig, ServerConnection};

use super::certificates::HTTP2;
use super::figures::{TlsMeter, add};
use crate::limits::READ_BYTES_MAX;
use crate::socket::{ReadOutcome, receive};

/// Bytes of ciphertext that are read at a time. Their plaintext, together with that of an
/// incomplete record from before (at most 16 KiB and its frame), fits into a buffer of
/// [`READ_BYTES_MAX`].
pub(crate) const WIRE_BYTES_MAX: usize = READ_BYTES_MAX - 20 * 1024;
/// Bytes that are encrypted before they are given to the kernel: four records.
const ENCRYPT_BYTES_MAX: usize = 64 * 1024;
/// The first byte of every handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// The TLS session of one connection.
pub(crate) struct Session {
    connection: ServerConnection,
    /// True once any byte came from the client.
    is_begun: bool,
    /// True if the client has sent `close_notify`.
    is_ended: bool,
    /// Leading bytes of the connection's output that are encrypted, and not completely sent.
    encrypted_bytes: usize,
    /// Ticks spent decrypting since the handshake.
    decrypted_ticks: u64,
    /// Ticks spent encrypting since the handshake.
    encrypted_ticks: u64,
    /// The wake-up in which the connection last had a turn.
    woke: Ticks,
    /// The value of `decrypted_ticks` at that wake-up.
    decrypted_before_ticks: u64,
}

/// The result of writing output to the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriteResult {
    /// Bytes of the output that the kernel took completely.
    pub(crate) bytes: usize,
    /// True if the kernel took any bytes at all.
    pub(crate) progressed: bool,
    /// True if the socket has failed.
    pub(crate) failed: bool,
}

impl Session {
    /// A session that waits for the client's handshake.
    ///
    /// # Errors
    /// If the configuration cannot be used for a server.
    pub(crate) fn new(config: Arc<ServerConfig>) -> Result<Session, rustls::Error> {
        let mut connection = ServerConnection::new(config)?;
        connection.set_buffer_limit(Some(ENCRYPT_BYTES_MAX));
        Ok(Session {
            connection,
            is_begun: false,
            is_ended: false,
            encrypted_bytes: 0,
            decrypted_ticks: 0,
            encrypted_ticks: 0,
            woke: Ticks(0),
            decrypted_before_ticks: 0,
        })
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// True if client and server agreed on HTTP/2 in the handshake.
    pub(crate) fn agreed_on_http2(&self) -> bool {
        self.connection.alpn_protocol() == Some(HTTP2)
    }

    /// Notes that the connection has a turn in the wake-up at `woke`; there may be several.
    pub(crate) fn wake(&mut self, woke: Ticks) {
        if self.woke != woke {
            (self.woke, self.decrypted_before_ticks) = (woke, self.decrypted_ticks);
        }
    }

    /// Ticks spent decrypting before the current wake-up.
    pub(crate) fn decrypted_before_ticks(&self) -> u64 {
        self.decrypted_before_ticks
    }

    /// Ticks spent decrypting until now, without the handshake.
    pub(crate) fn decrypted_ticks(&self) -> u64 {
        self.decrypted_ticks
    }

    /// Ticks spent encrypting until now, without the handshake.
    pub(crate) fn encrypted_ticks(&self) -> u64 {
        self.encrypted_ticks
    }

    /// True if ciphertext waits for the socket.
    pub(crate) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Reads and decrypts available bytes. If they hold no plaintext, the error is
    /// [`ErrorKind::WouldBlock`], or [`ErrorKind::Interrupted`] if more may be available.
    pub(crate) fn receive(
        &mut self,
        socket: &TcpStream,
        wire: &mut [u8],
        plain: &mut [u8],
        meter: &TlsMeter,
        clock: &Clock,
    ) -> io::Result<ReadOutcome> {
        let count = if self.is_ended { 0 } else { receive(socket, wire)? };
        if count == 0 {
            return Ok(ReadOutcome::End);
        }
        if !self.is_begun && wire[0] != HANDSHAKE {
            return Ok(ReadOutcome::NotTls);
        }
        self.is_begun = true;
        let filled = count == wire.len();
        let was_handshaking = self.is_handshaking();
        let begun = clock.now();
        let decrypted = self.decrypt(&wire[..count], plain);
        let ticks = clock.now().since(begun);
        if was_handshaking {
            add(&meter.handshake_ns, clock.nanoseconds(ticks));
            if decrypted.is_ok() && !self.is_handshaking() {
                add(&meter.handshakes, 1);
            }
        } else {
            add(&meter.decrypt_ns, clock.nanoseconds(ticks));
            self.decrypted_ticks += ticks;
        }
        // Sends handshake messages, key updates, or the alert that names the error.
        let pushed = self.push(socket);
        let count = decrypted?;
        pushed?;
        add(&meter.decrypted_bytes, count as u64);
        match count {
            0 if self.is_ended => Ok(ReadOutcome::End),
            0 if filled => Err(ErrorKind::Interrupted.into()),
            0 => Err(ErrorKind::WouldBlock.into()),
            count => Ok(ReadOutcome::Bytes { count, filled: filled || self.is_ended }),
        }
    }

    /// Decrypts `wire` into `plain`. Returns the number of plaintext bytes.
    fn decrypt(&mut self, mut wire: &[u8], plain: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while !wire.is_empty() && !self.is_ended {
            if self.connection.read_tls(&mut wire)? == 0 {
                break;
            }
            let state = self.connection.process_new_packets();
            let state = state.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            let end = count + state.plaintext_bytes_to_read();
            // The plaintext of one read fits by the choice of `WIRE_BYTES_MAX`.
            let room = plain.get_mut(count..end).ok_or(ErrorKind::InvalidData)?;
            self.connection.reader().read_exact(room)?;
            (count, self.is_ended) = (end, state.peer_has_closed());
        }
        Ok(count)
    }

    /// Gives the kernel as much pending ciphertext as it takes. True if it took any.
    fn push(&mut self, socket: &TcpStream) -> io::Result<bool> {
        let (mut progressed, mut socket) = (false, socket);
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => progressed = true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(progressed)
    }

    /// Encrypts and writes `out`, which begins behind the bytes that earlier calls reported as
    /// sent.
    pub(crate) fn send(
        &mut self,
        socket: &TcpStream,
        out: &[u8],
        meter: &TlsMeter,
        clock: &Clock,
    ) -> WriteResult {
        let mut sent = WriteResult::default();
        loop {
            match self.push(socket) {
                Ok(progressed) => sent.progressed |= progressed,
                Err(_) => return WriteResult { failed: true, ..sent },
            }
            if self.connection.wants_write() {
                return sent;
            }
            sent.bytes += std::mem::take(&mut self.encrypted_bytes);
            let rest = out.get(sent.bytes..).unwrap_or_default();
            if rest.is_empty() {
                return sent;
            }
            let begun = clock.now();
            let piece = &rest[..rest.len().min(ENCRYPT_BYTES_MAX)];
            match self.connection.writer().write(piece) {
                Ok(0) | Err(_) => return WriteResult { failed: true, ..sent },
                Ok(count) => self.encrypted_bytes = count,
            }
            let ticks = clock.now().since(begun);
            self.encrypted_ticks += ticks;
            add(&meter.encrypt_ns, clock.nanoseconds(ticks));
            add(&meter.encrypted_bytes, self.encrypted_bytes as u64);
        }
    }

    /// Sends `close_notify`, so that the client can tell a regular end from a truncation.
    pub(crate) fn close(&mut self, socket: &TcpStream) {
        self.connection.send_close_notify();
        // If the client is gone, a failure does not matter.
        let _ = self.push(socket);
    }
}
