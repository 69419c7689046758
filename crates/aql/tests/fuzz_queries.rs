//! Random queries: all functions, operators and statements, nested, with large and odd arguments.
//! No query may panic, take longer than `maxRuntime`, or take more memory than its limit.
//!
//! It runs for a few seconds; `PELLUCID_FUZZ_SECONDS=3600` makes it an hour, and with `--release`
//! the time limits are strict then. A failure prints its seed: `PELLUCID_FUZZ_SEED=… cargo test -p
//! pellucid-aql --test fuzz_queries` runs that query again.

#![allow(clippy::unwrap_used, reason = "what fails here is a test that fails")]
#![allow(clippy::print_stdout, reason = "an hour of it says what it did")]

mod counting;
#[allow(dead_code, reason = "shared with tests that look at more of it")]
mod memory;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory::{MemoryDatabase, run_with, thread_time};
use pellucid_aql::{QueryOptions, Source, functions, number};
use pellucid_io::{Random, SeededRandom};

const MEMORY_BYTES: usize = 32 << 20;
/// The bytes that a query may take beyond its limit: plans, compiled expressions, the documents.
const EXTRA_BYTES: usize = 24 << 20;
const RUNTIME: Duration = Duration::from_millis(200);
const GRACE_STRICT: Duration = Duration::from_millis(100);
/// The allowance beyond the time limit without optimization, on a busy machine.
const GRACE_USUAL: Duration = Duration::from_secs(3);
const STACK_BYTES: usize = 2 << 20;

/// A generator of queries. The same seed makes the same query.
struct QueryGenerator(SeededRandom);

const VALUES: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1",
    "2.5",
    "1e308",
    "-9223372036854775808",
    "18446744073709551615",
    "''",
    "'a'",
    "'%'",
    "'_'",
    "'d'",
    "'y'",
    "'UTC'",
    "'Straße ΟΔΟΣ€'",
    "'.*[^A-Z]|[A-Z]'",
    "'(a|b)*c'",
    "'\\\\b\\\\w+$'",
    "'$0$1'",
    "'2020-01-01T00:00+€a'",
    "'2020-02-29T12:30:15.123Z'",
    "'P1Y2M3DT4H5M6.5S'",
    "'%yyyy-%mm-%z'",
    "'c/a'",
    "'{\"a\":1,\"a\":[2]}'",
    "[]",
    "{}",
    "[1, '1', null, [2]]",
    "{a: {b: 1}, c: [1], _key: 'a'}",
    "@text",
    "@list",
    "@deep",
    "@names",
    "1..5000",
    "1..300000",
    "REPEAT('a', 3000000)",
    "REPEAT('€b ', 400000)",
    "REPEAT('AB', 20000)",
    "RANGE(1, 200000)",
    "{[REPEAT('n', 1000)]: 1}",
    "c",
    "d",
    "d.a",
    "d.t",
];
const OPERATORS: &[&str] = &[
    "==", "!=", "<", "<=", ">", ">=", "IN", "NOT IN", "LIKE", "NOT LIKE", "=~", "!~", "+", "-",
    "*", "/", "%", "&&", "||", "..", "ALL IN", "ANY ==", "NONE <", "ALL ==", "ANY IN", "NONE IN",
    "AT LEAST (2) IN", "ALL NOT IN",
];

impl QueryGenerator {
    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.0.place(of.len())]
    }

    fn query(&mut self, known: &[(&'static str, usize, usize)]) -> String {
        let mut text = String::from("FOR d IN c ");
        for name in 0..self.0.place(3) {
            let value = self.value(known, 3);
            text.push_str(&format!("LET v{name} = {value} "));
        }
        match self.0.place(6) {
            0 => text.push_str(&format!("FILTER {} ", self.value(known, 3))),
            1 => text.push_str(&format!("SORT {} ", self.value(known, 2))),
            2 => text.push_str(&format!("FOR e IN TO_ARRAY({}) ", self.value(known, 2))),
            3 => text.push_str(&format!(
                "COLLECT g = {} AGGREGATE m = {}(d.a), u = UNIQUE(d.t) LET d = [g, m, u] ",
                self.value(known, 2),
                self.one(&["MIN", "SUM", "AVG", "STDDEV", "BIT_OR", "SORTED_UNIQUE"]),
            )),
            _ => {}
        }
        let result = self.value(known, 5);
        match self.0.place(8) {
            0 => text + &format!("INSERT {{v: {result}}} INTO other RETURN NEW"),
            1 => {
                text + &format!(
                    "UPDATE 'a' WITH {{v: {result}}} IN other OPTIONS {{ignoreErrors: true}}"
                )
            }
            2 => text + &format!("RETURN DISTINCT {result}"),
            _ => text + &format!("RETURN {result}"),
        }
    }

    fn value(&mut self, known: &[(&'static str, usize, usize)], depth: usize) -> String {
        if depth == 0 {
            return self.one(VALUES).to_owned();
        }
        let inner = |own: &mut Self| own.value(known, depth - 1);
        match self.0.place(16) {
            0 | 1 => self.one(VALUES).to_owned(),
            2 => format!("({} {} {})", inner(self), self.one(OPERATORS), inner(self)),
            3 => format!("({} ? {} : {})", inner(self), inner(self), inner(self)),
            4 => format!("[{}, {}]", inner(self), inner(self)),
            5 => format!("{{a: {}, [{}]: {}}}", inner(self), inner(self), inner(self)),
            6 => format!("TO_ARRAY({})[* FILTER CURRENT != {} LIMIT 9]", inner(self), inner(self)),
            7 => {
                format!("(FOR i IN TO_ARRAY({}) LIMIT 99 RETURN [i, {}])", inner(self), inner(self))
            }
            _ => {
                let (name, least, most) = known[self.0.place(known.len())];
                let count = least + self.0.place((most.min(least + 3) - least) + 1);
                let arguments: Vec<_> = (0..count).map(|_| inner(self)).collect();
                format!("{name}({})", arguments.join(", "))
            }
        }
    }
}

fn binds(text: &str) -> String {
    let all = [
        ("text", format!("\"{}\"", "Ab€ 1,\\u0000\\\"".repeat(20_000))),
        ("list", format!("[{}\"x\"]", "1,1.0,\"a\",[1],{\"a\":1},null,".repeat(20_000))),
        ("deep", format!("{}1{}", "[{\"a\":".repeat(60), "}]".repeat(60))),
        (
            "names",
            format!("[{}]", (0..50_000).map(|n| format!("\"n{n}\"")).collect::<Vec<_>>().join(",")),
        ),
    ];
    let used = all.iter().filter(|(name, _)| text.contains(&format!("@{name}")));
    let used: Vec<_> = used.map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", used.join(","))
}

/// Runs one query. Returns the number of its error, or 0.
fn try_one(seed: u64, known: &[(&'static str, usize, usize)], grace: Duration) -> u16 {
    let text = QueryGenerator(SeededRandom::new(seed)).query(known);
    let documents = r#"[{"_key":"a","a":1,"t":[1,"x",null]},{"_key":"b","a":"€","t":{"x":[]}}]"#;
    let source: Arc<dyn Source> =
        Arc::new(MemoryDatabase::default().with("c", documents).with("other", documents));
    let binds = binds(&text);
    let options = QueryOptions {
        memory_bytes_max: MEMORY_BYTES,
        runtime_max: Some(RUNTIME),
        ..QueryOptions::default()
    };
    // Parsing the bind values counts neither as time nor as memory of the query.
    let parsed_begin = thread_time();
    drop(memory::json(&binds));
    let reading = thread_time() - parsed_begin;
    let before = counting::restart();
    let begun = thread_time();
    let outcome = catch_unwind(AssertUnwindSafe(|| run_with(&source, &text, &binds, options)));
    let took = (thread_time() - begun).saturating_sub(reading);
    let peak = counting::peak_bytes().saturating_sub(before);
    let replay = || format!("PELLUCID_FUZZ_SEED={seed}: {text}");
    assert!(outcome.is_ok(), "a panic: {}", replay());
    assert!(took <= RUNTIME + grace, "{took:?}: {}", replay());
    assert!(peak <= 2 * MEMORY_BYTES + EXTRA_BYTES, "{} MiB: {}", peak >> 20, replay());
    outcome.ok().and_then(Result::err).map_or(0, |error| error.number())
}

#[test]
fn random_queries_stay_within_their_limits() {
    let mut known: Vec<_> = functions().filter(|(name, ..)| *name != "SLEEP").collect();
    known.sort_unstable();
    let set = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seconds = set("PELLUCID_FUZZ_SECONDS");
    let is_strict = seconds.is_some() && !cfg!(debug_assertions);
    let grace = if is_strict { GRACE_STRICT } else { GRACE_USUAL };
    let replayed = set("PELLUCID_FUZZ_SEED");
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let run = move || {
        let begun = Instant::now();
        let stream = seconds.map_or(0, |_| u64::from(std::process::id()));
        let mut seeds = SeededRandom::of_stream(1, stream);
        let mut ends = BTreeMap::<u16, usize>::new();
        while begun.elapsed().as_secs() < seconds.unwrap_or(5) {
            let end = try_one(replayed.unwrap_or(seeds.next_u64()), &known, grace);
            *ends.entry(end).or_default() += 1;
            if replayed.is_some() {
                break;
            }
        }
        ends
    };
    let ends = thread.spawn(run).unwrap().join().expect("the query is printed above");
    // Most of them must be valid queries, and many of those must have a result.
    let count: usize = ends.values().sum();
    let refused = ends.get(&number::PARSE).copied().unwrap_or(0);
    assert!(refused * 10 <= count, "{ends:?}");
    assert!(replayed.is_some() || ends[&0] * 20 >= count, "{ends:?}");
    println!("{count} queries, by the number of their error: {ends:?}");
}
