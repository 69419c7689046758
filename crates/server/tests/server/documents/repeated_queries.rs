//! Repeated queries, the account of queries, and queries that sleep.

use super::{ask, call, make_index, with_empty_collection};
use crate::common::{Client, TestServer, request, serve, start, wait_for};
use serde_json::{Value, json};

/// The statistics of reads that do not depend on how a query is executed.
const STATS: [&str; 5] = ["seeks", "scannedIndex", "documentLookups", "filtered", "cursorsCreated"];

/// Starts a server with a collection of 900 documents.
fn with_many() -> (TestServer, Client) {
    let (server, mut client) = with_empty_collection();
    let items: Vec<_> =
        (0..900).map(|n| json!({"_key": format!("k{n}"), "n": n, "s": n % 3})).collect();
    call(&mut client, "POST", "/_api/document/c", &json!(items)).having(202);
    (server, client)
}

/// From the second time on, a query uses the cached plan; the results must not differ.
#[test]
fn a_query_that_is_asked_again_sees_what_has_changed_meanwhile() {
    let (_server, mut client) = with_many();
    let id = make_index(&mut client, "n");
    let find = "FOR d IN c FILTER d.n == @n RETURN d.s";
    for n in 0..9 {
        assert_eq!(ask(&mut client, find, &json!({"n": n})), json!([n % 3]));
    }
    for n in [json!(null), json!("7"), json!([7]), json!(7.5)] {
        assert_eq!(ask(&mut client, find, &json!({"n": n})), json!([]));
    }
    assert_eq!(ask(&mut client, find, &json!({"n": 7.0})), json!([1]));
    let unknown = json!({"query": find, "bindVars": {"n": 7, "m": 7}});
    let answer = call(&mut client, "POST", "/_api/cursor", &unknown);
    assert_eq!(answer.json()["errorNum"], 1552);
    call(&mut client, "PATCH", "/_api/document/c/k7", &json!({"s": "new"})).having(202);
    assert_eq!(ask(&mut client, find, &json!({"n": 7})), json!(["new"]));
    call(&mut client, "DELETE", &format!("/_api/index/{id}"), &Value::Null).having(200);
    assert_eq!(ask(&mut client, find, &json!({"n": 8})), json!([2]));
    make_index(&mut client, "n");
    for _ in 0..3 {
        assert_eq!(ask(&mut client, find, &json!({"n": 8})), json!([2]));
    }
    let name = json!({"name": "other"});
    assert_eq!(call(&mut client, "PUT", "/_api/collection/c/rename", &name).status, 200);
    let body = json!({"query": find, "bindVars": {"n": 8}});
    assert_eq!(call(&mut client, "POST", "/_api/cursor", &body).json()["errorNum"], 1203);
}

/// A query that finds more than an event loop should read is started again on a worker.
#[test]
fn a_query_that_finds_much_gives_all_of_it_each_time() {
    let (_server, mut client) = with_many();
    make_index(&mut client, "s");
    for _ in 0..4 {
        let found = ask(&mut client, "FOR d IN c FILTER d.s == @s RETURN d.n", &json!({"s": 1}));
        let mut numbers: Vec<_> =
            found.as_array().unwrap().iter().filter_map(Value::as_i64).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..900).filter(|n| n % 3 == 1).collect::<Vec<_>>());
    }
}

/// From the second time on, queries that look up one place of an index have a short path. It must
/// give the same results as the general one.
#[test]
fn a_query_of_one_place_gives_the_same_on_its_short_path() {
    let (_server, mut client) = with_many();
    let nested =
        json!([{"_key": "x", "n": 7, "in": {"a": [1, "ü"]}, "s": null}, {"n": 7, "s": 1.5}]);
    assert_eq!(call(&mut client, "POST", "/_api/document/c", &nested).status, 202);
    make_index(&mut client, "n");
    make_index(&mut client, "s");
    let one = json!({"v": 7});
    for (query, variables) in [
        ("FOR d IN c FILTER d.n == @v RETURN d", &one),
        ("FOR d IN c FILTER d.n == @v RETURN d.in", &one),
        ("FOR d IN c FILTER d.n == @v RETURN d.in.a", &one),
        ("FOR d IN c FILTER d.n == @v RETURN d._id", &one),
        ("FOR d IN c FILTER d.n == @v LIMIT 2 RETURN d", &one),
        ("FOR d IN c FILTER d.n == @v LIMIT 0 RETURN d", &one),
        ("FOR d IN c FILTER d.n == @v LIMIT 1, 1 RETURN d", &one),
        ("FOR d IN c FILTER d.n == @v RETURN DISTINCT d.n", &one),
        ("FOR d IN c FILTER d.n == 7 RETURN d", &json!({})),
        ("FOR d IN c FILTER d.n == @v RETURN d", &json!({"v": -1})),
        ("FOR d IN c FILTER d.n == @v AND d.s == 1 RETURN d", &one),
        ("FOR d IN c FILTER d._key == @v RETURN d", &json!({"v": "x"})),
        ("FOR d IN c FILTER d._key == @v RETURN d", &json!({"v": "none"})),
        ("FOR d IN c FILTER d._id == @v RETURN d.in", &json!({"v": "c/x"})),
        ("FOR d IN c FILTER d._id == @v RETURN d", &json!({"v": "other/x"})),
        ("FOR d IN c FILTER d.s == @v RETURN d", &json!({"v": 1})),
    ] {
        for more in [json!({}), json!({"count": true}), json!({"batchSize": 2})] {
            let mut body = json!({"query": query, "bindVars": variables});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let answers = [0, 1, 2].map(|_| whole(&mut client, body.clone()));
            // Only the general path makes a profile.
            body["options"] = json!({"profile": 1});
            let long = whole(&mut client, body);
            for answer in answers {
                assert_eq!(answer["result"], long["result"], "{query} {variables} {more}");
                assert_eq!(answer["count"], long["count"], "{query} {more}");
                let [ours, theirs] = [&answer, &long].map(|of| &of["extra"]["stats"]);
                for what in STATS {
                    assert_eq!(ours[what], theirs[what], "{what} of {query} {variables} {more}");
                }
                assert_eq!(answer["extra"]["warnings"], json!([]));
            }
        }
    }
}

/// Runs a query; returns its answer, with the values of all its batches.
fn whole(client: &mut Client, body: Value) -> Value {
    let answer = call(client, "POST", "/_api/cursor", &body).having(201);
    let mut first = answer.json();
    let mut more = first["hasMore"] == true;
    while more {
        let path = format!("/_api/cursor/{}", first["id"].as_str().unwrap());
        let next = call(client, "POST", &path, &Value::Null).json();
        let values = next["result"].as_array().unwrap().clone();
        first["result"].as_array_mut().unwrap().extend(values);
        more = next["hasMore"] == true;
    }
    first
}

#[test]
fn the_account_of_a_query_tells_reading_planning_and_running() {
    let (server, mut client) = with_many();
    make_index(&mut client, "n");
    let body = json!({"query": "FOR d IN c FILTER d.n == @n RETURN d", "bindVars": {"n": 5}});
    for _ in 0..3 {
        let timed = [("Prefer", "timing")];
        let answer = client.call("POST", "/_api/cursor", &timed, body.to_string());
        let timing = answer.header("Server-Timing").unwrap().to_owned();
        for part in ["query_parse", "query_plan", "query_run"] {
            // A part of less than half a microsecond is shown as zero.
            assert!(timing.contains(&format!(", {part};dur=")), "{timing}");
        }
        assert!(!timing.contains("ledger"), "{timing}");
    }
    let account = server.account();
    let query = account.operations.iter().find(|account| account.operation == "query").unwrap();
    let parts: Vec<_> = query.parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(parts, ["query_parse", "query_plan", "query_run"]);
}

/// Regression: the account showed that a query was slow, but not which node of its plan.
#[test]
fn a_slow_query_says_which_node_took_the_time_and_why() {
    let (_server, mut client) = serve();
    call(&mut client, "POST", "/_api/collection", &json!({"name": "many"}));
    let lines: String = (0..50_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    let import = "/_api/import?type=documents&collection=many";
    assert_eq!(client.call("POST", import, &[], &lines).status, 201);
    let query = "FOR d IN many FILTER d.inner.n == 'hush' || d.n == @n RETURN d";
    let body = json!({"query": query, "bindVars": {"n": 5}});
    assert_eq!(call(&mut client, "POST", "/_api/cursor", &body).json()["result"][0]["n"], 5);
    let page = client.get("/_admin/slow?operation=query").json();
    let query = &page["operations"][0]["slowest"][0]["query"];
    let reason = query["reason"].as_str().unwrap_or_else(|| panic!("{page}"));
    for what in ["EnumerateCollectionNode", "`many`: 50000", "`inner.n`, `n` kept 1"] {
        assert!(reason.contains(what), "{what} in {reason}");
    }
    let node = &query["nodes"][0];
    assert_eq!((&node["rows"], &node["filtered"]), (&json!(1), &json!(49_999)), "{query}");
    // Constants in a query may be as secret as keys.
    assert!(query["text"].is_null() && !page.to_string().contains("hush"), "{page}");
}

/// Regression: as many sleeping queries as there are threads delayed all others.
#[test]
fn sleeping_queries_delay_no_others() {
    let server = start();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let count = (4 * cores).max(8) + 4;
    let mut sleeping: Vec<_> = (0..count).map(|_| server.client()).collect();
    for client in &mut sleeping {
        let body = json!({"query": "RETURN SLEEP(600)"}).to_string();
        client.send(&request("POST", "/_api/cursor", &[], body.as_bytes()));
    }
    let mut client = server.client();
    let ids = wait_for(|| {
        let list = client.get("/_api/query/current").json();
        let queries = list.as_array().unwrap().iter();
        let ids: Vec<_> = queries.map(|query| query["id"].as_str().unwrap().to_owned()).collect();
        if ids.len() == count { Ok(ids) } else { Err(ids.len()) }
    });
    assert_eq!(ask(&mut client, "RETURN 1", &json!({})), json!([1]));
    for id in ids {
        call(&mut client, "DELETE", &format!("/_api/query/{id}"), &Value::Null).having(200);
    }
    for client in &mut sleeping {
        assert_eq!(client.answer().json()["errorNum"], 1500);
    }
}
