//! From frames to answers: the part of the event loop that answers the streams of a connection.

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use h2::server::SendResponse;
use http::HeaderMap;
use pellucid_account::{Phase, RequestFacts, Stamp, Timeline, TransportPart};
use pellucid_budget::{OverBudget, Share};
use pellucid_thread::{begin_request, contain, set_operation, set_phase};

use super::heads::head_of;
use super::sending::{Sending, Sent};
use super::session::{Away, Parked, ParkedRequest, Polled, Session, Stream};
use crate::connection::Connection;
use crate::event_loop::{EventLoop, Turn};
use crate::head::Head;
use crate::limits::{HEADERS_MAX, OUTPUT_BYTES_MAX, RESPONSE_BYTES_FREE};
use crate::output::hold_source;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::requests::{Arrival, id_of, saturating_u32};
use crate::response::{Manner, Outcome, Response, Streamed};
use crate::service::{ConnectionId, Exchange, Handled, Service};
use crate::taking::Taking;

/// Room for the headers of a usual response, so that they are laid out once.
pub(super) const FIELDS_USUAL: usize = 8;

/// A response that a service has finished, with its account.
pub(super) struct Answered {
    pub(super) handled: Handled,
    pub(super) outcome: Option<Outcome>,
    pub(super) fields: HeaderMap,
    pub(super) manner: Manner,
    pub(super) timeline: Timeline,
    pub(super) facts: RequestFacts,
}

impl<S: Service> EventLoop<S> {
    /// Answers the requests that are whole, and notes the others, unless the client leaves too much
    /// of our answers lying. True if the connection is done.
    pub(super) fn take_requests(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        session: &mut Session,
        turn: Turn,
    ) -> bool {
        let begun = connection.begins(turn);
        let mut waited_until = None;
        while session.held_bytes() < OUTPUT_BYTES_MAX {
            match waited_until {
                None => set_phase(Phase::Parse.label()),
                Some(_) => begin_request(Phase::Parse.label()),
            }
            match session.poll() {
                Polled::Nothing => return false,
                Polled::Over => return true,
                Polled::Request(request) => {
                    session.quiet_bytes = 0;
                    let (request, respond) = *request;
                    let (parts, body) = request.into_parts();
                    let stream = Stream { parts, respond, begun, hold: None };
                    if body.is_end_stream() {
                        let received = turn.received;
                        let arrival = Arrival { begun, received, waited_until, bytes: 0 };
                        self.answer_stream(slot, connection, session, stream, &[], arrival);
                        waited_until = Some(self.last);
                    } else {
                        self.begin_body(connection, session, stream, body, turn);
                    }
                }
            }
        }
        false
    }

    pub(super) fn answer_stream(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        session: &mut Session,
        stream: Stream,
        body: &[u8],
        arrival: Arrival,
    ) {
        let mut space = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let head = match head_of(&stream.parts, &mut space, body.len()) {
            Ok(head) => head,
            Err(refusal) => {
                let woke = arrival.begun.arrived;
                let received = arrival.received;
                let turn = Turn { received, ..Turn::at(woke, woke) };
                return self.refuse_stream(connection, session, stream, &refusal, turn);
            }
        };
        let mut timeline = self.timeline(connection, &arrival);
        timeline.stamp(Stamp::Parsed);
        let manner = Manner {
            coding: head.coding,
            compressed_from_bytes: self.limits.compressed_from_bytes,
            is_head: head.method == "HEAD",
            ..Manner::PLAIN
        };
        let facts = self.facts(connection, arrival.bytes);
        let in_flight = self.shared.requests_in_flight.load(Ordering::Relaxed);
        if in_flight >= self.limits.requests_in_flight
            || session.parked.len() >= self.limits.streams
        {
            let refusal = Refusal::Overloaded;
            self.write_stream_refusal(session, stream.respond, &refusal, manner, timeline, facts);
            return;
        }
        let Head { method, path, query, headers, .. } = head;
        let request = Request { method, path, query, headers, body };
        let id = ConnectionId { stream: session.take_key(), ..id_of(slot, connection) };
        let Stream { respond, hold, .. } = stream;
        let away = Away { respond, manner, timeline, facts, watch: None, _hold: hold };
        let at = (id, connection.seat.address());
        self.serve_stream(session, at, away, |service, response, exchange| {
            service.handle(&request, response, exchange)
        });
    }

    /// Brings a request that was handed over back to the service.
    pub(crate) fn complete_stream(
        &mut self,
        id: ConnectionId,
        address: IpAddr,
        session: &mut Session,
        parked: ParkedRequest,
        later: S::Later,
    ) {
        let Parked { away, flight, .. } = parked.0;
        self.recorder.take_back(&away.timeline, flight);
        set_operation(away.facts.operation + 1);
        set_phase(Phase::Execute.label());
        self.serve_stream(session, (id, address), away, |service, response, exchange| {
            service.resume(later, response, exchange)
        });
    }

    /// Has the service answer a request, and does what follows from that.
    fn serve_stream(
        &mut self,
        session: &mut Session,
        (id, address): (ConnectionId, IpAddr),
        mut away: Away,
        serve: impl FnOnce(&mut S, &mut Response<'_>, &mut Exchange<'_, S::Later>) -> Handled,
    ) {
        let mut fields = HeaderMap::with_capacity(FIELDS_USUAL);
        let is_taken = Cell::new(false);
        self.with_body(|this, body| {
            let mut response = Response::of_stream(body, &mut fields, &this.date_line, away.manner)
                .coded_by(&mut this.compressor);
            let mut exchange = Exchange {
                timeline: &mut away.timeline,
                facts: &mut away.facts,
                mailbox: &this.mailbox,
                connection: id,
                address,
                may_upgrade: false,
                is_taken: &is_taken,
                watch: away.watch.take(),
            };
            let service = &mut this.service;
            let called = contain(move || {
                let handled = serve(service, &mut response, &mut exchange);
                (response.conclude(handled), exchange.watch)
            });
            let Away { respond, manner, timeline, facts, _hold, .. } = away;
            let ((handled, outcome), watch) = match called {
                Ok(called) => called,
                Err(panicked) => {
                    let failure = (Some(panicked), is_taken.get());
                    let account = (timeline, facts);
                    return this.fail_stream(session, respond, failure, manner, account, body);
                }
            };
            if matches!(handled, Handled::Later) {
                assert!(outcome.is_none(), "a request is either answered or handed over");
                this.shared.requests_in_flight.fetch_add(1, Ordering::Relaxed);
                let flight = this.recorder.send_away(&timeline);
                let away = Away { respond, manner, timeline, facts, watch, _hold };
                session.parked.push(Parked { key: id.stream, away, flight });
                return;
            }
            let answered = Answered { handled, outcome, fields, manner, timeline, facts };
            this.conclude_stream(session, respond, answered, body);
        });
    }

    pub(super) fn conclude_stream(
        &mut self,
        session: &mut Session,
        mut respond: SendResponse<Bytes>,
        answered: Answered,
        body: &[u8],
    ) {
        let Answered { handled, outcome, fields, manner, mut timeline, mut facts } = answered;
        let Ok(memory) = self.hold_stream(body.len(), &handled) else {
            let refusal = Refusal::ResponseTooLarge;
            return self.write_stream_refusal(session, respond, &refusal, manner, timeline, facts);
        };
        let outcome = outcome.expect("a service that is done has finished its response");
        timeline.set_transport_part(TransportPart::Compress, outcome.compress_ticks);
        facts.status = outcome.status;
        facts.response_bytes = saturating_u32(body.len());
        let source = match handled {
            Handled::Stream(source) if outcome.streamed != Streamed::No => Some(source),
            _ => None,
        };
        let mut response = http::Response::new(());
        *response.headers_mut() = fields;
        *response.status_mut() = http::StatusCode::from_u16(outcome.status)
            .expect("a status that has a status line is one that the protocol knows");
        let is_whole = source.is_none() && body.is_empty();
        let bytes = Bytes::copy_from_slice(body);
        let sent = respond.send_response(response, is_whole);
        let mut whole = is_whole || sent.is_err();
        if let Ok(mut stream) = sent
            && !is_whole
        {
            stream.reserve_capacity(bytes.len());
            if source.is_none() && stream.capacity() >= bytes.len() {
                // It fails only for a stream that the client has given up.
                let _ = stream.send_data(bytes, true);
                whole = true;
            } else {
                let is_counted = source.is_some();
                if is_counted {
                    self.shared.requests_in_flight.fetch_add(1, Ordering::Relaxed);
                }
                let (pending, progress_at, timeline) = (bytes, self.last, timeline.clone());
                let _flight = self.recorder.send_away(&timeline);
                session.sending.push_back(Sending {
                    stream,
                    pending,
                    source,
                    timeline,
                    facts,
                    progress_at,
                    taking: Taking::default(),
                    memory,
                    is_counted,
                    _flight,
                });
            }
        }
        if whole {
            self.last = timeline.stamp(Stamp::Encoded);
            session.answered.push(self.recorder.seal(&timeline, facts));
        }
    }

    /// Takes memory for a response that may have to wait for its client's window.
    fn hold_stream(&self, bytes: usize, handled: &Handled) -> Result<Option<Share>, OverBudget> {
        let memory = &self.limits.memory;
        if bytes <= RESPONSE_BYTES_FREE {
            return hold_source(memory, handled);
        }
        let mut share = memory.share(usize::MAX);
        share.take(bytes)?;
        Ok(Some(share))
    }

    /// Gives the protocol of each response what the client's window takes. True if anything moved.
    pub(super) fn pump_streams(&mut self, session: &mut Session, turn: Turn) -> bool {
        let (mut given_bytes, mut moved) = (0, false);
        let streams = session.sending.len();
        for _ in 0..streams {
            let Some(mut sending) = session.sending.pop_front() else { break };
            if given_bytes >= OUTPUT_BYTES_MAX {
                session.sending.push_front(sending);
                return true;
            }
            match sending.step() {
                Sent::Nothing => {
                    sending.note_taken(0, streams, turn.woke);
                    session.sending.push_back(sending);
                }
                Sent::Bytes(count) => {
                    (given_bytes, moved) = (given_bytes + count, true);
                    (sending.progress_at, session.quiet_bytes) = (turn.woke, 0);
                    sending.note_taken(count, streams, turn.woke);
                    session.sending.push_back(sending);
                }
                Sent::Last(count) => {
                    (given_bytes, moved) = (given_bytes + count, true);
                    session.quiet_bytes = 0;
                    self.end_sending(session, sending);
                }
                Sent::Gone => self.end_sending(session, sending),
            }
        }
        moved
    }

    /// Ends the account of a response that the protocol has in full, or whose stream is gone.
    pub(super) fn end_sending(&mut self, session: &mut Session, sending: Sending) {
        let Sending { mut timeline, facts, is_counted, .. } = sending;
        if is_counted {
            self.shared.requests_in_flight.fetch_sub(1, Ordering::Relaxed);
        }
        timeline.stamp(Stamp::Encoded);
        session.answered.push(self.recorder.seal(&timeline, facts));
    }

    pub(super) fn refuse_stream(
        &mut self,
        connection: &mut Connection,
        session: &mut Session,
        stream: Stream,
        refusal: &Refusal,
        turn: Turn,
    ) {
        let (begun, received) = (stream.begun, turn.received);
        let arrival = Arrival { begun, received, waited_until: None, bytes: 0 };
        let mut timeline = self.timeline(connection, &arrival);
        timeline.stamp(Stamp::Parsed);
        let is_head = stream.parts.method == http::Method::HEAD;
        let manner = Manner { is_head, ..Manner::PLAIN };
        let facts = self.facts(connection, 0);
        self.write_stream_refusal(session, stream.respond, refusal, manner, timeline, facts);
    }

    fn write_stream_refusal(
        &mut self,
        session: &mut Session,
        respond: SendResponse<Bytes>,
        refusal: &Refusal,
        manner: Manner,
        mut timeline: Timeline,
        mut facts: RequestFacts,
    ) {
        let mut fields = HeaderMap::with_capacity(FIELDS_USUAL);
        self.with_body(|this, body| {
            let outcome = {
                let mut response = Response::of_stream(body, &mut fields, &this.date_line, manner);
                response.refuse(refusal);
                response.outcome()
            };
            let kind = this.service.facts_of_refusal(refusal);
            (facts.operation, facts.outcome) = (kind.operation, kind.outcome);
            let at = timeline.stamp(Stamp::Routed);
            timeline.stamp_at(Stamp::Started, at);
            timeline.stamp_at(Stamp::Executed, at);
            let handled = Handled::Done;
            let answered = Answered { handled, outcome, fields, manner, timeline, facts };
            this.conclude_stream(session, respond, answered, body);
        });
    }
}
