//! Answers to what the transport refuses by itself; they are accounted for like any other.

use pellucid_account::{RequestFacts, Stamp, Timeline};
use pellucid_clock::Ticks;

use crate::connection::{Begun, Closing, Connection};
use crate::event_loop::{EventLoop, Fate, Turn};
use crate::head::Head;
use crate::refusal::Refusal;
use crate::requests::{Arrival, saturating_u32};
use crate::response::{Manner, Response};
use crate::service::Service;

impl<S: Service> EventLoop<S> {
    /// Answers what the transport refuses, and trusts the stream no more.
    pub(crate) fn refuse(
        &mut self,
        connection: &mut Connection,
        refusal: &Refusal,
        head: Option<&Head<'_, '_>>,
        begun: Begun,
        received: Ticks,
        out: &mut Vec<u8>,
    ) {
        (connection.begun, connection.wanted_bytes) = (None, 0);
        let arrival = Arrival { begun, received, waited_until: None, bytes: 0 };
        let mut timeline = self.timeline(connection, &arrival);
        timeline.stamp(Stamp::Parsed);
        let manner = Manner {
            keep_alive: false,
            is_head: head.is_some_and(|head| head.method == "HEAD"),
            ..Manner::PLAIN
        };
        let facts = self.facts(connection, 0);
        self.write_refusal(connection, refusal, manner, timeline, facts, out);
        connection.closing = Closing::AfterLinger;
    }

    pub(crate) fn overloaded(
        &mut self,
        connection: &mut Connection,
        manner: Manner,
        timeline: Timeline,
        facts: RequestFacts,
        out: &mut Vec<u8>,
    ) {
        self.release_body(connection);
        self.write_refusal(connection, &Refusal::Overloaded, manner, timeline, facts, out);
        if !manner.keep_alive {
            self.close_after_response(connection);
        }
    }

    fn write_refusal(
        &mut self,
        connection: &mut Connection,
        refusal: &Refusal,
        manner: Manner,
        mut timeline: Timeline,
        mut facts: RequestFacts,
        out: &mut Vec<u8>,
    ) {
        let begin = out.len();
        let mut response = Response::new(out, &self.date_line, manner);
        response.refuse(refusal);
        let kind = self.service.facts_of_refusal(refusal);
        (facts.operation, facts.outcome) = (kind.operation, kind.outcome);
        facts.status = refusal.status();
        facts.response_bytes = saturating_u32(out.len() - begin);
        let at = timeline.stamp(Stamp::Encoded);
        self.last = at;
        for stamp in [Stamp::Routed, Stamp::Started, Stamp::Executed] {
            timeline.stamp_at(stamp, at);
        }
        let record = self.recorder.seal(&timeline, facts);
        self.finish(connection, record, out.len());
    }

    /// Answers, in plain text, a client that does not know that TLS is spoken here.
    pub(crate) fn refuse_plain(&mut self, connection: &mut Connection, turn: Turn) {
        connection.tls = None;
        let begun = connection.begins(turn);
        let fate = self.with_out(|this, out| {
            this.refuse(connection, &Refusal::PlainText, None, begun, turn.received, out);
            this.flush(connection, out)
        });
        if fate == Fate::Drop {
            connection.closing = Closing::AtOnce;
        }
    }

    /// Answers a request that did not come in within its time.
    pub(crate) fn refuse_slow(&mut self, connection: &mut Connection, now: Ticks) -> Fate {
        let turn = Turn::at(now, now);
        let begun = connection.begun.unwrap_or_else(|| connection.begins(turn));
        connection.input = Vec::new();
        connection.chunked = None;
        let received = self.read_clock();
        self.release_body(connection);
        self.with_out(|this, out| {
            this.refuse(connection, &Refusal::TooSlow, None, begun, received, out);
            this.flush(connection, out)
        })
    }
}
