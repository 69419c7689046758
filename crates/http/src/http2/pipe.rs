//! What stands between the protocol and the socket: two buffers.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::PREFACE;
use crate::limits::OUTPUT_BYTES_MAX;

/// Bytes of a frame's head.
const FRAME_HEAD_BYTES: usize = 9;

/// The buffers of one connection.
#[derive(Default)]
pub(crate) struct Pipe {
    input: Vec<u8>,
    /// Bytes of `input` that the protocol has.
    used: usize,
    /// The client sends no more.
    pub(crate) ended: bool,
    /// Frames for the client.
    pub(crate) output: Vec<u8>,
    /// Whether the protocol wanted to write more than `output` may hold.
    pub(crate) was_full: bool,
    /// What the client asked for before it spoke HTTP/2, as a frame that belongs behind its first.
    asked_before: Option<Vec<u8>>,
}

impl Pipe {
    pub(crate) fn new(asked_before: Option<Vec<u8>>) -> Pipe {
        Pipe { asked_before, ..Pipe::default() }
    }

    /// Takes in what was read.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.input.drain(..std::mem::take(&mut self.used));
        self.input.extend_from_slice(bytes);
        if let Some(at) = self.asked_before.as_ref().and_then(|_| end_of_first_frame(&self.input)) {
            let frame = self.asked_before.take().unwrap_or_default();
            self.input.splice(at..at, frame);
        }
    }

    /// Whether the protocol has not looked at everything yet.
    pub(crate) fn has_input(&self) -> bool {
        self.used < self.input.len() && self.asked_before.is_none()
    }

    /// Gives back memory that an idle connection has no use for.
    pub(crate) fn shrink(&mut self) {
        if self.used == self.input.len() {
            (self.input, self.used) = (Vec::new(), 0);
        }
    }
}

/// Where the first frame behind the preface ends.
fn end_of_first_frame(input: &[u8]) -> Option<usize> {
    let length = input.get(PREFACE.len()..PREFACE.len() + 3)?;
    let length = u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize;
    let end = PREFACE.len() + FRAME_HEAD_BYTES + length;
    (input.len() >= end).then_some(end)
}

/// The protocol's end of a [`Pipe`].
pub(crate) struct PipeEnd(pub(crate) Rc<RefCell<Pipe>>);

impl AsyncRead for PipeEnd {
    fn poll_read(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let pipe = &mut *self.0.borrow_mut();
        if pipe.has_input() {
            let rest = &pipe.input[pipe.used..];
            let count = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..count]);
            pipe.used += count;
            return Poll::Ready(Ok(()));
        }
        // Nothing put into the buffer means the end.
        if pipe.ended { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

impl AsyncWrite for PipeEnd {
    fn poll_write(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let pipe = &mut *self.0.borrow_mut();
        if pipe.output.len() >= OUTPUT_BYTES_MAX {
            pipe.was_full = true;
            return Poll::Pending;
        }
        pipe.output.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
