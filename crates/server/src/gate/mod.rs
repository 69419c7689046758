//! The gate in front of the APIs: identifies callers, and refuses those without the right.

mod budgets;
mod held_request;

use std::sync::Arc;

use pellucid_clock::WallTime;
use pellucid_http::{Admission, AdmissionContext, Denial, Head, Refusal, Request};
use serde_json::json;

use crate::access::{Accounts, Identity, RateLimitError, SiteRefusal, Sites, Verdict, Verifier};
use crate::answer::{Answer, LoopExchange, LoopMessage};
use crate::names::Operation;
use crate::reply::Reply;
use crate::routes::{RequiredRight, Target};
use crate::timing::route;

pub(crate) use budgets::BodyBudgets;
pub(crate) use held_request::HeldRequest;

/// The values of `WWW-Authenticate`: the accepted schemes of credentials (RFC 7617, RFC 6750).
const CHALLENGES: [&str; 2] =
    ["Basic realm=\"pellucid\", charset=\"UTF-8\"", "Bearer realm=\"pellucid\""];

/// [`CHALLENGES`] in the form that the transport takes.
const CHALLENGE_BYTES: [&[u8]; 2] = [CHALLENGES[0].as_bytes(), CHALLENGES[1].as_bytes()];

/// The header of a client that wants no challenges, because its browser would ask for a password.
pub(crate) const OMIT_CHALLENGES: &str = "x-omit-www-authenticate";

const NOT_AUTHORIZED: &str = "not authorized to execute this request";

/// The body of the refusal of credentials, for clients of the document API.
const DENIED: &str = "{\"error\":true,\"code\":401,\"errorNum\":11,\
    \"errorMessage\":\"not authorized to execute this request\"}";

/// The gate's decision about a request.
#[allow(
    clippy::large_enum_variant,
    reason = "a box would be an allocation for each request that is refused"
)]
pub(crate) enum GateDecision {
    /// The request may go on, with this identity as its caller.
    Admitted(Identity),
    /// The request is refused, or waits on another thread for its password to be verified.
    Answered(Answer),
}

/// The checks that requests pass before a handler sees them: site, credentials and right.
pub(crate) struct Gate {
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) verifier: Verifier,
    pub(crate) bodies: Arc<BodyBudgets>,
    pub(crate) sites: Sites,
}

impl Gate {
    /// Decides about a request that is complete: admits it, or answers it.
    #[inline]
    pub(crate) fn judge(
        &self,
        need: RequiredRight,
        request: &Request<'_>,
        exchange: &mut LoopExchange<'_>,
    ) -> GateDecision {
        let is_open = !self.accounts.is_enforced();
        if let Some(foreign) = self.sites.refuse(request, is_open) {
            return refuse_site(foreign, request, exchange);
        }
        if is_open {
            return GateDecision::Admitted(Identity::Anybody);
        }
        if need.is_open() {
            return GateDecision::Admitted(Identity::Nobody);
        }
        let authorization = request.header("authorization");
        match self.accounts.verify(authorization, WallTime::now().unix_ms() / 1_000) {
            Verdict::Known(identity) => judge_right(identity, need, request, exchange),
            Verdict::Denied => unauthorized(request, exchange),
            Verdict::Slow => self.verify_later(request, exchange),
        }
    }

    /// Decides about a request whose password another thread has checked; `identity` is `None` if
    /// the password was wrong.
    pub(crate) fn judge_verified(
        &self,
        identity: Option<Identity>,
        need: RequiredRight,
        request: &Request<'_>,
        exchange: &mut LoopExchange<'_>,
    ) -> GateDecision {
        match identity {
            Some(identity) => judge_right(identity, need, request, exchange),
            None => unauthorized(request, exchange),
        }
    }

    /// Gives a copy of the request to the verifier; 429 if too many wait or have failed.
    fn verify_later(&self, request: &Request<'_>, exchange: &mut LoopExchange<'_>) -> GateDecision {
        let mut seconds = 1;
        if let Some(held) = HeldRequest::of(request) {
            let authorization = request.header("authorization").unwrap_or_default();
            let (completer, from) = (exchange.completer(), exchange.address());
            let then = move |identity| {
                completer.complete(LoopMessage::Verified(Box::new(held), identity));
            };
            match self.verifier.verify_header(authorization, from, then) {
                Ok(()) => return GateDecision::Answered(Answer::Away),
                Err(too_many) => seconds = too_many.seconds,
            }
        }
        let reply = Reply::line(429, RateLimitError::WHAT);
        refuse(reply.with_header("Retry-After", seconds.to_string()), exchange)
    }

    /// Decides by the credentials in the head about a request whose body has not been received yet.
    /// So bodies of callers without an account take neither memory nor time.
    pub(crate) fn admit(
        &self,
        head: &Head<'_, '_>,
        applicant: &AdmissionContext<'_, LoopMessage>,
    ) -> Admission {
        let is_open = || Target::of(head.method, head.path, head.query).route.need.is_open();
        if !self.accounts.is_enforced() || is_open() {
            return Admission::Granted(None);
        }
        let authorization = header_of(head, "authorization");
        match self.accounts.verify(authorization, WallTime::now().unix_ms() / 1_000) {
            Verdict::Known(identity) => Admission::Granted(self.bodies.of(&identity)),
            Verdict::Denied => denied(denial_of(head)),
            Verdict::Slow => self.admit_later(head, authorization.unwrap_or_default(), applicant),
        }
    }

    /// Returns true if the caller has the right that the route needs; false if that is not known
    /// yet, because the password has to be verified first.
    pub(crate) fn lets_in(&self, head: &Head<'_, '_>) -> bool {
        let now_seconds = WallTime::now().unix_ms() / 1_000;
        match self.accounts.verify(header_of(head, "authorization"), now_seconds) {
            Verdict::Known(identity) => {
                let need = Target::of(head.method, head.path, head.query).route.need;
                need.lets_in(&identity, head.query)
            }
            Verdict::Denied | Verdict::Slow => false,
        }
    }

    /// Gives the password to the verifier; the request goes on when its verdict is there.
    fn admit_later(
        &self,
        head: &Head<'_, '_>,
        authorization: &[u8],
        applicant: &AdmissionContext<'_, LoopMessage>,
    ) -> Admission {
        let (bodies, judge) = (Arc::clone(&self.bodies), applicant.judge());
        let denial = denial_of(head);
        let then = move |identity: Option<Identity>| {
            judge.decide(match identity {
                Some(identity) => Admission::Granted(bodies.of(&identity)),
                None => denied(denial),
            });
        };
        match self.verifier.verify_header(authorization, applicant.address(), then) {
            Ok(()) => Admission::Pending,
            Err(RateLimitError { seconds }) => {
                let what = RateLimitError::WHAT;
                Admission::Refused(Refusal::TooManyAttempts { what, seconds })
            }
        }
    }
}

fn judge_right(
    identity: Identity,
    need: RequiredRight,
    request: &Request<'_>,
    exchange: &mut LoopExchange<'_>,
) -> GateDecision {
    if need.lets_in(&identity, request.query) {
        return GateDecision::Admitted(identity);
    }
    let line = "this account has no right to do this: see `pellucid account grant --help`";
    refuse(refusal(403, line, NOT_AUTHORIZED, request), exchange)
}

fn unauthorized(request: &Request<'_>, exchange: &mut LoopExchange<'_>) -> GateDecision {
    let line = "this needs an account: send its name and password (Basic) or a token (Bearer)";
    let is_quiet = request.header(OMIT_CHALLENGES).is_some();
    refuse(challenged(refusal(401, line, NOT_AUTHORIZED, request), is_quiet), exchange)
}

/// Adds the challenges to a reply 401, unless `is_quiet`.
pub(crate) fn challenged(reply: Reply, is_quiet: bool) -> Reply {
    let challenges = if is_quiet { &[][..] } else { &CHALLENGES[..] };
    challenges.iter().fold(reply, |reply, value| reply.with_header("WWW-Authenticate", *value))
}

#[cold]
fn refuse_site(
    foreign: SiteRefusal,
    request: &Request<'_>,
    exchange: &mut LoopExchange<'_>,
) -> GateDecision {
    let line = foreign.line();
    refuse(refusal(foreign.status(), line, line, request), exchange)
}

/// A refusal in the form that clients of the path expect: for paths that begin with `/_` the
/// document API's error 11 with `message`, for others `line`.
fn refusal(status: u16, line: &'static str, message: &str, request: &Request<'_>) -> Reply {
    if !request.path.starts_with("/_") {
        return Reply::line(status, line);
    }
    let body = json!({ "error": true, "code": status, "errorNum": 11, "errorMessage": message });
    Reply::value(status, &body)
}

fn refuse(reply: Reply, exchange: &mut LoopExchange<'_>) -> GateDecision {
    route(exchange, Operation::Refused);
    GateDecision::Answered(Answer::Reply(reply))
}

fn denied(denial: Denial) -> Admission {
    Admission::Refused(Refusal::Unauthorized(denial))
}

/// The transport's refusal of a request without valid credentials, in the form that clients of the
/// path expect.
fn denial_of(head: &Head<'_, '_>) -> Denial {
    let is_quiet = header_of(head, OMIT_CHALLENGES).is_some();
    let challenges = if is_quiet { &[][..] } else { &CHALLENGE_BYTES[..] };
    let body = head.path.starts_with("/_").then_some(("application/json", DENIED));
    Denial { challenges, body }
}

fn header_of<'a>(head: &Head<'a, '_>, name: &str) -> Option<&'a [u8]> {
    let header = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    header.map(|header| header.value)
}
