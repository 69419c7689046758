//! The engine's account of itself: `GET /_admin/engine`.
//!
//! It is a JSON document (schema `pellucid.engine.v1`, docs/engine-account.md); the log shows parts
//! of it, too. `reads`, `writes` and `background` hold only counters, which start at zero when the
//! store is opened; `state` holds the present state.

use pellucid_embedded::{EngineStats, SAMPLED_EVERY};
use serde_json::{Map, Value, json};

/// The name of the document's schema.
pub(crate) const SCHEMA: &str = "pellucid.engine.v1";

/// The document of `GET /_admin/engine`. Programs that embed the engine can show it, too.
#[must_use]
pub fn document(stats: &EngineStats) -> Value {
    let mut root = Map::new();
    stats.each(|shown| put(&mut root, shown.path, shown.value.into()));
    for (path, value) in [
        ("schema", SCHEMA.into()),
        ("sampled_every", SAMPLED_EVERY.into()),
        ("state/running", stats.ledger.running.into()),
        ("state/trouble", stats.ledger.trouble.clone().into()),
        ("state/collection_trouble", stats.collection_trouble.clone().into()),
        ("state/write_amplification", stats.write_amplification().into()),
        ("state/space_amplification", stats.space_amplification().into()),
    ] {
        put(&mut root, path, value);
    }
    root.into()
}

/// Puts `value` at `path` within `object`. A number in the path is the number of a level: levels
/// become an array of objects, each with its number in `level` or `from_level`.
fn put(object: &mut Map<String, Value>, path: &str, value: Value) {
    let Some((name, rest)) = path.split_once('/') else {
        object.insert(path.to_owned(), value);
        return;
    };
    let mut inner = object.entry(name).or_insert(Value::Null);
    let mut rest = rest;
    if let Some((level, of_level)) = rest.split_once('/')
        && let Ok(number) = level.parse::<usize>()
    {
        if inner.is_null() {
            *inner = json!([]);
        }
        let Value::Array(levels) = inner else { return };
        let label = if name == "compactions" { "from_level" } else { "level" };
        levels.resize_with(levels.len().max(number + 1), || json!({ label: level }));
        (inner, rest) = (&mut levels[number], of_level);
    }
    if inner.is_null() {
        *inner = json!({});
    }
    if let Value::Object(inner) = inner {
        put(inner, rest, value);
    }
}
