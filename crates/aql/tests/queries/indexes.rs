//! Tests of the choice of indexes: a query has the same result with and without an index.

use super::{nodes, people, query, result};

#[test]
fn conditions_find_their_index() {
    for (text, expected) in [
        ("FOR p IN people FILTER p.age == 25 RETURN p", "Singleton Index Return"),
        ("FOR p IN people FILTER 25 < p.age && p.age <= 40 RETURN p", "Singleton Index Return"),
        ("FOR p IN people FILTER p.age IN [25, 36] RETURN p", "Singleton Index Return"),
        ("FOR p IN people FILTER p._key == 'a' RETURN p", "Singleton Index Return"),
        ("FOR p IN people FILTER p._id == 'people/a' RETURN p", "Singleton Index Return"),
        ("FOR p IN people FILTER p._key < 'd' SORT p._key DESC RETURN p", "Singleton Index Return"),
        ("FOR p IN people FILTER p.nick == 'E' RETURN p", "Singleton Index Return"),
        ("FOR p IN people FILTER p.nick IN 18..30 RETURN p", "Singleton Index Return"),
        ("FOR p IN people FILTER p.nick IN RANGE(18, 30) RETURN p", "Singleton Index Return"),
        // Regression: the index refused ranges that are too long.
        (
            "FOR p IN people FILTER p.nick IN 1..200000 RETURN p",
            "Singleton EnumerateCollection Return",
        ),
        (
            "FOR p IN people FILTER p.nick IN RANGE(1, 200000) RETURN p",
            "Singleton EnumerateCollection Return",
        ),
        (
            "FOR p IN people FILTER p.age IN 1..200000 RETURN p",
            "Singleton EnumerateCollection Return",
        ),
        (
            "FOR p IN people FILTER p._key IN RANGE(1, 200000) RETURN p",
            "Singleton EnumerateCollection Return",
        ),
        // Regression: a list that is too long hid other conditions on its attribute.
        (
            "FOR p IN people FILTER p.age IN 1..200000 && p.age > 199990 RETURN p",
            "Singleton Index Return",
        ),
        (
            "FOR p IN people FILTER p._key IN RANGE(1, 200000) && p._key > 'x' RETURN p",
            "Singleton Index Return",
        ),
        (
            "FOR i IN 1..2 FOR p IN people FILTER p.nick IN i..9 RETURN p",
            "Singleton EnumerateList Index Return",
        ),
        ("FOR p IN people FILTER p.nick == null RETURN p", "Singleton EnumerateCollection Return"),
        ("FOR p IN people FILTER p.nick < 'F' RETURN p", "Singleton EnumerateCollection Return"),
        ("FOR p IN people FILTER p.name == 'x' RETURN p", "Singleton EnumerateCollection Return"),
        ("FOR p IN people FILTER p.age + 1 == 3 RETURN p", "Singleton EnumerateCollection Return"),
        (
            "FOR p IN people FILTER p.address.city == 'Paris' SORT p.age DESC LIMIT 1 RETURN p",
            "Singleton Index Limit Return",
        ),
        ("FOR p IN people SORT p.age LIMIT 2 RETURN p", "Singleton Index Limit Return"),
        ("FOR p IN people SORT p.age RETURN p", "Singleton EnumerateCollection Sort Return"),
        ("FOR p IN plain SORT p._key RETURN p", "Singleton EnumerateCollection Return"),
        (
            "FOR i IN 1..3 FOR p IN people FILTER p.age == i SORT p.age RETURN p",
            "Singleton EnumerateList Index Sort Return",
        ),
        (
            "FOR p IN plain FOR q IN people FILTER q.age == p.age FILTER p.name == 'Ada' RETURN q",
            "Singleton EnumerateCollection Index Return",
        ),
        (
            "FOR p IN plain LET a = p.age FILTER a == 25 RETURN p",
            "Singleton EnumerateCollection Return",
        ),
        ("FOR i IN [1] FILTER 1 == 2 RETURN i", "Singleton EnumerateList NoResults Return"),
    ] {
        assert_eq!(nodes(text), expected, "{text}");
    }
}

#[test]
fn an_index_gives_the_result_of_a_scan() {
    for rest in [
        "FILTER p.age == 25 SORT p._key RETURN p.name",
        "FILTER p.age < 30 SORT p._key RETURN p.name",
        "FILTER p.age > null SORT p._key RETURN p.name",
        "FILTER p.age >= 25 && p.age < 61.5 SORT p._key RETURN p.name",
        "FILTER p.age IN [25, 25, 36, 'x', null] SORT p._key RETURN p.name",
        "FILTER p.age IN 25 RETURN p.name",
        "FILTER p.age == null RETURN p.name",
        "FILTER p.address.city == 'London' && p.age > 30 RETURN p.name",
        "FILTER p.address.city == 'London' && p.age > 25 && p.age <= 36 SORT p._key RETURN p.name",
        "FILTER p.address.city == 'London' && p.age >= 25 && p.age < 36 RETURN p.name",
        "FILTER p.address.city == 'Paris' && p.age > 20 && p.age <= 25 RETURN p.name",
        "FILTER p.address.city == 'Paris' SORT p.age DESC RETURN p.name",
        "FILTER p.address.city IN ['Oslo', 'Paris'] SORT p.age RETURN p.age",
        "FILTER p.address.city >= 'M' SORT p._key RETURN p.address.city",
        "FILTER p.age == 25 && p.name == 'Cai' RETURN p._key",
        "FILTER p._key IN ['c', 'a', 'no'] SORT p._key RETURN p.name",
        "FILTER p._key >= 'b' && p._key < 'd' SORT p._key RETURN p.name",
        "FILTER p._key > 'b' SORT p._key DESC RETURN p.name",
        "FILTER p.nick == 'E' RETURN p.name",
        "FILTER p.tags[0] == 'y' RETURN p.name",
        "FILTER 'x' IN p.tags RETURN p.name",
        "SORT p.age DESC LIMIT 2 RETURN p.name",
        "FILTER p.age == 25 || p.name == 'Ada' SORT p._key RETURN p.name",
    ] {
        let with = result(&format!("FOR p IN people {rest}"));
        let without = result(&format!("FOR p IN plain {rest}"));
        assert_eq!(with, without, "{rest}");
        assert_ne!(with, "", "{rest}");
    }
}

#[test]
fn a_covering_index_reads_no_documents() {
    let text = "FOR p IN people FILTER p.address.city == 'London' RETURN [p.address.city, p.age]";
    let outcome = query(&people(), text);
    assert_eq!(outcome.result.to_json(), "[[\"London\",25],[\"London\",36]]");
    assert_eq!((outcome.stats.scanned_index, outcome.stats.document_lookups), (2, 0));
    let text = "FOR p IN people FILTER p.address.city == 'London' RETURN p.name";
    let outcome = query(&people(), text);
    assert_eq!((outcome.stats.scanned_index, outcome.stats.document_lookups), (2, 2));
}

#[test]
fn scans_and_filters_are_counted() {
    let outcome = query(&people(), "FOR p IN plain FILTER p.age == 25 RETURN p");
    assert_eq!((outcome.stats.scanned_full, outcome.stats.filtered), (5, 3));
    let outcome = query(&people(), "FOR p IN plain LIMIT 2 RETURN p");
    assert!(outcome.stats.scanned_full <= 3, "a limit reaches the scan");
}

#[test]
fn a_plan_can_be_explained() {
    let text = "FOR p IN people FILTER p.age == 25 FILTER p.name != 'x' RETURN p.name";
    let plan = query(&people(), text).plan.explain();
    let node = plan.attribute("nodes").nth(1);
    assert_eq!(node.attribute("condition").to_json(), "\"p.age == 25\"");
    assert_eq!(node.attribute("filter").to_json(), "[\"(p.name != \\\"x\\\")\"]");
    assert_eq!(node.attribute("dependencies").to_json(), "[1]");
    assert_eq!(plan.attribute("collections").nth(0).attribute("name").to_json(), "\"people\"");
    let rules = plan.attribute("rules").to_json();
    assert!(rules.contains("use-indexes"), "{rules}");
}
