//! Tests of values, expressions and plans that are nested too deep.

use std::fmt::Write as _;

use super::people;
use crate::memory::run_with;
use pellucid_aql::{QueryOptions, number};

/// The stack size of the server's threads.
const STACK_BYTES: usize = 2 << 20;

/// Runs a query on a thread with the server's stack size. Returns the number of its error, or 0.
fn ends_with(text: String, binds: &'static str) -> u16 {
    let run = move || match run_with(&people(), &text, binds, QueryOptions::default()) {
        Ok(_) => 0,
        Err(error) => error.number(),
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run);
    thread.unwrap().join().unwrap()
}

/// A query that wraps a variable `count` times in `levels` more arrays.
fn nested(count: usize, levels: usize, end: &str) -> String {
    let mut text = "FOR i IN 1..1 LET a0 = i ".to_owned();
    for place in 1..=count {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        write!(text, "LET a{place} = {open}a{}{close} ", place - 1).unwrap();
    }
    text + end
}

/// Regression: each of these overflowed the stack, some only when the result was read.
#[test]
fn values_cannot_exceed_the_depth_limit() {
    let insert = "INSERT {_key: 'deep', v: a16} INTO empty";
    for text in [
        nested(100, 380, "RETURN LENGTH(a100)"),
        nested(16, 380, insert),
        nested(16, 12, &format!("{insert} UPDATE 'a' WITH {{v: [[[[[[[[NEW]]]]]]]]}} IN people")),
        nested(20, 10, "RETURN a20").replace("[a19]", "[{a: a19}]"),
        nested(20, 10, "COLLECT x = i INTO g RETURN g"),
        nested(20, 10, "RETURN PUSH([], a20)"),
        nested(20, 10, "RETURN APPEND([], [a20])"),
        nested(20, 10, "RETURN ZIP(['a'], [a20])"),
        nested(20, 10, "RETURN MERGE({a: 1}, {b: a20})"),
        nested(20, 10, "RETURN (FOR j IN 1..1 RETURN a20)"),
        nested(20, 10, "RETURN [1][* RETURN a20]"),
        nested(20, 10, "RETURN ENTRIES({a: FIRST(a20)})"),
        "RETURN JSON_PARSE(CONCAT(REPEAT('[', 300), REPEAT(']', 300))) + FAIL('no')".to_owned(),
    ] {
        let number = ends_with(text.clone(), "{}");
        let expected =
            if text.contains("FAIL") { number::FAIL_CALLED } else { number::TOO_MUCH_NESTING };
        assert_eq!(number, expected, "{text}");
    }
    for text in [
        nested(20, 10, "RETURN LENGTH(a20)"),
        nested(20, 10, "RETURN FLATTEN(a20, 1000)"),
        nested(20, 10, "RETURN FIRST(a20)[*********************************************]"),
        nested(20, 10, "SORT a20 RETURN DISTINCT FIRST(a20)"),
    ] {
        assert_eq!(ends_with(text.clone(), "{}"), 0, "{text}");
    }
}

/// Regression: nodes called each other recursively, and 4,000 of them overflowed the stack. The
/// number of variables without a node was unbounded, with a linear search for each.
#[test]
fn the_size_of_plans_is_bounded() {
    let lets = |count: usize, value: &str| {
        let mut text = "LET a0 = NOEVAL(1) ".to_owned();
        for place in 1..count {
            write!(text, "LET a{place} = {} ", value.replace('_', &format!("a{}", place - 1)))
                .unwrap();
        }
        text + &format!("RETURN a{}", count - 1)
    };
    let loops = |count: usize| {
        let text: String = (0..count).map(|place| format!("FOR a{place} IN [1] ")).collect();
        text + "RETURN a0"
    };
    let subqueries = |count: usize| "(RETURN ".repeat(count) + "NOEVAL(1)" + &")".repeat(count);
    let both = |count: usize| {
        let fors: String = (0..60).map(|place| format!("FOR b{place} IN [1] ")).collect();
        (0..count).fold("1".to_owned(), |inner, place| {
            format!(
                "(LET x{place} = {inner} {} RETURN 1)",
                fors.replace('b', &format!("c{place}_"))
            )
        })
    };
    for (text, expected) in [
        (lets(3900, "_ + 1"), 0),
        (lets(10_000, "_ + 1"), number::TOO_MUCH_NESTING),
        (lets(100_000, "1"), number::TOO_MUCH_NESTING),
        (lets(3900, "_.x"), 0),
        (loops(240), 0),
        (loops(300), number::TOO_MUCH_NESTING),
        (format!("RETURN {}", subqueries(60)), 0),
        (format!("RETURN {}", subqueries(61)), number::TOO_MUCH_NESTING),
        (format!("RETURN {}", subqueries(5000)), number::TOO_MUCH_NESTING),
        (format!("RETURN {}", both(3)), 0),
        (format!("RETURN {}", both(5)), number::TOO_MUCH_NESTING),
    ] {
        assert_eq!(ends_with(text.clone(), "{}"), expected, "{}", &text[..60.min(text.len())]);
    }
}

/// Regression: a bind variable with many elements became an equally deep expression.
#[test]
fn bind_variables_make_no_deep_expressions() {
    let names = (0..1000).map(|place| format!("\"a{place}\"")).collect::<Vec<_>>();
    let path: &str = Box::leak(format!("{{\"p\":[{}]}}", names.join(",")).into_boxed_str());
    let text = "RETURN NOEVAL({}).@p".to_owned();
    assert_eq!(ends_with(text, path), number::TOO_MUCH_NESTING);
    let members = names.iter().map(|name| format!("{name}:1")).collect::<Vec<_>>();
    let example = format!("{{\"e\":{{{}}}}}", members.join(","));
    let example: &str = Box::leak(example.into_boxed_str());
    let text = "UPSERT @e INSERT {} UPDATE {} IN empty".to_owned();
    assert_eq!(ends_with(text, example), number::TOO_MUCH_NESTING);
}

/// Regression: each bind variable of a chain was limited, but not the chain. A path of 156,000
/// names overflowed the stack.
#[test]
fn chains_of_bound_names_are_bounded() {
    let names = vec!["\"a\""; 400].join(",");
    let path: &str = Box::leak(format!("{{\"p\":[{names}]}}").into_boxed_str());
    let chain = ".@p".repeat(390);
    let broken = (0..100).fold("x".to_owned(), |inner, _| format!("({inner}.@p || 0)"));
    for (text, expected) in [
        (format!("RETURN NOEVAL({{}}){chain}"), number::TOO_MUCH_NESTING),
        (format!("FOR x IN [1] RETURN x{chain}"), number::TOO_MUCH_NESTING),
        (format!("FOR x IN [1] RETURN {broken}"), 0),
        ("FOR x IN [1] LET y = x.@p RETURN [x.@p, y.@p]".to_owned(), 0),
    ] {
        assert_eq!(ends_with(text.clone(), path), expected, "{}", &text[..60.min(text.len())]);
    }
}
