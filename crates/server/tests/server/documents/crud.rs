//! The document API over HTTP: databases, collections, documents, indexes.

use super::{ask, call, expect, with_empty_collection};
use crate::common::{TestStore, add_account, basic, serve};
use pellucid_server::access::Right;
use serde_json::{Value, json};

#[test]
fn versions_roles_and_unknown_paths() {
    let (_server, mut client) = serve();
    let version = expect(&mut client, "GET", "/_api/version?", &Value::Null, 200);
    assert_eq!((&version["server"], &version["license"]), (&json!("arango"), &json!("community")));
    assert!(version["version"].as_str().unwrap().starts_with("3.12."), "{version}");
    let role = expect(&mut client, "GET", "/_db/_system/_admin/server/role", &Value::Null, 200);
    assert_eq!(role["role"], "SINGLE");
    let error = expect(&mut client, "GET", "/_api/nothing", &Value::Null, 404);
    assert_eq!((&error["errorNum"], &error["error"]), (&json!(404), &json!(true)));
    assert_eq!(error["errorMessage"], "unknown path '/_api/nothing'");
    let headers = [("access-control-request-headers", "x-one")];
    let options = client.call("OPTIONS", "/_api/version", &headers, b"");
    assert_eq!(
        (options.status, options.header("Access-Control-Allow-Headers")),
        (200, Some("x-one"))
    );
}

#[test]
fn a_document_from_its_insertion_to_its_removal() {
    let (_server, mut client) = serve();
    let made = expect(&mut client, "POST", "/_api/collection", &json!({"name": "people"}), 200);
    assert_eq!((&made["status"], &made["type"]), (&json!(3), &json!(2)));
    let answer =
        call(&mut client, "POST", "/_api/document/people?returnNew=true", &json!({"a": 1}));
    let meta = answer.json();
    assert_eq!(answer.status, 202);
    let key = meta["_key"].as_str().unwrap().to_owned();
    let path = format!("/_api/document/people/{key}");
    assert_eq!(answer.header("Location"), Some(&*format!("/_db/_system{path}")));
    let revision = meta["_rev"].as_str().unwrap().to_owned();
    assert_eq!(answer.etag(), format!("\"{revision}\""));
    let found = client.get(&path);
    assert_eq!(found.json(), meta["new"]);
    assert_eq!(
        found.text(),
        format!(r#"{{"_key":"{key}","_id":"people/{key}","_rev":"{revision}","a":1}}"#)
    );
    let head = client.call("HEAD", &path, &[], b"");
    assert_eq!((head.status, head.header("ETag")), (200, found.header("ETag")));
    assert_eq!(head.header("Content-Length"), Some(&*found.body.len().to_string()));
    let same = client.call("GET", &path, &[("If-None-Match", &*revision)], b"");
    assert_eq!((same.status, same.header("Content-Type")), (304, Some("text/plain")));
    let updated = call(&mut client, "PATCH", &path, &json!({"b": {"c": null}})).json();
    assert_eq!(updated["_oldRev"], json!(revision));
    let stale = client.call("PUT", &path, &[("If-Match", &*revision)], b"{}");
    let body = stale.json();
    assert_eq!((stale.status, &body["errorNum"]), (412, &json!(1200)));
    assert_eq!((&body["_id"], &body["_rev"]), (&json!(format!("people/{key}")), &updated["_rev"]));
    assert_eq!(body["errorMessage"], "conflict, _rev values do not match");
    call(&mut client, "PUT", &format!("{path}?waitForSync=true"), &json!({"z": 1})).having(201);
    let gone = call(&mut client, "DELETE", &format!("{path}?returnOld=true"), &Value::Null);
    assert_eq!((gone.status, &gone.json()["old"]["z"]), (202, &json!(1)));
    let error = expect(&mut client, "GET", &path, &Value::Null, 404);
    assert_eq!(
        (&error["errorNum"], &error["errorMessage"]),
        (&json!(1202), &json!("document not found"))
    );
}

/// Regression: HEAD read the body for its length. The ledger has the length, also after the
/// collection was renamed.
#[test]
fn head_and_checks_of_revisions_read_no_body() {
    let (_server, mut client) = with_empty_collection();
    let text = "ü\"\\\n\u{1}/".repeat(300);
    let document = json!({"_key": "k", "t": text, "n": [-1, 1.5, 1e300, null, true], "o": {}});
    expect(&mut client, "POST", "/_api/document/c", &document, 202);
    expect(&mut client, "PATCH", "/_api/document/c/k", &json!({"more": {"a": [false]}}), 202);
    expect(&mut client, "PUT", "/_api/collection/c/rename", &json!({"name": "longer"}), 200);
    let path = "/_api/document/longer/k";
    // Other stores do not report how many bodies were read, and read them for the length.
    let is_told = TestStore::asked_for() == TestStore::Embedded;
    let records = |client: &mut crate::common::Client| {
        is_told.then(|| {
            let page = client.get("/_admin/engine").json();
            page.pointer("/reads/journal/records").and_then(Value::as_u64).unwrap()
        })
    };
    let before = records(&mut client);
    let head = client.call("HEAD", path, &[], b"");
    let revision = head.etag();
    assert_eq!(client.call("HEAD", path, &[("If-Match", &*revision)], b"").status, 200);
    assert_eq!(client.call("GET", path, &[("If-None-Match", &*revision)], b"").status, 304);
    assert_eq!(client.call("GET", path, &[("If-Match", "\"_other\"")], b"").status, 412);
    assert_eq!(client.call("HEAD", "/_api/document/longer/none", &[], b"").status, 404);
    assert_eq!(records(&mut client), before, "no body was read");
    // Regression: a write read the body before it noticed a stale condition.
    let stale = [("If-Match", "\"_other\"")];
    let index = json!({"type": "persistent", "fields": ["t"]});
    expect(&mut client, "POST", "/_api/index?collection=longer", &index, 201);
    let before = records(&mut client);
    for (method, target) in [
        ("PATCH", path.to_owned()),
        ("PUT", path.to_owned()),
        ("DELETE", path.to_owned()),
        ("DELETE", format!("{path}?returnOld=true")),
    ] {
        let answer = client.call(method, &target, &stale, b"{}");
        assert_eq!(answer.status, 412, "{method}: {}", answer.text());
        assert_eq!(answer.etag(), revision, "{method}");
    }
    let body = json!({"_rev": "_other"});
    call(&mut client, "PATCH", &format!("{path}?ignoreRevs=false"), &body).having(412);
    client.call("PATCH", "/_api/document/longer/none", &stale, b"{}").having(404);
    assert_eq!(records(&mut client), before, "no body was read");
    let found = client.get(path);
    assert_eq!(head.header("Content-Length"), Some(&*found.body.len().to_string()));
    assert_eq!(records(&mut client), before.map(|count| count + 1));
}

#[test]
fn arrays_answer_for_each_item() {
    let (_server, mut client) = with_empty_collection();
    let items = json!([{"_key": "a", "n": 1}, {"_key": 7}, {"_key": "a"}, 5]);
    let answer = call(&mut client, "POST", "/_api/document/c", &items).having(202);
    assert_eq!(answer.header("x-arango-error-codes"), Some(r#"{"1210":1,"1221":1,"1227":1}"#));
    let list = answer.json();
    assert_eq!((&list[0]["_key"], &list[1]["errorNum"]), (&json!("a"), &json!(1221)));
    let found =
        expect(&mut client, "PUT", "/_api/document/c?onlyget=true", &json!(["a", "b"]), 200);
    assert_eq!((&found[0]["n"], &found[1]["errorNum"]), (&json!(1), &json!(1202)));
    // Regression: such a read gave any revision.
    let target = "/_api/document/c?onlyget=true&ignoreRevs=false";
    let revisions = json!([{"_key": "a", "_rev": list[0]["_rev"]}, {"_key": "a", "_rev": "other"}]);
    let answer = call(&mut client, "PUT", target, &revisions).having(200);
    assert_eq!(answer.header("x-arango-error-codes"), Some(r#"{"1200":1}"#));
    let found = answer.json();
    assert_eq!((&found[0]["n"], &found[1]["errorNum"]), (&json!(1), &json!(1200)));
    let changed =
        expect(&mut client, "PATCH", "/_api/document/c", &json!([{"_key": "a", "m": 2}]), 202);
    assert_eq!(changed[0]["_oldRev"], list[0]["_rev"]);
    let stale = json!([{"_key": "a", "_rev": "other"}]);
    let refused = expect(&mut client, "DELETE", "/_api/document/c?ignoreRevs=false", &stale, 202);
    assert_eq!(
        refused,
        json!([{
            "error": true, "errorNum": 1200, "errorMessage": "conflict, _rev values do not match",
        }])
    );
    let gone = expect(
        &mut client,
        "DELETE",
        "/_api/document/c?silent=true",
        &json!(["c/a", "other/a"]),
        202,
    );
    assert_eq!(gone.as_array().unwrap().len(), 1);
    assert_eq!(
        expect(&mut client, "GET", "/_api/collection/c/count", &Value::Null, 200)["count"],
        0
    );
}

#[test]
fn requests_without_credentials_are_refused() {
    let folder = tempfile::TempDir::new().unwrap();
    for (name, scope) in [("root", "*"), ("ann", "database/hers")] {
        add_account(folder.path(), name, &[(scope, Right::Write), ("admin", Right::Read)]);
    }
    let data = folder.path().to_owned();
    let server = crate::common::start_with(move |options| options.data = data);
    let mut client = server.client();
    let refused = client.get("/_api/version");
    assert_eq!((refused.status, refused.json()["errorNum"].clone()), (401, json!(11)));
    assert_eq!(client.get("/_admin/server/availability").status, 200);
    let wrong = [("authorization", &*basic("root", "x"))];
    assert_eq!(client.call("GET", "/_api/version", &wrong, b"").status, 401);
    for _ in 0..2 {
        let right = [("authorization", &*basic("root", "root"))];
        assert_eq!(client.call("GET", "/_api/collection", &right, b"").status, 200);
    }
    let bad = json!({"username": "root", "password": "y"});
    let bad = call(&mut client, "POST", "/_open/auth", &bad);
    assert_eq!((bad.status, bad.json()["errorNum"].clone()), (401, json!(401)));
    let credentials = json!({"username": "ann", "password": "ann"});
    let token = expect(&mut client, "POST", "/_open/auth", &credentials, 200);
    let bearer = format!("bearer {}", token["jwt"].as_str().unwrap());
    let bearer = [("authorization", &*bearer)];
    let user = client.call("GET", "/_api/user/ann", &bearer, b"");
    assert_eq!(user.json()["user"], "ann");
    let other = client.call("GET", "/_api/collection", &bearer, b"");
    assert_eq!((other.status, other.json()["errorNum"].clone()), (401, json!(11)));
    let is_challenge = |(name, _): &&(String, String)| name == "WWW-Authenticate";
    assert_eq!(other.headers.iter().filter(is_challenge).count(), 2, "{other:?}");
    let quiet = [bearer[0], ("x-omit-www-authenticate", "1")];
    let quiet = client.call("GET", "/_api/collection", &quiet, b"");
    assert_eq!((quiet.status, quiet.header("WWW-Authenticate")), (401, None));
    client.call("POST", "/_api/database", &bearer, br#"{"name":"hers"}"#).having(403);
}

/// Regression: the header `Location` of a collection had the name of the database as it is, and not
/// percent-encoded. The removal of the index `edge`, which GET shows, was 404.
#[test]
fn names_in_paths_are_those_of_the_reply() {
    let (_server, mut client) = serve();
    expect(&mut client, "POST", "/_api/database", &json!({"name": "b\u{fc}cher a?"}), 201);
    let path = "/_db/b%C3%BCcher%20a%3F/_api/collection";
    expect(&mut client, "POST", path, &json!({"name": "e", "type": 3}), 200);
    let properties = format!("{path}/e/properties");
    let answer = client.get(&properties);
    assert_eq!((answer.status, answer.header("Location")), (200, Some(&*properties)));
    let edge = "/_db/b%C3%BCcher%20a%3F/_api/index/e/edge";
    assert_eq!(client.get(edge).json()["type"], "edge");
    assert_eq!(expect(&mut client, "DELETE", edge, &Value::Null, 403)["errorNum"], 11);
}

/// Regression: the answer had no count.
#[test]
fn a_count_that_is_made_again_is_told() {
    let (_server, mut client) = with_empty_collection();
    expect(&mut client, "POST", "/_api/document/c", &json!([{}, {}]), 202);
    let target = "/_api/collection/c/recalculateCount";
    let counted = expect(&mut client, "PUT", target, &Value::Null, 200);
    assert_eq!((&counted["result"], &counted["count"]), (&json!(true), &json!(2)));
}

/// Regression: a key that was a number was refused.
#[test]
fn an_import_puts_prefixes_before_the_ends_of_edges() {
    let (_server, mut client) = serve();
    expect(&mut client, "POST", "/_api/collection", &json!({"name": "e", "type": 3}), 200);
    let ends = json!([-1, "1", 2, u64::MAX, "w/4"]);
    let edge = |(n, end)| json!({"_key": format!("k{n}"), "_from": end, "_to": end});
    let edges: Vec<_> = ends.as_array().unwrap().iter().enumerate().map(edge).collect();
    let target = "/_api/import?collection=e&type=array&overwrite=true&fromPrefix=v&toPrefix=x/";
    for (option, [from, to]) in
        [("", ["w/4", "w/4"]), ("&overwriteCollectionPrefix=true", ["v/4", "x/4"])]
    {
        let report = expect(&mut client, "POST", &format!("{target}{option}"), &json!(edges), 201);
        assert_eq!((&report["created"], &report["errors"]), (&json!(4), &json!(1)));
        let found = ask(&mut client, "FOR d IN e SORT d._key RETURN [d._from, d._to]", &json!({}));
        let most = ["v", "x"].map(|prefix| format!("{prefix}/{}", u64::MAX));
        let expected = json!([["v/1", "x/1"], ["v/2", "x/2"], most, [from, to]]);
        assert_eq!(found, expected, "{option}");
    }
}
