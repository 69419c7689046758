//! Time limits: idle connections, slow writers, slow readers, and the end of the server.

use std::time::Duration;

use pellucid_clock::Ticks;

use crate::connection::{Closing, Connection, Stage};
use crate::event_loop::{EventLoop, Fate};
use crate::service::Service;

/// A client that sends a large body at this rate or above is not taken for a slow one.
pub(crate) const BODY_BYTES_PER_SECOND_MIN: u64 = 16 * 1024;
/// How long the client's leftovers are read after a refusal.
const LINGER: Duration = Duration::from_secs(2);

/// What a look at the clock says of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Keep,
    RefuseSlow,
    Drop,
}

impl<S: Service> EventLoop<S> {
    /// Ends what has taken too long.
    pub(crate) fn sweep(&mut self, now: Ticks) {
        if self.accept_again {
            self.accept(now);
        }
        for slot in 0..self.connections.bound() {
            let Some(mut connection) = self.connections.take(slot) else { continue };
            if matches!(connection.stage, Stage::Http2(_)) && !self.is_stalled(&connection, now) {
                let fate = self.sweep_http2(slot, &mut connection, now);
                self.settle(slot, connection, fate);
                continue;
            }
            let fate = match self.judge(&connection, now) {
                Verdict::Keep => Fate::Keep,
                Verdict::Drop => Fate::Drop,
                Verdict::RefuseSlow => match self.refuse_slow(&mut connection, now) {
                    Fate::Keep => self.advance(slot, &mut connection, now),
                    Fate::Drop => Fate::Drop,
                },
            };
            self.settle(slot, connection, fate);
        }
    }

    /// Whether more than `limit` has passed since `since`.
    pub(crate) fn longer(&self, since: Ticks, limit: Duration, now: Ticks) -> bool {
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.clock.nanoseconds(now.since(since)) > limit_ns
    }

    /// Whether the client does not take what is written.
    fn is_stalled(&self, connection: &Connection, now: Ticks) -> bool {
        connection.has_unsent() && self.longer(connection.progress_at, self.limits.exchange, now)
    }

    fn judge(&self, connection: &Connection, now: Ticks) -> Verdict {
        let longer = |since: Ticks, limit: Duration| self.longer(since, limit, now);
        let idle_for = if self.stop_by.is_some() { Duration::ZERO } else { self.limits.idle };
        if connection.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            let is_late = longer(connection.progress_at, self.limits.handshake);
            return if is_late || self.stop_by.is_some() { Verdict::Drop } else { Verdict::Keep };
        }
        match &connection.stage {
            Stage::Lingering { .. } if longer(connection.progress_at, LINGER) => Verdict::Drop,
            Stage::Lingering { .. } | Stage::Waiting(_) => Verdict::Keep,
            _ if self.is_stalled(connection, now) => Verdict::Drop,
            Stage::Streaming(_) | Stage::Http2(_) | Stage::Leaving => Verdict::Keep,
            Stage::Serving if connection.closing != Closing::No => Verdict::Keep,
            Stage::Serving if connection.is_idle() => {
                if longer(connection.progress_at, idle_for) {
                    Verdict::Drop
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
