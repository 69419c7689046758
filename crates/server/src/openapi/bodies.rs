//! The bodies of requests.

use serde_json::{Value, json};

use super::schema::named;
use crate::routes::{BodyLimit, Method, Route};

/// The body of a route's requests; `None` if they have none.
pub(super) fn of(route: &Route) -> Option<Value> {
    let lines = |schema: &str| {
        let content = json!({ "application/x-ndjson": { "schema": named(schema) } });
        json!({ "required": true, "content": content })
    };
    let object = |schema: &str, is_required: bool| {
        let content = json!({ "application/json": { "schema": named(schema) } });
        Some(json!({ "required": is_required, "content": content }))
    };
    match route.path {
        ["_admin", "backup"] if route.methods.has(Method::Get) => return None,
        ["_admin", "backup"] | ["_admin", "backup", "create"] => {
            return object("BackupWanted", false);
        }
        ["_admin", "backup", "list"] => return object("BackupsWanted", false),
        ["_admin", "backup", "delete"] => return object("BackupNamed", true),
        _ => {}
    }
    match route.body {
        // A value may be empty, and of any type.
        BodyLimit::Value => Some(json!({ "content": { "application/octet-stream": {} } })),
        BodyLimit::Batch => Some(lines("Batch")),
        BodyLimit::Bytes(_) => Some(lines("Keys")),
        BodyLimit::Little => None,
    }
}
