//! Rights to the collections of a query: those in its text, and those that only its values name.

use crate::common::{
    Answer, Client, TestServer, TestStore, add_account, basic, start_with, take_right,
};
use pellucid_server::access::Right;
use serde_json::{Value, json};

/// Starts a server with a database `d` of two collections. The account `guest` has no right to one
/// of them, `root` has all. Each password equals the name.
fn guarded() -> (TestServer, Client) {
    let server = start_with(|options| {
        let add = |name: &str, grants: &[_]| add_account(&options.data, name, grants);
        add("root", &[("*", Right::Write), ("admin", Right::Write)]);
        let grants = [
            ("database/d", Right::Write),
            ("database/d/secret", Right::None),
            ("database/d/plan", Right::Read),
        ];
        add("guest", &grants);
    });
    let mut client = server.client();
    let mut make = |target: &str, body: &Value| {
        let headers = [("Authorization", &*basic("root", "root"))];
        let answer = client.call("POST", target, &headers, body.to_string());
        assert!(answer.status < 300, "{target}: {}", answer.text());
    };
    make("/_api/database", &json!({"name": "d"}));
    for name in ["open", "secret", "plan"] {
        make("/_db/d/_api/collection", &json!({"name": name}));
        let document = json!({"_key": "k", "n": 7});
        make(&format!("/_db/d/_api/document/{name}"), &document);
        let index = json!({"type": "persistent", "fields": ["n"], "name": "by_n"});
        make(&format!("/_db/d/_api/index?collection={name}"), &index);
    }
    (server, client)
}

fn call_as(client: &mut Client, who: &str, call: (&str, &str), body: &str) -> Answer {
    client.call(call.0, &format!("/_db/d{}", call.1), &[("Authorization", &*basic(who, who))], body)
}

/// The number of a collection, as a string.
fn number_of(client: &mut Client, name: &str) -> String {
    let call = ("GET", &*format!("/_api/collection/{name}"));
    call_as(client, "root", call, "").json()["id"].as_str().unwrap().to_owned()
}

/// Checks that a collection is unchanged.
fn is_untouched(client: &mut Client, name: &str) {
    let mut get = |path: &str| {
        let call = ("GET", &*path.replace("{c}", name));
        call_as(client, "root", call, "").json()
    };
    assert_eq!(get("/_api/collection/{c}/count")["count"], 1, "{name}");
    assert_eq!(get("/_api/document/{c}/k")["n"], 7, "{name}");
    assert_eq!(get("/_api/collection/{c}/properties")["waitForSync"], false, "{name}");
    assert_eq!(get("/_api/index?collection={c}")["indexes"].as_array().unwrap().len(), 2, "{name}");
}

fn ask(client: &mut Client, call: &str, who: &str, query: &str, binds: &Value) -> Answer {
    let body = json!({"query": query, "bindVars": binds}).to_string();
    call_as(client, who, ("POST", &format!("/_api/{call}")), &body)
}

/// Regression: `DOCUMENT` and `COLLECTION_COUNT` did not check rights.
#[test]
fn a_query_reads_no_collection_without_the_right() {
    let (_server, mut client) = guarded();
    let id = number_of(&mut client, "secret");
    let none = json!({});
    let by_number = json!({"id": format!("{id}/k")});
    for (query, binds) in [
        ("RETURN DOCUMENT('secret/k')", &none),
        ("RETURN DOCUMENT(CONCAT('secret', '/k'))", &none),
        ("RETURN DOCUMENT(['open/k', 'secret/k'])", &none),
        ("RETURN DOCUMENT('secret', 'k')", &none),
        ("RETURN DOCUMENT('secret', ['k'])", &none),
        ("RETURN DOCUMENT(secret, 'k')", &none),
        ("RETURN DOCUMENT(@id)", &by_number),
        ("FOR d IN open RETURN DOCUMENT(CONCAT('secret/', d._key))", &none),
        ("LET x = (FOR d IN open RETURN DOCUMENT('secret/k')) RETURN x", &none),
        ("RETURN COLLECTION_COUNT('secret')", &none),
        ("RETURN LENGTH(secret)", &none),
        ("FOR d IN secret RETURN d", &none),
        ("FOR d IN secret FILTER d._key == 'k' RETURN d", &none),
        ("FOR d IN open FOR e IN secret FILTER e._key == d._key RETURN e", &none),
        ("REMOVE 'k' IN secret", &none),
        ("UPDATE 'k' WITH {n: 8} IN plan", &none),
        ("INSERT {from: DOCUMENT('secret/k')} INTO open", &none),
    ] {
        let answer = ask(&mut client, "cursor", "guest", query, binds);
        assert_eq!(answer.status, 403, "{query}: {}", answer.text());
        assert_eq!(answer.json()["errorNum"], 11, "{query}");
        assert!(!answer.text().contains('7'), "{query}: {}", answer.text());
    }
    let count = |client: &mut Client, name: &str| {
        let query = format!("RETURN [LENGTH({name}), DOCUMENT('{name}/k').n]");
        ask(client, "cursor", "root", &query, &none).json()["result"][0].clone()
    };
    for name in ["open", "secret", "plan"] {
        assert_eq!(count(&mut client, name), json!([1, 7]), "nothing was written to {name}");
    }
    for query in [
        "RETURN DOCUMENT('open/k').n",
        "RETURN DOCUMENT('plan/k').n",
        "RETURN 6 + COLLECTION_COUNT('plan')",
        "FOR d IN plan RETURN d.n",
    ] {
        let answer = ask(&mut client, "cursor", "guest", query, &none);
        assert_eq!(answer.json()["result"], json!([7]), "{query}: {}", answer.text());
    }
}

/// Regression: the answers showed which collections without rights existed.
#[test]
fn a_query_does_not_reveal_collections_without_rights() {
    let (server, mut client) = guarded();
    take_right(&server, "guest", "database/d/nowhere", "/_db/d/_api/collection/nowhere");
    // A plan that another account's query has cached is refused with the same message.
    assert_eq!(
        ask(&mut client, "cursor", "root", "FOR d IN secret RETURN 1", &json!({})).status,
        201
    );
    for query in [
        "FOR d IN NAME RETURN 1",
        "FOR d IN @@c RETURN d",
        "RETURN LENGTH(NAME)",
        "RETURN NAME",
        "RETURN COLLECTION_COUNT('NAME')",
        "RETURN DOCUMENT('NAME/x')",
        "INSERT {} INTO NAME",
    ] {
        let answers = ["secret", "nowhere"].map(|name| {
            let binds = if query.contains("@@c") { json!({"@c": name}) } else { json!({}) };
            let answer = ask(&mut client, "cursor", "guest", &query.replace("NAME", name), &binds);
            (answer.status, answer.text().replace(name, "NAME"))
        });
        assert_eq!(answers[0], answers[1], "{query}");
        assert_eq!(answers[0].0, 403, "{query}: {}", answers[0].1);
    }
}

/// A plan shows the number of documents, and the indexes.
#[test]
fn explaining_a_query_needs_the_rights_of_running_it() {
    let (_server, mut client) = guarded();
    let none = json!({});
    for (query, status) in [
        ("FOR d IN secret RETURN d", 403),
        ("RETURN LENGTH(secret)", 403),
        ("FOR d IN plan REMOVE d IN plan", 403),
        ("FOR d IN plan RETURN d", 200),
        ("FOR d IN open REMOVE d IN open", 200),
    ] {
        let answer = ask(&mut client, "explain", "guest", query, &none);
        assert_eq!(answer.status, status, "{query}: {}", answer.text());
    }
}

/// A query may also name its collections by number, in its text and in bind variables.
#[test]
fn rights_hold_for_every_way_to_name_a_collection() {
    let (_server, mut client) = guarded();
    for name in ["secret", "plan"] {
        let number = number_of(&mut client, name);
        for named in [name, &*number] {
            let bound = json!({"@c": named});
            let reads = [
                ("FOR d IN @@c RETURN d", bound.clone()),
                ("FOR d IN @@c FILTER d._key == 'k' RETURN d", bound.clone()),
                ("FOR d IN @@c FILTER d.n == 7 RETURN d", bound.clone()),
                ("RETURN LENGTH(@@c)", bound.clone()),
                ("RETURN DOCUMENT(@@c, 'k')", bound.clone()),
                ("RETURN DOCUMENT(@id)", json!({"id": format!("{named}/k")})),
                // Without the function, the event loop would answer the query.
                (
                    "FOR d IN open FILTER d._key == 'k' RETURN DOCUMENT(@id)",
                    json!({"id": format!("{named}/k")}),
                ),
                ("RETURN COLLECTION_COUNT(@name)", json!({"name": named})),
                (&*format!("FOR d IN `{named}` RETURN d"), json!({})),
            ];
            let writes = [
                ("REMOVE 'k' IN @@c", bound.clone()),
                ("INSERT {} INTO @@c", bound.clone()),
                ("UPDATE 'k' WITH {n: 8} IN @@c", bound.clone()),
                (&*format!("REMOVE 'k' IN `{named}`"), json!({})),
            ];
            let refused = if name == "secret" { &reads[..] } else { &[] };
            for (query, binds) in refused.iter().chain(&writes) {
                // A cached plan of another account must not be used without the right.
                for who in ["guest", "guest", "root", "guest", "guest"] {
                    if who == "root" && !query.starts_with("FOR") && !query.starts_with("RETURN") {
                        continue;
                    }
                    let answer = ask(&mut client, "cursor", who, query, binds);
                    let expected = if who == "root" { 201 } else { 403 };
                    assert_eq!(answer.status, expected, "{who} {query} {named} {}", answer.text());
                }
                let answer = ask(&mut client, "explain", "guest", query, binds);
                let has_plan = !query.contains("@id") && !query.contains("@name");
                assert!(answer.status == 403 || !has_plan, "{query} {named}: {}", answer.text());
            }
        }
        is_untouched(&mut client, name);
    }
}

/// Regression: the list had collections that the account may not read, with their numbers.
#[test]
fn the_list_of_collections_shows_those_that_may_be_read() {
    let (_server, mut client) = guarded();
    let mut list = |who: &str| {
        let answer = call_as(&mut client, who, ("GET", "/_api/collection"), "").json();
        let names = answer["result"].as_array().unwrap().iter().map(|c| c["name"].clone());
        names.filter(|name| !name.as_str().unwrap().starts_with('_')).collect::<Vec<Value>>()
    };
    assert_eq!(list("guest"), ["open", "plan"]);
    assert_eq!(list("root"), ["open", "plan", "secret"]);
}

/// Renaming a collection needs the right to the new name.
#[test]
fn renaming_a_collection_needs_the_right_to_the_new_name() {
    let (_server, mut client) = guarded();
    call_as(&mut client, "root", ("DELETE", "/_api/collection/plan"), "").having(200);
    let mut rename = |body: &str| {
        call_as(&mut client, "guest", ("PUT", "/_api/collection/open/rename"), body).status
    };
    assert_eq!(rename(r#"{"name":"plan"}"#), 403);
    assert_eq!(rename(r#"{"name":"other"}"#), 200);
}

#[test]
fn the_changes_of_a_collection_are_for_those_who_may_read_it() {
    let (_server, mut client) = guarded();
    let told = TestStore::asked_for().status_of_changes();
    // The same by the collection's number.
    let number = number_of(&mut client, "secret");
    for (who, name, status) in [
        ("root", "secret", told),
        ("guest", "plan", told),
        ("guest", "secret", 403),
        ("guest", &*number, 403),
        ("guest", "none", 404),
    ] {
        let target = format!("/v0/changes?since=0&database=d&collection={name}");
        let answer = client.call("GET", &target, &[("Authorization", &*basic(who, who))], b"");
        assert_eq!(answer.status, status, "{who} {name}: {}", answer.text());
    }
    // Changes of entities need the right to their table.
    let guest = [("Authorization", &*basic("guest", "guest"))];
    client.call("GET", "/v0/changes?since=0", &guest, b"").having(403);
}

/// Regression: the right to the database was enough, and the answer showed whether the name
/// existed.
#[test]
fn creating_a_collection_needs_the_right_to_its_name() {
    let (_server, mut client) = guarded();
    for name in ["secret", "plan"] {
        let body = json!({ "name": name }).to_string();
        call_as(&mut client, "guest", ("POST", "/_api/collection"), &body).having(403);
    }
    call_as(&mut client, "guest", ("POST", "/_api/collection"), r#"{"name":"new"}"#).having(200);
}

/// Regression: a cursor returned the rest of its result after its account had lost the right.
#[test]
fn reading_a_cursor_needs_the_right_at_that_time() {
    let (server, mut client) = guarded();
    let put = r#"[{"n":1},{"n":2},{"n":3}]"#;
    assert_eq!(call_as(&mut client, "root", ("POST", "/_api/document/open"), put).status, 202);
    let cursors = [true, false].map(|stream| {
        let query = "FOR d IN open RETURN d.n";
        let body = json!({"query": query, "batchSize": 1, "options": {"stream": stream}});
        let first = call_as(&mut client, "guest", ("POST", "/_api/cursor"), &body.to_string());
        let path = format!("/_api/cursor/{}", first.json()["id"].as_str().unwrap());
        assert_eq!(call_as(&mut client, "guest", ("POST", &path), "").status, 200);
        path
    });
    // This query names the collection only by a value.
    let query = "FOR i IN 1..3 RETURN DOCUMENT('open/k').n";
    let body = json!({"query": query, "batchSize": 1, "options": {"stream": true}});
    let first = call_as(&mut client, "guest", ("POST", "/_api/cursor"), &body.to_string()).json();
    let by_value = format!("/_api/cursor/{}", first["id"].as_str().unwrap());
    take_right(&server, "guest", "database/d/open", "/_db/d/_api/document/open/k");
    call_as(&mut client, "guest", ("POST", &by_value), "").having(403);
    for path in cursors {
        call_as(&mut client, "guest", ("POST", &path), "").having(403);
        assert_eq!(call_as(&mut client, "guest", ("POST", &path), "").status, 404, "it is gone");
    }
}
