//! Test of queries that need far more memory than their limit: the process takes little more than
//! the limit.

#![allow(clippy::unwrap_used, reason = "what fails here is a test that fails")]

mod counting;
#[allow(dead_code, reason = "shared with tests that look at more of it")]
mod memory;

use std::sync::Arc;
use std::time::Duration;

use memory::{MemoryDatabase, run_with};
use pellucid_aql::{QueryOptions, Source, number};

const LIMIT_BYTES: usize = 32 << 20;
/// The most bytes that the process may take during a query: the syntax tree and the rows may each
/// take the limit.
const PEAK_BYTES_MAX: usize = 2 * LIMIT_BYTES + (32 << 20);

fn list(count: usize, item: &str) -> String {
    vec![item; count].join(",")
}

/// Queries that build more than their limit.
fn greedy() -> Vec<String> {
    let doubled: String =
        (1..40).map(|n| format!("LET a{n} = CONCAT(a{0}, a{0}) ", n - 1)).collect();
    let nested: String = (1..40).map(|n| format!("LET a{n} = [a{0}, a{0}] ", n - 1)).collect();
    let members: String = (0..10_000).map(|n| format!("n{n}: i,")).collect();
    let path = ".b".repeat(390);
    let loops: String = (0..20).map(|n| format!("FOR i{n} IN 1..1000 ")).collect();
    vec![
        "FOR i IN 1..100000 FOR j IN 1..100000 RETURN [[i, [j, [i]]], [j, [i, [j]]]]".into(),
        "RETURN (FOR i IN 1..3000 RETURN (FOR j IN 1..3000 RETURN [i, [j]]))".into(),
        "FOR i IN 1..300000 RETURN {i, list: [i, i + 1, {i}], text: CONCAT('n', i)}".into(),
        "FOR i IN 1..100000 FOR d IN c COLLECT k = d._key INTO g RETURN [k, g]".into(),
        "FOR i IN 1..100000 FOR d IN c COLLECT k = i INTO g = d.text RETURN [k, g]".into(),
        "FOR i IN 1..100000 FOR d IN c COLLECT AGGREGATE u = UNIQUE([i, d]) RETURN u".into(),
        "FOR i IN 1..100000 COLLECT k = i AGGREGATE m = MAX(CONCAT(i, REPEAT('x', 5000))) RETURN m"
            .into(),
        "FOR i IN 1..100000 FOR d IN c SORT d.n, i DESC RETURN d".into(),
        "FOR i IN 1..100000 SORT CONCAT(REPEAT('x', 5000), i) RETURN i".into(),
        "FOR i IN 1..100000 RETURN DISTINCT REPEAT('x', i)".into(),
        format!("LET a0 = REPEAT('x', 1000) {doubled} RETURN a39"),
        format!("FOR i IN 1..9 LET a0 = CONCAT('x', i) {doubled} RETURN LENGTH(a39)"),
        format!("FOR i IN 1..9 LET a0 = [i] {nested} RETURN JSON_STRINGIFY(a39)"),
        format!("FOR i IN 1..9 LET a0 = [i] {nested} RETURN FLATTEN(a39, 100)"),
        format!("FOR i IN 1..9 LET a = RANGE(i, 20000) RETURN UNION({})", list(400, "a")),
        format!("FOR i IN 1..9 LET a = RANGE(i, 20000) RETURN INTERLEAVE({})", list(400, "a")),
        format!("FOR i IN 1..9 LET a = RANGE(i, 20000) RETURN [{}]", list(400, "a[*]")),
        format!("FOR i IN 1..100000 RETURN {{{members}}}"),
        format!("FOR i IN 1..9 LET a = {{{members}}} RETURN MERGE({})", list(400, "a")),
        "RETURN 1..9999999".into(),
        "FOR i IN 1..9 RETURN LENGTH(FOR j IN RANGE(i, 9999999) RETURN j)".into(),
        format!("{loops} RETURN [i0, i1, i19]"),
        "FOR i IN 1..100000 INSERT {i, text: REPEAT('x', 1000 + i % 7)} INTO other".into(),
        "FOR d IN c UPDATE d WITH {text: REPEAT(d.text, 300)} IN c RETURN NEW".into(),
        "FOR i IN 1..9 RETURN SPLIT(REPEAT(TO_STRING(i), 9000000), '')".into(),
        // Regression: tokens and trees of these texts took up to 1.4 GiB.
        format!("RETURN [{}]", list(4_000_000, "1")),
        format!("RETURN [{}]", list(2_000_000, "'a'")),
        format!("RETURN [{}]", list(3_000_000, "[]")),
        format!("RETURN [{}]", list(2_000_000, "{a:1}")),
        format!("RETURN {}1", "a+".repeat(4_000_000)),
        format!("RETURN '{}'", "x".repeat(15 << 20)),
        format!("RETURN {{{}}}", list(1_000_000, "abc:'def'")),
        // Regression: each use of a name copied the path for which it stands, and only the use
        // itself was counted.
        format!("FOR d IN c LET a = d{path} RETURN [{}]", list(100_000, "a")),
        format!(
            "FOR d IN c LET a = d{path} COLLECT k = 1 INTO g KEEP {} RETURN g",
            list(100_000, "a")
        ),
        "(".repeat(16_000_000),
        "FOR ".repeat(4_000_000),
        "@a ".repeat(4_000_000),
    ]
}

#[test]
fn the_process_takes_little_more_than_the_limit() {
    let document = format!("{{\"n\":1,\"text\":\"{}\"}}", "x".repeat(20_000));
    let documents = format!("[{}]", list(20, &document));
    let source: Arc<dyn Source> =
        Arc::new(MemoryDatabase::default().with("c", &documents).with("other", "[]"));
    let options = QueryOptions {
        memory_bytes_max: LIMIT_BYTES,
        runtime_max: Some(Duration::from_secs(20)),
        ..QueryOptions::default()
    };
    for text in greedy() {
        let shown: String = text.chars().take(100).collect();
        let before = counting::restart();
        let ended = run_with(&source, &text, "{}", options.clone()).err();
        let peak = counting::peak_bytes() - before;
        assert!(peak <= PEAK_BYTES_MAX, "{} MiB: {shown}", peak >> 20);
        assert_eq!(ended.map(|error| error.number()), Some(number::RESOURCE_LIMIT), "{shown}");
    }
}
