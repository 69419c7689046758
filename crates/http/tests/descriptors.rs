//! A process without free descriptors: new clients are turned away, and connected ones are served.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use common::tls_client::file;
use common::{connect, listener, start, status, try_start};
use pellucid_http::{Certificates, DisconnectReason, Limits};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Socket, Type};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn ask(socket: &mut TcpStream) {
    socket.write_all(GET).unwrap();
    assert_eq!(status(socket), "200");
    let _ = socket.read(&mut [0; 1024]).unwrap();
}

/// Opens files until the process has no descriptor left.
fn take_all() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// The test is alone in its process, because it lowers the limit of the process.
#[test]
fn a_process_without_descriptors_starts_completely_or_not_and_turns_new_clients_away() {
    a_server_with_few_descriptors_serves_or_does_not_start();
    new_clients_are_turned_away_at_once();
    a_certificate_that_could_not_be_read_is_read_again();
}

/// Regression: a failed reload counted as done, and the old certificate was used until it expired.
fn a_certificate_that_could_not_be_read_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let places = ["", "-key"].map(|part| folder.path().join(format!("pair{part}.pem")));
    let install = |pair: &str| {
        for (part, place) in ["", "-key"].iter().zip(&places) {
            std::fs::copy(file(&format!("{pair}{part}.pem")), place).unwrap();
        }
    };
    install("first");
    let certificates = Certificates::load(&places[0], &places[1]).unwrap();
    install("second");
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
    let taken = take_all();
    assert!(certificates.reload_if_changed().unwrap().is_err());
    drop(taken);
    setrlimit(Resource::Nofile, limit).unwrap();
    certificates.reload_if_changed().unwrap().unwrap();
    assert!(certificates.reload_if_changed().is_none());
}

/// Regression: a server started with only one of its two event loops, and connections of the other
/// loop got no answer.
fn a_server_with_few_descriptors_serves_or_does_not_start() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..limit }).unwrap();
    let mut refused = 0;
    let running = loop {
        let listener = listener();
        let mut taken = take_all();
        taken.truncate(taken.len() - refused);
        match try_start(vec![listener], Limits::default(), None, 2) {
            Ok(running) => break running,
            Err(error) => assert_eq!(error.raw_os_error(), Some(Errno::MFILE.raw_os_error())),
        }
        refused += 1;
    };
    assert!(refused > 0, "a server needs descriptors");
    setrlimit(Resource::Nofile, limit).unwrap();
    // One connection for each loop.
    let mut connected = [connect(&running), connect(&running)];
    connected.iter_mut().for_each(ask);
}

/// Regression: new clients waited in the kernel's queue until another connection closed.
fn new_clients_are_turned_away_at_once() {
    let running = start(Limits::default());
    let limit = getrlimit(Resource::Nofile);
    let mut connected = connect(&running);
    ask(&mut connected);
    let new: Vec<Socket> =
        (0..5).map(|_| Socket::new(Domain::IPV4, Type::STREAM, None).unwrap()).collect();
    let highest = new.iter().map(AsRawFd::as_raw_fd).max().unwrap() as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(highest + 10), ..limit }).unwrap();
    let held = take_all();
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
        // If it were dropped now, the next one could use its descriptor.
        turned_away.push(socket);
    }
    assert_eq!(running.cuts().refused[DisconnectReason::System], 5);
    drop(held);
    setrlimit(Resource::Nofile, limit).unwrap();
    ask(&mut connect(&running));
}
