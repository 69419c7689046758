//! Replies: the values that handlers of all APIs and threads return.
//!
//! The service writes them ([`Reply::write`]), so that no handler uses the transport's response.

use std::borrow::Cow;

use pellucid_account::{Phase, Timeline};
use pellucid_budget::Share;
use pellucid_clock::WallTime;
use pellucid_http::{
    BodySource, Coding, FillResult, READ_BYTES_MAX, Response, ServiceResult, write_decimal,
};
use pellucid_store::{Head, Object, StoreError, Value, WriteOutcome};
use serde_json::json;

use crate::log::Log;
use crate::timing::{add_server_timing, write_fraction};

/// The largest body that is copied into the output behind its headers. A larger one is streamed
/// from where it lies, so that the connection never holds a copy of it.
pub(crate) const INLINE_BODY_BYTES_MAX: usize = READ_BYTES_MAX;

pub(crate) const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// A complete reply.
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The media type of bytes; the transport sets that of [`Body::Line`], and empty bodies have
    /// none.
    pub(crate) content_type: Option<&'static str>,
    pub(crate) version: Option<Version>,
    pub(crate) headers: Vec<(&'static str, Cow<'static, str>)>,
    pub(crate) body: Body,
    /// The memory of the body, if it was taken from a budget.
    pub(crate) memory: Option<Share>,
    /// The settings of a reply to an ArangoDB driver.
    pub(crate) driver: Option<DriverSettings>,
    /// The error of the store that the reply is about, for the log.
    pub(crate) store_failure: Option<Box<StoreError>>,
}

/// The version of an entry, for `ETag` and `Last-Modified`.
#[derive(Clone, Copy)]
pub(crate) struct Version {
    pub(crate) sequence: u64,
    pub(crate) written_at_ms: Option<u64>,
    /// The coding of the representation that the client has, which becomes part of the `ETag`.
    pub(crate) coding: Option<Coding>,
}

/// Settings of the headers and the compression that ArangoDB's drivers expect.
#[derive(Clone, Copy)]
pub(crate) struct DriverSettings {
    /// The wait for a worker, used if accounting is off.
    pub(crate) queued_ns: u64,
    /// The size from which bodies are compressed, instead of the server's usual one.
    pub(crate) compressed_from_bytes: usize,
}

/// The body of a reply.
// A tag of one word lets the compiler copy the value as a whole; see `pellucid_store::Value`.
#[repr(u64)]
pub(crate) enum Body {
    /// No body, because the status (101, 304) does not allow one.
    None,
    /// A line of text, without its line break.
    Line(Cow<'static, str>),
    /// Bytes: owned by the reply, or read from where the store keeps them.
    Value(Value),
    /// The length of the body that a GET would have, in reply to a HEAD.
    Length(u64),
    /// Pieces from a source, with their total length if it is known.
    Stream(Box<dyn BodySource + Send>, Option<u64>),
}

/// The outcome of the conditions of a read, such as `If-None-Match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Proceed,
    /// The client has this version already, in this coding.
    NotModified(Option<Coding>),
    PreconditionFailed,
}

impl Reply {
    pub(crate) fn new(status: u16, content_type: Option<&'static str>, body: Body) -> Reply {
        let (version, headers, memory, driver) = (None, Vec::new(), None, None);
        let store_failure = None;
        Reply { status, content_type, version, headers, body, memory, driver, store_failure }
    }

    /// A reply with an empty body.
    pub(crate) fn empty(status: u16) -> Reply {
        Reply::new(status, None, Body::Value(Value::Owned(Vec::new())))
    }

    /// The reply to a GET of an entry.
    pub(crate) fn to_get(object: Option<Object>, verdict: Verdict) -> Reply {
        let mut reply = Reply::to_read(object.as_ref().map(|object| &object.head), verdict);
        if let (200, Some(object)) = (reply.status, object) {
            reply.body = Body::Value(object.value);
        }
        reply
    }

    /// The reply to a HEAD of an entry.
    pub(crate) fn to_head(head: Option<Head>, verdict: Verdict) -> Reply {
        let mut reply = Reply::to_read(head.as_ref(), verdict);
        if let (200, Some(head)) = (reply.status, head) {
            reply.body = Body::Length(head.value_length);
        }
        reply
    }

    /// The reply to a read of an entry, without the body.
    fn to_read(head: Option<&Head>, verdict: Verdict) -> Reply {
        let (status, content_type) = match (verdict, head) {
            (Verdict::PreconditionFailed, _) => (412, None),
            (Verdict::NotModified(_), _) => (304, None),
            (Verdict::Proceed, None) => (404, None),
            (Verdict::Proceed, Some(_)) => (200, Some(BYTES)),
        };
        let version = head.map(Version::of);
        let mut reply = Reply { content_type, version, ..Reply::empty(status) };
        if let Verdict::NotModified(coding) = verdict {
            reply.body = Body::None;
            if let Some(version) = &mut reply.version {
                version.coding = coding;
            }
        }
        reply
    }

    /// A reply with a line of text.
    pub(crate) fn line(status: u16, line: impl Into<Cow<'static, str>>) -> Reply {
        Reply::new(status, None, Body::Line(line.into()))
    }

    /// A reply with bytes of a media type.
    pub(crate) fn bytes(status: u16, content_type: &'static str, body: Vec<u8>) -> Reply {
        Reply::new(status, Some(content_type), Body::Value(Value::Owned(body)))
    }

    /// A reply with JSON that is encoded already.
    pub(crate) fn json(status: u16, body: Vec<u8>) -> Reply {
        Reply::bytes(status, JSON, body)
    }

    /// A reply with a JSON value.
    pub(crate) fn value(status: u16, value: &serde_json::Value) -> Reply {
        Reply::json(status, value.to_string().into_bytes())
    }

    /// A reply whose body `source` gives piece by piece; its length is unknown.
    pub(crate) fn streamed(
        content_type: &'static str,
        source: impl BodySource + Send + 'static,
    ) -> Reply {
        Reply::new(200, Some(content_type), Body::Stream(Box::new(source), None))
    }

    /// The status 503 with a line, and the advice to retry after a second.
    pub(crate) fn busy(line: impl Into<Cow<'static, str>>) -> Reply {
        Reply::line(503, line).with_header("Retry-After", "1")
    }

    pub(crate) fn with_header(
        mut self,
        name: &'static str,
        value: impl Into<Cow<'static, str>>,
    ) -> Reply {
        self.headers.push((name, value.into()));
        self
    }

    /// Writes the reply to `response`, with the header `Server-Timing` if the client asked for it.
    /// A body that was copied stays in the reply, so that the caller can reuse its memory.
    ///
    /// # Errors
    /// If the body could not be read: nothing is written then, and the failure is to be answered.
    pub(crate) fn write(
        &mut self,
        response: &mut Response<'_>,
        timeline: &Timeline,
    ) -> Result<ServiceResult, Failure> {
        response.status(self.status);
        if let Some(Version { sequence, written_at_ms, coding }) = self.version {
            response.header_with("ETag", |out| {
                out.push(b'"');
                write_decimal(out, sequence);
                if let Some(coding) = coding {
                    out.push(b'+');
                    out.extend_from_slice(coding.name().as_bytes());
                }
                out.push(b'"');
            });
            if let Some(at_ms) = written_at_ms {
                let modified = WallTime::from_unix_ms(at_ms).http_date();
                response.header("Last-Modified", modified.as_bytes());
            }
        }
        if let Some(content_type) = self.content_type {
            response.header("Content-Type", content_type.as_bytes());
        }
        if let Some(driver) = self.driver {
            driver.write(response, timeline);
        }
        for (name, value) in &self.headers {
            response.header(name, value.as_bytes());
        }
        add_server_timing(response, timeline);
        match &mut self.body {
            Body::None => response.finish_without_body(),
            Body::Line(line) => response.finish_text(line),
            Body::Length(length_bytes) => response.finish_length(*length_bytes),
            Body::Value(value) if value.len() > INLINE_BODY_BYTES_MAX => {
                response.finish_streamed(Some(value.len() as u64));
                let value = std::mem::replace(value, Value::Owned(Vec::new()));
                let memory = self.memory.take();
                return Ok(ServiceResult::Stream(Box::new(ValueBodySource {
                    value,
                    sent: 0,
                    memory,
                })));
            }
            Body::Value(value) => {
                let written = value.read(|bytes| response.finish(bytes));
                written.inspect_err(|_| response.take_back())?;
            }
            Body::Stream(..) => {
                let body = std::mem::replace(&mut self.body, Body::None);
                if let Body::Stream(source, length_bytes) = body {
                    response.finish_streamed(length_bytes);
                    return Ok(ServiceResult::Stream(source));
                }
            }
        }
        Ok(if self.status == 101 { ServiceResult::Upgrade } else { ServiceResult::Done })
    }
}

impl Version {
    pub(crate) fn of(head: &Head) -> Version {
        let (sequence, written_at_ms) = (head.sequence, Some(head.written_at_ms));
        Version { sequence, written_at_ms, coding: None }
    }
}

impl DriverSettings {
    fn write(self, response: &mut Response<'_>, timeline: &Timeline) {
        // Drivers accept codings although their users never asked for compression.
        response.compress_from(self.compressed_from_bytes);
        // The timeline's phase also covers the wait behind other requests of the connection.
        let queued_ns = match timeline.is_on() {
            true => timeline.clock().nanoseconds(timeline.phase_ticks(Phase::Queue)),
            false => self.queued_ns,
        };
        response.header_with("X-Arango-Queue-Time-Seconds", |out| {
            write_fraction(out, (queued_ns + 500) / 1_000, 6);
        });
    }
}

/// A kind of write; it decides the form of the reply.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteReply {
    Put,
    Delete,
    Batch { entries: usize },
}

impl WriteReply {
    /// The reply to a write that succeeded.
    pub(crate) fn of(self, WriteOutcome { sequence }: WriteOutcome) -> Reply {
        match self {
            WriteReply::Put => {
                let version = Some(Version { sequence, written_at_ms: None, coding: None });
                Reply { version, ..Reply::empty(201) }
            }
            WriteReply::Delete => Reply::empty(202),
            WriteReply::Batch { entries } => {
                Reply::value(200, &json!({ "entries": entries, "last_sequence": sequence }))
            }
        }
    }
}

/// A large body that is being streamed.
struct ValueBodySource {
    value: Value,
    sent: usize,
    memory: Option<Share>,
}

impl BodySource for ValueBodySource {
    fn held_bytes(&self) -> usize {
        // Memory that was taken from a budget is counted there already.
        if self.memory.is_some() { 0 } else { self.value.held_bytes() }
    }

    fn fill(&mut self, out: &mut Vec<u8>) -> FillResult {
        let (begin, end) = (self.sent, (self.sent + READ_BYTES_MAX).min(self.value.len()));
        let out_begin = out.len();
        self.sent = end;
        match self.value.read(|bytes| out.extend_from_slice(&bytes[begin..end])) {
            Ok(()) if end == self.value.len() => FillResult::Last,
            Ok(()) => FillResult::More,
            // With its last piece, the client would take the body for complete.
            Err(_) => {
                out.truncate(out_begin);
                FillResult::Broken
            }
        }
    }
}

/// A failed request.
pub(crate) enum Failure {
    /// The request is refused with this status, for the reason in the line.
    Refused(u16, Cow<'static, str>),
    /// Too much work is in progress; the client may retry after a second.
    Busy(Cow<'static, str>),
    Store(StoreError),
}

impl Failure {
    /// The reply to the client. Failures of the server (status 500 and above) are logged.
    pub(crate) fn into_reply(self, log: &Log) -> Reply {
        let error = match self {
            Failure::Refused(415, line) => {
                return Reply::line(415, line).with_header("Accept-Encoding", "identity");
            }
            Failure::Refused(status, line) => return Reply::line(status, line),
            Failure::Busy(line) => return Reply::busy(line),
            Failure::Store(StoreError::Busy(line)) => return Reply::busy(line),
            Failure::Store(error) => error,
        };
        let status = status_of(&error);
        if status >= 500 {
            log.failed_request("a request failed", &error);
        }
        Reply::line(status, error.to_string())
    }
}

impl From<String> for Failure {
    fn from(line: String) -> Failure {
        Failure::Refused(400, line.into())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::Store(error)
    }
}

/// The HTTP status for an error of the store.
pub(crate) fn status_of(error: &StoreError) -> u16 {
    match error {
        StoreError::Unacceptable(_) => 400,
        StoreError::ChangesLost { .. } => 410,
        StoreError::ConditionFailed { .. } => 412,
        StoreError::Full(_) => 507,
        StoreError::ReadOnly(_) | StoreError::Busy(_) => 503,
        StoreError::Unreachable(_) => 504,
        StoreError::Corruption(_) | StoreError::NotInMemory | StoreError::Failed(_) => 500,
    }
}
