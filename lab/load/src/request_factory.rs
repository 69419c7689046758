//! The maker of a thread's requests, which also has their answers checked.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use pellucid_client::http::CapturedResponse;

use crate::error::LoadError;
use crate::http2::request::parse;
use crate::script::ThreadScript;
use crate::source::{Acceptance, RequestSource};
use crate::trace_sampler::traceparent;

/// The headers of a watched request.
const WATCHED: [&str; 2] = ["traceparent", "prefer"];

/// The origin of a thread's requests.
#[allow(clippy::large_enum_variant, reason = "there is one for each thread")]
pub(crate) enum RequestOrigin {
    /// The same bytes for every request.
    Fixed { bytes: Vec<u8>, bodiless: bool },
    /// The same HTTP/2 request every time.
    FixedStream { request: Request<()>, body: Bytes },
    /// A source in Rust.
    Source(Box<dyn RequestSource>),
    /// The `request` function of the script.
    Script,
}

/// An HTTP/2 request that is ready to be sent.
pub(crate) struct StreamRequest {
    pub(crate) request: Request<()>,
    pub(crate) body: Bytes,
    pub(crate) operation: u16,
    /// The HTTP/1.1 bytes that it was made from, to make it again; `None` if all requests are the
    /// same.
    pub(crate) kept: Option<Bytes>,
}

impl StreamRequest {
    /// Adds the headers of a watched request, unless it has such headers of its own.
    pub(crate) fn add_trace(&mut self, trace_id: u128) {
        let headers: &mut HeaderMap = self.request.headers_mut();
        if WATCHED.iter().any(|name| headers.contains_key(*name)) {
            return;
        }
        let trace = HeaderValue::try_from(traceparent(trace_id));
        headers.insert("prefer", HeaderValue::from_static("timing"));
        headers.extend(trace.map(|trace| (HeaderName::from_static("traceparent"), trace)));
    }
}

/// The maker of a thread's requests.
pub(crate) struct RequestFactory {
    requests: RequestOrigin,
    script: Option<ThreadScript>,
    /// The number of requests that a script returns at once.
    pub(crate) requests_per_send: usize,
    /// True if the source needs the whole answers for its checks.
    pub(crate) wants_answers: bool,
    is_tls: bool,
    /// A buffer for an HTTP/1.1 request before it becomes an HTTP/2 request.
    bytes: Vec<u8>,
}

impl RequestFactory {
    /// A maker whose source, if there is one, `wants_answers` whole.
    pub(crate) fn new(
        requests: RequestOrigin,
        script: Option<ThreadScript>,
        wants_answers: bool,
        is_tls: bool,
    ) -> RequestFactory {
        let requests_per_send = script.as_ref().map_or(1, ThreadScript::requests_per_send);
        let bytes = Vec::new();
        RequestFactory { requests, script, requests_per_send, wants_answers, is_tls, bytes }
    }

    /// The bytes of every request, if they are always the same, and true if that is a HEAD request.
    #[inline]
    pub(crate) fn fixed(&self) -> Option<(&[u8], bool)> {
        match &self.requests {
            RequestOrigin::Fixed { bytes, bodiless } => Some((bytes, *bodiless)),
            _ => None,
        }
    }

    /// Appends the next HTTP/1.1 request, or the batch that a script returns at once, to `out`.
    /// Returns its operation.
    pub(crate) fn append(&mut self, out: &mut Vec<u8>) -> Result<u16, LoadError> {
        match &mut self.requests {
            RequestOrigin::Fixed { bytes, .. } => out.extend_from_slice(bytes),
            RequestOrigin::FixedStream { .. } => unreachable!("a stream is of HTTP/2"),
            RequestOrigin::Source(source) => {
                source.next(out);
                return Ok(source.operation() as u16);
            }
            RequestOrigin::Script => {
                if let Some(script) = &mut self.script {
                    script.request(out)?;
                }
            }
        }
        Ok(0)
    }

    /// Makes the next HTTP/2 request.
    pub(crate) fn stream(&mut self) -> Result<StreamRequest, LoadError> {
        if matches!(self.requests, RequestOrigin::FixedStream { .. }) {
            return self.again(None);
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let operation = self.append(&mut bytes)?;
        let kept = Bytes::copy_from_slice(&bytes);
        self.bytes = bytes;
        Ok(StreamRequest { operation, ..self.again(Some(kept))? })
    }

    /// Makes an HTTP/2 request again from the bytes that were `kept`; without them, the one that
    /// all requests are.
    pub(crate) fn again(&self, kept: Option<Bytes>) -> Result<StreamRequest, LoadError> {
        if let Some(bytes) = kept {
            let (request, body_at) = parse(&bytes, self.is_tls)?;
            let body = bytes.slice(body_at..);
            return Ok(StreamRequest { request, body, operation: 0, kept: Some(bytes) });
        }
        let RequestOrigin::FixedStream { request, body } = &self.requests else {
            unreachable!("a request that was made is kept")
        };
        let (request, body) = (request.clone(), body.clone());
        Ok(StreamRequest { request, body, operation: 0, kept: None })
    }

    /// Has the source judge an answer.
    #[inline]
    pub(crate) fn judge(
        &mut self,
        operation: u16,
        status: u16,
        kept: Option<&CapturedResponse>,
    ) -> Acceptance {
        match &mut self.requests {
            RequestOrigin::Source(source) => source.check(usize::from(operation), status, kept),
            _ => Acceptance::ByStatus,
        }
    }

    /// Passes an answer that was `kept` to the script. Returns true if there was a script and an
    /// answer.
    #[inline]
    pub(crate) fn respond(
        &mut self,
        status: u16,
        kept: Option<&CapturedResponse>,
    ) -> Result<bool, LoadError> {
        match (&mut self.script, kept) {
            (Some(script), Some(captured)) => script.response(status, captured).map(|()| true),
            _ => Ok(false),
        }
    }

    /// The script, if it asks for delays.
    pub(crate) fn delays(&mut self) -> Option<&mut ThreadScript> {
        self.script.as_mut().filter(|script| script.has_delay())
    }

    /// True if the script has ended its thread.
    pub(crate) fn has_ended(&self) -> bool {
        self.script.as_ref().is_some_and(ThreadScript::has_ended)
    }

    /// Returns the script at the end of the run.
    pub(crate) fn into_script(self) -> Option<ThreadScript> {
        self.script
    }
}
