//! Attacks by queries.

use super::attack_servers::AttackServers;
use super::raw::{Attack, connect, reset, send};
use crate::common::costly_queries::costly_queries;
use crate::common::{request, serve, wait_until};
use serde_json::{Value, json};

/// The memory limit of an attacking query.
const MEMORY_BYTES: u64 = 64 << 20;
/// The time limit in seconds of an attacking query.
const SECONDS: f64 = 1.0;

fn ask(arena: &AttackServers, body: &Value) -> (u16, String) {
    let mut client = arena.open.client();
    let answer = client.call("POST", "/_api/cursor", &[], body.to_string());
    let text = String::from_utf8_lossy(&answer.body);
    (answer.status, text.chars().take(300).collect())
}

/// Returns true if a query may end with this status: with a result, refused, or ended by a limit.
fn is_expected(status: u16) -> bool {
    matches!(status, 201 | 400 | 404 | 409 | 410 | 413 | 500)
}

fn attack(name: &str, body: Value) -> Attack {
    let named = name.to_owned();
    Attack::new(format!("query: {name}"), move |arena| {
        let begun = std::time::Instant::now();
        let (status, text) = ask(arena, &body);
        println!("    {status} after {:?}: {text:.120}", begun.elapsed());
        assert!(is_expected(status), "{named}: {status} {text}");
    })
}

fn options() -> Value {
    json!({"maxRuntime": SECONDS})
}

pub(crate) fn attacks() -> Vec<Attack> {
    let body =
        |query: &str| json!({"query": query, "memoryLimit": MEMORY_BYTES, "options": options()});
    let costly = costly_queries();
    let queries = costly.iter().map(|(name, query)| attack(name, body(query)));
    queries.chain(limits()).chain(binds()).chain([crowd(), gone()]).collect()
}

/// Queries whose options ask for higher limits than the server allows.
fn limits() -> Vec<Attack> {
    let large = "FOR i IN 1..10000000 RETURN REPEAT(\"a\", 1000)";
    let with = |more: Value| {
        let mut body = json!({"query": large, "options": options()});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let rules = json!({"rules": vec!["x"; 10_000]});
    let plans = json!({"maxNumberOfPlans": -5, "optimizer": rules, "maxRuntime": SECONDS});
    vec![
        attack("no limit of memory", with(json!({"memoryLimit": 0}))),
        attack("a limit beyond all memory", with(json!({"memoryLimit": u64::MAX}))),
        attack("a limit below zero", with(json!({"memoryLimit": -1}))),
        attack("a batch of all", with(json!({"batchSize": 4_000_000_000_u64}))),
        attack("a batch of nothing", with(json!({"batchSize": 0}))),
        attack(
            "warnings without number",
            json!({
                "query": "FOR i IN 1..20000000 RETURN 1 / 0",
                "memoryLimit": 10_000_000,
                "options": {"maxWarningCount": u64::MAX, "maxRuntime": SECONDS},
            }),
        ),
        attack(
            "no limit of time",
            json!({"query": "FOR i IN 1..3000000 RETURN 1", "options": {"maxRuntime": 0}}),
        ),
        attack(
            "a limit of time below zero",
            json!({"query": "RETURN 1", "options": {"maxRuntime": -1}}),
        ),
        attack("options of noise", json!({"query": "RETURN 1", "options": [1, 2, 3]})),
        attack("plans beyond number", with(json!({"options": plans}))),
    ]
}

/// Bind values that are large, deeply nested or unusual.
fn binds() -> Vec<Attack> {
    let bound = |query: &str, value: Value| {
        let binds = json!({"s": value});
        json!({"query": query, "bindVars": binds, "options": options()})
    };
    let deep = (0..100).fold(Value::Null, |inner, _| json!([inner]));
    let mut attacks = vec![
        attack(
            "a bind value of 8 MB and a costly pattern",
            bound(r#"RETURN REGEX_SPLIT(@s, ".*[^A-Z]|[A-Z]")"#, Value::from("a".repeat(4 << 20))),
        ),
        attack(
            "a bind value of many numbers",
            bound("RETURN LENGTH(@s)", Value::from(vec![1; 1_000_000])),
        ),
        attack("a bind value that is deep", bound("RETURN [[[@s]]]", deep)),
        attack("a bind value that nobody asked for", bound("RETURN 1", Value::Null)),
        attack("a collection of words", bound("FOR d IN @@s RETURN d", Value::from("c; DROP"))),
        attack("bind values that are no object", json!({"query": "RETURN 1", "bindVars": [1]})),
        attack("a query that is no text", json!({"query": {"a": 1}})),
    ];
    let braces = format!(
        "{{\"query\":\"RETURN LENGTH(@s)\",\"bindVars\":{{\"s\":{}{}}}}}",
        "[".repeat(1_000_000),
        "]".repeat(1_000_000)
    );
    attacks.push(Attack::new("query: a bind value of 1,000,000 brackets", move |arena| {
        let answer = arena.open.client().call("POST", "/_api/cursor", &[], braces.as_str());
        assert_eq!(answer.status, 400, "{}", answer.text());
    }));
    attacks
}

/// Occupies all workers with queries that do not end by themselves. Other requests must be answered
/// meanwhile, and queries again after the time limit.
fn crowd() -> Attack {
    Attack::new("query: 32 at once that run until their end", |arena| {
        let query = "FOR a IN 1..1000000 FOR b IN 1..1000000 FILTER a + b < 0 RETURN 1";
        let body = json!({"query": query, "options": options()}).to_string();
        let clients: Vec<_> = (0..32)
            .map(|_| {
                let (mut client, body) = (arena.open.client(), body.clone());
                std::thread::spawn(move || client.call("POST", "/_api/cursor", &[], body).status)
            })
            .collect();
        for client in clients {
            let status = client.join().unwrap();
            assert!(matches!(status, 410 | 503), "{status}");
        }
    })
}

/// Regression: queries whose clients had disconnected continued to run until their time limit. The
/// server of this attack has no lower one than an hour.
fn gone() -> Attack {
    Attack::new("query: 32 whose clients are gone", |_| {
        let (_folder, server) = serve(&[]);
        let mut client = server.client();
        let query = "FOR a IN 1..1000000 FOR b IN 1..1000000 FILTER a + b < 0 RETURN 1";
        let body = json!({"query": query}).to_string();
        let request = request("POST", "/_api/cursor", &[], body.as_bytes());
        let asking = |_| {
            let mut socket = connect(server.address);
            send(&mut socket, &request);
            socket
        };
        let sockets: Vec<_> = (0..32).map(asking).collect();
        wait_until(|| client.figure("pellucid_requests_in_flight"), |count| *count >= 32.0);
        let mut running = || client.get("/_api/query/current").text().matches("a + b").count();
        wait_until(&mut running, |count| *count > 0);
        sockets.into_iter().for_each(reset);
        wait_until(running, |count| *count == 0);
    })
}
