//! The document API over HTTP, on the kind of store that the environment names.

mod bad_input;
mod conflicts;
mod crud;
mod golden;
mod limits;
mod queries;
mod refused_calls;
mod repeated_queries;
mod rights;
mod users;

use crate::common::{Answer, Client, TestServer, serve};
use serde_json::{Value, json};

/// Starts a server with an empty collection `c`.
fn with_empty_collection() -> (TestServer, Client) {
    let (server, mut client) = serve();
    client.call("POST", "/_api/collection", &[], r#"{"name":"c"}"#).having(200);
    (server, client)
}

/// Starts a server with a collection `c` that has this document.
fn with_collection(document: &str) -> (TestServer, Client) {
    let (server, mut client) = with_empty_collection();
    assert_eq!(client.call("POST", "/_api/document/c", &[], document).status, 202);
    (server, client)
}

/// Makes a call; a null `body` means no body.
fn call(client: &mut Client, method: &str, target: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.call(method, target, &[], body)
}

fn expect(client: &mut Client, method: &str, target: &str, body: &Value, status: u16) -> Value {
    let answer = call(client, method, target, body);
    let json = answer.json();
    assert_eq!(answer.status, status, "{method} {target}: {json}");
    assert!(answer.header("x-arango-queue-time-seconds").is_some());
    json
}

/// Makes an index of an attribute of `c`; returns its identifier.
fn make_index(client: &mut Client, field: &str) -> String {
    let index = json!({"type": "persistent", "fields": [field]});
    let made = expect(client, "POST", "/_api/index?collection=c", &index, 201);
    made["id"].as_str().unwrap().to_owned()
}

/// Runs a query; returns its answer.
fn asked(client: &mut Client, body: &Value) -> Answer {
    call(client, "POST", "/_api/cursor", body)
}

/// Runs a query; returns its result.
fn ask(client: &mut Client, query: &str, variables: &Value) -> Value {
    let body = json!({"query": query, "bindVars": variables});
    expect(client, "POST", "/_api/cursor", &body, 201)["result"].clone()
}
