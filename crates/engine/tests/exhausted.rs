//! A process that runs out of file descriptors retries the operations that need one.
//!
//! Regression: after a flush that could not create its table, all writes failed until the store was
//! reopened.

use std::time::{Duration, Instant};

use crate::common::*;
use pellucid_engine::{Engine, EngineOptions, Error, TableId};
use pellucid_io::simulated::{Faults, SimulatedFileSystem};

/// The number of keys, enough for about ten flushes of a full memtable.
const KEYS: u64 = 4_000;
/// The number of failures: more than the attempts of any one job, and few enough for the pauses
/// between attempts, which double each time.
const FAILURES: u32 = 6;

fn options(files: &SimulatedFileSystem, background: bool) -> EngineOptions {
    EngineOptions { segment_size_bytes: 64 << 10, background, ..small(files) }
}

/// Puts a key, and retries as long as the error says that it is temporary.
fn put_patiently(engine: &Engine, table: TableId, key: u64) -> u32 {
    let (begun, mut refusals) = (Instant::now(), 0);
    loop {
        match put(engine, table, &key.to_le_bytes(), &[key as u8; 40]) {
            Ok(_) => return refusals,
            Err(error @ Error::Exhausted { .. }) => {
                assert!(error.to_string().contains("try again later"), "{error}");
                refusals += 1;
            }
            Err(error) => panic!("key {key}: {error}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "writes are not taken again");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn expect_all(engine: &Engine, table: TableId) {
    for key in 0..KEYS {
        let found = get(engine, table, &key.to_le_bytes()).unwrap();
        assert_eq!(found, Some(vec![key as u8; 40]), "{key}");
    }
}

#[test]
fn a_lack_of_descriptors_refuses_writes_temporarily_and_loses_none() {
    for background in [false, true] {
        let (files, engine, table) = open_new(|files| options(files, background));
        let mut refusals = 0;
        for key in 0..KEYS {
            if key == KEYS / 2 {
                let faults = Faults { exhausted_opens: FAILURES, ..Faults::default() };
                files.set_faults(faults);
            }
            refusals += put_patiently(&engine, table, key);
        }
        assert!(refusals > 0, "nothing was refused: {background}");
        engine.flush().unwrap();
        assert_eq!(engine.stats().ledger.trouble, None);
        expect_all(&engine, table);
        engine.compact().unwrap();
        engine.close().unwrap();
        let engine = Engine::open(STORE, options(&files, false)).unwrap();
        expect_all(&engine, table);
    }
}

/// Regression: a segment with large pages is replaced once it was synced often. Without a
/// descriptor for the next one, a write was refused although its segment had room.
#[test]
fn a_write_that_fits_into_its_segment_needs_no_descriptor() {
    let (files, engine, table) =
        open_new(|files| EngineOptions { segment_size_bytes: 16 << 20, ..small(files) });
    put(&engine, table, b"first", b"value").unwrap();
    files.set_faults(Faults { exhausted_opens: 1_000, ..Faults::default() });
    for key in 0..20_u64 {
        put_durable(&engine, table, &key.to_le_bytes(), b"value").unwrap();
    }
}
