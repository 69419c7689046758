//! Authentication and rights, over real sockets.

use std::io::Read;

use crate::common::{
    Client, TestServer, add_account, basic, entity, request, serve, start_with, wait_until,
};
use pellucid_server::access::{Authentication, Right};

/// Starts a server with accounts that may read, write, and see the admin pages. Each password
/// equals the name. Returns also a token of the account that reads.
fn guarded() -> (TestServer, String) {
    let mut token = String::new();
    let running = start_with(|options| {
        let add = |name: &str, scope, right| add_account(&options.data, name, &[(scope, right)]);
        token = add("reader", "table/entities", Right::Read);
        add("writer", "*", Right::Write);
        add("watcher", "admin", Right::Read);
    });
    (running, token)
}

fn status(client: &mut Client, method: &str, target: &str, authorization: &str) -> u16 {
    let headers = [("Authorization", authorization)];
    client.call(method, target, &headers, b"").status
}

#[test]
fn a_401_says_how_to_authenticate() {
    let (server, _) = guarded();
    let mut client = server.client();
    for authorization in
        ["", "Basic !", "Bearer v1.0", &basic("reader", "guess"), &basic("nobody", "nobody")]
    {
        let headers = [("Authorization", authorization)];
        let answer = client.call("GET", &entity("a"), &headers, b"");
        assert_eq!(answer.status, 401, "{authorization}");
        let challenges = answer.headers.iter().filter(|(name, _)| name == "WWW-Authenticate");
        assert_eq!(challenges.count(), 2, "Basic and Bearer");
    }
    let document = client.get("/_api/version");
    assert_eq!((document.status, document.json()["errorNum"].as_u64()), (401, Some(11)));
    let quiet = client.call("GET", "/_api/version", &[("x-omit-www-authenticate", "1")], b"");
    assert_eq!((quiet.status, quiet.header("WWW-Authenticate")), (401, None));
    for open in
        ["/v0/status", "/_admin/server/availability", "/_db/x%2Fy/_admin/server/availability"]
    {
        assert_eq!(client.get(open).status, 200, "a balancer needs no account");
    }
    let log = server.log.lock().unwrap().concat();
    assert!(!log.contains("guess"), "{log}");
}

/// Regression: a request whose password was being verified was shown as one that waits for nothing.
#[test]
fn a_request_whose_password_is_verified_is_shown_as_waiting() {
    let (server, _) = guarded();
    let (mut watcher, authorization) = (server.client(), basic("watcher", "watcher"));
    let mut look = || {
        let headers = [("Authorization", &*authorization)];
        watcher.call("GET", "/_admin/requests", &headers, b"").json()
    };
    look();
    let is_one = |of: &serde_json::Value| {
        let (kind, place) = (&of["waits_for"]["kind"], &of["waits_for"]["place"]);
        *kind == "thread" && place.as_str().is_some_and(|place| place.contains("gate/mod.rs:"))
    };
    // Verifying a password takes processor time, and one thread verifies all of them.
    let mut passwords = (0..).map(|number| basic(&format!("nobody {number}"), "wrong"));
    let is_seen = (0..20).any(|_| {
        let clients: Vec<Client> = passwords
            .by_ref()
            .take(8)
            .map(|password| {
                let mut client = server.client();
                let headers = [("Authorization", &*password)];
                client.send(&request("GET", &entity("a"), &headers, b""));
                client
            })
            .collect();
        let is_seen = look()["requests"].as_array().unwrap().iter().any(is_one);
        clients.into_iter().for_each(|mut client| assert_eq!(client.answer().status, 401));
        is_seen
    });
    assert!(is_seen, "no request waited for its password");
    assert!(!look()["requests"].as_array().unwrap().iter().any(is_one), "they are answered");
}

/// Regression: each log-in occupied a worker of the document API, so queries waited for all of
/// them.
#[test]
fn log_ins_without_credentials_are_limited_and_delay_no_query() {
    let (server, token) = guarded();
    let (token, writer) = (format!("Bearer {token}"), basic("writer", "writer"));
    assert_eq!(status(&mut server.client(), "GET", &entity("a"), &writer), 404);
    let log_ins: Vec<Client> = (0..200)
        .map(|number| {
            let body = format!("{{\"username\":\"reader\",\"password\":\"{number}\"}}");
            server.sent(&request("POST", "/_open/auth", &[], body.as_bytes()))
        })
        .collect();
    let query = ("POST", "/_api/cursor", "{\"query\":\"RETURN 1\"}");
    let headers = [("Authorization", &*writer)];
    server.client().call(query.0, query.1, &headers, query.2).having(201);
    let (mut wrong, mut refused) = (0, 0);
    for mut log_in in log_ins {
        let answer = log_in.answer();
        match answer.status {
            401 => wrong += 1,
            429 => {
                let after: u64 = answer.header("Retry-After").unwrap().parse().unwrap();
                assert!((1..=60).contains(&after), "{after}");
                assert_eq!(answer.json()["code"], 429);
                refused += 1;
            }
            other => panic!("{other} {}", answer.text()),
        }
    }
    assert!(wrong >= 10 && refused >= 100, "{wrong} verified, {refused} refused");
    // Except for these log-ins, the account still works as before.
    assert_eq!(status(&mut server.client(), "GET", &entity("a"), &token), 404);
}

/// Regression: beyond 64 at a time, requests were refused with 429, though all had the same
/// password.
#[test]
fn a_password_that_many_connections_send_at_once_is_verified_for_all() {
    let (server, _) = guarded();
    let authorization = basic("writer", "writer");
    let get = request("GET", &entity("a"), &[("Authorization", &authorization)], b"");
    let clients: Vec<Client> = (0..200).map(|_| server.sent(&get)).collect();
    clients.into_iter().for_each(|mut client| assert_eq!(client.answer().status, 404));
}

/// The first request with a password leaves the connection's buffer while the password is verified:
/// it has to return complete, and in order among the connection's other requests.
#[test]
fn a_request_that_waits_for_its_password_is_served_whole_and_in_order() {
    let (server, token) = guarded();
    let (writer, token) = (basic("writer", "writer"), format!("Bearer {token}"));
    let value = vec![b'x'; 300_000];
    let bytes = [
        request("PUT", &entity("big"), &[("Authorization", &writer)], &value),
        request("GET", &entity("big"), &[("Authorization", &token)], b""),
    ];
    let mut client = server.sent(&bytes.concat());
    assert_eq!(client.answer().status, 201);
    assert_eq!(client.answer().body, value);
}

#[test]
fn a_large_body_without_credentials_is_refused_with_a_reason() {
    let (server, _) = guarded();
    let answer = server.client().put(&entity("a"), vec![0; 1 << 20]);
    assert_eq!(answer.status, 401, "who has an account and forgot to say so must not be told 413");
    let challenges = answer.headers.iter().filter(|(name, _)| name == "WWW-Authenticate");
    assert_eq!(challenges.count(), 2, "Basic and Bearer");
    let head = format!(
        "PUT {} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n",
        entity("a")
    );
    assert_eq!(server.sent(head.as_bytes()).answer().status, 401, "in chunks");
    let open = server.client().call("POST", "/_open/auth", &[], vec![b' '; 1 << 20]);
    assert_eq!(open.status, 413, "an account would not help here");
}

#[test]
fn accounts_that_change_on_the_disk_change_here() {
    let (server, mut client) = serve();
    assert_eq!(client.put(&entity("a"), "1").status, 201, "without accounts it is open");
    add_account(server.folder(), "ada", &[("*", Right::Write)]);
    wait_until(|| client.get(&entity("a")).status, |status| *status == 401);
    assert_eq!(status(&mut client, "GET", &entity("a"), &basic("ada", "ada")), 200);
}

#[test]
fn authentication_can_be_on_without_an_account() {
    let server = start_with(|options| options.authentication = Authentication::On);
    assert_eq!(server.client().get(&entity("a")).status, 401);
}

/// Regression: with any `Authorization`, two silent requests could take all memory for bodies.
#[test]
fn credentials_are_judged_by_the_head() {
    let (server, token) = guarded();
    let head = |authorization: &str, expect: &str| {
        format!(
            "PUT {} HTTP/1.1\r\nHost: a\r\nContent-Length: 60000000\r\n{expect}Authorization: \
             {authorization}\r\n\r\n",
            entity("a")
        )
    };
    let wrong = basic("writer", "guess");
    for authorization in ["x", "Bearer v1.0", "Basic !", &wrong] {
        for expect in ["", "Expect: 100-continue\r\n"] {
            let answer = server.sent(head(authorization, expect).as_bytes()).answer();
            assert_eq!(answer.status, 401, "{authorization}");
        }
    }
    let document = "POST /_api/document/c HTTP/1.1\r\nHost: a\r\nContent-Length: 60000000\r\n\
                    Authorization: x\r\n\r\n";
    let answer = server.sent(document.as_bytes()).answer();
    assert_eq!((answer.status, answer.json()["errorNum"].as_u64()), (401, Some(11)));
    let known = [basic("writer", "writer"), format!("Bearer {token}")];
    for authorization in known {
        let head = head(&authorization, "Expect: 100-continue\r\n");
        let mut begin = [0; 12];
        server.sent(head.as_bytes()).socket.read_exact(&mut begin).unwrap();
        assert_eq!(&begin, b"HTTP/1.1 100");
    }
}

/// Regression: to `Expect: 100-continue`, the server answered with an error about a parameter if
/// the table existed, and with `100 Continue` if it did not.
#[test]
fn a_head_does_not_reveal_which_tables_exist() {
    let (server, token) = guarded();
    let mut client = server.client();
    let writer = basic("writer", "writer");
    assert_eq!(status(&mut client, "PUT", "/v0/tables/there", &writer), 201);
    for table in ["there", "nowhere"] {
        let head = format!(
            "PUT /v0/entity?id=a&table={table}&ttl=x HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\
             Authorization: Bearer {token}\r\nExpect: 100-continue\r\n\r\n"
        );
        let mut told = [0; 12];
        server.sent(head.as_bytes()).socket.read_exact(&mut told).unwrap();
        assert_eq!(&told, b"HTTP/1.1 100", "{table}");
    }
}
