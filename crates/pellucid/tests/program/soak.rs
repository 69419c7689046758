//! A soak of the built server under mixed load: writes that expire, ranges that are held open,
//! backups, merges, a follower of the changes, and clients that disconnect in the middle or send
//! invalid requests. Every answer is checked.
//!
//! `make soak MINUTES=120` runs it for two hours. A long run fails if memory, descriptors or disk
//! grow: the last quarter of the run is compared with the second.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::client::encode;
use crate::common::{Client, TestServer, entity, request};
use crate::endings::{ENDINGS, Script};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pellucid_io::{Random, SeededRandom};
use serde_json::{Value, json};
use tempfile::TempDir;

const NDJSON: (&str, &str) = ("Accept", "application/x-ndjson");
/// The ending of keys that expire after a second.
const BRIEF: &str = " for a second";
/// The time after which such a key must be gone, even if the system's clock is adjusted a little.
const GONE_AFTER: Duration = Duration::from_secs(2);
/// The most entries of a range that is compared.
const RANGE_ENTRIES: usize = 50;

/// The seconds of the soak, unless the environment sets another number.
const SOAK_SECONDS: u64 = 4;
/// The shortest run whose growth is checked; a shorter one is still warming up.
const FLAT_FROM: Duration = Duration::from_secs(240);
/// The number of samples of a run.
const SAMPLES: u32 = 40;
/// The number of threads that write and read, each with keys of its own.
const CLIENTS: u64 = 4;
const KEYS_OF_CLIENT: u64 = 1_500;
const VALUE_BYTES_MAX: u64 = 4_096;
/// The pause between two connections that break off.
const BREAK_PAUSE: Duration = Duration::from_millis(20);
/// The growth of memory and disk in bytes that is allowed: the account keeps histograms of ten
/// minutes, and segments are prepared in advance.
const GROWTH_BYTES_MAX: u64 = 96 << 20;
/// The growth in descriptors that is allowed, as some are open only for a while.
const DESCRIPTORS_MORE_MAX: u64 = 16;

/// A sample of the server's figures.
#[derive(Clone, Copy, Debug)]
struct Sample {
    memory_bytes: u64,
    descriptors: u64,
    disk_bytes: u64,
    requests: u64,
    mean_ns: u64,
    longest_ns: u64,
}

/// The progress of all clients.
#[derive(Default)]
struct Progress {
    is_over: AtomicBool,
    requests: AtomicU64,
    /// The number of requests since the last sample, the sum of their waits, and the longest wait.
    recent: AtomicU64,
    waited_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl Progress {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn note(&self, begun: Instant) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let waited = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.recent.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(waited, Ordering::Relaxed);
        self.longest_ns.fetch_max(waited, Ordering::Relaxed);
    }
}

/// A field of an entry's line.
fn field(line: &Value, name: &str) -> String {
    String::from_utf8(STANDARD.decode(line[name].as_str().unwrap()).unwrap()).unwrap()
}

/// Compares the first entries of one client with what it has written.
fn check_range(number: u64, client: &mut Client, written: &BTreeMap<String, String>) {
    let (start, end) = (format!("client {number} "), format!("client {number}~"));
    let range = format!("start={}&end={}&limit={RANGE_ENTRIES}", encode(start), encode(end));
    let lines = client.call("GET", &format!("/v0/entities?{range}"), &[NDJSON], b"").lines();
    let found = lines.iter().map(|line| (field(line, "key"), field(line, "value")));
    let found: Vec<_> = found.filter(|(key, _)| !key.ends_with(BRIEF)).collect();
    assert!(lines.len() == RANGE_ENTRIES || found.len() == written.len(), "some are missing");
    for (found, (key, value)) in found.iter().zip(written) {
        assert!(found.0 == *key && found.1 == *value, "{} for {key}", found.0);
    }
}

/// Checks that a key that was put at this time for a second is gone, unless it may still be there.
fn check_expiry(client: &mut Client, key: &str, put: Instant) {
    if put.elapsed() > GONE_AFTER {
        assert_eq!(client.get(&entity(key)).status, 404, "{key}");
    }
}

/// Writes and reads keys of one client, and compares what comes back.
fn work(number: u64, server: &TestServer, progress: &Progress) {
    let mut random = SeededRandom::new(number);
    let mut client = server.client();
    let mut written: BTreeMap<String, String> = BTreeMap::new();
    let mut brief: BTreeMap<String, Instant> = BTreeMap::new();
    while !progress.is_over() {
        let key = format!("client {number} key {:05}", random.next_u64() % KEYS_OF_CLIENT);
        let length = 1 + random.next_u64() % VALUE_BYTES_MAX;
        let value = format!("{}-{}", random.next_u64(), "v".repeat(length as usize));
        let begun = Instant::now();
        match random.next_u64() % 20 {
            0..9 => {
                assert_eq!(client.put(&entity(&key), &value).status, 201);
                written.insert(key, value);
            }
            9 => {
                let key = key + BRIEF;
                if let Some(put) = brief.get(&key) {
                    check_expiry(&mut client, &key, *put);
                }
                assert_eq!(client.put(&format!("{}&ttl=1", entity(&key)), &value).status, 201);
                brief.insert(key, Instant::now());
            }
            10 | 11 => {
                assert_eq!(client.call("DELETE", &entity(&key), &[], b"").status, 202);
                written.remove(&key);
            }
            12 => check_range(number, &mut client, &written),
            13 => {
                let target = format!("{}&sync=disk", entity(&key));
                assert_eq!(client.put(&target, &value).status, 201);
                written.insert(key, value);
            }
            _ => {
                let answer = client.get(&entity(&key));
                let found = (answer.status == 200).then(|| answer.text());
                assert_eq!(found, written.get(&key).map(String::as_str), "{key}");
            }
        }
        progress.note(begun);
    }
    for (key, value) in &written {
        assert!(client.get(&entity(key)).text() == value, "{key}");
    }
    brief.iter().for_each(|(key, put)| check_expiry(&mut client, key, *put));
}

/// Creates and removes backups, and starts merges of the store.
fn operate(server: &TestServer, progress: &Progress, pause: Duration) {
    let mut client = server.client();
    let call = |client: &mut Client, what: &str, body: serde_json::Value| {
        let target = format!("/_admin/backup/{what}");
        client.call("POST", &target, &[], body.to_string())
    };
    while !progress.is_over() {
        let made = call(&mut client, "create", json!({}));
        assert_eq!(made.status, 201, "{}", made.text());
        std::thread::sleep(pause);
        assert_eq!(client.call("PUT", "/_admin/compact", &[], b"").status, 200);
        let id = made.json()["result"]["id"].clone();
        let removed = call(&mut client, "delete", json!({ "id": id }));
        assert_eq!(removed.status, 200, "{}", removed.text());
        std::thread::sleep(pause);
    }
}

/// Begins to read ranges and pauses in each, so that the server must keep their snapshots. Checks
/// that keys rise.
fn hold_ranges(server: &TestServer, progress: &Progress, pause: Duration) {
    while !progress.is_over() {
        let mut client = server.client();
        client.send(&request("GET", "/v0/entities?start=%00", &[NDJSON], b""));
        let head = client.try_head().unwrap();
        assert_eq!(head.status, 200);
        std::thread::sleep(pause);
        let chunks = std::iter::from_fn(|| client.try_chunk().unwrap());
        let body = String::from_utf8(chunks.flatten().collect()).unwrap();
        let lines = body.lines().map(|line| serde_json::from_str(line).unwrap());
        let keys: Vec<String> = lines.map(|line: Value| field(&line, "key")).collect();
        assert!(keys.is_sorted_by(|one, next| one < next), "keys rise");
    }
}

/// Reads the changes, disconnects, and continues at the last number. Checks that numbers only rise.
fn follow(server: &TestServer, progress: &Progress) {
    let (mut random, mut last) = (SeededRandom::new(CLIENTS), 0);
    while !progress.is_over() {
        let mut client = server.client();
        let target = format!("/v0/changes?since={last}&follow=true");
        client.send(&request("GET", &target, &[], b""));
        let head = client.try_head().unwrap();
        if head.status == 410 {
            // After reading only the head, the client cannot read the body of this response.
            last = server.client().get(&target).json()["newest"].as_u64().unwrap();
            continue;
        }
        assert_eq!(head.status, 200);
        let mut unread = Vec::new();
        for _ in 0..random.next_u64() % 2_000 {
            let Some(chunk) = client.try_chunk().unwrap() else { break };
            unread.extend(chunk);
            // A chunk may end in the middle of a line.
            let whole = unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            for line in unread[..whole].split_inclusive(|byte| *byte == b'\n') {
                let line: serde_json::Value = serde_json::from_slice(line).unwrap();
                let is_lost = line.get("error").is_some();
                let place = if is_lost { &line["newest"] } else { &line["sequence"] };
                let place = place.as_u64().unwrap();
                assert!(place >= last, "{place} after {last}");
                last = place;
            }
            unread.drain(..whole);
            if progress.is_over() {
                break;
            }
        }
    }
}

/// Sends requests that break off at random places, and some that must be refused.
fn break_off(server: &TestServer, progress: &Progress) {
    let mut random = SeededRandom::new(CLIENTS + 1);
    let query = r#"{"query":"FOR i IN 1..2000 RETURN [i, RANGE(1, 3)]"}"#;
    let text = format!(
        "PUT /v0/entity?id=broken HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello\
         PUT /v0/entity?id=broken&ttl=x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n\
         GET /v0/entities?start=client HTTP/1.1\r\nHost: localhost\r\n\r\n\
         POST /_api/cursor HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{query}\
         GET /no/such/path HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        query.len()
    );
    let patience = Duration::from_secs(60);
    let script = Script { address: server.address, tls: None, text: text.into_bytes(), patience };
    while !progress.is_over() {
        let ending = ENDINGS[random.place(ENDINGS.len())];
        match random.place(2) {
            0 => script.play(random.place(script.text.len()), random.place(4_096), ending),
            _ => script.play(usize::MAX, random.place(50_000), ending),
        };
        std::thread::sleep(BREAK_PAUSE);
    }
}

fn descriptors(process: u32) -> u64 {
    std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count() as u64
}

/// Returns the bytes of the files below `folder`, without backups, whose files are hard links to
/// the same data.
fn disk_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().filter(|entry| entry.file_name() != "backups").map(|entry| {
        // The file may have been removed since the folder was listed.
        let Ok(metadata) = entry.metadata() else { return 0 };
        if metadata.is_dir() { disk_bytes(&entry.path()) } else { metadata.blocks() * 512 }
    });
    sizes.sum()
}

fn sample(server: &TestServer, data: &Path, progress: &Progress) -> Sample {
    let (recent, waited_ns) = (&progress.recent, &progress.waited_ns);
    let recent = recent.swap(0, Ordering::Relaxed).max(1);
    Sample {
        memory_bytes: server.memory_bytes("RssAnon"),
        descriptors: descriptors(server.id()),
        disk_bytes: disk_bytes(data),
        requests: progress.requests.load(Ordering::Relaxed),
        mean_ns: waited_ns.swap(0, Ordering::Relaxed) / recent,
        longest_ns: progress.longest_ns.swap(0, Ordering::Relaxed),
    }
}

/// Returns the mean of a figure in a quarter of the run.
fn mean(samples: &[Sample], quarter: usize, figure: impl Fn(&Sample) -> u64) -> u64 {
    let length = samples.len() / 4;
    let part = &samples[quarter * length..(quarter + 1) * length];
    part.iter().map(figure).sum::<u64>() / part.len() as u64
}

#[test]
fn mixed_load_reads_all_writes_back_and_leaks_nothing() {
    let seconds = std::env::var("PELLUCID_SOAK_SECONDS").map(|text| text.parse().unwrap());
    let time = Duration::from_secs(seconds.unwrap_or(SOAK_SECONDS));
    let folder = TempDir::new().unwrap();
    let server = TestServer::start(folder.path(), &["--memory", "16M"]);
    let (progress, pause) = (Progress::default(), (time / 20).min(Duration::from_secs(20)));
    let mut samples = Vec::new();
    std::thread::scope(|scope| {
        let (server, progress) = (&server, &progress);
        for number in 0..CLIENTS {
            scope.spawn(move || work(number, server, progress));
        }
        scope.spawn(move || operate(server, progress, pause));
        scope.spawn(move || hold_ranges(server, progress, pause));
        scope.spawn(move || follow(server, progress));
        scope.spawn(move || break_off(server, progress));
        for number in 1..=SAMPLES {
            std::thread::sleep(time / SAMPLES);
            let sample = sample(server, folder.path(), progress);
            println!("{number:3}: {sample:?}");
            samples.push(sample);
        }
        progress.is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(server.client().get("/v0/status").status, 200);
    println!(
        "{} requests in {time:?}; their mean by quarters: {} us; the longest: {} ms",
        progress.requests.load(Ordering::Relaxed),
        [0, 1, 2, 3]
            .map(|quarter| mean(&samples, quarter, |s| s.mean_ns / 1_000).to_string())
            .join(", "),
        samples.iter().map(|sample| sample.longest_ns).max().unwrap_or(0) / 1_000_000
    );
    assert!(samples.last().is_some_and(|sample| sample.requests > 0), "{samples:?}");
    if time >= FLAT_FROM {
        for (name, figure, more_max) in [
            ("memory", (|s: &Sample| s.memory_bytes) as fn(&Sample) -> u64, GROWTH_BYTES_MAX),
            ("disk", |s| s.disk_bytes, GROWTH_BYTES_MAX),
            ("descriptors", |s| s.descriptors, DESCRIPTORS_MORE_MAX),
        ] {
            let (before, after) = (mean(&samples, 1, figure), mean(&samples, 3, figure));
            assert!(after <= before + more_max, "{name} grew from {before} to {after}");
        }
    }
}
