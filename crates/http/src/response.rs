//! Writes a response: in HTTP/1.1 straight into the connection's output, in HTTP/2 into header
//! fields and a body, which the protocol then frames.

use http::{HeaderMap, HeaderName, HeaderValue};
use pellucid_clock::WallTime;

use crate::body_source::{BodySource, ServiceResult};
use crate::compression::{Coding, Compressor, StreamPermit, WholeBody};
use crate::h1::encode::{end_headers, write_decimal, write_header, write_status_line};
use crate::limits::READ_BYTES_MAX;
use crate::refusal::Refusal;

/// A response being written. The order of calls is: the status, headers, and one of the finishing
/// calls.
///
/// In HTTP/1.1 nothing is allocated and nothing is copied twice: the bytes go to the buffer from
/// which the kernel will read them.
pub struct Response<'a> {
    target: ResponseBuffers<'a>,
    /// The length of the target's `out` before this response.
    begin: usize,
    date_line: &'a DateLine,
    manner: ResponseOptions,
    status: u16,
    state: State,
    streamed: StreamFraming,
    /// The compressor for the body; none if the body must not be compressed.
    compressor: Option<&'a mut Compressor>,
    /// The position in the target's `out` of the value of the header `ETag`.
    etag_at: Option<usize>,
    /// The compression of the streamed body, if it is compressed.
    compressed: Option<CodedStream>,
    /// Ticks that compressing the whole body took.
    compress_ticks: u64,
    /// A header to write before all others; see [`Response::precede`].
    first: Option<(&'static str, String)>,
}

/// A body that is to be compressed piece by piece.
struct CodedStream {
    coding: Coding,
    permit: StreamPermit,
    /// The body, if it is complete; none if the service's source will bring it.
    body: Option<Box<dyn BodySource>>,
}

/// The buffers that a response is written to. In HTTP/1.1 `out` takes head and body as text
/// (RFC 9112); in HTTP/2 it takes only the body, and `fields` the headers (RFC 9113).
pub(crate) struct ResponseBuffers<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) fields: Option<&'a mut HeaderMap>,
}

impl ResponseBuffers<'_> {
    pub(crate) fn reborrow(&mut self) -> ResponseBuffers<'_> {
        ResponseBuffers { out: self.out, fields: self.fields.as_deref_mut() }
    }

    /// Takes back all that was written from `begin` on.
    pub(crate) fn reset(&mut self, begin: usize) {
        self.out.truncate(begin);
        if let Some(fields) = &mut self.fields {
            fields.clear();
        }
    }
}

/// The form of a response, as its request asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseOptions {
    pub(crate) keep_alive: bool,
    /// The request is a HEAD: no body is sent.
    pub(crate) is_head: bool,
    /// The client speaks HTTP/1.0: it knows no chunks, and must be told that we keep the
    /// connection.
    pub(crate) is_old: bool,
    /// The coding that the client prefers for the body.
    pub(crate) coding: Option<Coding>,
    /// The body length in bytes from which on bodies are compressed; zero for never.
    pub(crate) compressed_from_bytes: usize,
}

impl ResponseOptions {
    /// The form for a request without special wishes.
    pub(crate) const PLAIN: ResponseOptions = ResponseOptions {
        keep_alive: true,
        is_head: false,
        is_old: false,
        coding: None,
        compressed_from_bytes: 0,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unbegun,
    Headers,
    Finished,
}

/// The framing of a streamed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamFraming {
    /// No body is streamed.
    No,
    /// The length was announced, or HTTP/2 frames the body.
    Sized,
    /// The body is sent in chunks.
    Chunked,
    /// The end of the connection ends the body.
    ToTheEnd,
}

/// The `Date` header, made once a second.
#[derive(Clone, Debug)]
pub(crate) struct DateLine {
    line: [u8; 37],
    value: HeaderValue,
}

impl DateLine {
    pub(crate) fn at(wall: WallTime) -> DateLine {
        let mut line = *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
        line[6..35].copy_from_slice(wall.http_date().as_bytes());
        let value = HeaderValue::from_bytes(&line[6..35]).expect("a date is visible ASCII");
        DateLine { line, value }
    }
}

impl<'a> Response<'a> {
    pub(crate) fn new(
        target: ResponseBuffers<'a>,
        date_line: &'a DateLine,
        manner: ResponseOptions,
    ) -> Response<'a> {
        let (status, state, streamed) = (0, State::Unbegun, StreamFraming::No);
        Response {
            begin: target.out.len(),
            target,
            date_line,
            manner,
            status,
            state,
            streamed,
            compressor: None,
            etag_at: None,
            compressed: None,
            compress_ticks: 0,
            first: None,
        }
    }

    /// Allows the body to be compressed by `compressor` if the client asks for it.
    pub(crate) fn code_by(&mut self, compressor: &'a mut Compressor) {
        self.compressor = Some(compressor);
    }

    /// Overrides the server's limit for compression: bodies of at least `bytes` are compressed;
    /// zero means never. Call it before the response is finished.
    pub fn compress_from(&mut self, bytes: usize) -> &mut Self {
        self.manner.compressed_from_bytes = bytes;
        self
    }

    /// Begins the response.
    ///
    /// # Panics
    /// If it has begun before.
    pub fn status(&mut self, status: u16) -> &mut Self {
        assert_eq!(self.state, State::Unbegun, "a response has one status");
        (self.status, self.state) = (status, State::Headers);
        match &mut self.target.fields {
            None => {
                write_status_line(self.target.out, status);
                self.target.out.extend_from_slice(&self.date_line.line);
            }
            Some(fields) => {
                fields.insert(http::header::DATE, self.date_line.value.clone());
            }
        }
        if let Some((name, value)) = self.first.take() {
            self.header(name, value.as_bytes());
            self.first = Some((name, value));
        }
        self
    }

    /// Takes back all that was written, so that another response can be written instead. Only
    /// before the body is streamed or another request is served.
    pub fn take_back(&mut self) {
        self.target.reset(self.begin);
        (self.status, self.state, self.streamed) = (0, State::Unbegun, StreamFraming::No);
        (self.etag_at, self.compressed, self.compress_ticks) = (None, None, 0);
    }

    /// Sets a header that is written before all others. Call it before [`Response::status`].
    pub fn precede(&mut self, name: &'static str, value: String) {
        assert_eq!(self.state, State::Unbegun, "the first header comes before any");
        self.first = Some((name, value));
    }

    /// Adds a header. The value comes from the server, so it holds no line ends; debug builds check
    /// that.
    pub fn header(&mut self, name: &str, value: &[u8]) -> &mut Self {
        debug_assert!(
            !value.iter().any(|byte| matches!(byte, b'\r' | b'\n')),
            "{name} is one line"
        );
        self.check_place();
        self.note_place(name);
        match &mut self.target.fields {
            None => write_header(self.target.out, name, |out| out.extend_from_slice(value)),
            Some(fields) => add_field(fields, name, value),
        }
        self
    }

    /// Adds a header whose value `write` appends to the buffer that it is given.
    pub fn header_with(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        self.check_place();
        self.note_place(name);
        match &mut self.target.fields {
            None => write_header(self.target.out, name, write),
            Some(fields) => {
                let begin = self.target.out.len();
                write(self.target.out);
                add_field(fields, name, &self.target.out[begin..]);
                self.target.out.truncate(begin);
            }
        }
        self
    }

    fn check_place(&self) {
        assert_eq!(self.state, State::Headers, "headers stand between status and body");
    }

    fn note_place(&mut self, name: &str) {
        if name == "ETag" {
            self.etag_at = Some(self.target.out.len() + "ETag: ".len());
        }
    }

    /// Finishes with this body. A HEAD request gets only its length.
    pub fn finish(&mut self, body: &[u8]) {
        let length_bytes = body.len() as u64;
        if self.manner.is_head {
            return self.finish_length(length_bytes);
        }
        if self.is_long(length_bytes) && self.finish_coded(body) {
            return;
        }
        self.end_with_length(length_bytes);
        self.target.out.extend_from_slice(body);
    }

    /// Finishes the answer to a HEAD request; a GET would have a body of this length.
    pub fn finish_length(&mut self, length_bytes: u64) {
        if self.is_long(length_bytes) && self.begin_coded().is_some() {
            // The length of the compressed body is unknown, so that none is announced.
            self.end_headers();
        } else {
            self.end_with_length(length_bytes);
        }
    }

    fn end_with_length(&mut self, length_bytes: u64) {
        self.header_with("Content-Length", |out| write_decimal(out, length_bytes));
        self.end_headers();
    }

    /// True if a body of this length is compressed for some clients. Then adds `Vary`, for caches.
    fn is_long(&mut self, length_bytes: u64) -> bool {
        let from = self.manner.compressed_from_bytes as u64;
        let is_long = from > 0 && length_bytes >= from && self.compressor.is_some();
        if is_long {
            self.header("Vary", b"Accept-Encoding");
        }
        is_long
    }

    /// Adds `Content-Encoding` if the client accepts a coding, and returns that coding. The coded
    /// body is another representation, with a tag of its own (RFC 9110, section 8.8.1): `+` and the
    /// coding are inserted before the tag's last quote. [`crate::plain_tag`] takes them off.
    fn begin_coded(&mut self) -> Option<Coding> {
        let coding = self.manner.coding?;
        self.header("Content-Encoding", coding.name().as_bytes());
        match &mut self.target.fields {
            None => {
                let line = self.etag_at.map(|at| &self.target.out[at..]);
                let end = line.and_then(|line| line.windows(3).position(|end| end == b"\"\r\n"));
                if let (Some(at), Some(end)) = (self.etag_at, end) {
                    let coding = coding.name().bytes();
                    self.target.out.splice(at + end..at + end, [b'+'].into_iter().chain(coding));
                }
            }
            Some(fields) => {
                let plain = fields.get(http::header::ETAG).map(HeaderValue::as_bytes);
                let tag = plain.and_then(|tag| tag.strip_suffix(b"\""));
                let coded = tag.map(|tag| [tag, b"+", coding.name().as_bytes(), b"\""].concat());
                if let Some(Ok(coded)) = coded.map(|tag| HeaderValue::from_bytes(&tag)) {
                    fields.insert(http::header::ETAG, coded);
                }
            }
        }
        Some(coding)
    }

    /// Finishes with this body, compressed. False, with nothing written, if it is not compressed.
    fn finish_coded(&mut self, body: &[u8]) -> bool {
        if body.len() > READ_BYTES_MAX {
            return self.begin_coded_stream(|| Some(WholeBody::of(body)));
        }
        let Some(coding) = self.begin_coded() else { return false };
        let Some(compressor) = self.compressor.take() else { return false };
        let (body, ticks) = compressor.whole(coding, body);
        self.compress_ticks = ticks;
        self.end_with_length(body.len() as u64);
        self.target.out.extend_from_slice(body);
        true
    }

    /// Begins a body that is compressed piece by piece. False, with nothing written, if it is not
    /// compressed.
    fn begin_coded_stream(&mut self, body: impl FnOnce() -> Option<Box<dyn BodySource>>) -> bool {
        if self.manner.coding.is_none() {
            return false;
        }
        let permit = self.compressor.as_ref().and_then(|compressor| compressor.permit());
        let Some(permit) = permit else { return false };
        let Some(coding) = self.begin_coded() else { return false };
        self.compressed = Some(CodedStream { coding, permit, body: body() });
        self.end_with_stream(None);
        true
    }

    /// Ends the response after the service's call, and puts the compression around its source.
    pub(crate) fn conclude(&mut self, handled: ServiceResult) -> (ServiceResult, Option<Outcome>) {
        let outcome = self.outcome();
        let Some(CodedStream { coding, permit, body }) = self.compressed.take() else {
            return (handled, outcome);
        };
        let source = match handled {
            ServiceResult::Stream(source) => Some(source),
            ServiceResult::Done => body,
            ServiceResult::Later | ServiceResult::Upgrade => None,
        };
        let handled = source.map_or(ServiceResult::Done, |source| {
            ServiceResult::Stream(permit.compress(coding, source))
        });
        (handled, outcome)
    }

    /// Finishes a response that has no body by definition (204, 304).
    pub fn finish_without_body(&mut self) {
        self.end_headers();
    }

    /// Finishes with one line of plain text; a line end is added.
    pub fn finish_text(&mut self, line: &str) {
        self.header("Content-Type", b"text/plain; charset=utf-8");
        self.end_with_length(line.len() as u64 + 1);
        if !self.manner.is_head {
            self.target.out.extend_from_slice(line.as_bytes());
            self.target.out.push(b'\n');
        }
    }

    /// Writes the complete answer to a request that the transport refuses.
    pub(crate) fn refuse(&mut self, refusal: &Refusal) {
        self.status(refusal.status());
        if let Some(seconds) = refusal.retry_after_seconds() {
            self.header_with("Retry-After", |out| write_decimal(out, seconds));
        }
        if let Refusal::ByHead { allow: Some(methods), .. } = refusal {
            self.header("Allow", methods.as_bytes());
        }
        if refusal.status() == 415 {
            self.header("Accept-Encoding", b"identity");
        }
        if let Refusal::Unauthorized(denial) = refusal {
            for challenge in denial.challenges {
                self.header("WWW-Authenticate", challenge);
            }
            if let Some((content_type, body)) = denial.body {
                self.header("Content-Type", content_type.as_bytes());
                return self.finish(body.as_bytes());
            }
        }
        self.finish_text(&refusal.to_string());
    }

    /// Ends the headers of a response whose body a [`crate::BodySource`] brings. `length_bytes` is
    /// none if its length is not known yet.
    pub fn finish_streamed(&mut self, length_bytes: Option<u64>) {
        if let Some(length) = length_bytes {
            if self.manner.is_head {
                return self.finish_length(length);
            }
            if self.is_long(length) && self.begin_coded_stream(|| None) {
                return;
            }
        }
        self.end_with_stream(length_bytes);
    }

    fn end_with_stream(&mut self, length_bytes: Option<u64>) {
        self.streamed = match length_bytes {
            Some(length_bytes) => {
                self.header_with("Content-Length", |out| write_decimal(out, length_bytes));
                StreamFraming::Sized
            }
            None if self.target.fields.is_some() => StreamFraming::Sized,
            None if self.manner.is_old => {
                self.manner.keep_alive = false;
                StreamFraming::ToTheEnd
            }
            None => {
                self.header("Transfer-Encoding", b"chunked");
                StreamFraming::Chunked
            }
        };
        self.end_headers();
        if self.manner.is_head {
            self.streamed = StreamFraming::No;
        }
    }

    fn end_headers(&mut self) {
        assert_eq!(self.state, State::Headers, "a response is finished once");
        if self.status == 304 {
            // The 200 in place of it may vary, and the length of its body is not known here.
            self.is_long(u64::MAX);
        }
        self.state = State::Finished;
        if self.target.fields.is_none() {
            end_headers(self.target.out, self.manner.keep_alive, self.manner.is_old);
        }
    }

    /// The facts of the response, once it is finished.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        (self.state == State::Finished).then_some(Outcome {
            status: self.status,
            keep_alive: self.manner.keep_alive,
            streamed: self.streamed,
            compress_ticks: self.compress_ticks,
        })
    }
}

fn add_field(fields: &mut HeaderMap, name: &str, value: &[u8]) {
    let name = HeaderName::from_bytes(name.as_bytes()).expect("names of headers come from us");
    // A byte that is not allowed in a header would make the response unreadable, so the header is
    // left out.
    if let Ok(value) = HeaderValue::from_bytes(value) {
        fields.append(name, value);
    }
}

/// The facts of a finished response that its connection needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) status: u16,
    pub(crate) keep_alive: bool,
    pub(crate) streamed: StreamFraming,
    /// Ticks that compressing the body took; zero if it is not compressed, or is streamed.
    pub(crate) compress_ticks: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(manner: ResponseOptions, write: impl FnOnce(&mut Response<'_>)) -> String {
        let (mut out, date) = (Vec::new(), DateLine::at(WallTime::from_unix_ms(0)));
        let target = ResponseBuffers { out: &mut out, fields: None };
        let mut response = Response::new(target, &date, manner);
        write(&mut response);
        assert!(response.outcome().is_some());
        String::from_utf8(out).unwrap()
    }

    const PLAIN: ResponseOptions = ResponseOptions::PLAIN;

    #[test]
    fn a_head_response_equals_get_without_the_body() {
        let get = written(PLAIN, |r| r.status(200).header("ETag", b"\"7\"").finish(b"abc"));
        let head = "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nETag: \"7\"\r\n\
                    Content-Length: 3\r\n\r\n";
        assert_eq!(get, format!("{head}abc"));
        let manner = ResponseOptions { is_head: true, ..PLAIN };
        assert_eq!(
            written(manner, |r| r.status(200).header("ETag", b"\"7\"").finish(b"abc")),
            head
        );
    }

    #[test]
    fn the_connection_header_tells_whether_the_connection_stays_open() {
        let closing = ResponseOptions { keep_alive: false, ..PLAIN };
        assert!(written(closing, |r| r.status(200).finish(b"")).contains("Connection: close\r\n"));
        let old = ResponseOptions { is_old: true, ..PLAIN };
        let kept = written(old, |r| r.status(200).finish(b""));
        assert!(kept.contains("Connection: keep-alive\r\n"));
        let streamed = written(old, |r| r.status(200).finish_streamed(None));
        assert!(streamed.contains("Connection: close\r\n") && !streamed.contains("chunked"));
    }
}
