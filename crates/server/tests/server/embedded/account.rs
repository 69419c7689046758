//! The account as clients see it: `Server-Timing`, `/_admin/account`, and the three modes of
//! `--accounting`.

use crate::common::{Answer, Client, TestServer, entity, serve, start, start_with};
use pellucid_account::{OperationAccount, SCHEMA, Snapshot};
use pellucid_clock::{Clock, SharedReading};
use pellucid_server::Accounting;

const PREFER: (&str, &str) = ("Prefer", "timing");

/// Names and milliseconds of a `Server-Timing` header; numbers have three decimals.
fn metrics(answer: &Answer) -> Vec<(String, f64)> {
    let metric = |text: &str| {
        let (name, duration) = text.split_once(";dur=").unwrap();
        let decimals = duration.split_once('.').unwrap().1;
        assert!(decimals.len() == 3 && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
        (name.to_owned(), duration.parse().unwrap())
    };
    answer.header("Server-Timing").unwrap().split(", ").map(metric).collect()
}

fn check_timing(answer: &Answer) -> Vec<String> {
    let metrics = metrics(answer);
    let names: Vec<&str> = metrics.iter().map(|(name, _)| name.as_str()).collect();
    let is_phase = |name: &&&str| {
        matches!(**name, "receive" | "parse" | "route" | "queue" | "execute" | "encode")
    };
    let phases: Vec<&str> = names.iter().filter(is_phase).copied().collect();
    assert_eq!(phases, ["receive", "parse", "route", "queue", "execute", "encode"]);
    assert_eq!(names[names.len() - 2..], ["total", "unaccounted"]);
    let of = |name: &str| metrics.iter().find(|(other, _)| other == name).unwrap().1;
    let within = ["parse", "route", "queue", "execute", "encode", "unaccounted"];
    let sum: f64 = within.iter().map(|name| of(name)).sum();
    // Each of six figures is rounded to a microsecond.
    assert!((sum - of("total")).abs() <= 0.004, "{metrics:?}");
    let (execute, encode) = (position(&names, "execute"), position(&names, "encode"));
    let parts = &metrics[execute + 1..encode];
    let parts_sum: f64 = parts.iter().map(|(_, ms)| ms).sum();
    assert!(parts_sum <= of("execute") + 0.001 * parts.len() as f64, "{metrics:?}");
    parts.iter().map(|(name, _)| name.clone()).collect()
}

fn position(names: &[&str], name: &str) -> usize {
    names.iter().position(|other| *other == name).unwrap()
}

#[test]
fn server_timing_holds_the_phases_and_the_stores_parts() {
    let (_running, mut client) = serve();
    let put = client.call("PUT", &entity("k"), &[PREFER], "v".repeat(10_000));
    let parts = check_timing(&put);
    assert!(parts.contains(&"journal_append".to_owned()), "{parts:?}");
    let parts = check_timing(&client.call("GET", &entity("k"), &[PREFER], b""));
    assert!(parts.contains(&"journal_read".to_owned()), "{parts:?}");
    let disk = format!("{}&sync=disk", entity("k"));
    let parts = check_timing(&client.call("PUT", &disk, &[PREFER], "v"));
    assert!(parts.contains(&"sync".to_owned()), "{parts:?}");
}

/// The account includes the time of the request's arrival, on the clock of this machine: after the
/// request was sent, and before its answer came.
#[test]
fn a_client_on_the_same_machine_can_place_the_account() {
    let (_running, mut client) = serve();
    let clock = Clock::system();
    // The first event of a connection says that it is writable, and a request that arrives during
    // that event counts from its beginning.
    client.get(&entity("k"));
    let sent = clock.now();
    let answer = client.call("GET", &entity("k"), &[PREFER], b"");
    let received = clock.now();
    assert!(SharedReading::of(&clock, sent).is_some(), "Linux says which boot this is");
    let text = answer.header("Pellucid-Clock").unwrap();
    let arrived = SharedReading::parse(text).unwrap().on(&clock).unwrap();
    assert!(sent <= arrived && arrived <= received, "{sent:?} {arrived:?} {received:?}");
    assert_eq!(client.get(&entity("k")).header("Pellucid-Clock"), None);
}

/// Regression: errors were answered without the account, although the request asked for it.
#[test]
fn every_answer_has_its_account_if_the_request_asks_for_it_and_else_none() {
    let (_running, mut client) = serve();
    let etag = client.put(&entity("k"), "v").etag();
    let mut check = |method: &str, target: &str, condition: (&str, &str), status: u16| {
        let body = if method == "POST" { r#"{"op":"delete","key":"eA=="}"# } else { "" };
        let answer = client.call(method, target, &[condition, PREFER], body);
        assert_eq!(answer.status, status, "{method} {target}");
        check_timing(&answer);
        let silent = client.call(method, target, &[condition], body);
        assert_eq!(silent.header("Server-Timing"), None, "{method} {target}");
    };
    let none = ("X-Nothing", "here");
    let key = entity("k");
    for method in ["GET", "HEAD"] {
        check(method, &key, none, 200);
        check(method, &key, ("If-None-Match", &etag), 304);
        check(method, &key, ("If-Match", "\"0\""), 412);
        check(method, &entity("none"), none, 404);
        check(method, "/v0/entity", none, 400);
        check(method, "/v0/status", none, 200);
    }
    check("PUT", &key, ("If-None-Match", "*"), 412);
    check("PUT", &format!("{key}&ttl=never"), none, 400);
    check("PUT", &key, none, 201);
    check("DELETE", &entity("none"), none, 202);
    check("PATCH", &key, none, 405);
    check("GET", "/v0/entities?start=a", none, 200);
    check("GET", "/v0/entities", none, 400);
    check("POST", "/v0/batch", none, 200);
    check("GET", "/v0/batch", none, 405);
    check("GET", "/nowhere", none, 400);
    check("GET", "/_nowhere", none, 404);
    check("GET", "/_admin/account", none, 200);
    check("GET", "/_admin/account?window=0", none, 400);
    check("GET", "/metrics", none, 200);
}

#[test]
fn the_preference_may_stand_among_others() {
    let (_running, mut client) = serve();
    for value in ["timing", "Timing", "return=minimal, timing", "respond-async ,timing"] {
        let answer = client.call("GET", &entity("k"), &[("prefer", value)], b"");
        assert!(answer.header("Server-Timing").is_some(), "{value}");
    }
    for value in ["timings", "no-timing", ""] {
        let answer = client.call("GET", &entity("k"), &[("Prefer", value)], b"");
        assert!(answer.header("Server-Timing").is_none(), "{value}");
    }
}

/// Makes requests of each operation and outcome; returns these with the number of their requests.
fn requests(running: &TestServer) -> Vec<(&'static str, &'static str, u64)> {
    let mut client = running.client();
    let etag = client.put(&entity("k"), "v").etag();
    for _ in 0..9 {
        client.put(&entity("k2"), "v".repeat(5_000));
    }
    (0..7).for_each(|_| assert_eq!(client.get(&entity("k")).status, 200));
    (0..3).for_each(|_| assert_eq!(client.get(&entity("none")).status, 404));
    let same = [("If-None-Match", etag.as_str())];
    (0..2).for_each(|_| assert_eq!(client.call("GET", &entity("k"), &same, b"").status, 304));
    client.get("/v0/entity");
    client.call("HEAD", &entity("k"), &[], b"");
    client.call("PUT", &entity("k"), &[("If-None-Match", "*")], "v");
    (0..4).for_each(|_| assert_eq!(client.call("DELETE", &entity("x"), &[], b"").status, 202));
    client.get("/v0/entities?start=a");
    client.call("POST", "/v0/batch", &[], r#"{"op":"delete","key":"eA=="}"#);
    client.get("/v0/status");
    client.get("/nowhere");
    running.sent(b"nonsense\r\n\r\n").rest();
    vec![
        ("entity_batch", "ok", 1),
        ("entity_delete", "ok", 4),
        ("entity_get", "missing", 3),
        ("entity_get", "not_modified", 2),
        ("entity_get", "ok", 7),
        ("entity_get", "rejected", 1),
        ("entity_head", "ok", 1),
        ("entity_put", "ok", 10),
        ("entity_put", "precondition_failed", 1),
        ("entity_range", "ok", 1),
        ("refused", "rejected", 1),
        ("status", "ok", 1),
        ("unknown", "rejected", 1),
    ]
}

fn counts(snapshot: &Snapshot) -> Vec<(&str, &str, u64)> {
    let accounts = snapshot.operations.iter().filter(|account| account.operation != "admin");
    accounts
        .map(|account| (account.operation.as_str(), account.outcome.as_str(), account.count))
        .collect()
}

#[test]
fn the_account_counts_every_request_once_under_its_operation_and_outcome() {
    let running = start();
    let expected = requests(&running);
    let snapshot = running.account();
    assert_eq!(counts(&snapshot), expected);
    assert_eq!((snapshot.schema.as_str(), snapshot.accounting.as_str()), (SCHEMA, "full"));
    assert_eq!(snapshot.records_lost, 0);
    for account in &snapshot.operations {
        check_account(account);
    }
    let windowed = window(&mut running.client(), 60);
    assert_eq!(counts(&windowed), expected, "it all happened within the last minute");
    assert!(windowed.window_seconds <= 60.0);
    let loops = &running.client().get("/_admin/account").json()["event_loops"];
    assert!(loops["ran_ns"].as_u64() > Some(0) && loops["run_delay_ns"].is_u64(), "{loops}");
}

fn window(client: &mut Client, seconds: u64) -> Snapshot {
    let answer = client.get(&format!("/_admin/account?window={seconds}")).having(200);
    serde_json::from_value(answer.json()).unwrap()
}

fn check_account(account: &OperationAccount) {
    let name = format!("{} {}", account.operation, account.outcome);
    let names: Vec<&str> = account.phases.iter().map(|phase| phase.name.as_str()).collect();
    let expected =
        ["receive", "parse", "route", "queue", "execute", "encode", "write", "unaccounted"];
    assert_eq!(names, expected, "{name}");
    let total = &account.total;
    assert_eq!(total.count, account.count, "{name}");
    assert_eq!(total.log2.iter().map(|(_, count)| count).sum::<u64>(), account.count);
    assert_eq!(total.buckets.iter().map(|(_, _, count)| count).sum::<u64>(), account.count);
    let quantiles = [
        total.min_ns, total.q1_ns, total.p50_ns, total.q3_ns, total.p90_ns, total.p99_ns,
        total.p99_9_ns, total.p99_99_ns, total.max_ns,
    ];
    assert!(quantiles.is_sorted() && total.min_ns > 0, "{name}: {quantiles:?}");
    let phases = account.phases.iter().skip(1);
    let sum: f64 = phases.map(|phase| phase.distribution.mean_ns).sum();
    assert!((sum - total.mean_ns).abs() <= total.mean_ns * 0.02, "{name}: {sum} of {total:?}");
    for around in &account.around {
        let shares: f64 = around.phases.iter().map(|share| share.share).sum();
        assert!((shares - 1.0).abs() < 0.02, "{name}: shares sum to {shares}");
        let sum: f64 = around.phases.iter().map(|share| share.mean_ns).sum();
        assert!((sum - around.total_mean_ns).abs() <= around.total_mean_ns * 0.02, "{name}");
    }
    let quantiles: Vec<f64> = account.around.iter().map(|around| around.quantile).collect();
    assert_eq!(quantiles, [0.5, 0.99, 0.999]);
}

#[test]
fn an_invalid_window_is_400() {
    let (_running, mut client) = serve();
    for window in ["", "0", "-1", "x", "1.5", "601", "99999999999999999999", "1&window=2"] {
        let answer = client.get(&format!("/_admin/account?window={window}"));
        assert_eq!(answer.status, 400, "{window}");
        assert!(answer.text().contains("`window`"), "{}", answer.text());
    }
    assert_eq!(client.get("/_admin/account?window=600").status, 200);
}

#[test]
fn without_full_accounting_the_account_is_empty_and_says_so() {
    for (accounting, name) in [(Accounting::Off, "off"), (Accounting::Ring, "ring")] {
        let running = start_with(|options| options.accounting = accounting);
        requests(&running);
        let snapshot = running.account();
        assert_eq!((snapshot.accounting.as_str(), snapshot.operations.len()), (name, 0));
        let answer = running.client().call("GET", &entity("k"), &[PREFER], b"").having(200);
        assert_eq!(answer.header("Server-Timing").is_some(), accounting == Accounting::Ring);
    }
}

/// Requests that come together in one read wait for each other, and each one's account shows its
/// wait.
#[test]
fn pipelined_requests_are_accounted_for_one_by_one() {
    let running = start();
    let put = crate::common::request("PUT", &entity("k"), &[PREFER], b"v");
    let mut client = running.sent(&put.repeat(100));
    for _ in 0..100 {
        check_timing(&client.answer());
    }
    let snapshot = running.account();
    assert_eq!(counts(&snapshot), [("entity_put", "ok", 100)]);
    check_account(&snapshot.operations[0]);
}
