//! Single requests, each on a connection of its own, with the complete answer.

use std::time::Duration;

use super::http_connection::{BodyCallback, ConnectionError, HttpConnection};
use super::response::CapturedResponse;
use super::target::Target;
use super::tls::TlsOptions;

/// The time limit of connecting and writing, and the default one of the answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct HttpRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// The path and the query.
    pub path: &'a str,
    /// Further header lines, each with its line end.
    pub headers: &'a str,
    /// The body.
    pub body: &'a [u8],
    /// The longest time that the server may be silent, before and during its answer.
    pub patience: Duration,
    /// The longest time of the whole answer; any if `None`.
    pub limit: Option<Duration>,
}

impl<'a> HttpRequest<'a> {
    /// A GET request, whose answer may pause for ten seconds.
    #[must_use]
    pub fn get(path: &'a str) -> HttpRequest<'a> {
        HttpRequest { method: "GET", path, headers: "", body: b"", patience: TIMEOUT, limit: None }
    }

    /// Sends the request. Returns the status, and the head and body of the answer.
    ///
    /// # Errors
    /// The reason why there is no answer, with the request and the server.
    pub fn ask(
        &self,
        target: &Target,
        tls: &TlsOptions,
    ) -> Result<(u16, CapturedResponse), String> {
        self.ask_in_pieces(target, tls, &mut |_, _| Ok(()))
    }

    /// Like [`HttpRequest::ask`], for an answer of any length. Calls `take` with the status and the
    /// body's bytes so far; bytes that it does not remove are in the returned body.
    ///
    /// # Errors
    /// Those of [`HttpRequest::ask`], and those of `take`.
    pub fn ask_in_pieces(
        &self,
        target: &Target,
        tls: &TlsOptions,
        take: &mut BodyCallback<'_>,
    ) -> Result<(u16, CapturedResponse), String> {
        self.try_ask(target, tls, take).map_err(|error| {
            format!("{} {} of {}: {error}", self.method, self.path, target.address())
        })
    }

    /// Like [`HttpRequest::ask_in_pieces`], for a caller that tells errors apart.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub fn try_ask(
        &self,
        target: &Target,
        tls: &TlsOptions,
        take: &mut BodyCallback<'_>,
    ) -> Result<(u16, CapturedResponse), ConnectionError> {
        let opened = HttpConnection::open(target, tls, TIMEOUT, self.patience);
        let mut conversation = opened.map_err(ConnectionError::Open)?;
        conversation.end_after(self.limit);
        let HttpRequest { method, path, headers, body, .. } = self;
        let host = target.host_header();
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}");
        if !body.is_empty() {
            request += &format!("Content-Length: {}\r\n", body.len());
        }
        let sent = conversation.send(&[request.as_bytes(), b"\r\n", body].concat());
        match (conversation.answer_to(method, take), sent) {
            (Ok((response, captured)), _) => Ok((response.status, captured)),
            (Err(ConnectionError::Io(_)), Err(error)) => Err(ConnectionError::Io(error)),
            (Err(broken), _) => Err(broken),
        }
    }
}
