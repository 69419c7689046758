//! Requests that became readable together are read together, and answered afterwards.
//!
//! Between two system calls of the network, a request's own code finds its caches emptied: parsing,
//! finding and answering took a third less time where several requests followed each other without
//! one (docs/lab/2026-11-24-request-path.md). So the connections of one wake-up are read first, one
//! after the other, then their requests are answered, and then the answers are written
//! ([`crate::batch`]). The time that a request waits meanwhile for those before it is part of its
//! `queue`.

use std::ops::Range;

use crate::accounts::Turn;
use crate::connection::Connection;
use crate::limits::{AHEAD_BYTES_MIN, AHEAD_CONNECTIONS_MAX, READ_BYTES_MAX};

/// Reads that are yet to be answered.
#[derive(Default)]
pub(crate) struct ReadAhead {
    pub(crate) reads: Vec<Read>,
    /// Their bytes, one behind the other; without any length until there are some.
    pub(crate) buffer: Vec<u8>,
    used: usize,
}

/// The read of one connection. It is out of its slot until it has had its turn.
pub(crate) struct Read {
    pub(crate) slot: usize,
    pub(crate) connection: Box<Connection>,
    pub(crate) range: Range<usize>,
    /// More may be there already.
    pub(crate) filled: bool,
    pub(crate) turn: Turn,
}

impl ReadAhead {
    /// Buffers of an earlier use.
    pub(crate) fn reusing(reads: Vec<Read>, buffer: Vec<u8>) -> ReadAhead {
        ReadAhead { reads, buffer, used: 0 }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        let left = self.buffer.len() - self.used;
        self.reads.len() >= AHEAD_CONNECTIONS_MAX || left < AHEAD_BYTES_MIN
    }

    /// Room for the next read.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer.resize(READ_BYTES_MAX, 0);
        }
        &mut self.buffer[self.used..]
    }

    /// Keeps a connection whose read has brought `count` bytes to that room.
    #[inline]
    pub(crate) fn add(
        &mut self,
        (slot, connection): (usize, Box<Connection>),
        count: usize,
        filled: bool,
        turn: Turn,
    ) {
        let range = self.used..self.used + count;
        self.used += count;
        self.reads.push(Read { slot, connection, range, filled, turn });
    }
}
