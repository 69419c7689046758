//! The socket of an HTTP/2 connection, as the protocol reads and writes it.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice};
use std::net::TcpStream;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use pellucid_clock::{Clock, Ticks};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::stream::Stream;

/// The largest number of bytes that a connection reads in one turn: a server that sends without end
/// must delay neither other connections nor the end of the run.
pub(crate) const TURN_BYTES_MAX: usize = 1 << 20;

/// A socket, and what its last reads and writes have shown.
pub(super) struct Wire {
    stream: Stream,
    clock: Clock,
    /// The time of the last read that brought bytes.
    pub(super) read_at: Ticks,
    /// The number of bytes read since this count was last taken.
    pub(super) received_bytes: u64,
    /// Bytes that this turn may still read.
    turn_bytes_left: usize,
    /// True if the socket is empty until the next event: reads do not ask the kernel again.
    is_drained: bool,
    /// True if the last event reported the end, so a short read is not the last one.
    is_ending: bool,
    /// True if the socket takes no more bytes until the next event.
    is_blocked: bool,
}

impl Wire {
    pub(super) fn new(stream: Stream, clock: Clock) -> Wire {
        let read_at = Ticks::default();
        Wire {
            stream,
            clock,
            read_at,
            received_bytes: 0,
            turn_bytes_left: TURN_BYTES_MAX,
            is_drained: false,
            is_ending: false,
            is_blocked: false,
        }
    }

    /// Notes that the socket has bytes, or has reached its end (`is_ending`).
    pub(super) fn note_readable(&mut self, is_ending: bool) {
        (self.is_drained, self.is_ending) = (false, is_ending);
    }

    pub(super) fn begin_turn(&mut self) {
        self.turn_bytes_left = TURN_BYTES_MAX;
    }

    /// True if the turn ended before the socket was drained.
    pub(super) fn has_more(&self) -> bool {
        self.turn_bytes_left == 0 && !self.is_drained
    }

    pub(super) fn socket(&self) -> &TcpStream {
        self.stream.socket()
    }

    /// True if bytes of this side wait until the socket takes them.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked || self.stream.holds_unwritten()
    }

    fn read(&mut self, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.is_drained || self.turn_bytes_left == 0 {
            return Poll::Pending;
        }
        let room = buffer.initialize_unfilled();
        let room_bytes = room.len();
        match retried(|| self.stream.read(room)) {
            Ok(count) => {
                self.read_at = self.clock.now();
                self.received_bytes += count as u64;
                self.turn_bytes_left = self.turn_bytes_left.saturating_sub(count);
                self.is_drained = self.stream.is_plain() && count < room_bytes && !self.is_ending;
                buffer.advance(count);
                Poll::Ready(Ok(()))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_drained = true;
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn write(&mut self, bytes: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Err(error)) = self.flush() {
            return Poll::Ready(Err(error));
        }
        match retried(|| self.stream.write_vectored(bytes)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_blocked = true;
                Poll::Pending
            }
            outcome => Poll::Ready(outcome),
        }
    }

    fn flush(&mut self) -> Poll<io::Result<()>> {
        self.is_blocked = false;
        match self.stream.flush() {
            Ok(()) if self.stream.holds_unwritten() => Poll::Pending,
            outcome => Poll::Ready(outcome),
        }
    }
}

fn retried<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// The protocol's handle to a [`Wire`].
pub(super) struct WireEnd(pub(super) Rc<RefCell<Wire>>);

impl AsyncRead for WireEnd {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().read(buffer)
    }
}

impl AsyncWrite for WireEnd {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().write(&[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().write(bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().flush()
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
