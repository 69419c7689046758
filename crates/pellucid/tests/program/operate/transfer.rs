//! Tests of `export` and `import` against the built server.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::data::{fails, lines};
use crate::common::{
    TestServer, cluster, done, entity, failed, feed, pellucid, run, serve, signal, spawn, text,
    wait_until,
};

pub(super) fn name(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs an import of `input` that must be refused.
pub(super) fn refused(arguments: &[&str], input: &[u8], expected: &[&str]) {
    let output = feed(&[&["import"], arguments].concat(), input);
    expected.iter().for_each(|expected| failed(&output, 1, expected));
    assert_eq!(text(&output.stdout), "");
}

/// Returns the final line of an import.
pub(super) fn summary(output: &Output) -> String {
    assert_eq!(done(output), "");
    text(&output.stderr).trim().to_owned()
}

/// Returns all entities of a server as lines, without the fields that differ in each server.
pub(super) fn entities(url: &str) -> Vec<Value> {
    let mut lines = lines(&run(&["export", url, "--base64"]));
    for line in &mut lines {
        let line = line.as_object_mut().unwrap();
        assert!(line.remove("etag").is_some());
        if let Some(expires_at_ms) = line.get_mut("expires_at_ms") {
            // The remaining time to live shrinks between the original and its copy.
            *expires_at_ms = json!(expires_at_ms.is_u64());
        }
    }
    lines
}

/// Returns the time at which an entity expires.
pub(super) fn expiry(url: &str, key: &str) -> u64 {
    lines(&run(&["scan", url, "--prefix", key]))[0]["expires_at_ms"].as_u64().unwrap()
}

fn keys(url: &str) -> String {
    done(&run(&["scan", url, "--keys"])).split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn put_all(server: &TestServer, entities: &[(&[u8], &[u8])]) {
    let mut client = server.client();
    for (key, value) in entities {
        assert_eq!(client.put(&entity(key), value).status, 201);
    }
}

/// Entities whose keys and values are text, including difficult cases.
pub(super) const TEXTS: [(&[u8], &[u8]); 7] = [
    (b"a", b"1"),
    (b"empty", b""),
    (b"\"quoted\", ", b"a,\"b\"\r\nc\n\n\"\""),
    ("ü€\u{1f600}".as_bytes(), "\u{feff}ä\0\t".as_bytes()),
    (b"\n", b"\n"),
    (b"\r", b" x "),
    (b"key,value", b"[1, {}]"),
];

#[test]
fn entities_come_back_byte_for_byte() {
    let (folder, from) = serve(&[]);
    let all: Vec<u8> = (0..=255).collect();
    let large: Vec<u8> = (0..=255).rev().cycle().take(3 << 20).collect();
    put_all(&from, &TEXTS);
    put_all(&from, &[(b"\0", &all), (b"\xff\xfe", b"\xfd"), (&all, b""), (b"large", &large)]);
    let mut client = from.client();
    assert_eq!(client.put(&format!("{}&ttl=5000", entity("short")), "lived").status, 201);
    for number in 0..2_500 {
        assert_eq!(client.put(&entity(format!("many/{number:04}")), "x").status, 201);
    }
    let source = from.url();
    let expected = entities(&source);
    assert_eq!(expected.len(), 7 + 4 + 1 + 2_500);
    for (file, flags) in [
        ("a.ndjson", &[][..]),
        ("b.ndjson", &["--base64"]),
        ("c.csv", &["--base64"]),
        ("d.txt", &["--format", "csv", "--base64"]),
    ] {
        let file = folder.path().join(file);
        let export = ["export", &source, "-o", name(&file)];
        assert_eq!(done(&run(&[&export[..], flags].concat())), "");
        let (_folder, to) = serve(&[]);
        let copy = to.url();
        let import = ["import", &copy, name(&file)];
        let format = if flags.len() > 1 { &flags[..2] } else { &[] };
        let output = run(&[&import[..], format].concat());
        assert_eq!(summary(&output), "2512 entities are written", "{flags:?}");
        assert!(entities(&copy) == expected, "{flags:?}");
        let apart_ms = expiry(&copy, "short").abs_diff(expiry(&source, "short"));
        // The file has the remaining seconds, which then count from the import on.
        assert!(apart_ms < 60_000, "{flags:?}: {apart_ms} ms");
    }
    // A value that is not text needs `--base64`, and half a file is not kept.
    let file = folder.path().join("e.csv");
    fails(&["export", &source, "-o", name(&file)], 1, "--base64");
    assert!(!file.exists());
}

#[test]
fn csv_of_text_is_text() {
    let (_folder, from) = serve(&[]);
    put_all(&from, &TEXTS);
    let written = run(&["export", &from.url(), "--format", "csv"]);
    assert!(done(&written).starts_with("key,value,expires_at_ms\n\"\n\",\"\n\",\n"), "{written:?}");
    let (_folder, to) = serve(&[]);
    let copy = to.url();
    let import = ["import", &copy, "-", "--format", "csv"];
    assert_eq!(summary(&feed(&import, &written.stdout)), "7 entities are written");
    assert_eq!(entities(&copy), entities(&from.url()));
    // The columns may have any order, and entities may have a time to live.
    let by_hand = "ttl,value,key\r\n,5,x\r\n1000,\"6\",\"y\"\r\n";
    assert_eq!(summary(&feed(&import, by_hand.as_bytes())), "2 entities are written");
    let read = lines(&run(&["scan", &copy, "--start", "x"]));
    assert_eq!((&read[0]["value"], &read[1]["value"]), (&json!("5"), &json!("6")));
    assert_eq!(read[0].get("expires_at_ms"), None);
    assert!(read[1]["expires_at_ms"].is_u64());
    // An entity that has expired before the import is left out.
    let gone = "{\"key\":\"gone\",\"value\":\"\",\"expires_at_ms\":1}\n";
    let output = feed(&["import", &copy, "-"], gone.as_bytes());
    assert_eq!(summary(&output), "0 entities are written, and 1 left out, whose time is over");
    // An export without entities makes a file without rows.
    let (_folder, empty) = serve(&[]);
    let names = run(&["export", &empty.url(), "--format", "csv"]);
    assert_eq!(done(&names), "key,value,expires_at_ms\n");
    assert_eq!(summary(&feed(&import, &names.stdout)), "0 entities are written");
    assert_eq!(done(&run(&["export", &empty.url()])), "");
}

#[test]
fn a_bad_line_is_named_and_nothing_of_its_batch_is_written() {
    let (_folder, server) = serve(&[]);
    let url = &*server.url();
    let line = |key: &str| format!("{{\"key\":\"{key}\",\"value\":\"v\"}}\n");
    let good: Vec<String> = ["a", "b", "c", "d", "e"].map(line).to_vec();
    let mut bad = good.clone();
    bad[3] = "{\"key\":\"d\",\"wert\":1}\n".to_owned();
    let batches = [url, "-", "--batch", "2"];
    let expected = ["line 4: unknown field `wert`", "up to line 2 is written: go on with --skip 2"];
    refused(&batches, bad.concat().as_bytes(), &expected);
    assert_eq!(keys(url), "a b");
    let resumed = feed(&["import", url, "-", "--skip", "2"], good.concat().as_bytes());
    assert_eq!(summary(&resumed), "3 entities are written");
    assert_eq!(keys(url), "a b c d e");
    refused(&[url, "-"], b"{\"key\":\"f\",\"value\":\"\"}\nx", &["line 2:", "nothing is written"]);

    // A row may span several lines.
    let csv = "key,value\nf,\"1\n2\"\n\ng,3\n,4\nh,5\n";
    let batches = [url, "-", "--format", "csv", "--batch", "1"];
    let expected = ["line 6: the key is empty", "up to line 5 is written: go on with --skip 5"];
    refused(&batches, csv.as_bytes(), &expected);
    assert_eq!(keys(url), "a b c d e f g");
    let mended = csv.replace("\n,4", "\nz,4");
    let resumed = feed(&[&["import"], &batches[..], &["--skip", "5"]].concat(), mended.as_bytes());
    assert_eq!(summary(&resumed), "2 entities are written");
    assert_eq!(keys(url), "a b c d e f g h z");
    for (input, expected) in [
        ("key,value\na\n", "line 2: it has 1 cells"),
        ("key,value\na,\"b\n", "line 2: a quote is not closed"),
        ("key,wert\na,b\n", "no column `wert`"),
        ("", "is empty"),
    ] {
        refused(&[url, "-", "--format", "csv"], input.as_bytes(), &[expected]);
    }
    fails(&["import", url, "/nowhere"], 1, "/nowhere");
    fails(&["import", url, "-", "--infer"], 2, "--collection");
    // Regression: a batch of more entries than a server takes was allowed, and failed.
    fails(&["import", url, "-", "--batch", "65535"], 2, "65534");
    fails(&["import", url, "-", "--collection", "c", "--infer"], 2, "--format csv");
    fails(&["import", url, "-", "--cluster"], 2, "in no cluster");
    fails(&["import", url, "-", "--collection", "c", "--sync", "os"], 2, "--sync");
    fails(&["export", url, "--collection", "c", "--attributes", "a"], 2, "--format csv");
    // Regression: of two columns of one name, the first was empty.
    let csv = ["export", url, "--collection", "c", "--format", "csv"];
    fails(&[&csv[..], &["--attributes", "a,b,a"]].concat(), 2, "has `a` twice");
}

/// Starts a server that sends each of `answers` to one request; an empty one only closes the
/// connection. Returns its URL and a thread that returns the requests.
fn answering(answers: Vec<&'static str>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serve = move || {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut socket, _) = listener.accept().unwrap();
            requests.push(request_of(&mut socket));
            socket.write_all(answer.as_bytes()).unwrap();
        }
        requests
    };
    (url, std::thread::spawn(serve))
}

fn request_of(socket: &mut TcpStream) -> String {
    let mut request = Vec::new();
    loop {
        let mut piece = [0; 4_096];
        let count = socket.read(&mut piece).unwrap();
        assert!(count > 0, "half a request");
        request.extend_from_slice(&piece[..count]);
        let seen = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = seen.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return seen;
        }
    }
}

#[test]
fn a_server_that_fails_stops_an_import_which_says_how_to_go_on() {
    const DONE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    const UNSYNCED: &str = "HTTP/1.1 503 X\r\nContent-Length: 73\r\n\r\nwrites are refused since a \
                            failure (fsync of a: EIO): open the store anew";
    const ODD: &str = "HTTP/1.1 400 X\r\nContent-Length: 27\r\n\r\nline 2 of the batch: is odd";
    let input: String =
        (1..=9).map(|key| format!("{{\"key\":\"{key}\",\"value\":\"\"}}\n")).collect();
    let go_on = "all up to line 4 is written: go on with --skip 4";
    for (answers, expected) in [
        (
            &[DONE, DONE, "HTTP/1.1 507 X\r\nContent-Length: 4\r\n\r\nfull"][..],
            &["lines 5 to 6: the server answered 507: full; all up to line 4"][..],
        ),
        (
            &[DONE, DONE, "HTTP/1.1 503 X\r\nContent-Length: 4\r\n\r\nbusy"],
            &["lines 5 to 6: the server answered 503: busy (the server is busy"],
        ),
        (&[DONE, DONE, ODD], &["line 6: the server answered 400"]),
        (
            &[DONE, DONE, ""],
            &["whether lines 5 to 6 are written is not known", "sent again without harm"],
        ),
        // Regression: a batch whose sync failed was said not to be written, and may survive.
        (&[DONE, DONE, UNSYNCED], &["whether lines 5 to 6 are written is not known"]),
    ] {
        let (url, server) = answering(answers.to_vec());
        refused(&[&url, "-", "--batch", "2"], input.as_bytes(), &[&[go_on], expected].concat());
        let requests = server.join().unwrap();
        assert!(requests.iter().all(|request| request.starts_with("POST /v0/batch HTTP/1.1")));
        assert_eq!(requests[2].matches("\"op\":\"put\"").count(), 2, "{}", requests[2]);
    }
    // If the server cannot be reached, nothing is written.
    refused(&["http://127.0.0.1:1", "-"], input.as_bytes(), &["serve`; nothing is written"]);
}

/// Regression: an export whose answer the server had cut said only that the connection was reset.
#[test]
fn an_answer_that_is_cut_names_the_possible_cause() {
    let (url, server) = answering(vec!["HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"]);
    failed(&run(&["export", &url]), 1, "--exchange-timeout");
    server.join().unwrap();
}

/// Regression: if results could not be written, their cursor stayed on the server until it expired.
#[test]
fn a_cursor_is_deleted_if_its_results_cannot_be_written() {
    const BATCH: &str = "HTTP/1.1 201 Created\r\nContent-Length: 40\r\n\r\n\
                         {\"result\":[1,2],\"hasMore\":true,\"id\":\"7\"}";
    const DELETED: &str = "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}";
    let (url, server) = answering(vec![BATCH, DELETED]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut query = pellucid(&["query", &url, "FOR i IN 1..9 RETURN i"]);
    failed(&query.stdout(full).output().unwrap(), 1, "standard output");
    wait_until(|| server.is_finished(), |is_finished| *is_finished);
    let requests = server.join().unwrap();
    assert!(requests[1].starts_with("DELETE /_db/_system/_api/cursor/7 "), "{}", requests[1]);
}

fn collection(server: &TestServer, body: &str) {
    assert_eq!(server.client().call("POST", "/_api/collection", &[], body).status, 200);
}

/// Parses lines as documents, and sorts them by their keys.
pub(super) fn parsed(lines: &str) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let mut all: Vec<Value> = lines.lines().map(parse).collect();
    all.sort_by_key(|document| document["_key"].to_string());
    all
}

/// Returns documents with every kind of value, and with texts that look like another kind.
pub(super) fn documents() -> String {
    let all = json!({"_key": "all", "n": 1.5, "big": 9_007_199_254_740_993_u64, "t": true,
        "none": null, "list": [1, "x", {"a": []}], "inner": {"_id": "kept", "b": "\n"}});
    let odd = json!({"_key": "odd", "a,b": "1", "empty": "", "true": "true", "space": " 1",
        "quoted": "\"q\"", "lines": "a\r\nb,\"c\"", "ü": "\u{1f600}\0", "list": "[1]"});
    let numbers = (0..2_500).map(|number| json!({"_key": number.to_string(), "n": number}));
    let all = [all, odd, json!({"_key": "bare"})].into_iter().chain(numbers);
    all.map(|document| format!("{document}\n")).collect()
}

#[test]
fn documents_come_back_as_they_were() {
    let (folder, from) = serve(&[]);
    let source = &from.url();
    let into = ["import", source, "-", "--collection", "c", "--create", "documents"];
    let summarised = summary(&feed(&into, documents().as_bytes()));
    assert_eq!(summarised, "2503 documents are new");
    let export = |url: &str| {
        let output = run(&["export", url, "--collection", "c"]);
        done(&output).to_owned()
    };
    let written = export(source);
    assert_eq!(parsed(&written), parsed(&documents()));
    let (_folder, to) = serve(&[]);
    let copy = &to.url();
    let again = ["import", copy, "-", "--collection", "c"];
    let made = [&again[..], &["--create", "documents", "--sync", "disk"]].concat();
    assert_eq!(summary(&feed(&made, written.as_bytes())), "2503 documents are new");
    assert_eq!(export(copy), written);
    // The same documents are exported and imported as CSV.
    let csv = folder.path().join("c.csv");
    done(&run(&["export", source, "--collection", "c", "-o", name(&csv)]));
    collection(&to, r#"{"name":"d"}"#);
    let import = ["import", copy, name(&csv), "--collection", "d"];
    assert_eq!(summary(&run(&[&import[..], &["--infer"]].concat())), "2503 documents are new");
    let read = run(&["export", copy, "--collection", "d"]);
    assert_eq!(parsed(done(&read)), parsed(&written));
    // Without inference, all values are text; an export may have only some attributes.
    let replaced = run(&[&import[..], &["--on-duplicate", "replace"]].concat());
    assert_eq!(summary(&replaced), "0 documents are new, 2503 updated or replaced");
    let some = ["export", copy, "--collection", "d", "--format", "csv", "--attributes", "_key,n"];
    let rows = run(&some);
    assert!(done(&rows).starts_with("_key,n\n"), "{}", &done(&rows)[..200]);
    assert!(done(&rows).contains("\nall,\"\"\"1.5\"\"\"\n") && done(&rows).contains("\nbare,\n"));
}

#[test]
fn a_document_that_is_refused_is_named_and_nothing_of_its_batch_is_written() {
    let (_folder, server) = serve(&[]);
    let url = &*server.url();
    let lines = "{\"_key\":\"a\"}\n{\"_key\":\"b\"}\n\n{\"_key\":\"c\"}\n{\"_key\":\"d e\"}\n";
    let import = [url, "-", "--collection", "c"];
    refused(&import, lines.as_bytes(), &["1203", "--create documents", "nothing is written"]);
    refused(&import, b"", &["1203", "--create documents", "nothing is written"]);
    let batches = [&import[..], &["--batch", "2", "--create", "documents"]].concat();
    let expected = ["line 5: ", "1221", "all up to line 2 is written: go on with --skip 2"];
    refused(&batches, lines.as_bytes(), &expected);
    let there_are = || {
        let query = "FOR d IN c SORT d._key RETURN d._key";
        let keys = run(&["query", url, query]);
        done(&keys).replace('"', "").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(there_are(), "a b");
    let mended = lines.replace("d e", "d");
    let expected = ["line 1: ", "1210", "--on-duplicate", "nothing is written"];
    refused(&batches, mended.as_bytes(), &expected);
    // One batch of several documents, and one of a single document, contain an existing key.
    let there = "{\"_key\":\"x\"}\n{\"_key\":\"b\"}\n";
    refused(&import, there.as_bytes(), &["line 2: ", "1210", "nothing is written"]);
    refused(&import, b"\n{\"_key\":\"b\"}\n", &["line 2: ", "nothing is written"]);
    assert_eq!(there_are(), "a b");
    let ignoring = [&["import"], &batches[..], &["--on-duplicate", "ignore"]].concat();
    let summarised = summary(&feed(&ignoring, mended.as_bytes()));
    assert_eq!(summarised, "2 documents are new, 2 were there already");
    assert_eq!(there_are(), "a b c d");
    for bad in ["[1]", "{\"a\":", "{} {}", "5"] {
        refused(&import, bad.as_bytes(), &["line 1: it is no JSON object"]);
    }
    // Edges need `_from` and `_to`.
    let edges = [url, "-", "--collection", "e", "--create", "edges"];
    let line = "{\"_key\":\"1\",\"_from\":\"c/a\",\"_to\":\"c/b\"}\n";
    let output = feed(&[&["import"], &edges[..]].concat(), line.as_bytes());
    assert_eq!(summary(&output), "1 documents are new");
    assert_eq!(done(&run(&["export", url, "--collection", "e"])), line);
    refused(&edges, b"{}\n{}\n", &["line 1: ", "1233", "nothing is written"]);
    fails(&["export", url, "--collection", "none"], 1, "1203");
}

#[test]
fn a_reader_that_closes_its_pipe_is_not_a_failure() {
    let (_folder, server) = serve(&[]);
    let url = &*server.url();
    let value = "x".repeat(10_000);
    let lines = |key: &str, value_name: &str| -> String {
        let line = |number| format!("{{\"{key}\":\"{number}\",\"{value_name}\":\"{value}\"}}\n");
        (0..3_000).map(line).collect()
    };
    summary(&feed(&["import", url, "-"], lines("key", "value").as_bytes()));
    let import = ["import", url, "-", "--collection", "c", "--create", "documents"];
    summary(&feed(&import, lines("_key", "v").as_bytes()));
    for flags in [
        &[][..],
        &["--format", "csv"],
        &["--collection", "c"],
        &["--collection", "c", "--format", "csv"],
    ] {
        let mut child = spawn(&mut pellucid(&[&["export", url], flags].concat()));
        let mut head = [0; 100];
        child.stdout.as_mut().unwrap().read_exact(&mut head).unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((done(&output), text(&output.stderr)), ("", ""), "{flags:?}");
    }
}

#[test]
fn an_import_sends_a_batch_to_each_node_of_a_cluster() {
    let folder = TempDir::new().unwrap();
    let nodes = cluster(folder.path(), &[]);
    // Wait until the nodes have found each other.
    for (node, key) in nodes.iter().flat_map(|node| (0..20).map(move |key| (node, key))) {
        let target = entity(format!("none{key}"));
        wait_until(|| node.client().get(&target).status, |status| *status == 404);
    }
    let url = &*nodes[0].url();
    let input: String =
        (0..300).map(|key| format!("{{\"key\":\"k{key:03}\",\"value\":\"{key}\"}}\n")).collect();
    refused(&[url, "-"], input.as_bytes(), &["lines 1 to 300", "400", "--cluster"]);
    let output = feed(&["import", url, "-", "--cluster"], input.as_bytes());
    assert_eq!(summary(&output), "300 entities are written");
    let all = lines(&run(&["export", url, "--cluster"]));
    assert_eq!((all.len(), &all[299]["value"]), (300, &json!("299")));
    assert!(lines(&run(&["export", url])).len() < 300, "those of one node");
}

/// Runs the program with a terminal as standard error, and returns the text on the terminal.
fn on_terminal(arguments: &[&str]) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let path = ptsname(&screen, Vec::new()).unwrap();
    let terminal = std::fs::File::options().write(true).open(path.to_str().unwrap()).unwrap();
    let mut command = pellucid(arguments);
    let mut child = command.stdout(Stdio::null()).stderr(terminal).spawn().unwrap();
    // The terminal is closed with its last descriptor, and the command holds one.
    drop(command);
    let (mut shown, mut piece) = (Vec::new(), [0; 4_096]);
    while let Ok(length @ 1..) = rustix::io::read(&screen, &mut piece) {
        shown.extend_from_slice(&piece[..length]);
    }
    assert!(child.wait().unwrap().success(), "{}", text(&shown));
    text(&shown).to_owned()
}

/// Regression: the terminal showed nothing that was typed after a signal had ended the prompt.
#[test]
fn a_signal_at_the_prompt_for_a_password_gives_the_echo_back() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&screen).unwrap();
    unlockpt(&screen).unwrap();
    let path = ptsname(&screen, Vec::new()).unwrap();
    let terminal = File::options().read(true).write(true).open(path.to_str().unwrap()).unwrap();
    let has_echo = || tcgetattr(&terminal).unwrap().local_modes.contains(LocalModes::ECHO);
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let mut command = pellucid(&["account", "--data", name(&data), "add", "ada"]);
    command.stdin(terminal.try_clone().unwrap()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait_until(has_echo, |has_echo| !*has_echo);
    signal(&child, libc::SIGINT);
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGINT));
    assert!(has_echo());
}

#[test]
fn a_terminal_shows_the_progress_of_an_import_and_an_export() {
    let (folder, server) = serve(&[]);
    let file = folder.path().join("rows.ndjson");
    let rows: String = (0..10).map(|n| format!("{{\"key\":\"k{n}\",\"value\":\"v\"}}\n")).collect();
    std::fs::write(&file, rows).unwrap();
    let shown = on_terminal(&["import", &server.url(), name(&file)]);
    assert!(shown.contains("imported 10 entries, 0.0 MiB"), "{shown:?}");
    let copy = folder.path().join("copy.ndjson");
    let shown = on_terminal(&["export", &server.url(), "-o", name(&copy)]);
    assert!(shown.contains("exported 10 entries"), "{shown:?}");
    // Without a terminal, no progress is printed.
    assert_eq!(text(&run(&["export", &server.url()]).stderr), "");
}
