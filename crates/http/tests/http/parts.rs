//! The parts of a request's phases that are cryptography and compression, in its record.

use std::future::Future;
use std::io::{Read, Write};
use std::pin::pin;
use std::time::Duration;

use crate::common::h2_client;
use crate::common::tls_client::{self, certificates, client_config_for, client_of, http2_of};
use crate::common::{TestServer, start_connected, start_with};
use pellucid_account::{Record, TRANSPORT_PARTS, TransportPart};
use pellucid_http::Limits;

use TransportPart::{Compress, Decrypt, Encrypt};

/// The body length from which on bodies are compressed.
const FROM: usize = 1_000;

fn limits() -> Limits {
    Limits { compressed_from_bytes: FROM, ..Limits::default() }
}

fn post(path: &str, body: &[u8], headers: &str) -> Vec<u8> {
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// Reads until `times` responses have come, each of which ends with `end`.
fn read_until(client: &mut impl Read, end: &[u8], times: usize) {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    while all.windows(end.len()).filter(|window| *window == end).count() < times {
        let count = client.read(&mut buffer).unwrap();
        assert!(count > 0, "the server has closed the connection");
        all.extend_from_slice(&buffer[..count]);
    }
}

/// The records of `count` requests, in order. Checks that no part is longer than its phase.
fn records(running: &TestServer, count: usize) -> Vec<Record> {
    let records = running.records(count);
    for (record, part) in records.iter().flat_map(|record| TRANSPORT_PARTS.map(|of| (record, of))) {
        assert!(record.transport_ticks(part) <= record.phase_ticks(part.phase()));
    }
    records
}

/// For each of [`TRANSPORT_PARTS`], true if the request had that part.
fn occurred(record: &Record) -> [bool; 3] {
    TRANSPORT_PARTS.map(|part| record.transport_ticks(part) > 0)
}

/// The largest rounding error of a sum of parts, which records hold in a compact form.
fn rounding_ns(sum_ns: u64) -> u64 {
    sum_ns / 1_000 + 200
}

fn sum_ns(running: &TestServer, records: &[Record], part: TransportPart) -> u64 {
    let clock = running.account.clock();
    records.iter().map(|record| clock.nanoseconds(record.transport_ticks(part))).sum()
}

#[test]
fn each_request_over_tls_has_its_own_cryptography() {
    let running = start_with(limits(), Some(certificates("first")));
    let config = client_config_for("first", rustls::ALL_VERSIONS, &["http/1.1"]);
    let mut client = client_of(&running, &config);
    let large = [vec![b'x'; 700_000], b"end".to_vec()].concat();
    for body in [b"the end", b"the end", b"the end", &large[..], b"the end"] {
        client.write_all(&post("/", body, "")).unwrap();
        read_until(&mut client, b"end", 1);
    }
    client.write_all(&post("/later", b"the end", "")).unwrap();
    read_until(&mut client, b"end", 1);
    let records = records(&running, 6);
    // The first request may have come with the end of the handshake, to which its time counts then.
    for record in &records[1..] {
        assert_eq!(occurred(record), [true, false, true], "{record:?}");
    }
    for part in [Decrypt, Encrypt] {
        // Any of them may have waited for a processor meanwhile, which only adds.
        let least = records.iter().map(|record| record.transport_ticks(part)).min();
        assert!(Some(records[3].transport_ticks(part)) > least, "the large one");
    }
    // Requests one after the other share nothing, and nothing is counted twice.
    let tls = running.stats().tls;
    assert!(sum_ns(&running, &records, Decrypt) <= tls.decrypt_ns + rounding_ns(tls.decrypt_ns));
    let encrypted_ns = sum_ns(&running, &records, Encrypt);
    assert!(encrypted_ns.abs_diff(tls.encrypt_ns) <= rounding_ns(tls.encrypt_ns));
}

/// Requests that are read together are decrypted by one call and encrypted by one, whose time is
/// part of the phases of both.
#[test]
fn requests_of_one_read_share_its_cryptography() {
    let running = start_with(limits(), Some(certificates("first")));
    let config = client_config_for("first", rustls::ALL_VERSIONS, &["http/1.1"]);
    let mut client = client_of(&running, &config);
    client.write_all(&post("/", b"the end", "")).unwrap();
    read_until(&mut client, b"end", 1);
    client.write_all(&[post("/", b"the end", ""), post("/", b"the end", "")].concat()).unwrap();
    read_until(&mut client, b"end", 2);
    let records = records(&running, 3);
    let [_, first, second] = &records[..] else { panic!("three were asked for") };
    for part in [Decrypt, Encrypt] {
        assert!(first.transport_ticks(part) > 0);
        assert_eq!(first.transport_ticks(part), second.transport_ticks(part));
    }
}

/// Starts a server, and connects to it with HTTP/2 over TLS.
fn start_http2(limits: Limits) -> (TestServer, h2_client::Client<tls_client::Client>) {
    let running = start_with(limits, Some(certificates("first")));
    let config = client_config_for("first", rustls::ALL_VERSIONS, &["h2"]);
    let client = http2_of(&running, &config);
    (running, client)
}

#[test]
fn each_stream_over_tls_has_its_own_cryptography() {
    let (running, mut client) = start_http2(limits());
    let large = vec![b'x'; 300_000];
    let asked: [(&str, &[u8]); 5] =
        [("/", b"first"), ("/", b"short"), ("/", b""), ("/", &large), ("/later", b"short")];
    for request in asked {
        assert!(client.exchange(&[request])[0].is_ok());
    }
    let coded = client.exchange_with(&[("accept-encoding", "gzip")], &[("/", &large[..20_000])]);
    assert!(coded[0].as_ref().unwrap().1.len() < 2_000);
    let records = records(&running, 6);
    for record in &records[1..5] {
        assert_eq!(occurred(record), [true, false, true], "{record:?}");
    }
    assert_eq!(occurred(&records[5]), [true; 3]);
}

/// Regression: the decryption of a request that was refused as too slow was counted from the end of
/// its session, below zero, which ended the event loop or made all of `receive` decryption.
#[test]
fn a_slow_stream_over_tls_has_its_own_cryptography_too() {
    let (running, mut client) =
        start_http2(Limits { exchange: Duration::from_secs(1), ..limits() });
    assert!(client.exchange(&[("/", b"first")])[0].is_ok());
    let mut send = client.send.clone();
    client.run(|context| send.poll_ready(context)).unwrap();
    let request = http::Request::post("http://localhost/").body(()).unwrap();
    let (response, mut stream) = send.send_request(request, false).unwrap();
    stream.send_data(bytes::Bytes::from_static(b"a part"), false).unwrap();
    let mut response = pin!(response);
    let response = client.run(|context| response.as_mut().poll(context)).unwrap();
    assert_eq!(response.status(), 408);
    let slow = &records(&running, 2)[1];
    assert!(slow.transport_ticks(Decrypt) < slow.phase_ticks(Decrypt.phase()) / 2, "{slow:?}");
}

#[test]
fn a_compressed_response_has_the_time_of_its_compression() {
    let (running, mut client) = start_connected(limits());
    let body = b"the same words again and again, ".repeat(1_000);
    let (accepts, end) = ("Accept-Encoding: gzip\r\n", b"0\r\n\r\n");
    // The first body is sent in one piece. Its end is known only by its length, so the next answer
    // shows that it came.
    client.write_all(&post("/", &body, accepts)).unwrap();
    client.write_all(&post("/", &body.repeat(20), accepts)).unwrap();
    read_until(&mut client, end, 1);
    client.write_all(&post("/", &body[..FROM - 1], accepts)).unwrap();
    client.write_all(&post("/", &[&body[..], b"end"].concat(), "")).unwrap();
    read_until(&mut client, b"end", 1);
    let records = records(&running, 4);
    let compressed: Vec<bool> =
        records.iter().map(|record| record.transport_ticks(Compress) > 0).collect();
    assert_eq!(compressed, [true, true, false, false]);
    let all_ns = running.stats().compression.compress_ns;
    assert!(sum_ns(&running, &records, Compress).abs_diff(all_ns) <= rounding_ns(all_ns));
    assert!(records.iter().all(|record| !occurred(record)[0] && !occurred(record)[2]));
    let snapshot = running.account.snapshot(None);
    let account = &snapshot.operations[0];
    assert_eq!(account.transport_part_of("encode").unwrap().distribution.count, 2);
    assert_eq!(account.transport_parts.len(), 1);
}
