//! Which collections a query may read and write: those of its text, and those that only its values
//! name.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use common::{Answer, Client, Running, start_with};
use pellucid_server::access::{AccessError, AccountFile, AccountRecord, Right};
use serde_json::{Value, json};

fn basic(name: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{name}")))
}

/// A server with a database `d` of two collections, of which one is kept from the account `guest`
/// and is there for `root`; each one's password is its name.
fn guarded() -> (Running, Client) {
    let server = start_with(|options| {
        let file = AccountFile::new(&options.data);
        let add = |name: &str, grants: &[(&str, Right)]| {
            let mut account = AccountRecord::new(name)?;
            account.set_password(name)?;
            for (scope, right) in grants {
                account.grants.set(scope, *right).map_err(AccessError::Unacceptable)?;
            }
            file.change(|list| list.add(account))
        };
        add("root", &[("*", Right::Write), ("admin", Right::Write)]).unwrap();
        let grants = [
            ("database/d", Right::Write),
            ("database/d/secret", Right::None),
            ("database/d/plan", Right::Read),
        ];
        add("guest", &grants).unwrap();
    });
    let mut client = server.client();
    let mut make = |target: &str, body: &Value| {
        let headers = [("Authorization", &*basic("root"))];
        let answer = client.call("POST", target, &headers, body.to_string());
        assert!(answer.status < 300, "{target}: {}", answer.text());
    };
    make("/_api/database", &json!({"name": "d"}));
    for name in ["open", "secret", "plan"] {
        make("/_db/d/_api/collection", &json!({"name": name}));
        let document = json!({"_key": "k", "n": 7});
        make(&format!("/_db/d/_api/document/{name}"), &document);
    }
    (server, client)
}

fn ask(client: &mut Client, call: &str, who: &str, query: &str, binds: &Value) -> Answer {
    let body = json!({"query": query, "bindVars": binds}).to_string();
    let headers = [("Authorization", &*basic(who))];
    client.call("POST", &format!("/_db/d/_api/{call}"), &headers, body)
}

/// `DOCUMENT` and `COLLECTION_COUNT` asked nobody, and gave what a grant keeps from the account.
#[test]
fn a_query_reads_no_collection_that_is_kept_from_its_account() {
    let (server, mut client) = guarded();
    let root = server.client().call(
        "GET",
        "/_db/d/_api/collection/secret",
        &[("Authorization", &basic("root"))],
        b"",
    );
    let id = root.json()["id"].as_str().unwrap().to_owned();
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

/// A plan tells how many documents there are, and which indexes.
#[test]
fn a_plan_is_shown_to_who_may_run_it() {
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
