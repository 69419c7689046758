//! Tests of `pellucid study`: a tiny run has every chart, with figures in it.

use crate::common::charts::{Charts, sum};
use crate::common::profile_checks::{
    every_load_has_a_verdict, has_three_profiles_of_each, one_load, with_few_samples,
};
use std::io::{BufRead, BufReader};
use std::process::Child;

use crate::common::{done, ended_by, failed, fails, pellucid, run, spawn, study, wait_until};
use serde_json::Value;
use tempfile::TempDir;

/// The charts of the study, in their order.
const CHARTS: [&str; 26] = [
    "requests", "sizes", "disk", "processor", "get_parts", "get_shares", "journal_steps",
    "journal_sources", "put_parts", "put_samples", "put_durable", "put_stalls", "head_times",
    "head_found", "file_steps", "file_steps_by_level", "file_exits", "file_exits_by_level",
    "files_made", "job_stages", "job_stages_by_level", "job_bytes", "job_bytes_by_level",
    "amplification", "debt", "experiment",
];
/// Series that may be empty in a good run.
const MAY_BE_EMPTY: [&str; 1] = ["put_stalls"];

#[test]
fn a_tiny_merge_tree_has_every_chart_with_figures() {
    let size = ["--seconds", "5", "--memory", "48M"];
    let (report, folder, out) = study("merge-tree", &size);
    let charts = Charts::of(&report);
    assert_eq!(charts.names(), CHARTS);
    for chart in &charts.0 {
        let series = chart["series"].as_array().unwrap();
        let numbers = series.iter().flat_map(|series| series["values"].as_array().unwrap());
        let numbers: Vec<f64> = numbers.filter_map(Value::as_f64).collect();
        assert!(numbers.iter().all(|number| *number >= 0.0), "{chart}");
        let is_filled = numbers.iter().any(|number| *number > 0.0);
        assert!(is_filled || MAY_BE_EMPTY.contains(&chart["name"].as_str().unwrap()), "{chart}");
    }
    // The run is plausible: heads and bodies took time, shares add up, and the store wrote more
    // than its users.
    for part in ["head (ledger)", "body (journal)"] {
        let nanoseconds = charts.row("get_parts", part);
        assert!(sum(&nanoseconds) / nanoseconds.len() as f64 > 100.0, "{part}: {nanoseconds:?}");
    }
    assert!(sum(&charts.row("put_durable", "sync")) > 1_000.0);
    assert!(sum(&charts.row("files_made", "level 0")) > 0.0);
    let written = charts.row("amplification", "write").last().unwrap().unwrap();
    assert!((1.0..10.0).contains(&written), "{written}");
    assert!(report["findings"].as_array().unwrap().len() >= 9);
    has_three_profiles_of_each(&report, &one_load());
    assert_eq!(with_few_samples(&report), 0, "seconds of work are sampled often enough");
    said_how_memory_was_bounded(&report, &charts);
    every_load_has_a_verdict(&report, 2);
    let page = std::fs::read_to_string(out.join("merge-tree.html")).unwrap();
    assert_eq!(page.matches("<figure").count(), CHARTS.len() + 1, "and the picture");
    let written = std::fs::read_to_string(out.join("merge-tree.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), report);
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "the store was removed");
}

/// Checks that memory was limited and the chart shows it, or that a note names the reason.
fn said_how_memory_was_bounded(report: &Value, charts: &Charts<'_>) {
    let notes: Vec<_> =
        report["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
    if notes.iter().any(|note| note.starts_with("Memory was bounded to 48 MiB")) {
        let cached = charts.row("sizes", "page cache");
        let limit = 48.0 * f64::from(1 << 20);
        assert!(sum(&cached) > 0.0, "{cached:?}");
        assert!(cached.iter().all(|bytes| bytes.unwrap() <= limit), "{cached:?}");
    } else {
        let said = notes.iter().any(|note| note.starts_with("Memory was not bounded, because"));
        assert!(said, "{notes:?}");
    }
}

#[test]
fn wrong_usage_and_failures_name_a_cure() {
    fails(&["study"], 2, "<NAME>");
    fails(&["study", "tea-leaves"], 2, "merge-tree");
    fails(&["study", "merge-tree", "--quick", "--full"], 2, "--full");
    fails(&["study", "merge-tree", "--seconds", "0"], 2, "2 seconds");
    fails(&["study", "merge-tree", "--memory", "1"], 2, "32M");
    fails(&["study", "merge-tree", "--data", "/nowhere/at/all"], 1, "/nowhere/at/all");
    // Regression: flags of other studies were ignored.
    for (study, flags) in [
        ("cluster", &["requests", "documents", "queries", "memory"][..]),
        ("connection-pool", &["requests", "seconds", "memory"]),
        ("entity", &["requests", "documents", "queries"]),
        ("merge-tree", &["requests", "documents", "queries"]),
        ("request-life", &["documents", "queries", "seconds", "memory"]),
    ] {
        for flag in flags {
            let flag = format!("--{flag}");
            fails(&["study", study, &flag, "64000000"], 2, &format!("{flag} is for "));
        }
    }
    // Regression: a result was lost if its report could not be written after the study.
    let refused = run(&["study", "request-life", "--quick", "-o", "/dev/null"]);
    failed(&refused, 2, "/dev/null");
    assert!(refused.stdout.is_empty(), "no step has begun");
    let help = run(&["study", "--help"]);
    assert!(done(&help).contains("Example: pellucid study merge-tree"));
}

/// A running study, which is killed if its test fails.
struct RunningStudy(Child);

impl Drop for RunningStudy {
    fn drop(&mut self) {
        // If it has ended, neither does anything.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Regression: a study that a signal ended left its store behind, and an interrupt ended none. A
/// signal that came twice left the store, too.
#[test]
fn a_study_that_a_signal_ends_leaves_nothing_behind() {
    for number in [libc::SIGTERM, libc::SIGINT] {
        let folder = TempDir::new().unwrap();
        let place = folder.path().to_str().unwrap();
        let study = ["study", "merge-tree", "--quick", "--seconds", "600", "--memory", "48M"];
        let mut command = pellucid(&[&study[..], &["--data", place, "-o", place]].concat());
        let mut study = RunningStudy(spawn(&mut command));
        let mut line = String::new();
        BufReader::new(study.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("Run 1: "), "{line}");
        // The process with the load is up once it has made its store.
        let has_store = || {
            let mut entries = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
            entries.any(|entry| entry.path().join("store").exists())
        };
        wait_until(has_store, |has_store| *has_store);
        assert_eq!(ended_by(&mut study.0, number), Some(1));
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Every run has its table, histogram and jitter, and its phases add up.
#[test]
fn a_tiny_request_life_has_every_run_with_its_phases() {
    let (report, _folder, out) = study("request-life", &["--requests", "400"]);
    let charts = Charts::of(&report);
    let names = charts.names();
    assert_eq!(names[..4], ["totals", "phases", "client", "beside_original"]);
    let operations = ["version", "get", "put"];
    let transports = ["http1", "tls", "http2"];
    let runs = operations.iter().flat_map(|of| transports.map(|over| format!("{of}_{over}")));
    let hand_overs = ["auto", "always", "never"];
    for prefix in runs.flat_map(|run| hand_overs.map(|hand_over| format!("{run}_{hand_over}"))) {
        for chart in ["phases", "histogram", "jitter", "jitter_zoomed"] {
            assert!(names.contains(&format!("{prefix}_{chart}").as_str()), "{prefix}_{chart}");
        }
        let table = format!("{prefix}_phases");
        let mean = |row: &str| charts.row(&table, row)[3].unwrap();
        let phases = ["parse", "route", "queue", "execute", "encode", "write", "unaccounted"];
        let added: f64 = phases.iter().map(|phase| mean(phase)).sum();
        let total = mean("total");
        // Each phase is a whole number of nanoseconds, rounded down.
        assert!((added - total).abs() <= 8.0, "{prefix}: {added} and {total}");
        assert!(mean("client") > mean("execute"), "the client waits for the server");
        let histogram = format!("{prefix}_histogram");
        assert_eq!(sum(&charts.row(&histogram, "requests")), 400.0, "{prefix}");
        assert_eq!(charts.row(&format!("{prefix}_jitter"), "total").len(), 400);
        for (part, phase) in [("decrypt", "receive"), ("encrypt", "write")] {
            let part = format!(" {part}");
            if prefix.contains("http1") {
                assert!(!charts.rows(&table).contains(&part.as_str()), "{table}");
            } else {
                assert!(0.0 < mean(&part) && mean(&part) <= mean(phase), "{table}, {part}");
            }
        }
        // Requests that another thread handles wait for it; the request of the version never does.
        let is_away = prefix.ends_with("_always") && !prefix.starts_with("version");
        assert_eq!(mean("queue") > 0.0, is_away, "{prefix}");
        let all = ["receive", "parse", "route", "queue", "execute", "encode", "write"];
        for phase in all.into_iter().filter(|phase| is_away || *phase != "queue") {
            let histogram = format!("{prefix}_{phase}_histogram");
            assert_eq!(sum(&charts.row(&histogram, "requests")), 400.0, "{histogram}");
            let points = charts.row(&format!("{prefix}_{phase}_jitter"), phase);
            let slowest = points.iter().flatten().copied().fold(0.0, f64::max);
            let max = charts.row(&table, phase)[5].unwrap();
            assert_eq!((points.len(), slowest), (400, max), "{prefix}, {phase}");
            let zoomed = format!("{prefix}_{phase}_jitter_zoomed");
            assert!(names.contains(&zoomed.as_str()), "{zoomed}");
        }
        let idle = format!("{prefix}_queue_jitter");
        assert_eq!(names.contains(&idle.as_str()), is_away, "{idle}");
    }
    let page = std::fs::read_to_string(out.join("request-life.html")).unwrap();
    assert_eq!(page.matches("<figure").count(), names.len() + 1, "and the picture");
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["name"] == "total"));
    has_three_profiles_of_each(&report, &one_load());
    // There are 27 runs, two more of each of the nine that findings use, and that of the view from
    // outside.
    let outside = names.contains(&"outside");
    every_load_has_a_verdict(&report, 27 + 2 * 9 + usize::from(outside));
    if outside {
        the_probes_and_the_account_agree(&charts);
    } else {
        let notes = report["notes"].as_array().unwrap();
        let why = notes.iter().filter_map(Value::as_str);
        assert!(why.into_iter().any(|note| note.starts_with("The view from outside is not drawn")));
    }
    assert!(out.join("request-life.html").exists() && out.join("request-life.json").exists());
    fails(&["study", "request-life", "--requests", "0", "-o", out.to_str().unwrap()], 2, "");
}

/// Checks that both instruments have the same median of each phase.
fn the_probes_and_the_account_agree(charts: &Charts<'_>) {
    for phase in ["receive", "parse", "route", "queue", "execute", "encode", "write", "total"] {
        let values = charts.row("outside", phase);
        let (probes, account) = (values[0].unwrap(), values[1].unwrap());
        // Durations of a record have a resolution of some nanoseconds, and requests may be missing.
        assert!((probes - account).abs() <= 32.0 + 0.1 * account, "{phase}: {values:?}");
    }
}

/// Real drivers fill every row of the table, and the parts of a query's time add up.
#[test]
fn a_tiny_connection_pool_has_every_row_with_its_account() {
    let size = ["--documents", "300", "--queries", "25"];
    let (report, folder, out) = study("connection-pool", &size);
    let charts = Charts::of(&report);
    // The queue of ArangoDB holds more than all queries of the quick version.
    let expected = ["index", "missing", "scan"]
        .iter()
        .flat_map(|access| ["times", "account", "client"].map(|chart| format!("{access}_{chart}")))
        .chain(["spread_times", "spread_nodes"].map(str::to_owned));
    assert_eq!(charts.names(), expected.collect::<Vec<_>>());
    let nodes = charts.chart("spread_nodes");
    let busiest = |row: usize| nodes["series"][row]["values"][0].as_f64().unwrap();
    // NONE and ONE_RANDOM stay with one node, ROUND_ROBIN uses all in turn: 9, 8 and 8 of 25.
    assert!(busiest(0) == 1.0 && busiest(1) < 0.5 && busiest(2) == 1.0, "{nodes}");
    for access in ["index", "missing", "scan"] {
        let times = charts.chart(&format!("{access}_times"));
        let rows = times["series"].as_array().unwrap();
        assert_eq!(rows.len(), 7);
        for row in rows {
            let taken = row["values"][0].as_f64().unwrap();
            assert!(taken > 0.0 && row["values"][1].as_f64().unwrap() > 0.0, "{row}");
        }
        let account = charts.chart(&format!("{access}_account"));
        let parts = account["series"].as_array().unwrap();
        assert_eq!(parts.len(), 8);
        for (number, row) in rows.iter().enumerate() {
            let of = |part: &Value| part["values"][number].as_f64().unwrap();
            let sum: f64 = parts.iter().map(of).sum();
            let query = parts.iter().find(|part| part["name"] == "the query").unwrap();
            // All queries of a row are sent at once, so none waits longer than all of them take.
            let all = row["values"][0].as_f64().unwrap();
            assert!(of(query) > 0.0 && of(query) <= sum && sum <= all * 1.1, "{row} {account}");
        }
    }
    let findings = report["findings"].as_array().unwrap();
    let unfinished = findings.iter().find(|finding| finding["name"] == "unfinished").unwrap();
    let counted = |name: &str| {
        let figures = unfinished["figures"].as_array().unwrap();
        figures.iter().find(|figure| figure["name"] == name).unwrap()["values"][0].clone()
    };
    assert_eq!((counted("rows with refusals"), counted("wrong answers")), (0.0.into(), 0.0.into()));
    every_load_has_a_verdict(&report, 2 * 3 * (3 * 7 + 3));
    let loads = ["without an index", "with an index"].map(|access| format!("Queries {access}"));
    has_three_profiles_of_each(&report, &loads);
    assert!(out.join("connection-pool.html").exists());
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "the store was removed");
    fails(&["study", "connection-pool", "--queries", "0", "-o", out.to_str().unwrap()], 2, "");
}
