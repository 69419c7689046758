//! Tests of both HTTP APIs over the ring.

use std::sync::Arc;

use pellucid_cql::{CqlOptions, CqlStore};
use pellucid_server::DOCUMENTS_TABLE;
use pellucid_store::{Range, Store};
use serde_json::{Value, json};

use super::http::{Answer, TestServer};
use super::{options, wait_for};

fn server(keyspace: &str) -> TestServer {
    TestServer::on(Arc::new(CqlStore::open(&options(keyspace)).unwrap()))
}

pub(crate) fn entities() {
    let server = server("apis");
    let path = "/v0/entity?id=a";
    assert_eq!(server.expect(404, "GET", path, "").body, "");
    let first = server.expect(201, "PUT", path, "one");
    let second = server.expect(201, "PUT", path, "two");
    assert_ne!(first.header("ETag"), second.header("ETag"));
    let found = server.expect(200, "GET", path, "");
    assert_eq!((&found.body[..], found.header("ETag")), ("two", second.header("ETag")));
    let head = server.ask("HEAD", path, "", "");
    assert_eq!((head.status, head.header("Content-Length")), (200, "3"));
    let stale = format!("If-Match: {}\r\n", first.header("ETag"));
    assert_eq!(server.ask("PUT", path, &stale, "three").status, 412);
    let current = format!("If-Match: {}\r\n", second.header("ETag"));
    assert_eq!(server.ask("PUT", path, &current, "three").status, 201);
    assert_eq!(server.ask("PUT", path, "If-None-Match: *\r\n", "four").status, 412);
    server.expect(201, "PUT", "/v0/entity?id=b&ack=3&from=3", "all copies");
    assert_eq!(server.expect(200, "GET", "/v0/entity?id=b&ack=1&from=3", "").body, "all copies");
    for wrong in ["ack=1&from=2", "ack=0&from=3", "ack=4&from=3", "ack=2", "from=3"] {
        server.expect(400, "GET", &format!("/v0/entity?id=b&{wrong}"), "");
        server.expect(400, "GET", &format!("/v0/entities?start=b&{wrong}"), "");
    }
    let all = server.expect(200, "GET", "/v0/entities?start=b&end=c&ack=3&from=3", "");
    assert!(all.body.contains("b\nall copies"), "{all:?}");
    server.expect(201, "PUT", "/v0/entity?id=c&ttl=3600", "");
    let range = server.expect(200, "GET", "/v0/entities?start=a", "");
    assert_eq!(range.header("Transfer-Encoding"), "chunked");
    assert!(range.body.contains("a\nthreeb\nall copiesc\n"), "{range:?}");
    let backward = server.expect(200, "GET", "/v0/entities?start=a&end=c&reverse=true", "");
    assert!(backward.body.contains("b\nall copiesa\nthree"), "{backward:?}");
    server.expect(202, "DELETE", path, "");
    server.expect(404, "GET", path, "");
    // `eg==` is z, and `MQ==` is 1.
    let batch = "{\"op\":\"put\",\"key\":\"eg==\",\"value\":\"MQ==\"}\n";
    server.expect(200, "POST", "/v0/batch", batch);
    assert_eq!(server.expect(200, "GET", "/v0/entity?id=z", "").body, "1");
    // More bytes than a chunk of the body, and more than a page of the scan.
    let value = "v".repeat(4_000);
    for number in 0..100 {
        server.expect(201, "PUT", &format!("/v0/entity?id=many{number:03}"), &value);
    }
    let framed = "Accept: application/x-ndjson\r\n";
    let many = server.ask("GET", "/v0/entities?start=many&end=manz", framed, "");
    assert_eq!((many.status, many.body.matches("\"etag\"").count()), (200, 100));
    assert!(many.body.trim_end().ends_with("\r\n0"), "the body is complete");
    let metrics = server.expect(200, "GET", "/metrics", "").body;
    assert!(metrics.contains("cql_requests_total"), "the store's figures are shown");
    server.stop();
}

fn ask(server: &TestServer, status: u16, method: &str, path: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer: Answer = server.expect(status, method, path, &body);
    if answer.body.is_empty() { Value::Null } else { answer.json() }
}

fn query(server: &TestServer, text: &str) -> Value {
    ask(server, 201, "POST", "/_api/cursor", &json!({ "query": text }))["result"].clone()
}

/// Documents are committed together with their index entries, and another server finds both.
///
/// Regression: the garbage of a dropped collection was never removed.
pub(crate) fn documents() {
    let first = server("documents");
    ask(&first, 200, "POST", "/_api/collection", &json!({"name": "c"}));
    let index = json!({"type": "persistent", "fields": ["n"], "unique": true});
    ask(&first, 201, "POST", "/_api/index?collection=c", &index);
    let items: Vec<_> = (0..50).map(|n| json!({"_key": format!("k{n}"), "n": n})).collect();
    ask(&first, 202, "POST", "/_api/document/c", &json!(items));
    let twice = ask(&first, 409, "POST", "/_api/document/c", &json!({"_key": "other", "n": 7}));
    assert_eq!(twice["errorNum"], 1210, "the index is unique");
    ask(&first, 404, "GET", "/_api/document/c/other", &Value::Null);
    assert_eq!(query(&first, "FOR d IN c FILTER d.n == 7 RETURN d._key"), json!(["k7"]));
    let found = ask(&first, 200, "GET", "/_api/document/c/k7", &Value::Null);
    ask(&first, 202, "PATCH", "/_api/document/c/k7", &json!({"n": 1_007}));
    let stale = format!("If-Match: \"{}\"\r\n", found["_rev"].as_str().unwrap());
    assert_eq!(first.ask("PUT", "/_api/document/c/k7", &stale, "{}").status, 412);
    query(&first, "FOR d IN c FILTER d.n >= 40 AND d.n < 45 REMOVE d IN c");
    ask(&first, 202, "DELETE", "/_api/document/c/k0", &Value::Null);
    let left = "FOR d IN c FILTER d.n >= 38 SORT d.n RETURN d.n";
    let expected = json!([38, 39, 45, 46, 47, 48, 49, 1_007]);
    assert_eq!(query(&first, left), expected);
    first.stop();
    let second = server("documents");
    assert_eq!(query(&second, left), expected);
    let count = ask(&second, 200, "GET", "/_api/collection/c/count", &Value::Null);
    assert_eq!(count["count"], 44);
    ask(&second, 200, "DELETE", "/_api/collection/c", &Value::Null);
    let store = CqlStore::open(&options("documents")).unwrap();
    let part_of = DOCUMENTS_TABLE.part_of.unwrap();
    let table = store.table_in_parts(DOCUMENTS_TABLE.name, part_of).unwrap();
    wait_for(|| {
        // The marks of garbage.
        let range = Range { start: &[2], end: Some(&[3]), reverse: false };
        let mut scan = store.scan(table, range).unwrap();
        let left = scan.next_head().unwrap().map(|(key, _)| key.to_vec());
        left.map_or(Ok(()), Err)
    });
    second.stop();
}

/// Two servers use one keyspace. Both serve entities; only one serves documents, and after its end
/// the other does.
pub(crate) fn one_server_at_a_time_serves_documents() {
    let (first, second) = (server("shared"), server("shared"));
    first.expect(201, "PUT", "/v0/entity?id=both", "entities are shared");
    let found = second.expect(200, "GET", "/v0/entity?id=both", "").body;
    assert_eq!(found, "entities are shared");
    ask(&first, 200, "POST", "/_api/collection", &json!({"name": "c"}));
    ask(&first, 202, "POST", "/_api/document/c", &json!({"_key": "k", "n": 1}));
    let refusals = [
        ask(&second, 503, "GET", "/_api/document/c/k", &Value::Null),
        ask(&second, 503, "POST", "/_api/document/c", &json!({"n": 2})),
        ask(&second, 503, "POST", "/_api/collection", &json!({"name": "other"})),
        ask(&second, 503, "POST", "/_api/cursor", &json!({"query": "FOR d IN c RETURN d"})),
    ];
    // This page needs no login, so it does not tell which process the other server is.
    let told = ask(&second, 503, "GET", "/_admin/server/availability", &Value::Null);
    assert!(!told.to_string().contains(&std::process::id().to_string()), "{told}");
    for refusal in &refusals {
        let message = refusal["errorMessage"].as_str().unwrap();
        assert_eq!(refusal["errorNum"], 503, "drivers ask another server then: {refusal}");
        let holder = format!("served by process {} on ", std::process::id());
        assert!(message.contains(&holder), "{message}");
    }
    ask(&first, 200, "GET", "/_admin/server/availability", &Value::Null);
    first.stop();
    second.wait_for(200, "GET", "/_admin/server/availability", "");
    let found = ask(&second, 200, "GET", "/_api/document/c/k", &Value::Null);
    assert_eq!(found["n"], 1);
    ask(&second, 202, "POST", "/_api/document/c", &json!({"n": 2}));
    assert_eq!(query(&second, "FOR d IN c SORT d.n RETURN d.n"), json!([1, 2]));
    second.stop();
}

/// The record of a traced request has network, coordinator and replicas in place of the round trip,
/// and they are no longer than the round trip was.
pub(crate) fn records_are_divided() {
    let traced = CqlOptions { trace_share: 1.0, ..options("apis") };
    let server = TestServer::on(Arc::new(CqlStore::open(&traced).unwrap()));
    wait_for(|| {
        server.expect(201, "PUT", "/v0/entity?id=traced", "value");
        let slow = server.expect(200, "GET", "/_admin/slow", "").json();
        let empty = Vec::new();
        let all = slow["operations"].as_array().unwrap_or(&empty).iter();
        let requests = all.flat_map(|of| of["slowest"].as_array().unwrap_or(&empty));
        let divided = requests.filter(|request| named(&request["parts"], "coordinator") > 0);
        let divided: Vec<_> = divided.collect();
        for request in &divided {
            let parts = request["parts"].as_array().unwrap().iter();
            let sum: u64 = parts.map(|part| part["duration_ns"].as_u64().unwrap()).sum();
            let execute = named(&request["phases"], "execute");
            assert!(sum <= execute + 1_000, "{request}");
            let (ring, network) = (named(&request["parts"], "ring"), "network");
            assert!(ring < execute / 2 && named(&request["parts"], network) > 0, "{request}");
        }
        if divided.is_empty() { Err(slow) } else { Ok(()) }
    });
    server.stop();
}

/// The duration with this name in a list; zero if the list has none.
fn named(list: &Value, name: &str) -> u64 {
    let mut all = list.as_array().into_iter().flatten();
    let found = all.rfind(|item| item["name"] == name);
    found.map_or(0, |item| item["duration_ns"].as_u64().unwrap())
}
