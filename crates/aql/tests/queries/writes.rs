//! Tests of queries that write.

use super::{fails, people, query};
use crate::memory::{run, run_with};
use pellucid_aql::{QueryOptions, number};

#[test]
fn writes_return_old_and_new_documents() {
    let source = people();
    let outcome =
        query(&source, "INSERT {_key: 'n', v: 1} INTO empty RETURN [OLD, NEW.v, NEW._id]");
    assert_eq!(outcome.result.to_json(), "[[null,1,\"empty/n\"]]");
    assert_eq!(outcome.stats.writes_executed, 1);
    let outcome = query(&source, "UPDATE 'n' WITH {w: 2} IN empty RETURN [OLD.w, NEW.w, NEW.v]");
    assert_eq!(outcome.result.to_json(), "[[null,2,1]]");
    let outcome = query(&source, "REPLACE {_key: 'n', x: 3} IN empty RETURN [NEW.v, NEW.x]");
    assert_eq!(outcome.result.to_json(), "[[null,3]]");
    let text = "UPDATE 'n' WITH {x: null} IN empty OPTIONS {keepNull: false} RETURN HAS(NEW, 'x')";
    assert_eq!(query(&source, text).result.to_json(), "[false]");
    let outcome = query(&source, "FOR d IN empty REMOVE d IN empty RETURN OLD._key");
    assert_eq!(outcome.result.to_json(), "[\"n\"]");
    assert_eq!(query(&source, "RETURN LENGTH(empty)").result.to_json(), "[0]");
}

#[test]
fn a_limit_after_a_write_does_not_limit_the_writes() {
    let source = people();
    let outcome = query(&source, "FOR i IN 1..10 INSERT {v: i} INTO empty LIMIT 2 RETURN NEW.v");
    assert_eq!(outcome.result.to_json(), "[1,2]");
    assert_eq!(query(&source, "RETURN LENGTH(empty)").result.to_json(), "[10]");
}

/// Regression: a query did not make its writes if a limit of 0 or a condition that is always false
/// followed them.
#[test]
fn writes_are_made_before_a_statement_that_needs_no_rows() {
    for (rest, full_count) in [
        ("LIMIT 0 RETURN NEW", 10),
        ("SORT NEW.v LIMIT 0 RETURN NEW", 10),
        ("FILTER NEW.v > 4 LIMIT 3, 0 RETURN NEW", 6),
        ("FILTER 1 == 2 RETURN NEW", 0),
        ("FOR j IN 1..2 FILTER 1 == 2 LIMIT 5 RETURN NEW", 0),
        ("INSERT {w: i} INTO plain LIMIT 0 RETURN 1", 10),
    ] {
        let source = people();
        let text = format!("FOR i IN 1..10 INSERT {{v: i}} INTO empty {rest}");
        let options = QueryOptions { full_count: true, ..QueryOptions::default() };
        let outcome = run_with(&source, &text, "{}", options).unwrap();
        assert_eq!(outcome.result.to_json(), "[]", "{text}");
        assert_eq!(outcome.stats.full_count.unwrap_or(0), full_count, "{text}");
        let written = query(&source, "RETURN [LENGTH(empty), LENGTH(plain)]").result.to_json();
        assert_eq!(
            written,
            if rest.contains("plain") { "[[10,15]]" } else { "[[10,5]]" },
            "{text}"
        );
    }
}

#[test]
fn a_write_reads_its_own_collection_before_it_writes() {
    for text in [
        "FOR d IN people INSERT {n: LENGTH(people), d: DOCUMENT(people, d._key)} INTO people \
         RETURN NEW.n",
        "FOR d IN people UPDATE d WITH {n: LENGTH(FOR p IN people RETURN 1)} IN people \
         RETURN NEW.n",
        "FOR d IN people UPSERT {_key: d._key} INSERT {} UPDATE {n: LENGTH(people)} IN people \
         RETURN NEW.n",
    ] {
        assert_eq!(query(&people(), text).result.to_json(), "[5,5,5,5,5]", "{text}");
    }
}

#[test]
fn a_query_that_fails_writes_nothing() {
    let source = people();
    let error = run(&source, "FOR i IN [1, 2, 2] INSERT {_key: TO_STRING(i)} INTO empty").err();
    assert_eq!(error.unwrap().number(), number::UNIQUE_CONSTRAINT);
    assert_eq!(query(&source, "RETURN LENGTH(empty)").result.to_json(), "[0]");
    let text =
        "FOR i IN [1, 2, 2] INSERT {_key: TO_STRING(i)} INTO empty OPTIONS {ignoreErrors: true}";
    let outcome = query(&source, text);
    assert_eq!((outcome.stats.writes_executed, outcome.stats.writes_ignored), (2, 1));
    assert_eq!(query(&source, "RETURN LENGTH(empty)").result.to_json(), "[2]");
}

#[test]
fn upserts_see_earlier_writes_of_the_query() {
    let source = people();
    let text = "FOR i IN 1..3 UPSERT {n: 1} INSERT {n: 1, c: 1} UPDATE {c: OLD.c + 1} IN empty \
                RETURN NEW.c";
    assert_eq!(query(&source, text).result.to_json(), "[1,2,3]");
    assert_eq!(query(&source, text).result.to_json(), "[4,5,6]");
    let text =
        "UPSERT FILTER $CURRENT.n == 1 INSERT {n: 0} REPLACE {n: 5} IN empty RETURN [$OLD.c, $NEW]";
    let outcome = query(&source, text);
    assert_eq!(outcome.result.nth(0).nth(0).to_json(), "6");
    assert_eq!(outcome.result.nth(0).nth(1).attribute("n").to_json(), "5");
    assert_eq!(query(&source, "RETURN LENGTH(empty)").result.to_json(), "[1]");
}

/// Regression: `CURRENT` within brackets was the document, so that no document was found.
#[test]
fn brackets_in_the_filter_of_an_upsert_have_their_own_current() {
    let source = people();
    for condition in [
        "CURRENT.tags[? FILTER CURRENT == 'x']",
        "LENGTH(CURRENT.tags[* FILTER $CURRENT == 'x']) > 0",
        "'x' IN CURRENT.tags[* RETURN CURRENT] AND CURRENT.name == 'Ada'",
    ] {
        let text = format!(
            "UPSERT FILTER {condition} INSERT {{n: 1}} UPDATE {{n: 2}} IN plain RETURN OLD._key"
        );
        assert_eq!(query(&source, &text).result.to_json(), "[\"a\"]", "{text}");
    }
}

/// Regression: nested objects in bind variables were compared as a whole, so that a second document
/// was inserted.
#[test]
fn upserts_compare_bound_objects_by_their_attributes() {
    let source = people();
    query(&source, "INSERT {a: {b: 1, c: 2}} INTO empty");
    let upsert = |example: &str, binds: &str| {
        let text = format!("UPSERT {example} INSERT {{}} UPDATE {{n: 1}} IN empty");
        run_with(&source, &text, binds, QueryOptions::default())
    };
    for (example, binds) in [
        ("@e", r#"{"e":{"a":{"b":1}}}"#),
        ("{a: @e}", r#"{"e":{"b":1}}"#),
        ("{a: @e}", r#"{"e":{"c":2,"b":1}}"#),
        ("{a: {b: @e}}", r#"{"e":1}"#),
    ] {
        assert_eq!(upsert(example, binds).err(), None, "{example}");
        assert_eq!(query(&source, "RETURN LENGTH(empty)").result.to_json(), "[1]", "{example}");
    }
    let error = upsert("@e", r#"{"e":5}"#).err().unwrap();
    assert_eq!(error.number(), number::PARSE);
}

#[test]
fn overwrite_modes_are_respected() {
    let source = people();
    query(&source, "INSERT {_key: 'k', a: 1} INTO empty");
    for (mode, expected) in [("ignore", "[null]"), ("update", "[[1,2]]"), ("replace", "[[null,2]]")]
    {
        for options in [
            format!("overwriteMode: '{mode}'"),
            format!("overwriteMode: '{mode}', overwrite: true"),
            format!("overwrite: true, overwriteMode: '{mode}'"),
        ] {
            let text = format!(
                "INSERT {{_key: 'k', b: 2}} INTO empty OPTIONS {{{options}}} \
                 RETURN NEW ? [NEW.a, NEW.b] : null"
            );
            assert_eq!(query(&source, &text).result.to_json(), expected, "{options}");
        }
    }
    for options in
        ["overwriteMode: 'conflict', overwrite: true", "overwrite: true, overwriteMode: 'conflict'"]
    {
        let text = format!("INSERT {{_key: 'k'}} INTO empty OPTIONS {{{options}}}");
        let error = run(&source, &text).err().unwrap();
        assert_eq!(error.number(), number::UNIQUE_CONSTRAINT, "{options}");
    }
}

#[test]
fn errors_of_writes_have_their_numbers() {
    for (text, expected) in [
        ("REMOVE 'zz' IN people", number::DOCUMENT_NOT_FOUND),
        ("INSERT 1 INTO people", number::DOCUMENT_TYPE_INVALID),
        ("UPDATE {a: 1} IN people", 1226),
        ("INSERT {} INTO no", number::COLLECTION_NOT_FOUND),
        ("INSERT {} INTO people FOR p IN people RETURN p", number::ACCESS_AFTER_MODIFICATION),
        ("INSERT {} INTO people INSERT {} INTO people", number::ACCESS_AFTER_MODIFICATION),
        (
            "INSERT {} INTO people RETURN (FOR p IN people RETURN p)",
            number::ACCESS_AFTER_MODIFICATION,
        ),
        ("INSERT {} INTO people RETURN LENGTH(people)", number::ACCESS_AFTER_MODIFICATION),
        ("INSERT {} INTO people RETURN DOCUMENT('people/a')", number::ACCESS_AFTER_MODIFICATION),
        (
            "INSERT {} INTO people RETURN COLLECTION_COUNT('people')",
            number::ACCESS_AFTER_MODIFICATION,
        ),
        ("FOR p IN plain REMOVE p IN people OPTIONS {keepNull: p.a}", number::COMPILE_TIME_OPTIONS),
        ("RETURN (INSERT {} INTO people RETURN 1)", number::NOT_IMPLEMENTED),
    ] {
        assert_eq!(fails(text).number(), expected, "{text}");
    }
}
