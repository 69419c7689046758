//! Queries, one concept at a time.

mod bounds;
mod indexes;
mod language;
mod limits;
mod nesting;
mod prefixes;
mod writes;

use std::sync::Arc;

use pellucid_aql::{Index, IndexField, IndexKind, QueryError, Source};

use crate::memory::{MemoryDatabase, QueryOutcome, json, run};

/// An index that is not unique.
fn index(id: u64, fields: &[&str], sparse: bool) -> Index {
    let field = |path: &&str| {
        let path = path.split('.').map(str::to_owned).collect();
        IndexField { path, expands: false }
    };
    Index {
        id,
        name: format!("idx_{id}"),
        kind: IndexKind::Persistent,
        fields: fields.iter().map(field).collect(),
        unique: false,
        sparse,
        selectivity: 0.5,
    }
}

/// A source with a collection `people`, with indexes on `age` and on `city` and `age`.
fn people() -> Arc<dyn Source> {
    let documents = r#"[
        {"_key":"a","name":"Ada","age":36,"address":{"city":"London"},"tags":["x","y"]},
        {"_key":"b","name":"Bob","age":25,"address":{"city":"Paris"},"tags":[]},
        {"_key":"c","name":"Cai","age":25,"address":{"city":"London"},"tags":["y"]},
        {"_key":"d","name":"Dee","address":{"city":"Oslo"}},
        {"_key":"e","name":"Eve","age":61.5,"address":{"city":"Paris"},"nick":"E"}
    ]"#;
    let memory = MemoryDatabase::default()
        .with("people", documents)
        .with_index(index(7, &["age"], false))
        .with_index(index(8, &["address.city", "age"], false))
        .with_index(index(9, &["nick"], true))
        .with("plain", documents)
        .with("empty", "[]");
    Arc::new(memory)
}

fn query(source: &Arc<dyn Source>, text: &str) -> QueryOutcome {
    run(source, text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn result(text: &str) -> String {
    query(&people(), text).result.to_json()
}

fn fails(text: &str) -> QueryError {
    match run(&people(), text) {
        Ok(outcome) => panic!("{text}: {}", outcome.result.to_json()),
        Err(error) => error,
    }
}

/// The types of the nodes of a query's plan.
fn nodes(text: &str) -> String {
    let plan = query(&people(), text).plan.explain();
    let nodes = plan.attribute("nodes").elements();
    let names: Vec<_> = nodes
        .iter()
        .map(|node| {
            let name = node.attribute("type").as_str().unwrap().to_owned();
            name.strip_suffix("Node").unwrap().to_owned()
        })
        .collect();
    names.join(" ")
}

/// True if both queries have the same result, with members in any order.
fn same(left: &str, right: &str) {
    assert_eq!(json(left), json(right), "{left} {right}");
}
