//! One request over two nodes as one account: the trace goes on at the owner, and the slow requests
//! of the entry node show the owner's part.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use common::entity;
use common::nodes::{Nodes, PATIENCE};
use pellucid_server::Export;
use serde_json::Value;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector that takes everything, and passes on the spans.
fn collector() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (posts, received) = channel();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut reader = BufReader::new(socket.unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                reader.read_line(&mut head).unwrap();
            }
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let mut body = vec![0; length.unwrap().parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
            let document: Value = serde_json::from_slice(&body).unwrap();
            let spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
            for span in spans {
                if posts.send(span.clone()).is_err() {
                    return;
                }
            }
        }
    });
    (url, received)
}

#[test]
fn the_trace_goes_on_at_the_owner_below_the_entry_nodes_span() {
    let (url, received) = collector();
    let nodes = Nodes::start(2, |options| {
        options.export = Some(Export::to(&url, None).unwrap());
    });
    let target = entity(nodes.key_of(1));
    assert_eq!(nodes.client(0).call("PUT", &target, &[], b"value").status, 201);
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [("traceparent", &*parent), ("tracestate", "rojo=00f0,a=1")];
    let answer = nodes.client(0).call("GET", &target, &headers, b"");
    assert_eq!((answer.status, answer.text()), (200, "value"));
    let (mut entry, mut owner) = (None, None);
    while entry.is_none() || owner.is_none() {
        let span = received.recv_timeout(PATIENCE).unwrap();
        assert_eq!(
            (&span["traceId"], &span["traceState"]),
            (&TRACE.into(), &"rojo=00f0,a=1".into())
        );
        match span["name"].as_str().unwrap() {
            "entity_get_forwarded" => entry = Some(span),
            "peer_get" => owner = Some(span),
            _ => {}
        }
    }
    let (entry, owner) = (entry.unwrap(), owner.unwrap());
    assert_eq!(
        (&entry["parentSpanId"], &owner["parentSpanId"]),
        (&PARENT.into(), &entry["spanId"])
    );
    assert_ne!(entry["spanId"], owner["spanId"]);
}

#[test]
fn slow_requests_of_the_entry_node_show_the_owners_part() {
    let nodes = Nodes::start(2, |_| {});
    let target = entity(nodes.key_of(1));
    let mut client = nodes.client(0);
    assert_eq!(client.call("PUT", &target, &[], b"value").status, 201);
    assert_eq!(client.get(&target).status, 200);
    let begun = Instant::now();
    loop {
        assert_eq!(client.get(&target).status, 200);
        let slow = client.get("/_admin/slow?operation=entity_get_forwarded").json().to_string();
        if ["\"peer_wait\"", "\"network\"", "\"owner_"].iter().all(|part| slow.contains(part)) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{slow}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
