//! A process without descriptors: new clients are turned away, and those who are connected served.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use common::{connect, start};
use pellucid_http::{Cut, Limits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn ask(socket: &mut TcpStream) {
    socket.write_all(GET).unwrap();
    let mut begin = [0; 12];
    socket.read_exact(&mut begin).unwrap();
    assert_eq!(&begin, b"HTTP/1.1 200");
    let mut rest = [0; 1024];
    let _ = socket.read(&mut rest).unwrap();
}

/// They waited in the queue of the kernel until somebody else left. The test is alone in its
/// process, whose limit it lowers.
#[test]
fn who_comes_while_there_is_no_descriptor_is_turned_away_at_once() {
    let running = start(Limits::default());
    let mut connected = connect(&running);
    ask(&mut connected);
    let new: Vec<Socket> =
        (0..5).map(|_| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()).collect();
    let limit = getrlimit(Resource::Nofile);
    let highest = new.iter().map(AsRawFd::as_raw_fd).max().unwrap() as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(highest + 10), ..limit }).unwrap();
    let mut held = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        held.push(file);
    }
    let mut turned_away = Vec::new();
    for socket in new {
        socket.connect(&running.address.into()).unwrap();
        let mut socket = TcpStream::from(socket);
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        match socket.read(&mut [0]) {
            Ok(count) => assert_eq!(count, 0),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
        ask(&mut connected);
        // Dropped now, it would leave a descriptor to the next one.
        turned_away.push(socket);
    }
    assert_eq!(running.cuts().refused(Cut::System), 5);
    drop(held);
    setrlimit(Resource::Nofile, limit).unwrap();
    ask(&mut connect(&running));
}
