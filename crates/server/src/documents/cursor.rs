//! `/_api/cursor`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pellucid_account::Timeline;
use pellucid_aql::{
    Execution, KillSwitch, Plan, QueryError, QueryOptions, Source, Warning, number,
};
use pellucid_budget::Share;
use pellucid_clock::WallTime;
use pellucid_document::{
    Database, DocumentError, ErrorNumber, MayRead, QueryData, settle_revisions,
};

use crate::access::{Identity, Right, Scope};
use crate::names::{QUERY_PARSE, QUERY_PLAN, QUERY_RUN};

use super::api::DocumentApi;
use super::asked::{Asked, BATCH_SIZE_DEFAULT, asked};
use super::call::{Call, Method};
use super::encoding::Encoding;
use super::extra::trailer_of;
use super::memory::over_budget;
use super::owner::Owner;
use super::queries::{Cursor, Listed, Rest, Running, Streamed, Telling, Times, stopwatch};
use super::reply::Reply;

/// Bytes from which on nothing is added to a batch, however many values were asked for: 16 MiB.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Bytes that one byte of a query's body takes in parsed forms at most, before those that are not
/// needed any more are gone: the packed document, and its bind variables apart.
const PARSED_PER_BYTE: usize = 6;

/// A body up to this size is parsed without a look at the memory for requests.
const UNCOUNTED_BODY_BYTES: usize = 4 << 10;

pub(super) type Answer = Result<Reply, DocumentError>;

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
                let answered = self.next_batch(call, (database, id), caller);
                timeline.lap(QUERY_RUN);
                answered
            }
            (Method::Delete, Some(Some(id))) => {
                self.queries.remove(&database.name, id, caller)?;
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
        let mut memory = self.memory_of_body(call)?;
        let since = stopwatch();
        let mut asked = asked(call, &self.settings, &self.memory)?;
        self.bound(&mut asked.options);
        let kept = asked.query.len() * 2 + asked.bind_variables.size_bytes();
        memory.give_back(memory.held_bytes().saturating_sub(kept));
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
            runtime_max: asked.options.runtime_max,
            owner: Owner::of(caller),
            is_modification: AtomicBool::new(false),
            _memory: memory,
        });
        if let Some(control) = &call.control {
            control.runs(listed.running());
        }
        self.run(call, listed, asked, (database, caller), timeline)
    }

    /// The memory for parsing a body, taken.
    ///
    /// # Errors
    /// 32 if there is less.
    pub(super) fn memory_of_body(&self, call: &Call<'_>) -> Result<Share, DocumentError> {
        let mut memory = self.memory_of_call();
        if call.body.len() > UNCOUNTED_BODY_BYTES {
            memory.take(call.body.len().saturating_mul(PARSED_PER_BYTE)).map_err(over_budget)?;
        }
        Ok(memory)
    }

    fn run(
        &self,
        call: &Call<'_>,
        listed: Listed,
        mut asked: Asked,
        (database, caller): (&Arc<Database>, &Identity),
        timeline: &mut Timeline,
    ) -> Answer {
        let data = QueryData::new(&self.documents, database, self.acknowledgement);
        let data = data.with_rest(self.pool.resting()).with_rights(rights_of(caller, database));
        let data = data.with_reported_version(&self.settings.reported_version);
        let data = Arc::new(data.with_account(timeline));
        let kill = listed.kill.clone();
        let source: Arc<dyn Source> = Arc::clone(&data) as Arc<dyn Source>;
        let initializing_ns = listed.since.elapsed_ns();
        let parsing = stopwatch();
        let statement = self.statements.read(&asked.query, &asked.options);
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
            self.slow_queries.note(call.request, &asked.query, execution, &data);
        };
        let instantiating_ns = instantiating.elapsed_ns();
        let times = Times { initializing_ns, parsing_ns, planning_ns, instantiating_ns };
        let telling = Telling { plan, data: Arc::clone(&data), profile: asked.profile, times };
        let rest = rest_of(execution, &asked, telling, note);
        timeline.lap(QUERY_RUN);
        let rest = rest.map_err(|error| running_error(&error))?;
        let mut cursor = self.cursor(listed.id, &asked, (database, caller), rest, &data);
        cursor.settle_memory()?;
        if asked.is_stream {
            // It runs on until nobody will ask for more.
            cursor.listed = Some(listed);
            return self.give(cursor, 201, call);
        }
        // Listed while its answer is written, which ends with it.
        let given = self.give(cursor, 201, call);
        drop(listed);
        given
    }

    /// Has a query end when the server's limit says, if it would not before.
    pub(super) fn bound(&self, options: &mut QueryOptions) {
        let longest = self.settings.query_runtime_max;
        if !longest.is_zero() {
            let asked = options.runtime_max.unwrap_or(longest);
            options.runtime_max = Some(asked.min(longest));
        }
    }

    fn next_batch(
        &self,
        call: &Call<'_>,
        (database, id): (&Database, u64),
        caller: &Identity,
    ) -> Answer {
        let mut cursor = self.queries.take(&database.name, id, caller)?;
        if let (Some(control), Some(listed)) = (&call.control, &cursor.listed) {
            control.runs(listed.running());
        }
        let wanted = call.segment(3).and_then(|batch| batch.parse::<u64>().ok());
        if let (true, Some(wanted)) = (cursor.may_retry, wanted) {
            let last = cursor.last_batch.take();
            if let Some((_, body)) = last.as_ref().filter(|(number, _)| *number == wanted) {
                let mut out = Encoding::new(self.memory_of_call(), call.control.as_ref());
                let copied = out.bytes(body);
                cursor.last_batch = last;
                self.keep(cursor)?;
                copied?;
                return Ok(Reply::encoded(200, out));
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
            let kill = listed.running().kill.clone();
            client.when_gone(move || kill.kill());
        }
        self.give(cursor, 200, call)
    }

    fn keep(&self, mut cursor: Box<Cursor>) -> Result<(), DocumentError> {
        cursor.expires_at_ms = WallTime::now().unix_ms() + cursor.ttl_ms;
        self.queries.keep(cursor)
    }

    /// Gives the next batch of a cursor, and keeps what is left.
    pub(super) fn give(&self, mut cursor: Box<Cursor>, status: u16, call: &Call<'_>) -> Answer {
        let mut out = Encoding::new(self.memory_of_call(), call.control.as_ref());
        if let Err(error) = self.write_batch(&mut cursor, (status, call.request), &mut out) {
            self.queries.forget(cursor.id);
            return Err(error);
        }
        if !cursor.is_exhausted || (cursor.may_retry && status == 200) {
            self.keep(cursor)?;
        } else {
            self.queries.forget(cursor.id);
        }
        Ok(Reply::encoded(status, out))
    }

    /// Writes the next batch of a cursor, and has the cursor stand behind it.
    fn write_batch(
        &self,
        cursor: &mut Cursor,
        (status, request): (u16, u64),
        out: &mut Encoding<'_>,
    ) -> Result<(), DocumentError> {
        out.bytes(b"{\"result\":[")?;
        let has_more = match cursor.rest {
            Rest::Ready { .. } => write_ready(cursor, out)?,
            Rest::Stream(_) => self.write_streamed(cursor, request, out)?,
        };
        if let Some(committed) = cursor.committed {
            settle_revisions(out.body_mut(), &committed);
        }
        out.bytes(b"],\"hasMore\":")?;
        out.bytes(if has_more { b"true" } else { b"false" })?;
        let number = cursor.next_batch;
        if has_more {
            let (id, next) = (cursor.id, number + 1);
            out.bytes(format!(",\"id\":\"{id}\",\"nextBatchId\":\"{next}\"").as_bytes())?;
        }
        out.bytes(b",\"cached\":false")?;
        match cursor.trailer.is_empty() {
            true => out.bytes(b",\"extra\":{\"warnings\":[],\"stats\":{}}")?,
            false => out.bytes(&cursor.trailer)?,
        }
        out.bytes(format!(",\"error\":false,\"code\":{status}}}").as_bytes())?;
        cursor.next_batch += 1;
        cursor.is_exhausted = !has_more;
        if cursor.may_retry {
            cursor.memory.take(out.len()).map_err(over_budget)?;
            cursor.last_batch = Some((number, out.body_mut().clone()));
        }
        Ok(())
    }

    /// Writes the next values of a result that is computed as it is asked for; says whether there
    /// are more.
    fn write_streamed(
        &self,
        cursor: &mut Cursor,
        request: u64,
        out: &mut Encoding<'_>,
    ) -> Result<bool, DocumentError> {
        let batch_size = cursor.batch_size;
        let Rest::Stream(streamed) = &mut cursor.rest else { return Ok(false) };
        let Streamed { execution, telling } = &mut **streamed;
        let next = execution.next_within(batch_size, BATCH_BYTES_MAX);
        self.slow_queries.note(request, &cursor.text, execution, &telling.data);
        let (values, more) = next.map_err(|error| running_error(&error))?;
        for (place, value) in values.iter().enumerate() {
            if place > 0 {
                out.bytes(b",")?;
            }
            out.value(value)?;
        }
        drop(values);
        execution.free_kept();
        let more = more || !execution.is_done();
        if !more {
            cursor.trailer = trailer_of(None, execution, telling);
        }
        Ok(more)
    }

    /// The cursor of a query that has begun.
    pub(super) fn cursor(
        &self,
        id: u64,
        asked: &Asked,
        (database, caller): (&Database, &Identity),
        (rest, trailer): (Rest, Vec<u8>),
        data: &QueryData,
    ) -> Box<Cursor> {
        Box::new(Cursor {
            id,
            database: database.name.clone(),
            owner: Owner::of(caller),
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
            memory: self.queries.cursor_memory(),
        })
    }
}

/// Writes the next values of a result that is there; says whether there are more.
fn write_ready(cursor: &mut Cursor, out: &mut Encoding<'_>) -> Result<bool, DocumentError> {
    let Rest::Ready { values, bytes } = &mut cursor.rest else { return Ok(false) };
    let before = values.len().max(1);
    let mut given = 0;
    while given < cursor.batch_size && (given == 0 || out.len() < BATCH_BYTES_MAX) {
        let Some(value) = values.next() else { break };
        if given > 0 {
            out.bytes(b",")?;
        }
        out.value(&value)?;
        given += 1;
    }
    // What was given is free; of each the same is assumed.
    let share = values.len() as f64 / before as f64;
    *bytes = (*bytes as f64 * share) as usize;
    Ok(values.len() > 0)
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

/// Which collections a query may read that only its values name; nothing where its caller may
/// read all.
pub(super) fn rights_of(caller: &Identity, database: &Arc<Database>) -> Option<MayRead> {
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
pub(super) fn told(error: &QueryError, message: String) -> DocumentError {
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
