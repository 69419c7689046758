//! Attacks over HTTP/1.1.

use std::io::Read;
use std::net::Shutdown;

use super::attack_servers::AttackServers;
use super::raw::{Attack, connect, reset, send, statuses};
use crate::common::{entity, until_closed};

/// Requests, and the statuses that may answer them; 0 means that the server may close the
/// connection without an answer.
fn refused() -> Vec<(&'static str, Vec<u8>, &'static [u16])> {
    let line = |line: &str| format!("{line}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let with = |headers: &str, body: &str| {
        let head = "POST /v0/batch HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
        format!("{head}{headers}\r\n\r\n{body}").into_bytes()
    };
    let get = |target: &str| line(&format!("GET {target} HTTP/1.1")).into_bytes();
    let header = |headers: String| {
        let head = "GET /v0/entity?id=watched HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
        format!("{head}{headers}\r\n\r\n").into_bytes()
    };
    let long = |bytes: usize| "a".repeat(bytes);
    vec![
        ("a request line of 1 MiB", get(&format!("/{}", long(1 << 20))), &[414, 431]),
        (
            "a method of 10,000 letters",
            line(&format!("{} / HTTP/1.1", long(10_000))).into(),
            &[400, 501, 405],
        ),
        ("a method in lower case", line("get /v0/status HTTP/1.1").into(), &[400, 405, 501]),
        ("no version", line("GET /v0/status").into(), &[400, 505]),
        ("a version from the future", line("GET /v0/status HTTP/3.0").into(), &[400, 505]),
        ("a version of words", line("GET /v0/status HTTP/one").into(), &[400, 505]),
        (
            "an authority as target",
            line("CONNECT localhost:80 HTTP/1.1").into(),
            &[400, 404, 405, 501],
        ),
        ("a path without a slash", line("GET v0/status HTTP/1.1").into(), &[400]),
        ("a path with a NUL", b"GET /v0/\0status HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), &[400]),
        ("a path of dots", get("/v0/../../../etc/passwd"), &[400, 404]),
        ("a path with half an escape", get("/v0/entity?id=%"), &[400]),
        ("a path with an escape of letters", get("/v0/entity?id=%zz"), &[400]),
        (
            "a key of 100,000 bytes",
            get(&format!("/v0/entity?id={}", long(100_000))),
            &[400, 414, 431],
        ),
        ("no key", get("/v0/entity"), &[400]),
        ("a key that is empty", get("/v0/entity?id="), &[400, 404]),
        ("two keys", get("/v0/entity?id=a&id=b"), &[200, 400, 404]),
        ("a limit beyond all numbers", get("/v0/entities?limit=99999999999999999999999"), &[400]),
        ("a limit below zero", get("/v0/entities?limit=-1"), &[400]),
        ("a range from its end to its start", get("/v0/entities?start=z&end=a"), &[200, 400]),
        ("10,000 headers", header(format!("{}X: y", "X: y\r\n".repeat(10_000))), &[431]),
        ("a header of 1 MiB", header(format!("X: {}", long(1 << 20))), &[431]),
        ("a header's name of 1 MiB", header(format!("{}: x", long(1 << 20))), &[431, 400]),
        ("a header without a colon", header("nothing".into()), &[400]),
        ("a header with a space before its colon", header("X : y".into()), &[400]),
        ("a header with a NUL", header("X: a\0b".into()), &[400]),
        ("a header that goes on in the next line", header("X: a\r\n b".into()), &[400]),
        ("two Hosts", header("Host: localhost".into()), &[400]),
        ("no Host", b"GET /v0/status HTTP/1.1\r\n\r\n".to_vec(), &[400]),
        (
            "both lengths",
            with("Content-Length: 3\r\nTransfer-Encoding: chunked", "0\r\n\r\n"),
            &[400],
        ),
        ("two lengths", with("Content-Length: 3\r\nContent-Length: 4", "abcd"), &[400]),
        ("a length below zero", with("Content-Length: -1", ""), &[400]),
        ("a length with a sign", with("Content-Length: +3", "abc"), &[400]),
        (
            "a length beyond all numbers",
            with("Content-Length: 99999999999999999999999", ""),
            &[400, 413],
        ),
        ("a length of 16 EiB", with("Content-Length: 18446744073709551615", ""), &[400, 413]),
        ("a length of words", with("Content-Length: three", ""), &[400]),
        ("a coding of its own", with("Transfer-Encoding: xchunked", "0\r\n\r\n"), &[400, 501]),
        (
            "chunked, and then something",
            with("Transfer-Encoding: chunked, identity", "0\r\n\r\n"),
            &[400, 501],
        ),
        (
            "a chunk of 2^64 bytes",
            with("Transfer-Encoding: chunked", "10000000000000000\r\n"),
            &[400, 413],
        ),
        (
            "a chunk of 2^63 bytes",
            with("Transfer-Encoding: chunked", "8000000000000000\r\n"),
            &[400, 413],
        ),
        ("a chunk below zero", with("Transfer-Encoding: chunked", "-1\r\n"), &[400]),
        ("a chunk of words", with("Transfer-Encoding: chunked", "many\r\n"), &[400]),
        (
            "a chunk's extension of 1 MiB",
            with("Transfer-Encoding: chunked", &format!("1;{}\r\n", long(1 << 20))),
            &[400],
        ),
        (
            "a trailer of 1 MiB",
            with("Transfer-Encoding: chunked", &format!("0\r\nX: {}\r\n", long(1 << 20))),
            &[400, 431],
        ),
        (
            "a chunk that is longer than it says",
            with("Transfer-Encoding: chunked", "1\r\nabc\r\n0\r\n\r\n"),
            &[400],
        ),
        ("a body of 1 GiB for a page", with("Content-Length: 1073741824", "x"), &[413]),
        (
            "a time to live below zero",
            line("PUT /v0/entity?id=a&ttl=-1 HTTP/1.1").into(),
            &[400, 411],
        ),
        (
            "a promise that there is not",
            line("PUT /v0/entity?id=a&sync=moon HTTP/1.1").into(),
            &[400, 411],
        ),
        (
            "an upgrade to web sockets",
            header("Upgrade: websocket\r\nConnection: Upgrade".into()),
            &[200, 400],
        ),
        ("an expectation of its own", header("Expect: wonders".into()), &[200, 400, 417]),
        (
            "a range beyond all numbers",
            header("Range: bytes=99999999999999999999-".into()),
            &[200, 206, 400, 416],
        ),
        (
            "tags by the thousand",
            header(format!("If-Match: {}", "\"1\",".repeat(3_000))),
            &[200, 400, 412],
        ),
        (
            "codings by the thousand",
            header(format!("Accept-Encoding: {}", "gzip;q=0.1,".repeat(1_200))),
            &[200, 400],
        ),
        ("a preference of noise", header("Prefer: timing;;;==\"".into()), &[200, 400]),
        ("a trace of noise", header("traceparent: 00-zz-zz-zz".into()), &[200]),
        (
            "noise",
            (0..4_096_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect(),
            &[0, 400],
        ),
        ("a TLS hello", vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 13, 10, 13, 10], &[0, 400]),
        ("empty lines by the thousand", "\r\n".repeat(50_000).into(), &[0, 400, 408, 431]),
    ]
}

pub(crate) fn attacks() -> Vec<Attack> {
    let mut attacks: Vec<Attack> = refused()
        .into_iter()
        .map(|(name, bytes, allowed)| {
            Attack::new(format!("http1: {name}"), move |arena| {
                let mut socket = connect(arena.open.address);
                send(&mut socket, &bytes);
                let answer = until_closed(&mut socket);
                let first = statuses(&answer).first().copied().unwrap_or(0);
                assert!(allowed.contains(&first), "{name}: {}", String::from_utf8_lossy(&answer));
            })
        })
        .collect();
    attacks.extend([
        Attack::new("http1: 10,000 pipelined requests, and nobody reads", pipelined),
        Attack::new("http1: 300 bodies that were announced and end", |arena| {
            ended(arena, |socket| socket.shutdown(Shutdown::Write).unwrap());
        }),
        Attack::new("http1: 300 bodies that were announced and are reset", |arena| {
            ended(arena, |_| {});
        }),
        Attack::new("http1: a reset after each byte of a PUT", reset_everywhere),
        Attack::new("http1: large responses that nobody takes", untaken),
        Attack::new("http1: two bodies of 1 GiB with credentials of nobody", announced),
        Attack::new("http1: an upgrade to HTTP/2 with settings of words", |arena| {
            let mut socket = connect(arena.open.address);
            let head = "GET /v0/status HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\n";
            let upgrade = "Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: *";
            send(&mut socket, format!("{head}{upgrade}\r\n\r\n").as_bytes());
            let mut answer = [0; 12];
            socket.read_exact(&mut answer).unwrap();
            assert!(matches!(statuses(&answer)[..], [101 | 200 | 400]), "{answer:?}");
        }),
        Attack::new("http1: 400 connections that say nothing", |arena| {
            let idle: Vec<_> = (0..400).map(|_| connect(arena.open.address)).collect();
            assert_eq!(arena.open.client().get(&entity("watched")).status, 200);
            drop(idle);
        }),
    ]);
    attacks
}

fn pipelined(arena: &AttackServers) {
    let mut socket = connect(arena.open.address);
    socket.set_write_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    let request = b"GET /v0/entity?id=watched HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(10_000);
    send(&mut socket, &request);
    let mut first = [0; 12];
    socket.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
}

fn ended(arena: &AttackServers, end: impl Fn(&std::net::TcpStream)) {
    let head =
        b"PUT /v0/entity?id=half HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf";
    let sockets: Vec<_> = (0..300)
        .map(|_| {
            let mut socket = connect(arena.open.address);
            send(&mut socket, head);
            end(&socket);
            socket
        })
        .collect();
    sockets.into_iter().for_each(reset);
    assert_eq!(arena.open.client().get(&entity("half")).status, 404, "half a body is no value");
}

fn reset_everywhere(arena: &AttackServers) {
    let put =
        b"PUT /v0/entity?id=reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody";
    for end in 0..put.len() {
        let mut socket = connect(arena.open.address);
        send(&mut socket, &put[..end]);
        reset(socket);
    }
    assert_eq!(arena.open.client().get(&entity("reset")).status, 404);
}

fn untaken(arena: &AttackServers) {
    let sockets: Vec<_> = (0..64)
        .map(|_| {
            let mut socket = connect(arena.open.address);
            send(&mut socket, b"GET /v0/entity?id=large HTTP/1.1\r\nHost: localhost\r\n\r\n");
            socket
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(500));
    super::after(arena, "large responses that nobody takes, meanwhile");
    drop(sockets);
}

/// Regression: declared lengths of bodies reserved the memory budget of all bodies for hours.
fn announced(arena: &AttackServers) {
    let head = "POST /_api/document/c HTTP/1.1\r\nHost: localhost\r\nAuthorization: x\r\n\
                Content-Length: 1073741824\r\n\r\n";
    let mut sockets: Vec<_> = (0..2).map(|_| connect(arena.guarded.address)).collect();
    sockets.iter_mut().for_each(|socket| send(socket, head.as_bytes()));
    for socket in &mut sockets {
        let answer = until_closed(socket);
        assert_eq!(statuses(&answer), [401], "{}", String::from_utf8_lossy(&answer));
    }
}
