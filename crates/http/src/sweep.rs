//! Time limits: idle connections, slow writers, slow readers, and the end of the server.

use std::time::Duration;

use pellucid_clock::Ticks;

use crate::client_watch::ClientWatch;
use crate::connection::{Closing, Connection, Stage};
use crate::cuts::Cut;
use crate::event_loop::{EventLoop, Fate};
use crate::limits::{BODY_BYTES_PER_SECOND_MIN, HALF_CLOSE_GRACE, Limits};
use crate::service::Service;
use crate::taking::Taking;

/// How long the client's leftovers are read after a refusal.
const LINGER: Duration = Duration::from_secs(2);

/// What a look at the clock says of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Keep,
    RefuseSlow,
    Drop(Cut),
    /// The last of a connection that was refused before.
    Leave,
}

impl<S: Service> EventLoop<S> {
    /// Ends what has taken too long.
    pub(crate) fn sweep(&mut self, now: Ticks) {
        if self.accept_again {
            self.accept(now);
        }
        for slot in 0..self.connections.bound() {
            self.with_connection(slot, |this, connection| {
                this.sweep_connection(slot, connection, now)
            });
        }
    }

    fn sweep_connection(&mut self, slot: usize, connection: &mut Connection, now: Ticks) -> Fate {
        if connection.taking.is_begun() && connection.has_caught_up() {
            connection.taking = Taking::default();
        }
        self.tell_half_closed(connection, now);
        if matches!(connection.stage, Stage::Http2(_))
            && self.cut_of_reader(connection, now).is_none()
        {
            return self.sweep_http2(slot, connection, now);
        }
        match self.judge(connection, now) {
            Verdict::Keep => Fate::Keep,
            Verdict::Leave => Fate::Drop,
            Verdict::Drop(cut) => {
                self.shared.cuts.connection(cut);
                Fate::Drop
            }
            Verdict::RefuseSlow => {
                self.shared.cuts.connection(Cut::RequestSlow);
                match self.refuse_slow(connection, now) {
                    Fate::Keep => self.advance(slot, connection, now),
                    Fate::Drop => Fate::Drop,
                }
            }
        }
    }

    /// Takes a client that has long said that it sends no more for one that is gone. The answer is
    /// sent nevertheless, as it may be there.
    fn tell_half_closed(&self, connection: &Connection, now: Ticks) {
        if let (Stage::Waiting(place), Some(since)) = (&connection.stage, connection.ended_at)
            && self.longer(since, HALF_CLOSE_GRACE, now)
        {
            let watch = place.as_ref().as_ref().and_then(|parked| parked.watch.as_ref());
            watch.into_iter().for_each(ClientWatch::tell);
        }
    }

    /// Whether more than `limit` has passed since `since`.
    pub(crate) fn longer(&self, since: Ticks, limit: Duration, now: Ticks) -> bool {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.clock.nanoseconds(now.since(since)) > limit_ns
    }

    /// Why the connection ends if its client does not take what is written, or too slowly.
    fn cut_of_reader(&self, connection: &Connection, now: Ticks) -> Option<Cut> {
        if !connection.has_unsent() {
            return None;
        }
        if self.longer(connection.progress_at, self.limits.exchange, now) {
            return Some(Cut::ResponseStalled);
        }
        self.takes_slowly(&connection.taking, now).then_some(Cut::ResponseSlow)
    }

    /// Whether a client has had its time for what it took.
    pub(crate) fn takes_slowly(&self, taking: &Taking, now: Ticks) -> bool {
        let Limits { exchange, response_bytes_per_second, .. } = self.limits;
        taking.is_slow(exchange, response_bytes_per_second, &self.clock, now)
    }

    fn judge(&self, connection: &Connection, now: Ticks) -> Verdict {
        let longer = |since: Ticks, limit: Duration| self.longer(since, limit, now);
        let (idle_for, cut) = match self.stop_by {
            Some(_) => (Duration::ZERO, Cut::Stopping),
            None => (self.limits.idle, Cut::Idle),
        };
        if connection.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            let is_late = longer(connection.progress_at, self.limits.handshake);
            return match self.stop_by {
                Some(_) => Verdict::Drop(Cut::Stopping),
                None if is_late => Verdict::Drop(Cut::HandshakeSlow),
                None => Verdict::Keep,
            };
        }
        let reader = self.cut_of_reader(connection, now).map(Verdict::Drop);
        match &connection.stage {
            Stage::Lingering { .. } if longer(connection.progress_at, LINGER) => Verdict::Leave,
            Stage::Lingering { .. } | Stage::Waiting(_) => Verdict::Keep,
            _ if reader.is_some() => reader.unwrap_or(Verdict::Keep),
            Stage::Streaming(_) | Stage::Http2(_) | Stage::Leaving => Verdict::Keep,
            Stage::Serving if connection.closing != Closing::No => Verdict::Keep,
            Stage::Serving if connection.is_idle() => {
                if longer(connection.progress_at, idle_for) {
                    Verdict::Drop(cut)
                } else {
                    Verdict::Keep
                }
            }
            Stage::Serving => {
                let held = connection.input.len() + connection.reserved_bytes;
                let body = Duration::from_secs(held as u64 / BODY_BYTES_PER_SECOND_MIN);
                let limit = self.limits.exchange + body;
                match connection.begun {
                    Some(begun) if longer(begun.at, limit) => Verdict::RefuseSlow,
                    _ => Verdict::Keep,
                }
            }
        }
    }
}
