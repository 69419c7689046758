//! TLS handshakes, a few at a time: those who are connected are served between them.
//!
//! What a handshake computes takes a hundred times as long as a request. Were each gone on with as
//! its bytes come, a crowd of new clients would hold up everybody on the loop.

use std::sync::atomic::Ordering;

use pellucid_clock::Ticks;

use crate::connection::Connection;
use crate::cuts::Cut;
use crate::event_loop::{EventLoop, Fate};
use crate::limits::{HANDSHAKES_PER_TURN_MAX, HANDSHAKES_WAITING_MAX};
use crate::requests::id_of;
use crate::service::Service;

impl<S: Service> EventLoop<S> {
    /// Gives a connection its turn, or, while it is in its handshake, a place in the queue for it.
    pub(crate) fn take_turn(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        woke: Ticks,
    ) -> Fate {
        match connection.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            true => self.queue_handshake(slot, connection),
            false => self.advance(slot, connection, woke),
        }
    }

    fn queue_handshake(&mut self, slot: usize, connection: &mut Connection) -> Fate {
        if connection.is_queued {
            return Fate::Keep;
        }
        if self.handshakes.len() >= HANDSHAKES_WAITING_MAX {
            self.shared.cuts.refused(Cut::Handshakes);
            return Fate::Drop;
        }
        connection.is_queued = true;
        self.handshakes.push_back(id_of(slot, connection));
        Fate::Keep
    }

    /// Goes on with those whose turn it is. A connection that is gone, or sent nothing, takes none.
    pub(crate) fn go_on_with_handshakes(&mut self, woke: Ticks) {
        let mut steps = 0;
        while steps < HANDSHAKES_PER_TURN_MAX {
            let Some(id) = self.handshakes.pop_front() else { return };
            let before = self.handshake_ticks();
            self.with_connection_of(id, |this, connection| {
                connection.is_queued = false;
                this.advance(id.slot as usize, connection, woke)
            });
            steps += usize::from(self.handshake_ticks() != before);
        }
    }

    /// What handshakes took on this loop until now.
    fn handshake_ticks(&self) -> u64 {
        self.shared.tls[self.index].handshake_ticks.load(Ordering::Relaxed)
    }
}
