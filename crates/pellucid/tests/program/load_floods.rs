//! Tests of `pellucid load --http2` against servers that flood it: its memory stays bounded, and it
//! ends in time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{memory_bytes, pellucid, stub_server};
use crate::frames::{DATA, END_HEADERS, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, frame};

/// The memory limit of the load generator in bytes. Regression: it took 4.7 GB in 9 s.
const RESIDENT_BYTES_MAX: u64 = 256 << 20;
/// The time in which a run of two seconds must end on any machine. Regression: it read without end.
const RUN_MAX: Duration = Duration::from_secs(60);
/// The types of frames that only floods have.
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const UNKNOWN: u8 = 0xbe;
/// The number of bytes of one write.
const PIECE_BYTES: usize = 64 << 10;

/// A flood: its name, the frames it begins with, and the one it repeats without end.
struct Flood {
    name: &'static str,
    begin: Vec<u8>,
    again: Vec<u8>,
}

fn floods() -> Vec<Flood> {
    let flood = |name, again| Flood { name, begin: Vec::new(), again };
    let begun = |name, begin: Vec<u8>, again: Vec<u8>| Flood { name, begin, again };
    // A literal header without indexing, of a name and a value of one byte each.
    let header = [0, 1, b'a', 1, b'b'];
    // `:status: 200` of the static table.
    let head = frame(HEADERS, END_HEADERS, 1, &[0x88]);
    vec![
        flood("PING", frame(PING, 0, 0, &[7; 8])),
        flood("SETTINGS", frame(SETTINGS, 0, 0, &[])),
        flood("SETTINGS with values", frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0].repeat(100))),
        flood("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        flood("unknown frames", frame(UNKNOWN, 0, 0, &[1; 16_384])),
        flood("resets of a stream", frame(RST_STREAM, 0, 1, &[0, 0, 0, 8])),
        begun("empty DATA", head.clone(), frame(DATA, 0, 1, &[])),
        begun("DATA beyond the window", head, frame(DATA, 0, 1, &[b'x'; 16_384])),
        begun(
            "headers that never end",
            frame(HEADERS, 0, 1, &[0x88]),
            frame(CONTINUATION, 0, 1, &header.repeat(3_000)),
        ),
        begun("empty CONTINUATION", frame(HEADERS, 0, 1, &[0x88]), frame(CONTINUATION, 0, 1, &[])),
        flood("interim responses", frame(HEADERS, END_HEADERS, 1, &[8, 3, b'1', b'0', b'3'])),
        flood(
            "a frame of 16 MiB",
            [&[0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1][..], &[0; 9]].concat(),
        ),
    ]
}

/// Answers a client's preface, and floods the client until it ends the connection. It also reads,
/// because acknowledgements that nobody reads would block the flood.
fn attack(mut socket: TcpStream, flood: &Flood, sent_bytes: &AtomicU64) {
    let mut preface = [0; PREFACE.len()];
    if socket.read_exact(&mut preface).is_err() {
        return;
    }
    assert_eq!(preface, PREFACE, "the load generator speaks HTTP/2");
    let mut reading = socket.try_clone().unwrap();
    let reader = std::thread::spawn(move || std::io::copy(&mut reading, &mut std::io::sink()));
    // The client must have sent the request of stream 1 before a response to it arrives.
    std::thread::sleep(Duration::from_millis(100));
    let piece = flood.again.repeat((PIECE_BYTES / flood.again.len()).max(1));
    let settings = frame(SETTINGS, 0, 0, &[]);
    let mut is_sent = socket.write_all(&[settings, flood.begin.clone()].concat());
    while is_sent.is_ok() {
        is_sent = socket.write_all(&piece);
        sent_bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }
    let _ = reader.join();
}

#[test]
fn floods_of_a_server_fill_no_memory_and_end_with_the_run() {
    for flood in floods() {
        let name = flood.name;
        let sent_bytes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&sent_bytes);
        let url = stub_server(move |socket| attack(socket, &flood, &counted));
        let mut command = pellucid(&["load", "--http2", "-t", "1", "-c", "2", "-d", "2s"]);
        command.args(["-R", "100", &url]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (begun, mut most) = (Instant::now(), 0);
        let mut is_over = false;
        while !is_over && begun.elapsed() < RUN_MAX {
            most = most.max(memory_bytes(child.id(), "VmHWM").unwrap_or(0));
            std::thread::sleep(Duration::from_millis(5));
            is_over = most > RESIDENT_BYTES_MAX || child.try_wait().unwrap().is_some();
        }
        let took = begun.elapsed();
        // `kill` fails if the run has ended already.
        let _ = child.kill();
        let status = child.wait().unwrap();
        let sent = sent_bytes.load(Ordering::Relaxed);
        println!(
            "{name}: {status} after {took:?}, {} MiB, of {} KiB that were sent",
            most >> 20,
            sent >> 10
        );
        assert!(most <= RESIDENT_BYTES_MAX, "{name}: {} MiB", most >> 20);
        assert!(sent > 0, "{name}: nothing was sent");
        assert!(status.code().is_some(), "{name}: the run does not end: {status}");
    }
}
