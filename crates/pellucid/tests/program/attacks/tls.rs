//! Attacks over TLS.

use std::net::Shutdown;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Stream};

use super::attack_servers::AttackServers;
use super::raw::{Attack, NamedAttack, connect, reset, send, statuses};
use crate::common::tls::client_config;
use crate::common::until_closed;

fn session(protocols: &[&str]) -> ClientConnection {
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(client_config(protocols), name).unwrap()
}

/// Returns true if the server answers over TLS.
pub(crate) fn serves(arena: &AttackServers) -> bool {
    let (mut session, mut socket) = (session(&[]), connect(arena.secure.address));
    let request = b"GET /v0/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut stream = Stream::new(&mut session, &mut socket);
    let mut answer = Vec::new();
    std::io::Write::write_all(&mut stream, request).is_ok()
        && std::io::Read::read_to_end(&mut stream, &mut answer).is_ok()
        && statuses(&answer) == [200]
}

/// Returns the first flight of a client.
fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    session(&["h2", "http/1.1"]).write_tls(&mut bytes).unwrap();
    bytes
}

/// Returns the socket of a client after its handshake; further bytes are sent unencrypted.
fn shaken(arena: &AttackServers) -> std::net::TcpStream {
    let (mut session, mut socket) = (session(&[]), connect(arena.secure.address));
    while session.is_handshaking() {
        session.complete_io(&mut socket).unwrap();
    }
    socket
}

/// Bytes in place of a handshake, after which the server closes the connection.
fn garbage() -> Vec<(&'static str, Vec<u8>)> {
    let hello = hello();
    let mut flipped = hello.clone();
    flipped.iter_mut().skip(5).for_each(|byte| *byte ^= 0x55);
    vec![
        ("a request in the clear", b"GET /v0/status HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("HTTP/2 in the clear", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec()),
        ("noise", (0..8_192_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect()),
        ("a hello with every bit in question", flipped),
        ("a hello of SSL 2", vec![0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10, 1, 0, 0x80]),
        ("a record of 65,535 bytes", [&[0x16, 3, 1, 0xff, 0xff][..], &[1; 70_000]].concat()),
        ("data before the handshake", [&[0x17, 3, 3, 0, 32][..], &[7; 32]].concat()),
        ("a fatal alert at once", vec![0x15, 3, 3, 0, 2, 2, 40]),
        ("a heartbeat", vec![0x18, 3, 2, 0, 3, 1, 0x40, 0]),
        ("warnings by the thousand", [0x15, 3, 3, 0, 2, 1, 90].repeat(10_000)),
        (
            "a handshake message of 16 MiB",
            [&[0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &[0; 16_380]].concat(),
        ),
        ("a hello, and then noise", [&hello[..], &[0xaa; 4_096]].concat()),
    ]
}

pub(crate) fn attacks() -> Vec<Attack> {
    let garbage = garbage().into_iter().map(|(name, bytes)| {
        Attack::new(format!("tls: {name}"), move |arena| {
            let mut socket = connect(arena.secure.address);
            send(&mut socket, &bytes);
            let _ = socket.shutdown(Shutdown::Write);
            until_closed(&mut socket);
        })
    });
    let others: [NamedAttack; 8] = [
        ("a reset after each byte of a hello", |arena| {
            let hello = hello();
            for end in 0..hello.len() {
                let mut socket = connect(arena.secure.address);
                send(&mut socket, &hello[..end]);
                reset(socket);
            }
        }),
        ("an end after each byte of a hello", |arena| {
            let hello = hello();
            for end in 0..hello.len() {
                let mut socket = connect(arena.secure.address);
                send(&mut socket, &hello[..end]);
            }
        }),
        ("200 hellos at once", |arena| {
            let hello = hello();
            let mut sockets: Vec<_> = (0..200).map(|_| connect(arena.secure.address)).collect();
            sockets.iter_mut().for_each(|socket| send(socket, &hello));
            assert!(serves(arena));
        }),
        ("200 connections that say nothing", |arena| {
            let idle: Vec<_> = (0..200).map(|_| connect(arena.secure.address)).collect();
            assert!(serves(arena));
            drop(idle);
        }),
        ("noise after the handshake", |arena| {
            let mut socket = shaken(arena);
            send(&mut socket, &[&[0x17, 3, 3, 1, 0][..], &[9; 256]].concat());
            until_closed(&mut socket);
        }),
        ("a request in the clear after the handshake", |arena| {
            let mut socket = shaken(arena);
            send(&mut socket, b"GET /v0/status HTTP/1.1\r\nHost: localhost\r\n\r\n");
            until_closed(&mut socket);
        }),
        ("a reset of HTTP/2 after its settings", |arena| {
            for _ in 0..20 {
                let (mut session, mut socket) = (session(&["h2"]), connect(arena.secure.address));
                let mut stream = Stream::new(&mut session, &mut socket);
                let begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
                std::io::Write::write_all(&mut stream, begin).unwrap();
                reset(socket);
            }
        }),
        ("a response that nobody takes", |arena| {
            let (mut session, mut socket) = (session(&[]), connect(arena.secure.address));
            let mut stream = Stream::new(&mut session, &mut socket);
            let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2_000);
            socket_timeout(stream.sock);
            let _ = std::io::Write::write_all(&mut stream, &request);
            std::thread::sleep(Duration::from_millis(300));
        }),
    ];
    let named = |(name, run): NamedAttack| Attack::new(format!("tls: {name}"), run);
    garbage.chain(others.map(named)).collect()
}

fn socket_timeout(socket: &std::net::TcpStream) {
    socket.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
}
