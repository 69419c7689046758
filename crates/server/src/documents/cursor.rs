//! `/_api/cursor`, `/_api/explain` and `/_api/query`.

use std::sync::Arc;
use std::time::Duration;

use pellucid_account::Timeline;
use pellucid_aql::{Execution, KillSwitch, Plan, QueryError, QueryOptions, Source, Warning};
use pellucid_clock::WallTime;
use pellucid_document::{Database, DocumentError, ErrorNumber, QueryData, settle_revisions};
use pellucid_value::{Ref, Value, json, packed};

use crate::access::{Identity, Right, Scope};
use crate::names::{QUERY_PARSE, QUERY_PLAN, QUERY_RUN};

use super::api::DocumentApi;
use super::call::{Call, Method};
use super::document::bad_json;
use super::extra::{profiled_trailer, trailer};
use super::queries::{Cursor, Rest, Running, stopwatch};
use super::reply::Reply;

/// Memory that one query may take that does not say.
const MEMORY_BYTES_DEFAULT: usize = 512 << 20;

/// Time that a cursor waits to be asked, if the query does not say: 30 s.
const TTL_SECONDS_DEFAULT: f64 = 30.0;

/// Values of a batch, if the query does not say.
const BATCH_SIZE_DEFAULT: usize = 1_000;

/// Bytes that a batch has room for at first.
const BATCH_BYTES: usize = 1 << 10;

pub(super) type Answer = Result<Reply, DocumentError>;

/// What a body asks for.
pub(super) struct Asked {
    pub(super) query: String,
    pub(super) bind_variables: Value,
    pub(super) options: QueryOptions,
    batch_size: usize,
    counts: bool,
    pub(super) is_stream: bool,
    may_retry: bool,
    pub(super) profile: i64,
    ttl_ms: u64,
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
            (Method::Put, None) => Err(ErrorNumber::HTTP_BAD_PARAMETER.into()),
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
        let id = self.documents.next_tick()?;
        let running = self.queries.begin(Running {
            id,
            database: database.name.clone(),
            query: asked.query.clone(),
            bind_variables: asked.bind_variables.clone(),
            is_stream: asked.is_stream,
            begun: WallTime::now(),
            since: stopwatch(),
            kill: KillSwitch::default(),
        });
        let answered = self.run(id, asked, database, caller, running.kill.clone(), timeline);
        self.queries.end(id);
        answered
    }

    fn run(
        &self,
        id: u64,
        asked: Asked,
        database: &Arc<Database>,
        caller: &Identity,
        kill: KillSwitch,
        timeline: &mut Timeline,
    ) -> Answer {
        let data = QueryData::new(&self.documents, database, self.acknowledgement);
        let data = Arc::new(data.with_rest(self.pool.resting()));
        let source: Arc<dyn Source> = Arc::clone(&data) as Arc<dyn Source>;
        let parsing = stopwatch();
        let statement = self.statements.read(&asked.query);
        timeline.lap(QUERY_PARSE);
        let statement = statement.map_err(|error| query_error(&error, "parsing"))?;
        let (parse_ns, planning) = (parsing.elapsed_ns(), stopwatch());
        let plan = match asked.profile {
            0 => statement.plan(&asked.bind_variables, &source, &asked.options),
            // What is shown has its values in it.
            _ => statement.plan_once(&asked.bind_variables, &source, &asked.options),
        };
        timeline.lap(QUERY_PLAN);
        let plan = plan.map_err(|error| query_error(&error, "parsing"))?;
        let plan_ns = planning.elapsed_ns();
        check_rights(&plan, &database.name, caller)?;
        let mut asked = asked;
        asked.is_stream &= !plan.is_modification();
        let binds = &asked.bind_variables;
        let execution =
            Execution::bound(Arc::clone(&plan), binds, source, asked.options.clone(), kill);
        let rest = rest_of(execution, &asked, &plan, [parse_ns, plan_ns]);
        timeline.lap(QUERY_RUN);
        let rest = rest.map_err(|error| query_error(&error, "executing"))?;
        self.give(cursor(id, &asked, database, rest, &data), 201)
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
        self.give(cursor, 200)
    }

    fn keep(&self, mut cursor: Box<Cursor>) -> Result<(), DocumentError> {
        cursor.expires_at_ms = WallTime::now().unix_ms() + cursor.ttl_ms;
        self.queries.keep(cursor)
    }

    /// Gives the next batch of a cursor, and keeps what is left.
    pub(super) fn give(&self, mut cursor: Box<Cursor>, status: u16) -> Answer {
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
            Rest::Ready(values) => {
                values.by_ref().take(cursor.batch_size).for_each(|value| write(value.view()));
                values.len() > 0
            }
            Rest::Stream(execution) => {
                let next = execution.next(cursor.batch_size);
                let (values, more) = match next {
                    Ok(next) => next,
                    Err(error) => {
                        self.queries.forget(cursor.id);
                        return Err(query_error(&error, "executing"));
                    }
                };
                values.iter().for_each(|value| write(value.view()));
                let more = more || !execution.is_done();
                if !more {
                    cursor.trailer = trailer(None, execution);
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
    pub(crate) fn explain_call(&self, call: &Call<'_>, database: &Arc<Database>) -> Answer {
        if call.method != Method::Post {
            return Err(ErrorNumber::HTTP_METHOD_NOT_ALLOWED.into());
        }
        let asked = asked(call)?;
        let data = QueryData::new(&self.documents, database, self.acknowledgement);
        let source: Arc<dyn Source> = Arc::new(data);
        let since = stopwatch();
        let plan = pellucid_aql::parse(&asked.query)
            .and_then(|parsed| Plan::new(&parsed, &asked.bind_variables, &source, &asked.options))
            .map_err(|error| query_error(&error, "parsing"))?;
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
                    .map_err(|error| query_error(&error, "parsing"))?;
                let names: Vec<_> = parsed.bind_names().iter().collect();
                Ok(Reply::success(
                    200,
                    serde_json::json!({
                        "parsed": true, "collections": [], "bindVars": names, "ast": [],
                        "warnings": [],
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
            (Method::Get, Some("rules")) => Ok(Reply::value(200, &serde_json::json!([]))),
            (Method::Get | Method::Put, Some("properties")) => Ok(Reply::success(
                200,
                serde_json::json!({
                    "enabled": true, "trackSlowQueries": false, "trackBindVars": true,
                    "maxSlowQueries": 0, "slowQueryThreshold": 10,
                    "slowStreamingQueryThreshold": 10, "maxQueryStringLength": 4096,
                }),
            )),
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

/// Runs a query that is not given as it is computed, and says what each batch says besides.
pub(super) fn rest_of(
    mut execution: Execution,
    asked: &Asked,
    plan: &Plan,
    times: [u64; 2],
) -> Result<(Rest, Vec<u8>), QueryError> {
    if asked.is_stream {
        return Ok((Rest::Stream(Box::new(execution)), Vec::new()));
    }
    let mut all = Vec::new();
    while !execution.is_done() {
        all.extend(execution.next(BATCH_SIZE_DEFAULT)?.0);
    }
    let count = asked.counts.then_some(all.len());
    let trailer = match asked.profile {
        0 => trailer(count, &execution),
        profile => profiled_trailer(count, &execution, plan, profile, times),
    };
    Ok((Rest::Ready(all.into_iter()), trailer))
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
    })
}

/// Reads what a body asks for.
pub(super) fn asked(call: &Call<'_>) -> Result<Asked, DocumentError> {
    if call.body.trim_ascii().is_empty() {
        return Err(ErrorNumber::QUERY_EMPTY.into());
    }
    let document =
        json::parse_packed(&call.body, json::Limits::default()).map_err(|e| bad_json(&e))?;
    let body = packed::open(&document).unwrap_or(Ref::Null);
    let query = body.attribute("query").as_str().unwrap_or_default().to_owned();
    if query.trim().is_empty() {
        return Err(ErrorNumber::QUERY_EMPTY.into());
    }
    let type_error =
        |what: &str| DocumentError::new(ErrorNumber::TYPE_ERROR, format!("expecting {what}"));
    let bind_variables = match body.attribute("bindVars") {
        Ref::Null => Value::Object(Arc::default()),
        binds @ Ref::Object(_) => binds.to_value(),
        _ => return Err(type_error("an object for 'bindVars'")),
    };
    let more = body.attribute("options");
    let option = |name: &str| match more.attribute(name) {
        Ref::Null => body.attribute(name),
        value => value,
    };
    let number = |value: Ref<'_>| match value {
        Ref::Number(number) => Some(number.to_double()),
        _ => None,
    };
    let batch_size = match number(body.attribute("batchSize")) {
        None => BATCH_SIZE_DEFAULT,
        Some(size) if size >= 1.0 => size as usize,
        Some(_) => return Err(type_error("a positive value for 'batchSize'")),
    };
    let memory = number(option("memoryLimit")).filter(|limit| *limit > 0.0);
    let runtime = number(option("maxRuntime")).filter(|seconds| *seconds > 0.0);
    let profile = match option("profile") {
        Ref::Bool(profiles) => i64::from(profiles),
        Ref::Number(number) => number.to_int(),
        _ => 0,
    };
    Ok(Asked {
        query,
        bind_variables,
        options: QueryOptions {
            memory_bytes_max: memory.map_or(MEMORY_BYTES_DEFAULT, |limit| limit as usize),
            runtime_max: runtime.map(|seconds| Duration::from_secs_f64(seconds.min(1e9))),
            warnings_max: number(option("maxWarningCount")).map_or(10, |count| count as usize),
            fail_on_warning: option("failOnWarning").is_true(),
            full_count: option("fullCount").is_true(),
            profile: profile > 0,
            is_light: false,
        },
        batch_size,
        counts: body.attribute("count").is_true(),
        is_stream: option("stream").is_true(),
        may_retry: option("allowRetry").is_true(),
        profile,
        ttl_ms: (number(body.attribute("ttl")).unwrap_or(TTL_SECONDS_DEFAULT).clamp(0.0, 1e9) * 1e3)
            as u64,
    })
}

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

/// An error of a query, told as ArangoDB does.
pub(super) fn query_error(error: &QueryError, during: &str) -> DocumentError {
    let message = format!("AQL: {} (while {during})", error.message);
    DocumentError::new(ErrorNumber(error.number), message)
}

pub(super) fn warnings(warnings: &[Warning]) -> serde_json::Value {
    let each = warnings
        .iter()
        .map(|warning| serde_json::json!({ "code": warning.number, "message": warning.message }));
    each.collect()
}

fn show(query: &Running) -> serde_json::Value {
    let bind_variables: serde_json::Value =
        serde_json::from_str(&query.bind_variables.to_json()).unwrap_or_default();
    let seconds = query.begun.unix_ms() / 1_000;
    serde_json::json!({
        "id": query.id.to_string(),
        "database": query.database,
        "user": "root",
        "query": query.query,
        "bindVars": bind_variables,
        "started": seconds,
        "runTime": query.since.elapsed_ns() as f64 / 1e9,
        "peakMemoryUsage": 0,
        "state": "executing",
        "stream": query.is_stream,
        "modificationQuery": false,
        "warnings": 0,
    })
}
