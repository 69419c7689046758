//! Calls of ArangoDB's API that are not supported: each is refused with the status and the error
//! number that drivers expect. Also rare error numbers.

use super::{asked, with_collection};
use crate::common::{Answer, number};
use serde_json::{Value, json};

/// A call that is refused: method, target, body, status, error number.
type RefusedCall = (&'static str, &'static str, &'static str, u16, u64);

const COLLECTION: &str = "/_api/collection";
const EDGES: &str = r#"{"name":"g","edgeDefinitions":[]}"#;

/// Calls that use unsupported features.
const NOT_BUILT: &[RefusedCall] = &[
    ("POST", "/_api/transaction", r#"{"collections":{},"action":"f"}"#, 501, 9),
    ("POST", "/_api/transaction/begin", r#"{"collections":{}}"#, 501, 9),
    ("GET", "/_api/transaction/7", "", 404, 1655),
    ("PUT", "/_api/transaction/7", "", 404, 1655),
    ("DELETE", "/_api/transaction/7", "", 404, 1655),
    ("POST", "/_api/view", r#"{"name":"v","type":"arangosearch"}"#, 501, 9),
    ("PUT", "/_api/view/v/properties", "{}", 501, 9),
    ("POST", "/_api/analyzer", r#"{"name":"a","type":"identity"}"#, 501, 9),
    ("DELETE", "/_api/analyzer/a", "", 501, 9),
    ("POST", "/_api/gharial", EDGES, 501, 9),
    ("POST", "/_api/aqlfunction", r#"{"name":"a::b","code":"f"}"#, 501, 9),
    ("DELETE", "/_api/aqlfunction/a::b", "", 501, 9),
    ("POST", "/_api/index?collection=c", r#"{"type":"geo","fields":["a"]}"#, 501, 9),
    ("POST", "/_api/index?collection=c", r#"{"type":"fulltext","fields":["a"]}"#, 501, 9),
    ("POST", "/_api/index?collection=c", r#"{"type":"inverted","fields":["a"]}"#, 501, 9),
    ("POST", "/_api/index?collection=c", r#"{"type":"mdi","fields":["a"]}"#, 501, 9),
    ("POST", "/_api/index?collection=c", r#"{"type":"mdi-prefixed","fields":["a"]}"#, 501, 9),
    ("POST", "/_api/index?collection=c", r#"{"type":"vector","fields":["a"]}"#, 501, 9),
    ("POST", COLLECTION, r#"{"name":"d","schema":{"rule":{}}}"#, 501, 9),
    ("POST", COLLECTION, r#"{"name":"d","computedValues":[{"name":"a"}]}"#, 501, 9),
    ("PUT", "/_api/collection/c/properties", r#"{"schema":{"rule":{}}}"#, 501, 9),
    ("POST", COLLECTION, r#"{"name":"d","keyOptions":{"type":"padded"}}"#, 400, 1232),
    ("POST", COLLECTION, r#"{"name":"d","keyOptions":{"type":"uuid"}}"#, 400, 1232),
    ("POST", COLLECTION, r#"{"name":"d","keyOptions":{"type":"autoincrement"}}"#, 400, 1232),
    ("GET", "/_api/cluster/endpoints", "", 501, 9),
    ("PUT", "/_api/cluster/cluster-info", "{}", 501, 9),
    ("POST", "/_db/_system/_admin/backup/restore", r#"{"id":"1"}"#, 501, 9),
    ("POST", "/_admin/backup/upload", "{}", 501, 9),
    ("POST", "/_admin/backup/download", "{}", 501, 9),
    ("GET", "/_api/foxx", "", 404, 404),
    ("POST", "/_api/foxx?mount=/a", "x", 404, 404),
    ("GET", "/_api/tasks", "", 404, 404),
    ("POST", "/_api/tasks", "{}", 404, 404),
    ("POST", "/_admin/execute", "return 1", 404, 404),
    ("POST", "/_api/batch", "x", 404, 404),
    ("POST", "/_api/traversal", "{}", 404, 404),
    ("POST", "/_api/control_pregel", "{}", 404, 404),
    ("GET", "/_api/replication/logger-state", "", 404, 404),
    ("GET", "/_api/wal/lastTick", "", 404, 404),
    ("GET", "/_admin/wal/properties", "", 404, 404),
    ("GET", "/_admin/log", "", 404, 404),
    ("GET", "/_admin/statistics", "", 404, 404),
    ("POST", "/_admin/echo", "x", 404, 404),
    ("DELETE", "/_admin/shutdown", "", 404, 404),
    ("GET", "/_admin/database/target-version", "", 404, 404),
];

/// Lists that exist and are empty.
const EMPTY_LISTS: &[(&str, &str)] = &[
    ("/_api/view", "result"),
    ("/_api/analyzer", "result"),
    ("/_api/aqlfunction", "result"),
    ("/_api/transaction", "transactions"),
    ("/_api/gharial", "graphs"),
];

/// Queries: text, status and error number. A syntax error is reported before the refusal of an
/// unsupported feature.
const QUERIES: &[(&str, u16, u64)] = &[
    ("FOR d IN v SEARCH d.a == 1 RETURN d", 501, 9),
    ("FOR d IN v SEARCH d.a = 1 RETURN d", 400, 1501),
    ("FOR d IN v SEARCH d.a == 1 RETURN", 400, 1501),
    ("FOR v, e, p IN 1..2 OUTBOUND 'c/a' e PRUNE v.x RETURN p", 501, 9),
    ("FOR v IN 1..2 OUTBOUND 'c/a' e RETURN", 400, 1501),
    ("FOR v IN ANY SHORTEST_PATH 'c/a' TO 'c/b' GRAPH 'g' RETURN v", 501, 9),
    ("FOR v IN ANY SHORTEST_PATH 'c/a' 'c/b' GRAPH 'g' RETURN v", 400, 1501),
    ("FOR d IN c WINDOW {preceding: 1} AGGREGATE s = SUM(d.x) RETURN s", 501, 9),
    ("FOR d IN c WINDOW {preceding: 1} RETURN d", 400, 1501),
    ("LET [a] = [1] RETURN a", 501, 9),
    ("LET [a] = [1] RETURN a,", 400, 1501),
    ("RETURN GEO_DISTANCE([0, 0], [1, 1])", 400, 1540),
    ("RETURN NEAR(c, 0, 0)", 400, 1540),
    ("RETURN WITHIN(c, 0, 0, 1)", 400, 1540),
    ("FOR d IN FULLTEXT(c, 'a', 'b') RETURN d", 400, 1540),
];

/// Lists the answers that are not as expected.
#[derive(Default)]
pub(crate) struct UnexpectedAnswers(Vec<String>);

impl UnexpectedAnswers {
    pub(crate) fn check(&mut self, what: &str, answer: &Answer, expected: (u16, u64)) {
        let is_json = answer.header("Content-Type") == Some("application/json");
        let found = (answer.status >= 400 && is_json).then(|| number(answer));
        if found != Some(expected) {
            self.0.push(format!("{what}: {expected:?}, not {} {}", answer.status, answer.text()));
        }
    }

    pub(crate) fn end(self) {
        assert!(self.0.is_empty(), "{}", self.0.join("\n"));
    }
}

#[test]
fn unsupported_features_are_refused_by_their_number() {
    let (_server, mut client) = with_collection(r#"{"_key":"a"}"#);
    let mut wrong = UnexpectedAnswers::default();
    for (method, target, body, status, number) in NOT_BUILT {
        let answer = client.call(method, target, &[], body);
        wrong.check(&format!("{method} {target} {body}"), &answer, (*status, *number));
    }
    for (text, status, number) in QUERIES {
        let answer = asked(&mut client, &json!({"query": text}));
        wrong.check(text, &answer, (*status, *number));
    }
    for (name, value, status, number) in [
        ("x-arango-trx-id", "7", 404, 1655),
        ("x-arango-async", "store", 501, 9),
        ("content-type", "application/x-velocypack", 406, 406),
    ] {
        let answer = client.call("POST", "/_api/document/c", &[(name, value)], "{}");
        wrong.check(name, &answer, (status, number));
    }
    wrong.end();
    for (target, name) in EMPTY_LISTS {
        let answer = client.get(target);
        assert_eq!((answer.status, &answer.json()[name]), (200, &json!([])), "{target}");
    }
    // Parameters that a single server does not need are accepted, and have no effect.
    let body = r#"{"name":"d","numberOfShards":3,"replicationFactor":2,"writeConcern":2,
        "cacheEnabled":true}"#;
    assert_eq!(client.call("POST", "/_api/collection", &[], body).status, 200);
    let body = r#"{"type":"persistent","fields":["a"],"inBackground":true,"estimates":false,
        "cacheEnabled":true}"#;
    assert_eq!(client.call("POST", "/_api/index?collection=d", &[], body).status, 201);
    // The refused calls have changed nothing.
    assert_eq!(client.get("/_api/collection/c/count").json()["count"], 1);
    assert_eq!(client.get("/_api/index?collection=c").json()["indexes"][1], Value::Null);
    assert_eq!(client.get("/_api/collection?excludeSystem=true").json()["result"][2], Value::Null);
}

/// Calls with an error number that no other call has.
const SELDOM: &[RefusedCall] = &[
    ("POST", "/_api/document/given", r#"{"_key":"a"}"#, 400, 1222),
    ("POST", "/_api/document/c", "7", 400, 1227),
    ("PUT", "/_api/document/c/a", "[]", 400, 1227),
    ("PATCH", "/_api/document/c/a", "\"x\"", 400, 1227),
    ("POST", "/_api/collection", r#"{"name":"d","keyOptions":{"type":7}}"#, 400, 1232),
];

/// Queries with rare error numbers, and whether the number is that of a warning, which ends the
/// query only if the query asks for that.
const SELDOM_QUERIES: &[(&str, bool, u16, u64)] = &[
    ("INSERT {_key: 'b'} INTO given", false, 400, 1222),
    ("UPDATE {a: 1} IN c", false, 400, 1226),
    ("REMOVE {a: 1} IN c", false, 400, 1226),
    ("UPDATE 7 WITH {} IN c", false, 400, 1227),
    ("INSERT [] INTO c", false, 400, 1227),
    ("FOR i IN [1] COLLECT a = i INTO g KEEP nothing RETURN g", false, 400, 1512),
    ("FOR i IN [1] COLLECT AGGREGATE a = ABS(i) RETURN a", false, 500, 1574),
    ("FOR i IN [1] COLLECT AGGREGATE a = i RETURN a", false, 500, 1574),
    ("RETURN c + 1", false, 500, 1568),
    ("FOR i IN [1] RETURN c", false, 500, 1568),
    ("FOR d IN c UPDATE d WITH {} IN c OPTIONS {keepNull: d.x}", false, 400, 1575),
    ("FOR d IN c OPTIONS {nothing: 1} RETURN d._key", true, 400, 1539),
    ("INSERT {} INTO other OPTIONS {overwriteMode: 'x'} RETURN 'a'", true, 400, 1539),
    ("RETURN 'a' =~ '('", true, 400, 1543),
    ("RETURN REGEX_TEST('a', '[')", true, 400, 1543),
    ("RETURN STARTS_WITH(1, 'a')", true, 400, 1542),
    ("RETURN DATE_YEAR('never')", true, 400, 1572),
];

#[test]
fn rare_errors_have_their_number() {
    let (_server, mut client) = with_collection(r#"{"_key":"a"}"#);
    let given = r#"{"name":"given","keyOptions":{"allowUserKeys":false}}"#;
    assert_eq!(client.call("POST", "/_api/collection", &[], given).status, 200);
    assert_eq!(client.call("POST", "/_api/collection", &[], r#"{"name":"other"}"#).status, 200);
    let mut wrong = UnexpectedAnswers::default();
    for (method, target, body, status, number) in SELDOM {
        let answer = client.call(method, target, &[], body);
        wrong.check(&format!("{method} {target} {body}"), &answer, (*status, *number));
    }
    for (text, is_warning, status, number) in SELDOM_QUERIES {
        let strict = json!({"query": text, "options": {"failOnWarning": is_warning}});
        wrong.check(text, &asked(&mut client, &strict), (*status, *number));
        if *is_warning {
            let answer = asked(&mut client, &json!({"query": text}));
            assert_eq!(answer.status, 201, "{text}");
            assert_eq!(answer.json()["extra"]["warnings"][0]["code"], *number, "{text}");
        }
    }
    // Nested expressions, brackets, and subqueries at run time.
    let deep = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("RETURN {}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    for text in [deep("-", "1", "", 500), deep("[", "", "]", 500), deep("(RETURN ", "1", ")", 90)] {
        let answer = asked(&mut client, &json!({"query": text}));
        wrong.check(&text[..20], &answer, (500, 1524));
    }
    wrong.end();
    assert_eq!(client.get("/_api/collection/c/count").json()["count"], 1);
}
