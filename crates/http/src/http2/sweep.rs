//! Time limits of HTTP/2 connections and their streams.

use std::time::Duration;

use h2::Reason;
use pellucid_clock::Ticks;

use super::session::Session;
use crate::connection::{Connection, Stage};
use crate::cuts::Cut;
use crate::event_loop::{EventLoop, Fate, Turn};
use crate::service::Service;

/// How long a client may take to leave after it was told to.
const LEAVE: Duration = Duration::from_secs(2);

impl<S: Service> EventLoop<S> {
    /// Ends what has taken too long on one connection.
    pub(crate) fn sweep_http2(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        now: Ticks,
    ) -> Fate {
        let stage = std::mem::replace(&mut connection.stage, Stage::Serving);
        let Stage::Http2(mut session) = stage else {
            connection.stage = stage;
            return Fate::Keep;
        };
        let turn = Turn::at(now, now);
        let is_left = self.leave_if_due(connection, &mut session, now);
        let late = self.refuse_late_bodies(connection, &mut session, turn);
        let stuck = self.reset_stuck(&mut session, now);
        connection.stage = Stage::Http2(session);
        match is_left {
            Left::Gone => Fate::Drop,
            Left::Told => self.advance(slot, connection, now),
            Left::No if late || stuck => self.advance(slot, connection, now),
            Left::No => Fate::Keep,
        }
    }

    fn leave_if_due(&mut self, connection: &Connection, session: &mut Session, now: Ticks) -> Left {
        let is_stopping = self.stop_by.is_some();
        if let Some(since) = session.leaving_since {
            let gone = session.is_idle() && self.longer(since, LEAVE, now);
            return if gone { Left::Gone } else { Left::No };
        }
        let is_idle =
            session.is_idle() && self.longer(connection.progress_at, self.limits.idle, now);
        if !is_stopping && !is_idle {
            return Left::No;
        }
        self.shared.cuts.connection(if is_stopping { Cut::Stopping } else { Cut::Idle });
        if session.leave(now) { Left::Told } else { Left::Gone }
    }

    fn refuse_late_bodies(
        &mut self,
        connection: &mut Connection,
        session: &mut Session,
        turn: Turn,
    ) -> bool {
        let before = session.receiving.len();
        self.refuse_late(connection, session, turn);
        let late = before - session.receiving.len();
        (0..late).for_each(|_| self.shared.cuts.stream(Cut::RequestSlow));
        late > 0
    }

    /// Gives up the responses that the client does not take, or takes too slowly.
    fn reset_stuck(&mut self, session: &mut Session, now: Ticks) -> bool {
        let mut is_any = false;
        for _ in 0..session.sending.len() {
            let Some(mut sending) = session.sending.pop_front() else { break };
            let is_stalled = self.longer(sending.progress_at, self.limits.exchange, now);
            if is_stalled || self.takes_slowly(&sending.taking, now) {
                let cut = if is_stalled { Cut::ResponseStalled } else { Cut::ResponseSlow };
                self.shared.cuts.stream(cut);
                sending.stream.send_reset(Reason::CANCEL);
                self.end_sending(session, sending);
                is_any = true;
            } else {
                session.sending.push_back(sending);
            }
        }
        is_any
    }
}

/// Whether a client was told to leave.
enum Left {
    No,
    /// Just now.
    Told,
    /// It has, or cannot be told.
    Gone,
}
