//! Functions that build JSON schemas.

use serde_json::{Value, json};

/// A member of an object: its name and its schema.
pub(super) type Member = (&'static str, Value);

/// A reference to the schema with this name.
pub(super) fn named(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

pub(crate) fn text() -> Value {
    json!({ "type": "string" })
}

pub(crate) fn one_of(texts: &[&str]) -> Value {
    json!({ "type": "string", "enum": texts })
}

pub(crate) fn flag() -> Value {
    json!({ "type": "boolean" })
}

pub(crate) fn number() -> Value {
    json!({ "type": "number" })
}

/// A number from zero to `most`.
pub(crate) fn number_to(most: f64) -> Value {
    json!({ "type": "number", "minimum": 0, "maximum": most })
}

/// A whole number of 64 bits.
pub(super) fn count() -> Value {
    at_least(0)
}

pub(crate) fn at_least(least: u64) -> Value {
    between(least, u64::MAX)
}

pub(crate) fn between(least: impl Into<Value>, most: impl Into<Value>) -> Value {
    json!({ "type": "integer", "minimum": least.into(), "maximum": most.into() })
}

pub(super) fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

pub(super) fn nothing() -> Value {
    json!({ "type": "null" })
}

pub(super) fn or_null(schema: Value) -> Value {
    json!({ "anyOf": [schema, nothing()] })
}

/// An object with these members.
pub(super) fn object<const N: usize>(members: [Member; N]) -> Value {
    with_required(json!({ "type": "object", "required": [], "properties": {} }), members)
}

/// Adds optional members to an object.
pub(super) fn with_optional<const N: usize>(mut object: Value, members: [Member; N]) -> Value {
    if let Some(known) = object["properties"].as_object_mut() {
        known.extend(members.map(|(name, schema)| (name.to_owned(), schema)));
    }
    object
}

/// Adds required members to an object.
pub(super) fn with_required<const N: usize>(object: Value, members: [Member; N]) -> Value {
    let names = members.each_ref().map(|(name, _)| *name);
    let mut object = with_optional(object, members);
    if let Some(required) = object["required"].as_array_mut() {
        required.extend(names.map(Value::from));
    }
    object
}

/// Forbids members of an object that its schema does not name.
pub(super) fn closed(mut object: Value) -> Value {
    object["additionalProperties"] = false.into();
    object
}

/// An object with a count for each name.
pub(super) fn counts<const N: usize>(names: [&'static str; N]) -> Value {
    object(names.map(|name| (name, count())))
}
