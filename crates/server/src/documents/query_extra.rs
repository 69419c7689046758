//! Members of a query's reply besides its values: warnings, statistics, and the profile if the
//! request asks for it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use pellucid_aql::{Execution, Plan, Statement, Stats, Warning};
use pellucid_document::{QueryData, StoreAccount};
use pellucid_value::{Number, Ref, json};
use serde_json::{Map, Value as Json};

use super::running_queries::stopwatch;
use crate::access::Identity;
use crate::timing::write_fraction;

/// The bound (2^53) below which doubles hold all whole numbers exactly.
const WHOLE_DOUBLE_MAX: f64 = 9_007_199_254_740_992.0;

/// A query with its plan and its data.
#[derive(Clone)]
pub(super) struct PlannedQuery {
    pub(super) plan: Arc<Plan>,
    pub(super) data: Arc<QueryData>,
    pub(super) statement: Arc<Statement>,
    /// The caller whose rights apply to reads; for a streamed result, the caller of the last batch.
    /// `None` on event loops, where only the collections of the plan are checked.
    pub(super) caller: Option<Arc<ArcSwap<Identity>>>,
    /// The level of detail of the profile; zero for no profile.
    pub(super) profile: i64,
    pub(super) times: Times,
}

/// The nanoseconds of each step before a query runs.
#[derive(Clone, Copy, Default)]
pub(super) struct Times {
    /// The time to prepare the request.
    pub(super) initializing_ns: u64,
    /// The time to parse the query's text.
    pub(super) parsing_ns: u64,
    pub(super) planning_ns: u64,
    /// The time to bind the plan to its values.
    pub(super) instantiating_ns: u64,
}

/// The statistics of a query that has run.
pub(super) struct Statistics<'a> {
    pub(super) stats: Stats,
    pub(super) elapsed_ns: u64,
    pub(super) warnings: &'a [Warning],
}

/// Members of a profile: `(name, value)`.
type Members = Vec<(&'static str, Json)>;

/// The members of a batch besides its values, as JSON that follows other members.
pub(super) fn trailer(
    count: Option<usize>,
    execution: &Execution,
    query: &PlannedQuery,
) -> Vec<u8> {
    let finalizing = stopwatch();
    let (stats, elapsed_ns) = (execution.stats(), execution.elapsed_ns());
    let statistics = Statistics { stats, elapsed_ns, warnings: execution.warnings() };
    let mut out = Vec::with_capacity(512);
    if query.profile == 0 {
        push_trailer(count, &statistics, &mut out);
        return out;
    }
    let (mut in_stats, mut beside) = (Members::new(), Members::new());
    if let Some(account) = query.data.store_account() {
        beside.push(("store", store_account(&account)));
    }
    if query.profile > 1 {
        in_stats.push(("nodes", to_json(execution.profile().view())));
        beside.push(("plan", to_json(query.plan.explain().view())));
    }
    // Drivers read a time of zero as one that was not measured.
    let seconds = |ns: u64| ns.max(1) as f64 / 1e9;
    let profile = serde_json::json!({
        "initializing": seconds(query.times.initializing_ns),
        "parsing": seconds(query.times.parsing_ns),
        // The planner does these steps together with planning.
        "optimizing ast": 0.0,
        "loading collections": 0.0,
        "instantiating plan": seconds(query.times.planning_ns),
        "optimizing plan": 0.0,
        "instantiating executors": seconds(query.times.instantiating_ns),
        "executing": seconds(elapsed_ns),
        "finalizing": seconds(finalizing.elapsed_ns()),
    });
    beside.push(("profile", profile));
    push_count(count, &mut out);
    push_extra(&statistics, &in_stats, &beside, &mut out);
    out
}

/// Appends a trailer without a profile, as of [`trailer`], to `out`.
pub(super) fn push_trailer(count: Option<usize>, statistics: &Statistics<'_>, out: &mut Vec<u8>) {
    push_count(count, out);
    push_extra(statistics, &[], &[], out);
}

/// Warnings as JSON.
pub(super) fn warnings(warnings: &[Warning]) -> Json {
    let each = warnings
        .iter()
        .map(|warning| serde_json::json!({ "code": warning.number, "message": warning.message }));
    each.collect()
}

/// Converts a value to a `serde_json` value. Whole doubles become integers.
pub(super) fn to_json(value: Ref<'_>) -> Json {
    match value {
        Ref::Null => Json::Null,
        Ref::Bool(value) => value.into(),
        Ref::Number(Number::Int(value)) => value.into(),
        Ref::Number(Number::Uint(value)) => value.into(),
        Ref::Number(Number::Double(value))
            if value.fract() == 0.0 && value.abs() < WHOLE_DOUBLE_MAX =>
        {
            (value as i64).into()
        }
        Ref::Number(Number::Double(value)) => value.into(),
        Ref::String(text) => text.into(),
        Ref::Array(array) => array.iter().map(to_json).collect(),
        Ref::Object(object) => {
            object.iter().map(|(name, value)| (name.to_owned(), to_json(value))).collect()
        }
    }
}

/// The counts of the store's operations for a query, as JSON.
pub(super) fn store_account(account: &StoreAccount) -> Json {
    let parts = account.parts_ns.iter().map(|(name, ns)| (format!("{name}_ns"), (*ns).into()));
    let mut shown = Map::from_iter(parts);
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

/// Appends warnings and statistics with further members. Each reply has them, so they are written
/// directly as text, which is faster.
fn push_extra(
    statistics: &Statistics<'_>,
    in_stats: &[(&str, Json)],
    beside: &[(&str, Json)],
    out: &mut Vec<u8>,
) {
    let Statistics { stats, elapsed_ns, warnings: all } = statistics;
    out.extend_from_slice(b",\"extra\":{\"warnings\":");
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
    write_fraction(out, *elapsed_ns, 9);
    push_field(b",\"peakMemoryUsage\":", stats.peak_memory_bytes as u64, out);
    out.extend_from_slice(b",\"intermediateCommits\":0");
    if let Some(count) = stats.full_count {
        push_field(b",\"fullCount\":", count, out);
    }
    push_members(in_stats, out);
    out.push(b'}');
    push_members(beside, out);
    out.push(b'}');
}

fn push_members(members: &[(&str, Json)], out: &mut Vec<u8>) {
    for (name, value) in members {
        out.extend_from_slice(format!(",\"{name}\":{value}").as_bytes());
    }
}
