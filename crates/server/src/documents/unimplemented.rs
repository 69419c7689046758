//! Refusals of the parts of ArangoDB that are not implemented.

use pellucid_document::{DocumentError, ErrorNumber};
use serde_json::json;

use super::call::{Call, not_implemented};
use super::completion::ReplyResult;
use super::reply::success;
use crate::reply::Reply;
use crate::routes::Method;

/// Answers a call below `/_api/` that is not implemented: lists are empty, other calls are refused
/// with the text of their row.
pub(super) fn answer(call: &Call<'_>) -> ReplyResult {
    let lists = call.method == Method::Get && call.length() == 2;
    match call.segment(1).unwrap_or_default() {
        "transaction" if lists => Ok(Reply::value(200, &json!({ "transactions": [] }))),
        "transaction" if call.method != Method::Post => {
            let id = call.segment(2).unwrap_or_default();
            let message = format!("transaction '{id}' not found");
            Err(DocumentError::new(ErrorNumber::TRANSACTION_NOT_FOUND, message))
        }
        "view" | "analyzer" | "aqlfunction" if lists => Ok(success(200, json!({ "result": [] }))),
        "gharial" if lists => Ok(success(200, json!({ "graphs": [] }))),
        "key-generators" if lists => {
            Ok(Reply::value(200, &json!({ "keyGenerators": ["traditional"] })))
        }
        _ => Err(not_implemented(call.route.about)),
    }
}
