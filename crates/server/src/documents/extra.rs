//! What the result of a query says besides its values: warnings, what was done, and where the time
//! went if that was asked for.

use pellucid_aql::{Execution, Stats, Warning};
use pellucid_document::StoreAccount;
use pellucid_value::{Number, Value, json};

use super::cursor::warnings;
use super::queries::{Telling, stopwatch};

/// What a query has done, for those who asked it.
pub(super) struct Done<'a> {
    pub(super) stats: Stats,
    pub(super) elapsed_ns: u64,
    pub(super) warnings: &'a [Warning],
}

impl<'a> Done<'a> {
    fn of(execution: &'a Execution) -> Done<'a> {
        let (stats, elapsed_ns) = (execution.stats(), execution.elapsed_ns());
        Done { stats, elapsed_ns, warnings: execution.warnings() }
    }
}

/// What each batch says besides its values.
pub(super) fn trailer(count: Option<usize>, execution: &Execution) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    push_trailer(count, &Done::of(execution), &mut out);
    out
}

/// As [`trailer`], behind what is in `out`.
pub(super) fn push_trailer(count: Option<usize>, done: &Done<'_>, out: &mut Vec<u8>) {
    push_count(count, out);
    out.extend_from_slice(b",\"extra\":");
    push_extra(done, out);
}

/// What is told once all is computed.
pub(super) fn trailer_of(
    count: Option<usize>,
    execution: &Execution,
    telling: &Telling,
) -> Vec<u8> {
    match telling.profile {
        0 => trailer(count, execution),
        _ => profiled_trailer(count, execution, telling),
    }
}

/// As [`trailer`], with where the time went, and from 2 on with the plan.
fn profiled_trailer(count: Option<usize>, execution: &Execution, telling: &Telling) -> Vec<u8> {
    let finalizing = stopwatch();
    let Telling { plan, data, profile, times } = telling;
    let mut extra = Vec::new();
    push_extra(&Done::of(execution), &mut extra);
    let mut extra: serde_json::Value = serde_json::from_slice(&extra).unwrap_or_default();
    let of = |value: &Value| -> serde_json::Value {
        serde_json::from_str(&value.to_json()).unwrap_or_default()
    };
    let seconds = |ns: u64| ns as f64 / 1e9;
    // Drivers take a time of zero for one that was not measured.
    let measured = |ns: u64| seconds(ns.max(1));
    let profiled = serde_json::json!({
        "initializing": measured(times.initializing_ns),
        "parsing": measured(times.parsing_ns),
        // The planner does all of this in one go.
        "optimizing ast": 0.0,
        "loading collections": 0.0,
        "instantiating plan": measured(times.planning_ns),
        "optimizing plan": 0.0,
        "instantiating executors": measured(times.instantiating_ns),
        "executing": measured(execution.elapsed_ns()),
    });
    if let Some(account) = data.store_account() {
        extra["store"] = shown(&account);
    }
    if *profile > 1 {
        extra["stats"]["nodes"] = of(&execution.profile());
    }
    extra["profile"] = profiled;
    extra["profile"]["finalizing"] = measured(finalizing.elapsed_ns()).into();
    let mut out = Vec::new();
    push_count(count, &mut out);
    out.extend_from_slice(format!(",\"extra\":{extra}").as_bytes());
    if *profile > 1 {
        // A plan may be large, and is not parsed again: it takes the place of the last brace.
        out.pop();
        out.extend_from_slice(b",\"plan\":");
        json::write(plan.explain().view(), &mut out);
        out.push(b'}');
    }
    out
}

/// What a query did in the terms of the store, as JSON.
pub(super) fn shown(account: &StoreAccount) -> serde_json::Value {
    let parts = account.parts_ns.iter().map(|(name, ns)| (format!("{name}_ns"), (*ns).into()));
    let mut shown = serde_json::Map::from_iter(parts);
    for (name, count) in [
        ("index_look_ups", account.index_look_ups),
        ("index_entries", account.index_entries),
        ("document_reads", account.document_reads),
        ("look_ups", account.look_ups),
        ("tables", account.tables),
        ("blocks", account.blocks),
        ("records", account.records),
    ] {
        shown.insert(name.to_owned(), count.into());
    }
    shown.into()
}

fn push_count(count: Option<usize>, out: &mut Vec<u8>) {
    if let Some(count) = count {
        push_field(b",\"count\":", count as u64, out);
    }
}

fn push_field(name: &[u8], value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    json::write_number(Number::Uint(value), out);
}

/// Warnings and what was done, as JSON. Each query has them, so that they are written in one go.
fn push_extra(done: &Done<'_>, out: &mut Vec<u8>) {
    let Done { stats, elapsed_ns, warnings: all } = done;
    out.extend_from_slice(b"{\"warnings\":");
    match all {
        [] => out.extend_from_slice(b"[]"),
        some => out.extend_from_slice(warnings(some).to_string().as_bytes()),
    }
    push_field(b",\"stats\":{\"writesExecuted\":", stats.writes_executed, out);
    push_field(b",\"writesIgnored\":", stats.writes_ignored, out);
    push_field(b",\"documentLookups\":", stats.document_lookups, out);
    push_field(b",\"seeks\":", stats.seeks, out);
    push_field(b",\"scannedFull\":", stats.scanned_full, out);
    push_field(b",\"scannedIndex\":", stats.scanned_index, out);
    push_field(b",\"searchParallelism\":1,\"cursorsCreated\":", stats.cursors_created, out);
    out.extend_from_slice(b",\"cursorsRearmed\":0,\"cacheHits\":0,\"cacheMisses\":0");
    push_field(b",\"filtered\":", stats.filtered, out);
    out.extend_from_slice(b",\"httpRequests\":0,\"executionTime\":");
    push_seconds(*elapsed_ns, out);
    push_field(b",\"peakMemoryUsage\":", stats.peak_memory_bytes as u64, out);
    out.extend_from_slice(b",\"intermediateCommits\":0");
    if let Some(count) = stats.full_count {
        push_field(b",\"fullCount\":", count, out);
    }
    out.extend_from_slice(b"}}");
}

/// Seconds with nine digits behind the point.
fn push_seconds(elapsed_ns: u64, out: &mut Vec<u8>) {
    json::write_number(Number::Uint(elapsed_ns / 1_000_000_000), out);
    out.push(b'.');
    // A one in front keeps the zeros behind it.
    let begin = out.len();
    json::write_number(Number::Uint(1_000_000_000 + elapsed_ns % 1_000_000_000), out);
    out.remove(begin);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_have_all_their_zeros() {
        for (ns, expected) in
            [(0, "0.000000000"), (1_000_000_042, "1.000000042"), (7, "0.000000007")]
        {
            let mut out = Vec::new();
            push_seconds(ns, &mut out);
            assert_eq!(out, expected.as_bytes());
        }
    }
}
