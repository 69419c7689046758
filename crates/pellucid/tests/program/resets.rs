//! A soak of connections to the built server that end at random places in random ways, over
//! HTTP/1.1, HTTP/2 and TLS, while eight other clients read and write.
//!
//! `make soak-resets` runs it for an hour. With `PELLUCID_ATTACKS_STRICT=1`, a wait fails the test
//! if it is more than 50 ms above the longest one of an idle server. Use it on a machine that runs
//! nothing else.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::tls::{certificate, client_config};
use crate::common::{TestServer, entity, wait_until};
use crate::endings::{ConnectionProbe, DisconnectKind, ENDINGS, ProbeRequest, Script};
use crate::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, frame, greeting, headers};
use pellucid_io::SeededRandom;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tempfile::TempDir;

/// The seconds of the soak, unless the environment sets another number.
const SOAK_SECONDS: u64 = 3;
/// The pause between two connections that end; there are some hundred of them per second.
const PAUSE: Duration = Duration::from_millis(3);
/// The longest wait of a watched connection, even on a busy machine. A longer one means that the
/// server forgot the connection.
const WAIT_MAX: Duration = Duration::from_secs(20);
/// The time by which a wait may exceed the longest wait without resets, in the strict mode.
const WAIT_BEYOND_IDLE_MAX: Duration = Duration::from_millis(50);
/// The length in bytes of the entity that is read while connections end.
const LARGE_BYTES: usize = 2 << 20;

/// The requests of the eight clients with the expected answers: each reads back its own writes.
const QUESTIONS: [&[ProbeRequest]; 2] = [
    &[
        ProbeRequest { method: "PUT", path: "/v0/entity?id=one", body: "first", answer: "" },
        ProbeRequest { method: "GET", path: "/v0/entity?id=one", body: "", answer: "first" },
    ],
    &[
        ProbeRequest { method: "PUT", path: "/v0/entity?id=two", body: "second", answer: "" },
        ProbeRequest { method: "GET", path: "/v0/entity?id=two", body: "", answer: "second" },
    ],
];
const QUERY: &str = r#"{"query":"FOR i IN 1..2000 RETURN [i, RANGE(1, 3)]"}"#;

fn tls_config(protocol: &str) -> Arc<ClientConfig> {
    client_config(&[protocol])
}

/// Returns requests over HTTP/1.1: a body with a length, a chunked body, a query that another
/// thread runs, and a GET with a long response.
fn text_of_http1() -> Vec<u8> {
    let length = QUERY.len();
    format!(
        "PUT /v0/entity?id=a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello\
         PUT /v0/entity?id=b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\n\r\n\
         POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{QUERY}\
         GET /v0/entity?id=large HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    .into_bytes()
}

/// Returns the same requests as HTTP/2 streams, the last of which is reset.
fn text_of_http2() -> Vec<u8> {
    // The authority, whose name has index 1 of the static table, as a literal without indexing.
    let authority = [&[1, 9][..], b"localhost"].concat();
    let get = |path: &str| [headers(path), authority.clone()].concat();
    // The method PUT is a literal; POST is in the static table.
    let put = [&[0x02, 3][..], b"PUT", &get("/v0/entity?id=a")[1..]].concat();
    let post = [&[0x83][..], &get("/_api/cursor")[1..]].concat();
    let end = END_STREAM | END_HEADERS;
    [
        greeting(),
        frame(HEADERS, END_HEADERS, 1, &put),
        frame(DATA, END_STREAM, 1, b"hello"),
        frame(HEADERS, END_HEADERS, 3, &post),
        frame(DATA, END_STREAM, 3, QUERY.as_bytes()),
        frame(HEADERS, end, 5, &get("/v0/entity?id=large")),
        frame(HEADERS, end, 7, &get("/v0/entity?id=large")),
        frame(RST_STREAM, 0, 7, &8_u32.to_be_bytes()),
    ]
    .concat()
}

/// Returns the metrics of a server, over a connection that the server closes.
fn metrics(address: SocketAddr, is_tls: bool) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut page = Vec::new();
    if is_tls {
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(tls_config("http/1.1"), name).unwrap();
        let mut stream = StreamOwned::new(session, socket);
        stream.write_all(request).unwrap();
        stream.read_to_end(&mut page).unwrap();
    } else {
        socket.write_all(request).unwrap();
        socket.read_to_end(&mut page).unwrap();
    }
    String::from_utf8(page).unwrap()
}

/// Waits until only the connection of the metrics is open, and nothing is left of the others.
fn await_nothing_left(address: SocketAddr, is_tls: bool) {
    let figures =
        ["pellucid_connections_open 1", "pellucid_requests_in_flight 1", "pellucid_body_bytes 0"];
    wait_until(
        || metrics(address, is_tls),
        |page| figures.iter().all(|figure| page.lines().any(|line| line == *figure)),
    );
}

#[test]
fn resets_at_random_hold_nobody_up() {
    let set = |name| std::env::var(name).ok();
    let seconds = set("PELLUCID_SOAK_SECONDS").map(|text| text.parse().unwrap());
    let time = Duration::from_secs(seconds.unwrap_or(SOAK_SECONDS));
    let is_strict = set("PELLUCID_ATTACKS_STRICT").is_some_and(|text| text == "1");
    let folder = TempDir::new().unwrap();
    let (certificate, key) = certificate(folder.path());
    let arguments = [&[][..], &["--tls-cert", &certificate, "--tls-key", &key]];
    let servers = [("plain", arguments[0]), ("tls", arguments[1])]
        .map(|(name, arguments)| TestServer::start(&folder.path().join(name), arguments));
    let watched: Vec<_> = [0, 1, 2, 3]
        .map(|number| {
            let is_tls = number % 2 == 1;
            let address = servers[usize::from(is_tls)].address;
            ConnectionProbe::start(address, is_tls.then_some(tls_config), QUESTIONS[number / 2])
        })
        .into_iter()
        .collect();
    let longest = || watched.iter().map(ConnectionProbe::take_longest).max().unwrap_or_default();
    watched.iter().for_each(ConnectionProbe::await_served);
    longest();
    std::thread::sleep(time.min(Duration::from_secs(60)));
    let idle = longest();

    let script = |is_tls: bool, protocol: &str| Script {
        address: servers[usize::from(is_tls)].address,
        tls: is_tls.then(|| tls_config(protocol)),
        text: if protocol == "h2" { text_of_http2() } else { text_of_http1() },
        // A client that half-closes reads all of the response, which exceeds the window in HTTP/2.
        patience: Duration::from_secs(60),
    };
    let scripts = [(false, "http/1.1"), (false, "h2"), (true, "http/1.1"), (true, "h2")]
        .map(|(is_tls, protocol)| script(is_tls, protocol));
    let large = vec![b'x'; LARGE_BYTES];
    assert_eq!(servers[0].client().put(&entity("large"), &large).status, 201);
    // The long entity of the TLS server is put by a client with TLS.
    put_over_tls(servers[1].address, &large);
    // First each script is answered completely; only its last response is as long as this.
    for script in &scripts {
        assert_eq!(
            script.play(usize::MAX, 60_000, DisconnectKind::Closed).1,
            0,
            "a script is refused"
        );
    }
    let (begun, mut random, mut ended) = (Instant::now(), SeededRandom::new(1), 0_u64);
    let (mut worst, mut reports) = (Duration::ZERO, 1);
    while begun.elapsed() < time {
        let script = &scripts[random.place(4)];
        let ending = ENDINGS[random.place(3)];
        let (send, receive) = match random.place(2) {
            0 => (random.place(script.text.len() + 1_200), random.place(4_096)),
            _ => (usize::MAX, random.place(50_000)),
        };
        // If all is sent, the number of received bytes decides where the connection ends.
        script.play(send, receive, ending);
        ended += 1;
        std::thread::sleep(PAUSE);
        let minutes = begun.elapsed().as_secs() / 60;
        if minutes >= reports {
            let waited = longest();
            worst = worst.max(waited);
            println!("minute {minutes}: {ended} connections ended; the longest wait: {waited:?}");
            reports = minutes + 1;
        }
    }
    watched.iter().for_each(ConnectionProbe::await_served);
    worst = worst.max(longest());
    let served: usize = watched.into_iter().map(ConnectionProbe::end).sum();
    println!(
        "{ended} connections ended, {served} watched requests; the longest wait: {worst:?}, and \
         {idle:?} without resets"
    );
    assert!(ended > 0 && worst < WAIT_MAX, "{worst:?}");
    assert!(!is_strict || worst <= idle + WAIT_BEYOND_IDLE_MAX, "{worst:?}, idle {idle:?}");
    for (server, is_tls) in servers.into_iter().zip([false, true]) {
        await_nothing_left(server.address, is_tls);
    }
}

fn put_over_tls(address: SocketAddr, value: &[u8]) {
    let socket = TcpStream::connect(address).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let session = ClientConnection::new(tls_config("h2"), name).unwrap();
    let mut stream = StreamOwned::new(session, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    stream.sock.set_nonblocking(true).unwrap();
    let mut client = crate::h2_client::Client::new(stream);
    let answers = client.call_all(&[], &[("PUT", &entity("large"), value)]);
    assert!(answers.into_iter().all(|answer| answer.unwrap().0.status.is_success()));
}
