//! From frames to answers: the part of the event loop that runs the streams of a connection.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::HeaderMap;
use http::request::Parts;
use mio::net::TcpStream;
use pellucid_account::{Phase, RequestFacts, Stamp, Timeline, TransportPart};
use pellucid_thread::{begin_request, contain, set_operation, set_phase};

use super::heads::{body_length, head_of};
use super::sending::{Sending, Sent};
use super::session::{Parked, ParkedRequest, Polled, Receiving, Session};
use crate::connection::{Begun, Closing, Connection, Stage};
use crate::event_loop::{EventLoop, Fate, Step, Turn};
use crate::head::Head;
use crate::limits::{BATCH_BYTES_MAX, HEADERS_MAX, OUTPUT_BYTES_MAX};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::requests::{Arrival, id_of, saturating_u32};
use crate::response::{Manner, Outcome, Response, Streamed};
use crate::service::{ConnectionId, Exchange, Handled, Service};
use crate::socket::Received;
use crate::taking::Taking;

/// Room for the headers of a usual response, so that they are laid out once.
pub(super) const FIELDS_USUAL: usize = 8;

/// A stream's request, as far as it is known, and its way back.
struct Stream {
    parts: Parts,
    respond: SendResponse<Bytes>,
    begun: Begun,
}

/// A response that a service has finished, with its account.
pub(super) struct Answered {
    pub(super) handled: Handled,
    pub(super) outcome: Option<Outcome>,
    pub(super) fields: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) timeline: Timeline,
    pub(super) facts: RequestFacts,
}

impl<S: Service> EventLoop<S> {
    /// Reads what there is, and answers every whole request in it.
    pub(crate) fn serve_http2(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        turn: Turn,
    ) -> Step {
        let stage = std::mem::replace(&mut connection.stage, Stage::Serving);
        let Stage::Http2(mut session) = stage else {
            connection.stage = stage;
            return Step::Blocked;
        };
        if !connection.input.is_empty() {
            session.feed(&std::mem::take(&mut connection.input));
        }
        let (mut turn, mut filled) = (turn, false);
        let has_input = session.pipe.borrow().has_input();
        if !has_input {
            begin_request(Phase::Receive.label());
            let mut scratch = std::mem::take(&mut self.scratch);
            let read = self.read(connection, &mut scratch);
            turn.received = self.read_clock();
            match read {
                Ok(Received::Bytes { count, filled: more }) => {
                    session.feed(&scratch[..count]);
                    (connection.progress_at, filled) = (turn.woke, more || connection.ended);
                }
                Ok(_) => session.pipe.borrow_mut().ended = true,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => filled = true,
                Err(_) => {
                    connection.stage = Stage::Http2(session);
                    return Step::Over;
                }
            }
            self.scratch = scratch;
        }
        self.drive(slot, connection, session, turn, filled)
    }

    /// Has the protocol digest its input, answers what came of it, and writes.
    fn drive(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        mut session: Box<Session>,
        turn: Turn,
        filled: bool,
    ) -> Step {
        let out = std::mem::take(&mut self.out);
        assert!(out.is_empty(), "the output of the last turn went out or to its connection");
        session.pipe.borrow_mut().output = out;
        let mut is_over = self.take_requests(slot, connection, &mut session, turn);
        self.take_bodies(slot, connection, &mut session, turn);
        // What follows is for all streams together.
        begin_request(Phase::Encode.label());
        let moved = self.pump_streams(&mut session, turn);
        session.check_quiet();
        is_over |= session.poll_output();
        let (out, was_full) = {
            let pipe = &mut *session.pipe.borrow_mut();
            (std::mem::take(&mut pipe.output), std::mem::take(&mut pipe.was_full))
        };
        for record in session.answered.drain(..) {
            self.finish(connection, record, out.len());
        }
        let is_batched = self.batch.is_open && connection.tls.is_none() && !is_over;
        let fate = match is_batched && out.len() <= BATCH_BYTES_MAX {
            true => self.put_by_copied(slot, connection, out),
            false => self.flush(connection, out),
        };
        let has_input = {
            let pipe = &mut *session.pipe.borrow_mut();
            pipe.shrink();
            pipe.has_input()
        };
        let ended = session.pipe.borrow().ended;
        connection.stage = if is_over { Stage::Serving } else { Stage::Http2(session) };
        if fate == Fate::Drop {
            return Step::Over;
        }
        if is_over {
            connection.closing = if ended { Closing::Cleanly } else { Closing::AfterLinger };
            return Step::Again;
        }
        let more = filled || moved || was_full || has_input || ended;
        if more && !connection.has_unsent() { Step::Again } else { Step::Blocked }
    }

    /// Answers the requests that are whole, and notes the others, unless the client leaves too much
    /// of our answers lying. True if the connection is done.
    fn take_requests(
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
                    let stream = Stream { parts, respond, begun };
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

    /// Notes a request whose body comes in, unless it is announced to be too large.
    fn begin_body(
        &mut self,
        connection: &mut Connection,
        session: &mut Session,
        stream: Stream,
        body: RecvStream,
        turn: Turn,
    ) {
        let length = body_length(&stream.parts);
        let mut space = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let limit = head_of(&stream.parts, &mut space, length.unwrap_or(0))
            .map(|head| self.service.body_bytes_max(&head));
        let refusal = match limit {
            Err(refusal) => refusal,
            Ok(limit) if length.is_some_and(|length| length > limit) => {
                self.refusal_of_long(Refusal::BodyTooLarge(limit), &stream.parts)
            }
            Ok(body_bytes_max) => {
                let Stream { parts, respond, begun } = stream;
                let (stream, body) = (body, Vec::new());
                session.receiving.push(Receiving {
                    parts,
                    stream,
                    respond,
                    body,
                    body_bytes_max,
                    begun,
                });
                return;
            }
        };
        self.refuse_stream(connection, session, stream, &refusal, turn);
    }

    /// Takes in what came of bodies, and answers the requests that are whole by it.
    fn take_bodies(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        session: &mut Session,
        turn: Turn,
    ) {
        let mut at = 0;
        while at < session.receiving.len() {
            begin_request(Phase::Parse.label());
            let before = session.receiving[at].body.len();
            let taken = self.take_body(connection, &mut session.receiving[at]);
            if session.receiving[at].body.len() > before {
                session.quiet_bytes = 0;
            }
            match taken {
                Ok(Poll::Pending) => at += 1,
                Ok(Poll::Ready(false)) => {
                    let gone = session.receiving.swap_remove(at);
                    self.release(connection, gone.body.len());
                }
                Ok(Poll::Ready(true)) => {
                    let Receiving { parts, respond, body, begun, .. } =
                        session.receiving.swap_remove(at);
                    let (received, bytes) = (turn.received, body.len());
                    let arrival = Arrival { begun, received, waited_until: None, bytes };
                    let stream = Stream { parts, respond, begun };
                    self.answer_stream(slot, connection, session, stream, &body, arrival);
                    self.release(connection, bytes);
                }
                Err(refusal) => {
                    let Receiving { parts, respond, body, begun, .. } =
                        session.receiving.swap_remove(at);
                    self.release(connection, body.len());
                    let refusal = self.refusal_of_long(refusal, &parts);
                    let stream = Stream { parts, respond, begun };
                    self.refuse_stream(connection, session, stream, &refusal, turn);
                }
            }
        }
    }

    /// Asks the service what a body is refused with that is too long.
    fn refusal_of_long(&self, refusal: Refusal, parts: &Parts) -> Refusal {
        let Refusal::BodyTooLarge(limit_bytes) = refusal else { return refusal };
        let mut space = [httparse::EMPTY_HEADER; HEADERS_MAX];
        match head_of(parts, &mut space, 0) {
            Ok(head) => self.service.refusal_of_body(&head, limit_bytes),
            Err(_) => refusal,
        }
    }

    /// Takes in what there is of one body. Ready once it ended: true if it is whole.
    fn take_body(
        &mut self,
        connection: &mut Connection,
        receiving: &mut Receiving,
    ) -> Result<Poll<bool>, Refusal> {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            match receiving.stream.poll_data(&mut context) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(None) => return Ok(Poll::Ready(true)),
                Poll::Ready(Some(Err(_))) => return Ok(Poll::Ready(false)),
                Poll::Ready(Some(Ok(data))) => {
                    if receiving.body.len() + data.len() > receiving.body_bytes_max {
                        return Err(Refusal::BodyTooLarge(receiving.body_bytes_max));
                    }
                    let whole = connection.reserved_bytes + data.len();
                    if !self.reserve_body(connection, whole) {
                        return Err(Refusal::Overloaded);
                    }
                    receiving.body.extend_from_slice(&data);
                    // It fails only for streams that are gone, which the next poll tells.
                    let _ = receiving.stream.flow_control().release_capacity(data.len());
                }
            }
        }
    }

    fn answer_stream(
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
        let mut facts = self.facts(connection, arrival.bytes);
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
        let mut fields = HeaderMap::with_capacity(FIELDS_USUAL);
        let mut body = std::mem::take(&mut self.body);
        session.next_key = session.next_key.wrapping_add(1);
        let key = session.next_key;
        let is_taken = Cell::new(false);
        let called = {
            let mut response = Response::of_stream(&mut body, &mut fields, &self.date_line, manner)
                .coded_by(&mut self.compressor);
            let mut exchange = Exchange {
                timeline: &mut timeline,
                facts: &mut facts,
                mailbox: &self.mailbox,
                connection: ConnectionId { stream: key, ..id_of(slot, connection) },
                socket: &connection.socket,
                may_upgrade: false,
                is_taken: &is_taken,
            };
            let service = &mut self.service;
            contain(move || {
                let handled = service.handle(&request, &mut response, &mut exchange);
                response.conclude(handled)
            })
        };
        let (handled, outcome) = match called {
            Ok(called) => called,
            Err(panicked) => {
                body.clear();
                self.body = body;
                let failure = (Some(panicked), is_taken.get());
                let account = (timeline, facts);
                return self.fail_stream(session, stream.respond, failure, manner, account);
            }
        };
        if matches!(handled, Handled::Later) {
            assert!(outcome.is_none(), "a request is either answered or handed over");
            self.shared.requests_in_flight.fetch_add(1, Ordering::Relaxed);
            self.body = body;
            let respond = stream.respond;
            let flight = self.recorder.send_away(&timeline);
            session.parked.push(Parked { key, respond, timeline, facts, manner, flight });
            return;
        }
        let answered = Answered { handled, outcome, fields, body, timeline, facts };
        self.conclude_stream(session, stream.respond, answered);
    }

    /// Brings a request that was handed over back to the service.
    pub(crate) fn complete_stream(
        &mut self,
        id: ConnectionId,
        socket: &TcpStream,
        session: &mut Session,
        parked: ParkedRequest,
        later: S::Later,
    ) {
        let Parked { key, respond, mut timeline, mut facts, manner, flight } = parked.0;
        self.recorder.take_back(&timeline, flight);
        set_operation(facts.operation + 1);
        set_phase(Phase::Execute.label());
        let mut fields = HeaderMap::with_capacity(FIELDS_USUAL);
        let mut body = std::mem::take(&mut self.body);
        let is_taken = Cell::new(false);
        let called = {
            let mut response = Response::of_stream(&mut body, &mut fields, &self.date_line, manner)
                .coded_by(&mut self.compressor);
            let mut exchange = Exchange {
                timeline: &mut timeline,
                facts: &mut facts,
                mailbox: &self.mailbox,
                connection: id,
                socket,
                may_upgrade: false,
                is_taken: &is_taken,
            };
            let service = &mut self.service;
            contain(move || {
                let handled = service.resume(later, &mut response, &mut exchange);
                response.conclude(handled)
            })
        };
        let (handled, outcome) = match called {
            Ok(called) => called,
            Err(panicked) => {
                body.clear();
                self.body = body;
                let failure = (Some(panicked), is_taken.get());
                return self.fail_stream(session, respond, failure, manner, (timeline, facts));
            }
        };
        if matches!(handled, Handled::Later) {
            self.shared.requests_in_flight.fetch_add(1, Ordering::Relaxed);
            self.body = body;
            let flight = self.recorder.send_away(&timeline);
            session.parked.push(Parked { key, respond, timeline, facts, manner, flight });
            return;
        }
        let answered = Answered { handled, outcome, fields, body, timeline, facts };
        self.conclude_stream(session, respond, answered);
    }

    pub(super) fn conclude_stream(
        &mut self,
        session: &mut Session,
        mut respond: SendResponse<Bytes>,
        answered: Answered,
    ) {
        let Answered { handled, outcome, fields, mut body, mut timeline, mut facts } = answered;
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
        let bytes = Bytes::copy_from_slice(&body);
        body.clear();
        self.body = body;
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

    /// Gives the protocol of each response what the client's window takes. True if anything moved.
    fn pump_streams(&mut self, session: &mut Session, turn: Turn) -> bool {
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

    fn refuse_stream(
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
        let mut body = std::mem::take(&mut self.body);
        let outcome = {
            let mut response = Response::of_stream(&mut body, &mut fields, &self.date_line, manner);
            response.refuse(refusal);
            response.outcome()
        };
        let kind = self.service.facts_of_refusal(refusal);
        (facts.operation, facts.outcome) = (kind.operation, kind.outcome);
        let at = timeline.stamp(Stamp::Routed);
        timeline.stamp_at(Stamp::Started, at);
        timeline.stamp_at(Stamp::Executed, at);
        let handled = Handled::Done;
        let answered = Answered { handled, outcome, fields, body, timeline, facts };
        self.conclude_stream(session, respond, answered);
    }

    /// Refuses the requests whose bodies take too long.
    pub(super) fn refuse_late(
        &mut self,
        connection: &mut Connection,
        session: &mut Session,
        is_late: impl Fn(&Receiving) -> bool,
        turn: Turn,
    ) {
        while let Some(at) = session.receiving.iter().position(&is_late) {
            let Receiving { parts, respond, body, begun, .. } = session.receiving.swap_remove(at);
            self.release(connection, body.len());
            let stream = Stream { parts, respond, begun };
            self.refuse_stream(connection, session, stream, &Refusal::TooSlow, turn);
        }
    }
}
