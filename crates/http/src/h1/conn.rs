//! The state of one connection in HTTP/1.1: input that is not parsed yet, the request that is
//! coming in, and the one that is answered.

use pellucid_account::Flight;
use pellucid_budget::Share;
use pellucid_clock::{Clock, Ticks};

use super::chunked::ChunkedDecoder;
use super::encode::CONTINUE;
use super::parse::{Framing, Head, HeaderSpace, parse};
use crate::accounts::{Begun, Trace, Turn};
use crate::bodies::BodyHold;
use crate::body_source::BodySource;
use crate::dispatch::ParkingPlace;
use crate::h2::upgrade::PREFACE;
use crate::mailbox::Admission;
use crate::refusal::Refusal;
use crate::response::Streamed;

/// The stage of the connection.
pub(crate) enum Stage {
    /// Reading and answering requests.
    Serving,
    /// A request is judged by its head; nothing is read until it may go on.
    Judging,
    /// A request was handed over; nothing is read until it is back.
    Waiting(ParkingPlace),
    /// A response is streamed; nothing is read until it is out.
    Streaming(Box<Streaming>),
    /// The client goes on in HTTP/2: with its request as a frame, if that asked for it.
    Http2(Option<Vec<u8>>),
    /// The service takes the connection over once its last response is out.
    Leaving,
}

/// The end of a connection, once its output is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    No,
    /// All that the client sent was read.
    Cleanly,
    /// The client may still be sending what we will not read.
    AfterLinger,
}

/// A request whose body comes in chunks.
pub(crate) struct ChunkedRequest {
    pub(crate) head: Vec<u8>,
    pub(crate) decoder: ChunkedDecoder,
    /// Bytes that the request took on the wire.
    pub(crate) wire_bytes: usize,
}

/// A response that is streamed.
pub(crate) struct Streaming {
    pub(crate) source: Box<dyn BodySource>,
    pub(crate) framing: Streamed,
    pub(crate) trace: Trace,
    pub(crate) keep_alive: bool,
    /// Shows the request among those under way.
    pub(crate) _flight: Flight,
    /// The part of the server's memory that the source holds.
    pub(crate) _memory: Option<Share>,
}

/// The next request of the input.
pub(crate) enum Next<'h, 'b> {
    /// It is not whole, and nothing can be done about it yet.
    Incomplete,
    /// It is whole, with a body of this length behind its head.
    Whole(Head<'h, 'b>, usize),
    /// Its head is whole.
    Head(Head<'h, 'b>),
    /// It cannot be understood.
    Malformed(Refusal),
}

/// One connection in HTTP/1.1.
pub(crate) struct Conn {
    pub(crate) stage: Stage,
    pub(crate) closing: Closing,
    /// It is known that the client does not begin with HTTP/2.
    is_settled: bool,
    /// A request of HTTP/1.1 was understood.
    is_spoken: bool,
    /// Bytes that were read and not yet parsed.
    input: Vec<u8>,
    /// Fewer bytes of input than this hold no whole request, so parsing them again is pointless.
    wanted_bytes: usize,
    /// The readings at the first byte of the incomplete request.
    begun: Option<Begun>,
    /// The request whose chunked body is coming in.
    chunked: Option<Box<ChunkedRequest>>,
    /// The memory of the body that comes in, or of the one whose request is answered.
    pub(crate) body: Option<Box<BodyHold>>,
    /// The judgement of another thread about the request whose body is to come.
    admission: Option<Box<Admission>>,
}

impl Conn {
    pub(crate) fn new() -> Conn {
        Conn {
            stage: Stage::Serving,
            closing: Closing::No,
            is_settled: false,
            is_spoken: false,
            input: Vec::new(),
            wanted_bytes: 0,
            begun: None,
            chunked: None,
            body: None,
            admission: None,
        }
    }

    /// True if the next request may be looked at.
    #[inline]
    pub(crate) fn may_serve(&self) -> bool {
        matches!(self.stage, Stage::Serving) && self.closing == Closing::No
    }

    /// True if nothing is under way.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.may_serve() && self.begun.is_none() && self.input.is_empty() && self.chunked.is_none()
    }

    /// True once a request of HTTP/1.1 was understood.
    pub(crate) fn is_spoken(&self) -> bool {
        self.is_spoken
    }

    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Finds out, by the first bytes, whether the client begins with HTTP/2, or has agreed on it
    /// before. False while it is not known that it does not.
    pub(crate) fn settle(&mut self, bytes: &[u8], is_http2: bool, turn: &Turn) -> bool {
        if bytes.len() < PREFACE.len() && PREFACE.starts_with(bytes) {
            self.wanted_bytes = bytes.len() + 1;
            // So that it has only the time for one request.
            self.begun.get_or_insert_with(|| Begun::of(turn));
            return false;
        }
        self.is_settled = true;
        if is_http2 || bytes.starts_with(PREFACE) {
            self.stage = Stage::Http2(None);
        }
        self.may_serve()
    }

    /// True if there is input that may hold a whole request.
    #[inline]
    pub(crate) fn has_requests(&self) -> bool {
        !self.input.is_empty() && self.input.len() >= self.wanted_bytes
    }

    #[inline]
    pub(crate) fn has_no_input(&self) -> bool {
        self.input.is_empty()
    }

    /// Takes the input out, to be parsed; [`Conn::put_back`] keeps the rest.
    pub(crate) fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }

    /// Keeps the part of `input`, the connection's own buffer, that was not used.
    pub(crate) fn put_back(&mut self, input: Vec<u8>, used: usize) {
        assert!(self.input.is_empty(), "the input was taken out to be parsed");
        if used == 0 {
            self.input = input;
        } else if used < input.len() {
            // A copy: the buffer of a large body is not held for what follows it.
            self.input = input[used..].to_vec();
        }
    }

    /// Adds to the input. Where it is a body, it takes memory for it.
    pub(crate) fn take_in(
        &mut self,
        bytes: &[u8],
        woke: Ticks,
        clock: &Clock,
    ) -> Result<(), Refusal> {
        if let Some(body) = &mut self.body
            && self.chunked.is_none()
        {
            body.note_arrived(bytes.len(), 1, clock, woke);
            body.grow(&mut self.input, bytes.len(), Some(self.wanted_bytes))?;
        }
        self.input.extend_from_slice(bytes);
        Ok(())
    }

    /// Looks for a request at the beginning of `bytes`.
    #[inline]
    pub(crate) fn next<'h, 'b>(
        &mut self,
        bytes: &'b [u8],
        space: &'h mut HeaderSpace<'b>,
        head_bytes_max: usize,
        turn: &Turn,
    ) -> Next<'h, 'b> {
        self.begun.get_or_insert_with(|| Begun::of(turn));
        let head = match parse(bytes, space, head_bytes_max) {
            Ok(Some(head)) => head,
            Ok(None) => {
                self.wanted_bytes = bytes.len() + 1;
                return Next::Incomplete;
            }
            Err(refusal) => return Next::Malformed(refusal),
        };
        self.is_spoken = true;
        let present = bytes.len() - head.head_bytes;
        match head.framing {
            Framing::Length(length) if length <= present => Next::Whole(head, length),
            _ => Next::Head(head),
        }
    }

    /// Begins to take in the body behind a head at the beginning of `bytes`. Returns how many bytes
    /// were used, unless all are to be looked at again.
    pub(crate) fn expect_body(
        &mut self,
        head: &Head<'_, '_>,
        bytes: &[u8],
        body_bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let head_bytes = head.head_bytes;
        if head.expects_continue && bytes.len() == head_bytes {
            out.extend_from_slice(CONTINUE);
        }
        if let Framing::Length(length) = head.framing {
            self.wanted_bytes = head_bytes + length;
            return None;
        }
        self.wanted_bytes = 0;
        let (head, decoder) = (bytes[..head_bytes].to_vec(), ChunkedDecoder::new(body_bytes_max));
        self.chunked = Some(Box::new(ChunkedRequest { head, decoder, wire_bytes: head_bytes }));
        Some(head_bytes)
    }

    /// True if a chunked body is coming in.
    #[inline]
    pub(crate) fn is_chunked(&self) -> bool {
        self.chunked.is_some()
    }

    /// Feeds the chunked body. Returns how many bytes belonged to it, and the request if it is
    /// whole by them.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        woke: Ticks,
        clock: &Clock,
    ) -> Result<(usize, Option<Box<ChunkedRequest>>), Refusal> {
        let Some(mut request) = self.chunked.take() else { return Ok((0, None)) };
        let before = request.decoder.body().len();
        if let Some(body) = &mut self.body {
            body.grow(request.decoder.buffer(), bytes.len(), None)?;
        }
        let used = request.decoder.feed(bytes)?;
        if let Some(body) = &mut self.body {
            // The framing of the body earns it no time.
            body.note_arrived(request.decoder.body().len() - before, 1, clock, woke);
        }
        request.wire_bytes += used;
        if request.decoder.is_complete() {
            return Ok((used, Some(request)));
        }
        self.chunked = Some(request);
        Ok((used, None))
    }

    /// Begins to answer the request, and returns the readings at its first byte.
    #[inline]
    pub(crate) fn begin_answer(&mut self, turn: &Turn) -> Begun {
        self.wanted_bytes = 0;
        self.begun.take().unwrap_or_else(|| Begun::of(turn))
    }

    /// Forgets the request that is not whole and will not be.
    pub(crate) fn forget_input(&mut self) {
        (self.input, self.chunked) = (Vec::new(), None);
    }

    /// Ends the connection once its answers are out: with a linger where the client has sent, or
    /// after a stop may be sending, what will not be read.
    pub(crate) fn close_after_response(&mut self, is_stopping: bool) {
        let is_followed = !self.input.is_empty() || is_stopping;
        self.closing = if is_followed { Closing::AfterLinger } else { Closing::Cleanly };
    }

    /// The judgement of another thread, if it is here.
    pub(crate) fn take_admission(&mut self) -> Option<Box<Admission>> {
        self.admission.take()
    }

    /// Waits for another thread to judge the request.
    pub(crate) fn wait_for_judgement(&mut self) {
        (self.stage, self.wanted_bytes) = (Stage::Judging, 0);
    }

    /// Takes in the judgement of another thread.
    pub(crate) fn judged(&mut self, admission: Admission) {
        if matches!(self.stage, Stage::Judging) {
            self.stage = Stage::Serving;
            self.admission = Some(Box::new(admission));
        }
    }

    /// Takes out the request that was handed over, if there is one.
    pub(crate) fn take_parked(&mut self) -> Option<ParkingPlace> {
        match std::mem::replace(&mut self.stage, Stage::Serving) {
            Stage::Waiting(place) => Some(place),
            stage => {
                self.stage = stage;
                None
            }
        }
    }

    /// True if the request that comes in would have to be here, by `is_long_ago` of its beginning.
    pub(crate) fn is_late(&self, now: Ticks, is_long_ago: impl FnOnce(Ticks) -> bool) -> bool {
        match (&self.body, self.begun) {
            (Some(body), _) => body.is_late(now),
            (None, Some(begun)) => is_long_ago(begun.arrived),
            (None, None) => false,
        }
    }
}
