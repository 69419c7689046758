//! Charts of the load, the store and the machine over time, as context for the other charts.

use pellucid_report::{ChartSection, Series, Unit};

use super::super::child::LOAD_THREAD;
use super::super::sample::Sample;
use super::super::sample_series::{number, operation, over_levels, processor_ns, store_bytes};
use super::super::source::Source;

/// The threads of the engine: titles, and beginnings of their names, which the kernel truncates.
const ENGINE_THREADS: [(&str, &str); 4] = [
    ("flushing and merging", "pellucid-ledger"),
    ("collecting the journal", "pellucid-collec"),
    ("preparing and sealing segments", "pellucid-journa"),
    ("syncing for others", "pellucid-sync"),
];

pub(super) fn section(source: &Source<'_>) -> ChartSection {
    let track = &source.track;
    let done = |name: &'static str, operations: &'static [&'static str]| {
        let count = |sample: &Sample| {
            operations.iter().map(|name| operation(sample, name).count as f64).sum()
        };
        Series::new(name, track.rate(count))
    };
    let requests = source.areas(
        ("requests", "Requests served"),
        "What was done in each second. The load is on schedule until the disk cannot follow.",
        Unit::PerSecond,
        vec![
            done("GET", &["get ok", "get missing"]),
            done("PUT", &["put ok", "put_disk ok"]),
            done("HEAD", &["head ok", "head missing"]),
        ],
    );
    ChartSection::new(
        "The load and the store",
        "GETs and PUTs in equal parts on objects of a few KiB, with three or four HEADs each; most \
         PUTs are new objects.",
        vec![requests, sizes(source), disk(source), processor(source)],
    )
}

fn sizes(source: &Source<'_>) -> pellucid_report::Chart {
    let track = &source.track;
    let state = |name: &str, value: fn(&Sample) -> f64| {
        Series::new(name, track.state(|sample| Some(value(sample))))
    };
    let mut series = vec![
        state("journal", |sample| number(sample, "/state/journal_bytes")),
        state("ledger", |sample| over_levels(sample, "/state/levels", "/size_bytes")),
        state("all files", store_bytes),
        state("process's own memory", |sample| sample.process.anonymous_bytes as f64),
    ];
    if let Some(memory_bytes) = source.memory_bytes {
        series.push(state("page cache", |sample| sample.page_cache_bytes as f64));
        let limit = track.state(|_| Some(memory_bytes as f64));
        series.push(Series::new("limit of memory", limit));
    }
    source.lines(
        ("sizes", "The store and the memory it has"),
        "Once all files and the process's own memory are more than the limit, some of what is \
         read has to come from disk.",
        Unit::Bytes,
        series,
    )
}

fn disk(source: &Source<'_>) -> pellucid_report::Chart {
    let track = &source.track;
    source.lines(
        ("disk", "Bytes from and to the disk"),
        "By the kernel's account of the process, read-ahead included.",
        Unit::BytesPerSecond,
        vec![
            Series::new("read", track.rate(|sample| sample.process.read_bytes as f64)),
            Series::new("written", track.rate(|sample| sample.process.written_bytes as f64)),
        ],
    )
}

fn processor(source: &Source<'_>) -> pellucid_report::Chart {
    let cores = |name: &str, begins: &'static str| {
        let values = source.track.rate(|sample| processor_ns(sample, begins) / 1e9);
        Series::new(name, values)
    };
    let mut series = vec![cores("load and requests", LOAD_THREAD)];
    series.extend(ENGINE_THREADS.map(|(name, begins)| cores(name, begins)));
    source.areas(
        ("processor", "Processor time by thread"),
        "Cores that are busy. Requests run on the threads of the load.",
        Unit::Cores,
        series,
    )
}
