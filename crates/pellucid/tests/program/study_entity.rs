//! Tests of `pellucid study entity`: a tiny run on every store that is built in has every chart,
//! with figures in it.

use crate::common::charts::{Charts, figures};
use crate::common::profile_checks::{every_load_has_a_verdict, has_three_profiles_of_each};
use crate::common::{fails, study};

/// The stores that are built in.
const ENGINES: &[&str] =
    if cfg!(feature = "rocksdb") { &["embedded", "rocksdb"] } else { &["embedded"] };
const ORIGINAL: &str = "the original";
/// The number of flushes from which on each of the stores must have begun a merge.
const FLUSHES_WITHOUT_MERGE_MAX: usize = 16;

#[test]
fn a_tiny_entity_study_has_every_chart_with_figures() {
    // With so little memory, a second of PUTs fills enough memtables for flushes and merges.
    let (report, _folder, out) = study("entity", &["--seconds", "1", "--memory", "1M"]);
    assert_eq!(report["findings"].as_array().unwrap().len(), 6);
    let charts = Charts::of(&report);
    for name in ["rates", "slowest", "jobs", "put_percentiles", "get_processor"] {
        let columns = charts.chart(name)["form"]["columns"].as_array().unwrap();
        let (original, ours) = columns.split_last().unwrap();
        assert_eq!(ours, ENGINES, "{name}");
        // The name of the instrument may follow.
        assert!(original.as_str().unwrap().starts_with(ORIGINAL), "{name}: {original}");
    }
    for (work, rate) in [("PUT", 12_000.0), ("GET", 10_000.0)] {
        let rates = charts.row("rates", &format!("{work}, put on"));
        assert_eq!(rates.last().unwrap(), &Some(rate), "the original's own");
        assert!(rates.iter().all(|put_on| put_on.is_some_and(|put_on| put_on <= rate)));
        let highest = charts.row("rates", &format!("{work}, the highest"));
        assert!(highest.iter().all(|highest| highest.is_some_and(|highest| highest > 0.0)));
        each_load(&charts, &work.to_lowercase());
    }
    for (at, engine) in ENGINES.iter().enumerate() {
        // 50,000 entries are more than a memtable holds with 1 MiB of memory.
        let flushes = charts.row("jobs", "flushes while it was filled")[at].unwrap();
        assert!(flushes >= 1.0, "{engine}: {flushes} flushes");
    }
    // A closed loop and a load, at least three times each, and the overload.
    every_load_has_a_verdict(&report, ENGINES.len() * 2 * 4);
    for work in ["PUT", "GET"] {
        let greatest = charts.row("overload", &format!("{work}, greatest"));
        assert!(greatest.iter().all(|ns| ns.is_some_and(|ns| ns > 0.0)), "{greatest:?}");
    }
    let loads = ["PUT", "GET"].map(|work| ENGINES.iter().map(move |at| format!("{at}, {work}")));
    has_three_profiles_of_each(&report, &loads.into_iter().flatten().collect::<Vec<_>>());
    for file in ["entity.html", "entity.json"] {
        assert!(out.join(file).metadata().unwrap().len() > 10_000, "{file}");
    }
}

/// Checks the charts of one kind of load.
fn each_load(charts: &Charts<'_>, work: &str) {
    let percentiles = charts.chart(&format!("{work}_percentiles"))["series"].as_array().unwrap();
    let names = charts.rows(&format!("{work}_percentiles"));
    assert_eq!(names[0], "p50");
    assert_eq!(names[9..13], ["p99.9999", "greatest", "mean", "processor time by request"]);
    for column in 0..=ENGINES.len() {
        let times: Vec<f64> =
            percentiles[..11].iter().map(|row| figures(row)[column].unwrap()).collect();
        assert!(times[0] > 0.0 && times.is_sorted(), "percentiles grow: {times:?}");
    }
    for (at, engine) in ENGINES.iter().enumerate() {
        assert!(charts.row(&format!("{work}_percentiles"), "processor time by request")[at] > None);
        for whole in [engine, &ORIGINAL] {
            let bars = charts.row(&format!("{work}_histogram"), whole);
            let sum: f64 = bars.into_iter().flatten().sum();
            assert!((sum - 1.0).abs() < 1e-6, "{whole}: the bars are all of it: {sum}");
            let curve = charts.row(&format!("{work}_curves"), whole);
            assert!(curve.is_sorted() && curve.iter().all(Option::is_some), "{whole}: {curve:?}");
        }
        let jitter = charts.chart(&format!("{work}_{engine}_jitter"));
        let seconds = jitter["form"]["seconds"].as_array().unwrap();
        assert!(!seconds.is_empty() && seconds.len() <= 3_000, "{}", seconds.len());
        let spans = jitter["spans"].as_array().map_or(&[][..], |spans| &spans[..]);
        if work == "put" {
            let marks = |kind: &str| spans.iter().filter(|span| span["label"] == kind).count();
            let [flushes, compactions] = ["flush", "compaction"].map(marks);
            // A busy machine may write too little for a flush, and a slow one for a merge.
            let has_to_merge = flushes >= FLUSHES_WITHOUT_MERGE_MAX;
            assert!(compactions > 0 || !has_to_merge, "{engine}: {spans:?}");
            // The number of marks equals the count.
            for (kind, count) in [("flushes", flushes), ("compactions", compactions)] {
                let counted = charts.row("jobs", &format!("{kind} during PUT"))[at];
                assert_eq!(counted, Some(count as f64), "{engine}: {kind}");
            }
        }
        for span in spans {
            let [from, to] =
                ["from_seconds", "to_seconds"].map(|name| span[name].as_f64().unwrap());
            assert!((0.0..=to).contains(&from), "{span}");
            let label = span["label"].as_str().unwrap();
            assert!(["flush", "compaction", "collection"].contains(&label), "{span}");
        }
    }
    let account = format!("{work}_account");
    let rows = charts.chart(&account)["form"]["rows"].as_array().unwrap();
    for engine in ENGINES {
        assert!(rows.iter().any(|row| *row == format!("{engine}, mean")), "{rows:?}");
    }
    let parts = charts.rows(&account);
    assert!(parts.contains(&"parse") && parts.contains(&"write"), "{parts:?}");
}

#[test]
fn engines_that_the_study_does_not_run_on_are_refused() {
    let refused = |arguments: &[&str], why: &str| fails(&[&["study"], arguments].concat(), 2, why);
    refused(&["entity", "--engine", "embedded,cql"], "stores of this machine");
    refused(&["cluster", "--engine", "embedded"], "entity alone");
    refused(&["entity", "--quick", "--seconds", "0"], "--seconds");
    if !cfg!(feature = "rocksdb") {
        refused(&["entity", "--engine", "embedded,rocksdb"], "feature `rocksdb`");
    }
}
