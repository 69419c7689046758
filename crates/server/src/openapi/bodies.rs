//! The bodies of requests.

use serde_json::{Value, json};

use super::schema::named;
use crate::routes::{BodyLimit, Route};

/// The body of an operation that takes one.
pub(super) fn of(route: &Route) -> Option<Value> {
    let lines = |schema: &str| {
        let content = json!({ "application/x-ndjson": { "schema": named(schema) } });
        json!({ "required": true, "content": content })
    };
    match route.body {
        // A value may be empty, and of any type.
        BodyLimit::Value => Some(json!({ "content": { "application/octet-stream": {} } })),
        BodyLimit::Batch => Some(lines("Batch")),
        BodyLimit::Bytes(_) => Some(lines("Keys")),
        BodyLimit::Little => None,
    }
}
