//! Tests of Unix sockets, beside TCP.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::common::tls_client::{certificates, client_config, client_of};
use crate::common::{TestServer, answers, connect, listener, request, status, try_start};
use pellucid_http::{Certificates, DisconnectReason, Limits, ListenAddress, Listener};
use tempfile::TempDir;

/// Bytes of the body of `/pieces`.
const PIECES_BYTES: usize = 40 * 50_000;

fn dial(path: &Path) -> UnixStream {
    let socket = UnixStream::connect(path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

/// Serves over TCP and at a file; also returns the folder and the path of the file.
fn start(
    limits: Limits,
    certificates: Option<Arc<Certificates>>,
) -> (TempDir, PathBuf, TestServer) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("socket");
    let address = ListenAddress::Unix(path.clone().into());
    let listeners = vec![listener(), Listener::open(&address, 0o600).unwrap()];
    (folder, path, try_start(listeners, limits, certificates, 2).unwrap())
}

#[test]
fn requests_are_answered_as_over_tcp() {
    let (_folder, path, running) = start(Limits::default(), None);
    let large = "0123456789".repeat(90_000);
    let sent = [
        request("/", "", "one"),
        request("/later", "", "two"),
        request("/", "", &large),
        request("/pieces", "Connection: close\r\n", ""),
    ];
    for answers in [answers(dial(&path), sent.concat()), answers(connect(&running), sent.concat())]
    {
        assert!(answers.contains("\r\n\r\none") && answers.contains("\r\n\r\ntwo"));
        assert!(answers.contains(&large) && answers.len() > large.len() + PIECES_BYTES);
        assert!(answers.ends_with("0\r\n\r\n"));
    }
    let mut socket = dial(&path);
    socket.write_all(request("/later", "", "half closed").as_bytes()).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    assert!(answers(socket, "").ends_with("half closed"), "who ends first still has its answer");
}

#[test]
fn http2_is_spoken_too() {
    let (_folder, path, _running) = start(Limits::default(), None);
    let socket = dial(&path);
    socket.set_nonblocking(true).unwrap();
    let mut client = crate::common::h2_client::Client::new(socket);
    let large = vec![b'x'; 300_000];
    let answers = client.exchange(&[("/", b"short"), ("/", &large), ("/pieces", b"")]);
    let lengths: Vec<_> = answers.iter().map(|answer| answer.as_ref().unwrap().1.len()).collect();
    assert_eq!(lengths, [5, 300_000, PIECES_BYTES]);
}

#[test]
fn a_server_with_tls_uses_it_only_over_tcp() {
    let (_folder, path, running) = start(Limits::default(), Some(certificates("first")));
    let sent = request("/", "Connection: close\r\n", "as it is");
    assert!(answers(dial(&path), &sent).ends_with("as it is"));
    assert!(answers(connect(&running), &sent).contains("use https://"));
    let config = client_config("first", rustls::ALL_VERSIONS);
    assert!(answers(client_of(&running, &config), &sent).ends_with("as it is"));
}

#[test]
fn connections_are_limited_separately_from_those_of_tcp() {
    let limits = Limits { connections_of_loopback: 1, ..Limits::default() };
    let (_folder, path, running) = start(limits, None);
    let sent = request("/", "Connection: close\r\n", "x");
    let mut held = dial(&path);
    held.write_all(request("/", "", "x").as_bytes()).unwrap();
    assert_eq!(status(&mut held), "200");
    // A refused connection may be reset before it is written to.
    let mut refused = dial(&path);
    let _ = refused.write_all(sent.as_bytes());
    let mut rest = Vec::new();
    let _ = refused.read_to_end(&mut rest);
    assert!(rest.is_empty());
    assert_eq!(running.cuts().refused[DisconnectReason::Address], 1);
    assert!(answers(connect(&running), &sent).ends_with('x'));
}

#[test]
fn a_client_that_is_gone_is_forgotten() {
    let (_folder, path, running) = start(Limits::default(), None);
    for target in ["/", "/pieces", "/waiting", "/later"] {
        dial(&path).write_all(request(target, "", "x").as_bytes()).unwrap();
    }
    dial(&path).write_all(b"POST / HTTP/1.1\r\nHost: loc").unwrap();
    running.until("nobody is left", |stats| stats.connections_ever == 5);
    running.until("nobody is left", |stats| stats.connections_open == 0);
    running.until("nothing is left", |stats| stats.requests_in_flight == 0);
}

#[test]
fn the_file_is_removed_when_the_server_stops() {
    let (_folder, path, running) = start(Limits::default(), None);
    assert!(path.exists());
    drop(running);
    assert!(!path.exists());
}
