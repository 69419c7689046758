//! `GET /_admin/slow`, `/_admin/requests` and `/_admin/interference`: slow requests, requests in
//! progress, and the effect of background jobs on requests.

use std::sync::Arc;

use pellucid_account::{
    CROSSED_KEPT, INTERFERENCE_REQUESTS_MIN, INTERFERENCE_SLOW_MIN, RequestView, SLOW_QUANTILE,
    SlowOperation,
};
use pellucid_http::Request;
use serde_json::{Value, json};

use super::{AdminApi, account_document};
use crate::answer::HandlerResult;
use crate::names::check_operation;
use crate::observer::Observer;
use crate::query::{number_parameter, text_parameter};

/// `GET /_admin/slow`: the slow requests, by operation.
pub(crate) fn slow_page(api: &AdminApi, request: &Request<'_>) -> HandlerResult {
    let limit = number_parameter(request.query, "limit")?;
    let operation = text_parameter(request.query, "operation")?.map(String::from);
    operation.as_deref().map_or(Ok(()), check_operation)?;
    let limit = limit.map_or(CROSSED_KEPT, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let observer = Arc::clone(&api.observer);
    api.document(move || {
        let mut operations = observer.account.slow(limit);
        operations.retain(|slow| operation.as_deref().is_none_or(|name| name == slow.operation));
        let operations = operations.into_iter().map(|slow| described(&slow, &observer));
        let operations: Vec<Value> = operations.collect();
        let fields = json!({ "quantile": SLOW_QUANTILE, "operations": operations });
        account_document("pellucid.slow.v1", &observer, fields)
    })
}

/// `GET /_admin/requests`: the requests in progress.
pub(crate) fn requests_page(api: &AdminApi, _: &Request<'_>) -> HandlerResult {
    let observer = Arc::clone(&api.observer);
    api.document(move || {
        let fields = json!({ "requests": observer.account.in_flight() });
        account_document("pellucid.requests.v1", &observer, fields)
    })
}

/// `GET /_admin/interference`: how much likelier a request is slow while a background job runs.
pub(crate) fn interference_page(api: &AdminApi, request: &Request<'_>) -> HandlerResult {
    let since_start = match text_parameter(request.query, "since")?.as_deref() {
        None => false,
        Some("start") => true,
        Some(_) => {
            let line = "`since` is `start`, or left out for the last ten minutes";
            return Err(line.to_owned().into());
        }
    };
    let observer = Arc::clone(&api.observer);
    api.document(move || {
        let fields = json!({
            "quantile": SLOW_QUANTILE,
            "since": if since_start { "start" } else { "ten_minutes" },
            "requests_needed": INTERFERENCE_REQUESTS_MIN,
            "slow_needed": INTERFERENCE_SLOW_MIN,
            "operations": observer.account.interference(since_start),
        });
        account_document("pellucid.interference.v1", &observer, fields)
    })
}

/// The document of one operation, with the keys of its requests if they may be shown.
fn described(slow: &SlowOperation, observer: &Observer) -> Value {
    let shown = |requests: &[RequestView]| -> Vec<Value> {
        requests.iter().map(|request| with_key_and_query(request, observer)).collect()
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

fn with_key_and_query(request: &RequestView, observer: &Observer) -> Value {
    let keys = &observer.keys;
    // This cannot fail: a view consists of strings and numbers.
    let mut document = serde_json::to_value(request).unwrap_or_default();
    let hash = request.key_hash.as_deref().and_then(|hash| u64::from_str_radix(hash, 16).ok());
    let key = hash.and_then(|hash| keys.text(hash));
    let query = observer.slow_queries.of_name(&request.request);
    if let Some(fields) = document.as_object_mut() {
        fields.extend(key.map(|key| ("key".to_owned(), key.into())));
        fields.extend(query.map(|query| ("query".to_owned(), query.shown(keys.are_shown()))));
    }
    document
}
