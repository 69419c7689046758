//! From bytes to answers: the part of the event loop that parses, admits and hands to the service.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use pellucid_account::{Phase, RequestFacts, Stamp, Timeline, TransportPart};
use pellucid_clock::Ticks;
use pellucid_thread::{begin_request, contain, set_operation, set_phase};

use crate::chunked::ChunkedDecoder;
use crate::client_watch::ClientWatch;
use crate::connection::{
    Begun, ChunkedRequest, Closing, Connection, Parked, ParkingPlace, SPARE_PLACES_MAX, Stage,
    Streaming,
};
use crate::event_loop::{EventLoop, Fate, Turn};
use crate::head::{Framing, Head, parse};
use crate::http2::{PREFACE, SWITCHING, Session, synthetic_headers};
use crate::limits::{HEADERS_MAX, OUTPUT_BYTES_MAX, READ_BYTES_MAX};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::response::{Manner, Outcome, Response, Streamed};
use crate::service::{ConnectionId, Exchange, Handled, Service};

/// How far a look at the input came.
enum Look {
    /// A request that took this many bytes was dealt with.
    Used(usize),
    /// There is no whole request.
    Incomplete,
}

/// What one request brings with it.
pub(crate) struct Arrival {
    pub(crate) begun: Begun,
    pub(crate) received: Ticks,
    /// Until when it waited for its predecessors on the connection.
    pub(crate) waited_until: Option<Ticks>,
    pub(crate) bytes: usize,
}

/// What the service made of a request, and the request's account.
struct Concluded {
    handled: Handled,
    outcome: Option<Outcome>,
    manner: Manner,
    timeline: Timeline,
    facts: RequestFacts,
}

impl<S: Service> EventLoop<S> {
    /// Answers the whole requests at the beginning of `bytes` and writes the answers. Returns how
    /// many bytes were used.
    pub(crate) fn process(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        bytes: &[u8],
        turn: Turn,
    ) -> usize {
        if !connection.is_settled
            && let Some(used) = self.settle_protocol(connection, bytes)
        {
            return used;
        }
        let (used, fate) = if self.batch.is_open && connection.tls.is_none() {
            let (begin, used) =
                self.with_batch(|this, out| this.answer_whole(slot, connection, bytes, turn, out));
            (used, self.put_by(slot, connection, begin))
        } else {
            self.with_out(|this, out| {
                let used = this.answer_whole(slot, connection, bytes, turn, out);
                (used, this.flush(connection, out))
            })
        };
        if fate == Fate::Drop {
            connection.closing = Closing::AtOnce;
        }
        used
    }

    /// Answers the whole requests at the beginning of `bytes`, as far as their answers may wait
    /// together. Returns how many bytes were used.
    #[inline]
    fn answer_whole(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        bytes: &[u8],
        turn: Turn,
        out: &mut Vec<u8>,
    ) -> usize {
        let begin = out.len();
        let (mut used, mut waited_until) = (0, turn.waited_until);
        while used < bytes.len()
            && matches!(connection.stage, Stage::Serving)
            && connection.closing == Closing::No
            && out.len() - begin < OUTPUT_BYTES_MAX
        {
            let rest = &bytes[used..];
            match used {
                0 => set_phase(Phase::Parse.label()),
                _ => begin_request(Phase::Parse.label()),
            }
            let look = match connection.chunked.take() {
                Some(request) => {
                    self.feed(slot, connection, request, rest, turn, waited_until, out)
                }
                None => self.look(slot, connection, rest, turn, waited_until, out),
            };
            match look {
                Look::Used(count) => used += count,
                Look::Incomplete => break,
            }
            waited_until = Some(self.last);
        }
        let is_followed = used < bytes.len() || bytes.len() >= READ_BYTES_MAX;
        if connection.closing == Closing::Cleanly && is_followed {
            connection.closing = Closing::AfterLinger;
        }
        if connection.closing == Closing::AfterLinger {
            used = bytes.len();
        }
        used
    }

    /// Finds out, by its first bytes, which protocol the client speaks. Returns how many bytes were
    /// used, unless it is HTTP/1.1.
    fn settle_protocol(&self, connection: &mut Connection, bytes: &[u8]) -> Option<usize> {
        if bytes.len() < PREFACE.len() && PREFACE.starts_with(bytes) {
            connection.wanted_bytes = bytes.len() + 1;
            // So that it has only the time for one request.
            let now = self.last;
            let decrypted_ticks = connection.tls.as_ref().map_or(0, |tls| tls.decrypted_ticks());
            let begun = Begun { arrived: now, attended: now, at: now, decrypted_ticks };
            connection.begun.get_or_insert(begun);
            return Some(0);
        }
        connection.is_settled = true;
        let agreed = connection.tls.as_ref().is_some_and(|tls| tls.agreed_on_http2());
        if !agreed && !bytes.starts_with(PREFACE) {
            return None;
        }
        let mut session = Session::new(&self.limits, None);
        session.feed(bytes);
        (connection.begun, connection.wanted_bytes) = (None, 0);
        connection.stage = Stage::Http2(Box::new(session));
        Some(bytes.len())
    }

    /// Goes on in HTTP/2, where this request is answered, if the client asked for it.
    fn upgrade(
        &self,
        connection: &mut Connection,
        head: &Head<'_, '_>,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> bool {
        if !head.wants_http2 || !body.is_empty() || connection.tls.is_some() {
            return false;
        }
        let Some(frame) = synthetic_headers(head) else { return false };
        out.extend_from_slice(SWITCHING);
        (connection.begun, connection.wanted_bytes) = (None, 0);
        connection.stage = Stage::Http2(Box::new(Session::new(&self.limits, Some(frame))));
        true
    }

    fn look(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        bytes: &[u8],
        turn: Turn,
        waited_until: Option<Ticks>,
        out: &mut Vec<u8>,
    ) -> Look {
        let begun = connection.begun.unwrap_or_else(|| connection.begins(turn));
        connection.begun = Some(begun);
        let mut space = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let head = match parse(bytes, &mut space, self.limits.head_bytes) {
            Ok(Some(head)) => head,
            Ok(None) => {
                connection.wanted_bytes = bytes.len() + 1;
                return Look::Incomplete;
            }
            Err(refusal) => {
                self.refuse(connection, &refusal, None, begun, turn.received, out);
                return Look::Used(bytes.len());
            }
        };
        let present = bytes.len() - head.head_bytes;
        let is_whole = matches!(head.framing, Framing::Length(length) if length <= present);
        if !is_whole {
            match self.let_body_in(id_of(slot, connection), connection, &head, turn.woke) {
                Ok(true) => {}
                Ok(false) => return Look::Incomplete,
                Err(refusal) => {
                    self.refuse(connection, &refusal, Some(&head), begun, turn.received, out);
                    return Look::Used(bytes.len());
                }
            }
        }
        let body_bytes_max = self.service.body_bytes_max(&head);
        let arrival =
            |bytes: usize| Arrival { begun, received: turn.received, waited_until, bytes };
        match head.framing {
            Framing::Length(length) if length > body_bytes_max => {
                let refusal = Refusal::BodyTooLarge(body_bytes_max);
                self.refuse(connection, &refusal, Some(&head), begun, turn.received, out);
                Look::Used(bytes.len())
            }
            Framing::Length(length) if is_whole => {
                let end = head.head_bytes + length;
                let body = &bytes[head.head_bytes..end];
                self.answer(slot, connection, &head, body, arrival(end), out);
                Look::Used(end)
            }
            Framing::Length(length) => {
                invite(&head, present, out);
                connection.wanted_bytes = head.head_bytes + length;
                Look::Incomplete
            }
            Framing::Chunked => {
                invite(&head, present, out);
                connection.wanted_bytes = 0;
                connection.chunked = Some(Box::new(ChunkedRequest {
                    head: bytes[..head.head_bytes].to_vec(),
                    decoder: ChunkedDecoder::new(body_bytes_max),
                    wire_bytes: head.head_bytes,
                }));
                Look::Used(head.head_bytes)
            }
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "the parts of one request, split by the borrow of its bytes"
    )]
    fn feed(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        mut request: Box<ChunkedRequest>,
        bytes: &[u8],
        turn: Turn,
        waited_until: Option<Ticks>,
        out: &mut Vec<u8>,
    ) -> Look {
        let begun = connection.begun.unwrap_or_else(|| connection.begins(turn));
        let before = request.decoder.body().len();
        let room = connection
            .body
            .as_mut()
            .map_or(Ok(()), |body| body.grow(request.decoder.buffer(), bytes.len(), None));
        let used = match room.and_then(|()| request.decoder.feed(bytes)) {
            Ok(used) => used,
            Err(refusal) => {
                self.refuse(connection, &refusal, None, begun, turn.received, out);
                return Look::Used(bytes.len());
            }
        };
        if let Some(body) = &mut connection.body {
            // What frames the body earns it no time.
            let decoded = request.decoder.body().len() - before;
            body.note_arrived(decoded, 1, &self.clock, turn.woke);
        }
        request.wire_bytes += used;
        if !request.decoder.is_complete() {
            connection.chunked = Some(request);
            return Look::Used(used);
        }
        let mut space = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        if let Ok(Some(head)) = parse(&request.head, &mut space, usize::MAX) {
            let bytes = request.wire_bytes;
            let arrival = Arrival { begun, received: turn.received, waited_until, bytes };
            self.answer(slot, connection, &head, request.decoder.body(), arrival, out);
        }
        Look::Used(used)
    }

    fn answer(
        &mut self,
        slot: usize,
        connection: &mut Connection,
        head: &Head<'_, '_>,
        body: &[u8],
        arrival: Arrival,
        out: &mut Vec<u8>,
    ) {
        if self.upgrade(connection, head, body, out) {
            return;
        }
        (connection.begun, connection.wanted_bytes) = (None, 0);
        let mut timeline = self.timeline(connection, &arrival);
        timeline.stamp(Stamp::Parsed);
        let manner = Manner {
            keep_alive: head.keep_alive && self.stop_by.is_none(),
            is_head: head.method == "HEAD",
            is_old: head.is_old,
            coding: head.coding,
            compressed_from_bytes: self.limits.compressed_from_bytes,
        };
        let mut facts = self.facts(connection, arrival.bytes);
        let in_flight = self.shared.requests_in_flight.load(Ordering::Relaxed);
        if in_flight >= self.limits.requests_in_flight {
            let refusal = Refusal::Overloaded;
            self.refuse_whole(connection, &refusal, manner, timeline, facts, out);
            return;
        }
        let Head { method, path, query, headers, .. } = *head;
        let request = Request { method, path, query, headers, body };
        let begin = out.len();
        let is_taken = Cell::new(false);
        let called = {
            let mut response =
                Response::new(out, &self.date_line, manner).coded_by(&mut self.compressor);
            let mut exchange = Exchange {
                timeline: &mut timeline,
                facts: &mut facts,
                mailbox: &self.mailbox,
                connection: id_of(slot, connection),
                address: connection.seat.address(),
                may_upgrade: connection.tls.is_none() && !manner.is_old,
                is_taken: &is_taken,
                watch: None,
            };
            let service = &mut self.service;
            contain(move || {
                let handled = service.handle(&request, &mut response, &mut exchange);
                (response.conclude(handled), exchange.watch)
            })
        };
        let ((handled, outcome), watch) = match called {
            Ok(called) => called,
            Err(panicked) => {
                let panicked = (Some(panicked), is_taken.get());
                return self.fail(connection, panicked, manner, (timeline, facts), (out, begin));
            }
        };
        if matches!(handled, Handled::Later) {
            assert!(outcome.is_none(), "a request is either answered or handed over");
            return self.park(connection, manner, timeline, facts, watch);
        }
        let concluded = Concluded { handled, outcome, manner, timeline, facts };
        self.conclude(connection, concluded, out, begin);
    }

    /// Brings a request that was handed over back to the service.
    pub(crate) fn complete(
        &mut self,
        id: ConnectionId,
        connection: &mut Connection,
        later: S::Later,
    ) -> Fate {
        let stage = std::mem::replace(&mut connection.stage, Stage::Serving);
        let Stage::Waiting(mut place) = stage else {
            connection.stage = stage;
            return Fate::Keep;
        };
        let Some(parked) = place.take() else { return Fate::Keep };
        self.give_back_place(place);
        self.with_out(|this, out| {
            this.complete_parked(id, connection, parked, later, out);
            this.flush(connection, out)
        })
    }

    fn complete_parked(
        &mut self,
        id: ConnectionId,
        connection: &mut Connection,
        parked: Parked,
        later: S::Later,
        out: &mut Vec<u8>,
    ) {
        let Parked { mut timeline, mut facts, manner, flight, watch } = parked;
        self.recorder.take_back(&timeline, flight);
        set_operation(facts.operation + 1);
        set_phase(Phase::Execute.label());
        let begin = out.len();
        let is_taken = Cell::new(false);
        let called = {
            let mut response =
                Response::new(out, &self.date_line, manner).coded_by(&mut self.compressor);
            let mut exchange = Exchange {
                timeline: &mut timeline,
                facts: &mut facts,
                mailbox: &self.mailbox,
                connection: id,
                address: connection.seat.address(),
                may_upgrade: false,
                is_taken: &is_taken,
                watch,
            };
            let service = &mut self.service;
            contain(move || {
                let handled = service.resume(later, &mut response, &mut exchange);
                (response.conclude(handled), exchange.watch)
            })
        };
        let ((handled, outcome), watch) = match called {
            Ok(called) => called,
            Err(panicked) => {
                let panicked = (Some(panicked), is_taken.get());
                return self.fail(connection, panicked, manner, (timeline, facts), (out, begin));
            }
        };
        if matches!(handled, Handled::Later) {
            assert!(outcome.is_none(), "a request is either answered or handed over");
            return self.park(connection, manner, timeline, facts, watch);
        }
        let concluded = Concluded { handled, outcome, manner, timeline, facts };
        self.conclude(connection, concluded, out, begin);
    }

    /// Has the connection wait for a request that was handed over.
    fn park(
        &mut self,
        connection: &mut Connection,
        manner: Manner,
        timeline: Timeline,
        facts: RequestFacts,
        watch: Option<ClientWatch>,
    ) {
        self.shared.requests_in_flight.fetch_add(1, Ordering::Relaxed);
        let flight = self.recorder.send_away(&timeline);
        let mut place = self.spare_places.pop().unwrap_or_default();
        *place = Some(Parked { timeline, facts, manner, flight, watch });
        connection.stage = Stage::Waiting(place);
    }

    fn give_back_place(&mut self, place: ParkingPlace) {
        if self.spare_places.len() < SPARE_PLACES_MAX {
            self.spare_places.push(place);
        }
    }

    /// Goes on with a request that the service has answered. Its response is in `out`, from `begin`
    /// on.
    fn conclude(
        &mut self,
        connection: &mut Connection,
        concluded: Concluded,
        out: &mut Vec<u8>,
        begin: usize,
    ) {
        let Concluded { handled, outcome, manner, mut timeline, mut facts } = concluded;
        let outcome = outcome.expect("a service that is done has finished its response");
        connection.body = None;
        let Ok(memory) = self.hold_response(connection, out.len() - begin, &handled) else {
            out.truncate(begin);
            let refusal = Refusal::ResponseTooLarge;
            return self.refuse_whole(connection, &refusal, manner, timeline, facts, out);
        };
        timeline.set_transport_part(TransportPart::Compress, outcome.compress_ticks);
        facts.status = outcome.status;
        facts.response_bytes = saturating_u32(out.len() - begin);
        let is_upgrade = matches!(handled, Handled::Upgrade);
        match (handled, outcome.streamed) {
            (Handled::Stream(source), framing) if framing != Streamed::No => {
                self.shared.requests_in_flight.fetch_add(1, Ordering::Relaxed);
                let keep_alive = outcome.keep_alive;
                let _flight = self.recorder.send_away(&timeline);
                let streaming = Streaming {
                    source,
                    framing,
                    timeline,
                    facts,
                    keep_alive,
                    _flight,
                    _memory: memory,
                };
                connection.stage = Stage::Streaming(Box::new(streaming));
            }
            _ => {
                self.last = timeline.stamp(Stamp::Encoded);
                let record = self.recorder.seal(&timeline, facts);
                self.finish(connection, record, out.len());
                if is_upgrade {
                    connection.stage = Stage::Leaving;
                } else if !outcome.keep_alive {
                    self.close_after_response(connection);
                }
            }
        }
    }

    /// Ends the connection once what was answered is out: with a linger where the client has sent,
    /// or after a stop may be sending, what will not be read.
    pub(crate) fn close_after_response(&self, connection: &mut Connection) {
        let is_followed = !connection.input.is_empty() || self.stop_by.is_some();
        connection.closing = if is_followed { Closing::AfterLinger } else { Closing::Cleanly };
    }

    pub(crate) fn timeline(&self, connection: &Connection, arrival: &Arrival) -> Timeline {
        let mut timeline = self.recorder.begin(arrival.begun.arrived);
        timeline.identify(self.number_of(self.requests + 1), arrival.received);
        timeline.attend_at(arrival.begun.attended);
        timeline.stamp_at(Stamp::Received, arrival.received);
        if let Some(until) = arrival.waited_until {
            timeline.wait_until(until);
        }
        if let Some(tls) = &connection.tls {
            // Nothing was decrypted since the read that completed the request.
            let ticks = tls.decrypted_ticks() - arrival.begun.decrypted_ticks;
            timeline.set_transport_part(TransportPart::Decrypt, ticks);
        }
        timeline
    }

    /// The number of the loop's nth request: the loop's index above, so that loops need not agree
    /// on a counter.
    fn number_of(&self, request: u64) -> u64 {
        (self.index as u64) << 48 | request
    }

    pub(crate) fn facts(&mut self, connection: &Connection, request_bytes: usize) -> RequestFacts {
        self.requests += 1;
        RequestFacts {
            request: self.number_of(self.requests),
            request_bytes: saturating_u32(request_bytes),
            connection: connection.number,
            ..RequestFacts::default()
        }
    }
}

pub(crate) fn id_of(slot: usize, connection: &Connection) -> ConnectionId {
    ConnectionId { slot: slot as u32, generation: connection.generation, stream: 0 }
}

/// Has a client send the body that waits for our word.
fn invite(head: &Head<'_, '_>, present: usize, out: &mut Vec<u8>) {
    if head.expects_continue && present == 0 {
        out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
    }
}

pub(crate) fn saturating_u32(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
