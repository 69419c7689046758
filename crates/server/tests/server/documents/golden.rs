//! Compares our answers to the calls in ArangoDB's documentation with those of ArangoDB 3.12.10:
//! statuses, members, error messages and headers, without values that differ from run to run
//! (testdata/README.md).

use std::collections::HashMap;

use crate::common::{Answer, Client, serve};
use serde_json::Value;

const ANSWERS: &str = include_str!("../../../testdata/answers.jsonl");

/// The number of lines of the table, so that a lost line is noticed.
const LINES: usize = 103;
/// The number of lines with our own answer: calls that docs/documents.md lists as refused, and key
/// generators.
const OWN: usize = 8;

/// Members with the cost of a query, which depend on each server's own planner.
const COSTS: [&str; 6] =
    ["documentLookups", "seeks", "scannedFull", "scannedIndex", "cursorsCreated", "filtered"];

/// Members that ArangoDB does not have: in a profile, the work in the store.
const BESIDE: [&str; 1] = ["store"];

/// Lines whose error has another message here, with that message.
const OTHER_TEXTS: [(&str, &str); 1] = [
    // Each JSON parser describes its expectation in its own words.
    ("RestDocumentHandlerPostBadJson1", "VPackError error: *"),
];

/// Values from earlier answers of a line: the last `id`, and the revision of each key.
#[derive(Default)]
struct PlaceholderValues {
    id: String,
    revisions: HashMap<String, String>,
}

impl PlaceholderValues {
    /// Notes the values of an answer.
    fn note(&mut self, answer: &Value) {
        if let Some(id) = answer["id"].as_str() {
            id.clone_into(&mut self.id);
        }
        if let (Some(key), Some(revision)) = (answer["_key"].as_str(), answer["_rev"].as_str()) {
            self.revisions.insert(key.to_owned(), revision.to_owned());
        }
    }

    /// Replaces the placeholders of a path, a header or a body by the noted values.
    fn fill(&self, text: &str) -> String {
        let mut text = text.replace("{id}", &self.id);
        for (key, revision) in &self.revisions {
            text = text.replace(&format!("{{rev {key}}}"), revision);
        }
        text
    }
}

/// True if `found` matches `expected`, in which `*` stands for any value.
fn is_like(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::String(expected), Value::String(found)) => is_text_like(expected, found),
        (Value::String(expected), found) => expected == "*" && !found.is_null(),
        (Value::Array(expected), Value::Array(found)) => {
            let mut pairs = expected.iter().zip(found);
            expected.len() == found.len() && pairs.all(|(expected, found)| is_like(expected, found))
        }
        (Value::Object(expected), Value::Object(found)) => {
            let is_member = |(name, value): (&String, &Value)| {
                let is_cost = COSTS.contains(&name.as_str());
                found.get(name).is_some_and(|found| is_cost || is_like(value, found))
            };
            let own = found.keys().filter(|name| BESIDE.contains(&name.as_str())).count();
            expected.len() + own == found.len() && expected.iter().all(is_member)
        }
        _ => expected == found,
    }
}

/// True if a text matches `expected`, in which one `*` stands for one or more characters.
fn is_text_like(expected: &str, found: &str) -> bool {
    match expected.split_once('*') {
        Some((before, after)) => {
            let rest = found.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            rest.is_some_and(|rest| !rest.is_empty())
        }
        None => expected == found,
    }
}

/// Replaces error messages that differ here ([`OTHER_TEXTS`]). Returns true if there was one.
fn put_other_texts(line: &mut Value) -> bool {
    let name = line["name"].as_str().unwrap();
    let Some((_, text)) = OTHER_TEXTS.iter().find(|(other, _)| *other == name) else {
        return false;
    };
    for step in line["steps"].as_array_mut().unwrap() {
        if let Some(message) = step["answer"].get_mut("errorMessage") {
            assert!(!is_text_like(message.as_str().unwrap(), text), "the texts are the same");
            *message = Value::from(*text);
        }
    }
    true
}

/// Sends one step; returns the difference of its answer, if there is one.
fn step(client: &mut Client, step: &Value, given: &mut PlaceholderValues) -> Option<String> {
    let text = |name: &str| given.fill(step[name].as_str().unwrap_or(""));
    let (method, path, body) = (text("method"), text("path"), text("body"));
    let none = Vec::new();
    let headers: Vec<(String, String)> = step["headers"]
        .as_array()
        .unwrap_or(&none)
        .iter()
        .map(|pair| (pair[0].as_str().unwrap().to_owned(), given.fill(pair[1].as_str().unwrap())))
        .collect();
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let answer: Answer = client.call(&method, &path, &headers, &body);
    let found: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
    given.note(&found);
    let mut is_right = u64::from(answer.status) == step["status"].as_u64().unwrap();
    if let Some(expected) = step.get("answer") {
        is_right &= is_like(expected, &found);
    }
    let no_headers = serde_json::Map::new();
    for (name, expected) in step["answer_headers"].as_object().unwrap_or(&no_headers) {
        let found = answer.header(name).unwrap_or("");
        is_right &= is_text_like(expected.as_str().unwrap(), found);
    }
    let Answer { status, headers, .. } = answer;
    (!is_right)
        .then(|| format!("{method} {path}\n  gives {status} {headers:?}\n  {found}\n  {step}"))
}

/// Removes everything that a line has created.
fn clear(client: &mut Client) {
    for collection in client.get("/_api/collection").json()["result"].as_array().unwrap() {
        let name = collection["name"].as_str().unwrap();
        client.call("DELETE", &format!("/_api/collection/{name}?isSystem=true"), &[], b"");
    }
    for database in client.get("/_api/database").json()["result"].as_array().unwrap() {
        if database != "_system" {
            let path = format!("/_api/database/{}", database.as_str().unwrap());
            assert_eq!(client.call("DELETE", &path, &[], b"").status, 200);
        }
    }
}

#[test]
fn answers_are_those_of_arangodb() {
    let (_server, mut client) = serve();
    let (mut lines, mut own, mut others, mut wrong) = (0, 0, 0, Vec::new());
    for line in ANSWERS.lines() {
        let mut line: Value = serde_json::from_str(line).unwrap();
        others += usize::from(put_other_texts(&mut line));
        let name = line["name"].as_str().unwrap();
        let mut given = PlaceholderValues::default();
        for call in line["setup"].as_array().unwrap() {
            let [method, path, body] = [0, 1, 2].map(|part| call[part].as_str().unwrap());
            let made = client.call(method, path, &[], body);
            assert!(made.status < 300, "{name}: {}", made.text());
            given.note(&made.json());
        }
        for call in line["steps"].as_array().unwrap() {
            wrong.extend(step(&mut client, call, &mut given).map(|how| format!("{name}: {how}")));
        }
        clear(&mut client);
        lines += 1;
        own += usize::from(line["own"] == true);
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!((lines, own, others), (LINES, OWN, OTHER_TEXTS.len()));
}
