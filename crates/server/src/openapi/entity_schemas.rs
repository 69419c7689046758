//! Schemas of the bodies of the entity API. NDJSON is described as an array of its lines.
//!
//! Responses may get more members within a minor version; lines of requests have no others.

use serde_json::{Value, json};

use super::schema::{
    Member, closed, count, counts, list, named, nothing, number_to, object, one_of, or_null, text,
    with_optional,
};
use crate::entities::{KEYS_MAX, LIFETIME_SECONDS_MAX};

/// The pattern of base64 of 1 to 1,024 bytes.
const KEY_PATTERN: &str = "^(?:[A-Za-z0-9+/]{4}){0,340}(?:[A-Za-z0-9+/]{4}\
    |[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=|(?:[A-Za-z0-9+/]{4})?[A-Za-z0-9+/][AQgw]==)$";
/// The pattern of base64 of any number of bytes.
const BYTES_PATTERN: &str = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=\
    |[A-Za-z0-9+/][AQgw]==)?$";

pub(super) fn all() -> [Member; 12] {
    let entity = || [("key", named("Key")), ("value", named("Bytes")), ("etag", text())];
    let found = with_optional(object(entity()), [("read_ns", count())]);
    let missing = object([("key", named("Key")), ("found", json!({ "const": false }))]);
    let missing = with_optional(missing, [("read_ns", count())]);
    let key = closed(object([("key", named("Key"))]));
    [
        ("Key", json!({ "type": "string", "contentEncoding": "base64", "pattern": KEY_PATTERN })),
        (
            "Bytes",
            json!({ "type": "string", "contentEncoding": "base64", "pattern": BYTES_PATTERN }),
        ),
        ("Keys", json!({ "type": "array", "items": key, "minItems": 1, "maxItems": KEYS_MAX })),
        (
            "Batch",
            json!({ "type": "array", "items": { "oneOf": [put(), delete()] }, "minItems": 1 }),
        ),
        ("BatchWritten", counts(["entries", "last_sequence"])),
        ("Entities", list(with_optional(object(entity()), [("expires_at_ms", count())]))),
        ("Found", list(json!({ "anyOf": [found, missing] }))),
        ("Changes", list(change())),
        ("ChangesLost", object([("error", text()), ("oldest", count()), ("newest", count())])),
        ("Tables", object([("tables", list(text()))])),
        ("Emptied", counts(["removed"])),
        (
            "Error",
            object([
                ("error", json!({ "const": true })),
                ("code", count()),
                ("errorNum", count()),
                ("errorMessage", text()),
            ]),
        ),
    ]
}

/// The schema of a put in a batch.
fn put() -> Value {
    let members = [("op", one_of(&["put"])), ("key", named("Key")), ("value", named("Bytes"))];
    let ttl = ("ttl", or_null(number_to(LIFETIME_SECONDS_MAX)));
    closed(with_optional(with_condition(object(members)), [ttl]))
}

/// The schema of a delete in a batch.
fn delete() -> Value {
    let members = [("op", one_of(&["delete"])), ("key", named("Key"))];
    let none = [("value", nothing()), ("ttl", nothing())];
    closed(with_optional(with_condition(object(members)), none))
}

/// Adds the conditions to a line of a batch, of which it may have one at most.
fn with_condition(line: Value) -> Value {
    let tag = r"[1-9][0-9]{0,18}(\+(gzip|deflate))?";
    let revision = json!({ "type": "string", "pattern": format!(r#"^(\*|{tag}|"{tag}")$"#) });
    let members = [("if_match", or_null(revision)), ("if_none_match", or_null(one_of(&["*"])))];
    let mut line = with_optional(line, members);
    line["not"] = object([("if_match", text()), ("if_none_match", text())]);
    line
}

/// The schema of a line of changes: a write, the position of the stream, or the reason of its end.
fn change() -> Value {
    let line = object([("sequence", count())]);
    with_optional(
        line,
        [
            ("written_at_ms", count()),
            ("expires_at_ms", count()),
            ("key", text()),
            ("value", named("Bytes")),
            ("document", json!({ "type": "object" })),
            ("deleted", json!({ "const": true })),
            ("error", text()),
            ("oldest", count()),
            ("newest", count()),
        ],
    )
}
