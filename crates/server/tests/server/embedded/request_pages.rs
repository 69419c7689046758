//! The pages about single requests: slow ones, those under way, traces, and the jobs beside them.

use crate::common::{TestServer, entity, request, serve, start_with, wait_for};
use pellucid_server::Accounting;
use serde_json::Value;

fn page(running: &TestServer, path: &str) -> Value {
    let answer = running.client().get(path);
    assert_eq!(answer.status, 200, "{path}");
    answer.json()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name].as_array().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("{name} in {value}"))
}

fn of_operation(document: &Value, operation: &str) -> Value {
    let mut operations = list(document, "operations").iter();
    operations.find(|of| of["operation"] == operation).cloned().unwrap_or(Value::Null)
}

#[test]
fn the_slowest_requests_are_shown_with_their_phases_and_what_they_waited_for() {
    let (running, mut client) = serve();
    let target = format!("{}&sync=disk", entity("secret-key"));
    assert_eq!(client.call("PUT", &target, &[], "v").status, 201);
    assert_eq!(client.get(&entity("secret-key")).status, 200);
    let document = page(&running, "/_admin/slow");
    assert_eq!(
        (&document["schema"], &document["accounting"]),
        (&"pellucid.slow.v1".into(), &"full".into())
    );
    let put = of_operation(&document, "entity_put");
    let [put] = &list(&put, "slowest")[..] else { panic!("{document}") };
    let phases = list(put, "phases").iter();
    let sum: u64 = phases.skip(1).map(|phase| number(phase, "duration_ns")).sum();
    let total_ns = number(put, "total_ns");
    assert!(sum.abs_diff(total_ns) <= 8, "{put}");
    let waited_for = &put["waited_for"];
    assert_eq!(waited_for["job"], "sync", "{put}");
    let overlapped = list(put, "overlapped");
    let sync = overlapped.iter().find(|job| job["id"] == waited_for["id"]).unwrap();
    assert!((1..=total_ns).contains(&number(sync, "overlap_ns")), "{put}");
    let get = of_operation(&document, "entity_get");
    let get = &list(&get, "slowest")[0];
    assert_eq!((&get["waited_for"], number(&get["engine"], "look_ups")), (&Value::Null, 1));
    assert_eq!(get["key_hash"], put["key_hash"], "both are of one key");
    let text = document.to_string();
    assert!(!text.contains("secret-key"), "keys are hashed");
    let limited = page(&running, "/_admin/slow?operation=entity_get&limit=0");
    assert_eq!(list(&limited, "operations").len(), 1);
    assert!(list(&list(&limited, "operations")[0], "slowest").is_empty());
    // Regression: the names were said to be on a page that has only those that have occurred.
    let refused = running.client().get("/_admin/slow?operation=backup").having(400);
    assert!(refused.text().contains("entity_multi_get, changes"), "{}", refused.text());
}

#[test]
fn keys_are_shown_where_the_operator_asks_for_them() {
    let running = start_with(|options| options.show_keys = true);
    running.client().put(&entity("plain-key"), "v");
    let document = page(&running, "/_admin/slow?operation=entity_put");
    let put = &list(&list(&document, "operations")[0], "slowest")[0];
    assert_eq!(put["key"], "plain-key");
}

/// Waits until `is_expected` accepts the list of requests under way; returns the page.
fn eventually(running: &TestServer, is_expected: impl Fn(&[Value]) -> bool) -> Value {
    wait_for(|| {
        let document = page(running, "/_admin/requests");
        if is_expected(list(&document, "requests")) { Ok(document) } else { Err(document) }
    })
}

/// If a client reads nothing, its request stays under way, and the page shows it.
#[test]
fn requests_under_way_are_shown_with_phase_and_age() {
    let (running, mut client) = serve();
    assert_eq!(client.put(&entity("large"), vec![b'v'; 32 << 20]).status, 201);
    let slow = running.sent(&request("GET", &entity("large"), &[], b""));
    // Once the first byte is here, the response is written as far as the sockets' buffers allow.
    let mut first = [0];
    slow.socket.peek(&mut first).unwrap();
    let document = eventually(&running, |requests| {
        requests.iter().any(|of| of["operation"] == "entity_get" && of["place"] == "away")
    });
    let requests = list(&document, "requests");
    let get = requests.iter().find(|of| of["operation"] == "entity_get").unwrap();
    assert_eq!((&get["phase"], &get["place"]), (&"encode".into(), &"away".into()));
    assert_eq!(get["waits_for"]["kind"], "client");
    let own = requests.iter().find(|of| of["operation"] == "admin").unwrap();
    // Its `place` varies: the page may be made before the event loop has noted `away`.
    assert_eq!(own["phase"], "execute");
    assert!(number(get, "age_ns") > number(own, "age_ns"), "the oldest come first");
    drop(slow);
    eventually(&running, |requests| requests.len() == 1);
}

fn traced(running: &TestServer, path: &str) -> Vec<Value> {
    let document = page(running, path);
    assert_eq!(document["displayTimeUnit"], "ns");
    let events = list(&document, "traceEvents").clone();
    let mut ends: std::collections::HashMap<u64, f64> = std::collections::HashMap::new();
    for event in &events {
        assert!(event["name"].is_string() && event["args"].is_object(), "{event}");
        assert_eq!(number(event, "pid"), 1);
        let (thread, begin) = (number(event, "tid"), event["ts"].as_f64().unwrap());
        match event["ph"].as_str().unwrap() {
            "M" => assert!(event["args"]["name"].is_string()),
            "X" => {
                let end = begin + event["dur"].as_f64().unwrap();
                let category = event["cat"].as_str().unwrap();
                assert!(matches!(category, "request" | "phase" | "job"), "{event}");
                let last = ends.get(&thread).copied().unwrap_or(0.0);
                if category == "request" {
                    assert!(begin >= last - 0.001, "a lane has one request at a time");
                    ends.insert(thread, end);
                } else if category == "phase" {
                    assert!(end <= last + 0.001, "a phase lies within its request");
                }
            }
            other => panic!("no such event: {other}"),
        }
    }
    events
}

#[test]
fn a_trace_has_requests_phases_and_jobs_in_the_form_that_viewers_open() {
    let (running, mut client) = serve();
    let target = format!("{}&sync=disk", entity("k"));
    assert_eq!(client.call("PUT", &target, &[], "v").status, 201);
    // Sent in one write, so that one wake-up reads them and they overlap.
    let three = request("GET", &entity("k"), &[], b"").repeat(3);
    client.send(&three);
    (0..3).for_each(|_| assert_eq!(client.answer().status, 200));
    let events = traced(&running, "/_admin/trace?seconds=60");
    let count = |category: &str, name: &str| {
        events.iter().filter(|event| event["cat"] == category && event["name"] == name).count()
    };
    assert_eq!((count("request", "entity_put"), count("request", "entity_get")), (1, 3));
    assert!(count("phase", "execute") >= 1 && count("job", "sync") >= 1);
    let put = events.iter().find(|event| event["name"] == "entity_put").unwrap();
    let job = number(&put["args"], "waited_for_job");
    assert!(events.iter().any(|event| event["cat"] == "job" && event["args"]["job"] == job));
    let one = traced(&running, "/_admin/trace?seconds=60&requests=1");
    assert_eq!(one.iter().filter(|event| event["cat"] == "request").count(), 1);
    for wrong in ["seconds=0", "seconds=61", "requests=0", "seconds=x"] {
        assert_eq!(running.client().get(&format!("/_admin/trace?{wrong}")).status, 400, "{wrong}");
    }
}

#[test]
fn the_rings_alone_are_enough_for_a_trace() {
    let running = start_with(|options| options.accounting = Accounting::Ring);
    running.client().put(&entity("k"), "v");
    let events = traced(&running, "/_admin/trace?seconds=60");
    assert!(events.iter().any(|event| event["name"] == "entity_put"));
    let silent = start_with(|options| options.accounting = Accounting::Off);
    silent.client().put(&entity("k"), "v");
    let events = traced(&silent, "/_admin/trace");
    assert!(events.iter().all(|event| event["cat"] != "request"));
    assert!(list(&page(&silent, "/_admin/requests"), "requests").is_empty());
}

#[test]
fn interference_hides_lifts_of_too_few_requests() {
    let (running, mut client) = serve();
    for _ in 0..20 {
        let target = format!("{}&sync=disk", entity("k"));
        assert_eq!(client.call("PUT", &target, &[], "v").status, 201);
    }
    for path in ["/_admin/interference", "/_admin/interference?since=start"] {
        let document = page(&running, path);
        let put = of_operation(&document, "entity_put");
        assert_eq!(number(&put, "requests"), 20);
        let jobs = list(&put, "jobs");
        let sync = jobs.iter().find(|job| job["job"] == "sync").unwrap();
        assert_eq!((number(sync, "requests_beside"), &sync["lift"]), (20, &Value::Null));
        assert!(sync["hidden"].as_str().unwrap().contains("are needed"));
    }
    assert_eq!(running.client().get("/_admin/interference?since=noon").status, 400);
    let metrics = running.client().get("/metrics");
    let text = metrics.text();
    for line in [
        "pellucid_requests_total{operation=\"entity_put\",outcome=\"ok\"} 20",
        "pellucid_requests_total{operation=\"entity_put\",outcome=\"failed\"} 0",
        "pellucid_slow_requests_total{operation=\"entity_put\"} 0",
        "pellucid_jobs_running{job=\"flush\"} 0",
        "pellucid_requests_beside_job_total{operation=\"entity_put\",job=\"sync\"} 20",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}");
    }
}
