//! All fuzz targets in one program, so that the tested code is linked once. The environment
//! variable `PELLUCID_FUZZ_TARGET` chooses the target.

#![no_main]

mod aql;
mod batch;
mod block;
mod catalogue;
mod http_head;
mod import;
mod json;
mod manifest;
mod packed;
mod peer;
mod query;
mod record;
mod response;
mod segment;
mod store;
mod table;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

/// A function that feeds an input to one decoder.
type Target = fn(&[u8]);

const TARGETS: &[(&str, Target)] = &[
    ("aql", aql::fuzz),
    ("batch", batch::fuzz),
    ("block", block::fuzz),
    ("catalogue", catalogue::fuzz),
    ("http_head", http_head::fuzz),
    ("import", import::fuzz),
    ("json", json::fuzz),
    ("manifest", manifest::fuzz),
    ("packed", packed::fuzz),
    ("peer", peer::fuzz),
    ("query", query::fuzz),
    ("record", record::fuzz),
    ("response", response::fuzz),
    ("segment", segment::fuzz),
    ("store", store::fuzz),
    ("table", table::fuzz),
];

/// The target that the environment names.
static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("PELLUCID_FUZZ_TARGET").unwrap_or_default();
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let names = || TARGETS.iter().map(|(known, _)| *known).collect::<Vec<_>>().join(", ");
    target.unwrap_or_else(|| panic!("PELLUCID_FUZZ_TARGET is one of {}", names())).1
});

fuzz_target!(|data: &[u8]| (*CHOSEN)(data));
