//! Tests of the ledger with failing files.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use pellucid_io::FileSystem;
use pellucid_io::simulated::Faults;

use super::harness::*;
use crate::error::Error;
use crate::ledger::{EntryKind, LedgerOptions, Manifest, NEWEST};
use crate::read_mode::ReadMode;

/// Writes, flushes and merges; stops at the first error.
fn scenario(store: &mut Store) -> Result<(), Error> {
    for round in 0..6 {
        for number in 0..60 {
            store.ledger.wait_for_memtables()?;
            let kind = if (number + round) % 5 == 0 { EntryKind::Delete } else { EntryKind::Put };
            store.write(&key(number * (round + 1) % 97), kind);
            store.ledger.rotate_if_full(store.last_sequence());
        }
        store.ledger.flush_now(store.last_sequence())?;
        while store.ledger.compact_step()? {}
    }
    store.ledger.compact_all()
}

/// Failures 9 to 13 and 15 of other stores: whichever call fails, and whatever part of it reached
/// the medium, the next opening finds a complete tree, and nothing that a manifest has acknowledged
/// is lost.
#[test]
fn every_failing_call_leaves_a_tree_that_opens() {
    let mut calls = 0;
    for fail_at in 1.. {
        let mut store = Store::create(small_options());
        store.fs.set_faults(Faults { fail_call: Some(fail_at), ..Faults::default() });
        let before = store.fs.calls();
        let outcome = scenario(&mut store);
        let made = store.fs.calls() - before;
        let failed = outcome.is_err();
        store.fs.set_faults(Faults::default());
        store.check_all();
        if failed {
            assert!(
                store.ledger.wait_for_memtables().is_err(),
                "call {fail_at} failed, and writes go on"
            );
        }
        for fs in [store.fs.kill(), store.fs.crash(fail_at)] {
            let mut found = Store {
                fs: fs.clone(),
                books: store.books.clone(),
                ..Store::create(small_options())
            };
            found.records = store.records.clone();
            found.reopen(fs).unwrap_or_else(|error| panic!("call {fail_at}: {error}"));
            found.check_all();
            found.ledger.verify().unwrap();
            check_no_orphans(&found);
        }
        calls = made;
        if made < fail_at {
            assert!(!failed, "no call failed, but the scenario did");
            break;
        }
    }
    assert!(calls > 100, "the scenario has only {calls} calls");
}

fn check_no_orphans(store: &Store) {
    let manifest = Manifest::read(&store.fs, directory()).unwrap().unwrap();
    let named = manifest.tables.len();
    let files = store.fs.list(&directory().join("ledger")).unwrap().len();
    assert_eq!(files, named);
}

/// yugabyte#32894, leveled#262: a full disk must not poison the store.
#[test]
fn a_full_disk_is_temporary() {
    let mut store = Store::create(small_options());
    for number in 0..100 {
        store.put(&key(number));
    }
    let used = store.fs.used_bytes();
    store.fs.set_faults(Faults { space_bytes: Some(used + 500), ..Faults::default() });
    let refused = store.ledger.flush_now(store.last_sequence()).unwrap_err();
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    assert!(store.fs.used_bytes() <= used + 500);
    assert_eq!(store.ledger.flushed_sequence(), 0);
    store.check_all();
    assert!(store.ledger.stats().trouble.is_some());
    let fs = store.fs.kill();
    assert!(Manifest::read(&fs, directory()).unwrap().is_some());
    store.fs.set_faults(Faults::default());
    store.flush();
    assert_eq!(store.ledger.flushed_sequence(), 100);
    assert_eq!(store.ledger.stats().trouble, None);
    store.check_all();
}

/// Regression: a merge that lacked room wrote until the disk was full, and started again for ever.
#[test]
fn merges_fit_into_the_room_on_the_disk() {
    let mut store = Store::create(LedgerOptions { level_0_trigger: 99, ..small_options() });
    for _ in 0..8 {
        for number in 0..60 {
            store.put(&key(number));
        }
        store.flush();
    }
    let tables_bytes: u64 = store.ledger.stats().levels.iter().map(|level| level.size_bytes).sum();
    let used = store.fs.used_bytes();
    store.fs.set_faults(Faults { space_bytes: Some(used + 1), ..Faults::default() });
    assert!(!store.ledger.merge_for_room().unwrap(), "nothing fits");
    let space_bytes = Some(used + tables_bytes / 2);
    store.fs.set_faults(Faults { space_bytes, ..Faults::default() });
    let calls = store.fs.calls();
    let refused = store.ledger.compact_all().unwrap_err();
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    assert!(store.fs.calls() - calls < 3, "nothing was written");
    let mut merges = 1;
    while store.ledger.merge_for_room().unwrap() {
        merges += 1;
    }
    assert!((2..9).contains(&merges), "{merges}");
    let levels = store.ledger.stats().levels;
    assert_eq!(levels.iter().filter(|level| level.tables > 0).count(), 1);
    assert_eq!(levels.iter().map(|level| level.entries).sum::<u64>(), 60, "the newest of each");
    store.check_all();
}

/// Regression: a merge that lacked room counted as a flush that is put off if a memtable was sealed
/// meanwhile, and the next write was refused although there was room for the flush.
#[test]
fn a_merge_without_room_is_not_a_flush_that_is_put_off() {
    let mut store = Store::create(LedgerOptions { level_0_trigger: 2, ..small_options() });
    for _ in 0..2 {
        (0..60).for_each(|number| store.put(&key(number)));
        store.flush();
    }
    store.put(&key(1));
    store.ledger.seal_for_tests(store.last_sequence());
    let space_bytes = Some(store.fs.used_bytes() + 1);
    store.fs.set_faults(Faults { space_bytes, ..Faults::default() });
    let refused = store.ledger.compact_step().unwrap_err();
    assert!(refused.passes() && !store.ledger.is_flush_put_off(), "{refused}");
    let refused = store.ledger.job_step().unwrap_err();
    assert!(refused.passes() && store.ledger.is_flush_put_off(), "{refused}");
    store.fs.set_faults(Faults::default());
    store.check_all();
}

/// The bytes that manifests and small merges need on a nearly full disk: less than the flush of
/// [`seal_large`].
const SPARE_BYTES: u64 = 32 << 10;

/// Seals a memtable of some hundred kilobytes.
fn seal_large(store: &mut Store) {
    (0..5_000).for_each(|number| store.put(&key(number)));
    store.ledger.seal_for_tests(store.last_sequence());
}

/// Regression: a merge failed, although it had made room, if the flush behind it lacked some. The
/// next merge was put off, and writes were refused meanwhile.
#[test]
fn a_flush_without_room_does_not_fail_the_merge_before_it() {
    let mut store = Store::create(LedgerOptions { level_0_trigger: 1, ..small_options() });
    for _ in 0..10 {
        store.put(&key(0));
        store.flush();
    }
    seal_large(&mut store);
    let space_bytes = Some(store.fs.used_bytes() + SPARE_BYTES);
    store.fs.set_faults(Faults { space_bytes, ..Faults::default() });
    assert!(store.ledger.job_step().unwrap());
    let stats = store.ledger.stats();
    assert_eq!((stats.sealed_memtables, stats.levels[0].tables), (1, 0));
    assert!(!store.ledger.is_flush_put_off());
    let refused = store.ledger.job_step().unwrap_err();
    assert!(refused.passes() && store.ledger.is_flush_put_off(), "{refused}");
    store.fs.set_faults(Faults::default());
    store.check_all();
}

/// Regression: a merge for which there was room was given up for a flush that lacked some.
#[test]
fn a_flush_without_room_does_not_end_the_merge_around_it() {
    let mut store = Store::create(LedgerOptions {
        level_0_trigger: 2,
        table_size_bytes: 1 << 20,
        ..small_options()
    });
    for _ in 0..2 {
        (0..300).for_each(|number| store.put(&key(number)));
        store.flush();
    }
    seal_large(&mut store);
    let tables_bytes = store.ledger.stats().levels[0].size_bytes;
    let space_bytes = Some(store.fs.used_bytes() + tables_bytes + SPARE_BYTES);
    store.fs.set_faults(Faults { space_bytes, ..Faults::default() });
    assert!(store.ledger.compact_step().unwrap());
    let stats = store.ledger.stats();
    assert_eq!((stats.sealed_memtables, stats.levels[0].tables), (1, 0));
    store.fs.set_faults(Faults::default());
    assert!(store.ledger.job_step().unwrap());
    assert_eq!(store.ledger.stats().sealed_memtables, 0);
    store.check_all();
}

/// commonware#4257: a table must not name a record that is not on the medium.
#[test]
fn no_table_is_named_before_its_records_are_durable() {
    let mut store = Store::create(small_options());
    store.put(&key(1));
    store.books.refuses_sync.store(true, Ordering::Relaxed);
    let refused = store.ledger.flush_now(1).unwrap_err();
    assert!(refused.to_string().contains("the sync was refused"), "{refused}");
    assert_eq!(store.ledger.flushed_sequence(), 0);
    let poisoned = store.ledger.wait_for_memtables().unwrap_err();
    assert!(matches!(&poisoned, Error::Poisoned { cause } if cause.contains("refused")));
    store.check_all();
    assert_eq!(Manifest::read(&store.fs, directory()).unwrap().unwrap().tables, []);
}

fn tables(store: &Store) -> Vec<PathBuf> {
    let folder = directory().join("ledger");
    store.fs.list(&folder).unwrap().iter().map(|name| folder.join(name)).collect()
}

/// A damaged block leads to an error that names the file, never to "not found" or an older version.
#[test]
fn a_damaged_block_is_an_error_not_an_older_version() {
    let mut store = Store::create(LedgerOptions { level_0_trigger: 99, ..small_options() });
    store.put(&key(7));
    store.flush();
    store.put(&key(7));
    store.flush();
    let newest = tables(&store).pop().unwrap();
    let fs = store.fs.clone();
    fs.flip_bits(&newest, 64 + 20, 1).unwrap();
    store.reopen(fs).unwrap();
    let counts = &mut Default::default();
    let refused = store.ledger.get(&key(7), NEWEST, ReadMode::MayBlock, counts).unwrap_err();
    assert!(matches!(&refused, Error::Corruption { path, offset: 64, .. } if *path == newest));
    let refused = store.ledger.compact_all().unwrap_err();
    assert!(matches!(&refused, Error::Corruption { path, .. } if *path == newest), "{refused}");
}

/// A table that is missing or cut, or a damaged manifest, is an error on opening.
#[test]
fn missing_and_damaged_files_are_named_on_open() {
    let mut store = Store::create(small_options());
    (0..50).for_each(|number| store.put(&key(number)));
    store.flush();
    let table = tables(&store).pop().unwrap();
    let fs = store.fs.kill();
    fs.remove(&table).unwrap();
    let refused = store.reopen(fs).unwrap_err();
    assert!(refused.to_string().contains(table.to_str().unwrap()), "{refused}");

    let fs = store.fs.kill();
    fs.create(&table).unwrap().write_all_at(b"short", 0).unwrap();
    let refused = store.reopen(fs).unwrap_err();
    assert!(matches!(&refused, Error::Corruption { path, .. } if *path == table), "{refused}");

    let mut store = Store::create(small_options());
    store.put(&key(1));
    store.flush();
    let manifest = directory().join("manifest");
    for offset in 0..store.fs.read(&manifest).unwrap().len() as u64 {
        let fs = store.fs.kill();
        fs.flip_bits(&manifest, offset, 4).unwrap();
        let refused = Manifest::read(&fs, directory()).unwrap_err();
        assert!(refused.to_string().contains("/store/manifest"), "{refused}");
    }
}

/// The checksum of a manifest covers its version counter, so no two manifests may have the same.
#[test]
fn each_manifest_has_its_own_edition() {
    let mut store = Store::create(small_options());
    let edition = |store: &Store| {
        let manifest = Manifest::read(&store.fs, directory()).unwrap();
        manifest.expect("there is one").edition
    };
    let first = edition(&store);
    for round in 0..3 {
        store.put(&key(round));
        store.flush();
        assert_eq!(edition(&store), first + 1 + u64::from(round));
        store.reopen_as_it_is();
    }
}

/// weaviate#1697, tikv#16256: files that an interrupted job left behind are removed, and their
/// numbers are used again.
#[test]
fn leftovers_are_removed_on_open() {
    let mut store = Store::create(small_options());
    store.put(&key(1));
    store.flush();
    let fs = store.fs.clone();
    let next = Manifest::read(&fs, directory()).unwrap().unwrap().next_file_number;
    let orphan = directory().join("ledger").join(format!("{next:016x}.table"));
    fs.create(&orphan).unwrap().write_all_at(b"half a table", 0).unwrap();
    fs.create(&directory().join("manifest.new")).unwrap();
    store.reopen(fs.clone()).unwrap();
    assert!(!fs.exists(&orphan));
    assert!(!fs.exists(&directory().join("manifest.new")));
    store.put(&key(2));
    store.flush();
    store.check_all();
}
