//! `GET /_admin/slow`, `/_admin/requests` and `/_admin/interference`: what is known of single
//! requests, of those under way, and of what runs beside them.

use std::sync::Arc;

use pellucid_account::{
    CROSSED_KEPT, INTERFERENCE_REQUESTS_MIN, INTERFERENCE_SLOW_MIN, RequestView, SLOW_QUANTILE,
    SlowOperation,
};
use pellucid_http::{Handled, Request, Response};
use serde_json::{Value, json};

use crate::admin::Page;
use crate::query::{number_parameter, text_parameter};
use crate::service::{Api, Loop, Shared, respond_text};

impl Api {
    /// The slow requests, by operation.
    pub(crate) fn slow_page(
        &self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let asked = number_parameter(request.query, "limit").and_then(|limit| {
            let operation = text_parameter(request.query, "operation")?;
            Ok((limit, operation.map(String::from)))
        });
        let (limit, operation) = match asked {
            Ok(asked) => asked,
            Err(what) => return respond_text(response, exchange, 400, &what),
        };
        let limit =
            limit.map_or(CROSSED_KEPT, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let shared = Arc::clone(&self.shared);
        self.later(response, exchange, move || {
            let mut operations = shared.account.slow(limit);
            operations
                .retain(|slow| operation.as_deref().is_none_or(|name| name == slow.operation));
            let operations = operations.into_iter().map(|slow| described(&slow, &shared));
            let document = json!({
                "schema": "pellucid.slow.v1",
                "accounting": shared.account.accounting().name(),
                "quantile": SLOW_QUANTILE,
                "operations": operations.collect::<Vec<Value>>(),
            });
            Page::json(document.to_string())
        })
    }

    /// The requests under way.
    pub(crate) fn requests_page(
        &self,
        _: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let account = self.shared.account.clone();
        self.later(response, exchange, move || {
            let document = json!({
                "schema": "pellucid.requests.v1",
                "accounting": account.accounting().name(),
                "requests": account.in_flight(),
            });
            Page::json(document.to_string())
        })
    }

    /// How much likelier slow requests are beside background jobs.
    pub(crate) fn interference_page(
        &self,
        request: &Request<'_>,
        response: &mut Response<'_>,
        exchange: &mut Loop<'_>,
    ) -> Handled {
        let since_start = match text_parameter(request.query, "since") {
            Ok(None) => false,
            Ok(Some(since)) if since == "start" => true,
            Ok(Some(_)) => {
                let what = "`since` is `start`, or left out for the last ten minutes";
                return respond_text(response, exchange, 400, what);
            }
            Err(what) => return respond_text(response, exchange, 400, &what),
        };
        let account = self.shared.account.clone();
        self.later(response, exchange, move || {
            let document = json!({
                "schema": "pellucid.interference.v1",
                "accounting": account.accounting().name(),
                "quantile": SLOW_QUANTILE,
                "since": if since_start { "start" } else { "ten_minutes" },
                "requests_needed": INTERFERENCE_REQUESTS_MIN,
                "slow_needed": INTERFERENCE_SLOW_MIN,
                "operations": account.interference(since_start),
            });
            Page::json(document.to_string())
        })
    }
}

/// The document of one operation, with the keys of its requests if they may be shown.
fn described(slow: &SlowOperation, shared: &Shared) -> Value {
    let shown = |requests: &[RequestView]| -> Vec<Value> {
        requests.iter().map(|request| with_key_and_query(request, shared)).collect()
    };
    let (slowest, crossed) = (shown(&slow.slowest), shown(&slow.crossed));
    json!({
        "operation": slow.operation,
        "requests": slow.requests,
        "slow": slow.slow,
        "threshold_ns": slow.threshold_ns,
        "slowest": slowest,
        "crossed": crossed,
    })
}

fn with_key_and_query(request: &RequestView, shared: &Shared) -> Value {
    let keys = &shared.keys;
    // A view is strings and numbers, which JSON always has a form for.
    let mut document = serde_json::to_value(request).unwrap_or_default();
    let hash = request.key_hash.as_deref().and_then(|hash| u64::from_str_radix(hash, 16).ok());
    let key = hash.and_then(|hash| keys.text(hash));
    let query = shared.documents.slow_queries.of_name(&request.request);
    if let Some(fields) = document.as_object_mut() {
        fields.extend(key.map(|key| ("key".to_owned(), key.into())));
        fields.extend(query.map(|query| ("query".to_owned(), query.shown(keys.are_shown()))));
    }
    document
}
