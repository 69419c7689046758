//! Tests of the built server with little address space, and with little time to stop.

use std::os::unix::process::CommandExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::costly_queries::costly_queries;
use crate::common::{Client, TestServer, entity, pellucid, serve, wait_until};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::json;
use tempfile::TempDir;

const ADDRESS_SPACE_BYTES: u64 = 4 << 30;
const CLIENTS: usize = 8;
/// The time limit in seconds of a costly query.
const SECONDS: f64 = 3.0;

fn post(client: &mut Client, target: &str, body: &str) -> (u16, String) {
    let answer = client.call("POST", target, &[], body);
    (answer.status, String::from_utf8_lossy(&answer.body).chars().take(200).collect())
}

/// Regression: each of these queries ended the process or used all of its memory.
#[test]
fn costly_queries_eight_at_a_time_fit_in_an_address_space_of_4_gib() {
    let folder = TempDir::new().unwrap();
    let data = folder.path().to_str().unwrap();
    let mut command = pellucid(&["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    let limit = Rlimit { current: Some(ADDRESS_SPACE_BYTES), maximum: Some(ADDRESS_SPACE_BYTES) };
    // SAFETY: between fork and exec, the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(move || Ok(setrlimit(Resource::As, limit)?)) };
    let server = TestServer::spawn(command);
    let mut client = server.client();
    println!("{} MiB of address space at the start", server.memory_bytes("VmSize") >> 20);
    assert_eq!(client.put(&entity("a"), "1").status, 201);
    assert!(post(&mut client, "/_api/collection", r#"{"name":"c"}"#).0 < 300);
    let documents: String =
        (0..2_000).map(|at| format!("{{\"_key\":\"k{at}\",\"n\":{at}}}\n")).collect();
    assert!(post(&mut client, "/_api/import?collection=c&type=documents", &documents).0 < 300);

    let costly = costly_queries();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = server.client();
                while let Some((name, query)) = costly.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let body = json!({"query": query, "options": {"maxRuntime": SECONDS}});
                    let answer = client.call("POST", "/_api/cursor", &[], body.to_string());
                    let status = answer.status;
                    let text: String =
                        String::from_utf8_lossy(&answer.body).chars().take(200).collect();
                    println!("{status} {name}: {text:.100}");
                    if answer.header("Connection") == Some("close") {
                        // A body is not read if there is no memory for it.
                        client = server.client();
                    }
                    assert!(matches!(status, 201 | 400..=599), "{name}: {status} {text}");
                }
            });
        }
    });
    println!("{} MiB of address space at most", server.memory_bytes("VmPeak") >> 20);
    assert_eq!(client.get(&entity("a")).text(), "1");
    let (status, text) = post(&mut client, "/_api/cursor", r#"{"query":"RETURN LENGTH(c)"}"#);
    assert_eq!(status, 201, "{text}");
}

/// Regression: queries that did not end kept the process alive after `--stop-timeout`.
#[test]
fn a_stop_ends_the_process_while_eight_costly_patterns_are_searched() {
    let stop_timeout = Duration::from_secs(8);
    let (_folder, mut server) = serve(&["--stop-timeout", "8s"]);
    let query = r#"RETURN REGEX_SPLIT(@s, ".*[^A-Z]|[A-Z]")"#;
    let body = json!({"query": query, "bindVars": {"s": "A".repeat(4 << 20)}}).to_string();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (mut client, body) = (server.client(), body.clone());
            // The server ends the connection, with or without a response before.
            std::thread::spawn(move || {
                let answer = client.try_call("POST", "/_api/cursor", &[], body.as_bytes());
                answer.map(|answer| answer.status)
            })
        })
        .collect();
    let mut client = server.client();
    let current = || client.get("/_api/query/current").text().matches("REGEX_SPLIT").count();
    wait_until(current, |queries| *queries >= CLIENTS);
    let begun = Instant::now();
    server.signal(libc::SIGTERM);
    let status = server.wait();
    let took = begun.elapsed();
    println!("{status} after {took:?}");
    // The queries end. A thread that is left behind would make exit code 3.
    assert_eq!(status.code(), Some(0));
    assert!(took < stop_timeout + Duration::from_secs(20), "{took:?}");
    for client in clients {
        assert!(!matches!(client.join().unwrap(), Ok(200..=299)), "a query came to its result");
    }
}
