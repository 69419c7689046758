//! The attack suite: bounded attacks on the built server, each with its expected outcome. After
//! each attack, all servers must be alive, answer requests, and keep within their memory limit.
//!
//! With `PELLUCID_ATTACKS_STRICT=1`, the suite fails if a watched client waits for more than 50 ms.
//! Use it on a machine that runs nothing else.

mod access;
mod attack_servers;
mod cluster;
mod documents;
mod http1;
mod http2;
mod queries;
mod raw;
mod tls;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use attack_servers::{AttackServers, WAIT_MAX, WatchedClient};
use raw::Attack;

/// The least number of attacks.
const ATTACKS_MIN: usize = 150;
/// The most memory in bytes that a server may hold at any time: its budgets plus the engine's.
const RESIDENT_BYTES_MAX: u64 = 3 << 30;
/// The time limit of one attack, also on a busy machine.
const ATTACK_MAX: Duration = Duration::from_secs(60);

#[test]
fn no_attack_ends_a_server_or_fills_it_or_holds_others_up() {
    let arena = AttackServers::open();
    let attacks: Vec<Attack> = [
        http1::attacks(),
        http2::attacks(),
        tls::attacks(),
        queries::attacks(),
        documents::attacks(),
        access::attacks(),
        cluster::attacks(),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert!(attacks.len() >= ATTACKS_MIN, "there are {} attacks", attacks.len());
    let wanted = std::env::var("PELLUCID_ATTACK").unwrap_or_default();
    let watch = WatchedClient::begin(&arena);
    let mut failed: Vec<&String> = Vec::new();
    for (number, Attack { name, run }) in attacks.iter().enumerate() {
        if !name.contains(&wanted) {
            continue;
        }
        watch.attack(number);
        println!("attack: {name}");
        let begun = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| run(&arena))).is_err() {
            failed.push(name);
        }
        assert!(begun.elapsed() < ATTACK_MAX, "{name} took {:?}", begun.elapsed());
        after(&arena, name);
    }
    let mut waits = watch.end();
    waits.sort_unstable_by(|left, right| right.cmp(left));
    for (wait, number) in waits.iter().take(10) {
        println!("a watched client waited for {wait:?} during: {}", attacks[*number].name);
    }
    if std::env::var_os("PELLUCID_ATTACKS_STRICT").is_some_and(|set| set == "1") {
        let held_up = waits.iter().filter(|(wait, _)| *wait > WAIT_MAX).count();
        assert_eq!(held_up, 0, "attacks held others up");
    }
    println!("{} attacks", attacks.len());
    assert!(failed.is_empty(), "these did something else than they should: {failed:#?}");
}

/// Checks that every server is intact after an attack.
fn after(arena: &AttackServers, name: &str) {
    for (kind, server) in arena.servers() {
        assert!(server.lives(), "{name}: the server `{kind}` has ended");
        let held = server.resident_bytes();
        assert!(held < RESIDENT_BYTES_MAX, "{name}: the server `{kind}` holds {held} bytes");
        if kind != "secure" {
            let status = server.client().get("/v0/status").status;
            assert_eq!(status, 200, "{name}: the server `{kind}` does not serve");
        }
    }
    assert!(tls::serves(arena), "{name}: the server `secure` does not serve");
}
