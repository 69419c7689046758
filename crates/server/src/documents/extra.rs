//! What the result of a query says besides its values: warnings, what was done, and where the time
//! went if that was asked for.

use std::io::Write as _;

use pellucid_aql::{Execution, Plan};
use pellucid_value::Value;

use super::cursor::warnings;

/// What each batch says besides its values.
pub(super) fn trailer(count: Option<usize>, execution: &Execution) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    push_count(count, &mut out);
    out.extend_from_slice(b",\"extra\":");
    push_extra(execution, &mut out);
    out
}

/// As [`trailer`], with where the time went, and from 2 on with the plan.
pub(super) fn profiled_trailer(
    count: Option<usize>,
    execution: &Execution,
    plan: &Plan,
    profile: i64,
    times: [u64; 2],
) -> Vec<u8> {
    let mut extra = Vec::new();
    push_extra(execution, &mut extra);
    let mut extra: serde_json::Value = serde_json::from_slice(&extra).unwrap_or_default();
    let of = |value: &Value| -> serde_json::Value {
        serde_json::from_str(&value.to_json()).unwrap_or_default()
    };
    let [parsing, planning] = times.map(|ns| ns.max(1) as f64 / 1e9);
    extra["profile"] = serde_json::json!({
        "initializing": 1e-9,
        "parsing": parsing,
        "optimizing ast": 1e-9,
        "loading collections": 1e-9,
        "instantiating plan": planning,
        "optimizing plan": 1e-9,
        "instantiating executors": 1e-9,
        "executing": execution.elapsed_ns() as f64 / 1e9,
        "finalizing": 1e-9,
    });
    if profile > 1 {
        extra["stats"]["nodes"] = of(&execution.profile());
        extra["plan"] = of(&plan.explain());
    }
    let mut out = Vec::new();
    push_count(count, &mut out);
    out.extend_from_slice(format!(",\"extra\":{extra}").as_bytes());
    out
}

fn push_count(count: Option<usize>, out: &mut Vec<u8>) {
    if let Some(count) = count {
        // Writing to memory cannot fail.
        let _ = write!(out, ",\"count\":{count}");
    }
}

/// Warnings and what was done, as JSON. Each query has them, so that they are written in one go.
fn push_extra(execution: &Execution, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"warnings\":");
    match execution.warnings() {
        [] => out.extend_from_slice(b"[]"),
        some => out.extend_from_slice(warnings(some).to_string().as_bytes()),
    }
    let stats = execution.stats();
    let elapsed_ns = execution.elapsed_ns();
    let (seconds, rest_ns) = (elapsed_ns / 1_000_000_000, elapsed_ns % 1_000_000_000);
    // Writing to memory cannot fail.
    let _ = write!(
        out,
        ",\"stats\":{{\"writesExecuted\":{},\"writesIgnored\":{},\"documentLookups\":{},\
         \"seeks\":{},\"scannedFull\":{},\"scannedIndex\":{},\"searchParallelism\":1,\
         \"cursorsCreated\":{},\"cursorsRearmed\":0,\"cacheHits\":0,\"cacheMisses\":0,\
         \"filtered\":{},\"httpRequests\":0,\"executionTime\":{seconds}.{rest_ns:09},\
         \"peakMemoryUsage\":{},\"intermediateCommits\":0",
        stats.writes_executed,
        stats.writes_ignored,
        stats.document_lookups,
        stats.seeks,
        stats.scanned_full,
        stats.scanned_index,
        stats.cursors_created,
        stats.filtered,
        stats.peak_memory_bytes,
    );
    if let Some(count) = stats.full_count {
        let _ = write!(out, ",\"fullCount\":{count}");
    }
    out.extend_from_slice(b"}}");
}
