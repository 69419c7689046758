//! `/openapi.json`: the entity API and the server's own pages as OpenAPI 3.1, made of the table of
//! routes. The document API is ArangoDB's, which describes itself.

use serde_json::{Map, Value, json};

use crate::routes::{BodyLimit, ENTITY_ROUTES, Method, Need, Route, SERVER_ROUTES};

/// A parameter of a query: its name, its type, and a line about it.
type Parameter = (&'static str, &'static str, &'static str);

const KEY: Parameter = ("id", "string", "The key, percent-encoded; 1 to 1,024 bytes. Required.");
const TABLE: Parameter = ("table", "string", "The table; `entities` unless it is given.");
const SYNC: Parameter =
    ("sync", "string", "The acknowledgement survives: `memory`, `os` or `disk`.");

/// The parameters of each path that has some.
const PARAMETERS: &[(Method, &[&str], &[Parameter])] = &[
    (Method::Get, &["v0", "entity"], &[KEY, TABLE]),
    (Method::Head, &["v0", "entity"], &[KEY, TABLE]),
    (
        Method::Put,
        &["v0", "entity"],
        &[KEY, TABLE, SYNC, ("ttl", "integer", "Seconds after which the entity is gone.")],
    ),
    (Method::Delete, &["v0", "entity"], &[KEY, TABLE, SYNC]),
    (
        Method::Get,
        &["v0", "entities"],
        &[
            TABLE,
            ("start", "string", "The first key, percent-encoded. Required."),
            ("end", "string", "The key before which the range ends."),
            ("limit", "integer", "Most entities."),
            ("reverse", "boolean", "From the last to the first."),
            ("cluster", "boolean", "The ranges of all nodes."),
        ],
    ),
    (Method::Post, &["v0", "entities", "get"], &[TABLE]),
    (Method::Post, &["v0", "batch"], &[TABLE, SYNC]),
    (
        Method::Get,
        &["v0", "changes"],
        &[
            ("since", "integer", "The last sequence number that is known; 0 for all changes."),
            ("follow", "boolean", "The stream goes on with what is written later."),
            ("prefix", "string", "Of keys that begin so, percent-encoded."),
            ("sync", "string", "`disk`: told once they survive the loss of power."),
            TABLE,
            ("collection", "string", "Of the documents of this collection."),
            ("database", "string", "Its database; `_system` unless it is given."),
        ],
    ),
    (Method::Get, &["_admin", "account"], &[("window", "integer", "Of so many last seconds.")]),
    (
        Method::Get,
        &["_admin", "slow"],
        &[
            ("limit", "integer", "Most requests of an operation."),
            ("operation", "string", "Of this operation alone."),
        ],
    ),
    (
        Method::Get,
        &["_admin", "interference"],
        &[("since", "string", "`start` for all since the start.")],
    ),
    (
        Method::Put,
        &["debug", "pprof", "rates"],
        &[
            ("hz", "integer", "Samples of processor time per second and thread."),
            ("bytes", "integer", "Bytes between two sampled allocations."),
            ("wait_ns", "integer", "Nanoseconds of waiting between two sampled waits."),
            ("holders", "integer", "Waits of which one has its holder's stack taken."),
        ],
    ),
    (
        Method::Get,
        &["debug", "pprof", "{profile}"],
        &[
            ("format", "string", "`html`, `svg`, `pb`, `folded` or `shares`."),
            ("seconds", "number", "Seconds to record."),
            ("from", "number", "Of the past, from this many seconds ago, as -60."),
            ("to", "number", "Until this many seconds ago."),
            ("base", "string", "Show the difference to another stretch."),
            ("op", "string", "Of this operation alone."),
            ("phase", "string", "Of this phase alone."),
            ("hz", "integer", "Samples per second while it is recorded."),
        ],
    ),
];

/// The rows that are described. Those that a parameter tells from the next row are one with it.
fn described_routes() -> impl Iterator<Item = &'static Route> {
    ENTITY_ROUTES.iter().chain(SERVER_ROUTES).filter(|route| route.parameter.is_none())
}

/// The document.
pub(crate) fn document() -> Value {
    let mut paths = Map::new();
    for route in described_routes() {
        let path = format!("/{}", route.path.join("/"));
        let item = paths.entry(path).or_insert_with(|| json!({}));
        for method in route.methods.iter() {
            item[method.name().to_lowercase()] = operation(route, method);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Pellucid",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": { "type": "http", "scheme": "basic" },
                "bearer": { "type": "http", "scheme": "bearer" },
            },
        },
    })
}

fn operation(route: &Route, method: Method) -> Value {
    let words = route.path.iter().map(|part| part.trim_matches(['{', '}']).replace('.', "_"));
    let words: Vec<String> = std::iter::once(method.name().to_lowercase()).chain(words).collect();
    let security = if route.need.is_open() {
        json!([])
    } else {
        // Without accounts, the server asks for no credentials.
        json!([{}, { "basic": [] }, { "bearer": [] }])
    };
    let mut operation = json!({
        "operationId": words.join("_"),
        "summary": route.about,
        "security": security,
        "x-need": route.need.to_string(),
        "parameters": parameters(route, method),
        "responses": responses(route, method),
    });
    if let Some(media_type) = body_type(route) {
        let content = json!({ media_type: { "schema": {} } });
        operation["requestBody"] = json!({ "required": true, "content": content });
    }
    operation
}

fn parameters(route: &Route, method: Method) -> Vec<Value> {
    let in_path = route.path.iter().filter(|part| part.starts_with('{')).map(|part| {
        let name = part.trim_matches(['{', '}']);
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
    });
    let rows = PARAMETERS.iter().filter(|(of, path, _)| *of == method && *path == route.path);
    let in_query = rows.flat_map(|(_, _, parameters)| *parameters).map(|(name, kind, about)| {
        json!({
            "name": name,
            "in": "query",
            "required": about.ends_with("Required."),
            "description": about,
            "schema": { "type": kind },
        })
    });
    let mut parameters: Vec<Value> = in_path.chain(in_query).collect();
    if matches!(route.need, Need::Entities(_)) && route.path == ["v0", "entity"] {
        parameters.extend(["If-Match", "If-None-Match"].map(|name| {
            json!({ "name": name, "in": "header", "required": false,
                "schema": { "type": "string" } })
        }));
    }
    parameters
}

fn body_type(route: &Route) -> Option<&'static str> {
    match route.body {
        BodyLimit::Value => Some("application/octet-stream"),
        BodyLimit::Batch | BodyLimit::Bytes(_) => Some("application/x-ndjson"),
        BodyLimit::Little => None,
    }
}

fn responses(route: &Route, method: Method) -> Value {
    let about = |text: &str| json!({ "description": text });
    let mut responses = json!({ "default": about("An error, which a line of text explains.") });
    let mut add = |status: &str, text: &str| responses[status] = about(text);
    match (route.path, method) {
        (["v0", "entity"], Method::Put) => add("201", "Written; the ETag is its revision."),
        (["v0", "entity"], Method::Delete) => add("202", "Removed, or not there before."),
        (["v0", "entity"], _) => {
            add("200", "The entity.");
            add("304", "It is the revision that the client has.");
            add("404", "There is no such entity.");
        }
        (["v0", "changes"], _) => {
            add("200", "The writes, as lines of JSON or as server-sent events.");
            add("410", "Not all of them are there any more; the body says which are.");
        }
        (["v0", "cluster", "peer"], _) => add("101", "The peer protocol begins."),
        _ => add("200", "Done."),
    }
    if route.path == ["v0", "entity"] {
        add("412", "A condition does not hold; nothing was changed.");
    }
    if !route.need.is_open() {
        add("401", "Credentials are missing or wrong.");
        add("403", "The account has no right to it.");
    }
    if body_type(route).is_some() {
        add("413", "The body is too large.");
    }
    responses
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_document_names_every_route() {
        let document = document();
        let (mut methods, mut ids) = (0, HashSet::new());
        for route in described_routes() {
            let path = format!("/{}", route.path.join("/"));
            for method in route.methods.iter() {
                let operation = &document["paths"][&path][method.name().to_lowercase()];
                assert_eq!(operation["summary"], route.about, "{path}");
                assert_eq!(operation["x-need"], route.need.to_string(), "{path}");
                assert!(ids.insert(operation["operationId"].to_string()), "{path}");
                methods += 1;
            }
        }
        let paths = document["paths"].as_object().unwrap().values();
        let described: usize = paths.map(|item| item.as_object().unwrap().len()).sum();
        assert_eq!(described, methods, "and nothing else");
    }

    #[test]
    fn parameters_are_of_routes_that_there_are() {
        for (method, path, _) in PARAMETERS {
            let mut routes = ENTITY_ROUTES.iter().chain(SERVER_ROUTES);
            let is_it = |route: &Route| route.path == *path && route.methods.has(*method);
            assert!(routes.any(is_it), "{path:?}");
        }
    }
}
