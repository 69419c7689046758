//! Reads the connections that became readable together first, and answers them afterwards.
//!
//! A network system call evicts a request's own code and data from the processor's caches: parsing,
//! look-up and answering took a third less time if several requests followed each other without a
//! system call (docs/lab/2026-11-24-request-path.md). So the connections of one wake-up are read,
//! one after the other, then their requests are answered, and then the answers are written
//! ([`crate::batch`]). The time that a request waits meanwhile for those before it is part of its
//! `queue`.

use std::ops::Range;

use crate::accounts::TurnTimestamps;
use crate::connection::Connection;
use crate::limits::{AHEAD_BYTES_MIN, AHEAD_CONNECTIONS_MAX, READ_BYTES_MAX};

/// The reads that are not answered yet, and their buffer.
#[derive(Default)]
pub(crate) struct ReadAhead {
    pub(crate) reads: Vec<PendingRead>,
    /// The bytes of the reads, one behind the other; empty until first needed.
    pub(crate) buffer: Vec<u8>,
    used: usize,
}

/// The read of one connection, which is out of its slot until it has had its turn.
pub(crate) struct PendingRead {
    pub(crate) slot: usize,
    pub(crate) connection: Box<Connection>,
    pub(crate) range: Range<usize>,
    /// True if more bytes may be available.
    pub(crate) filled: bool,
    pub(crate) turn: TurnTimestamps,
}

impl ReadAhead {
    /// Makes an empty list that reuses the buffers of an earlier one.
    pub(crate) fn reusing(reads: Vec<PendingRead>, buffer: Vec<u8>) -> ReadAhead {
        ReadAhead { reads, buffer, used: 0 }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        let left = self.buffer.len() - self.used;
        self.reads.len() >= AHEAD_CONNECTIONS_MAX || left < AHEAD_BYTES_MIN
    }

    /// The free part of the buffer, for the next read.
    #[inline]
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.buffer.is_empty() {
            self.buffer.resize(READ_BYTES_MAX, 0);
        }
        &mut self.buffer[self.used..]
    }

    /// Adds a connection whose read has put `count` bytes into [`ReadAhead::room`].
    #[inline]
    pub(crate) fn add(
        &mut self,
        (slot, connection): (usize, Box<Connection>),
        count: usize,
        filled: bool,
        turn: TurnTimestamps,
    ) {
        let range = self.used..self.used + count;
        self.used += count;
        self.reads.push(PendingRead { slot, connection, range, filled, turn });
    }
}
