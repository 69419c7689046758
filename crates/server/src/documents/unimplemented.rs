//! Refusals of the parts of ArangoDB that are not implemented.

use pellucid_document::{DocumentError, ErrorNumber};
use serde_json::json;

use super::call::{Call, not_implemented};
use super::completion::ReplyResult;
use super::reply::success;
use super::server_info::unknown_path;
use crate::reply::Reply;
use crate::routes::Method;

/// Answers a call below `/_api/` that is not implemented: lists are empty, other calls are refused.
pub(super) fn answer(call: &Call<'_>) -> ReplyResult {
    let what = call.segment(1).unwrap_or_default();
    let refused = |what: &str| Err(not_implemented(format!("{what} are not implemented")));
    let lists = call.method == Method::Get && call.length() == 2;
    match what {
        "transaction" if lists => Ok(Reply::value(200, &json!({ "transactions": [] }))),
        "transaction" => match (call.method, call.segment(2)) {
            (Method::Post, _) => refused("transactions of several requests"),
            (Method::Get | Method::Put | Method::Delete, Some(id)) => {
                let message = format!("transaction '{id}' not found");
                Err(DocumentError::new(ErrorNumber::TRANSACTION_NOT_FOUND, message))
            }
            _ => Err(ErrorNumber::HTTP_METHOD_NOT_ALLOWED.into()),
        },
        "view" | "analyzer" | "aqlfunction" if lists => Ok(success(200, json!({ "result": [] }))),
        "view" => refused("views"),
        "analyzer" => refused("analyzers"),
        "aqlfunction" => refused("functions of users"),
        "gharial" if lists => Ok(success(200, json!({ "graphs": [] }))),
        "gharial" => refused("graphs"),
        "cluster" => refused("clusters"),
        "job" => refused("jobs"),
        "token" => refused("access tokens"),
        "simple" => refused("simple queries"),
        "edges" => refused("lists of edges"),
        "query-cache" | "query-plan-cache" => refused("caches of queries"),
        "key-generators" if lists => {
            Ok(Reply::value(200, &json!({ "keyGenerators": ["traditional"] })))
        }
        _ => Err(unknown_path(call)),
    }
}
