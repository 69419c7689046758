//! Tests of conditions on the prefix of a string: an index answers them where possible, with the
//! result of a scan.

use std::sync::Arc;

use pellucid_aql::{QueryOptions, Source};
use pellucid_io::SeededRandom;
use pellucid_value::Value;

use super::{index, nodes, people, query, result};
use crate::memory::{MemoryDatabase, QueryOutcome, run_with};

#[test]
fn prefixes_are_index_ranges() {
    for (condition, is_answered) in [
        ("p.address.city LIKE 'Lon%'", true),
        ("p.address.city LIKE 'Lon_on'", true),
        ("p.address.city LIKE 'London'", true),
        ("p.address.city LIKE CONCAT('Lo', '%')", true),
        ("LIKE(p.address.city, 'Lon%')", true),
        ("LIKE(p.address.city, 'Lon%', false)", true),
        ("STARTS_WITH(p.address.city, 'Lon')", true),
        ("p.nick LIKE 'E%'", true),
        ("p._key LIKE 'a%'", true),
        // Keys are always strings, even if they look like numbers.
        ("p._key LIKE '1%'", true),
        ("STARTS_WITH(p._key, 'a')", true),
        ("STARTS_WITH(p.age, '2')", true),
        ("p.address.city LIKE '2024-%'", true),
        ("p.address.city LIKE 'Paris%' && p.address.city < 'Z'", true),
        // Values of other types can match these patterns as well.
        ("p.age LIKE '2%'", false),
        ("p.address.city LIKE 't%'", false),
        ("p.address.city LIKE '[%'", false),
        ("p.address.city LIKE '%on'", false),
        ("p.address.city LIKE ''", false),
        ("STARTS_WITH(p.address.city, '')", false),
        ("LIKE(p.address.city, 'Lon%', true)", false),
        ("LIKE(p.address.city, 'Lon%', p.age)", false),
        ("p.address.city NOT LIKE 'Lon%'", false),
        ("!STARTS_WITH(p.address.city, 'Lon')", false),
        ("STARTS_WITH(p.address.city, ['Lon', 'Par'])", false),
        ("p.address.city LIKE p.name", false),
        ("'London' LIKE p.address.city", false),
        ("p.name LIKE 'A%'", false),
    ] {
        let text = format!("FOR p IN people FILTER {condition} RETURN p");
        let expected = if is_answered { "Index" } else { "EnumerateCollection" };
        assert_eq!(nodes(&text), format!("Singleton {expected} Return"), "{text}");
        let sorted = text.replace("RETURN p", "SORT p._key RETURN p.name");
        assert_eq!(result(&sorted), result(&sorted.replace("people", "plain")), "{text}");
    }
}

#[test]
fn a_plan_has_the_range_and_checks_the_condition_again() {
    let text = "FOR p IN people FILTER p.address.city LIKE 'Lon%n' SORT p.address.city LIMIT 9 \
                RETURN p.address.city";
    let outcome = query(&people(), text);
    let node = outcome.plan.explain().attribute("nodes").nth(1);
    let condition = node.attribute("condition");
    assert_eq!(condition.as_str(), Some("p.address.city >= \"Lon\" && p.address.city < \"Loo\""));
    assert_eq!(node.attribute("filter").to_json(), r#"["(p.address.city LIKE \"Lon%n\")"]"#);
    assert_eq!(node.attribute("indexCoversProjections"), Value::Bool(true));
    assert_eq!(outcome.result.to_json(), r#"["London","London"]"#);
    assert_eq!((outcome.stats.scanned_index, outcome.stats.document_lookups), (2, 0));
}

/// Texts that are hard to order or to escape, and values of other types.
const PIECES: [&str; 17] = [
    "a", "b", "%", "_", "\\", "\u{0}", "\u{7f}", "é", "\u{d7ff}", "\u{e000}", "\u{10ffff}", "1",
    "-", ".", "true", "[", "{",
];
const OTHERS: [&str; 12] = [
    "null", "true", "false", "1", "-1.5", "11", "1e100", "[]", "[1]", "[\"a\"]", "{}", "{\"a\":1}",
];

/// A generator of random texts and other values, with a fixed seed.
struct ValueGenerator(SeededRandom);

impl ValueGenerator {
    /// A string as JSON.
    fn text(&mut self) -> String {
        let length = self.0.place(4);
        let text: String = (0..length).map(|_| PIECES[self.0.place(PIECES.len())]).collect();
        Value::from(text).to_json()
    }

    fn value(&mut self) -> String {
        if self.0.place(4) == 0 {
            OTHERS[self.0.place(OTHERS.len())].to_owned()
        } else {
            self.text()
        }
    }
}

fn ask(source: &Arc<dyn Source>, text: &str, prefix: &str) -> QueryOutcome {
    let binds = format!("{{\"p\":{prefix}}}");
    run_with(source, text, &binds, QueryOptions::default())
        .unwrap_or_else(|error| panic!("{text} {binds}: {error}"))
}

#[test]
fn an_index_gives_the_result_of_a_scan_for_any_prefix() {
    let mut random = ValueGenerator(SeededRandom::new(7));
    let documents: Vec<String> = (0..400)
        .map(|_| format!("{{\"g\":{},\"v\":{}}}", random.0.place(2), random.value()))
        .collect();
    let documents = format!("[{}]", documents.join(","));
    let memory = MemoryDatabase::default().with("plain", &documents).with("whole", &documents);
    let memory = memory.with_index(index(7, &["v"], false)).with("sparse", &documents);
    let memory = memory.with_index(index(8, &["v"], true)).with("second", &documents);
    let source: Arc<dyn Source> = Arc::new(memory.with_index(index(9, &["g", "v"], false)));
    let mut answered = 0;
    for _ in 0..300 {
        let prefix = random.text();
        for condition in [
            "d.v LIKE @p",
            "LIKE(d.v, @p)",
            "STARTS_WITH(d.v, @p)",
            "d.v LIKE CONCAT(@p, '%')",
            "d.v LIKE CONCAT(@p, '_%')",
            "d.v LIKE CONCAT(@p, '%') && d.v > 'b'",
            "d.v LIKE CONCAT(@p, '%') && d.v <= @p",
        ] {
            let text = |name: &str| {
                format!("FOR d IN {name} FILTER d.g == 1 && {condition} SORT d._key RETURN d._key")
            };
            let expected = ask(&source, &text("plain"), &prefix).result.to_json();
            for name in ["whole", "sparse", "second"] {
                let outcome = ask(&source, &text(name), &prefix);
                assert_eq!(outcome.result.to_json(), expected, "{} {prefix}", text(name));
                answered += usize::from(outcome.stats.scanned_full == 0);
            }
        }
    }
    assert!(answered > 2_000, "{answered}");
}
