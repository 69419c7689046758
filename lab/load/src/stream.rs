//! A socket with or without TLS, which the event loop reads and writes without blocking. Without
//! TLS, it bypasses the C library, whose calls arm and disarm thread cancellation each time.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, sendmsg};
use rustls::ClientConnection;

/// The socket that a connection reads from and writes to.
#[derive(Debug)]
pub(crate) enum Stream {
    /// A socket without TLS.
    Plain(TcpStream),
    /// A socket with a TLS session.
    Tls(Box<TlsStream>),
}

/// A socket and its TLS session.
#[derive(Debug)]
pub(crate) struct TlsStream {
    socket: TcpStream,
    session: ClientConnection,
}

impl Stream {
    pub(crate) fn tls(socket: TcpStream, session: ClientConnection) -> Stream {
        Stream::Tls(Box::new(TlsStream { socket, session }))
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => &stream.socket,
        }
    }

    /// True without TLS: a read that did not fill its buffer has then emptied the socket.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Stream::Plain(_))
    }

    /// True if the TLS session holds bytes that are not yet written to the socket.
    #[inline]
    pub(crate) fn holds_unwritten(&self) -> bool {
        match self {
            Stream::Plain(_) => false,
            Stream::Tls(stream) => stream.session.wants_write(),
        }
    }

    #[inline]
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => {
                let (count, _) = rustix::net::recv(socket, buffer, RecvFlags::empty())?;
                Ok(count)
            }
            Stream::Tls(stream) => stream.read(buffer),
        }
    }

    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?),
            Stream::Tls(stream) => stream.taken(|session| session.writer().write(bytes)),
        }
    }

    /// Writes the first of several pieces, as many as the socket takes at once, and returns the
    /// number of bytes.
    #[inline]
    pub(crate) fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => {
                let mut nothing = SendAncillaryBuffer::default();
                Ok(sendmsg(socket, pieces, &mut nothing, SendFlags::NOSIGNAL)?)
            }
            Stream::Tls(stream) => stream.taken(|session| session.writer().write_vectored(pieces)),
        }
    }

    /// Writes the bytes that the TLS session holds, as far as the socket takes them.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(stream) => stream.flush(),
        }
    }

    /// Goes on with the TLS handshake. Returns the session once the handshake is complete.
    pub(crate) fn shake_hands(&mut self) -> io::Result<Option<&ClientConnection>> {
        let Stream::Tls(stream) = self else { return Ok(None) };
        while stream.session.is_handshaking() {
            stream.flush()?;
            if stream.session.wants_read() && stream.session.is_handshaking() {
                match stream.fetch() {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                    Err(error) => return Err(error),
                }
            } else if stream.session.wants_write() {
                return Ok(None);
            }
        }
        stream.flush()?;
        Ok(Some(&stream.session))
    }
}

impl TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                // An end without `close_notify` is an end: the protocol above knows whether the
                // answer was complete.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
            self.fetch()?;
        }
    }

    /// Reads TLS records from the socket into the session.
    fn fetch(&mut self) -> io::Result<usize> {
        let count = self.session.read_tls(&mut self.socket)?;
        let outcome = self.session.process_new_packets();
        // Even after an error, the session may have an alert to send.
        self.flush()?;
        outcome.map_err(io::Error::other)?;
        Ok(count)
    }

    /// Passes bytes to the session by `take`, at least one, and writes as far as the socket takes
    /// them.
    fn taken(
        &mut self,
        take: impl FnOnce(&mut ClientConnection) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let taken = take(&mut self.session)?;
        self.flush()?;
        if taken == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
