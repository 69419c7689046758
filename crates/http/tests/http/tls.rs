//! Tests of TLS: a rustls client against the transport, over real sockets.

use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::common::tls_client::{
    Client, certificates, client_config, client_config_for, client_of, file, http2_of,
};
use crate::common::{TestServer, answers, connect, request, rest, start_with, status};
use pellucid_http::{CertificateError, Certificates, Limits};

fn start_tls(limits: Limits) -> TestServer {
    start_with(limits, Some(certificates("first")))
}

fn client(running: &TestServer) -> Client {
    client_of(running, &client_config("first", rustls::ALL_VERSIONS))
}

fn post(path: &str, body: &str) -> String {
    request(path, "Connection: close\r\n", body)
}

#[test]
fn both_versions_serve_large_bodies_and_streams() {
    let running = start_tls(Limits::default());
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let config = client_config("first", &[version]);
        let body = "0123456789".repeat(90_000);
        let echo = answers(client_of(&running, &config), post("/", &body));
        assert!(echo.ends_with(&body), "{version:?}");
        let streamed = answers(client_of(&running, &config), post("/pieces", ""));
        assert!(streamed.len() > 40 * 50_000 && streamed.ends_with("0\r\n\r\n"));
        let later = answers(client_of(&running, &config), post("/later", "handed over"));
        assert!(later.ends_with("handed over"));
    }
    let tls = running.stats().tls;
    assert_eq!((tls.handshakes, tls.handshakes_failed), (6, 0));
    assert!(tls.handshake_ns > 0 && tls.decrypt_ns > 0 && tls.encrypt_ns > 0);
    assert!(tls.decrypted_bytes > 1_800_000 && tls.encrypted_bytes > 5_800_000);
}

#[test]
fn a_slow_reader_of_a_stream_gets_all_of_it() {
    let running = start_tls(Limits::default());
    let mut client = client(&running);
    client.write_all(post("/pieces", "").as_bytes()).unwrap();
    client.flush().unwrap();
    let beside = self::client(&running);
    assert!(answers(beside, post("/", "beside it")).ends_with("beside it"));
    let whole = rest(client);
    assert!(whole.len() > 40 * 50_000 && whole.ends_with("0\r\n\r\n"));
}

#[test]
fn the_handshake_chooses_the_protocol() {
    let running = start_tls(Limits::default());
    for version in rustls::ALL_VERSIONS {
        let config = client_config_for("first", &[version], &["h2", "http/1.1"]);
        let mut client = http2_of(&running, &config);
        let large = vec![b'x'; 300_000];
        let answers = client.exchange(&[("/", b"short"), ("/", &large), ("/pieces", b"")]);
        let lengths: Vec<_> =
            answers.iter().map(|answer| answer.as_ref().unwrap().1.len()).collect();
        assert_eq!(lengths, [5, 300_000, 40 * 50_000]);
    }
    let config = client_config_for("first", rustls::ALL_VERSIONS, &["http/1.1"]);
    assert!(answers(client_of(&running, &config), post("/", "old")).ends_with("old"));
}

#[test]
fn plain_http_is_told_to_use_tls() {
    let running = start_tls(Limits::default());
    let answer = answers(connect(&running), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("use https://"), "{answer}");
    assert_eq!(running.stats().tls.handshakes_failed, 1);
}

#[test]
fn a_client_that_never_ends_the_handshake_is_cut() {
    let limits = Limits { handshake: Duration::from_millis(300), ..Limits::default() };
    let running = start_tls(limits);
    // The beginning of a ClientHello that announces more than ever comes.
    let answer = answers(connect(&running), [22_u8, 3, 1, 1, 0, 1, 0]);
    assert_eq!(answer, "", "closed without a word");
    assert_eq!(running.stats().tls.handshakes_failed, 1);
}

#[test]
fn an_invalid_handshake_ends_the_connection() {
    let running = start_tls(Limits::default());
    let mut socket = connect(&running);
    socket.write_all(&[[22_u8, 3, 1, 0, 200].as_slice(), &[0xff; 200]].concat()).unwrap();
    let mut alert = Vec::new();
    // The kernel may report the close as a reset.
    let _ = socket.read_to_end(&mut alert);
    assert!(alert.len() < 50, "an alert at most");
}

#[test]
fn a_new_pair_is_loaded_while_connections_are_open_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let install = |pair: &str| {
        std::fs::copy(file(&format!("{pair}.pem")), place("cert")).unwrap();
        std::fs::copy(file(&format!("{pair}-key.pem")), place("key")).unwrap();
    };
    install("first");
    let certificates = Arc::new(Certificates::load(&place("cert"), &place("key")).unwrap());
    let running = start_with(Limits::default(), Some(Arc::clone(&certificates)));
    let open = &mut client(&running);
    open.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(status(open), "200");

    std::fs::copy(file("second.pem"), place("cert")).unwrap();
    let mixed = certificates.reload();
    assert!(matches!(mixed, Err(CertificateError::Pair(_))), "certificate and key do not match");
    assert!(certificates.reload_if_changed().unwrap().is_err(), "it is tried again");
    assert!(answers(client(&running), post("/", "old")).ends_with("old"));

    install("second");
    certificates.reload_if_changed().unwrap().unwrap();
    assert!(certificates.reload_if_changed().is_none());
    let second = client_config("second", rustls::ALL_VERSIONS);
    assert!(answers(client_of(&running, &second), post("/", "new")).ends_with("new"));
    assert!(answers(open, post("/", "still here")).ends_with("still here"));
    let mut distrusting = client(&running);
    let refused = distrusting.write_all(b"x").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidData, "the first authority signed the old pair");
}

#[test]
fn errors_name_the_unusable_file() {
    let load = |certificate: PathBuf, key: PathBuf| {
        let Err(error) = Certificates::load(&certificate, &key) else { panic!("it was taken") };
        error.to_string()
    };
    let absent = load(file("absent.pem"), file("first-key.pem"));
    assert!(absent.contains("absent.pem"), "{absent}");
    let key_for_certificate = load(file("first-key.pem"), file("first-key.pem"));
    assert!(key_for_certificate.contains("no certificate"), "{key_for_certificate}");
    let no_key = load(file("first.pem"), file("first.pem"));
    assert!(no_key.contains("no private key"), "{no_key}");
    let mixed = load(file("first.pem"), file("second-key.pem"));
    assert!(mixed.contains("cannot be used together"), "{mixed}");
}
