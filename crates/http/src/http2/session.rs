//! One connection's HTTP/2: the protocol's state, and the streams that are under way.

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
use pellucid_account::{Flight, Record, RequestFacts, Timeline};
use pellucid_clock::Ticks;

use super::pipe::{Pipe, PipeEnd};
use super::sending::Sending;
use super::{
    CONNECTION_WINDOW_BYTES, ERROR_RESETS_MAX, QUIET_BYTES_MAX, RESETS_PENDING_MAX,
    SEND_BUFFER_BYTES_MAX, STREAM_WINDOW_BYTES,
};
use crate::client_watch::ClientWatch;
use crate::connection::Begun;
use crate::limits::Limits;
use crate::response::Manner;

/// HTTP/2 on one connection.
pub(crate) struct Session {
    pub(super) pipe: Rc<RefCell<Pipe>>,
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
    pub(super) next_key: u32,
    /// Bytes that came since the client last asked for, gave or took anything.
    pub(super) quiet_bytes: usize,
    /// Since when the client is told to open no more streams.
    pub(super) leaving_since: Option<Ticks>,
}

enum State {
    /// The preface is not complete yet.
    Greeting(Pin<Box<Handshake<PipeEnd, Bytes>>>),
    Open(Box<Protocol<PipeEnd, Bytes>>),
}

/// A request whose body is coming in.
pub(super) struct Receiving {
    pub(super) parts: Parts,
    pub(super) stream: RecvStream,
    pub(super) respond: SendResponse<Bytes>,
    pub(super) body: Vec<u8>,
    pub(super) body_bytes_max: usize,
    pub(super) begun: Begun,
}

/// A request that is with the service, and its way back.
pub(super) struct Away {
    pub(super) respond: SendResponse<Bytes>,
    pub(super) manner: Manner,
    pub(super) timeline: Timeline,
    pub(super) facts: RequestFacts,
    /// Told when the client is gone, where somebody wants to know.
    pub(super) watch: Option<ClientWatch>,
}

/// A request that was handed over.
pub(super) struct Parked {
    pub(super) key: u32,
    pub(super) away: Away,
    /// Shows the request among those under way.
    pub(super) flight: Flight,
}

/// What the protocol has for us.
pub(super) enum Polled {
    Request(Box<(http::Request<RecvStream>, SendResponse<Bytes>)>),
    Nothing,
    /// The connection is done, in whatever way.
    Over,
}

impl Session {
    /// A session of a client that has sent nothing in HTTP/2 yet. `asked_before` is its request in
    /// HTTP/1.1, as a frame, if that led here.
    pub(crate) fn new(limits: &Limits, asked_before: Option<Vec<u8>>) -> Session {
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
        Session {
            pipe,
            state: State::Greeting(Box::pin(handshake)),
            receiving: Vec::new(),
            parked: Vec::new(),
            sending: VecDeque::new(),
            answered: Vec::new(),
            next_key: 0,
            quiet_bytes: 0,
            leaving_since: None,
        }
    }

    /// Takes in what was read.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.quiet_bytes += bytes.len();
        self.pipe.borrow_mut().feed(bytes);
    }

    /// Whether responses wait to be given to the protocol.
    pub(crate) fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Whether no stream is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.receiving.is_empty() && self.parked.is_empty() && self.sending.is_empty()
    }

    /// Tells of the streams that the client has given up while their requests were handed over.
    pub(super) fn tell_resets(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        for Parked { away, .. } in &mut self.parked {
            if let Some(watch) = &away.watch
                && away.respond.poll_reset(&mut context).is_ready()
            {
                watch.tell();
                away.watch = None;
            }
        }
    }

    /// Whether a request that is known by `key` waits for the end of its hand-over.
    pub(crate) fn take_parked(&mut self, key: u32) -> Option<Box<ParkedRequest>> {
        let at = self.parked.iter().position(|parked| parked.key == key)?;
        Some(Box::new(ParkedRequest(self.parked.swap_remove(at))))
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

    /// As [`Session::poll`], leaving new requests where they are. True if the connection is done.
    pub(super) fn poll_output(&mut self) -> bool {
        let State::Open(protocol) = &mut self.state else { return false };
        protocol.poll_closed(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// Ends a connection that keeps us busy and asks for nothing.
    pub(super) fn check_quiet(&mut self) {
        if self.quiet_bytes > QUIET_BYTES_MAX
            && let State::Open(protocol) = &mut self.state
        {
            protocol.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
    }

    /// Tells the client to open no more streams; the connection ends after those that are open.
    /// False if there is nobody to tell.
    pub(super) fn leave(&mut self, now: Ticks) -> bool {
        self.leaving_since.get_or_insert(now);
        match &mut self.state {
            State::Greeting(_) => false,
            State::Open(protocol) => {
                protocol.graceful_shutdown();
                true
            }
        }
    }

    /// Bytes of responses that wait for the client's windows.
    pub(super) fn held_bytes(&self) -> usize {
        self.sending.iter().map(|sending| sending.pending.len()).sum()
    }

    /// Whether one of the responses takes long to make the next piece of.
    pub(crate) fn is_costly(&self) -> bool {
        let mut sources = self.sending.iter().filter_map(|sending| sending.source.as_ref());
        sources.any(|source| source.is_costly())
    }

    /// The accounts of what is under way, when the connection ends, and how many of them count as
    /// requests in flight that nothing else will end.
    pub(crate) fn abandoned(self) -> (Vec<(Timeline, RequestFacts)>, usize) {
        let counted = self.sending.iter().filter(|sending| sending.is_counted).count();
        let parked = self.parked.into_iter().map(|Parked { away, .. }| {
            away.watch.iter().for_each(ClientWatch::tell);
            (away.timeline, away.facts)
        });
        let sending = self.sending.into_iter().map(|sending| (sending.timeline, sending.facts));
        (parked.chain(sending).collect(), counted)
    }
}

/// A request that is back from its hand-over.
pub(crate) struct ParkedRequest(pub(super) Parked);
