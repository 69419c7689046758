//! Input of the document API that is too large, too deep, or of the wrong type: each is refused
//! with its error number, the server continues, and the stored data is unchanged.

use std::io::Read;

use super::{asked, with_collection};
use crate::common::{Answer, Client, TestServer, number, wait_for, wait_until};
use serde_json::{Value, json};

fn with_one() -> (TestServer, Client) {
    with_collection(r#"{"_key":"kept","n":1}"#)
}

fn answer_to(client: &mut Client, query: &str, variables: &Value) -> Answer {
    asked(client, &json!({"query": query, "bindVars": variables}))
}

fn is_as_it_was(client: &mut Client) {
    assert_eq!(client.get("/_api/collection/c/count").json()["count"], 1);
    assert_eq!(client.get("/_api/document/c/kept").json()["n"], 1);
}

/// A body of more than 1 GiB is refused by its head, before any of it is read.
#[test]
fn a_body_beyond_the_limit_is_refused_unread() {
    let (server, mut client) = with_one();
    let limits = [
        ("/_api/import?collection=c&type=documents", 1_u64 << 30),
        ("/_api/document/c", 1 << 30),
        ("/_api/cursor", 64 << 20),
        ("/_api/collection", 1 << 20),
    ];
    for (target, limit) in limits {
        let length = limit + 1;
        let head = format!("POST {target} HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n\r\n");
        let answer = server.sent(head.as_bytes()).answer();
        assert_eq!(answer.status, 413, "{target}: {}", answer.text());
        // Up to the limit, the server answers `100 Continue`.
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: t\r\nContent-Length: {limit}\r\n\
             Expect: 100-continue\r\n\r\n"
        );
        wait_for(|| {
            let mut said = [0; 12];
            server.sent(head.as_bytes()).socket.read_exact(&mut said).unwrap();
            // The memory of the last body is free once the server notices that its client is gone.
            let is_early = &said == b"HTTP/1.1 503";
            assert!(is_early || &said == b"HTTP/1.1 100", "{target}: {said:?}");
            if is_early { Err(target) } else { Ok(()) }
        });
    }
    is_as_it_was(&mut client);
}

#[test]
fn a_slash_at_the_end_of_a_path_is_accepted() {
    let (_server, mut client) = with_one();
    let login = r#"{"username":"root","password":""}"#;
    assert_eq!(client.get("/_api/version/").status, 200);
    assert_eq!(client.call("POST", "/_open/auth/", &[], login).status, 200);
    for target in ["/_admin/server/role", "/_admin/time"] {
        assert_eq!(number(&client.call("POST", target, &[], "")), (405, 405), "{target}");
    }
    assert_eq!(number(&client.get("/_admin/server/x")), (404, 404));
    is_as_it_was(&mut client);
}

/// An import of 40 MB in one request, in which one line is malformed.
#[test]
fn a_large_import_is_one_request() {
    let (_server, mut client) = with_one();
    let long = "x".repeat(4_000);
    let mut lines = String::new();
    for n in 0..10_000 {
        lines += &format!("{{\"n\":{n},\"text\":\"{long}\"}}\n");
    }
    lines += "{\"n\":\n";
    let target = "/_api/import?collection=c&type=documents&details=true";
    let answer = client.call("POST", target, &[], lines);
    let found = answer.json();
    assert_eq!(
        (answer.status, &found["created"], &found["errors"]),
        (201, &json!(10_000), &json!(1))
    );
    assert_eq!(client.get("/_api/collection/c/count").json()["count"], 10_001);
}

/// Regression: one document caused all to be undone, and the error did not say which.
#[test]
fn an_import_that_is_undone_names_the_document_that_caused_it() {
    let (_server, mut client) = with_one();
    let target = "/_api/import?collection=c&type=documents&complete=true";
    let lines = "{\"_key\":\"a\"}\n\n{\"_key\":\"kept\"}\n";
    for (details, said) in [
        ("", "unique constraint violated"),
        ("&details=true", "at position 2: unique constraint violated"),
    ] {
        let answer = client.call("POST", &format!("{target}{details}"), &[], lines);
        assert_eq!(number(&answer), (409, 1210));
        assert_eq!(answer.json()["errorMessage"], said);
    }
    assert_eq!(client.get("/_api/document/c/a").status, 404);
    is_as_it_was(&mut client);
}

#[test]
fn queries_of_megabytes_are_answered_or_refused_by_name() {
    let (_server, mut client) = with_one();
    // A comment of 4 MB, a string of 4 MB, and a list of 200,000 numbers.
    let comment = format!("/* {} */ RETURN 1", "x".repeat(4 << 20));
    assert_eq!(answer_to(&mut client, &comment, &json!({})).json()["result"], json!([1]));
    let text = format!("RETURN LENGTH('{}')", "y".repeat(4 << 20));
    assert_eq!(answer_to(&mut client, &text, &json!({})).json()["result"], json!([4 << 20]));
    let list = format!("RETURN LENGTH([{}0])", "0,".repeat(199_999));
    let answer = answer_to(&mut client, &list, &json!({}));
    assert_eq!((answer.status, answer.json()["result"].clone()), (201, json!([200_000])));
    // Nesting too deep for any stack.
    for open in ["(", "[", "{a:", "!", "NOT ", "-", "1+(", "LENGTH("] {
        let deep = format!("RETURN {}", open.repeat(100_000));
        let (status, _) = number(&answer_to(&mut client, &deep, &json!({})));
        assert!(status == 400 || status == 500, "{open}: {status}");
    }
    let sum = format!("RETURN {}1", "1+".repeat(50_000));
    let answer = answer_to(&mut client, &sum, &json!({}));
    assert!([201, 400, 500].contains(&answer.status), "{}", answer.text());
    is_as_it_was(&mut client);
}

#[test]
fn thousands_of_bind_variables_are_bound_and_each_is_needed() {
    let (_server, mut client) = with_one();
    let names: Vec<String> = (0..5_000).map(|n| format!("v{n}")).collect();
    let query = format!(
        "RETURN SUM([{}])",
        names.iter().map(|name| format!("@{name}")).collect::<Vec<_>>().join(",")
    );
    let mut variables: serde_json::Map<String, Value> =
        names.iter().zip(0..).map(|(name, n)| (name.clone(), json!(n))).collect();
    let answer = answer_to(&mut client, &query, &json!(variables));
    assert_eq!(answer.json()["result"], json!([4_999 * 5_000 / 2]), "{}", answer.status);
    variables.insert("more".to_owned(), json!(1));
    assert_eq!(number(&answer_to(&mut client, &query, &json!(variables))), (400, 1552));
    variables.remove("more");
    variables.remove("v17");
    assert_eq!(number(&answer_to(&mut client, &query, &json!(variables))), (400, 1551));
    assert_eq!(number(&answer_to(&mut client, "RETURN 1", &json!([1]))), (400, 17));
}

#[test]
fn invalid_utf8_and_duplicate_attributes_are_refused() {
    let (_server, mut client) = with_one();
    let bad: [&[u8]; 5] = [
        b"{\"a\":\"\xff\"}",
        b"{\"\xc0\x80\":1}",
        b"{\"a\":\"\xed\xa0\x80\"}",
        b"{\"a\":\"\\ud800\"}",
        b"{\"a\":1,\"a\":1}",
    ];
    for body in bad {
        let text = String::from_utf8_lossy(body).into_owned();
        for (method, target) in [
            ("POST", "/_api/document/c"),
            ("PUT", "/_api/document/c/kept"),
            ("PATCH", "/_api/document/c/kept"),
        ] {
            let answer = client.call(method, target, &[], body);
            assert_eq!(number(&answer), (400, 600), "{method} {text}");
        }
        let array = [b"[".as_slice(), body, b"]"].concat();
        assert_eq!(
            number(&client.call("POST", "/_api/document/c", &[], &array)),
            (400, 600),
            "{text}"
        );
        let target = "/_api/import?collection=c&type=documents";
        let found = client.call("POST", target, &[], body).json();
        assert_eq!((&found["created"], &found["errors"]), (&json!(0), &json!(1)), "{text}");
    }
    let query = b"{\"query\":\"RETURN '\xff'\"}";
    assert_eq!(number(&client.call("POST", "/_api/cursor", &[], query)), (400, 600));
    // The same in a path.
    assert!(client.get("/_api/document/c/%ff").status >= 400);
    is_as_it_was(&mut client);
}

#[test]
fn deep_nesting_is_refused_and_what_is_just_deep_is_kept() {
    let (_server, mut client) = with_one();
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |depth: usize| {
            format!("{{\"_key\":\"deep\",\"v\":{}1{}}}", open.repeat(depth), close.repeat(depth))
        };
        let answer = client.call("POST", "/_api/document/c", &[], nested(100_000));
        assert_eq!(number(&answer), (400, 600));
        client.call("POST", "/_api/document/c", &[], nested(50)).having(202);
        let found = client.get("/_api/document/c/deep");
        let expected: Value = serde_json::from_str(&nested(50)).unwrap();
        assert_eq!(found.json()["v"], expected["v"]);
        assert_eq!(client.call("DELETE", "/_api/document/c/deep", &[], b"").status, 202);
    }
    let array = client.call("POST", "/_api/document/c", &[], "[".repeat(5_000));
    assert_eq!(number(&array), (400, 600));
    let variables: Value = json!({"x": 1});
    let body = format!("{{\"query\":\"RETURN 1\",\"bindVars\":{}", "[".repeat(100_000));
    assert_eq!(number(&client.call("POST", "/_api/cursor", &[], body)), (400, 600));
    assert_eq!(answer_to(&mut client, "RETURN @x", &variables).json()["result"], json!([1]));
    is_as_it_was(&mut client);
}

/// Numbers keep their value as far as 64 bits and doubles do, and are refused beyond.
#[test]
fn huge_numbers_keep_their_value_or_are_refused() {
    let (_server, mut client) = with_one();
    for text in ["9223372036854775807", "-9223372036854775808", "18446744073709551615", "1e300"] {
        let body = format!("{{\"_key\":\"n\",\"v\":{text}}}");
        assert_eq!(client.call("POST", "/_api/document/c?overwrite=true", &[], body).status, 202);
        let found = client.get("/_api/document/c/n").json()["v"].clone();
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(found.as_f64(), expected.as_f64(), "{text}");
    }
    for text in ["1e400", "-1e400", "01", "1.", "NaN", "Infinity", "0x10"] {
        let body = format!("{{\"_key\":\"n\",\"v\":{text}}}");
        let answer = client.call("POST", "/_api/document/c?overwrite=true", &[], body);
        assert_eq!(number(&answer), (400, 600), "{text}");
    }
}

/// The resources of cursors: their number, the bytes of their results, and the snapshots of the
/// store that they hold (if the store reports these).
#[derive(Clone, Copy, Debug, PartialEq)]
struct CursorResources {
    open: f64,
    bytes: f64,
    snapshots: Option<u64>,
}

fn held(client: &mut Client) -> CursorResources {
    CursorResources {
        open: client.figure("pellucid_cursors_open"),
        bytes: client.figure("pellucid_cursors_bytes"),
        snapshots: client.get("/_admin/engine").json()["state"]["snapshots"].as_u64(),
    }
}

/// Waits until cursors hold no more than `expected`.
fn wait_until_held(client: &mut Client, expected: CursorResources) {
    wait_until(|| held(client), |found| *found == expected);
}

/// Opens a cursor over all of `c`; returns its path.
fn open(client: &mut Client, ttl: u64, is_stream: bool) -> String {
    let body = json!({
        "query": "FOR d IN c RETURN d", "batchSize": 1, "ttl": ttl,
        "options": {"stream": is_stream},
    });
    let answer = client.call("POST", "/_api/cursor", &[], body.to_string()).having(201);
    format!("/_api/cursor/{}", answer.json()["id"].as_str().unwrap())
}

/// Abandoned cursors are removed after their `ttl`, with their results and their snapshots of the
/// store. Cursors with time left stay.
#[test]
fn abandoned_cursors_are_gone_after_their_time() {
    let (_server, mut client) = with_one();
    let lines: String = (0..2_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    let import = "/_api/import?collection=c&type=documents";
    assert_eq!(client.call("POST", import, &[], lines).status, 201);
    let nothing = held(&mut client);
    assert_eq!((nothing.open, nothing.bytes), (0.0, 0.0));
    let kept = [false, true].map(|is_stream| open(&mut client, 3_600, is_stream));
    let base = held(&mut client);
    assert_eq!(base.open, 2.0);
    let abandoned: Vec<_> = (0..40).map(|n| open(&mut client, 3, n % 2 == 0)).collect();
    let full = held(&mut client);
    assert!(full.open > base.open && full.bytes > base.bytes, "{full:?}, {base:?}");
    assert!(full.snapshots > base.snapshots || base.snapshots.is_none(), "{full:?}, {base:?}");
    // A request for a batch would prolong a cursor, so the test watches the metrics.
    wait_until_held(&mut client, base);
    for path in &abandoned {
        assert_eq!(number(&client.call("POST", path, &[], b"")), (404, 1600), "{path}");
        assert_eq!(number(&client.call("DELETE", path, &[], b"")), (404, 1600), "{path}");
    }
    for path in &kept {
        assert_eq!(client.call("POST", path, &[], b"").status, 200, "{path}");
        assert_eq!(client.call("DELETE", path, &[], b"").status, 202, "{path}");
    }
    wait_until_held(&mut client, nothing);
}

/// Regression: `"waitForSync":"true"` created a collection without that property, and `users` that
/// was not a list was ignored.
#[test]
fn members_of_another_type_are_refused() {
    let (_server, mut client) = with_one();
    for (method, target, body) in [
        ("POST", "/_api/collection", r#"{"name":"d","waitForSync":"true"}"#),
        ("POST", "/_api/collection", r#"{"name":"d","isSystem":1}"#),
        ("POST", "/_api/collection", r#"{"name":"d","keyOptions":"traditional"}"#),
        ("POST", "/_api/collection", r#"{"name":"d","keyOptions":{"allowUserKeys":"no"}}"#),
        ("PUT", "/_api/collection/c/properties", r#"{"waitForSync":1}"#),
        ("POST", "/_api/index?collection=c", r#"{"type":"hash","fields":["n"],"unique":"true"}"#),
        ("POST", "/_api/index?collection=c", r#"{"type":"hash","fields":["n"],"name":7}"#),
        ("POST", "/_api/database", r#"{"name":"d","users":{"username":"ann"}}"#),
        ("POST", "/_api/database", r#"{"name":"d","users":["ann"]}"#),
        ("POST", "/_api/database", r#"{"name":"d","users":[{"passwd":"x"}]}"#),
        ("POST", "/_api/cursor", r#"{"query":"RETURN 1","memoryLimit":"1000"}"#),
    ] {
        let answer = client.call(method, target, &[], body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
    }
    assert_eq!(client.get("/_api/collection/d").status, 404);
    assert_eq!(client.get("/_api/database").json()["result"], json!(["_system"]));
    assert_eq!(
        client.get("/_api/index?collection=c").json()["indexes"].as_array().unwrap().len(),
        1
    );
    is_as_it_was(&mut client);
}

/// Regression: each of these was interpreted as something else, and the write was done.
#[test]
fn writes_with_invalid_parameters_or_conditions_are_refused() {
    let (_server, mut client) = with_one();
    let tag = ("If-Match", "\"1\"");
    let (one, new) = ("/_api/document/c/kept", "/_api/document/c");
    let numbered = r#"{"_key":"kept","_rev":123}"#;
    for (method, target, headers, body, status) in [
        ("PUT", format!("{one}?waitForSync=ture"), &[][..], "{}", 400),
        ("PUT", format!("{one}?waitForSync"), &[], "{}", 400),
        ("PATCH", format!("{one}?keepNull=ture"), &[], r#"{"n":null}"#, 400),
        ("PUT", one.to_owned(), &[("If-None-Match", "*")], "{}", 400),
        ("POST", format!("{new}?overwriteMode=replace"), &[tag], r#"{"_key":"kept"}"#, 400),
        ("PUT", new.to_owned(), &[tag], r#"[{"_key":"kept"}]"#, 400),
        ("PUT", format!("{one}?ignoreRevs=false"), &[], r#"{"_rev":123}"#, 412),
        ("POST", format!("{new}?overwriteMode=replace&ignoreRevs=false"), &[], numbered, 412),
        ("POST", "/_api/import?collection=c&type=array&overwrite=true".into(), &[], "[{}", 600),
        ("POST", "/_api/import?collection=c&complete=ture".into(), &[], "", 400),
        ("PUT", "/_api/collection/c/properties".into(), &[], r#"[{"waitForSync":true}]"#, 400),
        ("POST", "/_api/collection".into(), &[], "null", 400),
    ] {
        let answer = client.call(method, &target, headers, body);
        match status {
            600 => assert_eq!(number(&answer), (400, 600), "{}", answer.text()),
            _ => assert_eq!(answer.status, status, "{method} {target}: {}", answer.text()),
        }
        is_as_it_was(&mut client);
    }
    let query = r#"{"query":"REPLACE {_key:'kept',_rev:123} IN c OPTIONS {ignoreRevs:false}"}"#;
    assert_eq!(client.call("POST", "/_api/cursor", &[], query).status, 409);
    is_as_it_was(&mut client);
}

/// Regression: `onlyget=false` counted as set, so a replacement only read the documents.
#[test]
fn only_a_true_onlyget_reads() {
    let (_server, mut client) = with_one();
    let replaced = r#"[{"_key":"kept","n":2}]"#;
    client.call("PUT", "/_api/document/c?onlyget=false", &[], replaced).having(202);
    assert_eq!(client.get("/_api/document/c/kept").json()["n"], 2);
    let read = client.call("PUT", "/_api/document/c?onlyget=true", &[], r#"["kept"]"#);
    assert_eq!((read.status, read.json()[0]["n"].clone()), (200, json!(2)));
}
