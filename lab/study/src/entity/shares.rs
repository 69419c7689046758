//! Of the processor time of a server, what went into the store, into answers and requests, and into
//! flushes and compactions.

use pellucid_report::ProfileSection;

use super::measure::Row;

/// The parts that are told apart, in the order of [`of`].
pub(super) const NAMES: [&str; 5] = [
    "the store, at requests (execute)",
    "writing answers (encode, write)",
    "reading requests (receive, parse, route, queue)",
    "flushes",
    "compactions",
];

/// The threads of RocksDB that flush and compact.
const FLUSHERS: &str = "rocksdb:high";
const COMPACTERS: &str = "rocksdb:low";

fn profile(row: &Row) -> Option<&ProfileSection> {
    let is_cpu = |title: &str| title.ends_with("processor time");
    row.profiles.sections.iter().find(|profile| is_cpu(&profile.title))
}

/// The samples that the shares are of.
pub(super) fn samples(row: &Row) -> Option<u64> {
    profile(row).map(|profile| profile.samples)
}

/// The shares; `None` where nothing was profiled.
pub(super) fn of(row: &Row) -> [Option<f64>; 5] {
    let Some(profile) = profile(row) else { return [None; 5] };
    let sum = |phases: &[&str]| -> f64 {
        let shares = profile.shares.iter().filter(|share| phases.contains(&share.phase.as_str()));
        shares.map(|share| share.share).sum()
    };
    // Jobs of the store's own threads, where it labels none, by their names.
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
