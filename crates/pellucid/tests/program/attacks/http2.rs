//! Attacks over HTTP/2, frame by frame (RFC 9113).

use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::attack_servers::AttackServers;
use super::raw::{Attack, PATIENCE, connect, reset, send};
use crate::common::{until_closed, wait_until};
use crate::frames::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, frame, greeting, literal, read_frame,
};

const PRIORITY: u8 = 2;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;

const PADDED: u8 = 8;
const ACK: u8 = 1;

/// Returns the header block of a request.
fn head(method: &str, path: &str) -> Vec<u8> {
    let fields =
        [(":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost")];
    fields.iter().flat_map(|(name, value)| literal(name, value)).collect()
}

fn get(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &head("GET", "/v0/entity?id=watched"))
}

fn put(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &head("PUT", "/v0/entity?id=half"))
}

/// Opens a connection and sends its preface.
fn begin(arena: &AttackServers) -> TcpStream {
    let mut socket = connect(arena.open.address);
    send(&mut socket, &greeting());
    socket
}

/// Reads frames until `is` returns true for one; returns false if the connection ends first.
fn until(socket: &mut TcpStream, is: impl Fn(u8, u32, &[u8]) -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let Some((kind, stream, payload)) = read_frame(socket) else { return false };
        if is(kind, stream, &payload) {
            return true;
        }
    }
    panic!("the server says nothing of the kind");
}

/// Returns true if a request on the same connection is answered with 200 (static table, entry 8).
fn is_answered(socket: &mut TcpStream, stream: u32) -> bool {
    send(socket, &get(stream));
    until(socket, |kind, of, payload| {
        kind == HEADERS && of == stream && payload.first() == Some(&0x88)
    })
}

/// Frames after which the server ends the connection.
fn fatal() -> Vec<(&'static str, Vec<u8>)> {
    let block = |bytes: &[u8]| frame(HEADERS, END_STREAM | END_HEADERS, 1, bytes);
    let twice = |first: Vec<u8>, second: Vec<u8>| [first, second].concat();
    vec![
        ("SETTINGS of seven bytes", frame(SETTINGS, 0, 0, &[0; 7])),
        ("SETTINGS on a stream", frame(SETTINGS, 0, 1, &[])),
        ("an acknowledgement with settings", frame(SETTINGS, ACK, 0, &[0; 6])),
        ("a window beyond 2^31", frame(SETTINGS, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff])),
        ("frames of 2^24 bytes", frame(SETTINGS, 0, 0, &[0, 5, 1, 0, 0, 0])),
        ("a push that is neither on nor off", frame(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 7])),
        ("WINDOW_UPDATE of nothing", frame(WINDOW_UPDATE, 0, 0, &[0; 4])),
        ("WINDOW_UPDATE beyond 2^31", frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff])),
        ("WINDOW_UPDATE of three bytes", frame(WINDOW_UPDATE, 0, 0, &[0; 3])),
        ("HEADERS on no stream", frame(HEADERS, END_HEADERS, 0, &head("GET", "/"))),
        ("HEADERS on a stream of the server's", frame(HEADERS, END_HEADERS, 2, &head("GET", "/"))),
        ("streams in descending order", twice(get(5), get(3))),
        ("CONTINUATION of nothing", frame(CONTINUATION, END_HEADERS, 1, &[])),
        (
            "CONTINUATION of another stream",
            twice(
                frame(HEADERS, END_STREAM, 1, &head("GET", "/")),
                frame(CONTINUATION, END_HEADERS, 3, &[]),
            ),
        ),
        (
            "PING within a head",
            twice(frame(HEADERS, END_STREAM, 1, &head("GET", "/")), frame(PING, 0, 0, &[0; 8])),
        ),
        ("CONTINUATION by the thousand", {
            let begin = frame(HEADERS, END_STREAM, 1, &head("GET", "/"));
            twice(begin, frame(CONTINUATION, 0, 1, &literal("x", "y")).repeat(50_000))
        }),
        ("DATA on no stream", frame(DATA, 0, 0, b"x")),
        ("DATA on a stream that was not begun", frame(DATA, END_STREAM, 7, b"x")),
        ("RST_STREAM of a stream that was not begun", frame(RST_STREAM, 0, 9, &[0; 4])),
        ("RST_STREAM of no stream", frame(RST_STREAM, 0, 0, &[0; 4])),
        ("RST_STREAM of three bytes", frame(RST_STREAM, 0, 1, &[0; 3])),
        ("PUSH_PROMISE by a client", frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])),
        ("PING of seven bytes", frame(PING, 0, 0, &[0; 7])),
        ("PING on a stream", frame(PING, 0, 1, &[0; 8])),
        ("PRIORITY on no stream", frame(PRIORITY, 0, 0, &[0; 5])),
        ("a frame longer than allowed", frame(DATA, 0, 1, &[0; 20_000])),
        ("padding longer than its frame", twice(put(1), frame(DATA, PADDED, 1, &[200, 1, 2]))),
        ("a header that is in no table", block(&[0xff, 0xff, 0xff, 0x7f])),
        ("a header of entry zero", block(&[0x80])),
        ("a number that does not end", block(&[0xff; 100])),
        ("a text longer than its block", block(&[0, 0x7f, 0xff, 0x7f])),
        ("a table larger than allowed", block(&[0x3f, 0xff, 0xff, 0xff, 0x7f])),
        ("Huffman code of padding", block(&[0, 0x84, 0xff, 0xff, 0xff, 0xff, 0])),
        // Errors of a stream, which an endpoint may take for the connection's (RFC 9113, 5.4.2).
        ("a name in upper case", block(&[head("GET", "/"), literal("X-Upper", "y")].concat())),
        ("a pseudo header of its own", block(&[head("GET", "/"), literal(":mine", "y")].concat())),
        ("no preface, but frames", Vec::new()),
    ]
}

/// Frames after which the connection remains usable.
fn survived() -> Vec<(&'static str, Vec<u8>)> {
    let request = |fields: &[(&str, &str)]| {
        let block: Vec<u8> = fields.iter().flat_map(|(name, value)| literal(name, value)).collect();
        frame(HEADERS, END_STREAM | END_HEADERS, 1, &block)
    };
    let usual = [(":method", "GET"), (":scheme", "http"), (":path", "/v0/status")];
    vec![
        ("frames of unknown kinds by the thousand", frame(0xee, 0xff, 0, &[7; 16]).repeat(2_000)),
        ("unknown settings", frame(SETTINGS, 0, 0, &[0x7f, 0xff, 1, 2, 3, 4])),
        ("a stream that depends on itself", frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 3])),
        ("priorities by the thousand", frame(PRIORITY, 0, 3, &[0, 0, 0, 5, 3]).repeat(5_000)),
        ("no method", request(&usual[1..])),
        ("no path", request(&usual[..2])),
        ("two paths", request(&[usual[0], usual[1], usual[2], usual[2]])),
        (
            "a header of connections",
            request(&[usual[0], usual[1], usual[2], ("connection", "close")]),
        ),
        (
            "a coding of transfers",
            request(&[usual[0], usual[1], usual[2], ("transfer-encoding", "chunked")]),
        ),
        ("a method after a header", request(&[usual[1], usual[2], ("x", "y"), usual[0]])),
        ("a path of noise", request(&[usual[0], usual[1], (":path", "\u{1}\u{2}")])),
        ("a length that its body has not", {
            let fields = [
                (":method", "PUT"),
                usual[1],
                (":path", "/v0/entity?id=half"),
                ("content-length", "9"),
            ];
            let block: Vec<u8> =
                fields.iter().flat_map(|(name, value)| literal(name, value)).collect();
            [frame(HEADERS, END_HEADERS, 1, &block), frame(DATA, END_STREAM, 1, b"half")].concat()
        }),
        (
            "trailers with a path",
            [
                frame(HEADERS, END_HEADERS, 1, &head("PUT", "/v0/entity?id=trailers")),
                frame(HEADERS, END_STREAM | END_HEADERS, 1, &literal(":path", "/")),
            ]
            .concat(),
        ),
    ]
}

pub(crate) fn attacks() -> Vec<Attack> {
    let fatal = fatal().into_iter().map(|(name, frames)| {
        Attack::new(format!("http2: {name}"), move |arena| {
            let mut socket = begin(arena);
            if frames.is_empty() {
                socket = connect(arena.open.address);
                send(&mut socket, &get(1).repeat(100));
            }
            send(&mut socket, &frames);
            until_closed(&mut socket);
        })
    });
    let survived = survived().into_iter().map(|(name, frames)| {
        Attack::new(format!("http2: {name}"), move |arena| {
            let mut socket = begin(arena);
            send(&mut socket, &frames);
            assert!(is_answered(&mut socket, 101), "{name}: the connection does not go on");
            let value = arena.open.client().get("/v0/entity?id=half");
            assert_eq!(value.status, 404, "{name}: half a body is no value");
        })
    });
    fatal.chain(survived).chain(floods()).collect()
}

fn floods() -> Vec<Attack> {
    let flood = |name: &str, run: fn(&AttackServers)| Attack::new(format!("http2: {name}"), run);
    vec![
        flood("a reset after the preface", |arena| {
            for _ in 0..20 {
                reset(begin(arena));
            }
        }),
        flood("a reset after each byte", |arena| {
            let all = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &put(1), &frame(DATA, 0, 1, b"half")];
            let all = all.concat();
            for end in 0..all.len() {
                let mut socket = connect(arena.open.address);
                send(&mut socket, &all[..end]);
                reset(socket);
            }
        }),
        flood("an end after each byte", |arena| {
            let all = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &put(1), &frame(DATA, 0, 1, b"half")];
            let all = all.concat();
            for end in 0..all.len() {
                let mut socket = connect(arena.open.address);
                send(&mut socket, &all[..end]);
            }
        }),
        flood("an end that comes with the first bytes", first_and_last),
        flood("rapid resets (CVE-2023-44487)", |arena| {
            let mut socket = begin(arena);
            for at in 0..20_000 {
                let stream = 2 * at + 1;
                let pair = [get(stream), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat();
                send(&mut socket, &pair);
            }
        }),
        flood("resets that the server has to make (CVE-2025-8671)", |arena| {
            let mut socket = begin(arena);
            for at in 0..5_000 {
                let stream = 2 * at + 1;
                let bad = frame(WINDOW_UPDATE, 0, stream, &[0; 4]);
                send(&mut socket, &[get(stream), bad].concat());
            }
        }),
        flood("pings whose answers nobody reads", |arena| {
            unread(arena, &frame(PING, 0, 0, &[7; 8]))
        }),
        flood("settings whose answers nobody reads", |arena| {
            unread(arena, &frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 9]));
        }),
        flood("empty DATA by the thousand", |arena| {
            let mut socket = begin(arena);
            send(&mut socket, &[put(1), frame(DATA, 0, 1, &[]).repeat(100_000)].concat());
        }),
        flood("a window of nothing, and large responses", |arena| {
            let mut socket = begin(arena);
            send(&mut socket, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
            for at in 0..64 {
                let large = head("GET", "/v0/entity?id=large");
                send(&mut socket, &frame(HEADERS, END_STREAM | END_HEADERS, 2 * at + 1, &large));
            }
            std::thread::sleep(Duration::from_millis(300));
            super::after(arena, "http2: a window of nothing, meanwhile");
        }),
        flood("a window of single bytes", |arena| {
            let mut socket = begin(arena);
            send(&mut socket, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]));
            send(&mut socket, &get(1));
            send(&mut socket, &frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]).repeat(100));
        }),
        flood("more streams than allowed", |arena| {
            let mut socket = begin(arena);
            let streams: Vec<u8> = (0..2_000).flat_map(|at| put(2 * at + 1)).collect();
            send(&mut socket, &streams);
        }),
        flood("bodies of many streams that do not end", |arena| {
            let mut socket = begin(arena);
            for at in 0..100 {
                let stream = 2 * at + 1;
                send(&mut socket, &[put(stream), frame(DATA, 0, stream, &[1; 600])].concat());
            }
            reset(socket);
        }),
        flood("a header bomb of one indexed entry", |arena| {
            // An entry of 4,000 bytes is added to the table, and then referred to 16,000 times.
            let entry = [&[0x40_u8][..], &literal("x", &"b".repeat(4_000))[1..]].concat();
            let block = [head("GET", "/v0/status"), entry, vec![0xbe; 16_000 - 4_200]].concat();
            let mut socket = begin(arena);
            send(&mut socket, &frame(HEADERS, END_STREAM | END_HEADERS, 1, &block));
            send(&mut socket, &frame(PING, 0, 0, b"answered"));
            until(&mut socket, |kind, _, payload| kind == PING && payload == b"answered");
        }),
        flood("GOAWAY, and then more", |arena| {
            let mut socket = begin(arena);
            send(&mut socket, &[frame(GOAWAY, 0, 0, &[0; 8]), get(1).repeat(100)].concat());
        }),
    ]
}

/// Sends frames that the server must answer, and reads no answer. Checks that the server does not
/// buffer answers without limit.
fn unread(arena: &AttackServers, frame: &[u8]) {
    let before = arena.open.resident_bytes();
    let mut socket = begin(arena);
    socket.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    for _ in 0..300 {
        send(&mut socket, &frame.repeat(2_000));
    }
    let grown = arena.open.resident_bytes().saturating_sub(before);
    assert!(grown < 256 << 20, "the server gathered {grown} bytes");
}

/// Regression: a client's end of stream that came together with its first bytes was not noticed, so
/// the connection was never closed.
fn first_and_last(arena: &AttackServers) {
    let open = || arena.open.client().figure("pellucid_connections_open");
    let before = open();
    for _ in 0..50 {
        let mut socket = connect(arena.open.address);
        send(&mut socket, &greeting());
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        std::mem::forget(socket);
    }
    // Connections that ended no longer count as open.
    wait_until(open, |places| *places <= before + 1.0);
}
