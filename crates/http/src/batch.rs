//! Batches of responses: those of one wake-up are written together.
//!
//! A system call costs less if the one before it was of the same kind, because its code and data
//! are still in the processor's caches. And a client with many connections, which is woken by the
//! first response, finds the others by the time it looks. So the responses to connections that
//! became readable together are gathered, and written after all requests are answered. This saves a
//! bare loop with 64 busy connections a seventh of a request's processor time
//! (docs/lab/2026-11-24-request-path.md).

use std::ops::Range;

use pellucid_clock::{Clock, Ticks};

use crate::limits::{BATCH_BYTES_MAX, BATCH_CONNECTIONS_MAX, BATCH_PAUSE_MAX};
use crate::mailbox::ConnectionId;

/// A batch of responses, ordered by connection.
pub(crate) struct Batch {
    /// True if responses may wait, because others will follow in this wake-up.
    is_open: bool,
    /// True if the batch must be written before anything is added.
    is_full: bool,
    pub(crate) out: Vec<u8>,
    parts: Vec<(ConnectionId, Range<usize>)>,
    /// The time at which the first part was added.
    begun: Ticks,
    pause_ticks: u64,
}

impl Batch {
    pub(crate) fn new(clock: &Clock) -> Batch {
        let pause_ticks = clock.ticks(BATCH_PAUSE_MAX.as_nanos() as u64);
        let (out, parts) = (Vec::new(), Vec::with_capacity(BATCH_CONNECTIONS_MAX));
        Batch { is_open: false, is_full: false, out, parts, begun: Ticks(0), pause_ticks }
    }

    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Sets whether responses may wait from now on; returns the previous value.
    pub(crate) fn open(&mut self, is_open: bool) -> bool {
        std::mem::replace(&mut self.is_open, is_open)
    }

    /// Notes that the bytes from `begin` on are the responses of a connection.
    #[inline]
    pub(crate) fn add(&mut self, id: ConnectionId, begin: usize, now: Ticks) {
        let end = self.out.len();
        if self.parts.is_empty() {
            self.begun = now;
        }
        self.parts.push((id, begin..end));
        let is_late = now.since(self.begun) > self.pause_ticks;
        if is_late || end > BATCH_BYTES_MAX || self.parts.len() >= BATCH_CONNECTIONS_MAX {
            self.is_full = true;
        }
    }

    /// Takes the responses out, and the connections that they belong to.
    #[inline]
    pub(crate) fn take(&mut self) -> (Vec<(ConnectionId, Range<usize>)>, Vec<u8>) {
        self.is_full = false;
        (std::mem::take(&mut self.parts), std::mem::take(&mut self.out))
    }

    /// Gives the emptied buffers back.
    #[inline]
    pub(crate) fn put_back(&mut self, parts: Vec<(ConnectionId, Range<usize>)>, out: Vec<u8>) {
        (self.parts, self.out) = (parts, out);
    }
}
