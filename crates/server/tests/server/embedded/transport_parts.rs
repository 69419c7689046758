//! Cryptography and compression as parts of their phases, in every view of a request that has them.

use std::time::Duration;

use crate::common::collector::{collector, spans};
use crate::common::tls::{connect, localhost};
use crate::common::{entity, start_with};
use pellucid_account::Snapshot;
use pellucid_server::TraceCollector;
use serde_json::Value;
use tempfile::TempDir;

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// The parts in the order of their occurrence, with their phases.
const PARTS: [(&str, &str); 3] =
    [("decrypt", "receive"), ("compress", "encode"), ("encrypt", "write")];

fn check_server_timing(timing: &str) {
    let metrics: Vec<(&str, f64)> = timing
        .split(", ")
        .map(|metric| metric.split_once(";dur=").unwrap())
        .map(|(name, ms)| (name, ms.parse().unwrap()))
        .collect();
    assert_eq!((metrics[0].0, metrics[1].0, metrics[2].0), ("receive", "decrypt", "parse"));
    assert!(metrics[1].1 <= metrics[0].1, "{timing}");
    for later in ["compress", "encrypt"] {
        assert!(!timing.contains(later), "it is not over by then: {timing}");
    }
}

fn check_account(snapshot: &Snapshot) {
    let get = snapshot.operations.iter().find(|of| of.operation == "entity_get").unwrap();
    assert_eq!(get.count, 1);
    for (part, phase) in PARTS {
        let of_phase = get.phases.iter().find(|named| named.name == phase).unwrap();
        let named = get.transport_part_of(phase).unwrap();
        assert_eq!((named.name.as_str(), named.distribution.count), (part, 1));
        let part_ns = named.distribution.max_ns;
        assert!(part_ns > 0 && part_ns <= of_phase.distribution.max_ns, "{part}");
        let around = get.around[0].transport_part_of(phase).unwrap();
        assert!((around.mean_ns - named.distribution.mean_ns).abs() < 1.0);
    }
    let put = snapshot.operations.iter().find(|of| of.operation == "entity_put").unwrap();
    assert_eq!(put.transport_part_of("encode"), None, "an empty body is not compressed");
}

/// Returns the durations of the parts, by name.
fn check_slow(page: &Value) -> Vec<(String, u64)> {
    let slowest = &page["operations"][0]["slowest"][0];
    let durations = |list: &str| -> Vec<(String, u64)> {
        let stretches = slowest[list].as_array().unwrap().iter();
        let of = |stretch: &Value| {
            let name = stretch["name"].as_str().unwrap().to_owned();
            (name, stretch["duration_ns"].as_u64().unwrap())
        };
        stretches.map(of).collect()
    };
    let phases = durations("phases");
    let parts = durations("transport_parts");
    let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, PARTS.map(|(part, _)| part));
    for ((_, part_ns), (_, phase)) in parts.iter().zip(PARTS) {
        let (_, phase_ns) = phases.iter().find(|(name, _)| name == phase).unwrap();
        assert!(*part_ns > 0 && part_ns <= phase_ns, "{slowest}");
    }
    parts
}

fn check_trace(trace: &Value) {
    let events = trace["traceEvents"].as_array().unwrap();
    for (part, phase) in PARTS {
        let argument = format!("{part}_us");
        let with = events.iter().filter(|event| event["args"].get(&argument).is_some());
        let with: Vec<&Value> = with.collect();
        assert!(!with.is_empty(), "{part}");
        for event in with {
            assert_eq!(event["name"], phase);
            let (part_us, phase_us) = (&event["args"][&argument], &event["dur"]);
            assert!(part_us.as_f64().unwrap() <= phase_us.as_f64().unwrap() + 0.002, "{event}");
        }
    }
}

fn check_spans(document: &Value) {
    let of = |name: &str| spans(document).iter().find(|span| span["name"] == name).unwrap();
    // `receive` precedes the request's span, so it has no span of its own.
    for (part, span) in [("decrypt", "entity_get"), ("compress", "encode"), ("encrypt", "write")] {
        let key = format!("pellucid.part.{part}_ns");
        let attributes = of(span)["attributes"].as_array().unwrap();
        let attribute = attributes.iter().find(|attribute| attribute["key"] == *key).unwrap();
        assert_ne!(attribute["value"]["intValue"], "0");
    }
}

#[test]
fn every_view_has_the_parts_of_the_transport() {
    let folder = TempDir::new().unwrap();
    let (files, config) = localhost(folder.path());
    let (url, received) = collector();
    let running = start_with(|options| {
        options.tls = Some(files);
        options.slow_request = Duration::from_nanos(1);
        options.export = Some(TraceCollector::to(&url, None).unwrap());
    });
    let mut client = connect(running.address, &config);
    let value = b"the same words again and again, ".repeat(500);
    client.call("PUT", &entity("k"), &[], &value);
    let asks = [("Accept-Encoding", "gzip"), ("Prefer", "timing"), ("traceparent", TRACE)];
    let answer = client.call("GET", &entity("k"), &asks, b"");
    assert_eq!(answer.header("Content-Encoding"), Some("gzip"));
    assert!(answer.body.len() < value.len() / 10);
    check_server_timing(answer.header("Server-Timing").unwrap());

    check_spans(&received.recv_timeout(Duration::from_secs(20)).unwrap().1);
    check_account(&serde_json::from_value(client.get("/_admin/account").json()).unwrap());
    let parts = check_slow(&client.get("/_admin/slow?operation=entity_get").json());
    check_trace(&client.get("/_admin/trace?seconds=60").json());
    let metrics = client.get("/metrics");
    for (part, phase) in PARTS.into_iter().chain([("ledger", "execute")]) {
        let labels = format!(
            "pellucid_request_part_duration_seconds_count{{operation=\"entity_get\",\
             outcome=\"ok\",phase=\"{phase}\",part=\"{part}\"}} 1\n"
        );
        assert!(metrics.text().contains(&labels), "{labels}");
    }
    let lines = running.log.lock().unwrap();
    let line = lines.iter().find(|line| line.contains("operation=\"entity_get\"")).unwrap();
    for (part, duration_ns) in parts {
        // The line leaves out parts below a microsecond, in which a fast processor can decrypt.
        let told = line.split("parts_ms").nth(1).unwrap().contains(&format!("{part}="));
        assert_eq!(told, duration_ns >= 1_000, "{part}, {duration_ns} ns: {line}");
    }
}
