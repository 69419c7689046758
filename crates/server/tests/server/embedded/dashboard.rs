//! The Grafana dashboard queries only metrics that `/metrics` has, and the documentation explains
//! every metric of `/metrics`.

use std::collections::{BTreeMap, BTreeSet};

use super::metrics::parse;
use crate::common::{entity, serve};
use serde_json::Value;

const DASHBOARD: &str = include_str!("../../../../../docs/grafana/pellucid.json");

/// The metrics that an expression uses, each with the labels in the braces behind it.
fn names(expression: &str) -> Vec<(String, Vec<String>)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in expression.match_indices(['p']) {
        let begins = at == 0 || !expression[..at].ends_with(is_name);
        let rest = &expression[at..];
        if !begins || !(rest.starts_with("pellucid_") || rest.starts_with("process_")) {
            continue;
        }
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let labels = rest[end..].strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let labels = labels.map_or("", |(labels, _)| labels).split(',');
        let labels = labels.filter_map(|label| label.split(['=', '!', '~']).next());
        let labels = labels.filter(|label| !label.is_empty()).map(str::to_owned);
        found.push((rest[..end].to_owned(), labels.collect()));
    }
    found
}

fn expressions(value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
            for name in ["expr", "definition"] {
                if let Some(expression) = text(name) {
                    found.push((expression, text("legendFormat").unwrap_or_default()));
                }
            }
            fields.values().for_each(|value| expressions(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

/// The labels of each metric on the page; empty for a metric without samples at present.
fn metrics(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, family) in parse(page) {
        if family.kind == "histogram" {
            for ending in ["_bucket", "_sum", "_count"] {
                known.entry(format!("{name}{ending}")).or_default();
            }
        }
        known.entry(name).or_default();
        for (name, labels, _) in family.samples {
            known.entry(name).or_default().extend(labels.into_keys());
        }
    }
    known
}

#[test]
fn every_metric_of_the_dashboard_is_on_the_page() {
    let (_running, mut client) = serve();
    client.put(&entity("k"), "v");
    client.call("PUT", &format!("{}&sync=disk", entity("k")), &[], "v");
    let known = metrics(client.get("/metrics").text());
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut all = Vec::new();
    expressions(&dashboard, &mut all);
    assert!(all.len() > 20, "the dashboard has panels");
    for (expression, legend) in all {
        let names = names(&expression);
        assert!(!names.is_empty(), "{expression}");
        for (index, (name, compared)) in names.into_iter().enumerate() {
            let Some(labels) = known.get(&name) else { panic!("{name} of {expression}") };
            // The divisor of a quotient has lost its labels.
            let legend = if index == 0 { legend.as_str() } else { "" };
            let shown = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
            let used = compared.into_iter().chain(shown.map(str::to_owned));
            for label in used.filter(|label| !labels.is_empty() && label != "instance") {
                assert!(labels.contains(&label), "{label} of {name} in {expression}");
            }
        }
    }
}

/// The page that explains the metrics; those of the engine are on a page of their own.
const DOCUMENTATION: &str = include_str!("../../../../../docs/observability.md");

#[test]
fn every_metric_of_the_page_is_explained() {
    let (_running, mut client) = serve();
    client.put(&entity("k"), "v");
    let page = client.get("/metrics");
    let families = page.text().lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names: Vec<&str> = families.filter_map(|family| family.split(' ').next()).collect();
    let unknown: Vec<&&str> = names
        .iter()
        .filter(|name| !name.starts_with("pellucid_engine_"))
        .filter(|name| !DOCUMENTATION.contains(&format!("`{name}`")))
        .collect();
    assert!(names.len() > 30 && unknown.is_empty(), "docs/observability.md lacks {unknown:?}");
}
