//! The state of one HTTP/2 connection: that of the `h2` crate, and the streams that are under way.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, Connection as Protocol, Handshake, SendResponse};
use h2::{Reason, RecvStream};
use http::request::Parts;
use pellucid_account::Record;
use pellucid_budget::Share;
use pellucid_clock::{Clock, Ticks};

use super::pending_response::PendingResponse;
use super::pipe::{Pipe, PipeEnd};
use crate::accounts::RequestStart;
use crate::bodies::BodyHold;
use crate::dispatch::ParkingSlot;
use crate::limits::{Limits, OUTPUT_BYTES_FREE, OUTPUT_BYTES_MAX};
use crate::mailbox::Admission;
use crate::pace::Pace;
use crate::transport::is_longer;

/// The receive window of one stream.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// The receive window of one connection, for all its streams.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// Bytes of DATA that the `h2` crate may buffer for one stream.
const SEND_BUFFER_BYTES_MAX: usize = 128 * 1024;
/// Streams reset by the client before they were accepted, beyond which the connection is ended: a
/// client that resets many wants to keep the server busy (rapid reset, CVE-2023-44487).
const RESETS_PENDING_MAX: usize = 20;
/// Streams that the server had to reset for errors of the client, beyond which the connection is
/// ended.
const ERROR_RESETS_MAX: usize = 256;
/// Bytes that a client may send without a request, a body, or taking part of a response: PING,
/// SETTINGS, PRIORITY and other control frames.
const QUIET_BYTES_MAX: usize = 128 * 1024;

/// One HTTP/2 connection.
pub(crate) struct Conn {
    pipe: Rc<RefCell<Pipe>>,
    state: State,
    /// Requests whose body is coming in.
    pub(super) receiving: Vec<IncomingRequest>,
    /// Requests that were handed over.
    pub(super) parked: Vec<ParkedStream>,
    /// Responses of which the `h2` crate does not have all bytes yet.
    pub(super) sending: VecDeque<PendingResponse>,
    /// Responses that the `h2` crate has in full: their accounts end when its frames are written.
    pub(super) answered: Vec<Option<Record>>,
    /// The last key that was given to a stream; keys identify streams within the server.
    next_key: u32,
    /// The pace at which the client takes all of its responses together.
    pace: Pace,
    /// Bytes received since the client last sent a request or a body, or took part of a response.
    pub(super) quiet_bytes: usize,
    /// Bytes that may still arrive of bodies that are refused, or wait for a decision: the client
    /// may have sent them before it knew.
    late_bytes: usize,
    /// The part of the server's memory that pieces of responses hold.
    memory: Share,
    /// The moment at which the client was told to open no more streams, or at which a sweep last
    /// found something to be sent to it after that.
    pub(crate) leaving_since: Option<Ticks>,
}

enum State {
    /// The client's preface is not complete yet.
    Greeting(Pin<Box<Handshake<PipeEnd, Bytes>>>),
    Open(Box<Protocol<PipeEnd, Bytes>>),
}

/// A request whose body is coming in.
pub(super) struct IncomingRequest {
    pub(super) stream: Stream,
    pub(super) source: RecvStream,
    pub(super) body: Vec<u8>,
    /// The length that the client declared, if it did.
    pub(super) length: Option<usize>,
    pub(super) body_bytes_max: usize,
    /// True if the client waits for `100 Continue`.
    pub(super) awaits_continue: bool,
    /// The key under which another thread knows the request while it decides about the body.
    pub(super) key: u32,
    pub(super) state: BodyState,
}

/// The state of a body that comes in.
pub(super) enum BodyState {
    /// The service was not asked yet. It is not asked at all if the whole body came with its head.
    Unasked,
    /// Another thread decides, by the head, whether the body may come; nothing is taken in.
    Judging,
    /// The decision is here and not yet applied.
    Judged(Box<Admission>),
    /// The body is taken in.
    Admitted(Box<BodyHold>),
}

impl IncomingRequest {
    /// True if the body is overdue.
    pub(super) fn is_late(&self, now: Ticks) -> bool {
        matches!(&self.state, BodyState::Admitted(hold) if hold.is_late(now))
    }

    /// True while another thread decides whether the body may come.
    pub(super) fn is_judged(&self) -> bool {
        matches!(self.state, BodyState::Judging)
    }

    /// Sends `100 Continue` if the body is admitted and the client waits for that.
    pub(super) fn send_continue(&mut self) {
        if matches!(self.state, BodyState::Admitted(_))
            && std::mem::take(&mut self.awaits_continue)
            && self.body.is_empty()
        {
            let mut response = http::Response::new(());
            *response.status_mut() = http::StatusCode::CONTINUE;
            // This fails only for streams that are gone; the next poll returns that error.
            let _ = self.stream.respond.send_informational(response);
        }
    }

    /// Splits the request into the part without its body, and the body.
    pub(super) fn into_parts(self) -> (Stream, Vec<u8>) {
        let hold = match self.state {
            BodyState::Admitted(hold) => Some(hold),
            _ => None,
        };
        (Stream { hold, ..self.stream }, self.body)
    }
}

/// A stream: the request without its body, and the handle to respond with.
pub(super) struct Stream {
    pub(super) parts: Parts,
    pub(super) respond: SendResponse<Bytes>,
    pub(super) begun: RequestStart,
    /// The memory of the request's body.
    pub(super) hold: Option<Box<BodyHold>>,
}

/// A request that was handed over.
pub(super) struct ParkedStream {
    pub(super) key: u32,
    pub(super) respond: SendResponse<Bytes>,
    pub(super) place: ParkingSlot,
    /// The memory of the request's body.
    pub(super) hold: Option<Box<BodyHold>>,
}

/// A request of the `h2` crate, and the handle to respond with.
type AcceptedRequest = (http::Request<RecvStream>, SendResponse<Bytes>);

impl Conn {
    /// A new connection, before any HTTP/2 input. `asked_before` is the HTTP/1.1 request that asked
    /// for the upgrade, as a frame; none without an upgrade.
    pub(crate) fn new(limits: &Limits, asked_before: Option<Vec<u8>>) -> Conn {
        let pipe = Rc::new(RefCell::new(Pipe::new(asked_before)));
        let streams = u32::try_from(limits.streams).unwrap_or(u32::MAX);
        let head_bytes = u32::try_from(limits.head_bytes).unwrap_or(u32::MAX);
        let handshake = Builder::new()
            .max_concurrent_streams(streams)
            .max_header_list_size(head_bytes)
            .initial_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buffer_size(SEND_BUFFER_BYTES_MAX)
            .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
            .max_local_error_reset_streams(Some(ERROR_RESETS_MAX))
            .handshake(PipeEnd(Rc::clone(&pipe)));
        Conn {
            pipe,
            state: State::Greeting(Box::pin(handshake)),
            receiving: Vec::new(),
            parked: Vec::new(),
            sending: VecDeque::new(),
            answered: Vec::new(),
            next_key: 0,
            pace: Pace::default(),
            quiet_bytes: 0,
            late_bytes: 0,
            memory: limits.memory.share(usize::MAX),
            leaving_since: None,
        }
    }

    /// Appends bytes that were read to the input of the protocol.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.quiet_bytes += bytes.len();
        self.pipe.borrow_mut().feed(bytes);
    }

    /// Notes that the client sends no more.
    pub(crate) fn end_input(&self) {
        self.pipe.borrow_mut().ended = true;
    }

    /// True if the protocol has not consumed all of its input.
    pub(crate) fn has_input(&self) -> bool {
        self.pipe.borrow().has_input()
    }

    /// Exchanges the buffer that frames are written to.
    pub(crate) fn swap_output(&self, out: &mut Vec<u8>) {
        std::mem::swap(&mut self.pipe.borrow_mut().output, out);
    }

    /// Ends a turn: gives back memory that an idle connection does not need. Returns whether the
    /// protocol wanted to write more than the output may hold, and whether the client has ended.
    pub(crate) fn end_turn(&self) -> (bool, bool) {
        let pipe = &mut *self.pipe.borrow_mut();
        pipe.shrink();
        (std::mem::take(&mut pipe.was_full), pipe.ended)
    }

    /// Takes out the responses whose last frames were given to the output since the last call.
    pub(crate) fn take_answered(&mut self) -> impl Iterator<Item = Option<Record>> + '_ {
        self.answered.drain(..)
    }

    /// Makes the key of the next stream.
    pub(super) fn take_key(&mut self) -> u32 {
        self.next_key = self.next_key.wrapping_add(1);
        self.next_key
    }

    /// Notes that a body is not taken in, although parts of it may still arrive.
    pub(super) fn note_untaken_body(&mut self) {
        let late_bytes = self.late_bytes + STREAM_WINDOW_BYTES as usize;
        self.late_bytes = late_bytes.min(CONNECTION_WINDOW_BYTES as usize);
    }

    /// Takes in the decision of another thread about the request with `key`.
    pub(crate) fn judged(&mut self, key: u32, admission: Admission) {
        let mut judged = self.receiving.iter_mut().filter(|receiving| receiving.key == key);
        if let Some(receiving) = judged.next()
            && matches!(receiving.state, BodyState::Judging)
        {
            receiving.state = BodyState::Judged(Box::new(admission));
        }
    }

    /// Lets the bodies that come in pause anew, because nothing was read.
    pub(crate) fn put_off_bodies(&mut self, now: Ticks) {
        for receiving in &mut self.receiving {
            if let BodyState::Admitted(hold) = &mut receiving.state {
                hold.put_off(now);
            }
        }
    }

    /// Notes that the responses were given `bytes` in total for the client. They wait for it only
    /// if it took none of them.
    pub(super) fn note_given(&mut self, bytes: usize, now: Ticks) {
        if bytes > 0 {
            self.quiet_bytes = 0;
        }
        self.pace.note(bytes as u64, bytes == 0 && self.held_bytes() > 0, now);
        if self.sending.is_empty() {
            self.pace = Pace::default();
        }
    }

    /// The time for which a response may wait for the client's windows. While the client takes all
    /// responses together at the lowest rate, it may wait for the others: each may fill its buffer
    /// first, at that rate.
    pub(super) fn patience(&self, limits: &Limits, clock: &Clock, now: Ticks) -> Duration {
        let (exchange, rate) = (limits.exchange, limits.response_bytes_per_second);
        let is_long_ago = |since| is_longer(clock, since, exchange, now);
        if self.pace.waiting_since().is_some_and(is_long_ago)
            || self.pace.is_slow(exchange, rate, clock, now)
        {
            return exchange;
        }
        let others_bytes = self.sending.len().saturating_sub(1) * SEND_BUFFER_BYTES_MAX;
        exchange + Duration::from_secs(others_bytes as u64 / rate.max(1))
    }

    /// True if responses wait to be given to the protocol.
    pub(crate) fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// True if no stream is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.receiving.is_empty() && self.parked.is_empty() && self.sending.is_empty()
    }

    /// Takes out the request with `key` that was handed over; none if there is none.
    pub(super) fn take_parked(&mut self, key: u32) -> Option<ParkedStream> {
        let at = self.parked.iter().position(|parked| parked.key == key)?;
        Some(self.parked.swap_remove(at))
    }

    /// Polls the protocol: it consumes input, writes output, and may have a new request. Ready with
    /// none if the connection has ended, with or without an error.
    pub(super) fn poll(&mut self) -> Poll<Option<AcceptedRequest>> {
        let mut context = Context::from_waker(Waker::noop());
        if let State::Greeting(handshake) = &mut self.state {
            match handshake.as_mut().poll(&mut context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(None),
                Poll::Ready(Ok(protocol)) => self.state = State::Open(Box::new(protocol)),
            }
        }
        let State::Open(protocol) = &mut self.state else { return Poll::Pending };
        protocol.poll_accept(&mut context).map(|accepted| accepted.and_then(Result::ok))
    }

    /// Polls the protocol like [`Conn::poll`], but accepts no new requests. True if the connection
    /// is done.
    pub(super) fn poll_output(&mut self) -> bool {
        let State::Open(protocol) = &mut self.state else { return false };
        protocol.poll_closed(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// Ends a connection that sends more than [`QUIET_BYTES_MAX`] without a request or progress.
    pub(super) fn check_quiet(&mut self) {
        // While too many response bytes wait for the client, its requests are not accepted, so that
        // they cannot reset the count.
        if self.held_bytes() >= OUTPUT_BYTES_MAX {
            self.quiet_bytes = 0;
        }
        let excess_bytes = self.quiet_bytes.saturating_sub(QUIET_BYTES_MAX);
        let late_bytes = excess_bytes.min(self.late_bytes);
        (self.quiet_bytes, self.late_bytes) =
            (self.quiet_bytes - late_bytes, self.late_bytes - late_bytes);
        if self.quiet_bytes > QUIET_BYTES_MAX
            && let State::Open(protocol) = &mut self.state
        {
            protocol.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
    }

    /// Sends GOAWAY, so that the client opens no more streams; the connection ends after those that
    /// are open. False if the handshake is not complete, so that nothing can be sent.
    pub(crate) fn leave(&mut self, now: Ticks) -> bool {
        self.leaving_since.get_or_insert(now);
        match &mut self.state {
            State::Greeting(_) => false,
            State::Open(protocol) => {
                protocol.graceful_shutdown();
                true
            }
        }
    }

    /// Takes memory from the budget for pieces of responses that wait for the client's windows.
    /// False if the budget is exhausted.
    pub(crate) fn hold_pieces(&mut self) -> bool {
        let pieces = self.sending.iter().filter(|sending| sending.memory.is_none());
        let bytes = pieces.map(|sending| sending.pending.len()).sum::<usize>();
        let (wanted, held) = (bytes.saturating_sub(OUTPUT_BYTES_FREE), self.memory.held_bytes());
        if wanted > held {
            return self.memory.take(wanted - held).is_ok();
        }
        self.memory.give_back(held - wanted);
        true
    }

    /// Bytes of responses that wait for the client's windows.
    pub(super) fn held_bytes(&self) -> usize {
        self.sending.iter().map(|sending| sending.pending.len()).sum()
    }

    /// True if the next piece of one of the responses takes long to make.
    pub(crate) fn is_costly(&self) -> bool {
        let mut sources = self.sending.iter().filter_map(|sending| sending.source.as_ref());
        sources.any(|source| source.is_costly())
    }
}
