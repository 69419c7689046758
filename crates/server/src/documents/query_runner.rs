//! Execution of queries.
//!
//! A query is planned, bound to its data and run in the same way on any thread. Event loops run
//! only light queries: those with a plan from an earlier execution that look up one place of one
//! index and read little. To hand such a query to another thread would take longer than to run it.
//! Workers run all others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use pellucid_account::Timeline;
use pellucid_aql::{
    Execution, KillSwitch, Plan, PointResult, QueryError, QueryOptions, Source, StatementCache,
    number, unreadable, write_point,
};
use pellucid_clock::{Stopwatch, WallTime};
use pellucid_document::{
    Database, DocumentError, Documents, ErrorNumber, QueryData, ReadPermission,
};
use pellucid_store::{Acknowledgement, ReadMode};

use super::authorization::authorize;
use super::call::{Call, bad_request};
use super::completion::ReplyResult;
use super::cursor::{
    Cursor, RESULT_BEGIN, ResultRemainder, StreamedQuery, end_result, running_error,
};
use super::cursors::{Cursors, uptime_ms};
use super::encoding::Encoding;
use super::memory::RequestMemory;
use super::owner::Owner;
use super::query_extra::{
    PlannedQuery, Statistics, Times, push_trailer, to_json, trailer, warnings,
};
use super::query_request::{BATCH_SIZE_DEFAULT, QueryRequest};
use super::reply::{encoded, success};
use super::running_queries::{QueryRegistration, RunningQueries, RunningQuery, stopwatch};
use super::settings::DocumentSettings;
use super::slow_queries::SlowQueries;
use crate::access::{Identity, Right, Scope};
use crate::names::{QUERY_PARSE, QUERY_PLAN, QUERY_RUN};
use crate::reply::Reply;
use crate::routes::Method;

/// The first capacity of a reply to a light query: enough for one document of usual size, and below
/// the size from which the system's allocator first consolidates its free memory.
const REPLY_BYTES: usize = 1_000;

/// Tells the pool that a query pauses (true) or resumes (false).
pub(super) type PauseCallback = Arc<dyn Fn(bool) + Send + Sync>;

/// The runner of queries, with their plans, their cursors and the list of running ones.
pub(crate) struct QueryRunner {
    documents: Arc<Documents>,
    /// The cache of parsed queries and their plans.
    statements: StatementCache,
    running: Arc<RunningQueries>,
    cursors: Arc<Cursors>,
    slow_queries: Arc<SlowQueries>,
    memory: RequestMemory,
    acknowledgement: Acknowledgement,
    settings: DocumentSettings,
    resting: PauseCallback,
}

/// The way in which a query is planned and run.
#[derive(Clone, Copy)]
enum Mode {
    /// On an event loop, with the plan of an earlier execution, and with reads of this mode.
    Light(ReadMode),
    /// On a worker, with a plan that later executions can use.
    Worker,
    /// On a worker, with a plan for these bind values only, for an explanation or a profile.
    Shown,
}

/// The caller of a query and its database.
#[derive(Clone, Copy)]
struct Context<'a> {
    database: &'a Arc<Database>,
    caller: &'a Identity,
}

/// A query that an event loop has run.
#[allow(clippy::large_enum_variant, reason = "a box would be an allocation for each light query")]
enum LightResult {
    Reply(Reply),
    /// A result that may not fit in one batch.
    Cursor(Box<Cursor>),
    /// Data of the query is not in memory.
    NotInMemory,
}

impl QueryRunner {
    pub(super) fn new(
        documents: &Arc<Documents>,
        memory: &RequestMemory,
        acknowledgement: Acknowledgement,
        settings: &DocumentSettings,
        resting: PauseCallback,
    ) -> QueryRunner {
        QueryRunner {
            documents: Arc::clone(documents),
            statements: StatementCache::default(),
            running: Arc::default(),
            cursors: Arc::new(Cursors::new(memory.budget().clone())),
            slow_queries: Arc::default(),
            memory: memory.clone(),
            acknowledgement,
            settings: settings.clone(),
            resting,
        }
    }

    pub(super) fn running(&self) -> &Arc<RunningQueries> {
        &self.running
    }

    pub(super) fn cursors(&self) -> &Arc<Cursors> {
        &self.cursors
    }

    pub(super) fn slow_queries(&self) -> &Arc<SlowQueries> {
        &self.slow_queries
    }

    /// Answers a call to `/_api/cursor…`. It may block.
    pub(super) fn answer(
        &self,
        call: &Call<'_>,
        database: &Arc<Database>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> ReplyResult {
        let id = call.segment(2).map(|id| id.parse::<u64>().ok());
        match (call.method, id) {
            (Method::Post, None) => self.start(call, Context { database, caller }, timeline),
            (Method::Post | Method::Put, Some(Some(id))) => {
                let replied = self.next_batch(call, database, id, caller);
                timeline.lap(QUERY_RUN);
                replied
            }
            (Method::Delete, Some(Some(id))) => {
                self.cursors.remove(database.id, id, caller)?;
                Ok(success(202, serde_json::json!({ "id": id.to_string() })))
            }
            (Method::Post | Method::Put | Method::Delete, Some(None)) => {
                Err(ErrorNumber::CURSOR_NOT_FOUND.into())
            }
            _ => Err(ErrorNumber::HTTP_METHOD_NOT_ALLOWED.into()),
        }
    }

    /// The reply to a light query; `None` for other calls, and if the query would have to wait. The
    /// timeline is not changed then.
    pub(super) fn answer_light(
        &self,
        call: &Call<'_>,
        database: &Arc<Database>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Option<Reply> {
        let local = self.documents.store().local()?;
        let before = timeline.clone();
        let mut result = None;
        let is_in_memory = local.all_in_memory(&mut |reads| {
            let context = Context { database, caller };
            result = self.run_light(call, context, reads, timeline);
            !matches!(result, Some(LightResult::NotInMemory))
        });
        match result.filter(|_| is_in_memory) {
            Some(LightResult::Reply(reply)) => Some(reply),
            Some(LightResult::Cursor(mut cursor)) => {
                cursor.id = self.running.next_id();
                Some(self.give(cursor, 201, call).unwrap_or_else(Reply::from))
            }
            Some(LightResult::NotInMemory) | None => {
                *timeline = before;
                None
            }
        }
    }

    /// Runs a light query; `None` if it is not light.
    fn run_light(
        &self,
        call: &Call<'_>,
        context: Context<'_>,
        reads: ReadMode,
        timeline: &mut Timeline,
    ) -> Option<LightResult> {
        let request = QueryRequest::of(call, &self.settings, self.memory.budget()).ok()?;
        if request.is_stream || request.profile != 0 {
            return None;
        }
        let kill = KillSwitch::default();
        let query = self.plan(&request, context, Mode::Light(reads), &kill, None, timeline).ok()?;
        check_rights(&query.plan, context).ok()?;
        let result = match self.run_point(&request, &query, timeline) {
            Ok(Some(body)) => Ok(LightResult::Reply(Reply::json(201, body))),
            Err(error) => Err(error),
            Ok(None) => {
                let cursor = self.run(
                    query,
                    &request,
                    context,
                    Mode::Light(reads),
                    kill,
                    timeline,
                    |_, _| {},
                );
                cursor.map(LightResult::Cursor)
            }
        };
        match result {
            Err(QueryError::NotLight) => None,
            Err(QueryError::NotInMemory) => Some(LightResult::NotInMemory),
            Err(error) => Some(LightResult::Reply(running_error(&error).into())),
            Ok(result) => Some(result),
        }
    }

    /// Runs a query that looks up one place, without an execution, and returns the body of its
    /// reply; `None` for other queries.
    fn run_point(
        &self,
        request: &QueryRequest,
        query: &PlannedQuery,
        timeline: &mut Timeline,
    ) -> Result<Option<Vec<u8>>, QueryError> {
        if !request.is_plain() {
            return Ok(None);
        }
        let since = stopwatch();
        let mut body = Vec::with_capacity(REPLY_BYTES);
        body.extend_from_slice(RESULT_BEGIN);
        let (binds, data) = (&request.bind_variables, &*query.data);
        let written = write_point(&query.plan, binds, data, request.batch_size, &mut body);
        timeline.lap(QUERY_RUN);
        let Some(PointResult { values, stats }) = written? else { return Ok(None) };
        let statistics = Statistics { stats, elapsed_ns: since.elapsed_ns(), warnings: &[] };
        let count = request.counts.then_some(values);
        end_result(None, |out| push_trailer(count, &statistics, out), 201, &mut body);
        Ok(Some(body))
    }

    /// Runs a new query, and returns its first batch.
    fn start(&self, call: &Call<'_>, context: Context<'_>, timeline: &mut Timeline) -> ReplyResult {
        let mut memory = self.memory.of_body(&call.body)?;
        let since = stopwatch();
        let mut request = self.request(call)?;
        let kept = request.query.len() * 2 + request.bind_variables.size_bytes();
        memory.give_back(memory.held_bytes().saturating_sub(kept));
        let kill = KillSwitch::default();
        if let Some(client) = &call.client {
            let kill = kill.clone();
            client.when_gone(move || kill.kill());
        }
        let listed = self.running.begin(RunningQuery {
            id: self.running.next_id(),
            database: context.database.name.clone(),
            query: request.query.clone(),
            bind_variables: request.bind_variables.clone(),
            is_stream: request.is_stream,
            begun: WallTime::now(),
            since,
            kill: kill.clone(),
            runtime_max: request.options.runtime_max,
            owner: Owner::of(context.caller),
            is_modification: AtomicBool::new(false),
            _memory: memory,
        });
        if let Some(control) = &call.control {
            control.runs(listed.running());
        }
        let mode = if request.profile == 0 { Mode::Worker } else { Mode::Shown };
        let query = self.plan(&request, context, mode, &kill, Some(&listed.since), timeline);
        let query = query.map_err(|error| planning_error(&error))?;
        check_rights(&query.plan, context)?;
        listed.is_modification.store(query.plan.is_modification(), Ordering::Relaxed);
        request.is_stream &= !query.plan.is_modification();
        let note = |execution: &Execution, data: &QueryData| {
            self.slow_queries.note(call.request, &request.query, execution, data);
        };
        let cursor = self.run(query, &request, context, mode, kill, timeline, note);
        let mut cursor = cursor.map_err(|error| running_error(&error))?;
        cursor.id = listed.id;
        let has_written = cursor.committed.is_some();
        // A streamed query is listed until its cursor is gone. Others are listed until their reply
        // is written.
        let listed = match request.is_stream {
            true => {
                cursor.listed = Some(listed);
                None
            }
            false => Some(listed),
        };
        let given = cursor.settle_memory().and_then(|()| self.give(cursor, 201, call));
        drop::<Option<QueryRegistration>>(listed);
        given.map_err(|mut error| {
            if has_written {
                error.message += " (the writes of the query were made)";
            }
            error
        })
    }

    /// The request of a call, within the limits of the server.
    fn request(&self, call: &Call<'_>) -> Result<QueryRequest, DocumentError> {
        let mut request = QueryRequest::of(call, &self.settings, self.memory.budget())?;
        request.bound_runtime(self.settings.query_runtime_max);
        Ok(request)
    }

    /// Plans a query. `since` runs from the beginning of its preparation, if its steps are timed.
    fn plan(
        &self,
        request: &QueryRequest,
        context: Context<'_>,
        mode: Mode,
        kill: &KillSwitch,
        since: Option<&Stopwatch>,
        timeline: &mut Timeline,
    ) -> Result<PlannedQuery, QueryError> {
        let elapsed_ns = || since.map_or(0, Stopwatch::elapsed_ns);
        let (binds, options) = (&request.bind_variables, &request.options);
        let initialized_ns = elapsed_ns();
        let statement = match mode {
            Mode::Light(_) => self.statements.find(&request.query).ok_or(QueryError::NotLight),
            Mode::Worker | Mode::Shown => self.statements.read(&request.query, options),
        };
        timeline.lap(QUERY_PARSE);
        let (statement, parsed_ns) = (statement?, elapsed_ns());
        let is_light = matches!(mode, Mode::Light(_));
        let caller = || Arc::new(ArcSwap::from_pointee(context.caller.clone()));
        let caller = (!is_light).then(caller);
        let data = Arc::new(self.data(context, caller.as_ref(), mode, timeline));
        let source: Arc<dyn Source> = Arc::clone(&data) as Arc<dyn Source>;
        let plan = match mode {
            Mode::Light(_) => statement.light(binds, &*data).ok_or(QueryError::NotLight),
            Mode::Worker => statement.plan(binds, &source, options, kill),
            // A plan for these values only shows its constants.
            Mode::Shown => {
                Plan::new(statement.parsed(), binds, &source, options, kill).map(Arc::new)
            }
        };
        timeline.lap(QUERY_PLAN);
        let plan = plan?;
        let times = Times {
            initializing_ns: initialized_ns,
            parsing_ns: parsed_ns - initialized_ns,
            planning_ns: elapsed_ns() - parsed_ns,
            instantiating_ns: 0,
        };
        Ok(PlannedQuery { plan, data, statement, caller, profile: request.profile, times })
    }

    /// The data of a query.
    fn data(
        &self,
        context: Context<'_>,
        caller: Option<&Arc<ArcSwap<Identity>>>,
        mode: Mode,
        timeline: &Timeline,
    ) -> QueryData {
        let data = QueryData::new(&self.documents, context.database, self.acknowledgement);
        if let Mode::Light(reads) = mode {
            return data.light(reads);
        }
        let may_read = caller.and_then(|caller| rights_of(context, caller));
        let version = &self.settings.reported_version;
        data.for_caller(Arc::clone(&self.resting), may_read, version, timeline)
    }

    /// Runs a planned query to its end, or only begins it if its result is streamed. `note` is
    /// called after a run to the end.
    #[allow(clippy::too_many_arguments, reason = "a query, its context and its observers")]
    fn run(
        &self,
        mut query: PlannedQuery,
        request: &QueryRequest,
        context: Context<'_>,
        mode: Mode,
        kill: KillSwitch,
        timeline: &mut Timeline,
        note: impl FnOnce(&Execution, &QueryData),
    ) -> Result<Box<Cursor>, QueryError> {
        let is_light = matches!(mode, Mode::Light(_));
        let instantiating = (!is_light).then(stopwatch);
        // Workers always time the nodes of the plan, because the account of a slow query tells
        // which node was slow.
        let options = QueryOptions { profile: !is_light, is_light, ..request.options.clone() };
        let source: Arc<dyn Source> = Arc::clone(&query.data) as Arc<dyn Source>;
        let (plan, binds) = (Arc::clone(&query.plan), &request.bind_variables);
        let mut execution = Execution::new(plan, binds, source, options, kill);
        query.times.instantiating_ns = instantiating.map_or(0, |watch| watch.elapsed_ns());
        let data = Arc::clone(&query.data);
        let plan = Arc::clone(&query.plan);
        let (rest, trailer) = if request.is_stream {
            timeline.lap(QUERY_RUN);
            (ResultRemainder::Stream(Box::new(StreamedQuery { execution, query })), Vec::new())
        } else {
            let (mut all, mut ended) = (Vec::new(), Ok(()));
            while !execution.is_done() {
                match execution.next(BATCH_SIZE_DEFAULT, usize::MAX) {
                    Ok(values) => all.extend(values),
                    Err(error) => ended = Err(error),
                }
            }
            note(&execution, &data);
            timeline.lap(QUERY_RUN);
            if let Err(error) = ended {
                if error == QueryError::NotLight {
                    query.statement.note_heavy();
                }
                return Err(error);
            }
            let count = request.counts.then_some(all.len());
            let trailer = trailer(count, &execution, &query);
            (
                ResultRemainder::Ready { values: all.into_iter(), bytes: execution.kept_bytes() },
                trailer,
            )
        };
        Ok(Box::new(Cursor {
            // The caller sets the number.
            id: 0,
            database: context.database.id,
            owner: Owner::of(context.caller),
            collections: plan.collections().map(|(name, _)| name.to_owned()).collect(),
            text: if request.is_stream { request.query.clone() } else { String::new() },
            rest,
            batch_size: request.batch_size,
            next_batch: 1,
            trailer,
            ttl_ms: request.ttl_ms,
            expires_at_ms: 0,
            last_batch: None,
            may_retry: request.may_retry,
            is_exhausted: false,
            // The data and its snapshot are dropped here, unless the result is streamed.
            committed: data.committed(),
            listed: None,
            memory: self.cursors.memory(),
        }))
    }

    fn next_batch(
        &self,
        call: &Call<'_>,
        database: &Database,
        id: u64,
        caller: &Identity,
    ) -> ReplyResult {
        let cursor = self.cursors.take(database.id, id, caller)?;
        // Rights may have been revoked since the previous batch.
        let may_read = |name: &String| authorize(caller, &database.name, name, Right::Read);
        if let Err(error) = cursor.collections.iter().try_for_each(may_read) {
            self.cursors.forget(cursor.id);
            return Err(error);
        }
        if let ResultRemainder::Stream(streamed) = &cursor.rest
            && let Some(by_whose_rights) = &streamed.query.caller
        {
            by_whose_rights.store(Arc::new(caller.clone()));
        }
        if let (Some(control), Some(listed)) = (&call.control, &cursor.listed) {
            control.runs(listed.running());
        }
        if let Some(batch) = call.segment(3) {
            // No batch has the number 0.
            let wanted = batch.parse::<u64>().unwrap_or(0);
            let last = cursor.last_batch.as_ref().filter(|(number, _)| *number == wanted);
            if let Some((_, body)) = last {
                let mut out = Encoding::new(self.memory.of_call(), call.control.as_ref());
                let copied = out.bytes(body);
                self.keep(cursor)?;
                copied?;
                return Ok(encoded(200, out));
            }
            if wanted != cursor.next_batch || cursor.is_exhausted {
                let is_last = wanted == cursor.next_batch - 1;
                self.keep(cursor)?;
                return Err(match is_last {
                    true => bad_request("expecting allowRetry option to be true"),
                    false => ErrorNumber::CURSOR_NOT_FOUND.into(),
                });
            }
        }
        // With `allowRetry`, a client that is gone may return for the batch.
        if let (Some(client), Some(listed), false) =
            (&call.client, &cursor.listed, cursor.may_retry)
        {
            let kill = listed.running().kill.clone();
            client.when_gone(move || kill.kill());
        }
        self.give(cursor, 200, call)
    }

    /// Stores a cursor until its next batch is asked for.
    fn keep(&self, mut cursor: Box<Cursor>) -> Result<(), DocumentError> {
        cursor.expires_at_ms = uptime_ms() + cursor.ttl_ms;
        self.cursors.keep(cursor)
    }

    /// Makes the reply with the next batch of a cursor, and keeps the rest.
    fn give(&self, mut cursor: Box<Cursor>, status: u16, call: &Call<'_>) -> ReplyResult {
        let mut out = Encoding::new(self.memory.of_call(), call.control.as_ref());
        let note = |text: &str, execution: &Execution, data: &QueryData| {
            self.slow_queries.note(call.request, text, execution, data);
        };
        if let Err(error) = cursor.write_batch(status, &mut out, note) {
            self.cursors.forget(cursor.id);
            return Err(error);
        }
        if !cursor.is_exhausted || (cursor.may_retry && status == 200) {
            self.keep(cursor)?;
        } else {
            self.cursors.forget(cursor.id);
        }
        Ok(encoded(status, out))
    }

    /// Answers `/_api/explain`. It may block.
    pub(super) fn explain(
        &self,
        call: &Call<'_>,
        database: &Arc<Database>,
        caller: &Identity,
    ) -> ReplyResult {
        let context = Context { database, caller };
        let _memory = self.memory.of_body(&call.body)?;
        let request = self.request(call)?;
        let since = stopwatch();
        let kill = call.control.as_ref().map(|control| control.kill_switch()).unwrap_or_default();
        let timeline = &mut Timeline::off();
        let query = self.plan(&request, context, Mode::Shown, &kill, None, timeline);
        let query =
            query.map_err(|error| query_error(&error, format!("{error} (while parsing)")))?;
        check_rights(&query.plan, context)?;
        let plan = to_json(query.plan.explain().view());
        let seconds = since.elapsed_ns() as f64 / 1e9;
        let mut fields = serde_json::json!({
            "cacheable": !query.plan.is_modification(),
            "warnings": warnings(query.plan.warnings()),
            "stats": {
                "rulesExecuted": 0, "rulesSkipped": 0, "plansCreated": 1, "rules": {},
                "peakMemoryUsage": 0, "executionTime": seconds,
            },
        });
        match request.wants_all_plans {
            true => fields["plans"] = vec![plan].into(),
            false => fields["plan"] = plan,
        }
        Ok(success(200, fields))
    }

    /// Answers a request to parse a query. It may block.
    pub(super) fn parse(&self, call: &Call<'_>) -> ReplyResult {
        let _memory = self.memory.of_body(&call.body)?;
        let request = QueryRequest::of(call, &self.settings, self.memory.budget())?;
        let (parsed, collections) =
            pellucid_aql::parse_with_collections(&request.query, &request.options)
                .map_err(|error| query_error(&error, error.to_string()))?;
        let names: Vec<_> = parsed.bind_names().iter().collect();
        let fields = serde_json::json!({
            "parsed": true, "collections": collections,
            "bindVars": names, "ast": [], "warnings": [],
        });
        Ok(success(200, fields))
    }
}

/// The check for collections that a query names only by computed values; `None` if its caller may
/// read all.
fn rights_of(context: Context<'_>, caller: &Arc<ArcSwap<Identity>>) -> Option<ReadPermission> {
    if matches!(context.caller, Identity::Anybody | Identity::Superuser(_)) {
        return None;
    }
    let (caller, database) = (Arc::clone(caller), Arc::clone(context.database));
    Some(Box::new(move |collection: &str| {
        caller.load().may(Scope::Collection(&database.name, collection), Right::Read)
    }))
}

/// Checks that the caller may read or write all collections of a plan.
fn check_rights(plan: &Plan, context: Context<'_>) -> Result<(), DocumentError> {
    for (collection, writes) in plan.collections() {
        let needed = if writes { Right::Write } else { Right::Read };
        let scope = Scope::Collection(&context.database.name, collection);
        if !context.caller.may(scope, Right::Read) {
            // The same error as when the query is planned.
            let what = format!("AQL: {} (while parsing)", unreadable(collection));
            return Err(DocumentError::new(ErrorNumber::FORBIDDEN, what));
        }
        if !context.caller.may(scope, needed) {
            return Err(ErrorNumber::FORBIDDEN.into());
        }
    }
    Ok(())
}

/// Makes the error of a query with `message`. As in ArangoDB, the text depends on the call and on
/// the step that failed.
fn query_error(error: &QueryError, message: String) -> DocumentError {
    DocumentError::new(ErrorNumber(error.number()), message)
}

/// Makes the error of a query that failed before it ran.
fn planning_error(error: &QueryError) -> DocumentError {
    match error.number() {
        number::COLLECTION_NOT_FOUND => query_error(error, error.to_string()),
        _ => query_error(error, format!("AQL: {error} (while parsing)")),
    }
}
