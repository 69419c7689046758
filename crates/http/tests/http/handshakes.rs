//! Crowds of new TLS clients: connected clients are served between their handshakes.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::common::tls_client::{Client, certificates, client_config, client_of};
use crate::common::{
    TestServer, await_held, await_that, connect, listener, release, request, status, try_start,
};
use pellucid_http::{HANDSHAKES_PER_TURN_MAX, Limits};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

/// The number of new clients that come at once.
const CROWD: usize = 500;
/// The gate at which the loop is held before it sees the crowd.
const BEFORE: usize = 8;
/// The gate at which the loop is held within a request that comes after the crowd.
const WITHIN: usize = 9;

/// Sends a request of a connected client that holds the loop at a gate.
fn ask_to_hold(client: &mut Client, gate: usize) {
    client.write_all(request("/held", "", &gate.to_string()).as_bytes()).unwrap();
}

fn await_answer(client: &mut Client) {
    assert_eq!(status(client), "200");
    // The rest of the answer comes in the same TLS record.
    let _ = client.read(&mut [0; 1024]).unwrap();
}

/// A client that has sent its ClientHello.
fn greet(running: &TestServer) -> TcpStream {
    let config = client_config("first", rustls::ALL_VERSIONS);
    let name = ServerName::try_from("localhost").unwrap();
    let mut session = ClientConnection::new(config, name).unwrap();
    let mut socket = connect(running);
    session.write_tls(&mut socket).unwrap();
    socket
}

fn is_answered(socket: &TcpStream) -> bool {
    socket.set_nonblocking(true).unwrap();
    match socket.peek(&mut [0]) {
        Ok(count) => count > 0,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            false
        }
    }
}

/// Regression: a request waited for all handshakes that had come before it.
#[test]
fn a_connected_client_does_not_wait_for_a_crowd_of_handshakes() {
    let certificates = Some(certificates("first"));
    let running = try_start(vec![listener()], Limits::default(), certificates, 1).unwrap();
    let connected = || client_of(&running, &client_config("first", rustls::ALL_VERSIONS));
    let (mut holder, mut other) = (connected(), connected());
    for client in [&mut holder, &mut other] {
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        await_answer(client);
    }
    let silent: Vec<TcpStream> = (0..CROWD).map(|_| connect(&running)).collect();
    running.until("all are there", |stats| stats.connections_open >= CROWD + 2);
    drop(silent);
    running.until("they are gone", |stats| stats.connections_open <= 2);
    ask_to_hold(&mut holder, BEFORE);
    await_held(BEFORE);
    // While the loop is held, the crowd comes, and then a connected client sends a request.
    let crowd: Vec<TcpStream> = (0..CROWD).map(|_| greet(&running)).collect();
    ask_to_hold(&mut other, WITHIN);
    release(BEFORE);
    await_held(WITHIN);
    let answered = crowd.iter().filter(|socket| is_answered(socket)).count();
    release(WITHIN);
    await_answer(&mut holder);
    await_answer(&mut other);
    assert!(answered <= 8 * HANDSHAKES_PER_TURN_MAX, "{answered} handshakes went before");
    // The crowd is served as well.
    for socket in &crowd {
        await_that(|| is_answered(socket), || "one of the crowd is not served".to_owned());
    }
}
