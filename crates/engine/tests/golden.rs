//! Stores of every released format version open, and hold what they held.
//!
//! `golden/version-1` was written by this test with the environment variable `PELLUCID_GOLDEN` set,
//! once, and stays as it is: a build that cannot read it cannot read what its users have.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why"
)]

mod common;

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::*;
use pellucid_account::Timeline;
use pellucid_clock::{Clock, SimulatedClock};
use pellucid_engine::{
    Acknowledgement, Direction, Engine, EngineOptions, Operation, rebuild_ledger, verify,
};
use pellucid_io::SystemFileSystem;
use pellucid_io::simulated::SimulatedFileSystem;

/// The time at which the store was written, in milliseconds since the Unix epoch.
const WRITTEN_AT_MS: u64 = 1_800_000_000_000;
/// When half of the keys that expire had done so.
const LATER_MS: u64 = WRITTEN_AT_MS + 5_000;
const KEYS: u8 = 120;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/version-1")
}

fn options(clock: &'static SimulatedClock) -> EngineOptions {
    EngineOptions {
        file_system: Arc::new(SystemFileSystem),
        clock: Clock::simulated(clock),
        segment_size_bytes: 4 << 10,
        ..small(&SimulatedFileSystem::new())
    }
}

fn value(key: u8) -> Vec<u8> {
    vec![key; usize::from(key)]
}

/// Writes a store that has everything: segments sealed, collected and growing, tables on two
/// levels, tombstones, heads, expiry, a batch, two tables of keys, and records only in the journal.
fn write(directory: &Path) {
    let clock = SimulatedClock::leaked(WRITTEN_AT_MS);
    let engine = Engine::open(directory, options(clock)).unwrap();
    let (fruit, other) = (engine.table("fruit").unwrap(), engine.table("other").unwrap());
    let mut timeline = Timeline::off();
    for key in 0..KEYS {
        put(&engine, fruit, &[key], b"old").unwrap();
    }
    for key in 0..KEYS {
        let value = value(key);
        let expires_at_ms = if key % 10 == 5 { LATER_MS } else { 0 };
        let operation = Operation::put(fruit, std::slice::from_ref(&key), &value);
        let operation = operation.with_head(b"a head").with_expiry(expires_at_ms);
        engine.write_operations(&[operation], Acknowledgement::Os, &mut timeline).unwrap();
    }
    engine.flush().unwrap();
    engine.compact().unwrap();
    engine.collect().unwrap();
    for key in (0..KEYS).step_by(10) {
        engine.delete(fruit, &[key], Acknowledgement::Os, &mut timeline).unwrap();
    }
    engine.flush().unwrap();
    let batch = [b"a", b"b"].map(|key| Operation::put(other, key, b"in a batch"));
    engine.write_operations(&batch, Acknowledgement::Disk, &mut timeline).unwrap();
    engine.wait_durable(engine.stats().published_sequence).unwrap();
    put(&engine, other, b"c", b"after a mark").unwrap();
    assert!(engine.stats().collected.segments > 0);
    // Dropped, not closed: the last segment is not sealed.
}

fn check(engine: &Engine, now_ms: u64) {
    let fruit = engine.table("fruit").unwrap();
    for key in 0..KEYS {
        let is_there = key % 10 != 0 && (key % 10 != 5 || now_ms < LATER_MS);
        let object = engine.get(fruit, &[key], &mut Timeline::off()).unwrap();
        assert_eq!(object.is_some(), is_there, "{key}");
        if let Some(object) = object {
            assert_eq!((&*object.value, &*object.head.metadata), (&value(key)[..], &b"a head"[..]));
            assert_eq!(object.head.written_at_ms, WRITTEN_AT_MS);
            assert_eq!(object.head.sequence, 2 + u64::from(KEYS) + u64::from(key) + 1);
        }
    }
    let other = engine.table("other").unwrap();
    let unbounded = (Bound::Unbounded, Bound::Unbounded);
    let scan = engine.scan(other, unbounded.0, unbounded.1, Direction::Backward).unwrap();
    let rows: Vec<_> =
        collect(scan).unwrap().into_iter().map(|(key, row)| (key, row.value)).collect();
    let row = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    assert_eq!(
        rows,
        [row(b"c", b"after a mark"), row(b"b", b"in a batch"), row(b"a", b"in a batch")]
    );
}

/// A copy of the golden store that may be opened, which changes it.
fn copy() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for folder in ["", "journal", "ledger"] {
        std::fs::create_dir_all(copy.path().join(folder)).unwrap();
        for entry in std::fs::read_dir(golden().join(folder)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                let target = copy.path().join(folder).join(entry.file_name());
                std::fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    copy
}

#[test]
fn the_store_of_version_1_holds_what_it_held() {
    if std::env::var_os("PELLUCID_GOLDEN").is_some() {
        write(&golden());
    }
    for now_ms in [WRITTEN_AT_MS, LATER_MS] {
        let copy = copy();
        let clock = SimulatedClock::leaked(now_ms);
        assert_eq!(verify(copy.path(), &SystemFileSystem).unwrap().problems, []);
        let engine = Engine::open(copy.path(), options(clock)).unwrap();
        check(&engine, now_ms);
        engine.compact().unwrap();
        engine.collect().unwrap();
        check(&engine, now_ms);
        engine.close().unwrap();
        rebuild_ledger(copy.path(), options(clock)).unwrap();
        check(&Engine::open(copy.path(), options(clock)).unwrap(), now_ms);
    }
}
