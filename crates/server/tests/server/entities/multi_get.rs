//! `POST /v0/entities/get`: the entities of several keys in one answer.

use crate::common::{Client, encode, entity, serve};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const TARGET: &str = "/v0/entities/get";

fn body(keys: &[&str]) -> String {
    let line = |key: &&str| json!({ "key": STANDARD.encode(key) }).to_string();
    keys.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn text(line: &Value, name: &str) -> String {
    let bytes = STANDARD.decode(line[name].as_str().unwrap()).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn entities_come_in_the_requested_order_and_missing_ones_are_marked() {
    let (_running, mut client) = serve();
    client.put(&entity("a"), "A");
    let etag = client.put(&entity("b"), "B").etag();
    let answer = client.call("POST", TARGET, &[], body(&["b", "none", "a", "b"]));
    let lines = answer.lines();
    let keys: Vec<_> = lines.iter().map(|line| text(line, "key")).collect();
    assert_eq!(keys, ["b", "none", "a", "b"]);
    assert_eq!((text(&lines[0], "value"), &lines[0]["etag"]), ("B".to_owned(), &json!(etag)));
    assert_eq!(lines[1], json!({ "key": STANDARD.encode("none"), "found": false }));
    assert_eq!((text(&lines[2], "value"), &lines[3]), ("A".to_owned(), &lines[0]));
}

#[test]
fn each_line_has_the_time_of_its_read_if_that_is_wanted() {
    let (_running, mut client) = serve();
    client.put(&entity("a"), "A");
    let wanted = [("Prefer", "timing")];
    let answer = client.call("POST", TARGET, &wanted, body(&["a", "none"]));
    for line in answer.lines() {
        assert!(line["read_ns"].is_u64(), "{line}");
    }
    assert!(answer.header("Server-Timing").is_some());
}

#[test]
fn an_answer_is_read_from_one_snapshot() {
    let (running, mut writer) = serve();
    let keys: Vec<String> = (0..200).map(|number| format!("k{number}")).collect();
    let write = |client: &mut Client, round: u32| {
        let put = |key: &String| {
            let value = STANDARD.encode(round.to_string());
            json!({ "op": "put", "key": STANDARD.encode(key), "value": value }).to_string()
        };
        let batch: Vec<_> = keys.iter().map(put).collect();
        assert_eq!(client.call("POST", "/v0/batch", &[], batch.join("\n")).status, 200);
    };
    write(&mut writer, 0);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    std::thread::scope(|scope| {
        let (reader, wanted) = (&running, body(&keys));
        let reads = scope.spawn(move || {
            let mut client = reader.client();
            for _ in 0..50 {
                let answer = client.call("POST", TARGET, &[], &wanted).lines();
                let first = text(&answer[0], "value");
                assert!(answer.iter().all(|line| text(line, "value") == first));
            }
        });
        let mut round = 0;
        while !reads.is_finished() {
            round += 1;
            write(&mut writer, round);
        }
        reads.join().unwrap();
    });
}

#[test]
fn large_values_are_streamed() {
    let (_running, mut client) = serve();
    let value = "v".repeat(1_000_000);
    client.put(&entity("large"), &value);
    let answer = client.call("POST", TARGET, &[], body(&["large"; 30]));
    assert_eq!(answer.header("Transfer-Encoding"), Some("chunked"));
    let lines = answer.lines();
    assert_eq!(lines.len(), 30);
    assert!(lines.iter().all(|line| text(line, "value") == value));
}

#[test]
fn bad_lists_are_refused() {
    let (running, mut client) = serve();
    for (target, body, what) in [
        (TARGET, "", "no keys"),
        (TARGET, "{\"key\":\"!\"}", "line 1"),
        (TARGET, "{\"key\":\"\"}", "empty"),
        (TARGET, "{\"keys\":\"YQ==\"}", "keys"),
        ("/v0/entities/get?keys=a", "{\"key\":\"YQ==\"}", "keys"),
    ] {
        let answer = client.call("POST", target, &[], body);
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.text().contains(what), "{}", answer.text());
    }
    assert_eq!(client.call("POST", TARGET, &[], "{\"key\":\"YQ==\"}\n".repeat(1_001)).status, 400);
    // This request is refused by its head, so a client that keeps sending may find a closed
    // connection.
    let length = (2 << 20) + 1;
    let head = format!("POST {TARGET} HTTP/1.1\r\nHost: test\r\nContent-Length: {length}\r\n\r\n");
    client.send(head.as_bytes());
    assert_eq!(client.answer().status, 413);
    let mut client = running.client();
    assert_eq!(client.get(TARGET).status, 405);
    assert_eq!(client.put(&entity(encode("x")), "1").status, 201, "the server goes on");
}
