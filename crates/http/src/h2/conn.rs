//! The state of one connection in HTTP/2: the protocol's, and the streams that are under way.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::server::{Builder, Connection as Protocol, Handshake, SendResponse};
use h2::{Reason, RecvStream};
use http::request::Parts;
use pellucid_account::Record;
use pellucid_budget::Share;
use pellucid_clock::Ticks;

use super::pipe::{Pipe, PipeEnd};
use super::sending::Sending;
use crate::accounts::Begun;
use crate::bodies::BodyHold;
use crate::dispatch::ParkingPlace;
use crate::limits::{Limits, OUTPUT_BYTES_FREE, OUTPUT_BYTES_MAX};
use crate::mailbox::Admission;

/// Bytes that a stream's client may send before we have taken them in.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
/// The same for all streams of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
/// Bytes of DATA that the protocol may hold for one stream.
const SEND_BUFFER_BYTES_MAX: usize = 128 * 1024;
/// Streams that were reset before we looked at them, beyond which the connection is ended: a client
/// that does this again and again wants to keep us busy (CVE-2023-44487).
const RESETS_PENDING_MAX: usize = 20;
/// Streams that we had to reset for errors of the client, beyond which the connection is ended.
const ERROR_RESETS_MAX: usize = 256;
/// Bytes that a client may send without asking for anything, taking or giving any data: PING,
/// SETTINGS, PRIORITY and the like.
const QUIET_BYTES_MAX: usize = 128 * 1024;

/// HTTP/2 on one connection.
pub(crate) struct Conn {
    pipe: Rc<RefCell<Pipe>>,
    state: State,
    /// Requests whose body is coming in.
    pub(super) receiving: Vec<Receiving>,
    /// Requests that were handed over.
    pub(super) parked: Vec<Parked>,
    /// Responses that are not out of our hands yet.
    pub(super) sending: VecDeque<Sending>,
    /// Responses that the protocol has: their accounts end when its frames are written.
    pub(super) answered: Vec<Option<Record>>,
    /// The number that the next stream is known by within the server.
    next_key: u32,
    /// Bytes that came since the client last asked for, gave or took anything.
    pub(super) quiet_bytes: usize,
    /// Bytes that may still come of bodies that nobody takes in, as they are refused or judged:
    /// their clients do not know.
    late_bytes: usize,
    /// The part of the server's memory that pieces of responses hold.
    memory: Share,
    /// The moment at which the client was told to open no more streams.
    pub(crate) leaving_since: Option<Ticks>,
}

enum State {
    /// The preface is not complete yet.
    Greeting(Pin<Box<Handshake<PipeEnd, Bytes>>>),
    Open(Box<Protocol<PipeEnd, Bytes>>),
}

/// A request whose body is coming in.
pub(super) struct Receiving {
    pub(super) stream: Stream,
    pub(super) source: RecvStream,
    pub(super) body: Vec<u8>,
    /// The length that the client declared.
    pub(super) length: Option<usize>,
    pub(super) body_bytes_max: usize,
    /// The number by which another thread knows the request that it judges.
    pub(super) key: u32,
    pub(super) state: BodyState,
}

/// The state of a body that comes in.
pub(super) enum BodyState {
    /// It may be here whole with its head, and then nobody is asked.
    Unasked,
    /// Another thread judges its head; nothing is taken in.
    Judging,
    Judged(Box<Admission>),
    Admitted(Box<BodyHold>),
}

impl Receiving {
    /// True if more of the body would have to be here.
    pub(super) fn is_late(&self, now: Ticks) -> bool {
        matches!(&self.state, BodyState::Admitted(hold) if hold.is_late(now))
    }

    /// True if another thread judges its head.
    pub(super) fn is_judged(&self) -> bool {
        matches!(self.state, BodyState::Judging)
    }

    /// The request without its body, and the body.
    pub(super) fn into_parts(self) -> (Stream, Vec<u8>) {
        let hold = match self.state {
            BodyState::Admitted(hold) => Some(hold),
            _ => None,
        };
        (Stream { hold, ..self.stream }, self.body)
    }
}

/// A stream's request, as far as it is known, and its way back.
pub(super) struct Stream {
    pub(super) parts: Parts,
    pub(super) respond: SendResponse<Bytes>,
    pub(super) begun: Begun,
    /// The memory of its body.
    pub(super) hold: Option<Box<BodyHold>>,
}

/// A request that was handed over.
pub(super) struct Parked {
    pub(super) key: u32,
    pub(super) respond: SendResponse<Bytes>,
    pub(super) place: ParkingPlace,
    /// The memory of its body.
    pub(super) hold: Option<Box<BodyHold>>,
}

/// The next thing that the protocol has for us.
pub(super) enum Polled {
    Request(Box<(http::Request<RecvStream>, SendResponse<Bytes>)>),
    Nothing,
    /// The connection is done, in whatever way.
    Over,
}

impl Conn {
    /// The connection of a client that has sent nothing in HTTP/2 yet. `asked_before` is its
    /// request in HTTP/1.1, as a frame, if that led here.
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
            quiet_bytes: 0,
            late_bytes: 0,
            memory: limits.memory.share(usize::MAX),
            leaving_since: None,
        }
    }

    /// Takes in what was read.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.quiet_bytes += bytes.len();
        self.pipe.borrow_mut().feed(bytes);
    }

    /// Takes in that the client sends no more.
    pub(crate) fn end_input(&self) {
        self.pipe.borrow_mut().ended = true;
    }

    /// True if the protocol has not looked at everything yet.
    pub(crate) fn has_input(&self) -> bool {
        self.pipe.borrow().has_input()
    }

    /// Exchanges the buffer that frames are written to.
    pub(crate) fn swap_output(&self, out: &mut Vec<u8>) {
        std::mem::swap(&mut self.pipe.borrow_mut().output, out);
    }

    /// Ends a turn: gives back memory that an idle connection has no use for. Says whether the
    /// protocol wanted to write more than the output may hold, and whether the client has ended.
    pub(crate) fn end_turn(&self) -> (bool, bool) {
        let pipe = &mut *self.pipe.borrow_mut();
        pipe.shrink();
        (std::mem::take(&mut pipe.was_full), pipe.ended)
    }

    /// The responses whose last frames were written since the last look.
    pub(crate) fn take_answered(&mut self) -> impl Iterator<Item = Option<Record>> + '_ {
        self.answered.drain(..)
    }

    /// The number of the next stream within the server.
    pub(super) fn take_key(&mut self) -> u32 {
        self.next_key = self.next_key.wrapping_add(1);
        self.next_key
    }

    /// Notes that nobody takes in what is under way of a body.
    pub(super) fn note_untaken_body(&mut self) {
        let late_bytes = self.late_bytes + STREAM_WINDOW_BYTES as usize;
        self.late_bytes = late_bytes.min(CONNECTION_WINDOW_BYTES as usize);
    }

    /// Takes in the judgement of another thread about the request that it knows by `key`.
    pub(crate) fn judged(&mut self, key: u32, admission: Admission) {
        let mut judged = self.receiving.iter_mut().filter(|receiving| receiving.key == key);
        if let Some(receiving) = judged.next()
            && matches!(receiving.state, BodyState::Judging)
        {
            receiving.state = BodyState::Judged(Box::new(admission));
        }
    }

    /// True if responses wait to be given to the protocol.
    pub(crate) fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// True if no stream is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.receiving.is_empty() && self.parked.is_empty() && self.sending.is_empty()
    }

    /// Takes out the request that is known by `key` and waits for the end of its hand-over.
    pub(super) fn take_parked(&mut self, key: u32) -> Option<Parked> {
        let at = self.parked.iter().position(|parked| parked.key == key)?;
        Some(self.parked.swap_remove(at))
    }

    /// Has the protocol look at its input and write its output; says what came of it.
    pub(super) fn poll(&mut self) -> Polled {
        let mut context = Context::from_waker(Waker::noop());
        if let State::Greeting(handshake) = &mut self.state {
            match handshake.as_mut().poll(&mut context) {
                Poll::Pending => return Polled::Nothing,
                Poll::Ready(Err(_)) => return Polled::Over,
                Poll::Ready(Ok(protocol)) => self.state = State::Open(Box::new(protocol)),
            }
        }
        let State::Open(protocol) = &mut self.state else { return Polled::Nothing };
        match protocol.poll_accept(&mut context) {
            Poll::Pending => Polled::Nothing,
            Poll::Ready(Some(Ok(request))) => Polled::Request(Box::new(request)),
            Poll::Ready(Some(Err(_)) | None) => Polled::Over,
        }
    }

    /// As [`Conn::poll`], leaving new requests where they are. True if the connection is done.
    pub(super) fn poll_output(&mut self) -> bool {
        let State::Open(protocol) = &mut self.state else { return false };
        protocol.poll_closed(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// Ends a connection that keeps us busy and asks for nothing.
    pub(super) fn check_quiet(&mut self) {
        // What it asks for is not looked at while it leaves too much of our answers lying.
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

    /// Tells the client to open no more streams; the connection ends after those that are open.
    /// False if there is nobody to tell.
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

    /// Takes memory for pieces of responses that wait for the client's windows. False if there is
    /// none.
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

    /// True if one of the responses takes long to make the next piece of.
    pub(crate) fn is_costly(&self) -> bool {
        let mut sources = self.sending.iter().filter_map(|sending| sending.source.as_ref());
        sources.any(|source| source.is_costly())
    }
}
