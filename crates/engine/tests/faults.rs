//! Single failing calls to the file system, each with its expected consequence.

use std::sync::mpsc;

use crate::common::*;
use pellucid_engine::{EngineOptions, Error};
use pellucid_io::simulated::Faults;

#[test]
fn a_failed_sync_is_final_for_writes_and_does_not_affect_reads() {
    let (files, engine, table) = open_new(small);
    put_durable(&engine, table, b"safe", b"1").unwrap();
    let sequence = put(&engine, table, b"unsafe", b"2").unwrap();
    files.set_faults(Faults { fail_next_sync: true, ..Faults::default() });
    assert!(matches!(engine.wait_durable(sequence), Err(Error::Poisoned { .. })));
    // A later sync would succeed without making anything durable, so it is not attempted.
    let syncs = files.syncs();
    assert!(matches!(engine.wait_durable(sequence), Err(Error::Poisoned { .. })));
    assert!(matches!(put(&engine, table, b"k", b"v"), Err(Error::Poisoned { .. })));
    assert!(matches!(engine.flush(), Err(Error::Poisoned { .. })));
    assert_eq!(files.syncs(), syncs);
    assert_eq!(get(&engine, table, b"unsafe").unwrap(), Some(b"2".to_vec()));
    let (sender, receiver) = mpsc::channel();
    engine.when_durable(sequence, Box::new(move |outcome| sender.send(outcome).unwrap()));
    assert!(matches!(receiver.recv().unwrap(), Err(Error::Poisoned { .. })));
    let engine = open(&files.crash(1)).unwrap();
    assert_eq!(get(&engine, table, b"safe").unwrap(), Some(b"1".to_vec()));
}

/// Regression: after a failed sync, the next process found the records in the page cache and
/// reported them as durable, although they had never reached the medium. The first power loss
/// destroyed the store.
#[test]
fn opening_after_a_failed_sync_rewrites_what_it_reports_as_durable() {
    for (seed, length) in [(0, 100), (1, 6_000), (2, 20_000), (3, 6_000), (4, 20_000)] {
        let (files, engine, table) =
            open_new(|files| EngineOptions { segment_size_bytes: 64 << 10, ..small(files) });
        put(&engine, table, b"a", &vec![1; length]).unwrap();
        let sequence = put(&engine, table, b"b", &vec![2; length]).unwrap();
        files.set_faults(Faults { fail_next_sync: true, ..Faults::default() });
        assert!(matches!(engine.wait_durable(sequence), Err(Error::Poisoned { .. })));
        let killed = files.kill();
        let engine = open(&killed).unwrap();
        assert_eq!(get(&engine, table, b"a").unwrap(), Some(vec![1; length]));
        put_durable(&engine, table, b"c", &vec![3; length]).unwrap();
        let engine = open(&killed.crash(seed)).expect("all that was vouched for is there");
        for (key, byte) in [(b"a", 1), (b"b", 2), (b"c", 3)] {
            let found = get(&engine, table, key).unwrap();
            assert!(found == Some(vec![byte; length]), "{length}: {byte} is lost");
        }
    }
}

/// Regression: the same happened after the sync of a segment's footer failed.
#[test]
fn opening_after_a_failed_seal_rewrites_what_it_reports_as_durable() {
    // There are three syncs: of the next segment, of the records and of the footer.
    for failing in 0..12 {
        let (files, engine, table) = open_new(small);
        let mut acknowledged = Vec::new();
        for index in 0..30_u8 {
            if index == 2 {
                let spared_syncs = failing;
                let faults = Faults { fail_next_sync: true, spared_syncs, ..Faults::default() };
                files.set_faults(faults);
            }
            match put(&engine, table, &[index], &[index; 3_000]) {
                Ok(_) => acknowledged.push(index),
                Err(error) => assert!(!matches!(error, Error::Corruption { .. }), "{error}"),
            }
        }
        let killed = files.kill();
        let engine = open(&killed).unwrap();
        put_durable(&engine, table, b"later", b"1").unwrap();
        engine.flush().unwrap();
        let engine = open(&killed.crash(failing)).unwrap();
        for index in acknowledged {
            let found = get(&engine, table, &[index]).unwrap();
            assert!(found == Some(vec![index; 3_000]), "{failing}: {index} is lost");
        }
        assert_eq!(get(&engine, table, b"later").unwrap(), Some(b"1".to_vec()));
    }
}

#[test]
fn a_full_disk_refuses_a_write_and_accepts_it_once_there_is_space() {
    let (files, engine, table) = open_new(small);
    put(&engine, table, b"before", b"1").unwrap();
    files.set_faults(Faults { space_bytes: Some(files.used_bytes() + 100), ..Faults::default() });
    let mut written = 0_u64;
    let error = loop {
        match put(&engine, table, format!("k{written}").as_bytes(), &[7; 500]) {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(is_full(&error), "{error}");
    let last = engine.stats().published_sequence;
    assert!(put(&engine, table, b"x", &[7; 5_000]).is_err_and(|error| is_full(&error)));
    assert_eq!(engine.stats().published_sequence, last, "nothing was written");
    assert_eq!(get(&engine, table, b"before").unwrap(), Some(b"1".to_vec()));
    assert_eq!(get(&engine, table, b"x").unwrap(), None);
    assert!(engine.head(table, format!("k{}", written - 1).as_bytes()).unwrap().is_some());
    // The store opens on the full disk, and accepts writes again once there is space.
    let killed = files.kill();
    killed.set_faults(Faults { space_bytes: Some(killed.used_bytes()), ..Faults::default() });
    let reopened = open(&killed).unwrap();
    assert_eq!(get(&reopened, table, b"before").unwrap(), Some(b"1".to_vec()));
    killed.set_faults(Faults::default());
    put(&reopened, table, b"x", b"2").unwrap();
    files.set_faults(Faults::default());
    put(&engine, table, b"x", &[7; 5_000]).unwrap();
    engine.flush().unwrap();
    engine.close().unwrap();
}

#[test]
fn one_sync_serves_all_waiting_threads() {
    let (_files, engine, table) =
        open_new(|files| EngineOptions { background: true, ..small(files) });
    put_durable(&engine, table, b"first", b"").unwrap();
    let before = engine.stats().syncs;
    let mut last = 0;
    for index in 0..50_u32 {
        last = put(&engine, table, &index.to_le_bytes(), b"v").unwrap();
    }
    let (sender, receiver) = mpsc::channel();
    for sequence in (last - 49..=last).rev() {
        let sender = sender.clone();
        engine.when_durable(sequence, Box::new(move |outcome| sender.send(outcome).unwrap()));
    }
    for _ in 0..50 {
        let times = receiver.recv().unwrap().unwrap();
        assert!(times.begun <= times.ended);
    }
    assert_eq!(engine.stats().syncs, before + 1);
    assert_eq!(engine.stats().durable_sequence, last);
    engine.close().unwrap();
    assert!(matches!(put(&engine, table, b"closed", b""), Err(Error::Closed)));
}
