//! Test of queries with the results of ArangoDB.

#![allow(clippy::unwrap_used, reason = "what fails here is a test that fails")]

mod memory;
mod queries;

use std::sync::Arc;

use memory::{MemoryDatabase, json, run_with};
use pellucid_aql::{QueryOptions, Source};
use pellucid_value::Value;

const EXAMPLES: &str = include_str!("../testdata/examples.jsonl");

/// The lines with other results than ArangoDB's, and the reasons.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("aqlRegexMatches_3", "the line has each backslash twice as often as the query that was run"),
    ("aqlDateTimeToLocal_1", "time zones"),
    ("aqlDateTimeToLocal_2", "time zones"),
    ("datedyofwk3", "time zones"),
    ("datedyofyr3", "time zones"),
    ("datedysmn6", "time zones"),
    ("datehr3", "time zones"),
    ("datemin3", "time zones"),
    ("dateqtr2", "time zones"),
    ("dateyr3", "time zones"),
];

/// The lines whose result is a set without a defined order.
const UNORDERED: &[&str] = &["aqlArrayMinus_1"];

/// The value with all its arrays sorted.
fn ordered(value: &Value) -> Value {
    let mut elements: Vec<Value> = value.elements().iter().map(ordered).collect();
    if elements.is_empty() {
        return value.clone();
    }
    elements.sort_by(|left, right| pellucid_value::compare(left.view(), right.view()));
    Value::array(elements).unwrap()
}

#[test]
fn examples_give_their_results() {
    let source: Arc<dyn Source> = Arc::new(MemoryDatabase::default());
    let (mut passed, mut wrong) = (0, Vec::new());
    for line in EXAMPLES.lines() {
        let line = json(line);
        let name = line.attribute("name");
        let name = name.as_str().unwrap();
        let query = line.attribute("query");
        let binds = line.attribute("bindVars").to_json();
        let outcome = run_with(&source, query.as_str().unwrap(), &binds, QueryOptions::default());
        let expected = line.attribute("result");
        let is_right = outcome.as_ref().is_ok_and(|outcome| {
            if UNORDERED.contains(&name) {
                return ordered(&outcome.result) == ordered(&expected);
            }
            outcome.result == expected
        });
        let is_exception = EXCEPTIONS.iter().any(|(other, _)| *other == name);
        match (is_right, is_exception) {
            (true, false) => passed += 1,
            (false, true) => {}
            (true, true) => wrong.push(format!("{name} is no exception any more")),
            (false, false) => {
                let got =
                    outcome.map_or_else(|error| error.to_string(), |got| got.result.to_json());
                wrong.push(format!("{name}: {got} instead of {}", expected.to_json()));
            }
        }
    }
    assert!(wrong.is_empty(), "{passed} passed; {wrong:#?}");
    assert_eq!(passed, EXAMPLES.lines().count() - EXCEPTIONS.len());
}
