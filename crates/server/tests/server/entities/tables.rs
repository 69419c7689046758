//! `table=NAME`: several tables of entities in one store.

use crate::common::{Client, TestStore, add_account, basic, entity, serve, start_with};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_server::access::Right;
use serde_json::json;

fn in_table(key: &str, table: &str) -> String {
    format!("{}&table={table}", entity(key))
}

fn make(client: &mut Client, table: &str) -> u16 {
    client.call("PUT", &format!("/v0/tables/{table}"), &[], b"").status
}

#[test]
fn tables_hold_the_same_keys_apart() {
    let (server, mut client) = serve();
    assert_eq!(client.get(&in_table("a", "fruit")).status, 404);
    let unknown = client.put(&in_table("a", "fruit"), "1").having(404);
    assert!(unknown.text().contains("/v0/tables/fruit"), "{}", unknown.text());
    assert_eq!([make(&mut client, "fruit"), make(&mut client, "fruit")], [201, 200]);
    assert_eq!(client.put(&in_table("a", "fruit"), "fruit").status, 201);
    assert_eq!(client.put(&entity("a"), "usual").status, 201);
    let server = server.restart();
    let mut client = server.client();
    assert_eq!(client.get(&in_table("a", "fruit")).text(), "fruit");
    assert_eq!(client.get(&in_table("a", "entities")).text(), "usual");
    assert_eq!(client.get(&entity("a")).text(), "usual");
    let tables = client.get("/v0/tables").json();
    assert_eq!(tables, json!({ "tables": ["entities", "fruit"] }));
    let (key, value) = (STANDARD.encode("b"), STANDARD.encode("batch"));
    let line = json!({ "op": "put", "key": key, "value": value });
    client.call("POST", "/v0/batch?table=fruit", &[], line.to_string()).having(200);
    assert_eq!(client.get("/v0/entities?table=fruit&start=a").text(), "a\nfruitb\nbatch");
    assert_eq!(client.get("/v0/entities?start=a").text(), "a\nusual");
    let keys = json!({ "key": STANDARD.encode("b") }).to_string();
    let found = client.call("POST", "/v0/entities/get?table=fruit", &[], &keys);
    assert!(found.text().contains(&STANDARD.encode("batch")), "{}", found.text());
    let missing = client.call("POST", "/v0/entities/get", &[], &keys);
    assert!(missing.text().contains("\"found\":false"), "{}", missing.text());
    let emptied = client.call("DELETE", "/v0/tables/fruit", &[], b"");
    assert_eq!(emptied.json(), json!({ "removed": 2 }));
    assert_eq!(client.get(&in_table("a", "fruit")).status, 404);
    assert_eq!(client.get(&entity("a")).text(), "usual");
}

#[test]
fn a_table_that_is_large_is_emptied_whole() {
    let (_server, mut client) = serve();
    make(&mut client, "large");
    let lines = (0..2_001).map(|number| {
        let key = STANDARD.encode(format!("k{number}"));
        json!({ "op": "put", "key": key, "value": "" }).to_string()
    });
    let lines: Vec<_> = lines.collect();
    client.call("POST", "/v0/batch?table=large", &[], lines.join("\n")).having(200);
    let emptied = client.call("DELETE", "/v0/tables/large", &[], b"");
    assert_eq!(emptied.json(), json!({ "removed": 2_001 }));
    assert_eq!(client.get("/v0/entities?table=large&start=%00").text(), "");
}

#[test]
fn no_name_reaches_an_internal_table_of_the_server() {
    let (_server, mut client) = serve();
    for name in ["documents", "..", "a%2Fb", "entities%2Fx", "", "%00", "catalogue"] {
        let answer = client.get(&format!("/v0/entity?id=a&table={name}"));
        assert!(matches!(answer.status, 400 | 404), "{name}: {} {}", answer.status, answer.text());
        let put = client.put(&format!("/v0/entity?id=a&table={name}"), "x");
        assert!(matches!(put.status, 400 | 404), "{name}: {} {}", put.status, put.text());
    }
    assert_eq!(client.get("/v0/entity?id=a&table=b&table=c").status, 400);
    assert_eq!(make(&mut client, &"n".repeat(65)), 400);
    assert_eq!(make(&mut client, "entities"), 200);
}

#[test]
fn a_table_is_for_those_who_have_a_right_to_it() {
    let server = start_with(|options| {
        let add = |name: &str, grants: &[_]| add_account(&options.data, name, grants);
        add("root", &[("*", Right::Write)]);
        add("guest", &[("table/open", Right::Write), ("table/shown", Right::Read)]);
    });
    let mut client = server.client();
    let mut call = |who: &str, method: &str, target: &str| {
        let authorization = basic(who, who);
        client.call(method, target, &[("Authorization", &authorization)], b"x").status
    };
    for table in ["open", "shown", "secret"] {
        assert_eq!(call("root", "PUT", &format!("/v0/tables/{table}")), 201);
        assert_eq!(call("root", "PUT", &in_table("a", table)), 201);
    }
    for (method, table, status) in [
        ("GET", "open", 200),
        ("PUT", "open", 201),
        ("GET", "shown", 200),
        ("PUT", "shown", 403),
        ("GET", "secret", 403),
        ("PUT", "secret", 403),
        ("GET", "none", 403),
        ("GET", "entities", 403),
    ] {
        assert_eq!(call("guest", method, &in_table("a", table)), status, "{method} {table}");
    }
    assert_eq!(call("guest", "GET", "/v0/changes?since=0&table=secret"), 403);
    let told = TestStore::asked_for().status_of_changes();
    assert_eq!(call("guest", "GET", "/v0/changes?since=0&table=open"), told);
    assert_eq!(call("guest", "PUT", "/v0/tables/other"), 403);
    assert_eq!(call("guest", "DELETE", "/v0/tables/shown"), 403);
    let authorization = basic("guest", "guest");
    let listed = client.call("GET", "/v0/tables", &[("Authorization", &authorization)], b"");
    assert_eq!(listed.json(), json!({ "tables": ["open", "shown"] }));
}
