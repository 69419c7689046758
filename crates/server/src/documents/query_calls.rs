//! Handlers of `/_api/query`: the list of running queries, and the settings of query tracking.

use std::sync::atomic::Ordering;

use pellucid_aql::RULES;
use pellucid_document::{Database, ErrorNumber, Result, SYSTEM_DATABASE};
use pellucid_value::beginning;
use serde_json::{Map, Value, json};

use super::call::{Call, not_implemented};
use super::completion::ReplyResult;
use super::query_extra::to_json;
use super::query_runner::QueryRunner;
use super::reply::success;
use super::running_queries::RunningQuery;
use crate::access::{Identity, Right, Scope};
use crate::reply::Reply;
use crate::routes::Method;

/// The most bytes of a query's text in lists, reported as `maxQueryStringLength`.
const TEXT_BYTES_MAX: usize = 4_096;

/// The most bytes of bind variables in lists; larger ones are left out.
const BIND_BYTES_MAX: usize = 16 << 10;

/// The placeholder in lists for a text that the caller may not see.
const HIDDEN: &str = "<hidden>";

/// Answers `/_api/query…`.
pub(super) fn answer(
    queries: &QueryRunner,
    call: &Call<'_>,
    database: &Database,
    caller: &Identity,
) -> ReplyResult {
    let asked = |right| asked_database(call, database, caller, right);
    match (call.method, call.segment(2)) {
        (Method::Post, None) => queries.parse(call),
        (Method::Get, Some("current")) => {
            let list = queries.running().list(asked(Right::Read)?);
            let list: Value = list.iter().map(|query| show(query, caller)).collect();
            Ok(Reply::value(200, &list))
        }
        (Method::Get, Some("slow")) => asked(Right::Read).map(|_| Reply::value(200, &json!([]))),
        (Method::Delete, Some("slow")) => asked(Right::Write).map(|_| success(200, json!({}))),
        (Method::Get, Some("rules")) => {
            // No rule can be disabled.
            let flags = json!({
                "hidden": false, "clusterOnly": false, "canBeDisabled": false,
                "canCreateAdditionalPlans": false, "disabledByDefault": false,
                "enterpriseOnly": false,
            });
            let rules = RULES.map(|name| json!({ "name": name, "flags": flags }));
            Ok(Reply::value(200, &json!(rules)))
        }
        (Method::Get | Method::Put, Some("properties")) => tracking(call),
        (Method::Delete, Some(id)) => {
            let id = id.parse().map_err(|_| ErrorNumber::QUERY_NOT_FOUND)?;
            queries.running().kill(asked(Right::Write)?, id, caller)?;
            Ok(success(200, json!({})))
        }
        _ => Err(ErrorNumber::HTTP_METHOD_NOT_ALLOWED.into()),
    }
}

/// The database whose queries a call is about; `None` for those of all databases, which
/// administrators can ask for in the system database.
///
/// # Errors
/// 11 if `caller` may not ask for all, 400 if `all` is neither true nor false.
fn asked_database<'d>(
    call: &Call<'_>,
    database: &'d Database,
    caller: &Identity,
    right: Right,
) -> Result<Option<&'d str>> {
    match call.is_set("all")? {
        false => Ok(Some(&database.name)),
        true if database.name == SYSTEM_DATABASE && caller.may(Scope::Admin, right) => Ok(None),
        true => Err(ErrorNumber::FORBIDDEN.into()),
    }
}

/// Answers a call about the tracking of queries, whose settings cannot be changed.
fn tracking(call: &Call<'_>) -> ReplyResult {
    let properties = json!({
        "enabled": true, "trackSlowQueries": false, "trackBindVars": true, "maxSlowQueries": 0,
        "slowQueryThreshold": 10, "slowStreamingQueryThreshold": 10,
        "maxQueryStringLength": TEXT_BYTES_MAX,
    });
    let asked = if call.method == Method::Put { call.object()? } else { Map::new() };
    let is_other = |(name, value): &(&String, &Value)| properties.get(name) != Some(*value);
    if let Some((name, _)) = asked.iter().find(is_other) {
        return Err(not_implemented(format!(
            "`{name}` cannot be set: slow queries are in the account"
        )));
    }
    Ok(success(200, properties))
}

/// The entry of a query in the list of running queries. Only its owner and administrators see its
/// text and its bind values.
fn show(query: &RunningQuery, caller: &Identity) -> Value {
    let is_shown = query.owner.shows_to(caller);
    let bind_variables = match query.bind_variables.size_bytes() <= BIND_BYTES_MAX {
        true if is_shown => to_json(query.bind_variables.view()),
        _ => json!({}),
    };
    let (user, text) = match is_shown {
        true => (query.owner.name(), beginning(&query.query, TEXT_BYTES_MAX)),
        false => (HIDDEN, HIDDEN),
    };
    json!({
        "id": query.id.to_string(),
        "database": query.database,
        "user": user,
        "query": text,
        "bindVars": bind_variables,
        "started": query.begun.iso_date(),
        "runTime": query.since.elapsed_ns() as f64 / 1e9,
        "peakMemoryUsage": query.kill.peak_memory_bytes(),
        "state": if query.kill.is_killed() { "killed" } else { "executing" },
        "stream": query.is_stream,
        "modificationQuery": query.is_modification.load(Ordering::Relaxed),
        "warnings": query.kill.warnings(),
    })
}
