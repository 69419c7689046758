//! `GET /_admin/engine`, and the engine's part of `/metrics`, which have the same figures.

use crate::common::{entity, serve};
use serde_json::Value;

fn number(document: &Value, path: &str) -> u64 {
    document.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path}"))
}

/// A value too long for the ledger, so that reads come from the journal.
const VALUE: &str = "a value that is longer than those that the ledger holds beside the journal, \
                     so that it is read from there";

#[test]
fn requests_are_counted_where_they_end() {
    let (_running, mut client) = serve();
    let before = client.get("/_admin/engine").having(200).json();
    assert_eq!(before["schema"], "pellucid.engine.v1");
    for round in 0..5 {
        assert_eq!(client.put(&entity(format!("k{round}")), VALUE).status, 201);
    }
    (0..3).for_each(|_| assert_eq!(client.get(&entity("k1")).status, 200));
    (0..2).for_each(|_| assert_eq!(client.get(&entity("none")).status, 404));
    let after = client.get("/_admin/engine").having(200).json();
    let added = |path| number(&after, path) - number(&before, path);
    assert_eq!(added("/writes/entries"), 5);
    assert!(added("/writes/user_bytes") >= 5 * ("k0".len() + VALUE.len()) as u64);
    assert_eq!(added("/reads/look_ups/memtable/count"), 3);
    assert_eq!(added("/reads/look_ups/missing/count"), 2);
    assert_eq!(added("/reads/journal/records"), 3);
    assert_eq!(added("/reads/journal/bytes"), 3 * VALUE.len() as u64);
    assert_eq!(after["state"]["levels"].as_array().unwrap().len(), 7);
    for path in [
        "/reads/journal/place/samples",
        "/reads/journal/read_disk/sum_ns",
        "/reads/levels/6/steps/fetch_cached/samples",
        "/writes/sync_ns",
        "/writes/waits/group/sum_ns",
    ] {
        number(&after, path);
    }
    assert_eq!(after["background"]["compactions"].as_array().unwrap().len(), 7);
    assert!(after["state"]["write_amplification"].as_f64().unwrap() >= 1.0);
}

#[test]
fn metrics_agree_with_the_page() {
    let (_running, mut client) = serve();
    client.put(&entity("k"), "value");
    (0..4).for_each(|_| assert_eq!(client.get(&entity("k")).status, 200));
    let document = client.get("/_admin/engine").having(200).json();
    for (sample, path) in [
        ("pellucid_engine_look_ups_total{found_in=\"memtable\"}", "/reads/look_ups/memtable/count"),
        ("pellucid_engine_entries_written_total", "/writes/entries"),
        ("pellucid_engine_level_tables{level=\"0\"}", "/state/levels/0/tables"),
        ("pellucid_engine_job_runs_total{job=\"flush\",level=\"0\"}", "/background/flush/runs"),
    ] {
        assert_eq!(client.figure(sample), number(&document, path) as f64, "{sample}");
    }
    assert!(number(&document, "/reads/look_ups/memtable/count") >= 4);
    let step = "pellucid_engine_read_step_samples_total{part=\"journal\",step=\"place\"}";
    assert_eq!(client.figure(step), number(&document, "/reads/journal/place/samples") as f64);
    let waits = "pellucid_engine_write_wait_seconds_total{cause=\"group\"}";
    assert!(client.figure(waits) >= 0.0);
}
