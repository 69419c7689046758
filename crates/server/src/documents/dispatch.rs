//! Entry points of the document API: each request is answered on its event loop or handed to a
//! worker.

use std::sync::Arc;

use pellucid_account::Stamp;
use pellucid_document::{DocumentError, ErrorNumber};
use pellucid_http::Request;
use pellucid_store::DeliveredAnswer;

use super::api::DocumentApi;
use super::call::{Call, bad_request};
use super::completion::Completion;
use super::reply::{empty, error_as};
use super::users::{self, LoginRequest, token_reply};
use super::worker_call::WorkerCall;
use crate::access::{Identity, RateLimitError, Verifier};
use crate::answer::{Answer, DeferredReply, LoopExchange, LoopMessage};
use crate::reply::{DriverSettings, Reply};
use crate::routes::{Methods, MissingRoute, Target};
use crate::timing::route;

/// Answers a request to the document API.
pub(crate) fn call(
    api: &Arc<DocumentApi>,
    target: &mut Target<'_>,
    request: &Request<'_>,
    caller: &Identity,
    exchange: &mut LoopExchange<'_>,
) -> Answer {
    let call = Call::of(request, target, exchange.facts.request);
    route(exchange, call.operation());
    if let Some(refusal) = api.refuse_early(request) {
        return api.for_driver(refusal, 0).into();
    }
    match api.answer_on_loop(&call, caller, exchange.timeline) {
        None => hand_over(api, call, caller, exchange),
        Some(Completion::Reply(reply)) => {
            if exchange.timeline.taken(Stamp::Executed).is_none() {
                exchange.timeline.stamp_after_lap(Stamp::Executed);
            }
            api.for_driver(reply, 0).into()
        }
        Some(Completion::OnCommit(pending, finish)) => {
            // The store may have become slow meanwhile: a batch that it hands over can conflict.
            if pending.is_handed_over()
                && let Some(call) = worker_call(api, call, caller, exchange)
            {
                call.finish_after(pending, finish);
                return Answer::Away;
            }
            let (api, completer) = (Arc::clone(api), exchange.completer());
            pending.when_ready(move |arrival| {
                let reply = api.for_driver(finish(arrival.result).reply, 0);
                let times = DeliveredAnswer::new(Ok(()), arrival.parts);
                completer
                    .complete(LoopMessage::Made(Box::new(DeferredReply::by(times, |()| reply))));
            });
            Answer::Away
        }
    }
}

/// Hands a call to a worker, or refuses it if too many wait.
fn hand_over(
    api: &Arc<DocumentApi>,
    call: Call<'_>,
    caller: &Identity,
    exchange: &mut LoopExchange<'_>,
) -> Answer {
    let bytes = call.body.len();
    if let Some(call) = worker_call(api, call, caller, exchange)
        && api.pool().try_run(bytes, move |queued_ns| call.begin(queued_ns))
    {
        return Answer::Away;
    }
    let full = Reply::from(ErrorNumber::QUEUE_FULL).with_header("Retry-After", "1");
    api.for_driver(full, 0).into()
}

/// Makes a call that workers can execute; `None` if there is no memory for its body.
fn worker_call(
    api: &Arc<DocumentApi>,
    call: Call<'_>,
    caller: &Identity,
    exchange: &mut LoopExchange<'_>,
) -> Option<WorkerCall> {
    let mut memory = api.memory().share(usize::MAX);
    memory.take(call.body.len()).ok()?;
    Some(WorkerCall::of(call.into_owned(), memory, api, caller, exchange))
}

/// Answers a request for a token. Its password is verified in the queue for passwords of all
/// requests, and not in the pool.
pub(crate) fn log_in(
    api: &Arc<DocumentApi>,
    target: &mut Target<'_>,
    request: &Request<'_>,
    verifier: &Verifier,
    exchange: &mut LoopExchange<'_>,
) -> Answer {
    let call = Call::of(request, target, exchange.facts.request);
    route(exchange, call.route.operation);
    let claimed = match api.refuse_early(request) {
        Some(refusal) => Ok(LoginRequest::Granted(refusal)),
        None => users::log_in(api.accounts(), &call),
    };
    let (name, password) = match claimed {
        Err(error) => return api.for_driver(error.into(), 0).into(),
        Ok(LoginRequest::Granted(reply)) => return api.for_driver(reply, 0).into(),
        Ok(LoginRequest::Claimed { name, password }) => (name, password),
    };
    let (of_caller, completer, user) = (Arc::clone(api), exchange.completer(), name.clone());
    let then = move |identity: Option<Identity>| {
        let reply = token_reply(of_caller.accounts(), &user, identity.is_some());
        completer.complete(LoopMessage::Made(Box::new(DeferredReply::of(Ok(
            of_caller.for_driver(reply, 0)
        )))));
    };
    match verifier.verify(name, password, exchange.address(), then) {
        Ok(()) => Answer::Away,
        Err(too_many) => {
            let error = DocumentError::new(ErrorNumber::QUEUE_FULL, RateLimitError::WHAT);
            let reply = error_as(429, &error);
            let reply = reply.with_header("Retry-After", too_many.seconds.to_string());
            api.for_driver(reply, 0).into()
        }
    }
}

/// Answers a preflight request, which a browser sends before a cross-origin request.
pub(crate) fn preflight(request: &Request<'_>) -> Reply {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    let headers = request.header("access-control-request-headers");
    let headers = headers.filter(|headers| headers.iter().all(is_plain));
    let methods = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";
    let reply = empty(200)
        .with_header("Access-Control-Allow-Methods", methods)
        .with_header("Access-Control-Max-Age", "1800");
    let driver = Some(DriverSettings { queued_ns: 0, compressed_from_bytes: 0 });
    let reply = Reply { driver, ..reply };
    match headers {
        None => reply,
        Some(headers) => {
            let headers = String::from_utf8_lossy(headers).into_owned();
            reply.with_header("Access-Control-Allow-Headers", headers)
        }
    }
}

/// The reply to a request without a route, in the format of the document API.
pub(crate) fn no_route(
    api: &DocumentApi,
    why: MissingRoute,
    path: &str,
    allowed: Methods,
) -> Reply {
    let error = match why {
        MissingRoute::Path => {
            DocumentError::new(ErrorNumber::HTTP_NOT_FOUND, format!("unknown path '{path}'"))
        }
        MissingRoute::Encoding => bad_request("the path is not percent-encoded as it must be"),
        MissingRoute::Method { .. } => ErrorNumber::HTTP_METHOD_NOT_ALLOWED.into(),
        MissingRoute::Superfluous => ErrorNumber::SUPERFLUOUS_SUFFICES.into(),
    };
    let reply = api.for_driver(error.into(), 0);
    match why {
        MissingRoute::Method { .. } => reply.with_header("Allow", allowed.to_string()),
        _ => reply,
    }
}
