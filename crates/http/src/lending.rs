//! Buffers and connections of an event loop, lent for the time of a call.
//!
//! Whatever way the call ends, what was lent is back behind it: nobody else can take it, and nobody
//! has to remember to return it. A reset that came at the wrong moment once left a loop without the
//! buffer that it reads to, and with it without any connection.

use crate::connection::Connection;
use crate::event_loop::{EventLoop, Fate};
use crate::limits::READ_BYTES_MAX;
use crate::output::OUTPUT_KEPT_BYTES;
use crate::service::{ConnectionId, Service};

/// The buffers of one event loop. Where one is lent already, another is made.
#[derive(Default)]
pub(crate) struct Buffers {
    scratch: Option<Box<[u8]>>,
    out: Vec<u8>,
    body: Vec<u8>,
}

/// Empties a buffer for its next use, and gives its memory back if it has grown large.
pub(crate) fn emptied(mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    if buffer.capacity() > OUTPUT_KEPT_BYTES { Vec::new() } else { buffer }
}

impl<S: Service> EventLoop<S> {
    /// Lends the buffer that requests are read to and, if they are whole, parsed in.
    #[inline]
    pub(crate) fn with_scratch<T>(&mut self, call: impl FnOnce(&mut Self, &mut [u8]) -> T) -> T {
        let scratch = self.buffers.scratch.take();
        let mut scratch = scratch.unwrap_or_else(|| vec![0; READ_BYTES_MAX].into_boxed_slice());
        let value = call(self, &mut scratch);
        self.buffers.scratch = Some(scratch);
        value
    }

    /// Lends the buffer that responses are encoded in; it is empty.
    #[inline]
    pub(crate) fn with_out<T>(&mut self, call: impl FnOnce(&mut Self, &mut Vec<u8>) -> T) -> T {
        let mut out = std::mem::take(&mut self.buffers.out);
        let value = call(self, &mut out);
        self.buffers.out = emptied(out);
        value
    }

    /// Lends the buffer that the bodies of streams are written in before the protocol frames them;
    /// it is empty.
    pub(crate) fn with_body<T>(&mut self, call: impl FnOnce(&mut Self, &mut Vec<u8>) -> T) -> T {
        let mut body = std::mem::take(&mut self.buffers.body);
        let value = call(self, &mut body);
        self.buffers.body = emptied(body);
        value
    }

    /// Lends the connection in a slot, if it is in its place: it goes back there, or ends.
    #[inline]
    pub(crate) fn with_connection(
        &mut self,
        slot: usize,
        call: impl FnOnce(&mut Self, &mut Connection) -> Fate,
    ) {
        let Some(mut connection) = self.connections.take(slot) else { return };
        let fate = call(self, &mut connection);
        self.settle(slot, connection, fate);
    }

    /// As [`EventLoop::with_connection`], if the connection there is still the one that is meant.
    #[inline]
    pub(crate) fn with_connection_of(
        &mut self,
        id: ConnectionId,
        call: impl FnOnce(&mut Self, &mut Connection) -> Fate,
    ) {
        if self.connections.is_current(id) {
            self.with_connection(id.slot as usize, call);
        }
    }
}
