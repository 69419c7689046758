//! Passes the requests of one HTTP/1.1 connection to the service, and the replies to its output.

use std::mem::MaybeUninit;

use pellucid_account::{Phase, Stamp, TransportPart};
use pellucid_thread::{begin_request, set_operation, set_phase};

use super::conn::{CloseMode, Conn, NextRequest, Stage, StreamedResponse};
use super::encode::write_chunk;
use super::parse::{Framing, Head, later_minor_version, parse};
use crate::accounts::{Trace, TurnTimestamps, saturating_u32};
use crate::body_source::{FillResult, ServiceResult};
use crate::caller::Caller;
use crate::dispatch::{
    Call, DispatchResult, Dispatcher, ParkedRequest, ServiceInput, fill_contained, hold_source,
};
use crate::h2::upgrade::{SWITCHING, synthetic_headers, write_farewell};
use crate::limits::{HEADERS_MAX, Limits, OUTPUT_BYTES_MAX, READ_BYTES_MAX};
use crate::mailbox::Admission;
use crate::output::Output;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::response::{Outcome, ResponseBuffers, ResponseOptions, StreamFraming};
use crate::service::Service;

/// One connection, and the service that answers its requests.
pub(crate) struct Http1Handler<'a, S: Service> {
    conn: &'a mut Conn,
    caller: &'a mut Caller,
    /// The queue of responses that are not written yet; their bytes go to `out`.
    output: &'a mut Output,
    dispatcher: &'a mut Dispatcher<S>,
    out: &'a mut Vec<u8>,
    /// The beginning of this connection's responses in `out`.
    begin: usize,
}

impl<'a, S: Service> Http1Handler<'a, S> {
    #[inline]
    pub(crate) fn new(
        conn: &'a mut Conn,
        caller: &'a mut Caller,
        output: &'a mut Output,
        dispatcher: &'a mut Dispatcher<S>,
        out: &'a mut Vec<u8>,
    ) -> Http1Handler<'a, S> {
        let begin = out.len();
        Http1Handler { conn, caller, output, dispatcher, out, begin }
    }

    /// Answers the complete requests at the beginning of `bytes`, until the limit of unsent bytes
    /// is reached. Returns how many bytes were used.
    #[inline]
    pub(crate) fn answer_whole(&mut self, bytes: &[u8], turn: &TurnTimestamps) -> usize {
        let mut used = 0;
        let mut turn = self.conn.resume_turn(turn, self.dispatcher.accounts.last());
        while used < bytes.len()
            && self.conn.may_serve()
            && self.out.len() - self.begin < OUTPUT_BYTES_MAX
        {
            match used {
                0 => set_phase(Phase::Parse.label()),
                _ => begin_request(Phase::Parse.label()),
            }
            used += self.conn.skip_empty_lines(&bytes[used..]);
            let rest = &bytes[used..];
            if rest.is_empty() {
                break;
            }
            let next = match self.conn.is_chunked() {
                true => self.feed_chunked(rest, &turn),
                false => self.answer_next(rest, &turn),
            };
            let Some(count) = next else { break };
            used += count;
            turn.waited_until = Some(self.dispatcher.accounts.last());
        }
        let is_followed = used < bytes.len() || bytes.len() >= READ_BYTES_MAX;
        if self.conn.closing == CloseMode::Cleanly && is_followed {
            self.conn.closing = CloseMode::AfterLinger;
        }
        if self.conn.closing == CloseMode::AfterLinger {
            used = bytes.len();
        }
        self.conn.keep_turn(bytes.len() - used, &turn);
        used
    }

    /// Answers the request at the beginning of `bytes`. Returns how many bytes it took; none if it
    /// is incomplete.
    fn answer_next(&mut self, bytes: &[u8], turn: &TurnTimestamps) -> Option<usize> {
        let mut space = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let Limits { head_bytes, headers, .. } = self.dispatcher.limits();
        let (head_bytes_max, space) = (*head_bytes, &mut space[..(*headers).min(HEADERS_MAX)]);
        let (head, whole) = match self.conn.next(bytes, space, head_bytes_max, turn) {
            NextRequest::Whole(head, length) => (head, Some(length)),
            NextRequest::Head(head) => (head, None),
            NextRequest::Incomplete => return None,
            NextRequest::Malformed(refusal) => return self.refuse_malformed(&refusal, bytes, turn),
        };
        let refusal = match whole {
            Some(_) => None,
            None => match self.let_body_in(&head, turn) {
                Ok(true) => None,
                Ok(false) => return None,
                Err(refusal) => Some(refusal),
            },
        };
        let body_bytes_max = match head.framing {
            Framing::Length(0) => 0,
            _ => self.dispatcher.body_bytes_max(head.method, head.path, head.query),
        };
        let is_too_large = head.framing.length().is_some_and(|length| length > body_bytes_max);
        let too_large = || is_too_large.then_some(Refusal::BodyTooLarge(body_bytes_max));
        if let Some(refusal) = refusal.or_else(too_large) {
            self.refuse(&refusal, head.method == "HEAD", turn);
            return Some(bytes.len());
        }
        let Some(length) = whole else {
            return self.conn.expect_body(&head, bytes, body_bytes_max, self.out);
        };
        let end = head.head_bytes + length;
        self.answer(&head, &bytes[head.head_bytes..end], end, turn);
        Some(end)
    }

    /// Refuses a malformed request. One of a later minor version is answered as HTTP/1.1.
    #[cold]
    fn refuse_malformed(
        &mut self,
        refusal: &Refusal,
        bytes: &[u8],
        turn: &TurnTimestamps,
    ) -> Option<usize> {
        if *refusal == Refusal::UnknownVersion
            && let Some(at) = later_minor_version(bytes)
        {
            let mut known = bytes.to_vec();
            known[at] = b'1';
            return self.answer_next(&known, turn);
        }
        self.refuse(refusal, false, turn);
        Some(bytes.len())
    }

    /// Asks whether the body behind this head may come, unless it was admitted before. False if
    /// another thread has to decide first; the error is the refusal.
    fn let_body_in(&mut self, head: &Head<'_, '_>, turn: &TurnTimestamps) -> Result<bool, Refusal> {
        if self.conn.body.is_some() {
            return Ok(true);
        }
        let admission = match self.conn.take_admission() {
            Some(admission) => *admission,
            None => self.dispatcher.admit(self.caller.id, self.caller, head),
        };
        match admission {
            Admission::Granted(account) => {
                let accounts = &self.dispatcher.accounts;
                let (shared, clock) = (accounts.shared(), accounts.clock());
                let hold = self.caller.hold_body(account.as_ref(), shared, clock, turn.woke);
                self.conn.body = Some(hold);
                Ok(true)
            }
            Admission::Refused(refusal) => Err(refusal),
            Admission::Pending => {
                self.conn.wait_for_judgement();
                Ok(false)
            }
        }
    }

    /// Feeds the chunked body that comes in, and answers its request once that is complete.
    fn feed_chunked(&mut self, bytes: &[u8], turn: &TurnTimestamps) -> Option<usize> {
        match self.conn.feed(bytes, turn.woke, self.dispatcher.accounts.clock()) {
            Ok((used, None)) => Some(used),
            Ok((used, Some(request))) => {
                let mut space = [const { MaybeUninit::uninit() }; HEADERS_MAX];
                if let Ok(Some(head)) = parse(&request.head, &mut space, usize::MAX) {
                    self.answer(&head, request.decoder.body(), request.wire_bytes, turn);
                }
                Some(used)
            }
            Err(refusal) => {
                self.refuse(&refusal, false, turn);
                Some(bytes.len())
            }
        }
    }

    /// Answers a complete request; head and body took `bytes` bytes on the wire.
    fn answer(&mut self, head: &Head<'_, '_>, body: &[u8], bytes: usize, turn: &TurnTimestamps) {
        let begun = self.conn.begin_answer(turn);
        if self.go_on_in_http2(head, body) {
            return;
        }
        let number = self.caller.number;
        let mut trace = self.dispatcher.accounts.begin(begun, turn, bytes, number);
        let manner = ResponseOptions {
            keep_alive: head.keep_alive && !self.dispatcher.is_stopping(),
            is_head: head.method == "HEAD",
            is_old: head.is_old,
            coding: head.coding,
            compressed_from_bytes: self.dispatcher.limits().compressed_from_bytes,
        };
        if self.dispatcher.is_overloaded() {
            return self.refuse_whole(&Refusal::Overloaded, manner, &mut trace);
        }
        let Head { method, path, query, headers, .. } = *head;
        let request = Request { method, path, query, headers, body };
        let may_upgrade = !self.caller.is_encrypted && !manner.is_old;
        let call =
            Call { id: self.caller.id, caller: self.caller, may_upgrade, manner, watch: None };
        let begin = self.out.len();
        let target = ResponseBuffers { out: self.out, fields: None };
        let matter = Some(ServiceInput::Request(&request));
        let served = self.dispatcher.serve(matter, call, &mut trace, target);
        self.conclude(served, &mut trace, manner, begin);
    }

    /// Switches to HTTP/2 if the request asks for it; the request is answered there. Returns true
    /// if it switched.
    fn go_on_in_http2(&mut self, head: &Head<'_, '_>, body: &[u8]) -> bool {
        if !head.wants_http2 || !body.is_empty() || self.caller.is_encrypted {
            return false;
        }
        let Some(frame) = synthetic_headers(head) else { return false };
        self.out.extend_from_slice(SWITCHING);
        self.conn.stage = Stage::Http2(Some(frame));
        true
    }

    /// Continues the request that was handed over, with the value that the hand-over brought back;
    /// `later` is none if the code panicked.
    pub(crate) fn resume(&mut self, later: Option<S::LoopMessage>) {
        let Some(mut place) = self.conn.take_parked() else { return };
        let Some(parked) = &mut *place else { return };
        let watch = self.dispatcher.take_back(parked);
        let ParkedRequest { trace, manner, .. } = parked;
        let manner = *manner;
        let call =
            Call { id: self.caller.id, caller: self.caller, may_upgrade: false, manner, watch };
        let begin = self.out.len();
        let target = ResponseBuffers { out: self.out, fields: None };
        let served = self.dispatcher.serve(later.map(ServiceInput::Later), call, trace, target);
        self.conclude(served, trace, manner, begin);
        self.dispatcher.reuse(place);
    }

    /// Ends a request whose response is in `out` from `begin` on, or keeps it if it was handed over
    /// or its response is streamed.
    #[inline]
    fn conclude(
        &mut self,
        served: DispatchResult,
        trace: &mut Trace,
        manner: ResponseOptions,
        begin: usize,
    ) {
        let (handled, outcome) = match served {
            DispatchResult::Answered(handled, outcome) => (handled, outcome),
            DispatchResult::Later(watch) => {
                self.conn.stage = Stage::Waiting(self.dispatcher.park(trace, manner, watch));
                return;
            }
        };
        let response_bytes = self.out.len() - begin;
        let accounts = &mut self.dispatcher.accounts;
        let held = self.output.hold(response_bytes, accounts.memory());
        let Ok(_memory) = held.and_then(|()| hold_source(accounts.memory(), &handled)) else {
            self.out.truncate(begin);
            return self.refuse_whole(&Refusal::ResponseTooLarge, manner, trace);
        };
        trace.timeline.set_transport_part(TransportPart::Compress, outcome.compress_ticks);
        trace.facts.status = outcome.status;
        trace.facts.response_bytes = saturating_u32(response_bytes);
        self.conn.body = None;
        match handled {
            ServiceResult::Stream(source) if outcome.streamed != StreamFraming::No => {
                accounts.count_in_flight();
                let _flight = self.dispatcher.send_away(trace);
                let Outcome { streamed: framing, keep_alive, .. } = outcome;
                let streaming = StreamedResponse {
                    source,
                    framing,
                    trace: trace.clone(),
                    keep_alive,
                    _flight,
                    _memory,
                };
                self.conn.stage = Stage::Streaming(Box::new(streaming));
                return;
            }
            ServiceResult::Upgrade => self.conn.stage = Stage::Leaving,
            _ if outcome.keep_alive => {}
            _ => self.conn.close_after_response(self.dispatcher.is_stopping()),
        }
        let accounts = &mut self.dispatcher.accounts;
        let record = accounts.seal(trace);
        accounts.finish(self.output, record, self.out.len() - self.begin);
    }

    /// Refuses a complete request; others may follow behind it.
    #[cold]
    fn refuse_whole(&mut self, refusal: &Refusal, manner: ResponseOptions, trace: &mut Trace) {
        let begin = self.out.len();
        let target = ResponseBuffers { out: self.out, fields: None };
        let outcome = self.dispatcher.refuse(refusal, manner, trace, target);
        if *refusal == Refusal::UnknownProtocol && !self.conn.is_spoken() {
            // A client that meant to begin with HTTP/2 gets GOAWAY (RFC 9113, section 3.4).
            self.out.truncate(begin);
            write_farewell(self.out, &refusal.to_string());
        }
        self.conclude(DispatchResult::Answered(ServiceResult::Done, outcome), trace, manner, begin);
    }

    /// Refuses the request that comes in. The bytes behind it are not parsed.
    #[cold]
    pub(crate) fn refuse(&mut self, refusal: &Refusal, is_head: bool, turn: &TurnTimestamps) {
        let begun = self.conn.begin_answer(turn);
        let mut trace = self.dispatcher.accounts.begin(begun, turn, 0, self.caller.number);
        let manner = ResponseOptions { keep_alive: false, is_head, ..ResponseOptions::PLAIN };
        self.refuse_whole(refusal, manner, &mut trace);
        self.conn.closing = CloseMode::AfterLinger;
    }

    /// Appends the next piece of the response that is streamed.
    pub(crate) fn pump(&mut self) -> FillResult {
        let Stage::Streaming(streaming) = &mut self.conn.stage else { return FillResult::Waiting };
        let StreamedResponse { source, framing, trace, keep_alive, .. } = &mut **streaming;
        set_operation(trace.facts.operation + 1);
        set_phase(Phase::Encode.label());
        let mut fill = |out: &mut Vec<u8>| fill_contained(&mut **source, out);
        let filled = match framing {
            StreamFraming::Chunked => write_chunk(self.out, fill),
            _ => fill(self.out),
        };
        let piece_bytes = saturating_u32(self.out.len() - self.begin);
        trace.facts.response_bytes = trace.facts.response_bytes.saturating_add(piece_bytes);
        if filled == FillResult::Last {
            let accounts = &mut self.dispatcher.accounts;
            accounts.uncount_in_flight();
            trace.timeline.set_transport_part(TransportPart::Compress, source.compress_ticks());
            trace.timeline.stamp(Stamp::Encoded);
            let record = accounts.recorder().seal(&trace.timeline, trace.facts);
            accounts.finish(self.output, record, self.out.len() - self.begin);
            let keep_alive = *keep_alive;
            self.conn.stage = Stage::Serving;
            if !keep_alive {
                self.conn.close_after_response(self.dispatcher.is_stopping());
            }
        }
        filled
    }
}
