//! Failures that other engines had, each with a test that it cannot happen here. The numbers are
//! those of docs/known-failures.md.

use std::path::Path;

use crate::common::*;
use pellucid_engine::{Engine, EngineOptions, Error, Operation};
use pellucid_io::FileSystem;
use pellucid_io::simulated::{Faults, SimulatedFileSystem};

/// 1: a torn record at the end made the whole log unreadable, or hid records appended behind it.
#[test]
fn records_appended_after_a_torn_tail_are_found_again() {
    for seed in 0..60 {
        let (files, engine, table) = open_new(small);
        put_durable(&engine, table, b"safe", b"1").unwrap();
        put(&engine, table, b"torn", &[7; 3_000]).unwrap();
        let files = files.crash(seed);
        let engine = open(&files).unwrap();
        put_durable(&engine, table, b"later", b"2").unwrap();
        let engine = open(&files.crash(seed + 1)).unwrap();
        assert_eq!(get(&engine, table, b"safe").unwrap(), Some(b"1".to_vec()));
        assert_eq!(get(&engine, table, b"later").unwrap(), Some(b"2".to_vec()));
    }
}

/// 2: zeros of preallocated space were read as records, or taken for corruption.
#[test]
fn preallocated_zeros_are_the_end_of_the_journal() {
    let (files, engine, table) = open_new(small);
    put(&engine, table, b"k", b"v").unwrap();
    let journal = &paths(&files, "journal")[0];
    assert_eq!(files.read(journal).unwrap().len(), 8 << 10);
    let engine = open(&files.kill()).unwrap();
    assert_eq!(engine.stats().published_sequence, 2);
}

/// 3: a record from the previous use of a reused log file looked valid.
#[test]
fn a_dropped_record_never_stands_behind_a_new_one() {
    for seed in 0..200 {
        let (files, engine, table) = open_new(small);
        put_durable(&engine, table, b"safe", b"1").unwrap();
        fill(&engine, table, 0..8, &[1; 400]);
        let files = files.crash(seed);
        let engine = open(&files).unwrap();
        let survivors = engine.stats().published_sequence;
        put_durable(&engine, table, b"new", b"2").unwrap();
        let engine = open(&files.crash(seed)).unwrap();
        assert_eq!(engine.stats().published_sequence, survivors + 1);
        for number in 0..8 {
            let is_there = get(&engine, table, &key(number)).unwrap().is_some();
            assert_eq!(is_there, number + 3 <= survivors);
        }
    }
}

/// 5: a newer log file was synced before an older one, so that a crash left a hole. In this test,
/// the sync of several segments fails for good at each of its calls in turn, followed by a power
/// loss.
#[test]
fn a_sync_covers_the_older_segments_first() {
    for failing in 1..1_000 {
        let (files, engine, table) = open_new(small);
        let first = engine.stats().published_sequence + 1;
        let written = (0..40).map(|number| put(&engine, table, &key(number), &[7; 700]).unwrap());
        let last = written.max().unwrap();
        let faults = Faults { fail_call: Some(failing), keep_failing: true, ..Faults::default() };
        files.set_faults(faults);
        let is_synced = engine.wait_durable(last).is_ok();
        for seed in 0..8 {
            let engine = open(&files.crash(seed)).unwrap();
            let kept = engine.stats().published_sequence;
            assert!(!is_synced || kept == last, "{kept} of {last}");
            for number in 0..40 {
                let is_there = get(&engine, table, &key(number)).unwrap().is_some();
                assert_eq!(is_there, first + number <= kept, "call {failing}, seed {seed}");
            }
        }
        if is_synced {
            return;
        }
    }
    panic!("the sync never came to its end");
}

/// 7: the result of the sync within a flush was ignored.
#[test]
fn a_flush_whose_sync_fails_fails() {
    let (files, engine, table) = open_new(small);
    put(&engine, table, b"k", b"v").unwrap();
    files.set_faults(Faults { fail_next_sync: true, ..Faults::default() });
    assert!(engine.flush().is_err());
    assert!(matches!(put(&engine, table, b"k", b"v"), Err(Error::Poisoned { .. })));
    open(&files.crash(3)).unwrap();
}

/// 8: after a failed write to the log, later writes went behind the hole and were lost with it.
#[test]
fn a_refused_write_leaves_no_hole() {
    let (files, engine, table) = open_new(small);
    put(&engine, table, b"a", b"1").unwrap();
    // The first call asks for the free space, and its failure is tolerated.
    files.set_faults(Faults { fail_call: Some(2), ..Faults::default() });
    assert!(put(&engine, table, b"b", &[2; 9_000]).is_err());
    let sequence = put(&engine, table, b"c", &[3; 9_000]).unwrap();
    let engine = open(&files.kill()).unwrap();
    assert_eq!(engine.stats().published_sequence, sequence);
    assert_eq!(get(&engine, table, b"b").unwrap(), None);
    assert_eq!(get(&engine, table, b"c").unwrap(), Some(vec![3; 9_000]));
}

/// 9, 10, 11: a table or manifest was referred to before its data or its name was on the medium.
#[test]
fn a_loss_of_power_right_after_a_flush_finds_whole_files() {
    for seed in 0..100 {
        let (files, engine, table) = open_new(small);
        fill(&engine, table, 0..30, b"v");
        settle(&engine);
        let engine = open(&files.crash(seed)).unwrap();
        assert_eq!(rows(&engine, table).len(), 30);
    }
}

/// 12: the new manifest was not written, but the old one was already removed.
#[test]
fn a_failed_write_of_the_manifest_changes_nothing() {
    for call in 1..40 {
        let (files, engine, table) = open_new(small);
        for round in 0..3 {
            put(&engine, table, &key(round), b"v").unwrap();
            engine.flush().unwrap();
        }
        files.set_faults(Faults { fail_call: Some(call), keep_failing: true, ..Faults::default() });
        let _ = engine.compact();
        for files in [files.kill(), files.crash(call)] {
            let engine = open(&files).unwrap();
            for round in 0..3 {
                assert!(get(&engine, table, &key(round)).unwrap().is_some());
            }
        }
    }
}

/// 13: a full disk left an empty manifest, and the store never opened again.
#[test]
fn a_full_disk_during_a_flush_leaves_the_old_manifest() {
    for room in (0..3_000).step_by(100) {
        let (files, engine, table) = open_new(small);
        put(&engine, table, b"k", &[7; 2_000]).unwrap();
        let used = files.used_bytes();
        files.set_faults(Faults { space_bytes: Some(used + room), ..Faults::default() });
        let _ = engine.flush();
        drop(engine);
        let engine = open(&files.crash(room)).unwrap();
        if engine.stats().published_sequence == 2 {
            assert_eq!(get(&engine, table, b"k").unwrap(), Some(vec![7; 2_000]));
        }
    }
}

/// 14: a full disk during a flush made the store read-only until it was restarted.
#[test]
fn a_flush_works_again_once_there_is_space() {
    let (files, engine, table) = open_new(small);
    put(&engine, table, b"k", b"v").unwrap();
    files.set_faults(Faults { space_bytes: Some(files.used_bytes()), ..Faults::default() });
    let outcome = engine.flush();
    assert!(outcome.as_ref().is_err_and(is_full), "{outcome:?}");
    files.set_faults(Faults::default());
    engine.flush().unwrap();
    assert_eq!(engine.stats().flushed_sequence, 2);
    put(&engine, table, b"k", b"v").unwrap();
}

/// 15: files left behind by an interrupted job stopped later jobs, or stayed forever.
#[test]
fn orphans_are_removed_on_open() {
    let (files, engine, table) = open_new(small);
    put(&engine, table, b"k", b"v").unwrap();
    engine.close().unwrap();
    let orphans = [
        "journal/00000000000000aa.journal.new",
        "journal/x.new",
        "ledger/00000000000000aa.table",
        "ledger/00000000000000ab.table.new",
        "manifest.new",
    ];
    for orphan in orphans {
        files.create(&Path::new(STORE).join(orphan)).unwrap();
    }
    let engine = open(&files).unwrap();
    for orphan in orphans {
        assert!(!files.exists(&Path::new(STORE).join(orphan)), "{orphan}");
    }
    put(&engine, table, b"k2", b"v").unwrap();
    settle(&engine);
    assert_eq!(get(&engine, table, b"k").unwrap(), Some(b"v".to_vec()));
}

/// 20: the index was durable before the value that it refers to.
#[test]
fn no_table_names_a_value_that_is_not_on_the_medium() {
    for seed in 0..30 {
        let (files, engine, table) = open_new(small);
        // The memtables are 16 KiB: some of these writes flush one without requesting a sync.
        fill(&engine, table, 0..1_500, &[seed as u8; 60]);
        assert!(engine.stats().flushed_sequence > 0);
        let engine = open(&files.crash(seed)).unwrap();
        assert!(engine.stats().published_sequence >= engine.stats().flushed_sequence);
        assert_eq!(rows(&engine, table).len() as u64 + 1, engine.stats().published_sequence);
    }
}

/// 27: only the newest log file was replayed.
#[test]
fn all_segments_are_replayed() {
    let (files, engine, table) =
        open_new(|files| EngineOptions { memory_bytes: 64 << 20, ..small(files) });
    fill(&engine, table, 0..100, &[7; 500]);
    assert!(paths(&files, "journal").len() > 4);
    assert_eq!(engine.stats().flushed_sequence, 0);
    let engine = open(&files.kill()).unwrap();
    for number in 0..100 {
        assert_eq!(get(&engine, table, &key(number)).unwrap(), Some(vec![7; 500]));
    }
}

/// 28: sequence numbers restarted after recovery, and old writes shadowed new ones.
#[test]
fn sequence_numbers_continue_after_every_kind_of_opening() {
    let (mut files, mut engine, table) = open_new(small);
    for round in 0..12 {
        let last = put_durable(&engine, table, b"k", &[round]).unwrap();
        assert_eq!(last, u64::from(round) + 2);
        match round % 4 {
            0 => engine.close().unwrap(),
            1 => engine.flush().unwrap(),
            _ => {}
        }
        let next = if round % 2 == 0 { files.kill() } else { files.crash(u64::from(round)) };
        drop(engine);
        files = next;
        engine = open(&files).unwrap();
        assert_eq!(get(&engine, table, b"k").unwrap(), Some(vec![round]));
    }
}

/// 29: a lookup returned an older version, because the tables of level 0 were in the wrong order.
#[test]
fn the_newest_version_wins_wherever_it_is() {
    let (files, engine, table) = open_new(small);
    for round in 0..20_u8 {
        put(&engine, table, b"k", &[round]).unwrap();
        put(&engine, table, &[b'x', round], b"").unwrap();
        if round % 3 != 2 {
            engine.flush().unwrap();
        }
        assert_eq!(get(&engine, table, b"k").unwrap(), Some(vec![round]));
    }
    let engine = open(&files.kill()).unwrap();
    assert_eq!(get(&engine, table, b"k").unwrap(), Some(vec![19]));
}

/// 34: keys expired at once, or never, when the clock was changed; or the process crashed.
#[test]
fn expiry_follows_clock_changes_and_reads_remove_nothing() {
    let now_ms = 1_700_000_000_000;
    let clock = pellucid_clock::SimulatedClock::leaked(now_ms);
    let (_files, engine, table) = open_new(|files| EngineOptions {
        clock: pellucid_clock::Clock::simulated(clock),
        ..small(files)
    });
    let put = Operation::put(table, b"k", b"v").with_expiry(now_ms + 1_000);
    engine.write(&[put], pellucid_engine::Acknowledgement::Os).unwrap();
    assert!(get(&engine, table, b"k").unwrap().is_some());
    clock.set_wall_ms(now_ms - 3_600_000);
    assert!(get(&engine, table, b"k").unwrap().is_some());
    clock.set_wall_ms(now_ms + 1_000);
    assert!(get(&engine, table, b"k").unwrap().is_none());
    assert!(engine.head(table, b"k").unwrap().is_none());
    assert!(rows(&engine, table).is_empty());
    assert!(scan_all(&engine, table).next_head().unwrap().is_none());
}

/// 34, after a restart: the process died and the clock was set back before the next start. The
/// replayed records say what time it had been.
#[test]
fn expired_entries_stay_expired_in_the_next_process_whatever_its_clock_says() {
    let (now_ms, later_ms) = (1_700_000_000_000, 1_700_000_002_000);
    let clock = pellucid_clock::SimulatedClock::leaked(now_ms);
    let options = |files: &SimulatedFileSystem| EngineOptions {
        clock: pellucid_clock::Clock::simulated(clock),
        ..small(files)
    };
    let (files, engine, table) = open_new(options);
    let expiring = Operation::put(table, b"k", b"v").with_expiry(now_ms + 1_000);
    engine.write(&[expiring], pellucid_engine::Acknowledgement::Os).unwrap();
    clock.set_wall_ms(later_ms);
    put(&engine, table, b"later", b"v").unwrap();
    assert!(get(&engine, table, b"k").unwrap().is_none());
    clock.set_wall_ms(now_ms);
    let engine = Engine::open(STORE, options(&files.kill())).unwrap();
    assert!(engine.now_ms() >= later_ms, "{}", engine.now_ms());
    assert!(get(&engine, table, b"k").unwrap().is_none());
    assert!(get(&engine, table, b"later").unwrap().is_some());
}

/// 39: after a failed commit, memory and log differed.
#[test]
fn memory_and_journal_agree_after_a_refused_batch() {
    let (files, engine, table) = open_new(small);
    put(&engine, table, b"k", b"old").unwrap();
    files.set_faults(Faults { space_bytes: Some(files.used_bytes()), ..Faults::default() });
    let values = [[1; 9_000], [2; 9_000]];
    let puts = values.each_ref().map(|value| Operation::put(table, b"k", value));
    assert!(engine.write(&puts, pellucid_engine::Acknowledgement::Os).is_err());
    assert_eq!(get(&engine, table, b"k").unwrap(), Some(b"old".to_vec()));
    let engine = open(&files.kill()).unwrap();
    assert_eq!(get(&engine, table, b"k").unwrap(), Some(b"old".to_vec()));
}

/// A power loss interrupts recovery itself, at any call.
#[test]
fn an_interrupted_recovery_can_be_repeated() {
    for seed in 0..20 {
        let (files, engine, table) = open_new(small);
        put_durable(&engine, table, b"safe", b"1").unwrap();
        fill(&engine, table, 0..30, &[7; 600]);
        let files = files.crash(seed);
        let begun = files.calls();
        let survivors = open(&files.kill()).unwrap().stats().published_sequence;
        for call in 1..80 {
            let files = files.crash(seed);
            let fault = Faults { fail_call: Some(call), keep_failing: true, ..Faults::default() };
            files.set_faults(fault);
            let is_done = open(&files).is_ok();
            let engine = open(&files.crash(call)).unwrap();
            assert_eq!(engine.stats().published_sequence, survivors);
            assert_eq!(get(&engine, table, b"safe").unwrap(), Some(b"1".to_vec()));
            if is_done {
                break;
            }
            assert!(call < 79, "recovery makes more calls than the loop, after {begun}");
        }
    }
}

/// A power loss interrupts recovery after the death of a process: the records that recovery was
/// about to seal were not on the medium yet.
#[test]
fn an_interrupted_recovery_reports_nothing_unsynced_as_durable() {
    for seed in 0..20 {
        let (files, engine, table) = open_new(small);
        put_durable(&engine, table, b"safe", b"1").unwrap();
        fill(&engine, table, 0..6, &[7; 600]);
        for call in 1..80 {
            let files = files.kill();
            let fault = Faults { fail_call: Some(call), keep_failing: true, ..Faults::default() };
            files.set_faults(fault);
            let is_done = open(&files).is_ok();
            let engine = open(&files.crash(seed * 100 + call)).unwrap();
            assert_eq!(get(&engine, table, b"safe").unwrap(), Some(b"1".to_vec()));
            if is_done {
                assert_eq!(engine.stats().published_sequence, 8);
                break;
            }
            assert!(call < 79, "recovery makes more calls than the loop");
        }
    }
}
