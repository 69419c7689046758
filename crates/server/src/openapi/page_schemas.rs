//! Schemas of the server's own pages. Pages may get more members within a minor version.

use serde_json::{Value, json};

use super::schema::{
    Member, count, counts, flag, list, named, number, object, one_of, or_null, text, with_optional,
    with_required,
};
use crate::cluster::PEER_FIGURES;

pub(super) fn all() -> [Member; 12] {
    [
        ("Account", account()),
        ("Cluster", cluster()),
        ("Compacted", counts(["duration_ns"])),
        ("Distribution", distribution()),
        ("Engine", engine()),
        ("Interference", interference()),
        ("Job", job()),
        ("Request", request()),
        ("Requests", page("pellucid.requests.v1", [("requests", list(in_flight()))])),
        ("Slow", slow()),
        ("Stretch", object([("name", text()), ("duration_ns", count())])),
        ("Trace", trace()),
    ]
}

/// The schema of a page with this `schema` member and the level of accounting.
fn page<const N: usize>(form: &str, members: [Member; N]) -> Value {
    let page = object([("schema", json!({ "const": form })), ("accounting", accounting())]);
    with_required(page, members)
}

fn accounting() -> Value {
    one_of(&["off", "ring", "full"])
}

fn account() -> Value {
    page(
        "pellucid.account.v1",
        [
            ("window_seconds", number()),
            ("clock", object([("source", text()), ("ticks_per_second", count())])),
            ("records_lost", count()),
            ("operations", list(operation())),
            ("event_loops", counts(["ran_ns", "run_delay_ns"])),
        ],
    )
}

/// The account of one operation with one outcome.
fn operation() -> Value {
    let durations =
        || list(json!({ "allOf": [named("Distribution"), object([("name", text())])] }));
    let shares = || list(object([("name", text()), ("mean_ns", number()), ("share", number())]));
    let around = object([
        ("quantile", number()),
        ("count", count()),
        ("total_mean_ns", number()),
        ("phases", shares()),
        ("receive_mean_ns", number()),
        ("transport_parts", shares()),
        ("parts", shares()),
    ]);
    object([
        ("operation", text()),
        ("outcome", text()),
        ("count", count()),
        ("total", named("Distribution")),
        ("phases", durations()),
        ("loop_wait", named("Distribution")),
        ("transport_parts", durations()),
        ("parts", durations()),
        ("around", list(around)),
        ("engine", json!({ "type": "object" })),
    ])
}

fn distribution() -> Value {
    let rows = |numbers: usize| {
        let row = json!({
            "type": "array", "items": count(), "minItems": numbers, "maxItems": numbers,
        });
        list(row)
    };
    let distribution = counts(["count", "sum_ns", "min_ns", "q1_ns", "q3_ns", "max_ns"]);
    let quantiles = ["p50_ns", "p90_ns", "p99_ns", "p99.9_ns", "p99.99_ns"];
    let distribution = with_required(distribution, quantiles.map(|name| (name, count())));
    let distribution = with_required(distribution, [("mean_ns", number()), ("log2", rows(2))]);
    with_optional(distribution, [("buckets", rows(3))])
}

fn slow() -> Value {
    let operation = object([
        ("operation", text()),
        ("requests", count()),
        ("slow", count()),
        ("threshold_ns", or_null(count())),
        ("slowest", list(named("Request"))),
        ("crossed", list(named("Request"))),
    ]);
    page("pellucid.slow.v1", [("quantile", number()), ("operations", list(operation))])
}

/// A request that has ended.
fn request() -> Value {
    let stretches = || list(named("Stretch"));
    let request = counts(["status", "connection", "request_bytes", "response_bytes"]);
    let members = [
        ("request", text()),
        ("operation", text()),
        ("outcome", text()),
        ("key_hash", or_null(text())),
        ("ended_ago_ns", count()),
        ("total_ns", count()),
        ("threshold_ns", or_null(count())),
        ("phases", stretches()),
        ("transport_parts", stretches()),
        ("parts", stretches()),
        ("engine", json!({ "type": "object" })),
        ("overlapped", list(named("Job"))),
        ("waited_for", or_null(named("Job"))),
    ];
    let request = with_required(request, members);
    with_optional(request, [("key", text()), ("query", slow_query())])
}

/// The reason why a query was slow, and the work of the nodes of its plan.
fn slow_query() -> Value {
    let node = counts(["id", "calls", "rows", "filtered", "duration_ns"]);
    let node = with_required(node, [("type", text())]);
    let query = object([("reason", text()), ("nodes", list(node))]);
    with_optional(query, [("store", json!({ "type": "object" })), ("text", text())])
}

/// A background job that ran at the same time as a request.
fn job() -> Value {
    object([
        ("id", count()),
        ("job", text()),
        ("duration_ns", or_null(count())),
        ("overlap_ns", count()),
    ])
}

/// A request in progress.
fn in_flight() -> Value {
    let wait =
        object([("kind", text()), ("place", or_null(text())), ("duration_ns", or_null(count()))]);
    object([
        ("request", text()),
        ("operation", or_null(text())),
        ("phase", text()),
        ("age_ns", count()),
        ("place", one_of(&["loop", "away"])),
        ("waits_for", or_null(wait)),
    ])
}

fn interference() -> Value {
    let job = counts(["requests_beside", "slow_beside", "requests_without", "slow_without"]);
    let job = with_required(job, [("job", text()), ("lift", or_null(number()))]);
    let operation = object([
        ("operation", text()),
        ("requests", count()),
        ("slow", count()),
        ("jobs", list(with_optional(job, [("hidden", text())]))),
    ]);
    page(
        "pellucid.interference.v1",
        [
            ("quantile", number()),
            ("since", one_of(&["start", "ten_minutes"])),
            ("requests_needed", count()),
            ("slow_needed", count()),
            ("operations", list(operation)),
        ],
    )
}

/// A trace in Chrome's format.
fn trace() -> Value {
    let event = object([
        ("ph", one_of(&["M", "X"])),
        ("pid", count()),
        ("tid", count()),
        ("ts", number()),
        ("name", text()),
        ("args", json!({ "type": "object" })),
    ]);
    let event = with_optional(event, [("dur", number()), ("cat", text())]);
    object([
        ("displayTimeUnit", json!({ "const": "ns" })),
        ("traceEvents", list(event)),
        ("otherData", object([("clock", text()), ("seconds", text()), ("requests", text())])),
    ])
}

/// The engine's account, which docs/engine-account.md explains; null for other kinds of stores.
fn engine() -> Value {
    let part = || json!({ "type": "object" });
    or_null(object([
        ("schema", json!({ "const": "pellucid.engine.v1" })),
        ("sampled_every", count()),
        ("state", part()),
        ("reads", part()),
        ("writes", part()),
        ("background", part()),
    ]))
}

fn cluster() -> Value {
    let node = object([("url", text()), ("state", text())]);
    let node = with_optional(node, PEER_FIGURES.map(|(name, ..)| (name, count())));
    let others = [("round_trip_ns_total", count()), ("reason", or_null(text()))];
    let nodes = list(with_optional(node, others));
    let cluster = object([("sharded", flag()), ("hash", text()), ("nodes", nodes)]);
    with_optional(cluster, [("node", text()), ("fingerprint", text()), ("wait_ms", count())])
}
