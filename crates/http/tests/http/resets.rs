//! Connections that end at every byte: reset, closed, or half closed, amid a handshake, a request,
//! a body and a response, over HTTP/1.1, HTTP/2 and TLS, while others are served.

use std::sync::Arc;
use std::time::Duration;

use crate::common::endings::{ConnectionProbe, DisconnectKind, ENDINGS, ProbeRequest, Script};
use crate::common::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, frame, greeting, headers, post,
};
use crate::common::tls_client::{certificates, client_config_for};
use crate::common::{TestServer, start_with};
use pellucid_http::Limits;
use rustls::ClientConfig;

const QUESTIONS: &[ProbeRequest] =
    &[ProbeRequest { method: "POST", path: "/", body: "watched", answer: "watched" }];

fn tls_config(protocol: &str) -> Arc<ClientConfig> {
    client_config_for("first", rustls::ALL_VERSIONS, &[protocol])
}

fn watch(running: &TestServer, tls: bool) -> ConnectionProbe {
    ConnectionProbe::start(running.address, tls.then_some(tls_config), QUESTIONS)
}

/// A body with a length, one in chunks, a request that is handed over, and a streamed response.
fn text_of_http1() -> Vec<u8> {
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
      POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n\
      POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n\
      GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n"
        .to_vec()
}

/// The same requests as HTTP/2 streams, and one more stream, which is reset.
fn text_of_http2() -> Vec<u8> {
    let end = END_STREAM | END_HEADERS;
    [
        greeting(),
        frame(HEADERS, END_HEADERS, 1, &post("/")),
        frame(DATA, END_STREAM, 1, b"hello"),
        frame(HEADERS, end, 3, &headers("/later")),
        frame(HEADERS, end, 5, &headers("/pieces")),
        frame(HEADERS, end, 7, &headers("/pieces")),
        frame(RST_STREAM, 0, 7, &8_u32.to_be_bytes()),
    ]
    .concat()
}

/// Ends connections after every byte that is sent, and after some that are received.
fn end_everywhere(tls: bool, protocol: &str) {
    let limits = Limits { idle: Duration::from_secs(600), ..Limits::default() };
    let running = start_with(limits, tls.then(|| certificates("first")));
    let watched = watch(&running, tls);
    let script = Script {
        address: running.address,
        tls: tls.then(|| tls_config(protocol)),
        text: if protocol == "h2" { text_of_http2() } else { text_of_http1() },
        patience: Duration::from_secs(60),
    };
    for ending in ENDINGS {
        let (mut send, mut is_whole) = (0, false);
        while !is_whole {
            // A TLS client sends only after it has received, so its input is hardly limited here.
            let receive = if tls { 4_096 } else { 0 };
            is_whole = script.play(send, receive, ending).0 > 0;
            send += 1;
        }
        assert!(send > script.text.len(), "{send}");
        watched.await_served();
        let first = if tls { 4_000..4_010 } else { 0..200 };
        // The client never opens the windows of its HTTP/2 streams beyond their initial size.
        let most = if protocol == "h2" { 50_000 } else { 1_000_000 };
        for receive in first.chain([20_000, most / 2, most]) {
            assert_eq!(script.play(usize::MAX, receive, ending).1, 0, "there is more to receive");
        }
        watched.await_served();
    }
    watched.end();
    running.until_nothing_is_left();
}

#[test]
fn resets_at_every_byte_of_http_1_hold_nobody_up() {
    end_everywhere(false, "http/1.1");
}

#[test]
fn resets_at_every_byte_of_http_2_hold_nobody_up() {
    end_everywhere(false, "h2");
}

#[test]
fn resets_at_every_byte_of_http_1_in_tls_hold_nobody_up() {
    end_everywhere(true, "http/1.1");
}

#[test]
fn resets_at_every_byte_of_http_2_in_tls_hold_nobody_up() {
    end_everywhere(true, "h2");
}

/// Regression: the loop's buffer was lost with the connection, and no other connection was served
/// from then on; in TLS the process ended.
#[test]
fn a_reset_behind_the_preface_does_not_affect_others() {
    for tls in [false, true] {
        let running = start_with(Limits::default(), tls.then(|| certificates("first")));
        let script = Script {
            address: running.address,
            tls: tls.then(|| tls_config("h2")),
            text: greeting(),
            patience: Duration::from_millis(20),
        };
        for _ in 0..50 {
            // The reset comes after all of the server's output, so that the connection speaks
            // HTTP/2.
            script.play(usize::MAX, usize::MAX, DisconnectKind::Reset);
        }
        let watched = watch(&running, tls);
        watched.await_served();
        watched.end();
    }
}
