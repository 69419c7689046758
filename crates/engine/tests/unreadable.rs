//! Files that another process truncates while the store is open, so that their pages cannot be read
//! any more.
//!
//! Regression: every access to such a page terminated the process. Each test runs in a child
//! process that may be terminated.

use std::ops::Bound;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pellucid_engine::{
    Acknowledgement, Direction, Engine, EngineOptions, Error, Operation, TableId,
};

const CHILD: &str = "PELLUCID_ENGINE_UNREADABLE_CHILD";
const KEYS: u32 = 3_000;
const PAGE_BYTES: u64 = 4_096;

/// Runs the test named `name` in a child process; returns true in that process.
fn is_child(name: &str) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let (_, module) = module_path!().split_once("::").unwrap();
    let path = format!("{module}::{name}");
    let output = child.args([&path, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{told}", output.status);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("1 passed"), "{path}: {printed}");
    false
}

fn options() -> EngineOptions {
    EngineOptions {
        segment_size_bytes: 128 << 10,
        memory_bytes: 8 << 20,
        background: false,
        identity_seed: Some(1),
        ..EngineOptions::default()
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key-{number:06}").into_bytes()
}

/// Returns a value whose length depends on the number, so that records are at irregular offsets.
fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 100 + (number * 7_919 % 251) as usize]
}

fn put(engine: &Engine, table: TableId, number: u32) -> Result<(), Error> {
    let acknowledgement = Acknowledgement::Os;
    let (key, value) = (key(number), value(number));
    engine
        .write(&[Operation::put(table, &key, &value).with_head(b"a head")], acknowledgement)
        .map(|_| ())
}

/// Returns a store with two tables of objects: the objects in `other` are in other files than the
/// objects in `t`.
fn filled(folder: &Path) -> (Engine, [TableId; 2]) {
    let engine = Engine::open(folder, options()).unwrap();
    let tables = ["t", "other"].map(|name| engine.table(name).unwrap());
    for table in tables {
        (0..KEYS).for_each(|number| put(&engine, table, number).unwrap());
        engine.flush().unwrap();
    }
    (engine, tables)
}

fn files(folder: &Path, kind: &str) -> Vec<PathBuf> {
    let of = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let mut files: Vec<PathBuf> =
        ["journal", "ledger"].into_iter().flat_map(|name| of(folder.join(name))).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == kind));
    files.sort();
    files
}

/// Truncates the file at a page boundary in its middle, and returns the new length.
fn cut(path: &Path) -> u64 {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len() / 2 / PAGE_BYTES * PAGE_BYTES;
    file.set_len(length).unwrap();
    length
}

/// Looks up every key; returns the number of keys that were found, and the number that ended in an
/// error with an offset behind the cut of `path`.
fn ask_for_all(
    engine: &Engine,
    table: TableId,
    (path, length): (&Path, u64),
    with_values: bool,
) -> (u32, u32) {
    let (mut there, mut refused) = (0, 0);
    for number in 0..KEYS {
        let found = match with_values {
            true => engine.get(table, &key(number)).map(|object| {
                object.map(|object| assert_eq!(object.value, value(number)[..], "{number}"))
            }),
            false => engine
                .head(table, &key(number))
                .map(|head| head.map(|head| assert_eq!(*head.metadata, *b"a head", "{number}"))),
        };
        match found {
            Ok(Some(())) => there += 1,
            Ok(None) => panic!("key {number} is taken for absent"),
            Err(Error::Corruption { path: named, offset, .. }) => {
                assert_eq!(named, path);
                assert!(offset + PAGE_BYTES >= length, "{offset} is before {length}");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    (there, refused)
}

fn scan(engine: &Engine, table: TableId) -> Result<u32, Error> {
    let mut scan = engine.scan(table, Bound::Unbounded, Bound::Unbounded, Direction::Forward)?;
    let mut found = 0;
    while scan.next()?.is_some() {
        found += 1;
    }
    Ok(found)
}

#[test]
fn a_truncated_table_loses_only_its_own_keys() {
    if !is_child("a_truncated_table_loses_only_its_own_keys") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (engine, [table, other]) = filled(folder.path());
    let path = &files(folder.path(), "table")[0];
    // Blocks are verified on first use only.
    assert_eq!(scan(&engine, table).unwrap(), KEYS);
    let length = cut(path);
    let (there, refused) = ask_for_all(&engine, table, (path, length), false);
    assert!(there > KEYS / 4 && refused > KEYS / 4, "{there} and {refused}");
    let error = scan(&engine, table).unwrap_err();
    assert!(matches!(&error, Error::Corruption { path: named, .. } if named == path), "{error}");
    assert!(error.to_string().contains("cannot be read"), "{error}");
    assert_eq!(scan(&engine, other).unwrap(), KEYS);
    assert_eq!(ask_for_all(&engine, other, (path, length), true), (KEYS, 0));
}

#[test]
fn a_table_without_its_filter_reports_no_key_as_absent() {
    if !is_child("a_table_without_its_filter_reports_no_key_as_absent") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path()));
    // After this opening, the table has no directory in memory, and lookups need the end of the
    // file.
    let engine = Engine::open(folder.path(), options()).unwrap();
    let [table, other] = ["t", "other"].map(|name| engine.table(name).unwrap());
    let path = &files(folder.path(), "table")[0];
    let length = cut(path);
    assert_eq!(ask_for_all(&engine, table, (path, length), false), (0, KEYS));
    assert_eq!(ask_for_all(&engine, other, (path, length), true), (KEYS, 0));
}

#[test]
fn a_merge_of_a_truncated_table_loses_nothing() {
    if !is_child("a_merge_of_a_truncated_table_loses_nothing") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (engine, [table, other]) = filled(folder.path());
    (0..KEYS).for_each(|number| put(&engine, table, number).unwrap());
    engine.flush().unwrap();
    assert_eq!(scan(&engine, table).unwrap(), KEYS);
    let path = &files(folder.path(), "table")[0];
    let bytes = std::fs::read(path).unwrap();
    cut(path);
    let error = engine.compact().unwrap_err();
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    drop(engine);
    std::fs::write(path, bytes).unwrap();
    let engine = Engine::open(folder.path(), options()).unwrap();
    assert_eq!(scan(&engine, table).unwrap(), KEYS);
    assert_eq!(scan(&engine, other).unwrap(), KEYS);
}

#[test]
fn a_truncated_segment_loses_only_its_own_values() {
    if !is_child("a_truncated_segment_loses_only_its_own_values") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (engine, [table, other]) = filled(folder.path());
    let path = &files(folder.path(), "journal")[1];
    let length = cut(path);
    let (there, refused) = ask_for_all(&engine, table, (path, length), true);
    assert!(there > KEYS / 2 && refused > 50, "{there} and {refused}");
    assert_eq!(ask_for_all(&engine, table, (path, length), false), (KEYS, 0));
    assert_eq!(ask_for_all(&engine, other, (path, length), true), (KEYS, 0));
    let error = scan(&engine, table).unwrap_err();
    assert!(matches!(&error, Error::Corruption { path: named, .. } if named == path), "{error}");
    // A collection that cannot read the records that it has to copy changes nothing.
    (0..KEYS)
        .filter(|number| number % 3 > 0)
        .for_each(|number| put(&engine, table, number).unwrap());
    engine.flush().unwrap();
    engine.compact().unwrap();
    let _ = engine.collect();
    assert_eq!(ask_for_all(&engine, table, (path, length), false), (KEYS, 0));
}

#[test]
fn a_write_to_a_truncated_segment_is_not_acknowledged() {
    if !is_child("a_write_to_a_truncated_segment_is_not_acknowledged") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (engine, [table, other]) = filled(folder.path());
    let growing = files(folder.path(), "journal").pop().unwrap();
    // This record is behind all of `t`, whose records are in earlier segments.
    put(&engine, other, KEYS).unwrap();
    std::fs::OpenOptions::new().write(true).open(&growing).unwrap().set_len(PAGE_BYTES).unwrap();
    let mut acknowledged = 0;
    let error = loop {
        match put(&engine, other, KEYS + 1 + acknowledged) {
            // The rest of the page that the last write began still belongs to the file.
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 100, "writes go nowhere");
    };
    let told = error.to_string();
    assert!(matches!(error, Error::Poisoned { .. }), "{told}");
    assert!(told.contains(growing.file_name().unwrap().to_str().unwrap()), "{told}");
    assert!(matches!(put(&engine, other, 1), Err(Error::Poisoned { .. })), "nor is any other");
    let refused = key(KEYS + 1 + acknowledged);
    assert!(engine.get(other, &refused).unwrap().is_none());
    assert_eq!(scan(&engine, table).unwrap(), KEYS, "reads go on");
}

/// Regression: zeros were copied in place of the missing pages, and the backup was reported as
/// complete.
#[test]
fn a_backup_copies_no_zeros_for_missing_pages() {
    if !is_child("a_backup_copies_no_zeros_for_missing_pages") {
        return;
    }
    for kind in ["journal", "table"] {
        let folder = tempfile::tempdir().unwrap();
        // The backup is on another file system, so that files are copied.
        let other = tempfile::tempdir_in("/dev/shm").unwrap();
        let device = |folder: &tempfile::TempDir| folder.path().metadata().unwrap().dev();
        assert_ne!(device(&folder), device(&other), "set TMPDIR to another file system");
        let (engine, _) = filled(folder.path());
        let whole = engine.backup(other.path().join("whole")).unwrap();
        assert!(whole.copied_files > 2 && whole.linked_files == 0, "{whole:?}");
        let path = &files(folder.path(), kind)[0];
        cut(path);
        match engine.backup(other.path().join("torn")).unwrap_err() {
            Error::Corruption { path: named, .. } => assert_eq!(named, *path),
            error => panic!("{error}"),
        }
        assert!(!other.path().join("torn/manifest").exists());
    }
}
