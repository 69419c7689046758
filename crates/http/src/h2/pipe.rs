//! The input and output buffers between the `h2` crate and the socket.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::upgrade::{FRAME_BYTES_MAX, PREFACE};
use crate::limits::OUTPUT_BYTES_MAX;

/// Bytes of a frame's header.
const FRAME_HEAD_BYTES: usize = 9;

/// The buffers of one connection.
#[derive(Default)]
pub(crate) struct Pipe {
    input: Vec<u8>,
    /// Bytes of `input` that the protocol has consumed.
    used: usize,
    /// True if the client sends no more.
    pub(crate) ended: bool,
    /// Frames for the client.
    pub(crate) output: Vec<u8>,
    /// True if the protocol wanted to write more than `output` may hold.
    pub(crate) was_full: bool,
    /// The HTTP/1.1 request that asked for the upgrade, as a frame; it is inserted behind the
    /// client's first frame.
    asked_before: Option<Vec<u8>>,
}

impl Pipe {
    pub(crate) fn new(asked_before: Option<Vec<u8>>) -> Pipe {
        Pipe { asked_before, ..Pipe::default() }
    }

    /// Appends bytes that were read to the input.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.input.drain(..std::mem::take(&mut self.used));
        self.input.extend_from_slice(bytes);
        if self.asked_before.is_none() {
            return;
        }
        match first_frame(&self.input) {
            FirstFrame::Incomplete => {}
            FirstFrame::EndsAt(at) => {
                let frame = self.asked_before.take().unwrap_or_default();
                self.input.splice(at..at, frame);
            }
            // The protocol will refuse it.
            FirstFrame::Wrong => self.asked_before = None,
        }
    }

    /// True if there is input that the protocol may consume.
    pub(crate) fn has_input(&self) -> bool {
        self.used < self.input.len() && self.asked_before.is_none()
    }

    /// Gives back memory that an idle connection does not need.
    pub(crate) fn shrink(&mut self) {
        if self.used == self.input.len() {
            (self.input, self.used) = (Vec::new(), 0);
        }
    }
}

/// The state of the first frame behind the preface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstFrame {
    Incomplete,
    EndsAt(usize),
    /// The preface is wrong, or the frame is longer than one may be.
    Wrong,
}

fn first_frame(input: &[u8]) -> FirstFrame {
    let greeting = &input[..input.len().min(PREFACE.len())];
    if !PREFACE.starts_with(greeting) {
        return FirstFrame::Wrong;
    }
    let Some(length) = input.get(PREFACE.len()..PREFACE.len() + 3) else {
        return FirstFrame::Incomplete;
    };
    let length = u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize;
    let end = PREFACE.len() + FRAME_HEAD_BYTES + length;
    match length > FRAME_BYTES_MAX {
        true => FirstFrame::Wrong,
        false if input.len() < end => FirstFrame::Incomplete,
        false => FirstFrame::EndsAt(end),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a first frame of up to 16 MiB was buffered before its length was checked.
    #[test]
    fn the_request_that_asked_for_the_upgrade_follows_the_first_frame() {
        let mut pipe = Pipe::new(Some(b"<request>".to_vec()));
        let settings = [0, 0, 2, 4, 0, 0, 0, 0, 0, 7, 7];
        for piece in [&PREFACE[..10], &PREFACE[10..], &settings[..4]] {
            pipe.feed(piece);
            assert!(!pipe.has_input());
        }
        pipe.feed(&[&settings[4..], b"rest"].concat());
        let expected: [&[u8]; 4] = [PREFACE, &settings, b"<request>", b"rest"];
        assert!(pipe.has_input() && pipe.input == expected.concat());
        for wrong in [&b"PRI * HTTP/9"[..], &[&PREFACE[..], &[0, 0x40, 1]].concat()] {
            let mut pipe = Pipe::new(Some(b"<request>".to_vec()));
            pipe.feed(wrong);
            assert!(pipe.has_input() && pipe.input == wrong, "it is for the protocol to refuse");
        }
    }
}
