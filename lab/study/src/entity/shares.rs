//! Divides the processor time of a server among the store, answers, requests, flushes and
//! compactions.

use pellucid_report::ProfileSection;

use super::measure::Row;

/// The names of the parts, in the order of [`of`].
pub(super) const NAMES: [&str; 5] = [
    "the store, at requests (execute)",
    "writing answers (encode, write)",
    "reading requests (receive, parse, route, queue)",
    "flushes",
    "compactions",
];

/// The names of RocksDB's threads that flush begin like this.
const FLUSHERS: &str = "rocksdb:high";
/// The names of RocksDB's threads that compact begin like this.
const COMPACTERS: &str = "rocksdb:low";

fn profile(row: &Row) -> Option<&ProfileSection> {
    let is_cpu = |title: &str| title.ends_with("processor time");
    row.profiles.sections.iter().find(|profile| is_cpu(&profile.title))
}

/// The number of samples behind the shares.
pub(super) fn samples(row: &Row) -> Option<u64> {
    profile(row).map(|profile| profile.samples)
}

/// The shares of a load; `None` if it was not profiled.
pub(super) fn of(row: &Row) -> [Option<f64>; 5] {
    let Some(profile) = profile(row) else { return [None; 5] };
    let sum = |phases: &[&str]| -> f64 {
        let shares = profile.shares.iter().filter(|share| phases.contains(&share.phase.as_str()));
        shares.map(|share| share.share).sum()
    };
    // RocksDB labels no jobs, so its jobs are counted by the names of its threads.
    let all: u64 = row.processor_ns.values().sum();
    let thread = |begin: &str| -> f64 {
        let named = row.processor_ns.iter().filter(|(name, _)| name.starts_with(begin));
        named.map(|(_, ns)| *ns as f64).sum::<f64>() / all.max(1) as f64
    };
    [
        sum(&["execute"]),
        sum(&["encode", "write"]),
        sum(&["receive", "parse", "route", "queue"]),
        sum(&["job flush"]) + thread(FLUSHERS),
        sum(&["job compaction"]) + thread(COMPACTERS),
    ]
    .map(Some)
}
