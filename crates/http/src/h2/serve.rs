//! Passes the requests of one HTTP/2 connection to the service, and the replies to the protocol.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::HeaderMap;
use http::header::EXPECT;
use http::request::Parts;
use pellucid_account::{Phase, Stamp, TransportPart};
use pellucid_budget::{BudgetError, Share};
use pellucid_thread::{begin_request, set_phase};

use super::conn::{BodyState, Conn, IncomingRequest, ParkedStream, Stream};
use super::heads::{body_length, head_of};
use super::pending_response::{PendingResponse, SendResult};
use crate::abort_reason::AbortReason;
use crate::accounts::{RequestStart, Trace, TurnTimestamps, saturating_u32};
use crate::bodies::BodyHold;
use crate::body_source::ServiceResult;
use crate::caller::Caller;
use crate::client_watch::ClientWatch;
use crate::disconnects::DisconnectReason;
use crate::dispatch::{Call, DispatchResult, Dispatcher, ParkedRequest, ServiceInput, hold_source};
use crate::h1::parse::Head;
use crate::limits::{OUTPUT_BYTES_MAX, RESPONSE_BYTES_FREE};
use crate::mailbox::{Admission, ConnectionId};
use crate::pace::Pace;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::response::{Outcome, ResponseBuffers, ResponseOptions, StreamFraming};
use crate::service::Service;
use crate::transport::is_longer;

/// Headers of a usual response, for which room is allocated at once.
const FIELDS_USUAL: usize = 8;

/// The streams of one connection, and the service that answers their requests.
pub(crate) struct Http2Handler<'a, S: Service> {
    pub(crate) conn: &'a mut Conn,
    pub(crate) caller: &'a mut Caller,
    pub(crate) dispatcher: &'a mut Dispatcher<S>,
    /// A buffer for the body of a response, before the protocol frames it.
    pub(crate) body: &'a mut Vec<u8>,
}

impl<S: Service> Http2Handler<'_, S> {
    /// Takes in the requests of the client, and gives the protocol the responses. Returns whether
    /// the connection is done, and whether there was progress.
    pub(crate) fn run(&mut self, turn: &TurnTimestamps) -> (bool, bool) {
        let had_input = self.conn.has_input();
        let mut waiting = *turn;
        let mut is_over = self.take_requests(&mut waiting);
        self.take_bodies(&mut waiting);
        // From here on, the work belongs to no single stream.
        begin_request(Phase::Encode.label());
        let moved = self.pump(turn);
        self.conn.check_quiet();
        // Frames that are consumed only now may open windows, which the next step will use.
        let is_unread = self.conn.has_input();
        is_over |= self.conn.poll_output();
        if had_input && !is_over {
            self.end_given_up();
        }
        (is_over, moved || is_unread)
    }

    /// Accepts requests while the client takes its responses: answers those without a body, and
    /// notes the others. Each answer ends the wait in `turn`. True if the connection is done.
    fn take_requests(&mut self, turn: &mut TurnTimestamps) -> bool {
        let begun = RequestStart::of(turn);
        while self.conn.held_bytes() < OUTPUT_BYTES_MAX {
            match turn.waited_until {
                None => set_phase(Phase::Parse.label()),
                Some(_) => begin_request(Phase::Parse.label()),
            }
            match self.conn.poll() {
                Poll::Pending => return false,
                Poll::Ready(None) => return true,
                Poll::Ready(Some((request, respond))) => {
                    self.conn.quiet_bytes = 0;
                    let (parts, body) = request.into_parts();
                    let stream = Stream { parts, respond, begun, hold: None };
                    if body.is_end_stream() {
                        self.answer(stream, &[], turn);
                        turn.waited_until = Some(self.dispatcher.accounts.last());
                    } else {
                        self.begin_body(stream, body);
                    }
                }
            }
        }
        false
    }

    /// Notes a request whose body comes in.
    fn begin_body(&mut self, stream: Stream, body: RecvStream) {
        let length = body_length(&stream.parts);
        let Parts { method, uri, headers, .. } = &stream.parts;
        let receiving = IncomingRequest {
            source: body,
            body: Vec::new(),
            length,
            body_bytes_max: self.dispatcher.body_bytes_max(
                method.as_str(),
                uri.path(),
                uri.query(),
            ),
            awaits_continue: headers.contains_key(EXPECT),
            key: self.conn.take_key(),
            state: BodyState::Unasked,
            stream,
        };
        self.conn.receiving.push(receiving);
    }

    /// Takes in the bytes of bodies, and answers the requests that are now complete. Each answer
    /// ends the wait in `turn`.
    fn take_bodies(&mut self, turn: &mut TurnTimestamps) {
        let mut at = 0;
        while at < self.conn.receiving.len() {
            begin_request(Phase::Parse.label());
            let bodies = self.conn.receiving.len();
            let receiving = &mut self.conn.receiving[at];
            let (before, was_judged) = (receiving.body.len(), receiving.is_judged());
            let taken = take_body(self.dispatcher, self.caller, receiving, bodies, turn);
            if receiving.body.len() > before {
                self.conn.quiet_bytes = 0;
            }
            if receiving.is_judged() && !was_judged {
                self.conn.note_untaken_body();
            }
            match taken {
                Ok(Poll::Pending) => at += 1,
                Ok(Poll::Ready(false)) => drop(self.conn.receiving.swap_remove(at)),
                Ok(Poll::Ready(true)) => {
                    let (stream, body) = self.conn.receiving.swap_remove(at).into_parts();
                    self.answer(stream, &body, turn);
                    turn.waited_until = Some(self.dispatcher.accounts.last());
                }
                Err(refusal) => {
                    let (stream, _) = self.conn.receiving.swap_remove(at).into_parts();
                    self.refuse_body(stream, &refusal, turn);
                    turn.waited_until = Some(self.dispatcher.accounts.last());
                }
            }
        }
    }

    fn answer(&mut self, stream: Stream, body: &[u8], turn: &TurnTimestamps) {
        let mut space = Vec::new();
        let headers_max = self.dispatcher.limits().headers;
        let head = match head_of(&stream.parts, &mut space, body.len(), headers_max) {
            Ok(head) => head,
            Err(refusal) => return self.refuse(stream, &refusal, turn),
        };
        let number = self.caller.number;
        let mut trace = self.dispatcher.accounts.begin(stream.begun, turn, body.len(), number);
        let limits = self.dispatcher.limits();
        let manner = ResponseOptions {
            coding: head.coding,
            compressed_from_bytes: limits.compressed_from_bytes,
            is_head: head.method == "HEAD",
            ..ResponseOptions::PLAIN
        };
        if self.dispatcher.is_overloaded() || self.conn.parked.len() >= limits.streams {
            return self.write_refusal(stream.respond, &Refusal::Overloaded, manner, &mut trace);
        }
        let Head { method, path, query, headers, .. } = head;
        let request = Request { method, path, query, headers, body };
        let key = self.conn.take_key();
        let Stream { respond, hold, .. } = stream;
        let matter = Some(ServiceInput::Request(&request));
        self.call(key, (respond, hold), &mut trace, manner, None, matter);
    }

    /// Continues a request that was handed over, with the value that the hand-over brought back;
    /// `later` is none if the code panicked.
    pub(crate) fn resume(&mut self, key: u32, later: Option<S::LoopMessage>) {
        let Some(ParkedStream { respond, mut place, hold, .. }) = self.conn.take_parked(key) else {
            return;
        };
        let Some(parked) = &mut *place else { return };
        let watch = self.dispatcher.take_back(parked);
        let ParkedRequest { trace, manner, .. } = parked;
        self.call(key, (respond, hold), trace, *manner, watch, later.map(ServiceInput::Later));
        self.dispatcher.reuse(place);
    }

    /// Calls the service for a request, and processes its result.
    fn call(
        &mut self,
        key: u32,
        (respond, hold): (SendResponse<Bytes>, Option<Box<BodyHold>>),
        trace: &mut Trace,
        manner: ResponseOptions,
        watch: Option<ClientWatch>,
        matter: Option<ServiceInput<'_, S::LoopMessage>>,
    ) {
        let mut fields = HeaderMap::with_capacity(FIELDS_USUAL);
        self.body.clear();
        let id = ConnectionId { stream: key, ..self.caller.id };
        let call = Call { id, caller: self.caller, may_upgrade: false, manner, watch };
        let target = ResponseBuffers { out: self.body, fields: Some(&mut fields) };
        match self.dispatcher.serve(matter, call, trace, target) {
            DispatchResult::Answered(handled, outcome) => {
                self.conclude(respond, handled, outcome, fields, manner, trace);
            }
            DispatchResult::Later(watch) => {
                let place = self.dispatcher.park(trace, manner, watch);
                self.conn.parked.push(ParkedStream { key, respond, place, hold });
            }
        }
    }

    /// Gives the protocol a response. Its body, or the beginning of that, is in `self.body`.
    fn conclude(
        &mut self,
        mut respond: SendResponse<Bytes>,
        handled: ServiceResult,
        outcome: Outcome,
        fields: HeaderMap,
        manner: ResponseOptions,
        trace: &mut Trace,
    ) {
        let Ok(memory) = self.hold(self.body.len(), &handled) else {
            return self.write_refusal(respond, &Refusal::ResponseTooLarge, manner, trace);
        };
        trace.timeline.set_transport_part(TransportPart::Compress, outcome.compress_ticks);
        trace.facts.status = outcome.status;
        trace.facts.response_bytes = saturating_u32(self.body.len());
        let source = match handled {
            ServiceResult::Stream(source) if outcome.streamed != StreamFraming::No => Some(source),
            _ => None,
        };
        let mut response = http::Response::new(());
        *response.headers_mut() = fields;
        *response.status_mut() = http::StatusCode::from_u16(outcome.status)
            .expect("a status that has a status line is one that the protocol knows");
        let is_whole = source.is_none() && self.body.is_empty();
        let bytes = Bytes::copy_from_slice(self.body);
        // Sending the head or the data fails only for a stream that the client has reset.
        let sent = respond.send_response(response, is_whole);
        let mut is_gone = sent.is_err();
        if let Ok(mut stream) = sent
            && !is_whole
        {
            stream.reserve_capacity(bytes.len());
            if source.is_some() || stream.capacity() < bytes.len() {
                return self.conn.sending.push_back(PendingResponse {
                    stream,
                    pending: bytes,
                    is_counted: source
                        .as_ref()
                        .map(|_| self.dispatcher.accounts.count_in_flight())
                        .is_some(),
                    source,
                    pace: Pace::default(),
                    memory,
                    _flight: self.dispatcher.send_away(trace),
                    trace: trace.clone(),
                });
            }
            is_gone = stream.send_data(bytes, true).is_err();
        }
        if is_gone {
            let outcome = self.dispatcher.outcome_of(AbortReason::ClientGone);
            return self.dispatcher.accounts.end(trace, outcome);
        }
        let record = self.dispatcher.accounts.seal(trace);
        self.conn.answered.push(record);
    }

    /// Takes memory from the budget for a response that may have to wait for its client's window.
    fn hold(&self, bytes: usize, handled: &ServiceResult) -> Result<Option<Share>, BudgetError> {
        let memory = self.dispatcher.accounts.memory();
        if bytes <= RESPONSE_BYTES_FREE {
            return hold_source(memory, handled);
        }
        let mut share = memory.share(usize::MAX);
        share.take(bytes)?;
        Ok(Some(share))
    }

    /// Gives the protocol as much of each response as the client's windows allow. True if there was
    /// progress.
    fn pump(&mut self, turn: &TurnTimestamps) -> bool {
        let (mut given_bytes, mut moved) = (0, false);
        let streams = self.conn.sending.len();
        for _ in 0..streams {
            let Some(mut sending) = self.conn.sending.pop_front() else { break };
            if given_bytes >= OUTPUT_BYTES_MAX {
                self.conn.sending.push_front(sending);
                break;
            }
            match sending.step() {
                SendResult::Nothing => {
                    sending.note_taken(0, streams, turn.woke);
                    self.conn.sending.push_back(sending);
                }
                SendResult::Bytes(count) => {
                    (given_bytes, moved) = (given_bytes + count, true);
                    sending.note_taken(count, streams, turn.woke);
                    self.conn.sending.push_back(sending);
                }
                SendResult::Last(count) => {
                    (given_bytes, moved) = (given_bytes + count, true);
                    self.end_sending(sending);
                }
                SendResult::Gone => give_up(sending, self.dispatcher, AbortReason::ClientGone),
                SendResult::Broken => give_up(sending, self.dispatcher, AbortReason::Failed),
            }
        }
        self.conn.note_given(given_bytes, turn.woke);
        moved
    }

    /// Ends the account of a response that the protocol has in full, except for its last stamp.
    fn end_sending(&mut self, sending: PendingResponse) {
        let PendingResponse { trace: Trace { mut timeline, facts }, is_counted, .. } = sending;
        let accounts = &self.dispatcher.accounts;
        if is_counted {
            accounts.uncount_in_flight();
        }
        timeline.stamp(Stamp::Encoded);
        self.conn.answered.push(accounts.recorder().seal(&timeline, facts));
    }

    /// Ends the requests whose streams the client has reset while they were handed over, if their
    /// work can be stopped. Each keeps its entry in `parked` until that work has ended.
    fn end_given_up(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        for ParkedStream { place, respond, .. } in &mut self.conn.parked {
            let is_watched = place.as_ref().as_ref().is_some_and(|parked| parked.watch.is_some());
            if is_watched && respond.poll_reset(&mut context).is_ready() {
                self.dispatcher.end_parked(place, AbortReason::ClientGone);
            }
        }
    }

    /// Refuses a request of whose body parts may still arrive.
    fn refuse_body(&mut self, stream: Stream, refusal: &Refusal, turn: &TurnTimestamps) {
        self.conn.note_untaken_body();
        self.refuse(stream, refusal, turn);
    }

    fn refuse(&mut self, stream: Stream, refusal: &Refusal, turn: &TurnTimestamps) {
        let mut trace = self.dispatcher.accounts.begin(stream.begun, turn, 0, self.caller.number);
        let is_head = stream.parts.method == http::Method::HEAD;
        let manner = ResponseOptions { is_head, ..ResponseOptions::PLAIN };
        self.write_refusal(stream.respond, refusal, manner, &mut trace);
    }

    fn write_refusal(
        &mut self,
        respond: SendResponse<Bytes>,
        refusal: &Refusal,
        manner: ResponseOptions,
        trace: &mut Trace,
    ) {
        let mut fields = HeaderMap::with_capacity(FIELDS_USUAL);
        self.body.clear();
        let target = ResponseBuffers { out: self.body, fields: Some(&mut fields) };
        let outcome = self.dispatcher.refuse(refusal, manner, trace, target);
        self.conclude(respond, ServiceResult::Done, outcome, fields, manner, trace);
    }

    /// Refuses the requests whose bodies are overdue, and gives up the responses that the client
    /// does not take, or takes too slowly. True if there was any.
    pub(crate) fn sweep(&mut self, turn: &TurnTimestamps) -> bool {
        let has_late = self.refuse_late(turn);
        self.give_up_untaken(turn) || has_late
    }

    fn refuse_late(&mut self, turn: &TurnTimestamps) -> bool {
        let is_late = |receiving: &IncomingRequest| receiving.is_late(turn.woke);
        let mut is_any = false;
        while let Some(at) = self.conn.receiving.iter().position(is_late) {
            let (stream, _) = self.conn.receiving.swap_remove(at).into_parts();
            self.refuse_body(stream, &Refusal::TooSlow, turn);
            self.dispatcher.accounts.shared().cuts.streams.add(DisconnectReason::RequestSlow);
            is_any = true;
        }
        is_any
    }

    fn give_up_untaken(&mut self, turn: &TurnTimestamps) -> bool {
        let (accounts, limits) = (&self.dispatcher.accounts, self.dispatcher.limits());
        let (clock, rate, now) = (accounts.clock(), limits.response_bytes_per_second, turn.woke);
        let patience = self.conn.patience(limits, clock, now);
        let mut is_any = false;
        for _ in 0..self.conn.sending.len() {
            let Some(mut sending) = self.conn.sending.pop_front() else { break };
            let is_long_ago = |since| is_longer(clock, since, patience, now);
            let cut = if sending.pace.waiting_since().is_some_and(is_long_ago) {
                DisconnectReason::ResponseStalled
            } else if sending.pace.is_slow(patience, rate, clock, now) {
                DisconnectReason::ResponseSlow
            } else {
                self.conn.sending.push_back(sending);
                continue;
            };
            accounts.shared().cuts.streams.add(cut);
            sending.stream.send_reset(Reason::CANCEL);
            give_up(sending, self.dispatcher, cut.into());
            is_any = true;
        }
        is_any
    }
}

/// Ends the accounts of the requests that are under way, when their connection ends.
pub(crate) fn end_streams<S: Service>(
    conn: &mut Conn,
    dispatcher: &Dispatcher<S>,
    ending: AbortReason,
) {
    conn.parked.drain(..).for_each(|mut parked| dispatcher.end_parked(&mut parked.place, ending));
    conn.sending.drain(..).for_each(|sending| give_up(sending, dispatcher, ending));
    let outcome = dispatcher.outcome_of(ending);
    for mut record in conn.take_answered().flatten() {
        dispatcher.accounts.end_sealed(&mut record, outcome);
    }
}

/// Ends the account of a response that cannot be sent.
fn give_up<S: Service>(sending: PendingResponse, dispatcher: &Dispatcher<S>, ending: AbortReason) {
    let PendingResponse { mut trace, is_counted, .. } = sending;
    dispatcher.accounts.end(&mut trace, dispatcher.outcome_of(ending));
    if is_counted {
        dispatcher.accounts.uncount_in_flight();
    }
}

/// Takes in the available bytes of one body; `bodies` of them share the connection. Ready once the
/// body has ended: with true if it is complete.
fn take_body<S: Service>(
    dispatcher: &mut Dispatcher<S>,
    caller: &mut Caller,
    receiving: &mut IncomingRequest,
    bodies: usize,
    turn: &TurnTimestamps,
) -> Result<Poll<bool>, Refusal> {
    let mut context = Context::from_waker(Waker::noop());
    let is_too_long = receiving.length.is_some_and(|length| length > receiving.body_bytes_max);
    loop {
        if is_too_long || !matches!(receiving.state, BodyState::Unasked) {
            admit(dispatcher, caller, receiving, turn)?;
        }
        match receiving.state {
            BodyState::Judging => return Ok(Poll::Pending),
            _ if is_too_long => return Err(Refusal::BodyTooLarge(receiving.body_bytes_max)),
            _ => {}
        }
        match receiving.source.poll_data(&mut context) {
            Poll::Pending => {
                admit(dispatcher, caller, receiving, turn)?;
                receiving.send_continue();
                return Ok(Poll::Pending);
            }
            Poll::Ready(None) => return Ok(Poll::Ready(true)),
            Poll::Ready(Some(Err(_))) => return Ok(Poll::Ready(false)),
            Poll::Ready(Some(Ok(data))) => {
                if receiving.body.len() + data.len() > receiving.body_bytes_max {
                    return Err(Refusal::BodyTooLarge(receiving.body_bytes_max));
                }
                if let BodyState::Admitted(hold) = &mut receiving.state {
                    hold.note_arrived(data.len(), bodies, dispatcher.accounts.clock(), turn.woke);
                    hold.grow(&mut receiving.body, data.len(), receiving.length)?;
                }
                receiving.body.extend_from_slice(&data);
                // This fails only for streams that are gone; the next poll returns that error.
                let _ = receiving.source.flow_control().release_capacity(data.len());
            }
        }
    }
}

/// Asks whether a body may come, or applies the decision that is here, unless it is admitted.
fn admit<S: Service>(
    dispatcher: &mut Dispatcher<S>,
    caller: &mut Caller,
    receiving: &mut IncomingRequest,
    turn: &TurnTimestamps,
) -> Result<(), Refusal> {
    let admission = match std::mem::replace(&mut receiving.state, BodyState::Judging) {
        BodyState::Judged(admission) => *admission,
        BodyState::Unasked => {
            let mut space = Vec::new();
            let length = receiving.length.unwrap_or(0);
            let headers_max = dispatcher.limits().headers;
            let head = head_of(&receiving.stream.parts, &mut space, length, headers_max)?;
            let id = ConnectionId { stream: receiving.key, ..caller.id };
            dispatcher.admit(id, caller, &head)
        }
        state => {
            receiving.state = state;
            return Ok(());
        }
    };
    match admission {
        Admission::Granted(account) => {
            let (shared, clock) = (dispatcher.accounts.shared(), dispatcher.accounts.clock());
            let hold = caller.hold_body(account.as_ref(), shared, clock, turn.woke);
            receiving.state = BodyState::Admitted(hold);
            Ok(())
        }
        Admission::Refused(refusal) => Err(refusal),
        Admission::Pending => Ok(()),
    }
}
