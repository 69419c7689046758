//! Files that somebody cuts off while the store is open: their pages cannot be read any more. Every
//! access to one was the end of the process; each test has one of its own to lose.
use std::ops::Bound;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pellucid_engine::{
    Acknowledgement, Direction, Engine, EngineOptions, Error, Operation, TableId,
};

const CHILD: &str = "PELLUCID_ENGINE_UNREADABLE_CHILD";
const KEYS: u32 = 3_000;
const PAGE_BYTES: u64 = 4_096;

/// Runs the test named `name` in a process of its own; true in that process.
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

/// Of many lengths, so that places follow no rule.
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

/// A store with two tables of objects: what is in `other` lies in other files than what is in `t`.
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

/// Cuts the file at a page in its middle, and says where.
fn cut(path: &Path) -> u64 {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len() / 2 / PAGE_BYTES * PAGE_BYTES;
    file.set_len(length).unwrap();
    length
}

/// Asks for every key; says how many were there, and how many ended in an error that names a place
/// behind the cut of `path`.
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
fn a_table_that_is_cut_off_costs_its_keys_and_no_others() {
    if !is_child("a_table_that_is_cut_off_costs_its_keys_and_no_others") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (engine, [table, other]) = filled(folder.path());
    let path = &files(folder.path(), "table")[0];
    // The blocks are checked by their first use, and not again.
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
fn without_its_filter_a_table_says_of_no_key_that_it_is_absent() {
    if !is_child("without_its_filter_a_table_says_of_no_key_that_it_is_absent") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    drop(filled(folder.path()));
    // After this opening the table has no directory in memory, and look-ups go by the file's end.
    let engine = Engine::open(folder.path(), options()).unwrap();
    let [table, other] = ["t", "other"].map(|name| engine.table(name).unwrap());
    let path = &files(folder.path(), "table")[0];
    let length = cut(path);
    assert_eq!(ask_for_all(&engine, table, (path, length), false), (0, KEYS));
    assert_eq!(ask_for_all(&engine, other, (path, length), true), (KEYS, 0));
}

#[test]
fn a_merge_of_a_table_that_is_cut_off_loses_nothing() {
    if !is_child("a_merge_of_a_table_that_is_cut_off_loses_nothing") {
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
fn a_segment_that_is_cut_off_costs_its_values_and_no_others() {
    if !is_child("a_segment_that_is_cut_off_costs_its_values_and_no_others") {
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
    // A collection that cannot read what it should copy leaves all as it was.
    (0..KEYS)
        .filter(|number| number % 3 > 0)
        .for_each(|number| put(&engine, table, number).unwrap());
    engine.flush().unwrap();
    engine.compact().unwrap();
    let _ = engine.collect();
    assert_eq!(ask_for_all(&engine, table, (path, length), false), (KEYS, 0));
}

#[test]
fn a_write_to_a_segment_that_is_cut_off_is_not_acknowledged() {
    if !is_child("a_write_to_a_segment_that_is_cut_off_is_not_acknowledged") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (engine, [table, other]) = filled(folder.path());
    let growing = files(folder.path(), "journal").pop().unwrap();
    // Behind all of `t`, whose records lie in earlier segments.
    put(&engine, other, KEYS).unwrap();
    std::fs::OpenOptions::new().write(true).open(&growing).unwrap().set_len(PAGE_BYTES).unwrap();
    let mut acknowledged = 0;
    let error = loop {
        match put(&engine, other, KEYS + 1 + acknowledged) {
            // The page that the last write began is the file's still.
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

/// Zeros were copied for the pages, and the backup was called whole.
#[test]
fn a_backup_copies_no_zeros_for_what_is_gone() {
    if !is_child("a_backup_copies_no_zeros_for_what_is_gone") {
        return;
    }
    for kind in ["journal", "table"] {
        let folder = tempfile::tempdir().unwrap();
        // Another file system, so that files are copied.
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
