//! `/_api/cursor`, `/_api/explain` and `/_api/query`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pellucid_account::Timeline;
use pellucid_aql::{
    Execution, KillSwitch, Plan, QueryError, QueryOptions, RULES, Source, Warning, number,
};
use pellucid_clock::WallTime;
use pellucid_document::{
    Database, DocumentError, ErrorNumber, MayRead, QueryData, settle_revisions,
};
use pellucid_value::{Ref, json};

use crate::access::{Identity, Right, Scope};
use crate::names::{QUERY_PARSE, QUERY_PLAN, QUERY_RUN};

use super::api::DocumentApi;
use super::asked::{Asked, BATCH_SIZE_DEFAULT, asked};
use super::call::{Call, Method};
use super::extra::trailer_of;
use super::queries::{Cursor, Listed, Rest, Running, Streamed, Telling, Times, stopwatch};
use super::reply::Reply;

/// Bytes that a batch has room for at first.
const BATCH_BYTES: usize = 1 << 10;

pub(super) type Answer = Result<Reply, DocumentError>;

/// A query that is about to run.
struct Ask {
    listed: Listed,
    /// The number of the request that asks it.
    request: u64,
}

impl DocumentApi {
    /// Answers a call to `/_api/cursor…`. For threads that may block.
    pub(crate) fn cursor_call(
        self: &Arc<Self>,
        call: &Call<'_>,
        database: &Arc<Database>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Answer {
        let id = call.segment(2).map(|id| id.parse::<u64>().ok());
        match (call.method, id) {
            (Method::Post, None) => self.ask(call, database, caller, timeline),
            (Method::Post | Method::Put, Some(Some(id))) => {
                let answered = self.next_batch(call, database, id);
                timeline.lap(QUERY_RUN);
                answered
            }
            (Method::Delete, Some(Some(id))) => {
                let cursor = self.queries.take(&database.name, id)?;
                self.queries.forget(cursor.id);
                Ok(Reply::success(202, serde_json::json!({ "id": id.to_string() })))
            }
            (Method::Post | Method::Put | Method::Delete, Some(None)) => {
                Err(ErrorNumber::CURSOR_NOT_FOUND.into())
            }
            (Method::Put, None) => {
                let message = "expecting POST /_api/cursor/";
                Err(DocumentError::new(ErrorNumber::HTTP_BAD_PARAMETER, message))
            }
            _ => Err(ErrorNumber::HTTP_METHOD_NOT_ALLOWED.into()),
        }
    }

    fn ask(
        self: &Arc<Self>,
        call: &Call<'_>,
        database: &Arc<Database>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Answer {
        let asked = asked(call)?;
        let since = stopwatch();
        let kill = KillSwitch::default();
        if let Some(client) = &call.client {
            let kill = kill.clone();
            client.when_gone(move || kill.kill());
        }
        let listed = self.queries.begin(Running {
            id: self.documents.next_tick()?,
            database: database.name.clone(),
            query: asked.query.clone(),
            bind_variables: asked.bind_variables.clone(),
            is_stream: asked.is_stream,
            begun: WallTime::now(),
            since,
            kill,
            user: name_of(caller),
            is_modification: AtomicBool::new(false),
        });
        let run = Ask { listed, request: call.request };
        self.run(run, asked, database, caller, timeline)
    }

    fn run(
        &self,
        Ask { listed, request }: Ask,
        mut asked: Asked,
        database: &Arc<Database>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Answer {
        let data = QueryData::new(&self.documents, database, self.acknowledgement);
        let data = data.with_rest(self.pool.resting()).with_rights(rights_of(caller, database));
        let data = data.with_reported_version(&self.settings.reported_version);
        let data = Arc::new(data.with_account(timeline));
        let kill = listed.kill.clone();
        self.bound(&mut asked.options);
        let source: Arc<dyn Source> = Arc::clone(&data) as Arc<dyn Source>;
        let initializing_ns = listed.since.elapsed_ns();
        let parsing = stopwatch();
        let statement = self.statements.read(&asked.query);
        timeline.lap(QUERY_PARSE);
        let statement = statement.map_err(|error| parsing_error(&error))?;
        let (parsing_ns, planning) = (parsing.elapsed_ns(), stopwatch());
        let plan = match asked.profile {
            0 => statement.plan(&asked.bind_variables, &source, &asked.options, &kill),
            // What is shown has its values in it.
            _ => statement.plan_once(&asked.bind_variables, &source, &asked.options, &kill),
        };
        timeline.lap(QUERY_PLAN);
        let plan = plan.map_err(|error| parsing_error(&error))?;
        let (planning_ns, instantiating) = (planning.elapsed_ns(), stopwatch());
        check_rights(&plan, &database.name, caller)?;
        listed.is_modification.store(plan.is_modification(), Ordering::Relaxed);
        asked.is_stream &= !plan.is_modification();
        let binds = &asked.bind_variables;
        // Nodes are timed whether that is to be shown or not: a query that turns out to be slow
        // has to say which one was.
        let options = QueryOptions { profile: true, ..asked.options.clone() };
        let execution = Execution::bound(Arc::clone(&plan), binds, source, options, kill);
        let note = |execution: &Execution| {
            self.slow_queries.note(request, &asked.query, execution, &data);
        };
        let instantiating_ns = instantiating.elapsed_ns();
        let times = Times { initializing_ns, parsing_ns, planning_ns, instantiating_ns };
        let telling = Telling { plan, data: Arc::clone(&data), profile: asked.profile, times };
        let rest = rest_of(execution, &asked, telling, note);
        timeline.lap(QUERY_RUN);
        let rest = rest.map_err(|error| running_error(&error))?;
        let mut cursor = cursor(listed.id, &asked, database, rest, &data);
        // It runs on until nobody will ask for more.
        cursor.listed = asked.is_stream.then_some(listed);
        self.give(cursor, 201, request)
    }

    /// Has a query end when the server's limit says, if it would not before.
    fn bound(&self, options: &mut QueryOptions) {
        let longest = self.settings.query_runtime_max;
        if !longest.is_zero() {
            let asked = options.runtime_max.unwrap_or(longest);
            options.runtime_max = Some(asked.min(longest));
        }
    }

    fn next_batch(&self, call: &Call<'_>, database: &Database, id: u64) -> Answer {
        let mut cursor = self.queries.take(&database.name, id)?;
        let wanted = call.segment(3).and_then(|batch| batch.parse::<u64>().ok());
        if let (true, Some(wanted)) = (cursor.may_retry, wanted) {
            let last = cursor.last_batch.take();
            if let Some((_, body)) = last.as_ref().filter(|(number, _)| *number == wanted) {
                let reply = Reply::json(200, body.clone());
                cursor.last_batch = last;
                self.keep(cursor)?;
                return Ok(reply);
            }
            if wanted != cursor.next_batch || cursor.is_exhausted {
                cursor.last_batch = last;
                self.keep(cursor)?;
                return Err(ErrorNumber::CURSOR_NOT_FOUND.into());
            }
        }
        // Where a batch may be asked for again, its client may come back for it.
        if let (Some(client), Some(listed), false) =
            (&call.client, &cursor.listed, cursor.may_retry)
        {
            let kill = listed.kill.clone();
            client.when_gone(move || kill.kill());
        }
        self.give(cursor, 200, call.request)
    }

    fn keep(&self, mut cursor: Box<Cursor>) -> Result<(), DocumentError> {
        cursor.expires_at_ms = WallTime::now().unix_ms() + cursor.ttl_ms;
        self.queries.keep(cursor)
    }

    /// Gives the next batch of a cursor, and keeps what is left.
    pub(super) fn give(&self, mut cursor: Box<Cursor>, status: u16, request: u64) -> Answer {
        let mut body = Vec::with_capacity(BATCH_BYTES);
        body.extend_from_slice(b"{\"result\":[");
        let mut is_first = true;
        let mut write = |value: Ref<'_>| {
            if !is_first {
                body.push(b',');
            }
            is_first = false;
            json::write(value, &mut body);
        };
        let has_more = match &mut cursor.rest {
            Rest::Ready { values, bytes } => {
                let before = values.len().max(1);
                values.by_ref().take(cursor.batch_size).for_each(|value| write(value.view()));
                // What was given is free; of each the same is assumed.
                let share = values.len() as f64 / before as f64;
                *bytes = (*bytes as f64 * share) as usize;
                values.len() > 0
            }
            Rest::Stream(streamed) => {
                let Streamed { execution, telling } = &mut **streamed;
                let next = execution.next(cursor.batch_size);
                self.slow_queries.note(request, &cursor.text, execution, &telling.data);
                let (values, more) = match next {
                    Ok(next) => next,
                    Err(error) => {
                        self.queries.forget(cursor.id);
                        return Err(running_error(&error));
                    }
                };
                values.iter().for_each(|value| write(value.view()));
                let more = more || !execution.is_done();
                if !more {
                    cursor.trailer = trailer_of(None, execution, telling);
                }
                more
            }
        };
        if let Some(committed) = cursor.committed {
            settle_revisions(&mut body, &committed);
        }
        body.extend_from_slice(b"],\"hasMore\":");
        body.extend_from_slice(if has_more { b"true" } else { b"false" });
        let number = cursor.next_batch;
        if has_more {
            let (id, next) = (cursor.id, number + 1);
            body.extend_from_slice(
                format!(",\"id\":\"{id}\",\"nextBatchId\":\"{next}\"").as_bytes(),
            );
        }
        body.extend_from_slice(b",\"cached\":false");
        match cursor.trailer.is_empty() {
            true => body.extend_from_slice(b",\"extra\":{\"warnings\":[],\"stats\":{}}"),
            false => body.extend_from_slice(&cursor.trailer),
        }
        body.extend_from_slice(format!(",\"error\":false,\"code\":{status}}}").as_bytes());
        cursor.next_batch += 1;
        cursor.is_exhausted = !has_more;
        if cursor.may_retry {
            cursor.last_batch = Some((number, body.clone()));
        }
        if has_more || (cursor.may_retry && status == 200) {
            self.keep(cursor)?;
        } else {
            self.queries.forget(cursor.id);
        }
        Ok(Reply::json(status, body))
    }

    /// Answers `/_api/explain`. For threads that may block.
    pub(crate) fn explain_call(
        &self,
        call: &Call<'_>,
        database: &Arc<Database>,
        caller: &Identity,
    ) -> Answer {
        if call.method != Method::Post {
            return Err(ErrorNumber::HTTP_METHOD_NOT_ALLOWED.into());
        }
        let mut asked = asked(call)?;
        self.bound(&mut asked.options);
        let data = QueryData::new(&self.documents, database, self.acknowledgement);
        let data = data.with_rights(rights_of(caller, database));
        let source: Arc<dyn Source> = Arc::new(data);
        let since = stopwatch();
        let plan = pellucid_aql::parse(&asked.query)
            .and_then(|parsed| Plan::new(&parsed, &asked.bind_variables, &source, &asked.options))
            .map_err(|error| told(&error, format!("{error} (while parsing)")))?;
        check_rights(&plan, &database.name, caller)?;
        let explained = plan.explain().to_json();
        let plan_value: serde_json::Value = serde_json::from_str(&explained).unwrap_or_default();
        let seconds = since.elapsed_ns() as f64 / 1e9;
        let mut fields = serde_json::json!({
            "cacheable": !plan.is_modification(),
            "warnings": warnings(plan.warnings()),
            "stats": {
                "rulesExecuted": 0, "rulesSkipped": 0, "plansCreated": 1, "rules": {},
                "peakMemoryUsage": 0, "executionTime": seconds,
            },
        });
        let body: serde_json::Value = serde_json::from_slice(&call.body).unwrap_or_default();
        match body["options"]["allPlans"].as_bool() {
            Some(true) => fields["plans"] = serde_json::json!([plan_value]),
            _ => fields["plan"] = plan_value,
        }
        Ok(Reply::success(200, fields))
    }

    /// Answers `/_api/query…`.
    pub(crate) fn query_call(&self, call: &Call<'_>, database: &Database) -> Answer {
        match (call.method, call.segment(2)) {
            (Method::Post, None) => {
                let asked = asked(call)?;
                let parsed = pellucid_aql::parse(&asked.query)
                    .map_err(|error| told(&error, error.message.clone()))?;
                let names: Vec<_> = parsed.bind_names().iter().collect();
                Ok(Reply::success(
                    200,
                    serde_json::json!({
                        "parsed": true, "collections": parsed.collections(),
                        "bindVars": names, "ast": [], "warnings": [],
                    }),
                ))
            }
            (Method::Get, Some("current")) => {
                let list: Vec<_> =
                    self.queries.list(&database.name).iter().map(|query| show(query)).collect();
                Ok(Reply::value(200, &serde_json::json!(list)))
            }
            (Method::Get, Some("slow")) => Ok(Reply::value(200, &serde_json::json!([]))),
            (Method::Delete, Some("slow")) => Ok(Reply::success(200, serde_json::json!({}))),
            (Method::Get, Some("rules")) => {
                // Nothing can be done about any of them.
                let flags = serde_json::json!({ "hidden": false, "canBeDisabled": false });
                let rules = RULES.map(|name| serde_json::json!({ "name": name, "flags": flags }));
                Ok(Reply::value(200, &serde_json::json!(rules)))
            }
            (Method::Get | Method::Put, Some("properties")) => tracking(call),
            (Method::Delete, Some(id)) => {
                let id = id.parse().map_err(|_| ErrorNumber::QUERY_NOT_FOUND)?;
                if !self.queries.kill(&database.name, id) {
                    return Err(ErrorNumber::QUERY_NOT_FOUND.into());
                }
                Ok(Reply::success(200, serde_json::json!({})))
            }
            _ => Err(ErrorNumber::HTTP_METHOD_NOT_ALLOWED.into()),
        }
    }
}

/// What is tracked of queries, and that nothing else can be.
fn tracking(call: &Call<'_>) -> Answer {
    let properties = serde_json::json!({
        "enabled": true, "trackSlowQueries": false, "trackBindVars": true, "maxSlowQueries": 0,
        "slowQueryThreshold": 10, "slowStreamingQueryThreshold": 10, "maxQueryStringLength": 4096,
    });
    let asked = if call.method == Method::Put { call.object()? } else { serde_json::Map::new() };
    let is_other =
        |(name, value): &(&String, &serde_json::Value)| properties.get(name) != Some(*value);
    if let Some((name, _)) = asked.iter().find(is_other) {
        let message = format!("`{name}` cannot be set: slow queries are in the account");
        return Err(DocumentError::new(ErrorNumber::NOT_IMPLEMENTED, message));
    }
    Ok(Reply::success(200, properties))
}

/// Runs a query that is not given as it is computed, and says what each batch says besides.
pub(super) fn rest_of(
    mut execution: Execution,
    asked: &Asked,
    telling: Telling,
    note: impl FnOnce(&Execution),
) -> Result<(Rest, Vec<u8>), QueryError> {
    if asked.is_stream {
        return Ok((Rest::Stream(Box::new(Streamed { execution, telling })), Vec::new()));
    }
    let mut all = Vec::new();
    let mut ended = Ok(());
    while !execution.is_done() {
        match execution.next_to_keep(BATCH_SIZE_DEFAULT) {
            Ok((values, _)) => all.extend(values),
            Err(error) => ended = Err(error),
        }
    }
    note(&execution);
    ended?;
    let count = asked.counts.then_some(all.len());
    let trailer = trailer_of(count, &execution, &telling);
    Ok((Rest::Ready { values: all.into_iter(), bytes: execution.kept_bytes() }, trailer))
}

/// The cursor of a query that has begun.
pub(super) fn cursor(
    id: u64,
    asked: &Asked,
    database: &Database,
    (rest, trailer): (Rest, Vec<u8>),
    data: &QueryData,
) -> Box<Cursor> {
    Box::new(Cursor {
        id,
        database: database.name.clone(),
        text: if asked.is_stream { asked.query.clone() } else { String::new() },
        rest,
        batch_size: asked.batch_size,
        next_batch: 1,
        trailer,
        ttl_ms: asked.ttl_ms,
        expires_at_ms: 0,
        last_batch: None,
        may_retry: asked.may_retry,
        is_exhausted: false,
        // The data is let go of with its snapshot, unless the result is still to be computed.
        committed: data.committed(),
        listed: None,
    })
}

/// Which collections a query may read that only its values name; nothing where its caller may
/// read all.
fn rights_of(caller: &Identity, database: &Arc<Database>) -> Option<MayRead> {
    if matches!(caller, Identity::Anybody | Identity::Superuser) {
        return None;
    }
    let (caller, database) = (caller.clone(), Arc::clone(database));
    Some(Box::new(move |collection: &str| {
        caller.may(Scope::Collection(&database.name, collection), Right::Read)
    }))
}

/// Refuses a plan with collections that its caller may not read or write.
pub(super) fn check_rights(
    plan: &Plan,
    database: &str,
    caller: &Identity,
) -> Result<(), DocumentError> {
    for (collection, writes) in plan.collections() {
        let needed = if writes { Right::Write } else { Right::Read };
        if !caller.may(Scope::Collection(database, collection), needed) {
            return Err(ErrorNumber::FORBIDDEN.into());
        }
    }
    Ok(())
}

/// An error of a query, with the text that ArangoDB has for it. That depends on what was asked and
/// how far it came: which is in the answers that the tests hold ours against.
fn told(error: &QueryError, message: String) -> DocumentError {
    DocumentError::new(ErrorNumber(error.number), message)
}

/// An error of a query that was to be run, before it was.
fn parsing_error(error: &QueryError) -> DocumentError {
    match error.number {
        number::COLLECTION_NOT_FOUND => told(error, error.message.clone()),
        _ => told(error, format!("AQL: {error} (while parsing)")),
    }
}

/// An error of a query that ran.
pub(super) fn running_error(error: &QueryError) -> DocumentError {
    told(error, format!("AQL: {error} (while executing)"))
}

pub(super) fn warnings(warnings: &[Warning]) -> serde_json::Value {
    let each = warnings
        .iter()
        .map(|warning| serde_json::json!({ "code": warning.number, "message": warning.message }));
    each.collect()
}

/// Whose query it is, as ArangoDB tells it: `root` where nobody is asked who they are.
fn name_of(caller: &Identity) -> String {
    match caller {
        Identity::Anybody => "root".to_owned(),
        other => other.name().unwrap_or_default().to_owned(),
    }
}

fn show(query: &Running) -> serde_json::Value {
    let bind_variables: serde_json::Value =
        serde_json::from_str(&query.bind_variables.to_json()).unwrap_or_default();
    let seconds = query.begun.unix_ms() / 1_000;
    serde_json::json!({
        "id": query.id.to_string(),
        "database": query.database,
        "user": query.user,
        "query": query.query,
        "bindVars": bind_variables,
        "started": seconds,
        "runTime": query.since.elapsed_ns() as f64 / 1e9,
        "peakMemoryUsage": query.kill.peak_memory_bytes(),
        "state": if query.kill.is_killed() { "killed" } else { "executing" },
        "stream": query.is_stream,
        "modificationQuery": query.is_modification.load(Ordering::Relaxed),
        "warnings": query.kill.warnings(),
    })
}
