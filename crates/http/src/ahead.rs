//! What became readable together is read together, and answered afterwards.
//!
//! Between two system calls of the network, a request's own code finds its caches emptied: parsing,
//! finding and answering took a third less time where several requests followed each other without
//! one (docs/request-path.md). So the connections of one wake-up are read first, one after the
//! other, then what they sent is answered, and then the answers are written ([`crate::batch`]).
//! What a request waits meanwhile for those before it is part of its `queue`.

use std::ops::Range;

use pellucid_account::Phase;
use pellucid_clock::Ticks;

use crate::connection::Connection;
use crate::event_loop::{EventLoop, Fate, Step, Turn};
use crate::gather::Peer;
use crate::limits::{AHEAD_BYTES_MIN, AHEAD_CONNECTIONS_MAX, READ_BYTES_MAX};
use crate::service::Service;
use crate::socket::{Received, receive_some};

/// What was read and is yet to be answered.
#[derive(Default)]
pub(crate) struct ReadAhead {
    reads: Vec<Read>,
    /// What they brought, one behind the other; without any length until there is something.
    buffer: Vec<u8>,
    used: usize,
}

/// What one connection brought. It is out of its slot until it has had its turn.
struct Read {
    slot: usize,
    connection: Box<Connection>,
    range: Range<usize>,
    filled: bool,
    turn: Turn,
}

impl ReadAhead {
    fn is_full(&self) -> bool {
        let left = self.buffer.len() - self.used;
        self.reads.len() >= AHEAD_CONNECTIONS_MAX || left < AHEAD_BYTES_MIN
    }
}

impl<S: Service> EventLoop<S> {
    /// Reads what a connection has, to be answered by [`EventLoop::serve_ahead`]; gives it its turn
    /// now where there is more to it than that.
    pub(crate) fn read_ahead(&mut self, slot: usize, woke: Ticks, peer: Peer) {
        let Some(mut connection) = self.connections.take(slot) else { return };
        connection.note_event(peer, woke);
        if !connection.may_be_read_ahead() {
            let fate = self.advance(slot, &mut connection, woke);
            return self.settle(slot, connection, fate);
        }
        let ReadAhead { buffer, used, .. } = &mut self.ahead;
        if buffer.is_empty() {
            buffer.resize(READ_BYTES_MAX, 0);
        }
        let begin = *used;
        let mut turn = Turn::at(woke, self.last);
        pellucid_thread::resume_request(Phase::Receive.label(), connection.early);
        let read = receive_some(&connection.socket, &mut buffer[begin..]);
        turn.received = self.read_clock();
        connection.early = pellucid_thread::suspend_request();
        let Ok(Received::Bytes { count, filled }) = read else {
            let step = self.after_read(&mut connection, read, woke);
            let fate = self.go_on_after(step, slot, &mut connection, woke);
            return self.settle(slot, connection, fate);
        };
        self.ahead.used += count;
        let range = begin..begin + count;
        self.ahead.reads.push(Read { slot, connection, range, filled, turn });
        if self.ahead.is_full() {
            self.serve_ahead(woke);
        }
    }

    /// Answers what was read.
    pub(crate) fn serve_ahead(&mut self, woke: Ticks) {
        if self.ahead.reads.is_empty() {
            return;
        }
        let ReadAhead { mut reads, buffer, .. } = std::mem::take(&mut self.ahead);
        for Read { slot, mut connection, range, filled, mut turn } in reads.drain(..) {
            turn.waited_until = Some(self.last);
            let early = std::mem::take(&mut connection.early);
            pellucid_thread::resume_request(Phase::Parse.label(), early);
            let count = range.len();
            self.digest(slot, &mut connection, &buffer[range], turn);
            connection.early = pellucid_thread::suspend_request();
            let read = Ok(Received::Bytes { count, filled });
            let step = self.after_read(&mut connection, read, woke);
            let fate = self.go_on_after(step, slot, &mut connection, woke);
            self.settle(slot, connection, fate);
            if self.batch.is_full {
                self.write_batch();
            }
        }
        self.ahead = ReadAhead { reads, buffer, used: 0 };
    }

    /// Does what is left to do behind a step that was taken outside of a turn.
    fn go_on_after(
        &mut self,
        step: Step,
        slot: usize,
        connection: &mut Connection,
        woke: Ticks,
    ) -> Fate {
        match step {
            Step::Again if connection.is_costly() => {
                self.again.push(slot);
                Fate::Keep
            }
            Step::Again => self.advance(slot, connection, woke),
            Step::Blocked => Fate::Keep,
            Step::Over => Fate::Drop,
        }
    }
}
