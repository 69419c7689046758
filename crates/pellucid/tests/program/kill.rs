//! Tests that kill or stop the server during writes: all acknowledged writes must survive.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::client::Client;
use crate::common::{PATIENCE, TestServer, entity, request};
use pellucid_io::SeededRandom;

const WRITERS: usize = 4;
const KEYS: usize = 60;
const KILLS: u64 = 10;

/// The expected state of a key.
#[derive(Clone, Default)]
struct ExpectedState {
    /// The last acknowledged value; none if the key was deleted.
    acknowledged: Option<String>,
    /// The value of the write that was not acknowledged when the server died; it may be there or
    /// not.
    in_doubt: Option<Option<String>>,
}

/// The writer of one thread, with keys of its own.
struct Writer {
    name: usize,
    version: u64,
    random: SeededRandom,
    known: HashMap<String, ExpectedState>,
}

impl Writer {
    fn new(name: usize) -> Writer {
        Writer { name, version: 0, random: SeededRandom::new(name as u64), known: HashMap::new() }
    }

    fn key(&mut self) -> String {
        let number = self.random.place(KEYS);
        format!("{}-{number}", self.name)
    }

    fn value(&mut self) -> String {
        self.version += 1;
        let length = [10, 1_000, 40_000][self.random.place(3)];
        format!("{} {}", self.version, "v".repeat(length))
    }

    /// Returns one to six changes of different keys.
    fn changes(&mut self) -> Vec<(String, Option<String>)> {
        let mut changes: Vec<(String, Option<String>)> = Vec::new();
        let count = if self.random.place(4) == 0 { 2 + self.random.place(5) } else { 1 };
        while changes.len() < count {
            let (key, is_delete) = (self.key(), self.random.place(5) == 0);
            let value = if is_delete { None } else { Some(self.value()) };
            if changes.iter().all(|(other, _)| *other != key) {
                changes.push((key, value));
            }
        }
        changes
    }

    /// Writes until the server is gone, and counts the acknowledged writes.
    fn run(&mut self, server: &TestServer, acknowledged: &AtomicU64) {
        let Ok(mut client) = Client::try_connect(server.address) else { return };
        loop {
            let changes = self.changes();
            for (key, value) in &changes {
                self.known.entry(key.clone()).or_default().in_doubt = Some(value.clone());
            }
            let (text, status) = text_of(&changes);
            let Ok(answer) = send(&mut client, &text) else { return };
            assert_eq!(answer, status);
            for (key, value) in changes {
                self.known.insert(key, ExpectedState { acknowledged: value, in_doubt: None });
            }
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Checks the value of every key, which from then on is the acknowledged one.
    fn verify(&mut self, client: &mut Client) {
        for (key, known) in &mut self.known {
            let answer = client.get(&entity(key));
            let found = match answer.status {
                200 => Some(String::from_utf8(answer.body).unwrap()),
                404 => None,
                other => panic!("{key}: status {other}"),
            };
            let is_doubted = known.in_doubt.as_ref() == Some(&found);
            if found != known.acknowledged && !is_doubted {
                panic!("{key}: {} is lost, {} is there", short(&known.acknowledged), short(&found));
            }
            *known = ExpectedState { acknowledged: found, in_doubt: None };
        }
    }
}

fn short(value: &Option<String>) -> String {
    value.as_ref().map_or("nothing".to_owned(), |value| value.chars().take(12).collect())
}

fn send(client: &mut Client, text: &[u8]) -> std::io::Result<u16> {
    use std::io::Write;
    client.socket.write_all(text)?;
    client.try_answer(false).map(|answer| answer.status)
}

/// Returns the request that makes the changes, and the status that acknowledges it.
fn text_of(changes: &[(String, Option<String>)]) -> (Vec<u8>, u16) {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    match changes {
        [(key, Some(value))] => {
            (request("PUT", &format!("{}&sync=os", entity(key)), &[], value.as_bytes()), 201)
        }
        [(key, None)] => (request("DELETE", &format!("{}&sync=os", entity(key)), &[], b""), 202),
        changes => {
            let line = |(key, value): &(String, Option<String>)| {
                let op = if value.is_some() { "put" } else { "delete" };
                let mut line = serde_json::json!({ "op": op, "key": encode(key) });
                if let Some(value) = value {
                    line["value"] = encode(value).into();
                }
                format!("{line}\n")
            };
            let body: String = changes.iter().map(line).collect();
            (request("POST", "/v0/batch?sync=os", &[], body.as_bytes()), 200)
        }
    }
}

/// Checks that each batch without an acknowledgement is there completely or not at all.
fn verify_batches_are_whole(writers: &[Writer], before: &[HashMap<String, ExpectedState>]) {
    for (writer, before) in writers.iter().zip(before) {
        let doubts = before.iter().filter_map(|(key, known)| {
            let doubted = known.in_doubt.as_ref()?;
            let differs = *doubted != known.acknowledged;
            differs.then(|| writer.known[key].acknowledged == *doubted)
        });
        let happened: Vec<bool> = doubts.collect();
        let all_alike = happened.iter().all(|one| *one == happened[0]);
        assert!(all_alike, "writer {}: half a batch is there: {happened:?}", writer.name);
    }
}

/// Waits for this many acknowledged writes, and returns false if they do not come. A failed
/// assertion would wait for the writers, which end only with the server.
fn are_acknowledged(acknowledged: &AtomicU64, least: u64, pause: Duration) -> bool {
    let begun = Instant::now();
    while acknowledged.load(Ordering::Relaxed) < least {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(pause);
    }
    true
}

/// Writes acknowledged with `sync=os` survive ten kills of the process in a row.
#[test]
fn ten_kills_during_writes_lose_nothing_that_was_acknowledged() {
    let folder = tempfile::TempDir::new().unwrap();
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    // The memory is small, so that flushes and merges run when the server dies.
    let flags = ["--memory", "1M", "--threads", "2"];
    for round in 0..KILLS {
        let server = TestServer::start(folder.path(), &flags);
        let acknowledged = AtomicU64::new(0);
        let is_written = std::thread::scope(|scope| {
            for writer in &mut writers {
                let (server, acknowledged) = (&server, &acknowledged);
                scope.spawn(move || writer.run(server, acknowledged));
            }
            let pause = Duration::from_micros(100 + 77 * round);
            let is_written = are_acknowledged(&acknowledged, 200 + round * 37, pause);
            server.signal(libc::SIGKILL);
            is_written
        });
        assert!(is_written, "writes do not get through");
        server.kill();
        let server = TestServer::start(folder.path(), &flags);
        let mut client = server.client();
        let before: Vec<_> = writers.iter().map(|writer| writer.known.clone()).collect();
        writers.iter_mut().for_each(|writer| writer.verify(&mut client));
        verify_batches_are_whole(&writers, &before);
        if round % 2 == 0 { server.kill() } else { server.stop() }
    }
}

/// Each client gets an answer to its last request or finds the connection closed. None waits
/// without end, and the server exits with 0.
#[test]
fn a_stop_during_writes_answers_what_is_in_flight_and_loses_nothing() {
    let folder = tempfile::TempDir::new().unwrap();
    let mut server = TestServer::start(folder.path(), &["--sync", "disk", "--threads", "2"]);
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    let acknowledged = AtomicU64::new(0);
    let began_body = request("PUT", &entity("slow"), &[], b"half and half");
    let mut slow = server.client();
    slow.send(&began_body[..began_body.len() - 5]);
    let is_written = std::thread::scope(|scope| {
        for writer in &mut writers {
            let (server, acknowledged) = (&server, &acknowledged);
            scope.spawn(move || writer.run(server, acknowledged));
        }
        let is_written = are_acknowledged(&acknowledged, 100, Duration::from_millis(1));
        server.signal(libc::SIGTERM);
        is_written
    });
    assert!(is_written, "writes do not get through");
    slow.send(&began_body[began_body.len() - 5..]);
    let answer = slow.answer();
    assert_eq!((answer.status, answer.header("Connection")), (201, Some("close")));
    assert_eq!(server.wait().code(), Some(0));
    let server = TestServer::start(folder.path(), &[]);
    let mut client = server.client();
    writers.iter_mut().for_each(|writer| writer.verify(&mut client));
    assert_eq!(client.get(&entity("slow")).text(), "half and half");
}

/// A range that is being sent when the signal arrives is sent completely.
#[test]
fn a_stop_lets_a_stream_end() {
    let folder = tempfile::TempDir::new().unwrap();
    let mut server = TestServer::start(folder.path(), &[]);
    let mut client = server.client();
    for index in 0..40 {
        client.put(&entity(format!("{index:02}")), vec![b'v'; 500_000]);
    }
    client.send(&request("GET", "/v0/entities?start=0", &[], b""));
    client.try_head().unwrap();
    server.signal(libc::SIGTERM);
    while Client::try_connect(server.address).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut bytes = 0;
    while let Some(chunk) = client.try_chunk().unwrap() {
        bytes += chunk.len();
    }
    assert_eq!(bytes, 40 * 500_003);
    drop(client);
    assert_eq!(server.wait().code(), Some(0));
}

/// A stop does not wait for idle connections.
#[test]
fn idle_connections_do_not_hold_up_a_stop() {
    let folder = tempfile::TempDir::new().unwrap();
    let server = TestServer::start(folder.path(), &["--stop-timeout", "60s"]);
    let mut idle: Vec<Client> = (0..20).map(|_| server.client()).collect();
    assert_eq!(idle[0].get("/v0/status").status, 200);
    server.stop();
    idle.iter_mut().for_each(|client| client.expect_end());
}
