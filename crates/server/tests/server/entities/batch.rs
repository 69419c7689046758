//! `POST /v0/batch`: a batch is written completely or not at all.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{Answer, Client, entity, serve, serve_with, start, start_with, wait_until};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

fn put(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> serde_json::Value {
    json!({ "op": "put", "key": STANDARD.encode(key), "value": STANDARD.encode(value) })
}

fn delete(key: impl AsRef<[u8]>) -> serde_json::Value {
    json!({ "op": "delete", "key": STANDARD.encode(key) })
}

fn with(mut line: serde_json::Value, field: &str, value: &str) -> serde_json::Value {
    line[field] = value.into();
    line
}

fn post(client: &mut Client, lines: &[serde_json::Value]) -> Answer {
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    client.call("POST", "/v0/batch", &[], body)
}

#[test]
fn a_batch_puts_and_deletes() {
    let (_running, mut client) = serve();
    client.put(&entity("old"), "x");
    let lines =
        [put("a", "1"), put(b"\n\xff", b"\0\n"), delete("old"), put("empty", ""), delete("none")];
    let answer = post(&mut client, &lines).having(200);
    assert_eq!(answer.json()["entries"], 5);
    assert_eq!(client.get(&entity("a")).text(), "1");
    assert_eq!(client.get(&entity(b"\n\xff")).body, b"\0\n");
    assert_eq!(client.get(&entity("empty")).status, 200);
    assert_eq!(client.get(&entity("old")).status, 404);
}

#[test]
fn within_a_batch_the_last_line_about_a_key_stands() {
    let (_running, mut client) = serve();
    let lines =
        [put("a", "1"), put("a", "2"), delete("b"), put("b", "3"), put("c", "4"), delete("c")];
    assert_eq!(post(&mut client, &lines).status, 200);
    assert_eq!(client.get(&entity("a")).text(), "2");
    assert_eq!(client.get(&entity("b")).text(), "3");
    assert_eq!(client.get(&entity("c")).status, 404);
    assert_eq!(client.get("/v0/entities?start=a").text(), "a\n2b\n3");
}

#[test]
fn the_last_sequence_number_is_the_last_entrys_etag() {
    let (_running, mut client) = serve();
    let answer = post(&mut client, &[put("a", "1"), put("b", "2")]);
    let last = answer.json()["last_sequence"].as_u64().unwrap();
    assert_eq!(client.get(&entity("b")).etag(), format!("\"{last}\""));
}

#[test]
fn with_one_bad_line_nothing_is_written() {
    let (running, mut client) = serve();
    let long = "k".repeat(1_025);
    for bad in [
        json!("text"),
        json!({ "op": "burn", "key": "YQ==" }),
        json!({ "op": "put", "key": "YQ==" }),
        json!({ "op": "put", "value": "YQ==" }),
        json!({ "op": "put", "key": "%", "value": "YQ==" }),
        json!({ "op": "put", "key": "YQ==", "value": "YQ" }),
        json!({ "op": "put", "key": "YQ==", "value": "YQ==", "ttl": -5 }),
        json!({ "op": "delete", "key": "YQ==", "value": "YQ==" }),
        with(put("a", "b"), "if_none_match", "7"),
        with(put("a", "b"), "if_match", "seven"),
        put("", "a key has at least one byte"),
        put(&long, "and 1,024 at most"),
        delete(&long),
    ] {
        for lines in [[put("x", "1"), bad.clone()], [bad.clone(), put("x", "1")]] {
            let answer = post(&mut client, &lines);
            assert_eq!(answer.status, 400, "{bad}");
            assert!(answer.body.len() > 10, "{bad}: what is wrong is said");
        }
    }
    for body in ["", "\n\n", "{", "\u{0}", "[]"] {
        assert_eq!(client.call("POST", "/v0/batch", &[], body).status, 400, "{body:?}");
    }
    assert_eq!(running.contents(), "");
}

#[test]
fn with_one_failed_condition_nothing_is_written() {
    let (_running, mut client) = serve();
    let etag = client.put(&entity("there"), "1").etag();
    let sequence = etag.trim_matches('"').to_owned();
    for failing in [
        with(put("there", "2"), "if_none_match", "*"),
        with(put("none", "2"), "if_match", "*"),
        with(delete("none"), "if_match", "*"),
        with(put("there", "2"), "if_match", "999999"),
    ] {
        let answer = post(&mut client, &[put("x", "1"), failing.clone(), put("y", "1")]);
        assert_eq!(answer.status, 412, "{failing}");
    }
    assert_eq!(client.get("/v0/entities?start=%00").text(), "there\n1");
    let holding = [
        with(put("there", "2"), "if_match", &sequence),
        with(put("none", "3"), "if_none_match", "*"),
    ];
    assert_eq!(post(&mut client, &holding).status, 200);
    assert_eq!(client.get("/v0/entities?start=%00").text(), "none\n3there\n2");
    let quoted = client.get(&entity("there")).etag();
    assert_eq!(post(&mut client, &[with(delete("there"), "if_match", &quoted)]).status, 200);
}

#[test]
fn a_batch_that_is_too_large_is_refused_as_a_whole() {
    let running = start_with(|options| {
        options.batch_bytes_max = 10_000;
        options.embedded.value_bytes_max = 1_000;
    });
    let mut client = running.client();
    post(&mut client, &[put("a", "v".repeat(1_000))]).having(200);
    let value = post(&mut client, &[put("b", "1"), put("c", "v".repeat(1_001))]).having(400);
    assert!(value.text().contains("1000"), "{}", value.text());
    let head = "POST /v0/batch HTTP/1.1\r\nHost: a\r\nContent-Length: 10001\r\n\r\n";
    assert_eq!(running.sent(head.as_bytes()).answer().status, 413);
    assert_eq!(client.get("/v0/entities?start=b").text(), "");
}

#[test]
fn ack_from_and_sync_are_those_of_a_single_write() {
    let (_running, mut client) = serve();
    let body = put("a", "1").to_string();
    for (query, status) in [
        ("?sync=disk", 200),
        ("?sync=os&ack=1&from=1", 200),
        ("?sync=never", 400),
        ("?ack=1", 400),
        ("?from=1", 400),
        ("?ack=2&from=2", 400),
    ] {
        let answer = client.call("POST", &format!("/v0/batch{query}"), &[], &body);
        assert_eq!(answer.status, status, "{query}");
    }
}

#[test]
fn a_large_batch_arrives_whole() {
    let (running, mut client) = serve();
    let lines: Vec<_> =
        (0..20_000).map(|index| put(format!("{index:06}"), index.to_string())).collect();
    let answer = post(&mut client, &lines);
    assert_eq!((answer.status, answer.json()["entries"].as_u64()), (200, Some(20_000)));
    let all = client.get("/v0/entities?start=0");
    let expected: String = (0..20_000).map(|index| format!("{index:06}\n{index}")).collect();
    assert!(all.text() == expected, "every entry is there, in order");
    let lines: Vec<_> = (0..20_000).map(|index| delete(format!("{index:06}"))).collect();
    assert_eq!(post(&mut client, &lines).status, 200);
    assert_eq!(running.contents(), "");
}

/// Regression: a batch that could never have memory for its copy was refused as if a later attempt
/// might pass.
#[test]
fn a_batch_that_memory_cannot_hold_twice_is_refused_for_good() {
    let (_running, mut client) = serve_with(|options| options.request_memory = 3 << 20);
    let of = |bytes: usize| [put("a", vec![b'v'; bytes / 4 * 3])];
    let refused = post(&mut client, &of(2 << 20)).having(413);
    let is_named = refused.text().contains("`request-memory`");
    assert!(is_named && refused.header("retry-after").is_none(), "{}", refused.text());
    post(&mut client, &of(1 << 20)).having(200);
    wait_until(|| client.figure("pellucid_request_memory_bytes"), |bytes| *bytes == 0.0);
}

/// A reader that saw half of a batch would find different values of the two keys.
#[test]
fn a_batch_is_seen_whole_or_not_at_all() {
    let running = start();
    post(&mut running.client(), &[put("a", "0"), put("z", "0")]);
    let reads = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = running.client();
            // The reader reads beside the writes, however late it begins.
            for round in 1..100_000 {
                let value = round.to_string();
                assert_eq!(post(&mut client, &[put("a", &value), put("z", &value)]).status, 200);
                if round >= 300 && reads.load(Ordering::Relaxed) >= 10 {
                    break;
                }
            }
        });
        let mut client = running.client();
        while !writer.is_finished() {
            let answer = client.get("/v0/entities?start=a");
            let (a, z) = answer.text()[2..].split_once("z\n").unwrap();
            assert_eq!(a, z);
            reads.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert!(reads.into_inner() >= 10, "the reader was not beside the writer");
}
