//! A clock that is set back. The test has a process of its own, because it sets the time ahead by
//! which entries expire.
#![cfg(feature = "rocksdb")]
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use pellucid_account::Timeline;
use pellucid_clock::{WallTime, rising};
use pellucid_rocksdb::{RocksOptions, RocksStore};
use pellucid_store::{Acknowledgement, Operation, Store};
use rocksdb::{DB, Options};
use tempfile::TempDir;

const MINUTE_MS: u64 = 60_000;

/// Regression: expired entries came back if the clock was set back before a restart.
#[test]
fn the_time_by_which_entries_expire_survives_a_restart() {
    let (folder, off) = (TempDir::new().unwrap(), &mut Timeline::off());
    let open = || RocksStore::open(folder.path(), RocksOptions::default()).unwrap();
    let store = open();
    let table = store.table("t").unwrap();
    let entry = Operation::plain(b"key", Some(b"value"));
    let brief = Operation { lifetime_ms: Some(MINUTE_MS), ..entry };
    store.write(table, &[brief], Acknowledgement::Os, off).wait().unwrap();
    assert!(store.get(table, b"key", off).wait().unwrap().is_some());
    drop(store);
    // As an earlier run leaves it whose clock was two minutes ahead.
    let drawn = (WallTime::now().unix_ms() + 2 * MINUTE_MS) << 14;
    let options = Options::default();
    let names = DB::list_cf(&options, folder.path()).unwrap();
    let database = DB::open_cf(&options, folder.path(), names).unwrap();
    database.put("sequence numbers below", drawn.to_le_bytes()).unwrap();
    drop(database);
    let store = open();
    let table = store.table("t").unwrap();
    assert!(store.get(table, b"key", off).wait().unwrap().is_none());
    // The clock is ahead by two more minutes for a moment, and the next number has the time since.
    let ahead_ms = WallTime::now().unix_ms() + 4 * MINUTE_MS;
    let _ = rising(WallTime::from_unix_ms(ahead_ms));
    store.write(table, &[entry], Acknowledgement::Os, off).wait().unwrap();
    let head = store.head(table, b"key", off).wait().unwrap().unwrap();
    assert!(head.written_at_ms >= ahead_ms, "{head:?}");
}
