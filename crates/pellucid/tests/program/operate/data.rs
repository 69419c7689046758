//! Tests of `get`, `put`, `delete`, `scan` and `query` against the built server.

use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

use pellucid_client::http::TlsOptions;
use pellucid_client::{Client, ClientError, ClientOptions, Credentials};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::tls::{certificate, write_private};
use crate::common::{
    TestServer, account, done, entity, failed, feed, finish, pellucid, run, serve, spawn, text,
};

/// Checks that a command fails and prints nothing to standard output.
pub(super) fn fails(arguments: &[&str], code: i32, cure: &str) {
    let output = run(arguments);
    failed(&output, code, cure);
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
}

pub(super) fn lines(output: &Output) -> Vec<Value> {
    done(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn entities_go_in_and_out_byte_for_byte() {
    let folder = TempDir::new().unwrap();
    let server = TestServer::start(folder.path(), &[]);
    let url = &server.url();
    let bytes: Vec<u8> = (0..=255).cycle().take(3 << 20).collect();
    assert_eq!(done(&feed(&["put", url, "a b/ü?&"], &bytes)), "");
    assert!(run(&["get", url, "a b/ü?&"]).stdout == bytes);
    done(&run(&["put", url, "empty", "", "--sync", "disk"]));
    assert_eq!(done(&run(&["get", url, "empty"])), "");
    let file = folder.path().join("value");
    std::fs::write(&file, "of a file").unwrap();
    done(&run(&["put", url, "file", "--file", file.to_str().unwrap(), "--ttl", "3600"]));
    assert_eq!(done(&run(&["get", url, "file"])), "of a file");
    fails(&["get", url, "nothing"], 4, "no entity `nothing`");
    fails(&["get", url, ""], 2, "empty");
    fails(&["put", url, "file", "x", "--if-absent"], 5, "nothing was changed");
    fails(&["put", url, "file", "x", "--if-match", "1234567"], 5, "nothing was changed");
    fails(&["put", url, "file", "x", "--if-match", "a\r\nb"], 2, "such as 7");
    fails(&["put", url, "x", "--file", "/nowhere"], 1, "/nowhere");
    assert_eq!(done(&run(&["get", url, "file"])), "of a file");
    let listed = lines(&run(&["scan", url, "--prefix", "file"]));
    let etag = listed[0]["etag"].as_str().unwrap();
    done(&run(&["put", url, "file", "newer", "--if-match", etag]));
    fails(&["delete", url, "file", "--if-match", etag], 5, "nothing was changed");
    done(&run(&["delete", url, "file"]));
    done(&run(&["delete", url, "file"]));
    fails(&["get", url, "file"], 4, "no entity");
}

#[test]
fn ranges_are_lines_of_json_or_keys() {
    let (_folder, server) = serve(&[]);
    let url = &server.url();
    let mut client = server.client();
    for key in 0..3_000 {
        let path = entity(format!("k{key:04}"));
        assert_eq!(client.put(&path, format!("{key}").repeat(100)).status, 201);
    }
    for (key, value) in [(&b"a"[..], &b"text"[..]), (b"\xff", b"\xfe")] {
        assert_eq!(client.put(&entity(key), value).status, 201);
    }
    let all = lines(&run(&["scan", url]));
    assert_eq!(all.len(), 3_002);
    assert_eq!((&all[0]["key"], &all[0]["value"]), (&json!("a"), &json!("text")));
    assert_eq!(all[3_001]["key_base64"], "/w==");
    assert_eq!(all[3_001]["value_base64"], "/g==");
    let keys = |arguments: &[&str]| {
        let output = run(&[&["scan", url, "--keys"], arguments].concat());
        done(&output).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(keys(&["--prefix", "k001"]).len(), 10);
    assert_eq!(keys(&["--start", "k2998", "--end", "k3", "--reverse"]), ["k2999", "k2998"]);
    assert_eq!(keys(&["--limit", "1"]), ["a"]);
    assert_eq!(keys(&["--prefix", "nothing"]).len(), 0);
    // A reader that closes its pipe early is not a failure.
    let mut child = spawn(&mut pellucid(&["scan", url]));
    drop(child.stdout.take());
    done(&child.wait_with_output().unwrap());
}

#[test]
fn results_of_queries_are_lines_as_the_server_wrote_them() {
    let (_folder, server) = serve(&[]);
    let url = &server.url();
    let ask = |query: &str, more: &[&str]| run(&[&["query", url, query], more].concat());
    assert_eq!(
        done(&ask("RETURN {b: 1.5, a: [@x]}", &["--bind", "x={\"z\":1}"])),
        "{\"b\":1.5,\"a\":[{\"z\":1}]}\n"
    );
    let many = lines(&ask("FOR i IN 1..2500 RETURN i", &[]));
    assert_eq!((many.len(), &many[2_499]), (2_500, &json!(2_500)), "more than one batch");
    assert_eq!(done(&feed(&["query", url], b"FOR i IN [] RETURN i")), "");
    fails(&["query", url, "RETURN"], 1, "1501");
    fails(&["query", url, "RETURN 1", "--database", "none"], 1, "1228");
    fails(&["query", url, "RETURN @x", "--bind", "x"], 2, "age=30");
    fails(&["query", url, "RETURN @x", "--bind", "x=y"], 2, "age=30");
}

#[test]
fn a_command_without_its_server_names_the_cause_and_the_cure() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let token = {
        done(&account(&data, &["add", "ada", "--grant", "table/entities=read"], "secret\n"));
        done(&account(&data, &["token", "add", "ada", "ci"], "")).trim().to_owned()
    };
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    write_private(file("token").as_ref(), &format!("{token}\n"));
    write_private(file("password").as_ref(), "secret\n");
    let (certificate, key) = certificate(folder.path());
    let server = TestServer::start(&data, &["--tls-cert", &certificate, "--tls-key", &key]);
    let port = server.address.port();
    let secured = &format!("https://localhost:{port}");
    fails(&["get", secured, "k"], 1, "--ca");
    fails(&["get", secured, "k", "--insecure"], 1, "--token-file");
    fails(&["get", &format!("http://localhost:{port}"), "k"], 1, "https://");
    // Regression: the word in the key got the advice to trust the certificate.
    for key in ["k", "certificate"] {
        fails(&["get", "http://127.0.0.1:1", key], 1, "pellucid serve");
    }
    fails(&["get", "127.0.0.1:1", "k"], 2, "http://, https:// or unix:");
    let plain = TestServer::start(&folder.path().join("plain"), &[]);
    let plain_port = plain.address.port();
    fails(&["get", &format!("https://localhost:{plain_port}"), "k", "--insecure"], 1, "http://");
    fails(&["get", &plain.url(), "k", "--table", "nope"], 1, "there is no table");
    plain.stop();
    fails(&["get", &format!("{secured}/v0"), "k"], 2, "URL alone");
    fails(&["get", secured, "k", "--user", "ada"], 2, "--password-file");
    let trusted = ["--ca", &certificate];
    for credentials in [
        &["--token-file", &file("token")][..],
        &["--token", &token],
        &["--user", "ada", "--password-file", &file("password")],
    ] {
        fails(&[&["get", secured, "k"], &trusted[..], credentials].concat(), 4, "no entity");
    }
    let mut by_environment = pellucid(&["get", secured, "k", "--ca", &certificate]);
    by_environment.env("PELLUCID_TOKEN_FILE", file("token"));
    assert_eq!(finish(by_environment).status.code(), Some(4));
    let put = ["put", secured, "k", "v", "--ca", &certificate, "--token", &token];
    fails(&put, 1, "table/entities=write");
}

/// Regression: the client spoke only plain HTTP without credentials, which a server beyond loopback
/// refuses.
#[test]
fn the_client_of_the_crate_has_an_account_over_tls_and_at_a_socket() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let grant = ["add", "ada", "--grant", "table/entities=write"];
    done(&account(&data, &grant, "secret\n"));
    let token = done(&account(&data, &["token", "add", "ada", "ci"], "")).to_owned();
    let (certificate, key) = certificate(folder.path());
    let socket = format!("unix:{}", folder.path().join("socket").display());
    let arguments = ["--tls-cert", &certificate, "--tls-key", &key, "--listen", &socket];
    let server = TestServer::start(&data, &arguments);
    let secured = format!("https://localhost:{}", server.address.port());
    let tls = TlsOptions { ca_file: Some(certificate.into()), insecure: false };
    let credentials = Credentials::Token(token.trim().to_owned());
    let password = Credentials::Password { name: "ada".into(), password: "secret".into() };
    let options =
        |credentials| ClientOptions { credentials, tls: tls.clone(), ..Default::default() };
    for (url, credentials) in
        [(&secured, credentials.clone()), (&secured, password), (&socket, credentials)]
    {
        let mut client = Client::connect_with(url, options(credentials)).unwrap();
        for value in [b"one", b"two"] {
            client.put(b"key", value).unwrap();
            assert_eq!(client.get(b"key").unwrap().as_deref(), Some(&value[..]));
        }
        client.delete(b"key").unwrap();
        assert_eq!(client.get(b"key").unwrap(), None);
    }
    let stranger = Client::connect_with(&secured, options(Credentials::Token("pt_no".into())));
    let refused = stranger.and_then(|mut client| client.get(b"key")).unwrap_err();
    assert!(matches!(refused, ClientError::Refused { status: 401, .. }), "{refused}");
    let unknown = Client::connect(&secured).err().unwrap();
    assert!(unknown.to_string().contains("certificate"), "{unknown}");
}

#[test]
fn changes_are_lines_and_continue_at_a_cursor() {
    let (_folder, server) = serve(&[]);
    let url = &server.url();
    let mut client = server.client();
    assert_eq!(client.call("PUT", "/v0/tables/fruit", &[], b"").status, 201);
    done(&run(&["put", url, "apple", "red", "--table", "fruit"]));
    done(&run(&["put", url, "apple", "usual"]));
    done(&run(&["delete", url, "apple", "--table", "fruit"]));
    assert_eq!(done(&run(&["get", url, "apple"])), "usual");
    fails(&["get", url, "apple", "--table", "fruit"], 4, "no entity");
    let changes = lines(&run(&["changes", url, "--since", "0", "--table", "fruit"]));
    assert_eq!(changes.len(), 3, "{changes:?}");
    assert_eq!((&changes[0]["key"], &changes[0]["value"]), (&json!("apple"), &json!("red")));
    assert_eq!(changes[1]["deleted"], json!(true));
    let since = changes[2]["sequence"].to_string();
    assert_eq!(lines(&run(&["changes", url, "--since", &since])).len(), 1);
    fails(&["changes", url], 2, "--since");
    fails(&["changes", url, "--since", "999999"], 1, "newest");
    // A follower gets each change at once.
    let mut command = pellucid(&["changes", url, "--follow"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    for number in 0.. {
        // The follower begins to read some time after its start.
        done(&run(&["put", url, &format!("k{number}"), "v"]));
        let is_there = client.get("/_admin/requests").text().contains("\"changes\"");
        if is_there || number > 200 {
            break;
        }
    }
    done(&run(&["put", url, "last", "v"]));
    while !line.contains("\"last\"") {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the stream has ended");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Regression: numbers were rounded and attributes sorted, and a deep document or a deleted one
/// ended the changes of its collection.
#[test]
fn documents_and_bind_variables_pass_unchanged() {
    let (_folder, server) = serve(&[]);
    let url = &server.url();
    let number = "0.38120423768821243";
    let attributes = format!("\"z\":1,\"a\":{number}");
    let deep = "[".repeat(150) + &"]".repeat(150);
    let documents = format!(
        "{{\"_key\":\"wide\",{attributes}}}\n{{\"_key\":\"deep\",\"a\":{deep}}}\n\
         {{\"_key\":\"gone\"}}\n"
    );
    let import = ["import", url, "-", "--collection", "c", "--create", "documents"];
    done(&feed(&import, documents.as_bytes()));
    done(&run(&["query", url, "REMOVE 'gone' IN c"]));
    let output = run(&["changes", url, "--collection", "c", "--since", "0"]);
    let changes = done(&output);
    let deleted = "\"key\":\"gone\",\"deleted\":true";
    for expected in [&*attributes, &format!("\"a\":{deep}"), deleted] {
        assert_eq!(changes.matches(expected).count(), 1, "{expected}: {changes}");
    }
    for value in [number, &format!("{{{attributes}}}"), &deep] {
        let bound = run(&["query", url, "RETURN @x", "--bind", &format!("x={value}")]);
        assert_eq!(done(&bound), format!("{value}\n"));
    }
}
