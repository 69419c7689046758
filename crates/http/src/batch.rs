//! Responses of one wake-up, written together.
//!
//! A system call costs less when the one before it was of the same kind: its code and data are in
//! the processor's caches still. And a client with many connections that is woken by the first
//! response finds the others by the time it looks. So what connections are answered that became
//! readable together is put by, and written when all of them are read; a bare loop with 64 busy
//! connections saves a seventh of a request's processor time by it (docs/request-path.md).

use std::ops::Range;

use pellucid_clock::{Clock, Ticks};

use crate::connection::{Closing, Connection, Stage};
use crate::event_loop::{EventLoop, Fate};
use crate::lending::emptied;
use crate::limits::{BATCH_BYTES_MAX, BATCH_CONNECTIONS_MAX, BATCH_PAUSE_MAX};
use crate::requests::id_of;
use crate::service::{ConnectionId, Service};

/// What is put by.
pub(crate) struct Batch {
    /// Whether responses are put by at all: others are to come in this wake-up.
    pub(crate) is_open: bool,
    /// Whether it is to be written before anything is added.
    pub(crate) is_full: bool,
    /// The responses, one connection's after the other's.
    out: Vec<u8>,
    /// Whose they are.
    parts: Vec<(ConnectionId, Range<usize>)>,
    /// When the first of them was put by.
    begun: Ticks,
    pause_ticks: u64,
}

impl Batch {
    pub(crate) fn new(clock: &Clock) -> Batch {
        let pause_ticks = clock.ticks(BATCH_PAUSE_MAX.as_nanos() as u64);
        let (out, parts) = (Vec::new(), Vec::with_capacity(BATCH_CONNECTIONS_MAX));
        Batch { is_open: false, is_full: false, out, parts, begun: Ticks(0), pause_ticks }
    }
}

impl<S: Service> EventLoop<S> {
    /// Lends what is put by, so that more is written behind it; says where `call` has begun.
    #[inline]
    pub(crate) fn with_batch<T>(
        &mut self,
        call: impl FnOnce(&mut Self, &mut Vec<u8>) -> T,
    ) -> (usize, T) {
        let mut out = std::mem::take(&mut self.batch.out);
        let begin = out.len();
        let value = call(self, &mut out);
        self.batch.out = out;
        (begin, value)
    }

    /// Puts by what the batch has from `begin` on, the responses of `connection`. Where it will be
    /// read no further, or has much to send, it is written now.
    pub(crate) fn put_by(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        begin: usize,
    ) -> Fate {
        let end = self.batch.out.len();
        // Positions so far are those of the whole batch.
        connection.finished.iter_mut().for_each(|finished| finished.end -= begin);
        let may_wait = matches!(connection.stage, Stage::Serving)
            && connection.closing == Closing::No
            && end - begin <= BATCH_BYTES_MAX;
        let part = (id_of(slot, connection), begin..end);
        if begin == end {
            return Fate::Keep;
        }
        if !may_wait {
            return self.write_apart(connection, begin);
        }
        connection.is_put_by = true;
        let now = if self.recorder.is_on() { self.last } else { self.clock.now() };
        if self.batch.parts.is_empty() {
            self.batch.begun = now;
        }
        self.batch.parts.push(part);
        let is_late = now.since(self.batch.begun) > self.batch.pause_ticks;
        if is_late || end > BATCH_BYTES_MAX || self.batch.parts.len() >= BATCH_CONNECTIONS_MAX {
            self.batch.is_full = true;
        }
        Fate::Keep
    }

    /// Writes what was put by from `begin` on, and nothing before it.
    fn write_apart(&mut self, connection: &mut Connection, begin: usize) -> Fate {
        let (_, fate) = self.with_batch(|this, out| {
            let fate = this.send_behind(connection, &out[begin..]);
            out.truncate(begin);
            fate
        });
        fate
    }

    /// As [`EventLoop::put_by`], for responses that stand in a buffer of their own.
    pub(crate) fn put_by_copied(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        out: &[u8],
    ) -> Fate {
        let begin = self.batch.out.len();
        self.batch.out.extend_from_slice(out);
        connection.finished.iter_mut().for_each(|finished| finished.end += begin);
        self.put_by(slot, connection, begin)
    }

    /// Writes what was put by.
    pub(crate) fn write_batch(&mut self) {
        self.batch.is_full = false;
        // What comes of it is not put by: this is not the place to write that.
        let is_open = std::mem::replace(&mut self.batch.is_open, false);
        let mut parts = std::mem::take(&mut self.batch.parts);
        let out = std::mem::take(&mut self.batch.out);
        for (id, range) in parts.drain(..) {
            self.with_connection_of(id, |this, connection| {
                connection.is_put_by = false;
                this.send_behind(connection, &out[range])
            });
        }
        (self.batch.parts, self.batch.out) = (parts, emptied(out));
        self.batch.is_open = is_open;
    }
}
