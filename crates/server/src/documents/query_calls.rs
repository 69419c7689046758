//! `/_api/explain` and `/_api/query`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pellucid_aql::{KillSwitch, Plan, RULES, Source};
use pellucid_document::{Database, DocumentError, ErrorNumber, QueryData};

use crate::access::Identity;

use super::api::DocumentApi;
use super::asked::asked;
use super::call::{Call, Method};
use super::control::Control;
use super::cursor::{Answer, check_rights, rights_of, told, warnings};
use super::queries::{Running, stopwatch};
use super::reply::Reply;

/// Bytes of a query's text in lists, as `maxQueryStringLength` tells.
const TEXT_BYTES_MAX: usize = 4_096;

/// Bytes of bind variables in lists; larger ones are left out.
const BIND_BYTES_MAX: usize = 16 << 10;

/// What stands in lists for a text that the caller may not see.
const HIDDEN: &str = "<hidden>";

impl DocumentApi {
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
        let _memory = self.memory_of_body(call)?;
        let mut asked = asked(call, &self.settings, &self.memory)?;
        self.bound(&mut asked.options);
        let data = QueryData::new(&self.documents, database, self.acknowledgement);
        let data = data.with_rights(rights_of(caller, database));
        let source: Arc<dyn Source> = Arc::new(data);
        let since = stopwatch();
        let kill = call.control.as_ref().map_or_else(KillSwitch::default, Control::kill_switch);
        let (binds, options) = (&asked.bind_variables, &asked.options);
        let plan = pellucid_aql::parse_within(&asked.query, options)
            .and_then(|parsed| Plan::killable(&parsed, binds, &source, options, &kill))
            .map_err(|error| told(&error, format!("{error} (while parsing)")))?;
        check_rights(&plan, &database.name, caller)?;
        let explained = plan.explain().to_json();
        let seconds = since.elapsed_ns() as f64 / 1e9;
        let fields = serde_json::json!({
            "cacheable": !plan.is_modification(),
            "warnings": warnings(plan.warnings()),
            "stats": {
                "rulesExecuted": 0, "rulesSkipped": 0, "plansCreated": 1, "rules": {},
                "peakMemoryUsage": 0, "executionTime": seconds,
            },
            "error": false,
            "code": 200,
        });
        let plan = match asked.wants_all_plans {
            true => format!(",\"plans\":[{explained}]}}"),
            false => format!(",\"plan\":{explained}}}"),
        };
        // A plan may be large, and is not parsed again: it takes the place of the last brace.
        let mut body = fields.to_string();
        body.pop();
        body += &plan;
        Ok(Reply::json(200, body.into_bytes()))
    }

    /// Answers `/_api/query…`.
    pub(crate) fn query_call(
        &self,
        call: &Call<'_>,
        database: &Database,
        caller: &Identity,
    ) -> Answer {
        match (call.method, call.segment(2)) {
            (Method::Post, None) => {
                let _memory = self.memory_of_body(call)?;
                let asked = asked(call, &self.settings, &self.memory)?;
                let parsed = pellucid_aql::parse_within(&asked.query, &asked.options)
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
                let list = self.queries.list(&database.name);
                let list: Vec<_> = list.iter().map(|query| show(query, caller)).collect();
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
                self.queries.kill(&database.name, id, caller)?;
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
        "slowQueryThreshold": 10, "slowStreamingQueryThreshold": 10,
        "maxQueryStringLength": TEXT_BYTES_MAX,
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

/// A query in the list of those that run. Its text and its values are for its owner and for
/// administrators, and for nobody else who may read the database.
fn show(query: &Running, caller: &Identity) -> serde_json::Value {
    let is_shown = query.owner.shows_to(caller);
    let bind_variables = match query.bind_variables.size_bytes() <= BIND_BYTES_MAX {
        true if is_shown => query.bind_variables.to_json(),
        _ => "{}".to_owned(),
    };
    let bind_variables: serde_json::Value =
        serde_json::from_str(&bind_variables).unwrap_or_default();
    let mut end = query.query.len().min(TEXT_BYTES_MAX);
    while !query.query.is_char_boundary(end) {
        end -= 1;
    }
    let (user, text) = match is_shown {
        true => (query.owner.name(), &query.query[..end]),
        false => (HIDDEN, HIDDEN),
    };
    let seconds = query.begun.unix_ms() / 1_000;
    serde_json::json!({
        "id": query.id.to_string(),
        "database": query.database,
        "user": user,
        "query": text,
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
