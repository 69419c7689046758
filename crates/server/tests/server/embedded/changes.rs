//! `GET /v0/changes`: the writes in order, once and continuously.

use std::io::{BufRead, ErrorKind, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{
    Answer, Client, TestServer, add_account, basic, entity, request, serve, start_on, start_with,
    start_with_store, take_right, wait_until,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_engine::EngineOptions;
use pellucid_server::access::Right;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The time within which a change has to arrive.
const SOON: Duration = Duration::from_secs(20);

/// The sequence number, the key and the value (if any) of a line.
fn entry(line: &Value) -> (u64, String, Option<String>) {
    let text = |name: &str| {
        let bytes = STANDARD.decode(line[name].as_str()?).unwrap();
        Some(String::from_utf8(bytes).unwrap())
    };
    assert_eq!(line["deleted"] == json!(true), line["value"].is_null(), "{line}");
    assert!(line["written_at_ms"].is_u64(), "{line}");
    (line["sequence"].as_u64().unwrap(), text("key").unwrap(), text("value"))
}

fn sequence(answer: &Answer) -> u64 {
    answer.etag().trim_matches('"').parse().unwrap()
}

fn make_collection(client: &mut Client, name: &str) {
    let body = json!({ "name": name }).to_string();
    assert_eq!(client.call("POST", "/_api/collection", &[], body).status, 200);
}

/// A stream that follows, read line by line.
struct Stream {
    client: Client,
    unread: Vec<u8>,
}

impl Stream {
    fn open(server: &TestServer, target: &str, headers: &[(&str, &str)]) -> Stream {
        let mut client = server.sent(&request("GET", target, headers, b""));
        client.socket.set_read_timeout(Some(SOON)).unwrap();
        client.try_head().unwrap().having(200);
        Stream { client, unread: Vec::new() }
    }

    /// A stream without `since`, whose first line has come: the position where it began.
    fn from_now(server: &TestServer, target: &str) -> (Stream, u64) {
        let mut stream = Stream::open(server, target, &[]);
        let first = stream.next_json();
        assert!(first["key"].is_null(), "{first}");
        let position = first["sequence"].as_u64().unwrap();
        (stream, position)
    }

    /// The next line that is not empty; `None` at the end.
    fn next(&mut self) -> Option<String> {
        loop {
            let mut line = Vec::new();
            (&self.unread[..]).read_until(b'\n', &mut line).unwrap();
            if !line.ends_with(b"\n") {
                self.unread.extend(self.client.try_chunk().unwrap()?);
                continue;
            }
            self.unread.drain(..line.len());
            let line = std::str::from_utf8(&line).unwrap().trim_end();
            if !line.is_empty() {
                return Some(line.to_owned());
            }
        }
    }

    fn next_json(&mut self) -> Value {
        serde_json::from_str(&self.next().unwrap()).unwrap()
    }
}

#[test]
fn all_writes_come_in_their_order_and_then_the_place_to_go_on() {
    let (_server, mut client) = serve();
    client.put(&entity("a"), "1");
    client.put(&entity("b"), "2");
    client.put(&entity("a"), "3");
    client.call("DELETE", &entity("b"), &[], b"");
    let all = client.get("/v0/changes?since=0").lines();
    let (last, changes) = all.split_last().unwrap();
    let entries: Vec<_> = changes.iter().map(entry).collect();
    let values: Vec<_> =
        entries.iter().map(|(_, key, value)| (&key[..], value.as_deref())).collect();
    assert_eq!(values, [("a", Some("1")), ("b", Some("2")), ("a", Some("3")), ("b", None)]);
    assert!(entries.is_sorted_by_key(|(sequence, _, _)| *sequence));
    // Everything written since is in documents, or there is none.
    let since = last["sequence"].as_u64().unwrap();
    assert_eq!(client.get(&format!("/v0/changes?since={since}")).lines().len(), 1);
    let put = sequence(&client.put(&entity("c"), "4"));
    let more = client.get(&format!("/v0/changes?since={since}")).lines();
    assert_eq!(entry(&more[0]), (put, "c".to_owned(), Some("4".to_owned())));
    let of_prefix = client.get("/v0/changes?since=0&prefix=a").lines();
    assert_eq!(of_prefix.len(), 3, "{of_prefix:?}");
}

#[test]
fn a_line_says_when_its_entry_expires() {
    let (_server, mut client) = serve();
    client.put(&format!("{}&ttl=1000", entity("brief")), "1").having(201);
    client.put(&entity("lasting"), "2").having(201);
    let lines = client.get("/v0/changes?since=0").lines();
    let time = |name: &str| lines[0][name].as_u64().unwrap();
    // The machine may stall between the readings of the clock.
    assert!(time("expires_at_ms") > time("written_at_ms") + 500_000, "{lines:?}");
    assert!(lines[1]["expires_at_ms"].is_null(), "{lines:?}");
}

#[test]
fn a_follower_hears_of_writes_as_they_come_and_of_the_end_of_the_server() {
    let (server, mut client) = serve();
    client.put(&entity("before"), "1");
    let (mut lines, _) = Stream::from_now(&server, "/v0/changes?follow=true&sync=disk");
    let mut events = Stream::open(&server, "/v0/changes", &[("Accept", "text/event-stream")]);
    let begun = [(); 3].map(|()| events.next().unwrap());
    assert!(begun[0].starts_with("id: ") && begun[1] == "event: progress", "{begun:?}");
    for number in 0..20 {
        let key = format!("key {number}");
        let put = sequence(&client.put(&entity(&key), "value"));
        let (sequence, told, value) = entry(&lines.next_json());
        assert_eq!((sequence, told, value.as_deref()), (put, key, Some("value")));
        assert_eq!(events.next().unwrap(), format!("id: {put}"));
        assert_eq!(events.next().unwrap(), "event: put");
        let data = events.next().unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(data["sequence"], json!(put));
    }
    let begun = Instant::now();
    let stopping = std::thread::spawn(move || drop(server));
    let last = lines.next_json();
    assert!(last["sequence"].is_u64() && last["key"].is_null(), "{last}");
    assert_eq!(lines.next(), None);
    stopping.join().unwrap();
    assert!(begun.elapsed() < SOON, "a stop does not wait for followers");
}

/// Regression: a stream without `since` did not say where it began, so that a client whose
/// connection broke before the first change missed what was written until it came again.
#[test]
fn a_follower_that_comes_again_misses_nothing() {
    let (server, mut client) = serve();
    client.put(&entity("before"), "1");
    let (stream, position) = Stream::from_now(&server, "/v0/changes?follow");
    drop(stream);
    let put = sequence(&client.put(&entity("between"), "2"));
    let again = format!("/v0/changes?follow&since={position}");
    let next = entry(&Stream::open(&server, &again, &[]).next_json());
    assert_eq!(next, (put, "between".to_owned(), Some("2".to_owned())));
}

#[test]
fn a_value_of_many_pieces_arrives_whole() {
    let (server, mut client) = serve();
    let value: String = (0..400_000).map(|number| char::from(b'a' + (number % 23) as u8)).collect();
    let (mut stream, _) = Stream::from_now(&server, "/v0/changes?follow");
    client.put(&entity("large"), &value);
    assert_eq!(entry(&stream.next_json()).2.as_deref(), Some(&*value));
}

/// Regression: a stream that found the queue of the workers full slept for 15 s, unless there were
/// later changes.
#[test]
fn a_stream_goes_on_soon_after_the_queue_of_workers_was_full() {
    let (store, server) = start_with_store(EngineOptions::default());
    // More than the buffers of the connection take.
    let value = "v".repeat(32 << 20);
    assert_eq!(server.client().put(&entity("large"), &value).status, 201);
    let mut stream = server.client();
    stream.send(&request("GET", "/v0/changes?since=0&follow=true", &[], b""));
    stream.try_head().unwrap().having(200);
    stream.socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let (mut bytes, mut places) = (0, Vec::new());
    while let Ok(count @ 1..) = stream.socket.read(&mut [0; 64 << 10]) {
        bytes += count;
        // The place of a piece that was being made is free only now.
        places.extend(std::iter::from_fn(|| store.workers().unwrap().reserve()));
    }
    assert!(bytes < value.len() && !places.is_empty(), "the queue was not full");
    drop(places);
    let begun = Instant::now();
    stream.socket.set_read_timeout(Some(SOON)).unwrap();
    while bytes < value.len() {
        bytes += stream.socket.read(&mut [0; 64 << 10]).unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn collected_changes_are_refused_and_the_answer_says_where_to_go_on() {
    let (server, mut client) = serve();
    let value = "v".repeat(1 << 20);
    for _ in 0..40 {
        client.put(&entity("again"), &value);
    }
    // This reader has read nothing yet.
    let mut slow = Stream::open(&server, "/v0/changes?since=0&follow=true", &[]);
    assert_eq!(client.call("PUT", "/_admin/compact", &[], b"").status, 200);
    let gone = client.get("/v0/changes?since=0").having(410);
    let (oldest, newest) = (&gone.json()["oldest"], &gone.json()["newest"]);
    assert!(oldest.as_u64() <= newest.as_u64() && oldest.as_u64() > Some(0), "{}", gone.text());
    assert_eq!(client.get(&format!("/v0/changes?since={oldest}")).status, 200);
    let ahead = newest.as_u64().unwrap() + 1;
    assert_eq!(client.get(&format!("/v0/changes?since={ahead}")).status, 410);
    // A slow reader is told in its stream, behind the lines that were already sent.
    let mut last = String::new();
    while let Some(line) = slow.next() {
        last = line;
    }
    let lost: Value = serde_json::from_str(&last).unwrap();
    assert!(lost["error"].is_string() && lost["oldest"] == *oldest, "{lost}");
}

#[test]
fn documents_of_a_collection_come_as_json_until_it_is_emptied() {
    let (server, mut client) = serve();
    make_collection(&mut client, "c");
    client.put(&entity("no document"), "1");
    let insert = |client: &mut Client, body: Value| {
        client.call("POST", "/_api/document/c", &[], body.to_string()).having(202);
    };
    insert(&mut client, json!({ "_key": "one", "a": [1, "ü"] }));
    insert(&mut client, json!({ "_key": "two" }));
    assert_eq!(client.call("DELETE", "/_api/document/c/two", &[], b"").status, 202);
    let all = client.get("/v0/changes?since=0&collection=c").lines();
    let (_, changes) = all.split_last().unwrap();
    let keys: Vec<_> = changes.iter().map(|line| line["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["one", "two", "two"]);
    let document = client.get("/_api/document/c/one").json();
    assert_eq!(changes[0]["document"], document);
    assert_eq!(changes[2]["deleted"], json!(true));
    let (mut stream, _) = Stream::from_now(&server, "/v0/changes?follow&collection=c");
    insert(&mut client, json!({ "_key": "three" }));
    assert_eq!(stream.next_json()["document"]["_key"], json!("three"));
    let since = |sequence: &Value| format!("/v0/changes?since={sequence}&collection=c");
    let read = client.get(&since(&json!(0))).lines();
    let last = &read.last().unwrap()["sequence"];
    assert_eq!(client.call("PUT", "/_api/collection/c/truncate", &[], b"").status, 200);
    let lost = stream.next_json();
    assert!(lost["error"].as_str().unwrap().contains("emptied"), "{lost}");
    assert_eq!(stream.next(), None);
    // Regression: a follower that was away meanwhile was not told.
    insert(&mut client, json!({ "_key": "four" }));
    let away = client.get(&since(last)).having(410).json();
    assert!(away["error"].as_str().unwrap().contains("emptied"), "{away}");
    // Nor was one that began again at the end of its stream.
    assert_eq!(client.get(&since(&lost["sequence"])).status, 410, "{lost}");
    for (sequence, keys) in [(&json!(0), 1), (&away["oldest"], 1), (&away["newest"], 0)] {
        assert_eq!(client.get(&since(sequence)).lines().len(), keys + 1, "{sequence}: {away}");
    }
    // So was one of a collection that was removed and created again.
    let last = &away["newest"];
    let mut stream = Stream::open(&server, &(since(last) + "&follow"), &[]);
    assert_eq!(client.call("DELETE", "/_api/collection/c", &[], b"").status, 200);
    make_collection(&mut client, "c");
    let lost = stream.next_json();
    for sequence in [last, &lost["sequence"]] {
        assert_eq!(client.get(&since(sequence)).status, 410, "{lost}");
    }
}

/// Regression: a follower missed the documents of a collection that took the name of the one that
/// it had read.
#[test]
fn a_renamed_collection_is_new_to_the_followers_of_its_name() {
    let (_server, mut client) = serve();
    make_collection(&mut client, "c");
    make_collection(&mut client, "next");
    client.call("POST", "/_api/document/next", &[], "{}").having(202);
    let since = |sequence: &Value| format!("/v0/changes?since={sequence}&collection=c");
    let read = client.get(&since(&json!(0))).lines();
    assert_eq!(client.call("DELETE", "/_api/collection/c", &[], b"").status, 200);
    let name = json!({ "name": "c" }).to_string();
    assert_eq!(client.call("PUT", "/_api/collection/next/rename", &[], name).status, 200);
    let away = client.get(&since(&read[0]["sequence"])).having(410).json();
    assert_eq!(client.get(&since(&away["oldest"])).lines().len(), 1, "{away}");
    assert_eq!(client.get(&since(&json!(0))).lines().len(), 2);
}

/// Regression: a stream went on with the collection that it had begun with, to a position behind
/// the documents of the one that had its name by then.
#[test]
fn a_stream_ends_once_its_collection_is_renamed() {
    let (server, mut client) = serve();
    make_collection(&mut client, "c");
    make_collection(&mut client, "next");
    let (mut stream, _) = Stream::from_now(&server, "/v0/changes?follow&collection=c");
    for (from, to) in [("c", "old"), ("next", "c")] {
        let (path, name) = (format!("/_api/collection/{from}/rename"), json!({ "name": to }));
        client.call("PUT", &path, &[], name.to_string()).having(200);
    }
    for name in ["old", "c"] {
        client.call("POST", &format!("/_api/document/{name}"), &[], "{}").having(202);
    }
    let lost = stream.next_json();
    assert!(lost["error"].as_str().is_some_and(|error| error.contains("renamed")), "{lost}");
    assert_eq!(stream.next(), None);
    let since = format!("/v0/changes?since={}&collection=c", lost["sequence"]);
    client.get(&since).having(410);
}

/// A server with a collection `c` of one large document, and with this memory for requests.
fn with_large_document(document_bytes: usize, memory_bytes: usize) -> TestServer {
    let folder = Arc::new(TempDir::new().unwrap());
    let server = start_on(Arc::clone(&folder), |_| {});
    let mut client = server.client();
    make_collection(&mut client, "c");
    let document = format!(r#"{{"v":"{}"}}"#, "v".repeat(document_bytes));
    client.call("POST", "/_api/document/c", &[], document).having(202);
    drop(server);
    start_on(folder, |options| options.request_memory = memory_bytes)
}

/// Regression: each stream held the JSON of a document, of any size, and a copy of it for its
/// client, and those without memory for their copy were cut.
#[test]
fn large_documents_are_sent_within_the_memory_of_all_requests() {
    const MEMORY_BYTES: usize = 128 << 20;
    const DOCUMENT_BYTES: usize = 16 << 20;
    let server = with_large_document(DOCUMENT_BYTES, MEMORY_BYTES);
    let mut client = server.client();
    let all = request("GET", "/v0/changes?since=0&collection=c", &[], b"");
    let mut readers: Vec<Client> = (0..8).map(|_| server.sent(&all)).collect();
    // Their clients have not read anything yet.
    let name = "pellucid_request_memory_bytes";
    let held = wait_until(|| client.figure(name), |held| *held > 2.0 * DOCUMENT_BYTES as f64);
    // Documents take half of it, and the connections little more.
    assert!(held <= 0.75 * MEMORY_BYTES as f64, "{held}");
    std::thread::scope(|scope| {
        for reader in &mut readers {
            scope.spawn(move || assert!(reader.answer().having(200).body.len() > DOCUMENT_BYTES));
        }
    });
    wait_until(|| client.figure(name), |held| *held == 0.0);
    assert_eq!(client.figure("pellucid_request_budget_refusals_total"), 0.0);
}

#[test]
fn a_document_above_the_memory_of_all_streams_ends_a_stream_that_says_so() {
    // The document takes 2 MiB, and all streams 1.5 MiB.
    let server = with_large_document(1 << 20, 3 << 20);
    let lines = server.client().get("/v0/changes?since=0&collection=c").lines();
    assert!(lines[0]["error"].as_str().unwrap().contains("memory"), "{lines:?}");
    assert_eq!(lines.len(), 1);
}

#[test]
fn invalid_requests_for_changes_are_refused() {
    let (_server, mut client) = serve();
    for (query, status, what) in [
        ("", 400, "since"),
        ("?since=x", 400, "whole number"),
        ("?since=0&tail=1", 400, "tail"),
        ("?since=0&sync=paper", 400, "memory, os and disk"),
        ("?since=0&collection=none", 404, "none"),
        ("?since=0&collection=c&database=d", 404, "database"),
        ("?since=9999999", 410, "newest"),
    ] {
        let answer = client.get(&format!("/v0/changes{query}"));
        assert_eq!(answer.status, status, "{query}: {}", answer.text());
        assert!(answer.text().contains(what), "{query}: {}", answer.text());
    }
}

/// A server with an account that has all rights, and one that only reads.
fn with_accounts() -> TestServer {
    start_with(|options| {
        add_account(&options.data, "root", &[("*", Right::Write)]);
        add_account(&options.data, "reader", &[("table/entities", Right::Read)]);
    })
}

/// Behind half of a value, there is no place for the line that says why.
#[test]
fn a_stream_is_cut_within_a_value_with_the_right_to_it() {
    let server = with_accounts();
    let root = [("Authorization", &*basic("root", "root"))];
    let reader = [("Authorization", &*basic("reader", "reader"))];
    // More than twice as much as the buffers of the connection take.
    let value = "v".repeat(32 << 20);
    server.client().call("PUT", &entity("a"), &root, &value).having(201);
    let mut stream = Stream::open(&server, "/v0/changes?since=0&follow=true", &reader);
    assert!(stream.client.try_chunk().unwrap().is_some());
    take_right(&server, "reader", "table/entities", &entity("a"));
    let ended = std::iter::from_fn(|| stream.client.try_chunk().transpose()).find(Result::is_err);
    let error = ended.expect("the stream does not end as a whole one does").unwrap_err();
    assert!(!matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
}

/// Regression: a stream went on after its account had lost the right to it.
#[test]
fn a_stream_ends_with_the_right_to_it() {
    let server = with_accounts();
    let mut client = server.client();
    let root = [("Authorization", &*basic("root", "root"))];
    let reader = [("Authorization", &*basic("reader", "reader"))];
    assert_eq!(client.call("PUT", &entity("a"), &root, "1").status, 201);
    let mut stream = Stream::open(&server, "/v0/changes?since=0&follow=true", &reader);
    assert!(stream.next().unwrap().contains("\"sequence\""));
    take_right(&server, "reader", "table/entities", &entity("a"));
    assert_eq!(client.call("PUT", &entity("b"), &root, "2").status, 201);
    let last = stream.next().unwrap();
    assert!(last.contains("may not read it any more"), "{last}");
    assert!(stream.next().is_none());
}
