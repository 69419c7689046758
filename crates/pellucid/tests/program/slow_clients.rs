//! Hundreds of slow clients, and thousands of idle ones.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::common::{Client, PATIENCE, entity, serve, until_closed, wait_until};

fn connections_open(client: &mut Client) -> f64 {
    client.figure("pellucid_connections_open")
}

/// Slowloris: clients send heads and bodies a byte at a time, or do not read the response.
#[test]
fn slow_clients_are_disconnected_while_others_are_served() {
    let (_folder, server) = serve(&["--exchange-timeout", "1s"]);
    let mut good = server.client();
    assert_eq!(good.put(&entity("big"), vec![7; 32 << 20]).status, 201);
    let connect = |begin: &[u8]| {
        let mut socket = TcpStream::connect(server.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.write_all(begin).unwrap();
        socket
    };
    let mut heads: Vec<_> =
        (0..100).map(|_| connect(b"GET /v0/status HTTP/1.1\r\nHost: a\r\nX")).collect();
    let body = b"PUT /v0/entity?id=slow HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx";
    let mut bodies: Vec<_> = (0..100).map(|_| connect(body)).collect();
    let mut readers: Vec<_> =
        (0..20).map(|_| connect(b"GET /v0/entity?id=big HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    for _ in 0..10 {
        for socket in heads.iter_mut().chain(&mut bodies) {
            // Writing fails once the server has closed the connection.
            let _ = socket.write_all(b"y");
        }
        assert_eq!(good.get("/v0/status").status, 200, "neighbours are served");
        std::thread::sleep(Duration::from_millis(50));
    }
    for socket in heads.iter_mut().chain(&mut bodies) {
        let answer = until_closed(socket);
        // If the client's last byte came after the server's close, the system may have dropped the
        // answer.
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408 "), "{answer:?}");
    }
    // A client that reads nothing is disconnected, although the response is not sent completely.
    let open = || {
        assert_eq!(good.get("/v0/status").status, 200, "neighbours are served");
        connections_open(&mut good)
    };
    wait_until(open, |open| *open <= 1.0);
    for socket in &mut readers {
        assert!(until_closed(socket).len() < 32 << 20, "what was cut is not whole");
    }
    assert_eq!(good.get(&entity("slow")).status, 404, "half a body is no value");
}

/// An idle connection costs a few KiB, but no thread and no buffer.
#[test]
fn ten_thousand_idle_connections_cost_little() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    // If the system allows fewer open files, the test opens as many as it allows.
    let allowed = limit.maximum.unwrap_or(u64::MAX).saturating_sub(200);
    let count = usize::try_from(allowed).unwrap_or(usize::MAX).min(10_000);
    let (_folder, server) = serve(&[]);
    let mut good = server.client();
    assert_eq!(good.put(&entity("a"), "1").status, 201);
    let before = good.figure("pellucid_anonymous_memory_bytes");
    let mut idle = Vec::with_capacity(count);
    for _ in 0..count {
        let mut socket = TcpStream::connect(server.address).unwrap();
        socket.write_all(b"GET /v0/entity?id=a HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = [0; 512];
        assert!(socket.read(&mut answer).unwrap() > 0, "each was served once");
        idle.push(socket);
    }
    let each = (good.figure("pellucid_anonymous_memory_bytes") - before) / count as f64;
    assert!(each < 4_096.0, "an idle connection takes {each:.0} bytes");
    assert_eq!(good.get(&entity("a")).text(), "1");
    assert_eq!(connections_open(&mut good), 1.0 + count as f64);
    drop(idle);
    wait_until(|| connections_open(&mut good), |open| *open <= 1.0);
}
