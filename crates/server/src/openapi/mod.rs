//! `/openapi.json`: describes the entity API, the server's own pages and backups in OpenAPI 3.1.
//! The document is made from the table of routes. The document API is not in it, because ArangoDB's
//! documentation describes it.

mod backup_schemas;
mod bodies;
mod entity_schemas;
mod page_schemas;
mod parameters;
mod responses;
pub(crate) mod schema;

use serde_json::{Map, Value, json};

use crate::routes::{self, Method, Route};

const ABOUT: &str = "A HEAD is answered wherever a GET is. With `Prefer: timing`, an answer \
                     carries its account in `Server-Timing`.";

/// The document for a server whose store keeps `copies` copies of an entry.
pub(crate) fn document(copies: u32) -> Value {
    let mut paths = Map::new();
    for route in routes::described() {
        let path = format!("/{}", route.path.join("/"));
        let item = paths.entry(path).or_insert_with(|| json!({}));
        for method in route.methods.iter() {
            item[method.name().to_lowercase()] = operation(route, method, copies);
        }
    }
    let schemas = entity_schemas::all().into_iter().chain(page_schemas::all());
    let schemas = schemas.chain(backup_schemas::all());
    let schemas: Map<_, _> = schemas.map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Pellucid",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": responses::refusals(),
            "securitySchemes": {
                "basic": { "type": "http", "scheme": "basic" },
                "bearer": { "type": "http", "scheme": "bearer" },
            },
        },
    })
}

fn operation(route: &Route, method: Method, copies: u32) -> Value {
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
        "parameters": parameters::of(route, copies),
        "responses": responses::of(route, method),
    });
    if let Some(body) = bodies::of(route) {
        operation["requestBody"] = body;
    }
    operation
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_document_names_every_route() {
        let document = document(1);
        let (mut methods, mut ids) = (0, HashSet::new());
        for route in routes::described() {
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

    /// All components that the document refers to exist, and all existing ones are referred to.
    #[test]
    fn references_and_components_agree() {
        fn collect(value: &Value, found: &mut HashSet<String>) {
            match value {
                Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
                Value::Object(members) => {
                    found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                    members.values().for_each(|member| collect(member, found));
                }
                _ => {}
            }
        }
        let (document, mut found) = (document(1), HashSet::new());
        collect(&document, &mut found);
        let components = ["schemas", "responses"].into_iter().flat_map(|kind| {
            let names = document["components"][kind].as_object().unwrap().keys();
            names.map(move |name| format!("#/components/{kind}/{name}"))
        });
        assert_eq!(components.collect::<HashSet<_>>(), found);
    }
}
