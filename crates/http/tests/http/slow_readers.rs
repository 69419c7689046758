//! Clients that take their responses too slowly: each takes something all the time, so that the
//! limit of the time without progress never cuts it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::frames::{
    DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, greeting,
    headers, post, read_frame,
};
use crate::common::{connect_narrow, start_connected, start_narrow};
use pellucid_http::{DisconnectCounts, DisconnectReason, Limits};

/// The time after which a test fails if the client was not cut.
const PATIENCE: Duration = Duration::from_secs(60);

/// Limits with an impossible rate: a client that lets a response wait is too slow after a second.
fn strict() -> Limits {
    Limits {
        exchange: Duration::from_secs(1),
        response_bytes_per_second: u64::MAX,
        ..Limits::default()
    }
}

/// The count of cuts because the client took too little. On a machine that stalls for a second, the
/// client takes nothing.
fn slow_cuts(counts: &DisconnectCounts) -> u64 {
    counts[DisconnectReason::ResponseSlow] + counts[DisconnectReason::ResponseStalled]
}

#[test]
fn a_client_that_takes_small_pieces_is_cut_and_counted() {
    let running = start_narrow(strict(), None);
    let mut socket = connect_narrow(&running);
    socket.write_all(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let (begun, mut morsel) = (Instant::now(), [0; 512]);
    // The end may be a reset, as not all was read.
    while let Ok(1..) = socket.read(&mut morsel) {
        assert!(begun.elapsed() < PATIENCE, "it was never cut");
        std::thread::sleep(Duration::from_millis(5));
    }
    let stats = running.stats();
    assert_eq!(slow_cuts(&stats.cuts.connections), 1, "{:?}", stats.cuts);
    assert_eq!((stats.connections_open, stats.requests_in_flight), (0, 0));
}

#[test]
fn the_same_client_gets_its_response_if_the_limit_allows_its_rate() {
    let limits = Limits { response_bytes_per_second: 1, ..Limits::default() };
    let running = start_narrow(limits, None);
    let mut socket = connect_narrow(&running);
    socket.write_all(b"GET /pieces HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let (mut whole, mut morsel) = (Vec::new(), [0; 4 * 1024]);
    while let count @ 1.. = socket.read(&mut morsel).unwrap() {
        whole.extend_from_slice(&morsel[..count]);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(whole.ends_with(b"0\r\n\r\n"), "{} bytes", whole.len());
    assert_eq!(slow_cuts(&running.cuts().connections), 0);
}

/// The error code CANCEL (RFC 9113, section 7).
const CANCEL: u32 = 8;

fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &headers(path))
}

/// Reads until a frame of this kind and stream comes; returns its payload.
fn await_frame(socket: &mut impl Read, kind: u8, stream: u32) -> Vec<u8> {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "no frame of type {kind} came");
        let (found, of, payload) = read_frame(socket).unwrap();
        if (found, of) == (kind, stream) {
            return payload;
        }
    }
}

#[test]
fn a_stream_whose_window_opens_byte_by_byte_is_reset_and_its_connection_stays() {
    let (running, mut socket) = start_connected(strict());
    socket.write_all(&[greeting(), get(1, "/endless")].concat()).unwrap();
    let is_cut = Arc::new(AtomicBool::new(false));
    let opener = std::thread::spawn({
        let (mut socket, is_cut) = (socket.try_clone().unwrap(), Arc::clone(&is_cut));
        move || {
            let byte = 1_u32.to_be_bytes();
            let both = [frame(WINDOW_UPDATE, 0, 0, &byte), frame(WINDOW_UPDATE, 0, 1, &byte)];
            while !is_cut.load(Ordering::Relaxed) {
                socket.write_all(&both.concat()).unwrap();
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    });
    let code = await_frame(&mut socket, RST_STREAM, 1);
    is_cut.store(true, Ordering::Relaxed);
    opener.join().unwrap();
    assert_eq!(code, CANCEL.to_be_bytes());
    let cuts = running.cuts();
    assert_eq!(slow_cuts(&cuts.streams), 1);
    assert_eq!(slow_cuts(&cuts.connections), 0);
    socket.write_all(&get(3, "/")).unwrap();
    let head = await_frame(&mut socket, HEADERS, 3);
    assert_eq!(head[0], 0x88, "`:status: 200` of the static table");
}

/// Regression: a stream whose source had nothing to send was reset after the time for an exchange,
/// as if its client did not read.
#[test]
fn a_stream_that_waits_for_its_source_is_not_cut() {
    let limits = Limits { exchange: Duration::from_secs(1), ..Limits::default() };
    let (running, mut socket) = start_connected(limits);
    socket.write_all(&[greeting(), get(1, "/waiting")].concat()).unwrap();
    await_frame(&mut socket, HEADERS, 1);
    std::thread::sleep(Duration::from_secs(3));
    let stats = running.stats();
    assert_eq!(stats.cuts.streams[DisconnectReason::ResponseStalled], 0, "{:?}", stats.cuts);
    assert_eq!(stats.requests_in_flight, 1);
}

/// A client that takes a few bytes at a time.
struct Unhurried(TcpStream);

impl Read for Unhurried {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        std::thread::sleep(Duration::from_millis(75));
        let bytes = room.len().min(4 * 1024);
        self.0.read(&mut room[..bytes])
    }
}

/// Regression: while responses waited for their client, its bodies were not read, but were refused
/// as too slow.
#[test]
fn a_body_is_not_late_for_the_time_in_which_it_is_not_read() {
    let limits = Limits {
        exchange: Duration::from_secs(4),
        response_bytes_per_second: 1,
        ..Limits::default()
    };
    let running = start_narrow(limits, None);
    let mut socket = connect_narrow(&running);
    let wide = (1_u32 << 22).to_be_bytes();
    let settings = frame(SETTINGS, 0, 0, &[&[0, 4][..], &wide].concat());
    let mut bytes = [greeting(), settings, frame(WINDOW_UPDATE, 0, 0, &wide)].concat();
    bytes.extend(frame(HEADERS, END_HEADERS, 1, &post("/")));
    for stream in [3, 5, 7, 9, 11, 13] {
        bytes.extend(get(stream, "/pieces"));
    }
    socket.write_all(&bytes).unwrap();
    await_frame(&mut socket, DATA, 3);
    // By now, more waits for the client than it will take within the time for an exchange.
    socket.write_all(&frame(DATA, END_STREAM, 1, b"in time")).unwrap();
    let head = await_frame(&mut Unhurried(socket), HEADERS, 1);
    assert_eq!(head[0], 0x88, "`:status: 200` of the static table");
    assert_eq!(running.cuts().streams[DisconnectReason::RequestSlow], 0);
}
