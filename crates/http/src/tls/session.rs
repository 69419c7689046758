//! One connection's TLS: between its socket and its buffers.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use mio::net::TcpStream;
use pellucid_clock::{Clock, Ticks};
use rustls::{ServerConfig, ServerConnection};

use super::certificates::HTTP2;
use super::figures::{TlsMeter, add};
use crate::limits::READ_BYTES_MAX;
use crate::socket::{Received, receive};

/// Bytes of ciphertext that are read at a time: what they and the rest of a record from before
/// (16 KiB and its frame, at most) hold fits in a buffer of [`READ_BYTES_MAX`].
pub(crate) const WIRE_BYTES_MAX: usize = READ_BYTES_MAX - 20 * 1024;
/// Bytes that are encrypted before the kernel is given them: four records.
const ENCRYPT_BYTES_MAX: usize = 64 * 1024;
/// The first byte of every handshake (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// The TLS of one connection.
pub(crate) struct Session {
    connection: ServerConnection,
    /// True once anything came from the client.
    is_begun: bool,
    /// The client has said that nothing follows.
    is_ended: bool,
    /// Leading bytes of the connection's output that are encrypted already, and not all out.
    encrypted_bytes: usize,
    /// Ticks spent decrypting and encrypting since the handshake.
    decrypted_ticks: u64,
    encrypted_ticks: u64,
    /// The wake-up of the event loop that the connection is at, and what was spent before it.
    woke: Ticks,
    decrypted_before_ticks: u64,
}

/// The bytes that the kernel took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    /// Bytes of the output that are out.
    pub(crate) bytes: usize,
    /// True if anything went out at all.
    pub(crate) progressed: bool,
    /// The socket is of no more use.
    pub(crate) failed: bool,
}

impl Session {
    /// # Errors
    /// If the configuration can serve no connection.
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

    /// Notes that the event loop turns to the connection in the wake-up at `woke`, for the first
    /// time or again.
    pub(crate) fn wake(&mut self, woke: Ticks) {
        if self.woke != woke {
            (self.woke, self.decrypted_before_ticks) = (woke, self.decrypted_ticks);
        }
    }

    /// Ticks spent decrypting before the wake-up that the connection is at.
    pub(crate) fn decrypted_before_ticks(&self) -> u64 {
        self.decrypted_before_ticks
    }

    /// Ticks spent decrypting until now, handshakes not included.
    pub(crate) fn decrypted_ticks(&self) -> u64 {
        self.decrypted_ticks
    }

    /// Ticks spent encrypting until now, handshakes not included.
    pub(crate) fn encrypted_ticks(&self) -> u64 {
        self.encrypted_ticks
    }

    /// True if ciphertext waits for the socket.
    pub(crate) fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Reads and decrypts what is there. Where nothing came of it for the reader, the error is
    /// [`ErrorKind::WouldBlock`], or [`ErrorKind::Interrupted`] if there may be more.
    pub(crate) fn receive(
        &mut self,
        socket: &TcpStream,
        wire: &mut [u8],
        plain: &mut [u8],
        meter: &TlsMeter,
        clock: &Clock,
    ) -> io::Result<Received> {
        let count = if self.is_ended { 0 } else { receive(socket, wire)? };
        if count == 0 {
            return Ok(Received::End);
        }
        if !self.is_begun && wire[0] != HANDSHAKE {
            return Ok(Received::NotTls);
        }
        self.is_begun = true;
        let filled = count == wire.len();
        let was_handshaking = self.is_handshaking();
        let begun = clock.now();
        let decrypted = self.decrypt(&wire[..count], plain);
        let ticks = clock.now().since(begun);
        if was_handshaking {
            add(&meter.handshake_ticks, ticks);
            if decrypted.is_ok() && !self.is_handshaking() {
                add(&meter.handshakes, 1);
            }
        } else {
            add(&meter.decrypt_ticks, ticks);
            self.decrypted_ticks += ticks;
        }
        // Answers of the handshake, new keys, or the alert that says what is wrong.
        let pushed = self.push(socket);
        let count = decrypted?;
        pushed?;
        add(&meter.decrypted_bytes, count as u64);
        match count {
            0 if self.is_ended => Ok(Received::End),
            0 if filled => Err(ErrorKind::Interrupted.into()),
            0 => Err(ErrorKind::WouldBlock.into()),
            count => Ok(Received::Bytes { count, filled: filled || self.is_ended }),
        }
    }

    /// Decrypts `wire` into `plain`. Returns how many bytes came of it.
    fn decrypt(&mut self, mut wire: &[u8], plain: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while !wire.is_empty() && !self.is_ended {
            if self.connection.read_tls(&mut wire)? == 0 {
                break;
            }
            let state = self.connection.process_new_packets();
            let state = state.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            let end = count + state.plaintext_bytes_to_read();
            // A read's ciphertext decrypts into a read's plaintext; else the connection ends.
            let room = plain.get_mut(count..end).ok_or(ErrorKind::InvalidData)?;
            self.connection.reader().read_exact(room)?;
            (count, self.is_ended) = (end, state.peer_has_closed());
        }
        Ok(count)
    }

    /// Gives the kernel the ciphertext that there is, as far as it takes it.
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

    /// Encrypts and writes `out`, the connection's output from where the last call left it.
    pub(crate) fn send(
        &mut self,
        socket: &TcpStream,
        out: &[u8],
        meter: &TlsMeter,
        clock: &Clock,
    ) -> Sent {
        let mut sent = Sent::default();
        loop {
            match self.push(socket) {
                Ok(progressed) => sent.progressed |= progressed,
                Err(_) => return Sent { failed: true, ..sent },
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
                Ok(0) | Err(_) => return Sent { failed: true, ..sent },
                Ok(count) => self.encrypted_bytes = count,
            }
            let ticks = clock.now().since(begun);
            self.encrypted_ticks += ticks;
            add(&meter.encrypt_ticks, ticks);
            add(&meter.encrypted_bytes, self.encrypted_bytes as u64);
        }
    }

    /// Tells the client that nothing follows, so that it can tell an end from a cut.
    pub(crate) fn close(&mut self, socket: &TcpStream) {
        self.connection.send_close_notify();
        // Whoever is gone need not be told.
        let _ = self.push(socket);
    }
}
