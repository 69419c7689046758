//! Errors and limits of the document API: every error number of the contract that a client can
//! cause, and queries that are listed, killed and limited.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use super::refused_calls::UnexpectedAnswers;
use super::{asked, call, make_index, with_collection, with_empty_collection};
use crate::common::{
    Client, PATIENCE, number, request, serve, serve_with, start_on, start_with, wait_for,
    wait_until,
};
use pellucid_server::HandOverPolicy;
use serde_json::{Value, json};
use tempfile::TempDir;

fn make(client: &mut Client, target: &str, body: &Value) {
    let answer = call(client, "POST", target, body);
    assert!(answer.status < 300, "{}", answer.text());
}

const INDEX: &str = "/_api/index?collection=c";
const INDEX_OF_E: &str = "/_api/index?collection=e";
const IMPORT: &str = "/_api/import?collection=c&type=documents&complete=true";

/// Calls, each with the status and the error number of the contract.
const REFUSED: &[(&str, &str, &str, u16, u64)] = &[
    ("POST", "/_api/collection", "", 400, 1208),
    ("POST", "/_api/collection", "{}", 400, 1208),
    ("POST", "/_api/collection", r#"{"name":"1x"}"#, 400, 1208),
    ("POST", "/_api/collection", r#"{"name":"c"}"#, 409, 1207),
    ("POST", "/_api/collection", r#"{"name":"d","type":7}"#, 400, 1218),
    ("GET", "/_api/collection/nothing", "", 404, 1203),
    ("DELETE", "/_api/collection/nothing", "", 404, 1203),
    ("PATCH", "/_api/collection/c", "", 405, 405),
    ("DELETE", "/_api/collection/c/x", "", 405, 405),
    ("PUT", "/_api/collection/c/rename", r#"{"name":"e"}"#, 409, 1207),
    ("POST", "/_api/document/c", "", 400, 600),
    ("POST", "/_api/document/c", "{ 1: 2 }", 400, 600),
    ("POST", "/_api/document/c", "\"\u{fffd}", 400, 600),
    ("POST", "/_api/document/nothing", "{}", 404, 1203),
    ("POST", "/_api/document/c", r#"{"_key":7}"#, 400, 1221),
    ("POST", "/_api/document/c", r#"{"_key":"a"}"#, 409, 1210),
    ("POST", "/_api/document/c", r#"{"u":1}"#, 409, 1210),
    ("POST", "/_api/document/e", "{}", 400, 1233),
    ("POST", "/_api/document/e", r#"{"_from":"x","_to":"c/a"}"#, 400, 1233),
    ("PUT", "/_api/document/c/a?ignoreRevs=false", r#"{"_rev":"_old"}"#, 412, 1200),
    ("PATCH", "/_api/document/c/nothing", "{}", 404, 1202),
    ("PUT", "/_api/document/c/nothing", "{}", 404, 1202),
    ("PATCH", "/_api/document/c/a%2Fb", "{}", 400, 1221),
    ("DELETE", "/_api/document/c/nothing", "", 404, 1202),
    ("GET", "/_api/document/c/a/b", "", 400, 601),
    ("GET", "/_api/document/c", "", 400, 400),
    ("POST", "/_api/import?collection=nothing&type=documents", "{}", 404, 1203),
    ("POST", IMPORT, r#"{"_key":"a"}"#, 409, 1210),
    ("GET", "/_api/index/c/999", "", 404, 1212),
    ("GET", "/_api/index?collection=nothing", "", 404, 1203),
    ("DELETE", "/_api/index/c/999", "", 404, 1212),
    ("POST", INDEX, r#"{"type":"persistent","fields":[]}"#, 400, 10),
    ("POST", INDEX, r#"{"type":"persistent"}"#, 400, 10),
    ("POST", "/_api/index", "{}", 400, 1204),
    ("POST", "/_api/import", "", 400, 1204),
    ("POST", INDEX, r#"{"type":"persistent","fields":["n"],"unique":true}"#, 400, 1210),
    ("POST", INDEX, r#"{"type":"ttl","fields":["n"],"expireAfter":1}"#, 400, 10),
    ("POST", INDEX_OF_E, r#"{"type":"ttl","fields":["n[*]"],"expireAfter":1}"#, 400, 10),
    ("POST", INDEX_OF_E, r#"{"type":"persistent","fields":["n"],"name":"edge"}"#, 400, 1005),
    ("GET", "/_db/nothing/_api/document/c/a", "", 404, 1228),
    ("GET", "/_db/nothing/_api/collection", "", 404, 1228),
    ("DELETE", "/_api/database/_system", "", 403, 11),
    ("DELETE", "/_api/database/nothing", "", 404, 1228),
    ("POST", "/_api/database", r#"{"name":"a/b"}"#, 400, 1229),
    ("POST", "/_api/database", r#"{"name":"1"}"#, 400, 1229),
    ("POST", "/_api/database", r#"{"name":"other"}"#, 409, 1207),
    ("POST", "/_db/other/_api/database", r#"{"name":"third"}"#, 403, 1230),
    ("PUT", "/_api/cursor/999", "", 404, 1600),
    ("POST", "/_api/cursor/undefined", "", 404, 1600),
    ("DELETE", "/_api/cursor/999", "", 404, 1600),
    ("DELETE", "/_api/query/999", "", 404, 1591),
    ("POST", "/_api/query", r#"{"query":"RETURN"}"#, 400, 1501),
    ("POST", "/_api/explain", r#"{"query":"FOR i IN"}"#, 400, 1501),
    ("GET", "/_api/user/nobody", "", 404, 1703),
    ("PUT", "/_api/query/properties", r#"{"maxSlowQueries":7}"#, 501, 9),
    ("GET", "/_api/nothing", "", 404, 404),
    ("DELETE", "/_api/version", "", 405, 405),
];

/// Bodies of `/_api/cursor`, each with its status and error number.
const QUERIES_REFUSED: &[(&str, u16, u64)] = &[
    (r#"{"query":""}"#, 400, 1502),
    (r#"{"query":"RETURN 1","bindVars":[1]}"#, 400, 17),
    (r#"{"query":"RETURN 1","batchSize":0}"#, 400, 17),
    (r#"{"query":"RETURN = 1"}"#, 400, 1501),
    (r#"{"query":"LET a = 1 LET a = 2 RETURN a"}"#, 400, 1511),
    (r#"{"query":"RETURN b"}"#, 404, 1203),
    (r#"{"query":"RETURN NOTHING(1)"}"#, 400, 1540),
    (r#"{"query":"RETURN ABS()"}"#, 400, 1541),
    (r#"{"query":"RETURN @a"}"#, 400, 1551),
    (r#"{"query":"RETURN 1","bindVars":{"a":1}}"#, 400, 1552),
    (r#"{"query":"FOR d IN @@c RETURN d","bindVars":{"@c":7}}"#, 400, 1553),
    (r#"{"query":"FOR i IN null RETURN i"}"#, 400, 1563),
    (r#"{"query":"RETURN FAIL('it does')"}"#, 400, 1569),
    (r#"{"query":"FOR d IN c REMOVE d IN c FOR e IN c RETURN e"}"#, 400, 1579),
    (r#"{"query":"FOR i IN nothing RETURN i"}"#, 404, 1203),
    (r#"{"query":"REMOVE 'nothing' IN c"}"#, 404, 1202),
    (r#"{"query":"INSERT {_key: 'a'} INTO c"}"#, 409, 1210),
    (r#"{"query":"RETURN 1/0","failOnWarning":true}"#, 400, 1562),
    (r#"{"query":"FOR i IN 1..1000000 SORT -i RETURN i","memoryLimit":100000}"#, 500, 32),
    (r#"{"query":"FOR i IN 1..1000000000000 RETURN i","memoryLimit":100000}"#, 500, 32),
    (r#"{"query":"RETURN SLEEP(600)","maxRuntime":0.02}"#, 410, 1500),
    (r#"{"query":"RETURN SLEEP(600)","options":{"maxRuntime":0.02,"stream":true}}"#, 410, 1500),
    (r#"{"query":"FOR i IN 1..1000000000 FILTER i < 0 RETURN i","maxRuntime":0.02}"#, 410, 1500),
];

#[test]
fn errors_have_the_status_and_the_number_of_the_contract() {
    let (_server, mut client) = with_empty_collection();
    make(&mut client, "/_api/collection", &json!({"name": "e", "type": 3}));
    make(&mut client, "/_api/database", &json!({"name": "other"}));
    let unique = json!({"type": "persistent", "fields": ["u"], "unique": true, "sparse": true});
    make(&mut client, "/_api/index?collection=c", &unique);
    let ttl = json!({"type": "ttl", "fields": ["t"], "expireAfter": 1});
    make(&mut client, "/_api/index?collection=c", &ttl);
    make(&mut client, "/_api/document/c", &json!({"_key": "a", "u": 1, "n": 1}));
    make(&mut client, "/_api/document/c", &json!({"_key": "b", "n": 1}));
    let mut wrong = UnexpectedAnswers::default();
    for (method, target, body, status, number) in REFUSED {
        let answer = client.call(method, target, &[], body);
        wrong.check(&format!("{method} {target} {body}"), &answer, (*status, *number));
    }
    for (body, status, number) in QUERIES_REFUSED {
        let answer = client.call("POST", "/_api/cursor", &[], body);
        wrong.check(body, &answer, (*status, *number));
    }
    let answer = client.call("GET", "/_api/document/c/a", &[("if-match", "\"_old\"")], b"");
    wrong.check("if-match", &answer, (412, 1200));
    wrong.end();
    // The refused calls have changed nothing.
    let count = client.get("/_api/collection/c/count");
    assert_eq!(count.json()["count"], 2);
}

/// The running queries.
fn running(client: &mut Client) -> Vec<Value> {
    let list = client.get("/_api/query/current").having(200);
    serde_json::from_slice(&list.body).unwrap()
}

fn wait_until_running(client: &mut Client, expected: usize) {
    wait_until(|| running(client).len(), |count| *count == expected);
}

/// One query that sleeps and one that computes, with a single event loop.
#[test]
fn queries_are_listed_and_killed_while_others_are_answered() {
    let (server, mut client) = serve_with(|options| options.threads = 1);
    for text in ["RETURN SLEEP(600)", "FOR i IN 1..1000000000000 FILTER i < 0 RETURN i"] {
        let body = json!({"query": text}).to_string();
        let mut asking = server.sent(&request("POST", "/_api/cursor", &[], body.as_bytes()));
        let query = wait_for(|| {
            let mut running = running(&mut client).into_iter();
            running.find(|one| one["query"] == text).ok_or(text)
        });
        assert_eq!((&query["state"], &query["database"]), (&json!("executing"), &json!("_system")));
        // The event loop does not wait for the query.
        assert_eq!(client.get("/_api/version").status, 200);
        let light = asked(&mut client, &json!({"query": "RETURN 7"}));
        assert_eq!(light.json()["result"], json!([7]));
        let target = format!("/_api/query/{}", query["id"].as_str().unwrap());
        assert_eq!(client.call("DELETE", &target, &[], b"").status, 200);
        assert_eq!(number(&asking.answer()), (410, 1500), "{text}");
        wait_until_running(&mut client, 0);
        assert_eq!(number(&client.call("DELETE", &target, &[], b"")), (404, 1591));
    }
}

/// The number of connections, and of queries that are sent on each without waiting for an answer:
/// their product is the number of concurrent queries. Client and server share the process's
/// descriptors, of which some systems allow 1,024.
const CONNECTIONS: usize = 250;
const QUERIES_AT_ONCE: usize = 4;

/// A thousand increments, all sent before the first is answered. An increment that loses a conflict
/// is sent again.
#[test]
fn a_thousand_increments_at_once_lose_nothing() {
    let (server, mut client) = with_collection(r#"{"_key":"d","n":0}"#);
    let query = "LET d = DOCUMENT(@@c, @key) UPDATE d WITH {n: d.n + 1} IN @@c";
    let body = json!({"query": query, "bindVars": {"@c": "c", "key": "d"}}).to_string();
    let body = request("POST", "/_api/cursor", &[], body.as_bytes());
    let mut asking: Vec<_> = (0..CONNECTIONS).map(|_| (server.client(), QUERIES_AT_ONCE)).collect();
    while !asking.is_empty() {
        for (client, left) in &mut asking {
            client.send(&body.repeat(*left));
        }
        for (client, left) in &mut asking {
            for _ in 0..*left {
                let answer = client.answer();
                match answer.status {
                    201 => *left -= 1,
                    _ => assert_eq!(number(&answer), (409, 1200)),
                }
            }
        }
        asking.retain(|(_, left)| *left > 0);
    }
    let document = client.get("/_api/document/c/d");
    assert_eq!(document.json()["n"], CONNECTIONS * QUERIES_AT_ONCE);
}

/// Regression: a streamed query could be neither listed nor killed after its first batch.
#[test]
fn streamed_queries_are_listed_and_killed_between_batches() {
    let (_server, mut client) = serve();
    let body = json!({
        "query": "FOR i IN 1..1000000 RETURN i", "batchSize": 10, "options": {"stream": true},
    });
    let first = asked(&mut client, &body).json();
    let id = first["id"].as_str().unwrap().to_owned();
    let path = format!("/_api/cursor/{id}");
    assert_eq!(client.call("POST", &path, &[], b"").json()["result"][0], 11);
    let list = running(&mut client);
    assert_eq!(list.len(), 1, "{list:?}");
    for (name, expected) in [
        ("id", json!(id)),
        ("user", json!("root")),
        ("stream", json!(true)),
        ("modificationQuery", json!(false)),
        ("state", json!("executing")),
    ] {
        assert_eq!(list[0][name], expected, "{name}");
    }
    assert!(list[0]["peakMemoryUsage"].as_u64().unwrap() > 0);
    let started = list[0]["started"].as_str().unwrap();
    assert!(started.len() == 24 && started.ends_with('Z'), "{started} is no date of ISO 8601");
    client.call("DELETE", &format!("/_api/query/{id}"), &[], b"").having(200);
    assert_eq!(running(&mut client)[0]["state"], "killed");
    assert_eq!(number(&client.call("POST", &path, &[], b"")), (410, 1500));
    assert_eq!(number(&client.call("POST", &path, &[], b"")), (404, 1600));
    assert!(running(&mut client).is_empty());
    // A removed cursor, and one that is read to its end, are gone from the list, too.
    let again = asked(&mut client, &body).json();
    let path = format!("/_api/cursor/{}", again["id"].as_str().unwrap());
    assert_eq!(running(&mut client).len(), 1);
    assert_eq!(client.call("DELETE", &path, &[], b"").status, 202);
    assert!(running(&mut client).is_empty());
    let short = json!({
        "query": "FOR i IN 1..3 RETURN i", "batchSize": 2, "options": {"stream": true},
    });
    let path =
        format!("/_api/cursor/{}", asked(&mut client, &short).json()["id"].as_str().unwrap());
    assert_eq!(running(&mut client).len(), 1);
    assert_eq!(client.call("PUT", &path, &[], b"").json()["hasMore"], false);
    assert!(running(&mut client).is_empty());
}

/// Regression: `all` had no effect.
#[test]
fn queries_of_all_databases_are_listed_and_killed_in_the_system_database() {
    let (_server, mut client) = serve();
    make(&mut client, "/_api/database", &json!({"name": "d"}));
    let body = json!({
        "query": "FOR i IN 1..1000 RETURN i", "batchSize": 10, "options": {"stream": true},
    });
    let first = call(&mut client, "POST", "/_db/d/_api/cursor", &body).json();
    let path = format!("/_api/query/{}", first["id"].as_str().unwrap());
    assert!(running(&mut client).is_empty());
    let all = client.get("/_api/query/current?all=true").json();
    assert_eq!((&all[0]["id"], &all[0]["database"]), (&first["id"], &json!("d")), "{all}");
    for (method, target) in [
        ("GET", "/_api/query/current"),
        ("GET", "/_api/query/slow"),
        ("DELETE", "/_api/query/slow"),
        ("DELETE", &*path),
    ] {
        let refused = client.call(method, &format!("/_db/d{target}?all=true"), &[], b"");
        assert_eq!(number(&refused), (403, 11), "{method} {target}");
    }
    assert_eq!(number(&client.call("DELETE", &path, &[], b"")), (404, 1591));
    client.call("DELETE", &format!("{path}?all=true"), &[], b"").having(200);
    let all = client.get("/_api/query/current?all=true").json();
    assert_eq!(all[0]["state"], "killed", "{all}");
}

/// Regression: the profile of a streamed query was never sent. It comes with the last batch.
#[test]
fn a_streamed_query_tells_its_profile_at_its_end() {
    let (_server, mut client) = serve();
    let body = json!({
        "query": "FOR i IN 1..3 FILTER i > 0 RETURN i", "batchSize": 2,
        "options": {"stream": true, "profile": 2},
    });
    let first = asked(&mut client, &body).json();
    assert!(first["extra"].get("profile").is_none(), "{first}");
    let path = format!("/_api/cursor/{}", first["id"].as_str().unwrap());
    let extra = client.call("POST", &path, &[], b"").json()["extra"].clone();
    assert!(extra["profile"]["executing"].as_f64().unwrap() > 0.0, "{extra}");
    assert!(extra["plan"]["nodes"].is_array(), "{extra}");
    let nodes = extra["stats"]["nodes"].as_array().unwrap();
    assert_eq!(nodes.last().unwrap()["items"], 3, "{extra}");
}

/// The operator's limit applies to queries without a limit of their own, and to those that ask for
/// more.
#[test]
fn no_query_runs_longer_than_the_operators_limit() {
    let limit = Duration::from_millis(20);
    let (_server, mut client) = serve_with(|options| options.documents.query_runtime_max = limit);
    for more in [json!({}), json!({"maxRuntime": 600}), json!({"stream": true})] {
        let body = json!({"query": "RETURN SLEEP(600)", "options": more});
        assert_eq!(number(&asked(&mut client, &body)), (410, 1500), "{more}");
    }
    // On a busy machine, it may take longer until a thread takes the query.
    let status = || asked(&mut client, &json!({"query": "RETURN 1"})).status;
    wait_until(status, |status| *status == 201);
}

/// A request for a query that computes until it is killed.
fn endless() -> Vec<u8> {
    let query = br#"{"query":"FOR i IN 1..1000000000000 FILTER i < 0 RETURN i"}"#;
    request("POST", "/_api/cursor", &[], query)
}

/// Calls beyond the queue's limit are refused as drivers expect, and so are calls that would not
/// wait as long as the last one did.
#[test]
fn a_full_queue_and_a_long_wait_are_refused_with_their_numbers() {
    let (server, mut client) = serve_with(|options| options.documents.queued_calls_max = 2);
    let mut waiting = Vec::new();
    // All workers get a query, and then the queue fills; once it is full, this call is refused.
    while client.get("/_admin/server/availability").status == 200 {
        waiting.push(server.sent(&endless()));
        assert!(waiting.len() < 10_000, "the queue never fills");
        std::thread::sleep(Duration::from_millis(2));
    }
    let refused = loop {
        let mut probe = server.sent(&endless());
        probe.socket.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        match probe.try_answer(false) {
            Ok(answer) => break answer,
            // A further worker was started meanwhile, so there was a place in the queue.
            Err(_) => waiting.push(probe),
        }
    };
    assert_eq!(number(&refused), (503, 21003));
    assert_eq!(refused.header("Retry-After"), Some("1"));
    // Calls that need no worker are answered.
    assert_eq!(client.get("/_api/version").status, 200);
    while !waiting.is_empty() {
        for query in running(&mut client) {
            let path = format!("/_api/query/{}", query["id"].as_str().unwrap());
            client.call("DELETE", &path, &[], b"");
        }
        waiting.retain_mut(|client| {
            client.socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            let answered = client.try_answer(false);
            answered.is_err_and(|error| {
                let is_early = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(is_early, "{error}");
                true
            })
        });
    }
    let mut patient = |seconds: &str| {
        let headers = [("x-arango-queue-time-seconds", seconds)];
        let body = json!({"query": "RETURN 1"}).to_string();
        client.call("POST", "/_api/cursor", &headers, body)
    };
    // The queued queries waited until the others were killed.
    assert_eq!(number(&patient("0.000001")), (412, 21004));
    for seconds in ["1000", "0"] {
        assert_eq!(patient(seconds).status, 201, "{seconds}");
    }
}

/// Regression: such queries ran on after their clients had exited, and occupied all workers.
#[test]
fn queries_end_and_queued_calls_are_dropped_when_their_clients_are_gone() {
    let (server, mut client) = with_empty_collection();
    let mut asking: Vec<_> = (0..4).map(|_| server.sent(&endless())).collect();
    wait_until_running(&mut client, 4);
    // More than there are workers, so that the last ones wait.
    asking.extend((0..200).map(|_| server.sent(&endless())));
    let import = request("POST", "/_api/import?collection=c", &[], br#"{"_key":"late"}"#);
    asking.push(server.sent(&import));
    wait_for(|| {
        let count = running(&mut client).len();
        std::thread::sleep(Duration::from_millis(50));
        if count > 4 && running(&mut client).len() == count { Ok(()) } else { Err(count) }
    });
    drop(asking);
    wait_until_running(&mut client, 0);
    let answer = asked(&mut client, &json!({"query": "RETURN LENGTH(c)"}));
    assert_eq!(answer.json()["result"], json!([0]), "the import was not begun");
}

/// The header equals the account's `queue` of the same request, and is not measured separately.
#[test]
fn the_time_in_the_queue_is_that_of_the_account() {
    let (_server, mut client) = serve();
    let body = json!({"query": "FOR i IN 1..3 SORT -i RETURN i"}).to_string();
    for _ in 0..20 {
        let answer = client.call("POST", "/_api/cursor", &[("Prefer", "timing")], &body);
        let seconds = |text: &str| text.parse::<f64>().unwrap();
        let told = seconds(answer.header("X-Arango-Queue-Time-Seconds").unwrap());
        let timing = answer.header("Server-Timing").unwrap();
        let queue =
            timing.split(", ").find_map(|metric| metric.strip_prefix("queue;dur=")).unwrap();
        assert!((told - seconds(queue) / 1e3).abs() < 1.5e-6, "{told} s and {queue} ms");
        assert!(told > 0.0, "a worker cannot be there before the call");
    }
}

/// Two clients request the next batch of one cursor at the same time.
#[test]
fn a_cursor_that_is_read_is_busy() {
    let (server, mut client) = serve();
    let body = json!({
        "query": "FOR i IN 1..100 LET x = i > 50 ? SLEEP(600) : 0 RETURN i", "batchSize": 10,
        "options": {"stream": true},
    });
    let id = asked(&mut client, &body).json()["id"].as_str().unwrap().to_owned();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (sender, path) = (sender.clone(), format!("/_api/cursor/{id}"));
            let mut client = server.client();
            scope.spawn(move || {
                loop {
                    let answer = client.call("POST", &path, &[], b"");
                    if answer.status != 200 {
                        sender.send(number(&answer)).unwrap();
                        return;
                    }
                }
            });
        }
        assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), (409, 1601));
        assert_eq!(client.call("DELETE", &format!("/_api/query/{id}"), &[], b"").status, 200);
        assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), (410, 1500));
    });
}

/// The answers about a query that is only parsed, and about queries in general.
#[test]
fn answers_about_queries_are_correct() {
    let (_server, mut client) =
        serve_with(|options| options.documents.reported_version = "4.0.0".into());
    let body = json!({"query": "FOR d IN people FOR e IN @@c FILTER d.x == @x RETURN e"});
    let parsed = client.call("POST", "/_api/query", &[], body.to_string()).json();
    assert_eq!(parsed["collections"], json!(["people"]));
    assert_eq!(parsed["bindVars"], json!(["@c", "x"]));
    let rules = client.get("/_api/query/rules").json();
    let rule = rules.as_array().unwrap().iter().find(|rule| rule["name"] == "use-indexes");
    let flags = json!({
        "hidden": false, "clusterOnly": false, "canBeDisabled": false,
        "canCreateAdditionalPlans": false, "disabledByDefault": false, "enterpriseOnly": false,
    });
    assert_eq!(rule.unwrap()["flags"], flags, "{rules}");
    let same = client.call("PUT", "/_api/query/properties", &[], br#"{"enabled":true}"#);
    assert_eq!((same.status, &same.json()["maxSlowQueries"]), (200, &json!(0)));
    // The version is the same everywhere.
    for (target, place) in [
        ("/_api/version", "/version"),
        ("/_api/version?details=true", "/details/server-version"),
        ("/_admin/status", "/version"),
    ] {
        assert_eq!(client.get(target).json().pointer(place), Some(&json!("4.0.0")), "{target}");
    }
    let version = asked(&mut client, &json!({"query": "RETURN VERSION()"}));
    assert_eq!(version.json()["result"], json!(["4.0.0"]));
}

/// Regression: a batch had as many values as requested, of any size: a gigabyte in one answer.
#[test]
fn batches_are_cut_by_their_bytes() {
    let (_server, mut client) = serve();
    for is_stream in [false, true] {
        let body = json!({
            "query": "FOR i IN 1..60 RETURN @text", "bindVars": {"text": "x".repeat(1 << 20)},
            "batchSize": 1_000, "options": {"stream": is_stream},
        });
        let (mut answer, mut values, mut batches) = (asked(&mut client, &body), 0, 0);
        loop {
            assert!(answer.body.len() < 18 << 20, "{} bytes", answer.body.len());
            let batch = answer.json();
            let some = batch["result"].as_array().unwrap().len();
            assert!(some > 0);
            (values, batches) = (values + some, batches + 1);
            if batch["hasMore"] == false {
                break;
            }
            let path = format!("/_api/cursor/{}", batch["id"].as_str().unwrap());
            answer = client.call("POST", &path, &[], b"");
            assert_eq!(answer.status, 200);
        }
        assert_eq!(values, 60, "none is lost and none is given twice");
        assert!(batches >= 4, "{batches} batches");
    }
}

/// The length of a value as JSON is counted before it is written, also in answers about many
/// documents.
#[test]
fn answers_take_no_more_memory_than_the_limit() {
    let server = start_with(|options| {
        options.request_memory = 64 << 20;
        options.documents.query_memory_max = 32 << 20;
    });
    let mut client = server.client();
    // Each character takes six bytes in the answer.
    let query = json!({"query": "RETURN @text", "bindVars": {"text": "\u{1}".repeat(1_000_000)}});
    let answer = asked(&mut client, &query);
    assert_eq!(answer.status, 500, "36 MB of parsed forms");
    make(&mut client, "/_api/collection", &json!({"name": "c"}));
    make(&mut client, "/_api/document/c", &json!({"_key": "k", "v": "v".repeat(1 << 20)}));
    let keys = |count: usize| json!(vec!["k"; count]).to_string();
    let target = "/_api/document/c?onlyget=true";
    let refused = client.call("PUT", target, &[], keys(1_000));
    assert_eq!(number(&refused), (500, 32));
    let answer = client.call("PUT", target, &[], keys(10));
    assert_eq!(answer.json().as_array().unwrap().len(), 10);
    // Slow readers hold the memory of unread responses, and all of it is freed in the end.
    let mut readers: Vec<_> =
        (0..40).map(|_| server.sent(&request("PUT", target, &[], keys(10).as_bytes()))).collect();
    let statuses: Vec<u16> = readers.iter_mut().map(|reader| reader.answer().status).collect();
    assert!(statuses.iter().all(|status| [200, 500, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&200), "{statuses:?}");
    drop(readers);
    wait_until(|| client.figure("pellucid_request_memory_bytes"), |bytes| *bytes == 0.0);
}

/// Regression: if the reply to an array had no room after its items were written, the error did not
/// tell that they were.
#[test]
fn an_array_that_is_written_and_cannot_be_answered_says_so() {
    let (_server, mut client) = serve_with(|options| {
        options.request_memory = 64 << 20;
        options.documents.query_memory_max = 16 << 20;
    });
    make(&mut client, "/_api/collection", &json!({"name": "c"}));
    make(&mut client, "/_api/document/c", &json!({"_key": "k", "v": "v".repeat(1 << 20)}));
    let items: Vec<_> = (1..=300).map(|n| json!({"_key": "k", "n": n})).collect();
    let refused = call(&mut client, "PATCH", "/_api/document/c?returnNew=true", &json!(items));
    assert_eq!(number(&refused), (500, 32));
    let message = refused.json()["errorMessage"].as_str().unwrap().to_owned();
    let written = client.get("/_api/document/c/k").json()["n"].as_u64().unwrap();
    let said = format!("(the first {written} items were written)");
    assert!(message.ends_with(&said), "{written}: {message}");
    // Regression: the results of a batch were kept beyond every limit, and all items were written.
    assert!(written < 30, "{written}");
}

/// Regression: if the result of a query that had written did not fit in the reply, the error did
/// not tell that the writes were made.
#[test]
fn a_query_that_has_written_and_cannot_be_answered_says_so() {
    let (_server, mut client) = serve_with(|options| {
        options.request_memory = 64 << 20;
        options.documents.query_memory_max = 16 << 20;
    });
    make(&mut client, "/_api/collection", &json!({"name": "c"}));
    // Each character takes six bytes in the answer.
    let query = "FOR i IN 1..3 INSERT {n: i} INTO c RETURN REPEAT('\\u0001', 1048576)";
    let refused = asked(&mut client, &json!({ "query": query }));
    assert_eq!(number(&refused), (500, 32));
    let message = refused.json()["errorMessage"].as_str().unwrap().to_owned();
    assert!(message.ends_with(" (the writes of the query were made)"), "{message}");
    assert_eq!(client.get("/_api/collection/c/count").json()["count"], 3);
}

/// Regression: a small call that read a large document was answered on the event loop, and held up
/// its other connections.
#[test]
fn large_documents_are_read_by_workers() {
    let document = json!({"_key": "k", "v": "v".repeat(1 << 20)}).to_string();
    let (_server, mut client) = with_collection(&document);
    let calls = [
        ("GET", "/_api/document/c/k", ""),
        ("PATCH", "/_api/document/c/k", "{\"n\":1}"),
        ("POST", "/_api/document/c?overwriteMode=update", "{\"_key\":\"k\",\"n\":2}"),
        ("DELETE", "/_api/document/c/k?returnOld=true", ""),
    ];
    for (method, target, body) in calls {
        let answer = client.call(method, target, &[], body);
        assert!(answer.status < 300, "{}", answer.text());
        let queued = answer.header("X-Arango-Queue-Time-Seconds").unwrap();
        assert!(queued.parse::<f64>().unwrap() > 0.0, "{method}: {queued}");
    }
}

/// Regression: the copies of one large document were in no limit of memory, and only the finished
/// reply was counted: after a write, too late to refuse it.
#[test]
fn one_large_document_takes_the_memory_of_requests() {
    let folder = Arc::new(TempDir::new().unwrap());
    let server = start_on(Arc::clone(&folder), |_| {});
    let mut client = server.client();
    make(&mut client, "/_api/collection", &json!({"name": "c"}));
    let document = json!({"_key": "k", "v": "v".repeat(1 << 20)}).to_string();
    let made = client.call("POST", "/_api/document/c", &[], &document).having(202);
    drop(server);
    // The JSON has room, but not with a copy of the document.
    let server = start_on(folder, |options| {
        options.request_memory = 3 << 19;
        options.embedded.hand_over = HandOverPolicy::Always;
    });
    let mut client = server.client();
    let target = "/_api/document/c/k";
    assert_eq!(number(&client.get(target)), (500, 32));
    for wanted in ["", "?returnNew=true"] {
        let change = call(&mut client, "PATCH", &format!("{target}{wanted}"), &json!({"n": 1}));
        assert_eq!(number(&change), (500, 32), "{wanted}");
    }
    let unchanged = client.call("GET", target, &[("if-none-match", &*made.etag())], b"");
    assert_eq!(unchanged.status, 304, "the refused change has no effect");
    wait_until(|| client.figure("pellucid_request_memory_bytes"), |bytes| *bytes == 0.0);
    assert_eq!(call(&mut client, "DELETE", target, &Value::Null).status, 202);
}

/// Regression: a batch of an array was cut by the size of the request alone, so that documents with
/// many index entries did not fit, and the call ended half-way.
#[test]
fn an_array_of_documents_with_many_entries_is_written() {
    let (_server, mut client) = with_empty_collection();
    make_index(&mut client, "tags[*]");
    let tags: Vec<_> = (0..90).collect();
    let items = json!(vec![json!({ "tags": tags }); 1_000]);
    let answer = call(&mut client, "POST", "/_api/document/c?silent=true", &items);
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert_eq!(client.get("/_api/collection/c/count").json()["count"], 1_000);
}

/// Regression: the documents of an import that is one batch, and that leaves out those that are
/// there, waited in memory without a limit.
#[test]
fn an_import_of_one_batch_takes_no_more_memory_than_the_limit() {
    let (_server, mut client) = serve_with(|options| options.request_memory = 20 << 20);
    make(&mut client, "/_api/collection", &json!({"name": "c"}));
    make(&mut client, "/_api/document/c", &json!({"_key": "k"}));
    let lines = "{\"_key\":\"k\"}\n".repeat(300_000);
    let answer = client.call("POST", &format!("{IMPORT}&onDuplicate=ignore"), &[], lines);
    assert_eq!(number(&answer), (500, 32));
    wait_until(|| client.figure("pellucid_request_memory_bytes"), |bytes| *bytes == 0.0);
}

/// Regression: an import had no time limit.
#[test]
fn an_import_ends_when_its_time_is_over() {
    let limit = Duration::from_millis(1);
    let (_server, mut client) = serve_with(|options| options.documents.query_runtime_max = limit);
    make(&mut client, "/_api/collection", &json!({"name": "c"}));
    let lines = "{\"n\":1}\n".repeat(100_000);
    let answer = client.call("POST", "/_api/import?collection=c&type=documents", &[], lines);
    assert_eq!(number(&answer), (410, 1500));
    let count = client.get("/_api/collection/c/count").json()["count"].as_u64().unwrap();
    assert!(count < 100_000, "{count}");
}
