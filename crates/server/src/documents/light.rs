//! Queries that are answered on the event loop: those that were planned before, look up one place
//! of one index, and read little. Handing them to another thread would take longer than they do.

use std::sync::Arc;

use pellucid_account::Timeline;
use pellucid_aql::{Execution, KillSwitch, PointResult, QueryError, QueryOptions, Source, number};
use pellucid_document::{Database, ErrorNumber, QueryData};
use pellucid_store::ReadMode;

use crate::access::Identity;
use crate::names::{QUERY_PARSE, QUERY_PLAN, QUERY_RUN};
use crate::routes::Runs;

use super::api::DocumentApi;
use super::asked::{Asked, asked};
use super::call::Call;
use super::cursor::{check_rights, rest_of, running_error};
use super::extra::{Done, push_trailer};
use super::queries::{Cursor, Telling, Times, stopwatch};
use super::reply::Reply;

/// The longest body that is looked at.
const LIGHT_QUERY_BYTES_MAX: usize = 4 << 10;

/// Bytes that the answer to a query that finds one document of usual size has room for: less than
/// what the system's allocator takes for a large piece, for which it tidies up first.
const ANSWER_BYTES: usize = 1_000;

/// Something that a query reads is not in memory.
struct Away;

/// What a light query came to.
enum Light {
    Answer(Reply),
    /// A result that may have to be kept.
    Rest(Box<Cursor>),
}

impl DocumentApi {
    /// The answer to a light query; nothing for other calls, and where something would have to be
    /// waited for. What a call got here before it turned out to be another one leaves no trace.
    pub(super) fn answer_light(
        self: &Arc<Self>,
        call: &Call<'_>,
        caller: &Identity,
        timeline: &mut Timeline,
    ) -> Option<Reply> {
        if call.route.runs != Runs::IfPlanned
            || call.is_async
            || call.transaction.is_some()
            || call.body.len() > LIGHT_QUERY_BYTES_MAX
        {
            return None;
        }
        let database = self.database_of(call, caller).ok()?;
        let local = self.documents.store().local()?;
        let before = timeline.clone();
        let mut found = None;
        let are_here = local.all_in_memory(&mut |mode| {
            found = self.find_light(call, &database, caller, mode, timeline);
            !matches!(found, Some(Err(Away)))
        });
        match found.filter(|_| are_here) {
            Some(Ok(Light::Answer(reply))) => Some(reply),
            Some(Ok(Light::Rest(mut cursor))) => {
                // A number may have to be written down, and that is not a read.
                let given = self.documents.next_tick().and_then(|id| {
                    cursor.id = id;
                    self.give(cursor, 201, call)
                });
                Some(given.unwrap_or_else(|error| Reply::error(&error)))
            }
            Some(Err(Away)) | None => {
                *timeline = before;
                None
            }
        }
    }

    /// As [`Self::answer_light`], with what was noted in `timeline`.
    fn find_light(
        self: &Arc<Self>,
        call: &Call<'_>,
        database: &Arc<Database>,
        caller: &Identity,
        mode: ReadMode,
        timeline: &mut Timeline,
    ) -> Option<Result<Light, Away>> {
        let mut asked = asked(call, &self.settings, &self.memory).ok()?;
        if asked.is_stream || asked.profile != 0 {
            return None;
        }
        let statement = self.statements.find(&asked.query)?;
        timeline.lap(QUERY_PARSE);
        let data = QueryData::new(&self.documents, database, self.acknowledgement);
        let data = Arc::new(data.light(mode));
        let plan = statement.light(&asked.bind_variables, &*data)?;
        check_rights(&plan, &database.name, caller).ok()?;
        timeline.lap(QUERY_PLAN);
        if asked.is_plain() {
            let binds = &asked.bind_variables;
            let written = point_body(&asked, |values_max, body| {
                plan.write_point(binds, &*data, values_max, body)
            });
            timeline.lap(QUERY_RUN);
            match written {
                Ok(None) => {}
                Ok(Some(body)) => return Some(Ok(Light::Answer(Reply::json(201, body)))),
                // Another value of the query may be light again.
                Err(error) if error.number == number::NOT_LIGHT => return None,
                Err(error) => return Some(failed(&error)),
            }
        }
        asked.options = QueryOptions { is_light: true, ..asked.options };
        let (source, kill) = (Arc::clone(&data) as Arc<dyn Source>, KillSwitch::default());
        let binds = &asked.bind_variables;
        let execution =
            Execution::bound(Arc::clone(&plan), binds, source, asked.options.clone(), kill);
        let (data_told, times) = (Arc::clone(&data), Times::default());
        let telling = Telling { plan, data: data_told, profile: 0, times };
        let rest = rest_of(execution, &asked, telling, |_| {});
        timeline.lap(QUERY_RUN);
        match rest {
            Err(error) if error.number == number::NOT_LIGHT => {
                statement.note_heavy();
                None
            }
            Err(error) => Some(failed(&error)),
            // Its number comes when it is known that it is kept.
            Ok(rest) => {
                let cursor = self.cursor(0, &asked, (database, caller), rest, &data);
                Some(Ok(Light::Rest(cursor)))
            }
        }
    }
}

/// What a query has failed with.
fn failed(error: &QueryError) -> Result<Light, Away> {
    if error.number == ErrorNumber::NOT_IN_MEMORY.0 {
        return Err(Away);
    }
    Ok(Light::Answer(Reply::error(&running_error(error))))
}

/// The body of the answer whose values `write` appends, at most as many as it is told; nothing if
/// it does not.
fn point_body(
    asked: &Asked,
    write: impl FnOnce(usize, &mut Vec<u8>) -> Result<Option<PointResult>, QueryError>,
) -> Result<Option<Vec<u8>>, QueryError> {
    let since = stopwatch();
    let mut body = Vec::with_capacity(ANSWER_BYTES);
    body.extend_from_slice(b"{\"result\":[");
    let Some(PointResult { values, stats }) = write(asked.batch_size, &mut body)? else {
        return Ok(None);
    };
    body.extend_from_slice(b"],\"hasMore\":false,\"cached\":false");
    let done = Done { stats, elapsed_ns: since.elapsed_ns(), warnings: &[] };
    push_trailer(asked.counts.then_some(values), &done, &mut body);
    body.extend_from_slice(b",\"error\":false,\"code\":201}");
    Ok(Some(body))
}
