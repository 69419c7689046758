//! The document API over HTTP, on the kind of store that the environment names.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

#[path = "../common/mod.rs"]
mod common;

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

use common::{Answer, Client, TestServer, serve};
use serde_json::{Value, json};

/// Starts a server with a collection `c` that has this document.
fn with_collection(document: &str) -> (TestServer, Client) {
    let (server, mut client) = serve();
    assert_eq!(client.call("POST", "/_api/collection", &[], r#"{"name":"c"}"#).status, 200);
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

/// Runs a query; returns its answer.
fn asked(client: &mut Client, body: &Value) -> Answer {
    call(client, "POST", "/_api/cursor", body)
}

/// Runs a query; returns its result.
fn ask(client: &mut Client, query: &str, variables: &Value) -> Value {
    let body = json!({"query": query, "bindVars": variables});
    expect(client, "POST", "/_api/cursor", &body, 201)["result"].clone()
}
