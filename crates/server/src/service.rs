//! The service of an event loop: finds the handler of a request, calls it, and writes the reply.

use std::io;
use std::sync::{Arc, LazyLock};

use pellucid_account::{RequestFacts, Timeline};
use pellucid_http::{
    AbortReason, Admission, AdmissionContext, Head, LinkContext, LinkEvent, Refusal, Request,
    Response, Service, ServiceResult, Ticket,
};
use pellucid_io::{Random, SeededRandom};
use pellucid_store::Value;
use pellucid_thread::{ContainedPanic, Job};
use serde_json::json;

use crate::access::{Identity, Right, Scope};
use crate::admin::AdminApi;
use crate::answer::{Answer, HandlerResult, LoopExchange, LoopMessage};
use crate::changes::{ChangesApi, ChangesQuery, Content};
use crate::cluster::{Links, Owner, merged_range};
use crate::documents::{self, DocumentApi};
use crate::entities::multi_get::KeyList;
use crate::entities::ranges::{Form, form_of};
use crate::entities::{
    EntityApi, EntityHeaders, EntitySelection, batch, check_name, multi_get, ranges, table_name,
};
use crate::gate::{Gate, GateDecision};
use crate::names::{Operation, Outcome};
use crate::observer::Observer;
use crate::page_thread::page_on_thread;
use crate::panics::log_panic;
use crate::reply::{Body, Failure, Reply};
use crate::routes::{self, BodyLimit, Handler, Method, Methods, MissingRoute, Route, Target};
use crate::timing::{end_execution, route, wants_timing};

static EMPTYING: Job = Job::new("empty_table");

/// The longest body of a request that needs none, in bytes.
const OTHER_BODY_BYTES_MAX: usize = 64 * 1024;

/// The response header with the span of the request (W3C Trace Context, level 2).
const TRACE_RESPONSE: &str = "traceresponse";

/// The reply to a request for an unknown path: the list of known paths.
static KNOWN_PATHS: LazyLock<String> = LazyLock::new(|| {
    let mut paths = Vec::new();
    for route in routes::described() {
        let path = format!("/{}", route.path.join("/"));
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    format!("the paths here are {}, and those of documents below /_api", paths.join(", "))
});

const OTHER_METHODS: &str = "this path has other methods";

/// The service of one event loop.
pub(crate) struct Api {
    pub(crate) gate: Arc<Gate>,
    pub(crate) entities: Arc<EntityApi>,
    pub(crate) changes: Arc<ChangesApi>,
    pub(crate) documents: Arc<DocumentApi>,
    pub(crate) admin: AdminApi,
    /// The links of this event loop with peers; `None` without a cluster.
    pub(crate) links: Option<Box<Links>>,
    pub(crate) observer: Arc<Observer>,
    pub(crate) random: SeededRandom,
    pub(crate) batch_bytes_max: usize,
    /// The caller of the request that is being handled.
    pub(crate) caller: Identity,
}

impl Service for Api {
    type LoopMessage = LoopMessage;

    fn body_bytes_max(&self, method: &str, path: &str, query: Option<&str>) -> usize {
        match Target::of(method, path, query).route.body {
            BodyLimit::Little => OTHER_BODY_BYTES_MAX,
            BodyLimit::Value => self.entities.store.properties().value_bytes_max,
            BodyLimit::Batch => self.batch_bytes_max,
            BodyLimit::Bytes(bytes) => bytes,
        }
    }

    fn admit(
        &mut self,
        head: &Head<'_, '_>,
        applicant: &AdmissionContext<'_, LoopMessage>,
    ) -> Admission {
        let admission = self.gate.admit(head, applicant);
        // A client that sent `Expect: 100-continue` has not sent its body yet, so the head alone
        // can save it the transfer.
        let refusal = match &admission {
            // Without the right, the head is not checked: the refusal would reveal which tables
            // exist.
            Admission::Granted(_) if head.expects_continue && self.gate.lets_in(head) => {
                self.refuse_by_head(head)
            }
            _ => None,
        };
        refusal.map_or(admission, Admission::Refused)
    }

    fn handle(
        &mut self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut LoopExchange<'_>,
    ) -> ServiceResult {
        exchange.timeline.is_wanted = wants_timing(request);
        let number = exchange.facts.request;
        let random = &mut self.random;
        if let Some(context) = self.observer.traced.begin(request, number, || random.next_u64()) {
            response.precede(TRACE_RESPONSE, context.to_string());
        }
        let mut target = Target::of(request.method, request.path, request.query);
        let judged = self.gate.judge(target.route.need, request, exchange);
        let answer = self.answer(judged, &mut target, request, exchange);
        self.finish(answer, response, exchange)
    }

    fn resume(
        &mut self,
        later: LoopMessage,
        response: &mut Response<'_>,
        exchange: &mut LoopExchange<'_>,
    ) -> ServiceResult {
        if let Some(trace) = self.observer.traced.of(exchange.facts.request) {
            response.precede(TRACE_RESPONSE, trace.context.to_string());
        }
        let result = match later {
            LoopMessage::Made(made) => made.arrive(exchange.timeline),
            LoopMessage::Forwarded(answer) => answer.reply(exchange.timeline, &self.observer.log),
            LoopMessage::Verified(held, identity) => {
                let answer = held.with_request(|request| {
                    let mut target = Target::of(request.method, request.path, request.query);
                    let need = target.route.need;
                    let judged = self.gate.judge_verified(identity, need, request, exchange);
                    self.answer(judged, &mut target, request, exchange)
                });
                return self.finish(answer, response, exchange);
            }
            LoopMessage::Served(_) => {
                let line = "the answer to a peer came to a request";
                Err(Failure::Refused(500, line.into()))
            }
        };
        self.finish(result.map(Answer::Reply), response, exchange)
    }

    fn begin(&mut self, turn: &mut LinkContext<'_, LoopMessage>) -> io::Result<()> {
        let Some(cluster) = &self.admin.cluster else { return Ok(()) };
        let random = SeededRandom::new(self.random.next_u64());
        let owner = Owner::new(Arc::clone(&self.entities), Arc::clone(&self.observer), random);
        let accounts = Arc::clone(&self.gate.accounts);
        self.links = Some(Box::new(Links::start(cluster, accounts, owner, turn)?));
        Ok(())
    }

    fn ready(&mut self, event: LinkEvent, turn: &mut LinkContext<'_, LoopMessage>) {
        if let Some(links) = &mut self.links {
            links.attend(event, Vec::new(), turn);
        }
    }

    fn has_to_settle(&self) -> bool {
        self.links.as_ref().is_some_and(|links| links.has_to_settle())
    }

    fn settle(&mut self, turn: &mut LinkContext<'_, LoopMessage>) -> bool {
        self.links.as_mut().is_some_and(|links| links.settle(turn))
    }

    fn told(&mut self, message: LoopMessage, turn: &mut LinkContext<'_, LoopMessage>) {
        if let (Some(links), LoopMessage::Served(served)) = (&mut self.links, message) {
            links.finish(*served, turn);
        }
    }

    fn upgraded(
        &mut self,
        ticket: Ticket,
        socket: mio::net::TcpStream,
        unread: Vec<u8>,
        turn: &mut LinkContext<'_, LoopMessage>,
    ) {
        if let Some(links) = &mut self.links {
            links.adopt(ticket, socket, unread, turn);
        }
    }

    fn panicked(
        &mut self,
        panicked: Option<&ContainedPanic>,
        timeline: &Timeline,
        facts: &RequestFacts,
    ) {
        log_panic(&self.observer.log, panicked, timeline, facts);
    }

    fn outcome_of(&self, ending: AbortReason) -> u8 {
        Outcome::of_ending(ending) as u8
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
    /// Checks a request whose body has not been sent yet, and returns the refusal if the head
    /// alone shows that it would be refused.
    fn refuse_by_head(&self, head: &Head<'_, '_>) -> Option<Refusal> {
        let Head { method, path, query, headers, .. } = *head;
        let request = Request { method, path, query, headers, body: &[] };
        let target = Target::of(method, path, query);
        let check = || target.route.check_query(query);
        let judged = match target.route.handler {
            Handler::Missing(MissingRoute::Method { is_of_documents: false }) => {
                return Some(by_head(405, OTHER_METHODS, Some(target.allowed)));
            }
            Handler::Missing(_) if !path.starts_with("/_") => Err(KNOWN_PATHS.clone().into()),
            Handler::Entity => self
                .entities
                .named(&request, check)
                .and_then(|_| self.entities.asked_write(&request, method == "PUT").map(|_| ())),
            Handler::Batch => {
                check().map_err(Failure::from).and_then(|()| self.entities.check_batch(&request))
            }
            _ => Ok(()),
        };
        match judged {
            // The handler decides about a missing table, after all rights have been checked.
            Err(Failure::Refused(404, _)) => None,
            Err(Failure::Refused(status, line)) => Some(by_head(status, &line, None)),
            _ => None,
        }
    }

    /// Answers a request about which the gate has decided. A request for one entity is forwarded to
    /// the node that owns the key.
    fn answer(
        &mut self,
        judged: GateDecision,
        target: &mut Target<'_>,
        request: &Request<'_>,
        exchange: &mut LoopExchange<'_>,
    ) -> HandlerResult {
        match judged {
            GateDecision::Answered(answer) => return Ok(answer),
            GateDecision::Admitted(caller) => self.caller = caller,
        }
        let Route { operation, handler, .. } = *target.route;
        if !matches!(handler, Handler::Entity) {
            return self.dispatch(target, request, exchange);
        }
        let named = self.entities.named(request, || target.route.check_query(request.query));
        let named = named.inspect_err(|_| route(exchange, operation))?;
        exchange.facts.key_hash = self.entities.keys.note(&named.key);
        if let Some(links) = &mut self.links
            && let Some(node) = links.elsewhere(&named.key)
        {
            return links.forward(operation, node, &named.key, request, exchange);
        }
        route(exchange, operation);
        self.entities.call(operation, &named, request, exchange.timeline)
    }

    /// Calls the handler of a route, except for those of one entity.
    fn dispatch(
        &mut self,
        target: &mut Target<'_>,
        request: &Request<'_>,
        exchange: &mut LoopExchange<'_>,
    ) -> HandlerResult {
        let operation = target.route.operation;
        match target.route.handler {
            Handler::Documents(_) if !self.lacks_documents(target.route) => {
                let (api, caller) = (&self.documents, &self.caller);
                return Ok(documents::call(api, target, request, caller, exchange));
            }
            Handler::LogIn => {
                let (api, verifier) = (&self.documents, &self.gate.verifier);
                return Ok(documents::log_in(api, target, request, verifier, exchange));
            }
            Handler::Documents(_) | Handler::Preflight => route(exchange, Operation::About),
            Handler::Missing(_) => route(exchange, Operation::Unknown),
            _ => route(exchange, operation),
        }
        target.route.check_query(request.query)?;
        match target.route.handler {
            Handler::Range => self.range(request, exchange),
            Handler::MultiGet => self.multi_get(request, exchange),
            Handler::Batch => self.batch(request, exchange),
            Handler::Changes => self.changes(request, exchange),
            Handler::Tables => self.tables(target, request),
            Handler::Peer => self.peer(request, exchange),
            Handler::Admin(page) => page(&self.admin, request),
            Handler::Profile(page) => {
                page(&self.admin, target.segment(2).unwrap_or_default(), request.query)
            }
            Handler::Documents(_) => Ok(no_documents().into()),
            Handler::Preflight => Ok(documents::preflight(request).into()),
            Handler::Methods => {
                let all = Methods::of(&Method::ALL).to_string();
                Ok(Reply::empty(200).with_header("Allow", all).into())
            }
            Handler::Missing(MissingRoute::Method { is_of_documents: false }) => {
                Ok(method_not_allowed(target.allowed).into())
            }
            Handler::Missing(why) if request.path.starts_with("/_") => {
                let allowed = target.allowed;
                Ok(documents::no_route(&self.documents, why, request.path, allowed).into())
            }
            _ => Err(KNOWN_PATHS.clone().into()),
        }
    }

    fn range(&mut self, request: &Request<'_>, exchange: &mut LoopExchange<'_>) -> HandlerResult {
        let query = ranges::parse(request.query)?;
        let (place, form) = (self.entities.place_of(request)?, form_of(request));
        if let Some(links) = &mut self.links
            && query.is_of_cluster
        {
            // The store chosen by `ack` and `from` is not needed: a node of a cluster keeps one
            // copy of its keys.
            return merged_range(&self.entities, links, (query, place.0, form), exchange);
        }
        self.entities.walk(EntitySelection::Range(query), form, place, exchange)
    }

    fn multi_get(
        &mut self,
        request: &Request<'_>,
        exchange: &mut LoopExchange<'_>,
    ) -> HandlerResult {
        EntityHeaders::of(request).check_body()?;
        let place = self.entities.place_of(request)?;
        let keys = multi_get::parse(request.body)?;
        let links = self.links.as_ref();
        let is_elsewhere =
            |key: &Vec<u8>| links.is_some_and(|links| links.elsewhere(key).is_some());
        if let Some(at) = keys.iter().position(is_elsewhere) {
            let line = format!(
                "key {} belongs to another node of the cluster: ask the node that has it, or for \
                 one key at a time",
                at + 1
            );
            return Err(line.into());
        }
        let clock = exchange.timeline.is_wanted.then(|| exchange.timeline.clock());
        let asked = EntitySelection::Keys(Arc::new(KeyList { keys, clock }));
        self.entities.walk(asked, Form::Ndjson, place, exchange)
    }

    /// Answers the handshake of a peer that wants to connect.
    fn peer(&mut self, request: &Request<'_>, exchange: &LoopExchange<'_>) -> HandlerResult {
        let Some(links) = &mut self.links else {
            let line = "this node is part of no cluster: start it with --cluster and --advertise";
            return Err(line.to_owned().into());
        };
        links.welcome(request, exchange)
    }

    /// Lists the tables that the caller may read, creates a table, or empties it.
    fn tables(&self, target: &Target<'_>, request: &Request<'_>) -> HandlerResult {
        let tables = &self.entities.tables;
        let may = |name: &str, right| self.caller.may(Scope::Table(name), right);
        let Some(name) = target.segment(2) else {
            let names = tables.names().into_iter().filter(|name| may(name, Right::Read));
            return Ok(Reply::value(200, &json!({ "tables": names.collect::<Vec<_>>() })).into());
        };
        check_name(name)?;
        if !may(name, Right::Write) {
            let line = "this account has no right to write to this table";
            return Err(Failure::Refused(403, line.into()));
        }
        if request.method == "PUT" {
            return Ok(match tables.make(name)? {
                true => Reply::line(201, "made").into(),
                false => Reply::line(200, "there already").into(),
            });
        }
        tables.check_others()?;
        let (table, entities) = (tables.find(name)?, Arc::clone(&self.entities));
        let acknowledgement = entities.acknowledgement(request)?;
        let Some(place) = tables.emptying.take() else {
            let line = "a table is being emptied already: one is at a time";
            return Err(Failure::Busy(line.into()));
        };
        page_on_thread("pellucid-empty", &EMPTYING, move || {
            // The place is free when this closure ends, before the reply is sent.
            let _place = place;
            let removed = entities.tables.empty(table, acknowledgement)?;
            Ok(Reply::value(200, &json!({ "removed": removed })))
        })
    }

    fn changes(&mut self, request: &Request<'_>, exchange: &mut LoopExchange<'_>) -> HandlerResult {
        let query = ChangesQuery::parse(request, self.entities.acknowledgement(request)?)?;
        let Some((name, database)) = &query.collection else {
            let table = self.entities.tables.named_in(request.query)?;
            let content = Content::Entities(table, table_name(request.query)?.into_owned());
            return self.changes.answer(&query, content, &self.caller, exchange);
        };
        if self.links.is_some() {
            return Ok(no_documents().into());
        }
        let collection = self.documents.readable_collection(database, name, &self.caller);
        let content = collection.and_then(|collection| {
            let memory = self.changes.memory().clone();
            Content::of_collection(collection, name, database.clone().into_owned(), memory)
        });
        match content {
            Ok(content) => self.changes.answer(&query, content, &self.caller, exchange),
            Err(error) => Ok(Reply::from(error).into()),
        }
    }

    fn batch(&mut self, request: &Request<'_>, exchange: &mut LoopExchange<'_>) -> HandlerResult {
        self.entities.check_batch(request)?;
        if self.links.is_none() && self.entities.is_large_batch(request) {
            return self.entities.large_batch(request, exchange.timeline);
        }
        let entries = batch::parse(request.body)?;
        if let Some(links) = &mut self.links
            && let Some(answer) = links.forward_batch(&entries, request, exchange)?
        {
            return Ok(answer);
        }
        self.entities.batch(&entries, request, exchange.timeline)
    }

    /// Writes the reply of an answer and sets its outcome in the account. For an answer that comes
    /// later, it begins the work instead.
    fn finish(
        &mut self,
        answer: HandlerResult,
        response: &mut Response<'_>,
        exchange: &mut LoopExchange<'_>,
    ) -> ServiceResult {
        let mut reply = match answer {
            Ok(Answer::Reply(reply)) => reply,
            Err(failure) => failure.into_reply(&self.observer.log),
            Ok(Answer::Pending(begin)) => {
                begin(exchange);
                return ServiceResult::Later;
            }
            Ok(Answer::Away) => return ServiceResult::Later,
        };
        end_execution(exchange.timeline);
        let handled = loop {
            exchange.facts.outcome = Outcome::of_status(reply.status) as u8;
            match reply.write(response, exchange.timeline) {
                Ok(handled) => break handled,
                // Its reply is not read from the disk, so this happens once at most.
                Err(failure) => reply = failure.into_reply(&self.observer.log),
            }
        };
        if let (Some(links), Body::Value(Value::Owned(bytes))) = (&mut self.links, reply.body) {
            links.give_back(bytes);
        }
        handled
    }

    /// Returns true if the route needs documents and the server is a node of a cluster, which has
    /// none.
    fn lacks_documents(&self, route: &Route) -> bool {
        route.needs_documents && self.links.is_some()
    }
}

/// The transport's refusal of a request by its head.
fn by_head(status: u16, line: &str, allow: Option<Methods>) -> Refusal {
    let allow = allow.map(|methods| methods.to_string().into());
    Refusal::ByHead { status, line: line.into(), allow }
}

/// The refusal of a method, with the allowed ones in `Allow`.
fn method_not_allowed(allowed: Methods) -> Reply {
    let reply = Reply::line(405, OTHER_METHODS);
    reply.with_header("Allow", allowed.to_string())
}

/// The refusal of a call that needs documents, on a node of a cluster.
fn no_documents() -> Reply {
    let message = "documents are not there on a sharded cluster: this server was started with \
                   --cluster, which has the entity API alone";
    let body = json!({ "error": true, "code": 501, "errorNum": 9, "errorMessage": message });
    Reply::value(501, &body)
}
