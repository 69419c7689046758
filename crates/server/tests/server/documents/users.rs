//! `/_api/user`: accounts are created, changed and removed as ArangoDB's drivers do it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::common::{Answer, Client, TestServer, add_account, basic, number, serve, start_with};
use pellucid_server::access::{AccountFile, Right};
use serde_json::{Value, json};

/// Starts a server whose account `root` may do everything; its password is its name.
fn guarded() -> (TestServer, Client) {
    let all = [("*", Right::Write), ("admin", Right::Write)];
    let server = start_with(|options| drop(add_account(&options.data, "root", &all)));
    let client = server.client();
    (server, client)
}

fn call_as(client: &mut Client, who: (&str, &str), call: (&str, &str), body: &Value) -> Answer {
    let headers = [("Authorization", &*basic(who.0, who.1))];
    client.call(call.0, call.1, &headers, body.to_string())
}

#[test]
fn users_are_made_changed_and_removed() {
    let (_server, mut client) = guarded();
    let root = ("root", "root");
    let mut admin = |method: &str, target: &str, body: &Value| {
        call_as(&mut client, root, (method, target), body)
    };
    let ada = json!({"user": "ada", "passwd": "first", "extra": {"team": 7}});
    let made = admin("POST", "/_api/user", &ada);
    let expected = json!({
        "user": "ada", "active": true, "extra": {"team": 7}, "error": false, "code": 201,
    });
    assert_eq!((made.status, made.json()), (201, expected));
    assert_eq!(number(&admin("POST", "/_api/user", &ada)), (409, 1702));
    for bad in ["", "a/b", "a:b"] {
        let body = json!({"user": bad, "passwd": "x"});
        assert_eq!(number(&admin("POST", "/_api/user", &body)), (400, 1700), "{bad}");
    }
    let list = admin("GET", "/_api/user", &json!({})).json();
    let names: Vec<_> =
        list["result"].as_array().unwrap().iter().map(|user| &user["user"]).collect();
    assert!(names.contains(&&json!("ada")) && names.contains(&&json!("root")), "{list}");
    // Regression: a number in `extra` was rounded twice.
    let body = json!({"extra": {"share": 0.38120423768821243}});
    let shared = admin("PATCH", "/_api/user/ada", &body);
    assert!(shared.text().contains("{\"share\":0.38120423768821243}"), "{}", shared.text());
    // PATCH changes some members, and keeps the others.
    let changed = admin("PATCH", "/_api/user/ada", &json!({"extra": {"team": 8}}));
    assert_eq!((changed.status, &changed.json()["extra"]), (200, &json!({"team": 8})));
    let login = |client: &mut Client, password: &str| {
        let body = json!({"username": "ada", "password": password}).to_string();
        client.call("POST", "/_open/auth", &[], body).status
    };
    assert_eq!(login(&mut client, "first"), 200);
    // PUT replaces all members; those not given get their defaults.
    let replaced =
        call_as(&mut client, root, ("PUT", "/_api/user/ada"), &json!({"passwd": "next"}));
    assert_eq!((replaced.status, &replaced.json()["extra"]), (200, &json!({})));
    assert_eq!((login(&mut client, "first"), login(&mut client, "next")), (401, 200));
    // An account may change its own password, but no other.
    let own = ("ada", "next");
    let body = json!({"passwd": "own"});
    assert_eq!(call_as(&mut client, own, ("PATCH", "/_api/user/ada"), &body).status, 200);
    let own = ("ada", "own");
    for call in [
        ("PATCH", "/_api/user/root"),
        ("PUT", "/_api/user/ada"),
        ("DELETE", "/_api/user/ada"),
        ("POST", "/_api/user"),
    ] {
        assert_eq!(number(&call_as(&mut client, own, call, &body)), (403, 11), "{call:?}");
    }
    let off = json!({"active": false});
    let inactive = call_as(&mut client, root, ("PATCH", "/_api/user/ada"), &off);
    assert_eq!((inactive.status, &inactive.json()["active"]), (200, &json!(false)));
    assert_eq!(login(&mut client, "own"), 401);
    let gone = call_as(&mut client, root, ("DELETE", "/_api/user/ada"), &json!({}));
    assert_eq!((gone.status, gone.json()), (202, json!({"error": false, "code": 202})));
    for method in ["GET", "PUT", "PATCH", "DELETE"] {
        let answer = call_as(&mut client, root, (method, "/_api/user/ada"), &json!({}));
        assert_eq!(number(&answer), (404, 1703), "{method}");
    }
}

/// Regression: a number as password gave the account the empty one, so anyone could log in.
#[test]
fn a_password_that_is_not_a_string_is_refused() {
    let (_server, mut client) = guarded();
    let mut admin = |method: &str, target: &str, body: &Value| {
        call_as(&mut client, ("root", "root"), (method, target), body)
    };
    let bad = [
        json!({"user": "ada", "passwd": 12345}),
        json!({"user": "ada", "passwd": null, "password": ["x"]}),
        json!({"user": "ada", "passwd": "x", "active": "false"}),
    ];
    for body in &bad {
        assert_eq!(admin("POST", "/_api/user", body).status, 400, "{body}");
    }
    let made =
        admin("POST", "/_api/user", &json!({"user": "ada", "passwd": null, "password": "s"}));
    assert_eq!(made.status, 201);
    for body in &bad {
        for method in ["PUT", "PATCH"] {
            assert_eq!(admin(method, "/_api/user/ada", body).status, 400, "{method} {body}");
        }
    }
    // Regression: a body that was not an object gave the account the empty password.
    for body in [json!([{"passwd": "x"}]), Value::Null, json!({"passwd": "s", "extra": 7})] {
        for method in ["PUT", "PATCH"] {
            assert_eq!(admin(method, "/_api/user/ada", &body).status, 400, "{method} {body}");
        }
    }
    let root = [("Authorization", &*basic("root", "root"))];
    assert_eq!(client.call("PUT", "/_api/user/ada", &root, "").status, 400);
    // Regression: an account without a password had the empty one.
    call_as(&mut client, ("root", "root"), ("POST", "/_api/user"), &json!({"user": "bob"}))
        .having(201);
    let body = json!({"username": "bob", "password": ""}).to_string();
    assert_eq!(client.call("POST", "/_open/auth", &[], body).status, 401);
    for (password, status) in [("", 401), ("s", 200)] {
        let body = json!({"username": "ada", "password": password}).to_string();
        assert_eq!(client.call("POST", "/_open/auth", &[], body).status, status, "{password}");
    }
}

/// Regression: an account that existed got no right to the new database.
#[test]
fn the_users_of_a_new_database_may_write_to_it() {
    let (_server, mut client) = guarded();
    let mut make = |target: &str, body: &Value| {
        call_as(&mut client, ("root", "root"), ("POST", target), body).having(201)
    };
    make("/_api/user", &json!({"user": "ada", "passwd": "first"}));
    let users = json!([
        {"username": "ada", "passwd": "next", "active": false},
        {"username": "bob", "passwd": "own"},
    ]);
    make("/_api/database", &json!({"name": "d", "users": users}));
    // The password and the state of an account that existed stay.
    for who in [("ada", "first"), ("bob", "own")] {
        let collection = json!({"name": who.0});
        let made = call_as(&mut client, who, ("POST", "/_db/d/_api/collection"), &collection);
        assert_eq!(made.status, 200, "{}", made.text());
    }
    // The rights end with the database.
    call_as(&mut client, ("root", "root"), ("DELETE", "/_api/database/d"), &json!({})).having(200);
    let again = json!({"name": "d"});
    call_as(&mut client, ("root", "root"), ("POST", "/_api/database"), &again).having(201);
    let refused =
        call_as(&mut client, ("ada", "first"), ("GET", "/_db/d/_api/collection"), &json!({}));
    assert_eq!(number(&refused), (401, 11), "{}", refused.text());
}

/// Regression: if the grants for a dropped database could not be removed, a later one of its name
/// was open to the same accounts, however often the drop was called again.
#[test]
fn a_repeated_drop_removes_the_grants_that_the_first_one_left() {
    let (server, mut client) = guarded();
    let mut admin = |method: &str, target: &str, body: Value| {
        call_as(&mut client, ("root", "root"), (method, target), &body)
    };
    let users = json!([{"username": "ada", "passwd": "own"}]);
    admin("POST", "/_api/database", json!({"name": "d", "users": users})).having(201);
    let file = AccountFile::new(server.folder());
    let set_mode =
        |mode| std::fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
    set_mode(0o640);
    assert_eq!(number(&admin("DELETE", "/_api/database/d", json!({}))), (500, 4));
    set_mode(0o600);
    // The server may not have noticed these yet.
    let grants = [("database/d/c", Right::Read), ("database/*", Right::Read)];
    add_account(server.folder(), "bob", &grants);
    for name in ["d", "*"] {
        let gone = admin("DELETE", &format!("/_api/database/{name}"), json!({}));
        assert_eq!(number(&gone), (404, 1228), "{name}");
    }
    let list = file.read().unwrap();
    let left: Vec<_> = list.accounts().iter().flat_map(|account| account.grants.iter()).collect();
    let others = [("database/*", Right::Read), ("*", Right::Write), ("admin", Right::Write)];
    assert_eq!(left, others);
    let database = json!({"name": "d"});
    admin("POST", "/_api/database", database).having(201);
    let refused =
        call_as(&mut client, ("ada", "own"), ("GET", "/_db/d/_api/collection"), &json!({}));
    assert_eq!(number(&refused), (401, 11), "{}", refused.text());
}

/// Regression: a short-lived token could set a permanent password.
#[test]
fn a_token_sets_no_password() {
    let (_server, mut client) = guarded();
    let log_in = json!({"username": "root", "password": "root"}).to_string();
    let token = client.call("POST", "/_open/auth", &[], log_in).json()["jwt"].clone();
    let bearer = format!("Bearer {}", token.as_str().unwrap());
    let mut by_token = |method: &str, target: &str, body: Value| {
        client.call(method, target, &[("Authorization", &*bearer)], body.to_string())
    };
    let made = by_token("POST", "/_api/user", json!({"user": "ada", "passwd": "first"}));
    assert_eq!(made.status, 201, "an account without any right");
    for (method, target) in
        [("PATCH", "/_api/user/root"), ("PATCH", "/_api/user/ada"), ("PUT", "/_api/user/ada")]
    {
        let refused = by_token(method, target, json!({"passwd": "taken over"}));
        assert_eq!(number(&refused), (403, 11), "{method} {target}");
        assert!(refused.text().contains("Basic"), "{}", refused.text());
    }
    // Nor can a token create an account that has a right and a password.
    let users = json!({"name": "d", "users": [{"username": "me", "passwd": "mine"}]});
    assert_eq!(number(&by_token("POST", "/_api/database", users)), (403, 11));
    // Nor can it give a right to an account that exists; one with the right may be named.
    let database = |user: &str| json!({"name": "d", "users": [{"username": user}]});
    assert_eq!(number(&by_token("POST", "/_api/database", database("ada"))), (403, 11));
    assert_eq!(by_token("POST", "/_api/database", database("root")).status, 201);
    // The existing password and rights are unchanged.
    assert_eq!(by_token("PUT", "/_api/user/root", json!({})).status, 403);
    assert_eq!(by_token("PATCH", "/_api/user/ada", json!({"extra": {"team": 7}})).status, 200);
    let body = json!({"passwd": "next"});
    call_as(&mut client, ("root", "root"), ("PATCH", "/_api/user/root"), &body).having(200);
}

/// Regression: the fault of the file was answered as one of the client.
#[test]
fn accounts_that_others_can_read_fail_a_change() {
    let (server, mut client) = guarded();
    let path = AccountFile::new(server.folder()).path();
    let mut change_at = |mode| {
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let call = ("PATCH", "/_api/user/root");
        call_as(&mut client, ("root", "root"), call, &json!({"active": true}))
    };
    let failed = change_at(0o640);
    assert_eq!(number(&failed), (500, 4));
    assert!(failed.text().contains("chmod 600"), "{}", failed.text());
    change_at(0o600).having(200);
}

/// The first account would lock out the client that creates it.
#[test]
fn a_server_without_accounts_creates_no_users() {
    let (_server, mut client) = serve();
    for (method, target) in [
        ("POST", "/_api/user"),
        ("PUT", "/_api/user/ada"),
        ("PATCH", "/_api/user/ada"),
        ("DELETE", "/_api/user/ada"),
    ] {
        let answer = client.call(method, target, &[], br#"{"user":"ada"}"#);
        assert_eq!(number(&answer), (403, 11), "{method}");
    }
}
