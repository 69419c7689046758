//! The state of one HTTP/1.1 connection: input that is not parsed yet, the request that is coming
//! in, and the request that is being answered.

use pellucid_account::InFlightGuard;
use pellucid_budget::Share;
use pellucid_clock::{Clock, Ticks};

use super::chunked::ChunkedDecoder;
use super::encode::CONTINUE;
use super::parse::{Framing, Head, HeaderSpace, parse};
use crate::accounts::{RequestStart, Trace, TurnTimestamps};
use crate::bodies::BodyHold;
use crate::body_source::BodySource;
use crate::dispatch::ParkingSlot;
use crate::h2::upgrade::PREFACE;
use crate::limits::EMPTY_LINE_BYTES_MAX;
use crate::mailbox::Admission;
use crate::refusal::Refusal;
use crate::response::StreamFraming;

/// The stage of the connection.
#[derive(Default)]
pub(crate) enum Stage {
    /// Requests are read and answered.
    #[default]
    Serving,
    /// Another thread decides, by the head, whether a body may come; nothing is read until then.
    Judging,
    /// A request was handed over; nothing is read until it is back.
    Waiting(ParkingSlot),
    /// A response is streamed; nothing is read until it is out.
    Streaming(Box<StreamedResponse>),
    /// The client switches to HTTP/2. If a request asked for that, this is the request as a frame.
    Http2(Option<Vec<u8>>),
    /// The service takes the connection over once its last response is out.
    Leaving,
}

/// The way to close a connection once its output is out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CloseMode {
    /// The connection stays open.
    #[default]
    No,
    /// Close at once: all input of the client was read.
    Cleanly,
    /// Throw input away for a while, then close: the client may still be sending.
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
pub(crate) struct StreamedResponse {
    pub(crate) source: Box<dyn BodySource>,
    pub(crate) framing: StreamFraming,
    pub(crate) trace: Trace,
    pub(crate) keep_alive: bool,
    /// Shows the request among those under way.
    pub(crate) _flight: InFlightGuard,
    /// The part of the server's memory that the source holds.
    pub(crate) _memory: Option<Share>,
}

/// The next request of the input.
pub(crate) enum NextRequest<'h, 'b> {
    /// The head is incomplete.
    Incomplete,
    /// The request is complete, with a body of this length behind its head.
    Whole(Head<'h, 'b>, usize),
    /// The head is complete, the body is not or is chunked.
    Head(Head<'h, 'b>),
    /// The head is malformed.
    Malformed(Refusal),
}

/// One HTTP/1.1 connection.
#[derive(Default)]
pub(crate) struct Conn {
    pub(crate) stage: Stage,
    pub(crate) closing: CloseMode,
    /// True once the first bytes have shown whether the client begins with HTTP/2.
    is_settled: bool,
    /// True once an HTTP/1.1 request was parsed.
    is_spoken: bool,
    /// Bytes that were read and not yet parsed.
    input: Vec<u8>,
    /// Fewer bytes of input than this hold no complete request, so parsing them again is pointless.
    wanted_bytes: usize,
    /// Bytes of the empty lines that were skipped since the last request.
    skipped_bytes: u8,
    /// The readings at the first byte of the incomplete request.
    begun: Option<RequestStart>,
    /// The readings of the turn that read the input, if that may hold a request which waits for
    /// another one to be answered.
    kept_turn: Option<Box<TurnTimestamps>>,
    /// The request whose chunked body is coming in.
    chunked: Option<Box<ChunkedRequest>>,
    /// The memory of the body that comes in, or whose request is being answered.
    pub(crate) body: Option<Box<BodyHold>>,
    /// The decision of another thread about the body that is to come, not yet applied.
    admission: Option<Box<Admission>>,
}

impl Conn {
    /// True if the next request may be parsed.
    #[inline]
    pub(crate) fn may_serve(&self) -> bool {
        matches!(self.stage, Stage::Serving) && self.closing == CloseMode::No
    }

    /// True if no request is under way, not even a part of one.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.may_serve() && self.begun.is_none() && self.input.is_empty() && self.chunked.is_none()
    }

    /// True once an HTTP/1.1 request was parsed.
    pub(crate) fn is_spoken(&self) -> bool {
        self.is_spoken
    }

    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Detects by the first bytes whether the client begins with HTTP/2; `is_http2` is true if it
    /// has agreed on that before. Returns true if requests of HTTP/1.1 may be parsed now, and false
    /// if the client speaks HTTP/2 or that is not known yet.
    pub(crate) fn settle(&mut self, bytes: &[u8], is_http2: bool, turn: &TurnTimestamps) -> bool {
        if bytes.len() < PREFACE.len() && PREFACE.starts_with(bytes) {
            self.wanted_bytes = bytes.len() + 1;
            // Starts the time limit of one request.
            self.begun.get_or_insert_with(|| RequestStart::of(turn));
            return false;
        }
        self.is_settled = true;
        if is_http2 || bytes.starts_with(PREFACE) {
            self.stage = Stage::Http2(None);
        }
        self.may_serve()
    }

    /// True if there is input that may hold a complete request.
    #[inline]
    pub(crate) fn has_requests(&self) -> bool {
        !self.input.is_empty() && self.input.len() >= self.wanted_bytes
    }

    #[inline]
    pub(crate) fn has_no_input(&self) -> bool {
        self.input.is_empty()
    }

    /// Keeps the readings of `turn` for the `rest_bytes` of input that it leaves, unless they are
    /// known to hold no complete request. Then an incomplete one begins after the wait for others.
    #[inline]
    pub(crate) fn keep_turn(&mut self, rest_bytes: usize, turn: &TurnTimestamps) {
        if rest_bytes > 0 && rest_bytes >= self.wanted_bytes {
            self.kept_turn = Some(Box::new(*turn));
        } else if let Some(begun) = &mut self.begun {
            begun.leave_wait_out();
        }
    }

    /// The readings for input that is parsed in `turn`: those of the turn that read it, if it has
    /// waited until `last` for another request to be answered.
    #[inline]
    pub(crate) fn resume_turn(&mut self, turn: &TurnTimestamps, last: Ticks) -> TurnTimestamps {
        match self.kept_turn.take() {
            None => *turn,
            Some(kept) => TurnTimestamps { woke: turn.woke, waited_until: Some(last), ..*kept },
        }
    }

    /// Skips empty lines before a request (RFC 9112, section 2.2). Returns the number of their
    /// bytes. They begin no request, so no time limit counts from them, but only
    /// [`EMPTY_LINE_BYTES_MAX`] of them are skipped.
    #[inline]
    pub(crate) fn skip_empty_lines(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !self.is_chunked()
            && self.skipped_bytes < EMPTY_LINE_BYTES_MAX
            && let [b'\n', behind @ ..] | [b'\r', b'\n', behind @ ..] = rest
        {
            // A part of a line end may have begun what seemed to be a request.
            self.skipped_bytes += (rest.len() - behind.len()) as u8;
            (self.begun, self.wanted_bytes, rest) = (None, 0, behind);
        }
        bytes.len() - rest.len()
    }

    /// Takes the input out, to be parsed; [`Conn::put_back`] keeps the rest.
    pub(crate) fn take_input(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.input)
    }

    /// Puts back `input`, the connection's own buffer, without its first `used` bytes.
    pub(crate) fn put_back(&mut self, input: Vec<u8>, used: usize) {
        assert!(self.input.is_empty(), "the input was taken out to be parsed");
        if used == 0 {
            self.input = input;
        } else if used < input.len() {
            // Copied, so that the buffer of a large body is not kept for the bytes behind it.
            self.input = input[used..].to_vec();
        }
    }

    /// Appends `bytes` to the input. If they belong to a body, takes memory for them.
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

    /// Parses the request at the beginning of `bytes`.
    #[inline]
    pub(crate) fn next<'h, 'b>(
        &mut self,
        bytes: &'b [u8],
        space: &'h mut HeaderSpace<'b>,
        head_bytes_max: usize,
        turn: &TurnTimestamps,
    ) -> NextRequest<'h, 'b> {
        self.begun.get_or_insert_with(|| RequestStart::of(turn));
        let head = match parse(bytes, space, head_bytes_max) {
            Ok(Some(head)) => head,
            Ok(None) => {
                self.wanted_bytes = bytes.len() + 1;
                return NextRequest::Incomplete;
            }
            Err(refusal) => return NextRequest::Malformed(refusal),
        };
        self.is_spoken = true;
        let present = bytes.len() - head.head_bytes;
        match head.framing {
            Framing::Length(length) if length <= present => NextRequest::Whole(head, length),
            _ => NextRequest::Head(head),
        }
    }

    /// Begins to take in the body behind the head at the beginning of `bytes`. Returns how many
    /// bytes were used; none if all must be parsed again once the body is complete.
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
            self.wanted_bytes = head_bytes.saturating_add(length);
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

    /// Feeds the chunked body. Returns how many bytes belonged to it, and the request if it is now
    /// complete.
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
            // Only data earns the body time, its framing does not.
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
    pub(crate) fn begin_answer(&mut self, turn: &TurnTimestamps) -> RequestStart {
        (self.wanted_bytes, self.skipped_bytes) = (0, 0);
        self.begun.take().unwrap_or_else(|| RequestStart::of(turn))
    }

    /// Forgets a request that is incomplete and will stay so.
    pub(crate) fn forget_input(&mut self) {
        (self.input, self.chunked) = (Vec::new(), None);
    }

    /// Closes the connection once its answers are out: with a linger if there is input that will
    /// not be read, or if the server stops and the client may be sending some.
    pub(crate) fn close_after_response(&mut self, is_stopping: bool) {
        let is_followed = !self.input.is_empty() || is_stopping;
        self.closing = if is_followed { CloseMode::AfterLinger } else { CloseMode::Cleanly };
    }

    /// Takes the decision of another thread about the body, if there is one.
    pub(crate) fn take_admission(&mut self) -> Option<Box<Admission>> {
        self.admission.take()
    }

    /// Waits until another thread has decided whether the body may come.
    pub(crate) fn wait_for_judgement(&mut self) {
        (self.stage, self.wanted_bytes) = (Stage::Judging, 0);
    }

    /// Takes in the decision of another thread.
    pub(crate) fn judged(&mut self, admission: Admission) {
        if matches!(self.stage, Stage::Judging) {
            self.stage = Stage::Serving;
            self.admission = Some(Box::new(admission));
        }
    }

    /// Takes out the request that was handed over; none if the stage is another.
    pub(crate) fn take_parked(&mut self) -> Option<ParkingSlot> {
        match std::mem::replace(&mut self.stage, Stage::Serving) {
            Stage::Waiting(place) => Some(place),
            stage => {
                self.stage = stage;
                None
            }
        }
    }

    /// True if the request that comes in is overdue. A body has its own due time; for a head,
    /// `is_long_ago` decides by its beginning.
    pub(crate) fn is_late(&self, now: Ticks, is_long_ago: impl FnOnce(Ticks) -> bool) -> bool {
        match (&self.body, self.begun) {
            (Some(body), _) => body.is_late(now),
            (None, Some(begun)) => is_long_ago(begun.due_since),
            (None, None) => false,
        }
    }
}
