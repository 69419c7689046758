//! Attacks on authentication and authorization.

use serde_json::json;

use super::attack_servers::{ADMINISTRATOR, AttackServers, READER, WRITER};
use super::raw::{Attack, NamedAttack, connect, send, statuses};
use crate::common::client::{Answer, basic};
use crate::common::until_closed;

fn call(arena: &AttackServers, who: &str, method: &str, target: &str, body: &str) -> Answer {
    let headers = [("Authorization", &*basic(who, who))];
    arena.guarded.client().call(method, target, &headers, body)
}

/// Checks that these credentials, which belong to no account, are answered with 401.
fn is_unknown(arena: &AttackServers, credentials: &str) {
    let headers = [("Authorization", credentials)];
    let status = arena.guarded.client().call("GET", "/_api/version", &headers, "").status;
    assert_eq!(status, 401, "{credentials}");
}

/// Returns the number of the collection that only the administrator may see.
fn secret_number(arena: &AttackServers) -> String {
    let answer = call(arena, ADMINISTRATOR, "GET", "/_api/collection/secret", "");
    answer.json()["id"].as_str().unwrap().to_owned()
}

/// Calls to the hidden collection that a writer makes with its number, which replaces `{}`.
const BY_NUMBER: &[(&str, &str, &str)] = &[
    ("GET", "/_api/document/{}/k", ""),
    ("HEAD", "/_api/document/{}/k", ""),
    ("POST", "/_api/document/{}", "{}"),
    ("POST", "/_api/document?collection={}", "{}"),
    ("PUT", "/_api/document/{}/k", "{}"),
    ("PATCH", "/_api/document/{}/k", "{}"),
    ("DELETE", "/_api/document/{}/k", ""),
    ("PUT", "/_api/document/{}?onlyget=true", "[\"k\"]"),
    ("POST", "/_api/import?collection={}&type=documents", "{}"),
    ("GET", "/_api/index?collection={}", ""),
    ("POST", "/_api/index?collection={}", "{\"type\":\"persistent\",\"fields\":[\"n\"]}"),
    ("GET", "/_api/collection/{}", ""),
    ("GET", "/_api/collection/{}/count", ""),
    ("GET", "/_api/collection/{}/properties", ""),
    ("GET", "/_api/collection/{}/revision", ""),
    ("PUT", "/_api/collection/{}/truncate", ""),
    ("PUT", "/_api/collection/{}/rename", "{\"name\":\"mine\"}"),
    ("PUT", "/_api/collection/{}/properties", "{}"),
    ("DELETE", "/_api/collection/{}", ""),
];

/// Paths that the access check and the router could interpret differently.
const SPELLINGS: &[&str] = &[
    "/_db/x%2F_open%2Fy/_admin/status",
    "/_db/_system%2F_open/_api/collection",
    "/_db/_open/_api/collection",
    "/_open/../_api/collection",
    "/_open/%2e%2e/_api/collection",
    "//_api/collection",
    "/_api//collection",
    "/./_api/collection",
    "/%5fapi/collection",
    "/_api%2Fcollection",
    "/_db/_system/_open/auth/../../_api/collection",
    "/_db//_api/collection",
    "/_db/_system/_db/_system/_api/collection",
    "/_admin/metrics",
    "/_admin/account",
    "/_admin/engine",
    "/_admin/%65ngine",
    "/metrics",
    "/metrics/",
    "/debug/pprof/heap",
    "/v0/entity?id=a",
    "/v0/%65ntity?id=a",
    "/v0/entities",
    "/v0/cluster",
    "/v0/status/../entity?id=a",
    "/_api/user",
    "/_api/query/current",
    "/_api/cursor/1",
];

pub(crate) fn attacks() -> Vec<Attack> {
    let by_number = BY_NUMBER.iter().map(|(method, target, body)| {
        Attack::new(format!("access: {method} {target} by a number"), move |arena| {
            let target = target.replace("{}", &secret_number(arena));
            let status = call(arena, WRITER, method, &target, body).status;
            assert!(matches!(status, 401 | 403 | 404), "{method} {target}: {status}");
            let value = call(arena, ADMINISTRATOR, "GET", "/_api/document/secret/k", "");
            assert_eq!(value.json()["n"], 1, "{method} {target} changed what is hidden");
        })
    });
    let spelled = SPELLINGS.iter().map(|path| {
        Attack::new(format!("access: nobody asks for {path}"), move |arena| {
            let status = arena.guarded.client().get(path).status;
            assert!(matches!(status, 400 | 401 | 404), "{path}: {status}");
        })
    });
    let others: [NamedAttack; 12] = [
        ("a reader replaces with onlyget", |arena| {
            let status =
                call(arena, READER, "PUT", "/_api/document/c/k?onlyget=1", "{\"n\":2}").status;
            assert!(matches!(status, 400 | 401 | 403), "{status}");
            assert_eq!(call(arena, READER, "GET", "/_api/document/c/k", "").json()["n"], 1);
        }),
        ("a reader writes by a query", |arena| {
            let body = json!({"query": "INSERT {} INTO c"}).to_string();
            assert_eq!(call(arena, READER, "POST", "/_api/cursor", &body).status, 403);
        }),
        ("a query reads what is hidden, by a number", |arena| {
            let number = secret_number(arena);
            let body = json!({
                "query": "FOR d IN @@c RETURN d",
                "bindVars": {"@c": number},
            });
            let status = call(arena, WRITER, "POST", "/_api/cursor", &body.to_string()).status;
            assert!(matches!(status, 400 | 403 | 404), "{status}");
        }),
        ("a function reads what is hidden", |arena| {
            let number = secret_number(arena);
            for id in ["secret/k".to_owned(), format!("{number}/k")] {
                let body = json!({"query": "RETURN DOCUMENT(@id)", "bindVars": {"id": id}});
                let answer = call(arena, WRITER, "POST", "/_api/cursor", &body.to_string());
                let is_hidden = answer.status == 403 || answer.json()["result"][0].is_null();
                assert!(is_hidden, "{}", answer.text());
            }
        }),
        ("another account's cursor", |arena| {
            let body = json!({"query": "FOR i IN 1..10 RETURN i", "batchSize": 1}).to_string();
            let made = call(arena, ADMINISTRATOR, "POST", "/_api/cursor", &body);
            let target = format!("/_api/cursor/{}", made.json()["id"].as_str().unwrap());
            for method in ["PUT", "POST", "DELETE"] {
                assert_eq!(call(arena, READER, method, &target, "").status, 404, "{method}");
            }
            assert_eq!(call(arena, ADMINISTRATOR, "DELETE", &target, "").status, 202);
        }),
        ("a reader makes an account", |arena| {
            let body = json!({"user": "mine", "passwd": "mine"}).to_string();
            let status = call(arena, READER, "POST", "/_api/user", &body).status;
            assert!(matches!(status, 401 | 403), "{status}");
        }),
        ("a reader makes a database", |arena| {
            let status =
                call(arena, READER, "POST", "/_api/database", "{\"name\":\"mine\"}").status;
            assert!(matches!(status, 401 | 403), "{status}");
        }),
        ("a wrong password", |arena| is_unknown(arena, &basic("nobody", "nobody"))),
        ("a token of no algorithm", |arena| {
            // {"alg":"none"} . {"preferred_username":"root","exp":9999999999} .
            let claims = "eyJwcmVmZXJyZWRfdXNlcm5hbWUiOiJyb290IiwiZXhwIjo5OTk5OTk5OTk5fQ";
            is_unknown(arena, &format!("Bearer eyJhbGciOiJub25lIn0.{claims}."));
        }),
        ("credentials of noise", |arena| {
            for value in
                ["Basic", "Basic ====", "Basic AAAA", "Bearer", "x", "Negotiate abc", "Basic :"]
            {
                is_unknown(arena, value);
            }
        }),
        ("a log-in of brackets", |arena| {
            let body = "[".repeat(60_000);
            let status = arena.guarded.client().call("POST", "/_open/auth", &[], body).status;
            assert_eq!(status, 400);
        }),
        ("60 wrong log-ins at once", wrong_log_ins),
    ];
    let named = |(name, run): NamedAttack| Attack::new(format!("access: {name}"), run);
    by_number.chain(spelled).chain(others.map(named)).chain(origins()).collect()
}

/// Checks that wrong passwords do not delay clients whose password was verified before.
fn wrong_log_ins(arena: &AttackServers) {
    let threads: Vec<_> = (0..60)
        .map(|at| {
            let mut client = arena.guarded.client();
            let body = json!({"username": format!("nobody{at}"), "password": "x"}).to_string();
            std::thread::spawn(move || client.call("POST", "/_open/auth", &[], body).status)
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(call(arena, READER, "GET", "/_api/document/c/k", "").status, 200);
    }
    for thread in threads {
        let status = thread.join().unwrap();
        assert!(matches!(status, 401 | 429 | 503), "{status}");
    }
}

/// Requests from pages of other sites, in the browser of a developer whose server has no accounts.
fn origins() -> Vec<Attack> {
    let foreign: [(&str, &[(&str, &str)]); 4] = [
        ("an origin of another site", &[("Origin", "https://evil.example")]),
        ("an origin of nowhere", &[("Origin", "null")]),
        (
            "another site, as the browser says",
            &[("Sec-Fetch-Site", "cross-site"), ("Origin", "http://evil.example")],
        ),
        ("another port of this machine", &[("Origin", "http://127.0.0.1:1")]),
    ];
    let foreign = foreign.into_iter().map(|(name, more)| {
        Attack::new(format!("access: a page of {name} writes"), move |arena| {
            let headers = [&[("Content-Type", "text/plain")][..], more].concat();
            let mut client = arena.open.client();
            let answer = client.call("PUT", "/v0/entity?id=foreign", &headers, "x");
            assert_eq!(answer.status, 403, "{}", answer.text());
            let answer =
                client.call("POST", "/_api/document/c", &headers, "{\"_key\":\"foreign\"}");
            assert_eq!(answer.status, 403, "{}", answer.text());
            assert_eq!(client.get("/v0/entity?id=foreign").status, 404);
        })
    });
    let rebound = Attack::new("access: a name that was bound to this machine", |arena| {
        let mut socket = connect(arena.open.address);
        let request =
            "GET /v0/entity?id=watched HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
        send(&mut socket, request.as_bytes());
        let statuses = statuses(&until_closed(&mut socket));
        assert!(matches!(statuses[..], [403 | 421]), "{statuses:?}");
    });
    foreign.chain([rebound]).collect()
}
