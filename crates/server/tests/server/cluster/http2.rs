//! An HTTP/2 client at one node of a cluster: concurrent streams for keys of all nodes on one
//! connection.

use std::net::TcpStream;

use super::h2_client::{Answer, Client};
use crate::common::entity;
use crate::common::nodes::Nodes;

/// Number of concurrent streams, fewer than a server allows.
const AT_ONCE: usize = 48;

fn client(nodes: &Nodes, node: usize) -> Client<TcpStream> {
    let socket = TcpStream::connect(nodes.nodes[node].address).unwrap();
    socket.set_nonblocking(true).unwrap();
    Client::new(socket)
}

/// Makes the requests, many at a time, and returns their answers in the same order.
fn call_all(client: &mut Client<TcpStream>, calls: &[(&str, String, Vec<u8>)]) -> Vec<Answer> {
    let mut answers = Vec::new();
    for some in calls.chunks(AT_ONCE) {
        let calls: Vec<_> =
            some.iter().map(|(method, path, body)| (*method, path.as_str(), &**body)).collect();
        answers.extend(client.call_all(&[], &calls).into_iter().map(Result::unwrap));
    }
    answers
}

fn status(answer: &Answer) -> u16 {
    answer.0.status.as_u16()
}

/// The value of a key, with lengths from zero to more than a window of 64 KiB.
fn value_of(number: usize) -> Vec<u8> {
    let length = match number % 12 {
        11 => 200_000,
        length => length * 97,
    };
    (0..length).map(|at| (at * 7 + number) as u8).collect()
}

#[test]
fn streams_for_several_owners_are_forwarded_beside_each_other() {
    let nodes = Nodes::start(3, |_| {});
    let mut http2 = client(&nodes, 0);
    let keys: Vec<String> = (0..120).map(|number| format!("stream{number}")).collect();
    let owners: Vec<usize> = keys.iter().map(|key| nodes.owner(key.as_bytes())).collect();
    assert!((0..3).all(|node| owners.contains(&node)));
    let calls = |method: &'static str, body: &dyn Fn(usize) -> Vec<u8>| -> Vec<_> {
        let numbered = keys.iter().enumerate();
        numbered.map(|(number, key)| (method, entity(key), body(number))).collect()
    };
    let nothing = |_| Vec::new();
    // No key exists yet.
    let missing = call_all(&mut http2, &calls("GET", &nothing));
    assert!(missing.iter().all(|answer| status(answer) == 404));
    let puts = call_all(&mut http2, &calls("PUT", &value_of));
    assert!(
        puts.iter().all(|answer| status(answer) == 201 && answer.0.headers.contains_key("etag"))
    );
    let gets = call_all(&mut http2, &calls("GET", &nothing));
    for (number, answer) in gets.iter().enumerate() {
        assert_eq!(status(answer), 200, "{number}");
        assert!(answer.1 == value_of(number), "{number}: {} bytes", answer.1.len());
        assert_eq!(answer.0.headers.get("etag"), puts[number].0.headers.get("etag"));
    }
    let heads = call_all(&mut http2, &calls("HEAD", &nothing));
    for (number, answer) in heads.iter().enumerate() {
        let length = value_of(number).len().to_string();
        let told = answer.0.headers["content-length"].to_str().unwrap();
        assert_eq!((status(answer), told, answer.1.len()), (200, &*length, 0));
    }
    // The other nodes see the values that came by HTTP/2, each at its owner.
    for (number, key) in keys.iter().enumerate().take(24) {
        let got = nodes.client(owners[number]).get(&entity(key));
        assert!(got.body == value_of(number), "{number}");
    }
    let deleted = call_all(&mut http2, &calls("DELETE", &nothing));
    assert!(deleted.iter().all(|answer| status(answer) == 202));
    let gone = call_all(&mut http2, &calls("GET", &nothing));
    assert!(gone.iter().all(|answer| status(answer) == 404));
}

#[test]
fn a_dead_owner_fails_only_streams_for_its_keys() {
    let mut nodes = Nodes::start(3, |_| {});
    let dead = nodes.nodes[2].address;
    let mut http2 = client(&nodes, 0);
    let keys: Vec<String> = (0..3).flat_map(|node| nodes.keys_of(node).take(8)).collect();
    let gets: Vec<_> = keys.iter().map(|key| ("GET", entity(key), Vec::new())).collect();
    let puts: Vec<_> = keys.iter().map(|key| ("PUT", entity(key), b"kept".to_vec())).collect();
    assert!(call_all(&mut http2, &puts).iter().all(|answer| status(answer) == 201));
    nodes.lose(2, 0);
    for (key, answer) in keys.iter().zip(call_all(&mut http2, &gets)) {
        let text = String::from_utf8_lossy(&answer.1);
        if nodes.owner(key.as_bytes()) == 2 {
            assert_eq!(status(&answer), 504, "{key}: {text}");
            assert!(text.contains(&dead.to_string()), "{text}");
        } else {
            assert_eq!((status(&answer), &*text), (200, "kept"), "{key}");
        }
    }
    nodes.start_again(2);
    nodes.wait_for_all(0);
    // The same connection continues, and all its streams are served again.
    let answers = call_all(&mut http2, &gets);
    assert!(answers.iter().all(|answer| status(answer) == 200 && answer.1 == b"kept"));
}
