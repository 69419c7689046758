//! `GET /metrics` against the grammar of Prometheus' text format 0.0.4 and its conventions.

use std::collections::{BTreeMap, HashSet};

use crate::common::{Client, entity, serve, serve_with, wait_until};
use pellucid_server::Accounting;

type Labels = BTreeMap<String, String>;

/// A metric family with its samples (name, labels, value).
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) samples: Vec<(String, Labels, f64)>,
}

/// Parses the page and checks every rule on which a scraper relies.
pub(crate) fn parse(page: &str) -> BTreeMap<String, Family> {
    assert!(page.ends_with('\n') && page.is_ascii());
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let (mut seen, mut helped, mut current) = (HashSet::new(), String::new(), String::new());
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && !help.is_empty(), "{line}");
            helped = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, helped, "HELP stands before TYPE");
            assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
            let family = Family { kind: kind.to_owned(), samples: Vec::new() };
            assert!(families.insert(name.to_owned(), family).is_none(), "{name} comes once");
            current = name.to_owned();
        } else {
            let (name, labels, value) = sample(line);
            assert!(seen.insert((name.clone(), labels.clone())), "twice: {line}");
            let family = families.get_mut(&current).unwrap();
            let suffix = name.strip_prefix(current.as_str()).unwrap();
            let known = if family.kind == "histogram" {
                matches!(suffix, "_bucket" | "_sum" | "_count")
            } else {
                suffix.is_empty()
            };
            assert!(known, "{name} is not of {current}");
            family.samples.push((name, labels, value));
        }
    }
    families.iter().for_each(|(name, family)| check(name, family));
    families
}

fn is_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.bytes().all(good) && !name.starts_with(|first: char| first.is_ascii_digit())
}

fn sample(line: &str) -> (String, Labels, f64) {
    let name_end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(name_end);
    assert!(is_name(name), "{line}");
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (key, after) = rest.split_once("=\"").unwrap();
            assert!(is_name(key), "{line}");
            let (value, after) = quoted(after);
            assert!(labels.insert(key.to_owned(), value).is_none(), "{line}");
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        rest = &rest[1..];
    }
    let value = rest.strip_prefix(' ').unwrap();
    (name.to_owned(), labels, number(value))
}

/// Splits a label's value, up to its closing quote and unescaped, from the rest of the text.
fn quoted(text: &str) -> (String, &str) {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next().unwrap().1 {
                'n' => value.push('\n'),
                c @ ('"' | '\\') => value.push(c),
                other => panic!("\\{other} is no escape"),
            },
            c => value.push(c),
        }
    }
    panic!("no closing quote: {text}")
}

fn number(text: &str) -> f64 {
    if text == "+Inf" { f64::INFINITY } else { text.parse().unwrap() }
}

fn check(name: &str, family: &Family) {
    assert_eq!(family.kind == "counter", name.ends_with("_total"), "{name}: a counter is a total");
    let base_unit = ["_seconds", "_seconds_total", "_bytes", "_bytes_total"];
    let odd_unit = ["_ms", "_us", "_ns", "_milliseconds", "_kb", "_kilobytes", "_percent"];
    assert!(!odd_unit.iter().any(|unit| name.contains(unit)), "{name}: base units only");
    if name.contains("duration") || name.contains("memory") || name.contains("cpu") {
        assert!(base_unit.iter().any(|unit| name.ends_with(unit)), "{name}: its unit is named");
    }
    family.samples.iter().for_each(|(_, _, value)| assert!(*value >= 0.0, "{name}"));
    if family.kind == "histogram" {
        check_histogram(name, family);
    }
}

fn check_histogram(name: &str, family: &Family) {
    let mut series: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    let of = |suffix: &str| {
        let wanted = format!("{name}_{suffix}");
        family.samples.iter().filter(move |(sample, _, _)| *sample == wanted)
    };
    for (_, labels, value) in of("bucket") {
        let mut labels = labels.clone();
        let border = number(&labels.remove("le").unwrap());
        series.entry(labels).or_default().push((border, *value));
    }
    for (labels, buckets) in &series {
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name} {labels:?}");
        let last = buckets.last().unwrap();
        let counts: Vec<f64> = of("count").filter(|s| s.1 == *labels).map(|s| s.2).collect();
        assert_eq!((last.0, vec![last.1]), (f64::INFINITY, counts), "{name} {labels:?}");
        assert_eq!(of("sum").filter(|sample| sample.1 == *labels).count(), 1);
    }
    assert_eq!(of("count").count(), series.len());
}

fn page(client: &mut Client) -> BTreeMap<String, Family> {
    let answer = client.get("/metrics").having(200);
    assert!(answer.header("Content-Type").unwrap().starts_with("text/plain; version=0.0.4"));
    parse(answer.text())
}

fn single(families: &BTreeMap<String, Family>, name: &str) -> f64 {
    let samples = &families[name].samples;
    assert_eq!(samples.len(), 1, "{name}");
    samples[0].2
}

fn count_of(families: &BTreeMap<String, Family>, operation: &str, outcome: &str) -> f64 {
    let samples = &families["pellucid_request_duration_seconds"].samples;
    let wanted = |(name, labels, _): &&(String, Labels, f64)| {
        name.ends_with("_count") && labels["operation"] == operation && labels["outcome"] == outcome
    };
    samples.iter().find(wanted).unwrap().2
}

#[test]
fn the_page_counts_what_was_requested() {
    let (_running, mut client) = serve();
    page(&mut client);
    (0..5).for_each(|_| assert_eq!(client.put(&entity("k"), "v").status, 201));
    (0..3).for_each(|_| assert_eq!(client.get(&entity("none")).status, 404));
    let families = page(&mut client);
    assert_eq!(count_of(&families, "entity_put", "ok"), 5.0);
    assert_eq!(count_of(&families, "entity_get", "missing"), 3.0);
    assert_eq!(single(&families, "pellucid_connections_open"), 1.0);
    assert_eq!(single(&families, "pellucid_connections_total"), 1.0);
    assert_eq!(single(&families, "pellucid_account_records_lost_total"), 0.0);
    assert!(single(&families, "process_resident_memory_bytes") > 1e6);
    assert_eq!(single(&families, "pellucid_build_info"), 1.0);
    assert!(single(&families, "pellucid_event_loop_run_seconds_total") > 0.0);
    assert!(single(&families, "pellucid_event_loop_run_delay_seconds_total") >= 0.0);
}

/// The system counts processor time in steps of 10 ms, and a few requests may take less.
#[test]
fn the_page_shows_processor_time_once_there_was_some() {
    let (_running, mut client) = serve();
    let seconds = || single(&page(&mut client), "process_cpu_seconds_total");
    // Making pages takes processor time.
    wait_until(seconds, |seconds| *seconds > 0.0);
}

/// Totals of a scrape must never shrink, or plotted rates become negative.
#[test]
fn counters_and_buckets_never_shrink() {
    let (_running, mut client) = serve();
    let mut before = page(&mut client);
    for round in 0..5 {
        (0..20).for_each(|_| assert_eq!(client.put(&entity("k"), "v").status, 201));
        client.get(&entity(format!("none {round}")));
        let after = page(&mut client);
        // Event loops of this process include those of other tests, whose servers end.
        let is_of_process = |name: &str| name.starts_with("pellucid_event_loop_run_");
        let counts = |name: &str, kind: &str| kind != "gauge" && !is_of_process(name);
        for (name, family) in before.iter().filter(|(name, family)| counts(name, &family.kind)) {
            for (sample, labels, value) in &family.samples {
                let same =
                    |other: &&(String, Labels, f64)| other.0 == *sample && other.1 == *labels;
                let now = after[name].samples.iter().find(same).unwrap().2;
                assert!(now >= *value, "{sample} {labels:?}: {value}, then {now}");
            }
        }
        before = after;
    }
}

#[test]
fn the_phases_histograms_hold_every_request() {
    let (_running, mut client) = serve();
    (0..7).for_each(|_| assert_eq!(client.put(&entity("k"), "v").status, 201));
    let families = page(&mut client);
    let mut phases = Vec::new();
    for (name, labels, value) in &families["pellucid_request_phase_duration_seconds"].samples {
        if name.ends_with("_count") && labels["operation"] == "entity_put" {
            assert_eq!(*value, 7.0);
            phases.push(labels["phase"].as_str());
        }
    }
    let expected =
        ["receive", "parse", "route", "queue", "execute", "encode", "write", "unaccounted"];
    assert_eq!(phases, expected);
}

#[test]
fn the_page_is_well_formed_without_accounting() {
    for accounting in [Accounting::Off, Accounting::Ring] {
        let (_running, mut client) = serve_with(|options| options.accounting = accounting);
        client.put(&entity("k"), "v");
        let families = page(&mut client);
        assert!(families["pellucid_request_duration_seconds"].samples.is_empty());
        let (_, labels, _) = &families["pellucid_clock_info"].samples[0];
        assert_eq!(labels["accounting"], accounting.name());
    }
}
