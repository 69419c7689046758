//! Queries and cursors belong to the account that asked.

use crate::common::{
    Answer, Client, TestServer, add_account, basic, number, request, start_with, wait_for,
};
use pellucid_server::access::Right;
use serde_json::{Value, json};

/// A server with the accounts `ann` and `ben`, who may write everything but not administer, and
/// `root`, who may administer. Each password equals the name.
fn start() -> TestServer {
    start_with(|options| {
        let all = [("*", Right::Write), ("admin", Right::Write)];
        for (name, grants) in [("ann", &all[..1]), ("ben", &all[..1]), ("root", &all)] {
            add_account(&options.data, name, grants);
        }
    })
}

fn call(client: &mut Client, method: &str, target: &str, who: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.call(method, target, &[("Authorization", &*basic(who, who))], body)
}

/// Creates a cursor; returns its path and the answer.
fn cursor(client: &mut Client, who: &str, query: &Value) -> (String, Value) {
    let answer = call(client, "POST", "/_api/cursor", who, query).having(201);
    let body = answer.json();
    (format!("/_api/cursor/{}", body["id"].as_str().unwrap()), body)
}

/// Regression: anyone who guessed the number of a cursor could read and remove another account's.
#[test]
fn cursors_exist_only_for_their_owners() {
    let server = start();
    let mut client = server.client();
    for is_stream in [false, true] {
        let query = json!({
            "query": "FOR i IN 1..9 RETURN CONCAT('secret', i)", "batchSize": 2,
            "options": {"stream": is_stream, "allowRetry": true},
        });
        let (path, _) = cursor(&mut client, "ann", &query);
        for who in ["ben", "root"] {
            for (method, target) in
                [("POST", path.clone()), ("PUT", path.clone()), ("POST", format!("{path}/1"))]
            {
                let refused = call(&mut client, method, &target, who, &Value::Null);
                assert_eq!(number(&refused), (404, 1600), "{method} {target} by {who}");
                assert!(!refused.text().contains("secret"));
            }
        }
        assert_eq!(number(&call(&mut client, "DELETE", &path, "ben", &Value::Null)), (404, 1600));
        // The cursor is unchanged.
        let next = call(&mut client, "POST", &path, "ann", &Value::Null);
        assert_eq!(next.json()["result"], json!(["secret3", "secret4"]), "{}", next.text());
        // Administrators may remove a cursor, but not read it.
        assert_eq!(call(&mut client, "DELETE", &path, "root", &Value::Null).status, 202);
        assert_eq!(number(&call(&mut client, "POST", &path, "ann", &Value::Null)), (404, 1600));
    }
}

/// Regression: bind values of an account's queries were shown to everyone who might read the
/// database, and everyone could kill any query.
#[test]
fn running_queries_are_shown_to_and_ended_by_owners_and_administrators() {
    let server = start();
    let mut client = server.client();
    let query = json!({
        "query": "FOR i IN 1..1000 LET x = i > 10 ? SLEEP(600) : 0 RETURN @secret",
        "bindVars": {"secret": "s3cret"}, "batchSize": 2, "options": {"stream": true},
    });
    let (_, body) = cursor(&mut client, "ann", &query);
    let id = body["id"].as_str().unwrap().to_owned();
    for (who, is_shown) in [("ann", true), ("root", true), ("ben", false)] {
        let list = call(&mut client, "GET", "/_api/query/current", who, &Value::Null);
        let listed = &list.json()[0];
        assert_eq!(listed["id"], json!(id), "{}", list.text());
        assert_eq!(list.text().contains("s3cret"), is_shown, "{who}: {}", list.text());
        assert_eq!(list.text().contains("RETURN @secret"), is_shown, "{who}");
        assert_eq!(listed["user"] == "ann", is_shown, "{who}");
    }
    let path = format!("/_api/query/{id}");
    assert_eq!(number(&call(&mut client, "DELETE", &path, "ben", &Value::Null)), (403, 11));
    // The queries of all databases are for administrators, even one's own.
    let all = "/_api/query/current?all=true";
    assert_eq!(call(&mut client, "GET", all, "root", &Value::Null).json()[0]["id"], json!(id));
    for (method, target) in [("GET", all), ("DELETE", &*format!("{path}?all=true"))] {
        let refused = call(&mut client, method, target, "ann", &Value::Null);
        assert_eq!(number(&refused), (403, 11), "{method} {target}");
    }
    let state = |client: &mut Client| {
        call(client, "GET", "/_api/query/current", "ann", &Value::Null).json()[0]["state"].clone()
    };
    assert_eq!(state(&mut client), "executing");
    assert_eq!(call(&mut client, "DELETE", &path, "root", &Value::Null).status, 200);
    assert_eq!(state(&mut client), "killed");
    // A running query is killed by its owner.
    let body = json!({"query": "RETURN SLEEP(600)"}).to_string();
    let headers = [("Authorization", &*basic("ben", "ben"))];
    let mut waiting = server.sent(&request("POST", "/_api/cursor", &headers, body.as_bytes()));
    let id = wait_for(|| {
        let list = call(&mut client, "GET", "/_api/query/current", "ben", &Value::Null).json();
        let own = list.as_array().unwrap().iter().find(|query| query["user"] == "ben");
        own.map(|query| query["id"].as_str().unwrap().to_owned()).ok_or_else(|| list.to_string())
    });
    let path = format!("/_api/query/{id}");
    assert_eq!(number(&call(&mut client, "DELETE", &path, "ann", &Value::Null)), (403, 11));
    assert_eq!(call(&mut client, "DELETE", &path, "ben", &Value::Null).status, 200);
    assert_eq!(number(&waiting.answer()), (410, 1500));
}

/// Regression: one account's cursors could take all places.
#[test]
fn an_account_can_open_only_a_part_of_all_cursors() {
    let server = start();
    let mut client = server.client();
    let query = json!({"query": "FOR i IN 1..3 RETURN i", "batchSize": 1});
    let mut paths = Vec::new();
    let refused = loop {
        let answer = call(&mut client, "POST", "/_api/cursor", "ann", &query);
        if answer.status != 201 {
            break answer;
        }
        paths.push(format!("/_api/cursor/{}", answer.json()["id"].as_str().unwrap()));
        assert!(paths.len() < 5_000, "there is no end of cursors");
    };
    assert_eq!(number(&refused), (500, 32), "{}", refused.text());
    cursor(&mut client, "ben", &query);
    call(&mut client, "DELETE", &paths[0], "ann", &Value::Null);
    cursor(&mut client, "ann", &query);
}
