//! Attacks with documents, and with calls of the document API.

use serde_json::json;

use super::attack_servers::AttackServers;
use super::raw::Attack;

/// A call, and the statuses that may answer it.
struct Call {
    name: &'static str,
    method: &'static str,
    target: &'static str,
    body: Vec<u8>,
    allowed: &'static [u16],
}

/// The statuses of a call whose content is refused. Text that nests too deeply is answered with 500
/// in queries, like in ArangoDB.
const REFUSED: &[u16] = &[400];
/// The statuses of a call that may be accepted or refused.
const EITHER: &[u16] = &[200, 201, 202, 400];

const DOCUMENT: &str = "/_api/document/c";
const INDEX: &str = "/_api/index?collection=c";
const IMPORT: &str = "/_api/import?collection=c&type=documents";

fn nested(open: &str, close: &str, count: usize) -> Vec<u8> {
    format!("{{\"v\":{}1{}}}", open.repeat(count), close.repeat(count)).into_bytes()
}

/// Returns the text of an object with `count` members.
fn members(count: usize, name: impl Fn(usize) -> String) -> Vec<u8> {
    let members: Vec<String> = (0..count).map(|at| format!("\"{}\":1", name(at))).collect();
    format!("{{{}}}", members.join(",")).into_bytes()
}

/// Bodies that are not a document.
fn refused() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("lists in lists, 100,000 times", nested("[", "]", 100_000)),
        ("objects in objects, 100,000 times", nested("{\"a\":", "}", 100_000)),
        ("lists in lists, 300 times", nested("[", "]", 300)),
        ("brackets that do not end", "[".repeat(1_000_000).into()),
        ("a text that does not end", br#"{"a":"xxxx"#.to_vec()),
        ("half a surrogate", br#"{"a":"\ud800"}"#.to_vec()),
        ("an escape of noise", br#"{"a":"\q"}"#.to_vec()),
        ("bytes that are no UTF-8", b"{\"a\":\"\xff\xfe\"}".to_vec()),
        ("overlong UTF-8", b"{\"a\":\"\xc0\xaf\"}".to_vec()),
        ("a control character", b"{\"a\":\"\x01\"}".to_vec()),
        ("a number of words", br#"{"a":NaN}"#.to_vec()),
        ("a number with zeroes before it", br#"{"a":007}"#.to_vec()),
        ("a comma too many", br#"{"a":1,}"#.to_vec()),
        ("two documents", br#"{"a":1}{"a":2}"#.to_vec()),
        ("no document", Vec::new()),
        ("a number", b"7".to_vec()),
        ("a key of noise", br#"{"_key":"a/b c\u0000"}"#.to_vec()),
        ("a key of 1,000 letters", json!({"_key": "k".repeat(1_000)}).to_string().into()),
        ("a key that is a number", br#"{"_key":7}"#.to_vec()),
    ]
}

/// Bodies that are unusual but valid documents.
fn odd() -> Vec<(&'static str, Vec<u8>)> {
    let digits = "9".repeat(100_000);
    vec![
        ("a number beyond all numbers", br#"{"_key":"e1","a":1e999999}"#.to_vec()),
        ("a number of 100,000 digits", format!("{{\"_key\":\"e2\",\"a\":{digits}}}").into()),
        ("100,000 equal names", members(100_000, |_| "a".to_owned())),
        ("300,000 names", members(300_000, |at| format!("n{at}"))),
        ("equal names among many", members(300_000, |at| format!("n{}", at % 150_000))),
    ]
}

/// Calls with invalid names and definitions.
fn catalogue() -> Vec<Call> {
    let call = |name, target, body: serde_json::Value, allowed| Call {
        name,
        method: "POST",
        target,
        body: body.to_string().into(),
        allowed,
    };
    let fields: Vec<String> = (0..1_000).map(|at| format!("f{at}")).collect();
    let index = |fields| json!({"type": "persistent", "fields": fields});
    let long = "x".repeat(1_000_000);
    vec![
        call("a collection without a name", "/_api/collection", json!({}), REFUSED),
        call("a name of 1 MB", "/_api/collection", json!({"name": long}), &[400, 413]),
        call("a collection of dots", "/_api/collection", json!({"name": "../../etc"}), REFUSED),
        call("a database of dots", "/_api/database", json!({"name": "../.."}), EITHER),
        call("an index of nothing", INDEX, index(Vec::new()), REFUSED),
        call("an index of 1,000 fields", INDEX, index(fields), REFUSED),
        call("an index of a path without end", INDEX, index(vec!["a.".repeat(10_000)]), REFUSED),
    ]
}

fn others() -> Vec<Call> {
    let call = |name, method, target, body: &[u8], allowed| Call {
        name,
        method,
        target,
        body: body.to_vec(),
        allowed,
    };
    let keys = json!(vec!["k1"; 100_000]).to_string();
    let plan = json!({"query": format!("RETURN {}", "[".repeat(100_000))}).to_string();
    let read = "/_api/document/c?onlyget=true";
    let list = "/_api/import?collection=c&type=list";
    let revision = "/_api/document/c/k1?rev=%ff";
    let cursor = "/_api/cursor/99999999999999999999";
    let query = "/_api/query/99999999999999999999";
    let bracket = "[".repeat(1_000_000);
    let lines = "\n".repeat(1_000_000);
    vec![
        call("a document into nothing", "POST", "/_api/document/none", b"{}", &[404]),
        call("a document into noise", "POST", "/_api/document/%00%ff", b"{}", &[400, 404]),
        call("a revision of noise", "GET", revision, b"", &[200, 400, 404, 412]),
        call("an import of noise", "POST", IMPORT, &[0xfe; 10_000], EITHER),
        call("an import of brackets", "POST", list, bracket.as_bytes(), REFUSED),
        call("an import of empty lines", "POST", IMPORT, lines.as_bytes(), EITHER),
        call("100,000 keys to be read", "PUT", read, keys.as_bytes(), &[200, 400, 413, 500]),
        call("a batch of noise", "POST", "/v0/batch", &[0xff; 5_000], REFUSED),
        call("a batch of wonders", "POST", "/v0/batch", br#"{"op":"explode"}"#, REFUSED),
        call("a batch of brackets", "POST", "/v0/batch", &bracket.as_bytes()[..500_000], REFUSED),
        call("a cursor that is none", "PUT", cursor, b"", &[404]),
        call("a cursor of words", "DELETE", "/_api/cursor/none", b"", &[404]),
        call("a query that is none", "DELETE", query, b"", &[400, 404]),
        call("a plan of brackets", "POST", "/_api/explain", plan.as_bytes(), &[400, 500]),
    ]
}

fn calls() -> Vec<Call> {
    let post = |allowed| {
        move |(name, body)| Call { name, method: "POST", target: DOCUMENT, body, allowed }
    };
    let refused = refused().into_iter().map(post(REFUSED));
    let odd = odd().into_iter().map(post(EITHER));
    refused.chain(odd).chain(catalogue()).chain(others()).collect()
}

pub(crate) fn attacks() -> Vec<Attack> {
    let calls = calls().into_iter().map(|call| {
        Attack::new(format!("document: {}", call.name), move |arena| {
            let mut client = arena.open.client();
            let answer = client.call(call.method, call.target, &[], &call.body);
            let text: String = String::from_utf8_lossy(&answer.body).chars().take(300).collect();
            println!("    {} {text:.120}", answer.status);
            assert!(call.allowed.contains(&answer.status), "{}: {text}", call.name);
        })
    });
    let stored = [
        Attack::new("document: one that a query nests", nested_by_a_query),
        Attack::new("document: a patch that nests", nested_by_patches),
        Attack::new("document: cursors that nobody asks on", parked),
    ];
    calls.chain(stored).collect()
}

/// Regression: a query could store a document that nested so deeply that each read of it ended the
/// server.
fn nested_by_a_query(arena: &AttackServers) {
    let wrap = |at: usize| format!("{}a{at}{}", "[".repeat(380), "]".repeat(380));
    let lets: String = (1..=16).map(|at| format!(" LET a{at} = {}", wrap(at - 1))).collect();
    let query = format!("FOR i IN 1..1 LET a0 = i{lets} INSERT {{_key: \"deep\", v: a16}} INTO c");
    let mut client = arena.open.client();
    let answer = client.call("POST", "/_api/cursor", &[], json!({"query": query}).to_string());
    assert!(matches!(answer.status, 400 | 500), "{}", answer.text());
    assert_eq!(client.get("/_api/document/c/deep").status, 404);
}

fn nested_by_patches(arena: &AttackServers) {
    let mut client = arena.open.client();
    let wrapped =
        |depth: usize| format!("{{\"v\":{}1{}}}", "{\"v\":".repeat(depth), "}".repeat(depth));
    client.call("POST", "/_api/document/c", &[], "{\"_key\":\"patched\"}");
    for depth in [10, 100, 190, 250, 400] {
        let answer = client.call("PATCH", "/_api/document/c/patched", &[], wrapped(depth));
        let allowed: &[u16] = if depth < 200 { &[200, 201, 202] } else { &[400] };
        assert!(allowed.contains(&answer.status), "{depth}: {}", answer.text());
        assert_eq!(client.get("/_api/document/c/patched").status, 200);
    }
}

/// Checks that the results that wait for their reader are bounded.
fn parked(arena: &AttackServers) {
    let body = json!({
        "query": "FOR i IN 1..20000 RETURN REPEAT(\"a\", 1000)",
        "batchSize": 10,
        "ttl": 1_000_000_000,
    });
    let body = body.to_string();
    let mut client = arena.open.client();
    let mut refusals = 0;
    for _ in 0..300 {
        let answer = client.call("POST", "/_api/cursor", &[], body.as_str());
        refusals += usize::from(answer.status != 201);
        assert!(matches!(answer.status, 201 | 429 | 500 | 503), "{}", answer.text());
    }
    println!("    {refusals} of 300 were refused");
    // The server's own tests check each case; here the results expire or are deleted.
    let listed = client.call("POST", "/_api/cursor", &[], r#"{"query":"RETURN 1"}"#);
    assert!(matches!(listed.status, 201 | 429 | 500 | 503), "{}", listed.text());
}
