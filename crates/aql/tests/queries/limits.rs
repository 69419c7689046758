//! Tests of the limits of memory and time, and of other limits.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{index, people, result};
use crate::memory::{MemoryDatabase, json, run_with};
use pellucid_aql::{Execution, KillSwitch, Plan, QueryError, QueryOptions, Source, number, parse};
use pellucid_value::Value;

#[test]
fn memory_is_bounded() {
    let options = QueryOptions { memory_bytes_max: 100_000, ..QueryOptions::default() };
    for text in [
        "FOR i IN 1..100000 RETURN i",
        "FOR i IN 1..100000 SORT i RETURN i",
        "FOR i IN 1..300 SORT REPEAT('x', 1000 + i) LIMIT 300 RETURN 1",
        "FOR i IN 1..300 LET x = REPEAT('x', 9000 + i) FILTER x == '' RETURN 1",
        "FOR i IN 1..300 FILTER LENGTH([REPEAT('x', 90000 + i), REPEAT('x', 9000 + i)]) < 0 \
         RETURN 1",
        "FOR x IN (FOR i IN 1..10 RETURN i)[* RETURN REPEAT('x', 20000 + CURRENT)] RETURN 1",
        "FOR i IN 1..10 FOR x IN RANGE(i, 100000, 1) FILTER x < 0 RETURN 1",
        "RETURN LENGTH(UNION(RANGE(1, 3000), RANGE(2, 3000)))",
        "FOR i IN 1..100000 RETURN DISTINCT i",
        "FOR i IN 1..100000 COLLECT j = i RETURN j",
        "FOR i IN 1..100000 INSERT {i} INTO empty",
        "RETURN LENGTH(FOR i IN 1..100000 RETURN i)",
        // Values that are compared with: those of a scan, and those of an index.
        "FOR i IN [0] FOR p IN plain FILTER p.age != REPEAT('a', 40000 + i) \
         FILTER p.age != REPEAT('b', 40000 + i) FILTER p.age != REPEAT('c', 40000 + i) RETURN 1",
        "FOR i IN [0] FOR p IN people FILTER p.address.city == REPEAT('a', 40000 + i) \
         FILTER p.age > REPEAT('b', 40000 + i) FILTER p.age < REPEAT('c', 40000 + i) RETURN 1",
    ] {
        let error = run_with(&people(), text, "{}", options.clone()).err();
        assert_eq!(error.map(|error| error.number()), Some(number::RESOURCE_LIMIT), "{text}");
    }
    let text = "FOR i IN 1..100000 SORT -i LIMIT 2 RETURN i";
    let outcome = run_with(&people(), text, "{}", QueryOptions::default()).unwrap();
    assert_eq!(outcome.result.to_json(), "[100000,99999]");
    assert!(outcome.stats.peak_memory_bytes < 2_000_000, "{:?}", outcome.stats);
}

/// A query may process far more data than its memory limit, because freed memory does not count.
#[test]
fn freed_memory_does_not_count() {
    let options = QueryOptions { memory_bytes_max: 300_000, ..QueryOptions::default() };
    for text in [
        "FOR i IN 1..100000 LET x = [i, i] FILTER x == [] RETURN x",
        "FOR i IN 1..1000 LET x = REPEAT('x', 100 + i % 7) RETURN LENGTH(x)",
        "FOR i IN 1..2000 RETURN LENGTH(FOR j IN 1..100 SORT -j LIMIT 50 RETURN j)",
        "FOR i IN 1..2000 FOR x IN RANGE(i, i + 10, 1) FILTER x < 0 RETURN x",
        "FOR i IN 1..2000 RETURN FIRST(FOR x IN RANGE(i, i + 100, 1) LIMIT 1 RETURN x)",
        "FOR i IN 1..1000 FOR p IN plain FILTER p.age == REPEAT('a', 9000 + i) RETURN p",
        "FOR i IN 1..1000 FOR p IN people FILTER p.age == REPEAT('a', 9000 + i) RETURN p",
        "FOR i IN 1..100 FOR p IN plain FILTER p.name IN 1..1100 RETURN p",
        "FOR i IN 1..100 FOR p IN people FILTER p.address.city > 'A' && p.name IN 1..1100 RETURN p",
        "FOR i IN 1..1000 RETURN LENGTH(people)",
        "FOR i IN 1..1000 RETURN LENGTH(UNION(people, people))",
        "FOR i IN 1..1000 RETURN LENGTH([REPEAT('x', 1000 + i)][* RETURN CONCAT(CURRENT, 'y')])",
    ] {
        let outcome = run_with(&people(), text, "{}", options.clone());
        assert_eq!(outcome.err(), None, "{text}");
    }
}

/// Regression: brackets took three times the memory of the elements, also without nested arrays.
#[test]
fn the_elements_within_brackets_are_copied_once() {
    const LENGTH: usize = 20_000;
    let documents = format!(r#"[{{"list":[{}]}}]"#, vec!["1"; LENGTH].join(","));
    let source: Arc<dyn Source> = Arc::new(MemoryDatabase::default().with("c", &documents));
    let memory_bytes_max = 2 * LENGTH * size_of::<Value>();
    let options = QueryOptions { memory_bytes_max, ..QueryOptions::default() };
    let text = "FOR d IN c RETURN [d.list[? FILTER CURRENT == 1], d.list[* FILTER CURRENT == 2]]";
    let outcome = run_with(&source, text, "{}", options).unwrap();
    assert_eq!(outcome.result.to_json(), "[[true,[]]]");
}

#[test]
fn a_query_ends_when_killed_or_out_of_time() {
    let options =
        QueryOptions { runtime_max: Some(Duration::from_millis(1)), ..QueryOptions::default() };
    for text in ["FOR i IN 1..1000000000 FILTER i < 0 RETURN i", "RETURN SLEEP(1000)"] {
        let error = run_with(&people(), text, "{}", options.clone()).err().unwrap();
        assert_eq!(error.number(), number::KILLED, "{text}");
    }
    let source = people();
    let parsed = parse("FOR i IN 1..1000000000 RETURN i").unwrap();
    let (options, kill, binds) = (QueryOptions::default(), KillSwitch::default(), json("{}"));
    let plan = Arc::new(Plan::new(&parsed, &binds, &source, &options, &kill).unwrap());
    let mut execution = Execution::new(plan, &binds, source, options, kill.clone());
    assert_eq!(execution.next(10, usize::MAX).unwrap().len(), 10);
    kill.kill();
    let ended = (0..1000).find_map(|_| execution.next(1000, usize::MAX).err());
    assert_eq!(ended.unwrap().number(), number::KILLED);
}

/// Regression: functions whose time is the product of their arguments' lengths checked neither the
/// time limit nor the kill switch.
#[test]
fn functions_end_when_the_query_is_killed_or_out_of_time() {
    let options =
        QueryOptions { runtime_max: Some(Duration::from_millis(20)), ..QueryOptions::default() };
    // The first call is constant and is computed during planning, the second one during execution.
    for number in ["100000", "100000 + x.age"] {
        let long = format!("REPEAT('a', {number})");
        for value in [
            format!("CONCAT({long}, 'b') LIKE CONCAT('%', {long}, 'c')"),
            format!("LIKE(CONCAT({long}, 'b'), CONCAT('%', {long}, 'c'))"),
            format!("UNIQUE(RANGE(1, 30 * ({number})))"),
            format!("LENGTH(SPLIT(REPEAT({long}, 200), ['a', 'not there']))"),
            format!("LENGTH(SUBSTITUTE(REPEAT({long}, 200), ['a', 'not there'], 'b'))"),
            format!("ZIP(RANGE(1, 30 * ({number})), RANGE(1, 30 * ({number})))"),
        ] {
            let text = format!("FOR x IN people LIMIT 1 RETURN {value}");
            let error = run_with(&people(), &text, "{}", options.clone()).err();
            assert_eq!(error.map(|error| error.number()), Some(number::KILLED), "{text}");
        }
    }
    for (text, expected) in [
        ("RETURN LENGTH(APPEND(1..60000, 30001..90000, true))", "[90000]"),
        ("RETURN LENGTH(REMOVE_VALUES(1..60000, 30001..90000))", "[30000]"),
        ("RETURN LENGTH(MERGE(FOR i IN 1..3000 RETURN {[i]: i}))", "[3000]"),
        ("RETURN APPEND([1, 2, 1], [1.0, '1', 3], true)", "[[1,2,\"1\",3]]"),
        ("RETURN REMOVE_VALUES([1, [2], null, 1], [1.0, [2]])", "[[null]]"),
        ("RETURN MERGE([{a: 1, b: 2}, {b: 3}, {a: 4}])", r#"[{"a":4,"b":3}]"#),
        ("RETURN UNSET({a: 1, b: 2, c: 3}, ['a', 'c'])", r#"[{"b":2}]"#),
        ("RETURN UNSET({a: 1, b: 2, c: 3}, 'a', ['c'])", r#"[{"b":2}]"#),
    ] {
        assert_eq!(result(text), expected, "{text}");
    }
    let parsed = parse("RETURN UNIQUE(RANGE(1, 1000))");
    let (kill, options) = (KillSwitch::default(), QueryOptions::default());
    kill.kill();
    let planned = Plan::new(&parsed.unwrap(), &json("{}"), &people(), &options, &kill);
    assert_eq!(planned.err().map(|error| error.number()), Some(number::KILLED));
}

/// Regression: what was copied of documents that the filter rejects did not count.
#[test]
fn the_documents_that_a_light_query_rejects_count() {
    let document = format!(r#"{{"a":1,"text":"{}"}}"#, "x".repeat(100_000));
    let documents = format!("[{}]", vec![document; 5].join(","));
    let memory = MemoryDatabase::default().with("c", &documents);
    let source: Arc<dyn Source> = Arc::new(memory.with_index(index(7, &["a"], false)));
    let text = "FOR d IN c FILTER d.a == 1 FILTER d.text == d.other RETURN d";
    for (is_light, expected) in [(false, None), (true, Some(QueryError::NotLight))] {
        let options = QueryOptions { is_light, ..QueryOptions::default() };
        assert_eq!(run_with(&source, text, "{}", options).err(), expected);
    }
}

/// The time limit does not include the time that the client takes between batches.
#[test]
fn the_time_between_batches_does_not_count() {
    let source = people();
    let parsed = parse("FOR i IN 1..5 RETURN i").unwrap();
    let runtime_max = Duration::from_secs(3);
    let options = QueryOptions { runtime_max: Some(runtime_max), ..QueryOptions::default() };
    let (kill, binds) = (KillSwitch::default(), json("{}"));
    let plan = Arc::new(Plan::new(&parsed, &binds, &source, &options, &kill).unwrap());
    let mut execution = Execution::new(plan, &binds, source, options, kill);
    assert_eq!(execution.next(2, usize::MAX).unwrap().len(), 2);
    std::thread::sleep(runtime_max + Duration::from_millis(100));
    assert!(u128::from(execution.elapsed_ns()) < runtime_max.as_nanos());
    assert_eq!(execution.next(2, usize::MAX).unwrap().len(), 2);
}

/// Regression: planning and running could take `maxRuntime` each. The call here is a constant of
/// the plan.
#[test]
fn planning_and_running_share_the_time() {
    let source = people();
    let parsed = parse(
        "LET a = LEVENSHTEIN_DISTANCE(REPEAT('a', 9000), REPEAT('b', 9000)) \
         FOR i IN 1..10000 FILTER i < 0 RETURN a",
    )
    .unwrap();
    let (options, kill, binds) = (QueryOptions::default(), KillSwitch::default(), json("{}"));
    let begun = Instant::now();
    let plan = Arc::new(Plan::new(&parsed, &binds, &source, &options, &kill).unwrap());
    // This is less than the planning took, even if the clock was read late.
    let runtime_max = Some(begun.elapsed() / 8);
    let options = QueryOptions { runtime_max, ..options };
    let mut execution = Execution::new(plan, &binds, source, options, kill);
    assert_eq!(execution.next(2, usize::MAX).unwrap_err().number(), number::KILLED);
}

#[test]
fn full_count_counts_the_rows_beyond_the_limit() {
    let options = QueryOptions { full_count: true, ..QueryOptions::default() };
    for (text, result, count) in [
        ("FOR i IN 1..1000 FILTER i > 500 LIMIT 10 RETURN i", 10, Some(500)),
        ("FOR i IN 1..1000 SORT i DESC LIMIT 5, 10 RETURN i", 10, Some(1000)),
        ("FOR i IN 1..3 LIMIT 10 RETURN i", 3, Some(3)),
        ("FOR i IN 1..3 RETURN i", 3, None),
        ("FOR i IN 1..3 LIMIT 2, 0 RETURN i", 0, Some(3)),
    ] {
        let outcome = run_with(&people(), text, "{}", options.clone()).unwrap();
        assert_eq!(outcome.result.elements().len(), result, "{text}");
        assert_eq!(outcome.stats.full_count, count, "{text}");
    }
}

/// Regression: a list of too many values for an index was compared element by element with each
/// document.
#[test]
fn values_are_looked_up_in_long_lists() {
    for (long, short) in [
        ("p.age IN 1..200000", "p.age >= 1 && p.age <= 200000 && FLOOR(p.age) == p.age"),
        ("p.age NOT IN 30..200000", "p.age < 30 || p.age > 200000 || FLOOR(p.age) != p.age"),
        ("p.age IN APPEND(RANGE(1000, 200000), [null, 'x'])", "p.age == null || p.age == 'x'"),
    ] {
        let of = |condition: &str| {
            let text = format!("FOR p IN people FILTER {condition} SORT p._key RETURN p._key");
            run_with(&people(), &text, "{}", QueryOptions::default()).unwrap().result
        };
        assert_eq!(of(long), of(short), "{long}");
    }
}

#[test]
fn results_that_would_be_too_long_are_refused() {
    for text in [
        "RETURN LENGTH(1..100000000000)",
        "RETURN LENGTH(RANGE(1, 100000000000))",
        "RETURN LENGTH(RANGE(0, 1, 1e-9))",
        "RETURN LENGTH(REPLACE_NTH([], 10000000, 1, 0))",
        "RETURN LENGTH(REPEAT('x', 1000000000))",
        "FOR n IN 100001..100001 FOR p IN people FILTER p.age IN 1..n RETURN p",
    ] {
        let error = run_with(&people(), text, "{}", QueryOptions::default()).err().unwrap();
        assert_eq!(error.number(), number::RESOURCE_LIMIT, "{text}");
    }
}
