//! The client side of HTTP/2 on one connection: the library `h2`, driven without a runtime.
//!
//! The event loop passes events in and takes answers out. The protocol reads and writes the socket
//! itself, so a server that does not read our replies is read no further: no buffer grows on our
//! side. Windows are as large as the protocol allows, because a generator that reads slowly would
//! measure itself.

pub(crate) mod request;
mod wire;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request};
use pellucid_clock::{Clock, Ticks};

use crate::disconnect_reason::DisconnectReason;
use crate::poller::Poller;
use crate::stream::Stream as Socket;
use pellucid_client::http::{
    CapturedResponse, MAX_CAPTURED_BODY_BYTES, MAX_HEAD_BYTES, ResponseError, ServerTiming,
};
pub(crate) use wire::TURN_BYTES_MAX;
use wire::{Wire, WireEnd};

/// The largest window of a stream or connection.
const WINDOW_BYTES_MAX: u32 = 0x7fff_ffff;

/// The outcome of a request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) stream: u32,
    /// The status, or the reason that there is none.
    pub(crate) status: Result<u16, StreamFailure>,
    /// The time at which its first bytes were received.
    pub(crate) first_byte: Ticks,
    /// Head and body, if answers are captured.
    pub(crate) captured: Option<Box<CapturedResponse>>,
    /// The server's timing, if the request was watched.
    pub(crate) timing: Option<ServerTiming>,
}

/// The reason for a request without an answer.
#[derive(Debug)]
pub(crate) enum StreamFailure {
    /// The server has not processed the request, so it can be sent again whatever it asks for (RFC
    /// 9113, section 8.7).
    LeftOut(&'static str),
    /// The server may have processed the request.
    Reset(String),
}

/// A flag that the protocol sets for a stream, or for the connection, that can go on.
#[derive(Default)]
struct Signal(AtomicBool);

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Signal {
    fn take(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

/// A request in flight.
struct Stream {
    part: AnswerPart,
    signal: Arc<Signal>,
    wants_timing: bool,
    answer: Answer,
}

/// The part of an answer that comes next.
enum AnswerPart {
    Head(ResponseFuture),
    Body(RecvStream),
}

/// One HTTP/2 connection.
pub(crate) struct Http2 {
    wire: Rc<RefCell<Wire>>,
    protocol: Connection<WireEnd, Bytes>,
    requests: SendRequest<Bytes>,
    signal: Arc<Signal>,
    /// The requests in flight, in the order of their stream numbers.
    streams: VecDeque<Stream>,
    streams_wanted: usize,
    capture: bool,
    /// True if no further request is allowed, by the server or because stream numbers are used up.
    is_ending: bool,
}

impl Http2 {
    /// Begins a connection with at most `streams` requests in flight; with `capture`, whole answers
    /// are kept.
    pub(crate) fn begin(
        socket: Socket,
        clock: Clock,
        streams: usize,
        capture: bool,
    ) -> io::Result<Http2> {
        let wire = Rc::new(RefCell::new(Wire::new(socket, clock)));
        let mut builder = Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(WINDOW_BYTES_MAX)
            .initial_connection_window_size(WINDOW_BYTES_MAX)
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            // No requests before the server's settings: it may refuse what was sent before them.
            .initial_max_send_streams(0);
        let handshake = pin!(builder.handshake::<_, Bytes>(WireEnd(Rc::clone(&wire))));
        let (requests, protocol) = match handshake.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome.map_err(io::Error::other)?,
            Poll::Pending => return Err(io::Error::other("the socket takes no preface")),
        };
        Ok(Http2 {
            wire,
            protocol,
            requests,
            signal: Arc::default(),
            streams: VecDeque::with_capacity(streams),
            streams_wanted: streams,
            capture,
            is_ending: false,
        })
    }

    /// The number of further requests that can be sent now.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        if self.is_ending {
            return 0;
        }
        let allowed = self.requests.current_max_send_streams();
        self.streams_wanted.min(allowed).saturating_sub(self.streams.len())
    }

    /// True if the server has said how many streams it allows.
    pub(crate) fn is_ready(&self) -> bool {
        self.requests.current_max_send_streams() > 0
    }

    /// True if bytes wait until the socket takes them.
    pub(crate) fn is_blocked(&self) -> bool {
        self.wire.borrow().is_blocked()
    }

    /// Notes that the socket has bytes, or has reached its end (`is_ending`).
    pub(crate) fn note_readable(&self, is_ending: bool) {
        self.wire.borrow_mut().note_readable(is_ending);
    }

    /// Makes the poller report the socket again if the last turn ended before all was read.
    pub(crate) fn remind(&self, poller: &Poller, token: usize) -> io::Result<()> {
        let wire = self.wire.borrow();
        if wire.has_more() { poller.remind(wire.socket().as_fd(), token) } else { Ok(()) }
    }

    /// The time of the last read that brought bytes.
    pub(crate) fn read_at(&self) -> Ticks {
        self.wire.borrow().read_at
    }

    /// Returns the number of bytes that were read since the last call.
    pub(crate) fn take_received_bytes(&self) -> u64 {
        std::mem::take(&mut self.wire.borrow_mut().received_bytes)
    }

    /// Passes a request to the protocol and returns its stream; `None` if the connection takes no
    /// more requests.
    pub(crate) fn request(
        &mut self,
        request: Request<()>,
        body: Bytes,
        wants_timing: bool,
    ) -> Option<u32> {
        let sent = self.requests.send_request(request, body.is_empty()).and_then(
            |(response, mut sender)| {
                if !body.is_empty() {
                    sender.send_data(body, true)?;
                }
                Ok(response)
            },
        );
        let Ok(response) = sent else {
            self.is_ending = true;
            return None;
        };
        let stream = response.stream_id().as_u32();
        // Set at first, so that the first poll registers the signal with the protocol.
        let signal = Arc::new(Signal(AtomicBool::new(true)));
        let answer = Answer {
            stream,
            status: Ok(0),
            first_byte: Ticks::default(),
            captured: None,
            timing: None,
        };
        self.streams.push_back(Stream {
            part: AnswerPart::Head(response),
            signal,
            wants_timing,
            answer,
        });
        Some(stream)
    }

    /// Cancels a request.
    pub(crate) fn cancel(&mut self, stream: u32) {
        if let Ok(at) = self.streams.binary_search_by_key(&stream, |s| s.answer.stream) {
            self.streams.remove(at);
        }
    }

    /// Reads and writes as far as the socket allows, and appends complete answers to `answers`. An
    /// error is the end of the connection.
    pub(crate) fn turn(&mut self, answers: &mut Vec<Answer>) -> Result<(), DisconnectReason> {
        let waker = Waker::from(Arc::clone(&self.signal));
        self.wire.borrow_mut().begin_turn();
        // New requests have set the signal, and the poll below is what they ask for.
        self.signal.take();
        loop {
            let outcome = Pin::new(&mut self.protocol).poll(&mut Context::from_waker(&waker));
            self.collect(answers)?;
            match outcome {
                Poll::Pending if self.signal.take() => {}
                Poll::Pending => break,
                Poll::Ready(Ok(())) if self.streams.is_empty() => {
                    return Err(DisconnectReason::Ended);
                }
                Poll::Ready(Ok(())) => {
                    let text = "the connection ended before the answer";
                    let error = io::Error::new(io::ErrorKind::UnexpectedEof, text);
                    return Err(DisconnectReason::Read(error));
                }
                Poll::Ready(Err(error)) => return Err(loss_by(error)),
            }
        }
        let ready = self.requests.poll_ready(&mut Context::from_waker(Waker::noop()));
        self.is_ending |= matches!(ready, Poll::Ready(Err(_)));
        if self.is_ending && self.streams.is_empty() {
            Err(DisconnectReason::Ended)
        } else {
            Ok(())
        }
    }

    fn collect(&mut self, answers: &mut Vec<Answer>) -> Result<(), DisconnectReason> {
        let read_at = self.wire.borrow().read_at;
        let mut at = 0;
        while let Some(stream) = self.streams.get_mut(at) {
            if stream.signal.take() && stream.advance(read_at, self.capture)? {
                answers.extend(self.streams.remove(at).map(|stream| stream.answer));
            } else {
                at += 1;
            }
        }
        Ok(())
    }
}

impl Stream {
    /// Takes the available part of the answer. Returns true if the request is finished.
    fn advance(&mut self, read_at: Ticks, capture: bool) -> Result<bool, DisconnectReason> {
        let waker = Waker::from(Arc::clone(&self.signal));
        let mut context = Context::from_waker(&waker);
        loop {
            let error = match &mut self.part {
                AnswerPart::Head(response) => match Pin::new(response).poll(&mut context) {
                    Poll::Pending => return Ok(false),
                    Poll::Ready(Ok(response)) => {
                        let (head, body) = response.into_parts();
                        let status = head.status.as_u16();
                        (self.answer.status, self.answer.first_byte) = (Ok(status), read_at);
                        if self.wants_timing {
                            self.answer.timing = timing_in(&head.headers);
                        }
                        if capture {
                            self.answer.captured = Some(Box::new(captured(status, &head.headers)));
                        }
                        self.part = AnswerPart::Body(body);
                        continue;
                    }
                    Poll::Ready(Err(error)) => error,
                },
                AnswerPart::Body(body) => match body.poll_data(&mut context) {
                    Poll::Pending => return Ok(false),
                    Poll::Ready(None) => return Ok(true),
                    Poll::Ready(Some(Ok(piece))) => {
                        // This fails only for bytes that were never received.
                        let _ = body.flow_control().release_capacity(piece.len());
                        if let Some(captured) = &mut self.answer.captured {
                            if captured.body.len() + piece.len() > MAX_CAPTURED_BODY_BYTES {
                                return Err(DisconnectReason::Malformed(
                                    ResponseError::BodyTooLong,
                                ));
                            }
                            captured.body.extend_from_slice(&piece);
                        }
                        continue;
                    }
                    Poll::Ready(Some(Err(error))) => error,
                },
            };
            let Some(unanswered) = unanswered_by(&error) else { return Ok(false) };
            self.answer.status = Err(unanswered);
            return Ok(true);
        }
    }
}

fn timing_in(headers: &HeaderMap) -> Option<ServerTiming> {
    let mut timing = None;
    for name in [ServerTiming::TIMING, ServerTiming::CLOCK] {
        for value in headers.get_all(name) {
            let told: &mut ServerTiming = timing.get_or_insert_default();
            told.take_header(name, value.as_bytes());
        }
    }
    timing
}

/// The head in the form of HTTP/1.1, for scripts and checks.
fn captured(status: u16, headers: &HeaderMap) -> CapturedResponse {
    let mut head = format!("HTTP/2 {status}\r\n").into_bytes();
    for (name, value) in headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            head.extend_from_slice(part);
        }
    }
    CapturedResponse { head, body: Vec::new() }
}

/// The meaning of a stream's error; `None` if it is an error of the connection.
fn unanswered_by(error: &h2::Error) -> Option<StreamFailure> {
    if error.is_go_away() && error.is_remote() {
        return Some(StreamFailure::LeftOut("the server ended the connection before it (GOAWAY)"));
    }
    if !error.is_reset() {
        return None;
    }
    Some(match error.reason() {
        Some(Reason::REFUSED_STREAM) if error.is_remote() => {
            StreamFailure::LeftOut("the server refused the stream (REFUSED_STREAM)")
        }
        Some(Reason::ENHANCE_YOUR_CALM) if error.is_remote() => {
            StreamFailure::Reset("the server asks for less (ENHANCE_YOUR_CALM)".to_owned())
        }
        Some(reason) if error.is_remote() => {
            StreamFailure::Reset(format!("the server reset the stream ({reason:?})"))
        }
        _ => StreamFailure::Reset(format!("the response is no HTTP/2: {error}")),
    })
}

fn loss_by(error: h2::Error) -> DisconnectReason {
    if error.is_remote() {
        return DisconnectReason::Read(io::Error::other(format!(
            "the server ended the connection: {error}"
        )));
    }
    match error.reason() {
        Some(Reason::ENHANCE_YOUR_CALM) => DisconnectReason::Malformed(ResponseError::Flooded),
        Some(_) => DisconnectReason::Malformed(ResponseError::Frame),
        None => DisconnectReason::Read(
            error.into_io().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into()),
        ),
    }
}

#[cfg(test)]
pub(crate) mod tests;
