//! A trace collector, to which the server posts spans.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

/// Starts a collector that accepts all posts. Returns its URL and the received posts, each with its
/// head and its document.
pub(crate) fn collector() -> (String, Receiver<(String, Value)>) {
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
            if posts.send((head, serde_json::from_slice(&body).unwrap())).is_err() {
                return;
            }
        }
    });
    (url, received)
}

pub(crate) fn spans(document: &Value) -> &Vec<Value> {
    document["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap()
}
