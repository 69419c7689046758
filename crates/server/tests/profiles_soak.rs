//! All profilers at ten times their usual rates, on a server that speaks TLS, flushes and merges:
//! whatever code a sample interrupts, nothing crashes and nothing hangs.
//!
//! Servers have crashed on samples during handshakes, in allocators and in unwinders. So clients
//! reconnect all the time, and each profile is taken in each format again and again. `make
//! soak-profiles` runs it for half an hour.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
#![allow(clippy::print_stdout, reason = "whoever runs it for half an hour wants to know of it")]

mod common;

use std::alloc::System;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::tls::{self, TlsClient};
use common::{TestServer, entity, start_with};
use pellucid_io::SeededRandom;
use pellucid_profile::{SAMPLE_BYTES, SampledAllocator, USUAL_HERTZ, set_allocation_sampling};
use pellucid_thread::{HOLDERS_ONE_IN, WAIT_SAMPLE_NS, set_holder_sampling, set_wait_sampling};
use rustls::ClientConfig;
use tempfile::TempDir;

#[global_allocator]
static ALLOCATOR: SampledAllocator<System> = SampledAllocator::new(System);

/// The environment variable with the duration in seconds; [`SECONDS`] if it is not set.
const SECONDS_VARIABLE: &str = "PELLUCID_SOAK_SECONDS";
const SECONDS: u64 = 4;
/// The factor on the usual rates.
const TIMES: u64 = 10;
/// The longest wait for an answer; a server that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Number of rounds of a client on one connection.
const ROUNDS: u64 = 50;
const CLIENTS: u64 = 3;
const KEYS: u64 = 30_000;

fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> TlsClient {
    let client = tls::connect(address, config);
    client.socket.sock.set_read_timeout(Some(PATIENCE)).unwrap();
    client
}

/// Puts and gets, with a new connection after each [`ROUNDS`], until the end; counts the rounds.
fn load(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    seed: u64,
    is_over: &AtomicBool,
    rounds: &AtomicU64,
) {
    let value = vec![b'v'; 700];
    let mut random = SeededRandom::new(seed);
    while !is_over.load(Ordering::Relaxed) {
        let mut client = connect(address, config);
        for _ in 0..ROUNDS {
            let target = entity(format!("k{}", random.below(KEYS)));
            let put = client.put(&target, &value).status;
            assert!(matches!(put, 200 | 201), "{put}");
            let answer = client.get(&target);
            assert!(answer.status == 200 && answer.body == value, "{}", answer.status);
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Takes each profile in each format, again and again; returns the number of profiles.
fn take_profiles(config: &Arc<ClientConfig>, until: Instant, running: &TestServer) -> u64 {
    let address = running.address;
    let mut taken = 0;
    while taken == 0 || Instant::now() < until || !has_merged(address, config) {
        assert!(Instant::now() < until + PATIENCE, "there were no flushes and merges");
        for format in ["pb", "folded", "svg", "html", "shares"] {
            for name in ["profile", "heap", "allocs", "mutex", "block"] {
                let mut client = connect(address, config);
                let more = if name == "profile" { "&seconds=0.5&hz=990" } else { "" };
                let target = format!("/debug/pprof/{name}?format={format}{more}");
                let answer = client.get(&target);
                let text = String::from_utf8_lossy(&answer.body);
                assert_eq!(answer.status, 200, "{target}: {text}");
                // If no thread waited for a lock, there are no stacks.
                assert!(!answer.body.is_empty() || format == "folded", "{target}");
                taken += 1;
            }
            if Instant::now() >= until && taken >= 10 {
                break;
            }
        }
        assert!(running.log.lock().unwrap().iter().all(|line| !line.contains("failed")));
    }
    taken
}

/// True if memtables were flushed and tables merged.
fn has_merged(address: SocketAddr, config: &Arc<ClientConfig>) -> bool {
    let engine = connect(address, config).get("/_admin/engine").json();
    let runs = |of: &serde_json::Value| of["runs"].as_u64().unwrap_or(0);
    let merges = engine["background"]["compactions"].as_array().unwrap();
    runs(&engine["background"]["flush"]) > 0 && merges.iter().any(|merge| runs(merge) > 0)
}

#[test]
fn profiles_at_ten_times_their_rates_disturb_nothing() {
    let seconds = std::env::var(SECONDS_VARIABLE).ok();
    let seconds = seconds.map_or(SECONDS, |seconds| seconds.parse().unwrap());
    set_allocation_sampling(SAMPLE_BYTES / TIMES);
    set_wait_sampling(WAIT_SAMPLE_NS / TIMES);
    // Sample all of them, because ten times the usual share would be more than all.
    set_holder_sampling((HOLDERS_ONE_IN / TIMES as u32).max(1));
    let folder = TempDir::new().unwrap();
    let (files, config) = tls::localhost(folder.path());
    let running = start_with(|options| {
        options.profile_hertz = USUAL_HERTZ * TIMES as u32;
        options.embedded.memory_bytes = 1 << 20;
        options.tls = Some(files);
    });
    let address = running.address;
    let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let taken = std::thread::scope(|scope| {
        for seed in 1..=CLIENTS {
            let (config, is_over, rounds) = (&config, &is_over, &rounds);
            scope.spawn(move || load(address, config, seed * 2 + 1, is_over, rounds));
        }
        let until = Instant::now() + Duration::from_secs(seconds);
        let take = || take_profiles(&config, until, &running);
        // The clients must end even if taking the profiles panics.
        let taken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(take));
        is_over.store(true, Ordering::Relaxed);
        taken.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let rounds = rounds.load(Ordering::Relaxed);
    assert!(rounds > 0 && taken > 0);
    println!("{rounds} PUTs and GETs each, {taken} profiles in {seconds} s");
}
