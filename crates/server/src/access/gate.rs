//! The gate of the APIs: who asks, and what he is told who has not got the right.

use std::sync::atomic::{AtomicUsize, Ordering};

use pellucid_clock::WallTime;
use pellucid_http::{Handled, Head, Header, Request, Response};

use crate::access::accounts::Verdict;
use crate::access::attempts::TooMany;
use crate::access::identity::Identity;
use crate::names::Operation;
use crate::routes::{Need, Target};
use crate::service::{Api, Later, Loop, begin_answer, route};

/// Bytes of requests that wait for their password to be verified. They are copies, so that the
/// event loop can go on with its buffer.
const HELD_BYTES_MAX: usize = 64 << 20;

/// How somebody may say who he is (RFC 7617, RFC 6750).
pub(crate) const CHALLENGES: [&[u8]; 2] =
    [b"Basic realm=\"pellucid\", charset=\"UTF-8\"", b"Bearer realm=\"pellucid\""];

/// What the document API's clients are told without good credentials.
pub(crate) const DENIED: &str = "{\"error\":true,\"code\":401,\"errorNum\":11,\
    \"errorMessage\":\"not authorized to execute this request\"}";

/// Bytes of requests that wait for their password, over all event loops.
static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Whether anybody may ask this, with or without an account.
pub(crate) fn is_open_to_all(head: &Head<'_, '_>) -> bool {
    Target::of(head.method, head.path, head.query).route.need.is_open()
}

/// What is to be done with a request.
pub(crate) enum Judged {
    /// It may go on, as this identity's.
    Admitted(Identity),
    /// It was answered, or is away to have its password verified.
    Handled(Handled),
}

/// A request that left its buffer to wait for its password.
pub(crate) struct HeldRequest {
    method: String,
    path: String,
    query: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    length_bytes: usize,
}

impl HeldRequest {
    /// A copy, or nothing where too much is held already.
    fn of(request: &Request<'_>) -> Option<HeldRequest> {
        let headers = request.headers.iter().map(|h| h.name.len() + h.value.len());
        let length_bytes = request.body.len() + request.path.len() + headers.sum::<usize>();
        if HELD_BYTES.fetch_add(length_bytes, Ordering::Relaxed) + length_bytes > HELD_BYTES_MAX {
            HELD_BYTES.fetch_sub(length_bytes, Ordering::Relaxed);
            return None;
        }
        let header = |header: &Header<'_>| (header.name.to_owned(), header.value.to_vec());
        Some(HeldRequest {
            method: request.method.to_owned(),
            path: request.path.to_owned(),
            query: request.query.map(str::to_owned),
            headers: request.headers.iter().map(header).collect(),
            body: request.body.to_vec(),
            length_bytes,
        })
    }

    /// Has `serve` called with the request as it was.
    pub(crate) fn with_request<T>(&self, serve: impl FnOnce(&Request<'_>) -> T) -> T {
        let headers = self.headers.iter();
        let headers: Vec<Header<'_>> =
            headers.map(|(name, value)| Header { name, value }).collect();
        serve(&Request {
            method: &self.method,
            path: &self.path,
            query: self.query.as_deref(),
            headers: &headers,
            body: &self.body,
        })
    }
}

impl Drop for HeldRequest {
    fn drop(&mut self) {
        HELD_BYTES.fetch_sub(self.length_bytes, Ordering::Relaxed);
    }
}

impl Api {
    /// Lets a request through, or answers it.
    pub(crate) fn judge(
        &self,
        need: Need,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Judged {
        if need.is_open() {
            return Judged::Admitted(Identity::Nobody);
        }
        let accounts = &self.shared.accounts;
        let authorization = request.header("authorization");
        match accounts.verify(authorization, WallTime::now().unix_ms() / 1_000) {
            Verdict::Known(identity) => {
                self.judge_right(identity, need, request, response, exchange)
            }
            Verdict::Denied => Judged::Handled(unauthorized(request, response, exchange)),
            Verdict::Slow => Judged::Handled(self.verify_later(request, response, exchange)),
        }
    }

    /// Goes on with a request whose password was verified.
    pub(crate) fn judge_verified(
        &self,
        identity: Option<Identity>,
        need: Need,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Judged {
        match identity {
            Some(identity) => self.judge_right(identity, need, request, response, exchange),
            None => Judged::Handled(unauthorized(request, response, exchange)),
        }
    }

    fn judge_right(
        &self,
        identity: Identity,
        need: Need,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Judged {
        match need.lets_in(&identity) {
            true => Judged::Admitted(identity),
            false => Judged::Handled(forbidden(request, response, exchange)),
        }
    }

    fn verify_later(
        &self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let mut seconds = 1;
        if let Some(held) = HeldRequest::of(request) {
            let authorization = request.header("authorization").unwrap_or_default();
            let (completer, from) = (exchange.completer(), Some(exchange.address()));
            let then = move |identity| {
                completer.complete(Later::Verified { request: Box::new(held), identity });
            };
            match self.shared.verifier.verify_header(authorization, from, then) {
                Ok(()) => return Handled::Later,
                Err(too_many) => seconds = too_many.seconds,
            }
        }
        route(exchange, Operation::Refused);
        let after = seconds.to_string();
        begin_answer(response, exchange, 429, &[("Retry-After", after.as_bytes())]);
        response.finish_text(TooMany::WHAT);
        Handled::Done
    }
}

fn unauthorized(
    request: &Request<'_>,
    response: &mut Response<'_>,
    exchange: &mut Loop<'_>,
) -> Handled {
    let challenges = CHALLENGES.map(|challenge| ("WWW-Authenticate", challenge));
    let challenges = match request.header("x-omit-www-authenticate") {
        Some(_) => &[],
        None => &challenges[..],
    };
    let line = "this needs an account: send its name and password (Basic) or a token (Bearer)";
    refuse(401, challenges, line, request, response, exchange)
}

fn forbidden(
    request: &Request<'_>,
    response: &mut Response<'_>,
    exchange: &mut Loop<'_>,
) -> Handled {
    let line = "this account has no right to do this: see `pellucid account grant --help`";
    refuse(403, &[], line, request, response, exchange)
}

/// Refuses in the form that the path's clients know: the document API's error 11, or a line.
fn refuse(
    status: u16,
    headers: &[(&str, &[u8])],
    line: &str,
    request: &Request<'_>,
    response: &mut Response<'_>,
    exchange: &mut Loop<'_>,
) -> Handled {
    route(exchange, Operation::Refused);
    begin_answer(response, exchange, status, headers);
    if !request.path.starts_with("/_") {
        response.finish_text(line);
        return Handled::Done;
    }
    let body = serde_json::json!({
        "error": true, "code": status, "errorNum": 11,
        "errorMessage": "not authorized to execute this request",
    });
    response.header("Content-Type", b"application/json").finish(body.to_string().as_bytes());
    Handled::Done
}
