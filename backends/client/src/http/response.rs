//! An incremental parser of HTTP/1.1 responses, fast enough for a load generator.
//!
//! At full load, it runs a hundred thousand times a second, on the core that also makes the
//! requests. So it reads only the fields that determine the end of a response and of the connection
//! (RFC 9112, sections 6 and 9): the status, `Content-Length`, `Transfer-Encoding` and
//! `Connection`. It skips all other header lines with a vectorised search. The bytes may arrive in
//! pieces of any length, and no length in a response makes the parser allocate memory in advance.

mod head;
mod response_error;
mod server_timing;

use super::chunk_decoder::ChunkDecoder;
pub use head::parse_decimal;
use head::{Head, scan_head};
pub use response_error::ResponseError;
pub use server_timing::ServerTiming;

/// Limit of a head (status line and headers) in bytes.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Limit in bytes of a body that is kept; a longer one is an error.
pub const MAX_CAPTURED_BODY_BYTES: usize = 64 * 1024 * 1024;

/// The result of a complete response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// True if the connection can carry another request.
    pub keep_alive: bool,
}

/// The outcome of the bytes given to [`ResponseParser::parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseOutcome {
    /// All bytes were consumed, and the response is not complete.
    More,
    /// The response is complete.
    Complete {
        /// Bytes of the input that belonged to the response.
        consumed: usize,
        /// The response.
        response: Response,
    },
}

/// The bytes of a response, kept for the caller.
#[derive(Debug, Default)]
pub struct CapturedResponse {
    /// The head, from the status line to the empty line.
    pub head: Vec<u8>,
    /// The body, without chunk framing.
    pub body: Vec<u8>,
}

/// The position of a parser within a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Body {
        remaining: u64,
    },
    Chunked(ChunkDecoder),
    UntilClose,
}

/// A parser of the successive responses of a connection.
#[derive(Debug, Default)]
pub struct ResponseParser {
    state: State,
    /// The beginning of a head whose end has not arrived yet.
    partial_head: Vec<u8>,
    response: Response,
    captured: Option<Box<CapturedResponse>>,
    /// The server's account of its own time in the current response, if the caller wants it.
    timing: Option<ServerTiming>,
}

impl ResponseParser {
    /// A parser at the beginning of a response. With `capture`, it keeps head and body.
    #[must_use]
    pub fn new(capture: bool) -> ResponseParser {
        ResponseParser { captured: capture.then(Box::default), ..ResponseParser::default() }
    }

    /// Parses the next bytes of the connection. `bodiless` is true if the request was a HEAD: its
    /// response has the headers of a body, but no body.
    ///
    /// # Errors
    /// If the response is malformed; the connection cannot be used any more.
    pub fn parse(&mut self, input: &[u8], bodiless: bool) -> Result<ParseOutcome, ResponseError> {
        let mut at = 0;
        while self.state == State::Head {
            let Some((head, consumed)) = self.take_head(&input[at..])? else {
                return Ok(ParseOutcome::More);
            };
            at += consumed;
            if self.enter_body(&head, bodiless) {
                return Ok(self.complete(at));
            }
            if at == input.len() {
                return Ok(ParseOutcome::More);
            }
        }
        self.take_body(input, at)
    }

    /// Handles the end of the connection. Returns the response that lasts until this end, if there
    /// is one, and `None` if the connection ends between two responses.
    ///
    /// # Errors
    /// [`ResponseError::Truncated`] if the connection ends within a response.
    pub fn end(&mut self) -> Result<Option<Response>, ResponseError> {
        match self.state {
            State::UntilClose => {
                self.state = State::Head;
                Ok(Some(self.response))
            }
            State::Head if self.partial_head.is_empty() => Ok(None),
            State::Head | State::Body { .. } | State::Chunked(_) => Err(ResponseError::Truncated),
        }
    }

    /// Resets the parser for a new connection.
    pub fn reset(&mut self) {
        self.state = State::Head;
        self.partial_head.clear();
        self.timing = None;
        self.forget_captured();
    }

    /// Keeps the server's account of its own time in the current response.
    pub fn look_for_timing(&mut self) {
        self.timing.get_or_insert_default();
    }

    /// Takes the server's account of its own time, if [`ResponseParser::look_for_timing`] was
    /// called.
    pub fn take_timing(&mut self) -> Option<ServerTiming> {
        self.timing.take()
    }

    /// The kept bytes of the last complete response.
    #[must_use]
    pub fn captured(&self) -> Option<&CapturedResponse> {
        self.captured.as_deref()
    }

    /// The status of the current response, or of one just completed, and the kept part of its body.
    pub fn captured_body(&mut self) -> Option<(u16, &mut Vec<u8>)> {
        let status = self.response.status;
        self.captured.as_mut().map(|captured| (status, &mut captured.body))
    }

    /// Takes the kept bytes of the last complete response.
    pub fn take_captured(&mut self) -> CapturedResponse {
        self.captured.as_deref_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Drops the kept bytes, so that the next response starts without any.
    pub fn forget_captured(&mut self) {
        if let Some(captured) = &mut self.captured {
            captured.head.clear();
            captured.body.clear();
        }
    }

    fn complete(&mut self, consumed: usize) -> ParseOutcome {
        self.state = State::Head;
        ParseOutcome::Complete { consumed, response: self.response }
    }

    /// Finds the end of the head in `input`, or keeps `input` until the rest arrives. Returns the
    /// head and the number of bytes of `input` that belong to it. The kept bytes exceed the limit
    /// by at most one `input`.
    fn take_head(&mut self, input: &[u8]) -> Result<Option<(Head, usize)>, ResponseError> {
        if self.partial_head.is_empty()
            && let Some(head) = scan_head(input)?
        {
            self.keep_head(&input[..head.length], &head);
            return Ok(Some((head, head.length)));
        }
        let kept = self.partial_head.len();
        self.partial_head.extend_from_slice(input);
        // A head ends with a line feed. Without one in the new bytes, the head cannot be complete,
        // and its status line was checked before.
        let may_end = kept > 0 && (kept <= head::STATUS_LINE_BYTES || input.contains(&b'\n'));
        let head = if may_end { scan_head(&self.partial_head)? } else { None };
        let Some(head) = head else {
            let is_too_long = self.partial_head.len() > MAX_HEAD_BYTES;
            return if is_too_long { Err(ResponseError::HeadTooLong) } else { Ok(None) };
        };
        let bytes = std::mem::take(&mut self.partial_head);
        self.keep_head(&bytes[..head.length], &head);
        self.partial_head = bytes;
        self.partial_head.clear();
        Ok(Some((head, head.length - kept)))
    }

    #[inline]
    fn keep_head(&mut self, bytes: &[u8], head: &Head) {
        if head.has_timing
            && let Some(timing) = &mut self.timing
        {
            head::copy_timing(bytes, timing);
        }
        if let Some(captured) = &mut self.captured {
            captured.head.clear();
            captured.body.clear();
            captured.head.extend_from_slice(bytes);
        }
    }

    /// Sets the state for the body behind a head. Returns true if the response has no body.
    fn enter_body(&mut self, head: &Head, bodiless: bool) -> bool {
        if (100..200).contains(&head.status) && head.status != 101 {
            // An interim response: the real one follows.
            return false;
        }
        self.response = Response { status: head.status, keep_alive: head.keep_alive };
        if bodiless || matches!(head.status, 101 | 204 | 304) {
            return true;
        }
        self.state = match (head.transfer_encoding, head.content_length) {
            (head::TransferEncoding::Chunked, _) => State::Chunked(ChunkDecoder::default()),
            (head::TransferEncoding::None, Some(0)) => return true,
            (head::TransferEncoding::None, Some(remaining)) => State::Body { remaining },
            (head::TransferEncoding::None, None) | (head::TransferEncoding::Other, _) => {
                self.response.keep_alive = false;
                State::UntilClose
            }
        };
        false
    }

    fn take_body(&mut self, input: &[u8], mut at: usize) -> Result<ParseOutcome, ResponseError> {
        match self.state {
            State::Head => unreachable!("the head was taken before the body"),
            State::Body { remaining } => {
                let here = usize::try_from(remaining).unwrap_or(usize::MAX).min(input.len() - at);
                self.keep_body(&input[at..at + here])?;
                if here as u64 == remaining {
                    return Ok(self.complete(at + here));
                }
                self.state = State::Body { remaining: remaining - here as u64 };
            }
            State::Chunked(mut chunked) => {
                while at < input.len() {
                    let step = chunked.step(&input[at..]);
                    let (taken, is_data) = step.map_err(|_| ResponseError::Chunk)?;
                    if is_data {
                        self.keep_body(&input[at..at + taken])?;
                    }
                    at += taken;
                    if chunked.is_complete() {
                        return Ok(self.complete(at));
                    }
                }
                self.state = State::Chunked(chunked);
            }
            State::UntilClose => self.keep_body(&input[at..])?,
        }
        Ok(ParseOutcome::More)
    }

    fn keep_body(&mut self, bytes: &[u8]) -> Result<(), ResponseError> {
        if let Some(captured) = &mut self.captured {
            if captured.body.len() + bytes.len() > MAX_CAPTURED_BODY_BYTES {
                return Err(ResponseError::BodyTooLong);
            }
            captured.body.extend_from_slice(bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
