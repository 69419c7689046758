//! The APIs on the transport: finds the handler, and answers with what it found.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use pellucid_account::{Account, RequestFacts, Stamp, Timeline};
use pellucid_clock::Ticks;
use pellucid_cluster::Cluster;
use pellucid_http::{
    Admission, Applicant, Exchange, Handled, Head, LinkTurn, Refusal, Request, Response,
    ServerGauge, Service, Ticket,
};
use pellucid_store::{
    Acknowledgement, Arrival, Head as StoreHead, Object, Result as StoreResult, Store, StoreError,
    Table, Written,
};
use pellucid_thread::{Panicked, set_operation};

use crate::access::{Accounts, BodyBudgets, HeldRequest, Identity, Judged, Sites, Verifier};
use crate::admin::Page;
use crate::admin::compact::FullMerge;
use crate::cluster::{Brought, Links, OwnerParts, Served, no_documents};
use crate::conditions::{KeptConditions, ReadConditions};
use crate::documents::{DocumentApi, Returned};
use crate::follow::{FollowFigures, Traced};
use crate::helper::Helper;
use crate::keys::Keys;
use crate::log::Log;
use crate::names::{Operation, Outcome};
use crate::profiles::Profiles;
use crate::ranges_elsewhere::FirstPiece;
use crate::routes::{BodyLimit, Handler, Methods, Missing, Target};
use crate::timing::{add_server_timing, wants_timing};

/// Bytes that the body of a request may have that needs none.
const OTHER_BODY_BYTES_MAX: usize = 64 * 1024;

/// The header that tells a caller under which span his request went (W3C Trace Context, level 2).
const TRACE_RESPONSE: &str = "traceresponse";

const KNOWN_PATHS: &str = "the paths here are /v0/entity, /v0/entities, /v0/batch, /v0/status, \
                           /v0/cluster, /_admin/account, /_admin/engine, /_admin/slow, \
                           /_admin/requests, /_admin/interference, /_admin/trace, \
                           /_admin/compact, /_api/version, /debug/pprof/ and /metrics";

/// What all event loops serve from.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) entities: Table,
    pub(crate) account: Account,
    pub(crate) acknowledgement: Acknowledgement,
    pub(crate) batch_bytes_max: usize,
    pub(crate) helper: Helper,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) verifier: Verifier,
    pub(crate) bodies: BodyBudgets,
    pub(crate) sites: Sites,
    pub(crate) keys: Keys,
    pub(crate) profiles: Profiles,
    pub(crate) full_merge: FullMerge,
    pub(crate) traced: Traced,
    pub(crate) followed: FollowFigures,
    pub(crate) log: Log,
    pub(crate) version: &'static str,
    pub(crate) documents: Arc<DocumentApi>,
    pub(crate) cluster: Option<Arc<Cluster>>,
    /// How peers are told the store's parts of `execute`.
    pub(crate) owner_parts: OwnerParts,
}

impl Shared {
    /// Slow requests, and of traced ones those exported and those lost.
    pub(crate) fn followed_figures(&self) -> [u64; 3] {
        let followed = &self.followed;
        let lost = followed.export_lost.load(Relaxed) + self.traced.forgotten();
        [followed.slow.load(Relaxed), followed.exported.load(Relaxed), lost]
    }
}

/// The service of one event loop.
pub(crate) struct Api {
    pub(crate) shared: Arc<Shared>,
    pub(crate) gauge: ServerGauge,
    /// Whose request is being handled.
    pub(crate) caller: Identity,
    pub(crate) random: Random,
    /// Of a cluster, this loop's part.
    pub(crate) links: Option<Box<Links>>,
}

/// Numbers for traces of one event loop: unlike those of others, and not secret (SplitMix64).
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new() -> Random {
        Random { state: RandomState::new().hash_one(0_u8) }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// What comes back to an event loop from other threads.
pub(crate) enum Later {
    Found {
        arrival: Arrival<Option<Object>>,
        reading: Reading,
    },
    Head {
        arrival: Arrival<Option<StoreHead>>,
        reading: Reading,
    },
    Written {
        arrival: Arrival<Written>,
        reply: WriteReply,
    },
    /// A batch that was parsed elsewhere cannot be taken, for this reason.
    Rejected {
        started: Ticks,
        what: String,
    },
    /// The first piece of a range.
    Range(Arrival<Box<FirstPiece>>),
    Page(Page),
    /// A request whose password was verified, and whose it is if it was right.
    Verified {
        request: Box<HeldRequest>,
        identity: Option<Identity>,
    },
    Documents(Box<Returned>),
    /// A forwarded request is back.
    Forwarded(Brought),
    /// What a peer asked for was found by another thread.
    Served(Box<Served>),
}

/// What a read that is answered later has to remember of its request.
pub(crate) struct Reading {
    pub(crate) conditions: KeptConditions,
}

impl Reading {
    pub(crate) fn of(request: &Request<'_>) -> Reading {
        Reading { conditions: ReadConditions::of(request).kept() }
    }
}

/// How a write that succeeded is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteReply {
    Put,
    Delete,
    Batch { entries: usize },
}

/// The loop's side of an exchange.
pub(crate) type Loop<'a> = Exchange<'a, Later>;

impl Service for Api {
    type Later = Later;

    fn body_bytes_max(&self, head: &Head<'_, '_>) -> usize {
        match Target::of(head.method, head.path, head.query).route.body {
            BodyLimit::Little => OTHER_BODY_BYTES_MAX,
            BodyLimit::Value => self.shared.store.properties().value_bytes_max,
            BodyLimit::Batch => self.shared.batch_bytes_max,
            BodyLimit::Bytes(bytes) => bytes,
        }
    }

    fn admit(&mut self, head: &Head<'_, '_>, applicant: &Applicant<'_, Later>) -> Admission {
        self.admit_body(head, applicant)
    }

    fn handle(
        &mut self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        exchange.timeline.is_wanted = wants_timing(request);
        let number = exchange.facts.request;
        if let Some(context) = self.shared.traced.begin(request, number, || self.random.next()) {
            response.precede(TRACE_RESPONSE, context.to_string());
        }
        let is_open = !self.shared.accounts.is_enforced();
        if let Some(refused) = self.refuse_site(request, is_open, response, exchange) {
            return refused;
        }
        let mut target = Target::of(request.method, request.path, request.query);
        if is_open {
            self.caller = Identity::Anybody;
            return self.dispatch(&mut target, request, response, exchange);
        }
        let judged = self.judge(target.route.need, request, response, exchange);
        self.go_on(judged, &mut target, request, response, exchange)
    }

    fn resume(
        &mut self,
        later: Later,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        if let Some(context) = self.shared.traced.of(exchange.facts.request) {
            response.precede(TRACE_RESPONSE, context.to_string());
        }
        match later {
            Later::Page(page) => {
                exchange.timeline.stamp(Stamp::Executed);
                exchange.facts.outcome = Outcome::of_status(page.status) as u8;
                response.status(page.status).header("Content-Type", page.content_type.as_bytes());
                add_server_timing(response, exchange.timeline);
                response.finish(&page.body);
            }
            Later::Verified { request: held, identity } => {
                return held.with_request(|request| {
                    let mut target = Target::of(request.method, request.path, request.query);
                    let need = target.route.need;
                    let judged = self.judge_verified(identity, need, request, response, exchange);
                    self.go_on(judged, &mut target, request, response, exchange)
                });
            }
            Later::Forwarded(brought) => return self.brought(brought, response, exchange),
            Later::Served(_) => unreachable!("what peers ask for belongs to no request"),
            Later::Documents(returned) => return self.returned(*returned, response, exchange),
            Later::Found { arrival, reading } => {
                let found = arrive(arrival, exchange);
                let head = found.as_ref().ok().and_then(Option::as_ref).map(|object| &object.head);
                let verdict = reading.conditions.judge(head);
                return self.found(found, verdict, response, exchange);
            }
            Later::Head { arrival, reading } => {
                let found = arrive(arrival, exchange);
                let verdict =
                    reading.conditions.judge(found.as_ref().ok().and_then(Option::as_ref));
                return self.found_head(found, verdict, response, exchange);
            }
            Later::Range(arrival) => return self.first_piece(arrival, response, exchange),
            Later::Rejected { started, what } => {
                exchange.timeline.stamp_at(Stamp::Started, started);
                return respond_text(response, exchange, 400, &what);
            }
            Later::Written { arrival, reply } => {
                let result = arrive(arrival, exchange);
                self.written(result, reply, response, exchange);
            }
        }
        Handled::Done
    }

    fn begin(&mut self, turn: &mut LinkTurn<'_, Later>) -> io::Result<()> {
        self.begin_links(turn)
    }

    fn ready(&mut self, link: usize, turn: &mut LinkTurn<'_, Later>) {
        self.link_ready(link, turn);
    }

    fn has_to_settle(&self) -> bool {
        self.has_links_to_settle()
    }

    fn settle(&mut self, turn: &mut LinkTurn<'_, Later>) -> bool {
        self.settle_links(turn)
    }

    fn told(&mut self, message: Later, turn: &mut LinkTurn<'_, Later>) {
        self.link_told(message, turn);
    }

    fn upgraded(
        &mut self,
        ticket: Ticket,
        socket: mio::net::TcpStream,
        unread: Vec<u8>,
        turn: &mut LinkTurn<'_, Later>,
    ) {
        self.adopt_caller(ticket, socket, unread, turn);
    }

    fn panicked(&mut self, panicked: Option<&Panicked>, timeline: &Timeline, facts: &RequestFacts) {
        self.log_panic(panicked, timeline, facts);
    }

    fn facts_of_refusal(&self, refusal: &Refusal) -> RequestFacts {
        RequestFacts {
            operation: Operation::Refused as u8,
            outcome: Outcome::of_refusal(refusal) as u8,
            ..RequestFacts::default()
        }
    }
}

impl Api {
    /// Serves what the gate lets through.
    fn go_on(
        &mut self,
        judged: Judged,
        target: &mut Target<'_>,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        match judged {
            Judged::Admitted(caller) => {
                self.caller = caller;
                self.dispatch(target, request, response, exchange)
            }
            Judged::Handled(handled) => handled,
        }
    }

    /// Has the handler of its route answer a request that may have one.
    #[inline]
    fn dispatch(
        &mut self,
        target: &mut Target<'_>,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        match target.route.handler {
            Handler::Entity => self.entity(target.route.operation, request, response, exchange),
            Handler::Documents(_) => {
                if target.route.needs_documents && self.shared.cluster.is_some() {
                    return no_documents(response, exchange);
                }
                self.documents(target, request, response, exchange)
            }
            Handler::Server(answer) => {
                route(exchange, target.route.operation);
                answer(self, target, request, response, exchange)
            }
            Handler::Page(page) => {
                route(exchange, target.route.operation);
                page(self, request, response, exchange)
            }
            Handler::LogIn => self.log_in(target, request, response, exchange),
            Handler::Preflight => self.preflight(request, response, exchange),
            Handler::Missing(why) => {
                self.no_route(why, target.allowed, request.path, response, exchange)
            }
        }
    }

    /// Answers that there is no such route, in the form that clients of such a path know.
    fn no_route(
        &self,
        why: Missing,
        allowed: Methods,
        path: &str,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        route(exchange, Operation::Unknown);
        match why {
            Missing::Method { is_of_documents: false } => {
                method_not_allowed(response, exchange, allowed)
            }
            _ if path.starts_with("/_") => self.no_document_route(why, path, response, exchange),
            _ => respond_text(response, exchange, 400, KNOWN_PATHS),
        }
    }

    /// Says that the server serves.
    pub(crate) fn status(&self, response: &mut Response<'_>, exchange: &mut Loop<'_>) -> Handled {
        exchange.timeline.stamp(Stamp::Executed);
        response.status(200);
        add_server_timing(response, exchange.timeline);
        response.finish_text("serving");
        Handled::Done
    }

    /// Answers with an error of the store.
    pub(crate) fn store_error(
        &self,
        error: &StoreError,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let status = status_of(error);
        if let StoreError::Busy(what) = error {
            return busy(response, exchange, what);
        }
        if status >= 500 {
            self.shared.log.error(&format!("a request failed: {error}"));
        }
        respond_text(response, exchange, status, &error.to_string())
    }
}

/// The status that an error of the store is told with.
pub(crate) fn status_of(error: &StoreError) -> u16 {
    match error {
        StoreError::Unacceptable(_) => 400,
        StoreError::ConditionFailed { .. } => 412,
        StoreError::Full(_) => 507,
        StoreError::ReadOnly(_) | StoreError::Busy(_) => 503,
        StoreError::Unreachable(_) => 504,
        StoreError::Corruption(_) | StoreError::NotInMemory | StoreError::Failed(_) => 500,
    }
}

/// Takes over what another thread measured, and its answer.
pub(crate) fn arrive<T>(arrival: Arrival<T>, exchange: &mut Loop<'_>) -> StoreResult<T> {
    arrival.add_to(exchange.timeline);
    exchange.timeline.stamp(Stamp::Executed);
    arrival.result
}

/// Notes what was asked for, and takes the stamps of a handler that runs at once.
pub(crate) fn route(exchange: &mut Loop<'_>, operation: Operation) {
    exchange.facts.operation = operation as u8;
    exchange.timeline.set_operation(operation as u8);
    set_operation(operation as u8 + 1);
    exchange.facts.outcome = Outcome::Ok as u8;
    let at = exchange.timeline.stamp(Stamp::Routed);
    exchange.timeline.stamp_at(Stamp::Started, at);
}

/// Answers with a line of text; the outcome is the status's.
pub(crate) fn respond_text(
    response: &mut Response<'_>,
    exchange: &mut Loop<'_>,
    status: u16,
    line: &str,
) -> Handled {
    finish_execution(exchange.timeline);
    exchange.facts.outcome = Outcome::of_status(status) as u8;
    response.status(status);
    add_server_timing(response, exchange.timeline);
    response.finish_text(line);
    Handled::Done
}

/// Begins an answer with these headers; the outcome is the status's.
pub(crate) fn begin_answer(
    response: &mut Response<'_>,
    exchange: &mut Loop<'_>,
    status: u16,
    headers: &[(&str, &[u8])],
) {
    finish_execution(exchange.timeline);
    exchange.facts.outcome = Outcome::of_status(status) as u8;
    response.status(status);
    for (name, value) in headers {
        response.header(name, value);
    }
    add_server_timing(response, exchange.timeline);
}

/// Answers that there is no room for the request now, and when to come again.
pub(crate) fn busy(response: &mut Response<'_>, exchange: &mut Loop<'_>, what: &str) -> Handled {
    begin_answer(response, exchange, 503, &[("Retry-After", b"1")]);
    response.finish_text(what);
    Handled::Done
}

/// Takes the stamp `executed` unless the store's answer has taken it.
fn finish_execution(timeline: &mut Timeline) {
    if timeline.taken(Stamp::Executed).is_none() {
        timeline.stamp(Stamp::Executed);
    }
}

/// Answers 405, naming the methods that there are.
fn method_not_allowed(
    response: &mut Response<'_>,
    exchange: &mut Loop<'_>,
    allowed: Methods,
) -> Handled {
    begin_answer(response, exchange, 405, &[("Allow", allowed.to_string().as_bytes())]);
    response.finish_text("this path has other methods");
    Handled::Done
}
