//! Requests whose code panicked: each is answered with 500, and its connection closed.

use std::sync::atomic::Ordering;

use pellucid_account::{RequestFacts, Stamp, Timeline};
use pellucid_clock::Ticks;
use pellucid_thread::{Panicked, contain};

use crate::connection::{Connection, Parked, Stage};
use crate::event_loop::{EventLoop, Fate};
use crate::refusal::Refusal;
use crate::requests::saturating_u32;
use crate::response::{Manner, Response};
use crate::service::{BodySource, ConnectionId, Filled, Service};

/// A panic, and whether the request's [`crate::Completer`] had been taken: then a letter of it is
/// still to come, as of one that was handed over.
pub(crate) type Failure = (Option<Panicked>, bool);

/// Has `source` fill `out`. A panic breaks the body off.
pub(crate) fn fill(source: &mut dyn BodySource, out: &mut Vec<u8>) -> Filled {
    contain(|| source.fill(out)).unwrap_or_else(|panicked| {
        panicked.tell();
        Filled::Broken
    })
}

impl<S: Service> EventLoop<S> {
    /// Tells the service, and makes the account of a request whose code panicked whole.
    pub(crate) fn note_failure(
        &mut self,
        (panicked, is_taken): Failure,
        timeline: &mut Timeline,
        facts: &mut RequestFacts,
    ) {
        if is_taken {
            self.shared.requests_in_flight.fetch_add(1, Ordering::Relaxed);
        }
        let kind = self.service.facts_of_refusal(&Refusal::Failed);
        facts.outcome = kind.outcome;
        if timeline.taken(Stamp::Routed).is_none() {
            facts.operation = kind.operation;
        }
        for stamp in [Stamp::Routed, Stamp::Started, Stamp::Executed] {
            if timeline.taken(stamp).is_none() {
                timeline.stamp(stamp);
            }
        }
        self.service.panicked(panicked.as_ref(), timeline, facts);
    }

    /// Answers a request whose code panicked, in place of what it has written to `out` from `begin`
    /// on.
    pub(crate) fn fail(
        &mut self,
        connection: &mut Connection,
        failure: Failure,
        manner: Manner,
        (mut timeline, mut facts): (Timeline, RequestFacts),
        (out, begin): (&mut Vec<u8>, usize),
    ) {
        out.truncate(begin);
        connection.body = None;
        self.note_failure(failure, &mut timeline, &mut facts);
        let manner = Manner { keep_alive: false, coding: None, ..manner };
        Response::new(out, &self.date_line, manner).refuse(&Refusal::Failed);
        facts.status = Refusal::Failed.status();
        facts.response_bytes = saturating_u32(out.len() - begin);
        self.last = timeline.stamp(Stamp::Encoded);
        let record = self.recorder.seal(&timeline, facts);
        self.finish(connection, record, out.len());
        self.close_after_response(connection);
    }

    /// Ends a request that was handed over to code that panicked.
    pub(crate) fn fail_away(&mut self, id: ConnectionId, woke: Ticks) {
        self.shared.requests_in_flight.fetch_sub(1, Ordering::Relaxed);
        self.with_connection_of(id, |this, connection| {
            if let Stage::Http2(session) = &mut connection.stage
                && let Some(parked) = session.take_parked(id.stream)
            {
                this.fail_stream_away(session, *parked);
            } else if this.fail_parked(connection) == Fate::Drop {
                return Fate::Drop;
            }
            this.advance(id.slot as usize, connection, woke)
        });
    }

    fn fail_parked(&mut self, connection: &mut Connection) -> Fate {
        let stage = std::mem::replace(&mut connection.stage, Stage::Serving);
        let Stage::Waiting(mut place) = stage else {
            connection.stage = stage;
            return Fate::Keep;
        };
        let Some(parked) = place.take() else { return Fate::Keep };
        let Parked { timeline, facts, manner, flight, .. } = parked;
        self.recorder.take_back(&timeline, flight);
        self.with_out(|this, out| {
            let (account, begin) = ((timeline, facts), out.len());
            this.fail(connection, (None, false), manner, account, (out, begin));
            this.flush(connection, out)
        })
    }
}
