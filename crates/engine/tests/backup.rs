//! Tests of backups of an open store, and of stores that are restored from them.

use std::cell::{Cell, RefCell};
use std::io;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::*;
use pellucid_engine::{
    CopyOptions, CopyProgress, Engine, EngineOptions, Error, TableId, rebuild_ledger, restore,
    restore_with, salvage, verify,
};
use pellucid_io::simulated::{Faults, SimulatedFileSystem};
use pellucid_io::{CopyingFileSystem, File, FileSystem, LockGuard, SystemFileSystem, pass_on};

const BACKUP: &str = "/backup";

fn fill(engine: &Engine, rounds: u8) -> TableId {
    let table = engine.table("t").unwrap();
    for round in 0..rounds {
        for number in 0..100_u8 {
            put(engine, table, &[b'k', number], &[round; 200]).unwrap();
        }
    }
    table
}

/// Opens a new store, and fills it.
fn filled(rounds: u8) -> (SimulatedFileSystem, Engine, TableId) {
    let (files, engine, table) = open_new(small);
    fill(&engine, rounds);
    (files, engine, table)
}

#[test]
fn a_backup_consists_of_links_and_does_not_change() {
    let (files, engine, table) = filled(3);
    let backup = engine.backup(BACKUP).unwrap();
    assert_eq!(backup.sequence, 301);
    assert_eq!(backup.copied_files, 0);
    assert!(backup.linked_files > 5 && backup.size_bytes > 60_000, "{backup:?}");
    // The store goes on: every file that the backup names is merged or collected.
    fill(&engine, 5);
    settle(&engine);
    engine.collect().unwrap();
    engine.close().unwrap();
    assert_eq!(verify(BACKUP, &files).unwrap().problems, []);
    let restored = restore(BACKUP, "/restored", &files).unwrap();
    assert_eq!(restored, backup);
    let engine = Engine::open("/restored", small(&files)).unwrap();
    assert_eq!(engine.stats().published_sequence, 301);
    for number in 0..100_u8 {
        assert_eq!(get(&engine, table, &[b'k', number]).unwrap(), Some(vec![2; 200]));
    }
    // The restored store and its backup do not share later writes.
    put(&engine, table, b"new", b"1").unwrap();
    drop(engine);
    let engine = Engine::open(BACKUP, small(&files)).unwrap();
    assert_eq!(get(&engine, table, b"new").unwrap(), None);
}

/// A backup that was opened and killed has a segment that is not sealed; a restored store has it,
/// too. Regression: the sequence number that the restoration reported did not count that segment.
#[test]
fn writes_to_an_opened_backup_are_restored() {
    let (files, engine, table) = filled(1);
    engine.backup(BACKUP).unwrap();
    let opened = Engine::open(BACKUP, small(&files)).unwrap();
    put(&opened, table, b"new", b"1").unwrap();
    assert!(matches!(restore(BACKUP, "/x", &files), Err(Error::Locked { .. })));
    drop(opened);
    let sequence = restore(BACKUP, "/restored", &files).unwrap().sequence;
    let restored = Engine::open("/restored", small(&files)).unwrap();
    assert_eq!((sequence, restored.stats().published_sequence), (102, 102));
    put(&restored, table, b"newer", b"2").unwrap();
    let opened = Engine::open(BACKUP, small(&files)).unwrap();
    assert_eq!(get(&opened, table, b"new").unwrap(), Some(b"1".to_vec()));
    assert_eq!(get(&opened, table, b"newer").unwrap(), None);
    assert_eq!(get(&restored, table, b"new").unwrap(), Some(b"1".to_vec()));
}

#[test]
fn a_target_that_is_not_empty_is_refused() {
    let (files, engine, table) = filled(1);
    assert!(matches!(engine.backup(STORE), Err(Error::Occupied { .. })));
    engine.backup(BACKUP).unwrap();
    assert!(matches!(engine.backup(BACKUP), Err(Error::Occupied { .. })));
    assert!(matches!(restore(BACKUP, STORE, &files), Err(Error::Occupied { .. })));
    assert!(restore("/nowhere else", "/r", &files).is_err());
    assert_eq!(get(&engine, table, b"k\0").unwrap(), Some(vec![0; 200]));
}

/// Simulated files that cannot be linked.
fn without_links() -> SimulatedFileSystem {
    let files = SimulatedFileSystem::new();
    files.set_faults(Faults { refuses_links: true, ..Faults::default() });
    files
}

#[test]
fn files_that_cannot_be_linked_are_copied_with_a_speed_limit_and_progress() {
    const BYTES_PER_SECOND: u64 = 1 << 20;
    let files = without_links();
    let engine = open(&files).unwrap();
    let table = fill(&engine, 3);
    let told = RefCell::new(Vec::new());
    let tell = |progress| {
        told.borrow_mut().push(progress);
        ControlFlow::Continue(())
    };
    let options = CopyOptions {
        bytes_per_second_max: NonZeroU64::new(BYTES_PER_SECOND),
        progress: Some(&tell),
    };
    let begun = Instant::now();
    let backup = engine.backup_with(BACKUP, options).unwrap();
    let least = Duration::from_nanos(backup.size_bytes * 1_000_000_000 / BYTES_PER_SECOND);
    assert!(begun.elapsed() >= least, "{backup:?} in {:?}", begun.elapsed());
    assert_eq!(backup.linked_files, 0);
    let check = |told: Vec<CopyProgress>| {
        assert!(told.is_sorted_by_key(|progress| progress.done_bytes), "{told:?}");
        assert!(told.iter().all(|progress| progress.total_bytes == backup.size_bytes), "{told:?}");
        assert_eq!(told.last().unwrap().done_bytes, backup.size_bytes);
        assert!(told.len() as u64 >= backup.copied_files);
    };
    check(told.take());
    assert_eq!(verify(BACKUP, &files).unwrap().problems, []);

    assert_eq!(restore_with(BACKUP, "/restored", &files, options).unwrap(), backup);
    check(told.take());
    let restored = Engine::open("/restored", small(&files)).unwrap();
    assert_eq!(get(&restored, table, b"k\0").unwrap(), Some(vec![2; 200]));
}

#[test]
fn a_stopped_backup_is_not_a_store() {
    let files = without_links();
    let engine = open(&files).unwrap();
    fill(&engine, 3);
    let stop = |CopyProgress { done_bytes, total_bytes }| match done_bytes < total_bytes / 2 {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let options = CopyOptions { progress: Some(&stop), ..CopyOptions::default() };
    assert!(matches!(engine.backup_with(BACKUP, options), Err(Error::Stopped)));
    assert!(!files.exists(Path::new("/backup/manifest")));
}

/// Regression: a page that cannot be read reads as zeros, and was copied as zeros without an error.
#[test]
fn a_backup_with_a_bad_sector_is_not_restored() {
    for folder in ["journal", "ledger"] {
        let files = without_links();
        fill(&open(&files).unwrap(), 3);
        let engine = open(&files).unwrap();
        engine.backup(BACKUP).unwrap();
        let path = Path::new(BACKUP).join(folder);
        let path = path.join(files.list(&path).unwrap().iter().min().unwrap());
        files.fail_reads(&path, 100..101).unwrap();
        let error =
            restore(BACKUP, "/restored", &CopyingFileSystem(&files)).unwrap_err().to_string();
        assert!(error.contains(&*path.to_string_lossy()), "{error}");
        assert!(!files.exists(Path::new("/restored/manifest")));
    }
}

/// Regression: the first files of an interrupted restore were taken for a store without a manifest,
/// and rebuilt into a store that lacked the rest.
#[test]
fn an_interrupted_restore_is_neither_opened_nor_rebuilt() {
    const RESTORED: &str = "/restored";
    let (files, engine, _) = filled(3);
    engine.backup(BACKUP).unwrap();
    let placed = Cell::new(0);
    let stop = |_: CopyProgress| {
        placed.set(placed.get() + 1);
        if placed.get() < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    let options = CopyOptions { progress: Some(&stop), ..CopyOptions::default() };
    let stopped = restore_with(BACKUP, RESTORED, &files, options);
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    for refused in [
        Engine::open(RESTORED, small(&files)).map(drop),
        rebuild_ledger(RESTORED, small(&files)).map(drop),
        verify(RESTORED, &files).map(drop),
    ] {
        assert!(matches!(refused, Err(Error::Incomplete { .. })), "{refused:?}");
    }
    let lost = salvage(RESTORED, "/salvaged", small(&files)).unwrap().lost;
    assert!(lost[0].what.contains("did not finish"), "{lost:?}");
}

/// Regression: the mark of an interrupted copy stayed in a store that had its manifest. Once the
/// manifest was lost, the store counted as incomplete, and was not rebuilt.
#[test]
fn the_mark_of_an_interrupted_copy_ends_with_the_first_opening() {
    let (files, engine, table) = filled(1);
    engine.backup(BACKUP).unwrap();
    // As a kill right after the manifest was written leaves it.
    let mark = Path::new(BACKUP).join("incomplete");
    assert!(!files.exists(&mark));
    files.create(&mark).unwrap();
    Engine::open(BACKUP, small(&files)).unwrap().close().unwrap();
    files.remove(&Path::new(BACKUP).join("manifest")).unwrap();
    rebuild_ledger(BACKUP, small(&files)).unwrap();
    let copy = Engine::open(BACKUP, small(&files)).unwrap();
    assert_eq!(get(&copy, table, b"k\0").unwrap(), Some(vec![0; 200]));
}

/// Files with a backup that can only be read, and that has no lock file.
struct ReadOnlyBackup(SimulatedFileSystem);

fn refuse_backup(path: &Path) -> io::Result<()> {
    match path.starts_with(BACKUP) {
        true => Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)),
        false => Ok(()),
    }
}

impl FileSystem for ReadOnlyBackup {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn File>> {
        refuse_backup(path)?;
        self.0.create(path)
    }

    fn open(&self, path: &Path, writable: bool) -> io::Result<Arc<dyn File>> {
        if writable {
            refuse_backup(path)?;
        }
        self.0.open(path, writable)
    }

    fn lock(&self, path: &Path) -> io::Result<LockGuard> {
        refuse_backup(path)?;
        self.0.lock(path)
    }

    pass_on! { 0:
        fn rename(from: &Path, to: &Path) -> io::Result<()>;
        fn remove(path: &Path) -> io::Result<()>;
        fn list(directory: &Path) -> io::Result<Vec<String>>;
        fn create_directory(directory: &Path) -> io::Result<()>;
        fn sync_directory(directory: &Path) -> io::Result<()>;
        fn exists(path: &Path) -> bool;
        fn hard_link(from: &Path, to: &Path) -> io::Result<()>;
        fn free_bytes(directory: &Path) -> io::Result<u64>;
        fn mount_identity(directory: &Path) -> [u8; 16];
    }
}

/// Regression: what was mounted read-only could not be locked, and so neither be verified, restored
/// nor salvaged.
#[test]
fn a_backup_that_can_only_be_read_is_verified_restored_and_salvaged() {
    let (files, engine, table) = filled(1);
    engine.backup(BACKUP).unwrap();
    let read_only = ReadOnlyBackup(files.clone());
    assert_eq!(verify(BACKUP, &read_only).unwrap().problems, []);
    restore(BACKUP, "/restored", &read_only).unwrap();
    let options = EngineOptions { file_system: Arc::new(read_only), ..small(&files) };
    salvage(BACKUP, "/salvaged", options).unwrap();
    for copy in ["/restored", "/salvaged"] {
        let copy = Engine::open(copy, small(&files)).unwrap();
        assert_eq!(get(&copy, table, b"k\0").unwrap(), Some(vec![0; 200]));
    }
}

/// If any call fails, there is no incomplete backup that looks like a store, and the store goes on.
#[test]
fn a_backup_is_complete_or_not_a_store() {
    let mut copies = 0;
    for number in 1..500 {
        let (files, engine, table) = filled(1);
        engine.flush().unwrap();
        let calls = files.calls();
        files.set_faults(Faults { fail_call: Some(number), ..Faults::default() });
        let outcome = engine.backup(BACKUP);
        let is_untouched = files.calls() - calls < number;
        files.set_faults(Faults::default());
        assert_eq!(get(&engine, table, b"k\0").unwrap(), Some(vec![0; 200]));
        let crashed = files.crash(number);
        if let Ok(backup) = outcome {
            copies += u32::from(backup.copied_files > 0);
            let copy = Engine::open(BACKUP, small(&crashed)).unwrap();
            assert_eq!(get(&copy, table, b"k\0").unwrap(), Some(vec![0; 200]));
            assert_eq!(copy.stats().published_sequence, backup.sequence);
        } else if crashed.exists(&Path::new(BACKUP).join("manifest")) {
            // The very last call failed: the manifest may be there, and then so is everything else.
            assert_eq!(verify(BACKUP, &crashed).unwrap().problems, []);
        } else {
            assert!(rebuild_ledger(BACKUP, small(&crashed)).is_err(), "call {number}");
        }
        if is_untouched {
            assert!(copies > 3, "a failed link leads to a copy");
            return;
        }
    }
    panic!("a backup makes more calls than that");
}

#[test]
fn a_backup_is_made_during_writes_merges_and_collections() {
    let folder = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        segment_size_bytes: 64 << 10,
        memory_bytes: 64 << 10,
        file_system: Arc::new(SystemFileSystem),
        ..EngineOptions::default()
    };
    let engine = Engine::open(folder.path().join("store"), options.clone()).unwrap();
    let table = engine.table("t").unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = EndOnDrop(&is_done);
        scope.spawn(|| {
            let mut round = 0_u64;
            while !is_done.load(Ordering::Relaxed) {
                for key in 0..200_u64 {
                    put(&engine, table, &key.to_le_bytes(), &round.to_le_bytes()).unwrap();
                }
                round += 1;
                if round.is_multiple_of(20) {
                    engine.collect().unwrap();
                }
            }
        });
        for number in 0..5 {
            let target = folder.path().join(format!("backup {number}"));
            let backup = engine.backup(&target).unwrap();
            assert_eq!(verify(&target, &SystemFileSystem).unwrap().problems, []);
            let copy = Engine::open(&target, options.clone()).unwrap();
            assert_eq!(copy.stats().published_sequence, backup.sequence);
            // Writes went key by key, so no key may be a round ahead of one before it.
            let mut last = u64::MAX;
            for key in 0..200_u64 {
                let Some(value) = get(&copy, table, &key.to_le_bytes()).unwrap() else { break };
                let round = u64::from_le_bytes(value.try_into().unwrap());
                assert!(round <= last);
                last = round;
            }
            copy.close().unwrap();
        }
    });
    engine.close().unwrap();
}
