//! The document API: ArangoDB's, so that its drivers work unchanged.
//!
//! Calls to single documents, and those that only look at the catalogue, are answered on the event
//! loop like those of the entity API. The others go to a pool of threads ([`pool`]), and their
//! answers come back through the event loop's mailbox.

mod about;
mod api;
mod array;
mod asked;
mod call;
mod collections;
mod control;
mod cursor;
mod document;
mod encoding;
mod extra;
mod importing;
mod indexes;
mod judging;
mod light;
mod memory;
mod owner;
mod people;
mod pool;
mod queries;
mod query_calls;
mod refusals;
mod reply;
mod settings;
mod slow_queries;
mod upkeep;
mod work;
mod writing;

use std::sync::Arc;

use pellucid_account::{Phase, Stamp, Timeline};
use pellucid_document::{DocumentError, ErrorNumber};
use pellucid_http::{Handled, Request, Response};
use pellucid_store::PartTime;

pub(crate) use api::{Answer, Answered, Calling, DocumentApi};
pub(crate) use collections::current_database;
pub(crate) use control::Calls;
pub(crate) use memory::request_memory_default;
pub(crate) use pool::{Pool, QUEUED_CALLS_MAX};
pub(crate) use queries::{CursorFigures, Queries};
pub(crate) use refusals::unbuilt;
pub use settings::DocumentSettings;
pub(crate) use slow_queries::{SlowQueries, SlowQuery};
pub(crate) use upkeep::keep_up;

use crate::access::{Identity, TooMany};
use crate::answer::{Later, Loop};
use crate::names::{Operation, Outcome};
use crate::routes::{Missing, Runs, Target};
use crate::service::Api;
use crate::timing::{add_server_timing, route};

use api::add_cross_origin;
use call::Call;
use people::LogIn;
use reply::Reply;
use work::Work;

/// Bytes that a body with documents may have: 1 GiB.
pub(crate) const BODY_BYTES_MAX: usize = 1 << 30;

/// Bytes that a query with its bind variables may have.
pub(crate) const QUERY_BYTES_MAX: usize = 64 << 20;

/// Bytes that other bodies may have.
pub(crate) const OTHER_BODY_BYTES_MAX: usize = 1 << 20;

/// An answer that comes back to its event loop.
pub(crate) struct Returned {
    reply: Reply,
    /// The account as the worker left it, if one did.
    timeline: Option<Timeline>,
    /// Parts of `execute` that were measured elsewhere.
    parts: Vec<PartTime>,
    queued_ns: u64,
}

impl Api {
    /// Answers a request to the document API.
    pub(crate) fn documents(
        &self,
        target: &mut Target<'_>,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let call = Call::of(request, target).numbered(exchange.facts.request);
        route(exchange, DocumentApi::operation(&call));
        if let Some(refusal) = self.refuse_early(request) {
            return self.reply_now(refusal, response, exchange);
        }
        let api = &self.documents;
        if let Some(reply) = api.answer_light(&call, &self.caller, exchange.timeline) {
            return self.reply_now(reply, response, exchange);
        }
        let Some(answered) = self.answer_here(&call, exchange.timeline) else {
            return self.hand_over(call, response, exchange);
        };
        match answered {
            Answered::Now(reply) => {
                exchange.timeline.stamp_after_lap(Stamp::Executed);
                self.reply_now(reply, response, exchange)
            }
            Answered::Later(pending, finish) => {
                let completer = exchange.completer();
                pending.when_ready(move |arrival| {
                    let (reply, parts) = (finish(arrival.result).reply(), arrival.parts);
                    let returned = Returned { reply, timeline: None, parts, queued_ns: 0 };
                    completer.complete(Later::Documents(Box::new(returned)));
                });
                Handled::Later
            }
        }
    }

    /// Answers what a browser asks before it sends a request of a page of another origin.
    pub(crate) fn preflight(
        &self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        route(exchange, Operation::About);
        let asked = request.header("access-control-request-headers");
        exchange.timeline.stamp(Stamp::Executed);
        Reply::empty(200).send(response, 0, |response| add_cross_origin(response, asked))
    }

    /// Answers, in the form of the document API, that there is no such route.
    pub(crate) fn no_document_route(
        &self,
        why: Missing,
        path: &str,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let error = match why {
            Missing::Path => {
                DocumentError::new(ErrorNumber::HTTP_NOT_FOUND, format!("unknown path '{path}'"))
            }
            Missing::Encoding => {
                let message = "the path is not percent-encoded as it must be";
                DocumentError::new(ErrorNumber::HTTP_BAD_PARAMETER, message)
            }
            Missing::Method { .. } => ErrorNumber::HTTP_METHOD_NOT_ALLOWED.into(),
            Missing::Superfluous => ErrorNumber::SUPERFLUOUS_SUFFICES.into(),
        };
        self.reply_now(Reply::error(&error), response, exchange)
    }

    /// The answer to a call that an event loop can answer; nothing for the others: waiting for the
    /// medium would hold up all connections of the loop.
    fn answer_here(&self, call: &Call<'_>, timeline: &mut Timeline) -> Option<Answered> {
        if !DocumentApi::is_light(call) {
            return None;
        }
        let api = &self.documents;
        let store = api.documents.store();
        if call.route.runs != Runs::IfSmall
            || store.local().is_some_and(|local| local.is_in_memory())
        {
            return api.answer_here(call, &self.caller, timeline);
        }
        // A write is not made twice, so it is not tried. What a read finds may be in memory,
        // however slow others were.
        if !call.reads_document() {
            return None;
        }
        let (before, mut answered) = (timeline.clone(), None);
        let are_here = store.local()?.all_in_memory(&mut |_| {
            answered = api.answer_here(call, &self.caller, timeline);
            answered.is_some()
        });
        if !are_here {
            // The try leaves no trace: who reads it in the end accounts for it whole.
            *timeline = before;
            return None;
        }
        answered
    }

    /// Answers a log-in. Its password waits with those of other requests, and not where calls do.
    pub(crate) fn log_in(
        &self,
        target: &mut Target<'_>,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let call = Call::of(request, target);
        route(exchange, call.route.operation);
        if let Some(refusal) = self.refuse_early(request) {
            return self.reply_now(refusal, response, exchange);
        }
        let api = &self.documents;
        let (name, password) = match api.log_in(&call) {
            Err(error) => return self.reply_now(Reply::error(&error), response, exchange),
            Ok(LogIn::Answered(reply)) => return self.reply_now(reply, response, exchange),
            Ok(LogIn::Asked { name, password }) => (name, password),
        };
        let (api, completer, whose) = (Arc::clone(api), exchange.completer(), name.clone());
        let then = move |identity: Option<Identity>| {
            let reply = api.logged_in(&whose, identity.is_some());
            let returned = Returned { reply, timeline: None, parts: Vec::new(), queued_ns: 0 };
            completer.complete(Later::Documents(Box::new(returned)));
        };
        let from = Some(exchange.address());
        match self.gate.verifier.verify(name, password, from, then) {
            Ok(()) => Handled::Later,
            Err(too_many) => {
                let error = DocumentError::new(ErrorNumber::QUEUE_FULL, TooMany::WHAT);
                let reply = Reply::error_as(429, &error);
                let reply = reply.with_header("Retry-After", too_many.seconds.to_string());
                self.reply_now(reply, response, exchange)
            }
        }
    }

    /// What is refused whoever asks.
    fn refuse_early(&self, request: &Request<'_>) -> Option<Reply> {
        let content_type = request.header("content-type").unwrap_or_default();
        if content_type.starts_with(b"application/x-velocypack") {
            let message = "bodies are JSON here, not VelocyPack";
            let error = DocumentError::new(ErrorNumber::HTTP_NOT_ACCEPTABLE, message);
            return Some(Reply::error(&error));
        }
        let wanted = request.header("x-arango-queue-time-seconds")?;
        let wanted: f64 = std::str::from_utf8(wanted).ok()?.trim().parse().ok()?;
        let last = self.documents.pool.last_queued_ns() as f64 / 1e9;
        (wanted > 0.0 && last > wanted).then(|| ErrorNumber::QUEUE_TIME_VIOLATED.into())
    }

    /// Gives a call to a worker.
    fn hand_over(
        &self,
        call: Call<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let (bytes, api) = (call.body.len(), &self.documents);
        let mut memory = api.memory.share(usize::MAX);
        if memory.take(bytes).is_ok() {
            let work = (call.into_owned(), memory);
            let work = Work::of(work, api, self.caller.clone(), exchange);
            if api.pool.try_run(bytes, move |queued_ns| work.begin(queued_ns)) {
                return Handled::Later;
            }
        }
        let full = Reply::from(ErrorNumber::QUEUE_FULL).with_header("Retry-After", "1".to_owned());
        self.reply_now(full, response, exchange)
    }

    /// Sends what came back from a worker or from the medium.
    pub(crate) fn returned(
        &self,
        returned: Returned,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let Returned { reply, timeline, parts, queued_ns } = returned;
        if let Some(timeline) = timeline {
            *exchange.timeline = timeline;
        }
        parts.iter().for_each(|part| part.add_to(exchange.timeline));
        if exchange.timeline.taken(Stamp::Executed).is_none() {
            exchange.timeline.stamp(Stamp::Executed);
        }
        self.send(reply, queued_ns, response, exchange)
    }

    /// Sends an answer of the event loop's own.
    fn reply_now(
        &self,
        reply: Reply,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        if exchange.timeline.taken(Stamp::Executed).is_none() {
            exchange.timeline.stamp(Stamp::Executed);
        }
        self.send(reply, 0, response, exchange)
    }

    fn send(
        &self,
        reply: Reply,
        queued_ns: u64,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        exchange.facts.outcome = Outcome::of_status(reply.status) as u8;
        // Drivers offer codings that their users never asked for.
        response.compress_from(self.documents.settings.compressed_from_bytes);
        let timeline = &*exchange.timeline;
        // As the account has it, with the wait behind other requests of the connection.
        let queued_ns = if timeline.is_on() {
            timeline.clock().nanoseconds(timeline.phase_ticks(Phase::Queue))
        } else {
            queued_ns
        };
        let reply = reply.counted(&self.documents.memory);
        reply.send(response, queued_ns, |response| add_server_timing(response, timeline))
    }
}
