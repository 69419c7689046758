//! `pellucid inspect copy`, as an operator uses it: a copy, one that was cut short, one that
//! differs, and sources that are not there.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{Serving, entity, pellucid, run, text};
use pellucid_account::Timeline;
use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};
use pellucid_store::{Acknowledgement, Condition, Operation, Store};
use serde_json::Value;
use tempfile::TempDir;

/// Entries of a copy that is cut short.
const ENTRIES: usize = 20_000;
/// Entries of a copy that is killed: enough for a line of progress, and for some time after it.
const MANY_ENTRIES: usize = 150_000;
/// How long a test may try to kill a copy before it is done.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs `inspect copy`; its exit code, standard output and standard error.
fn copy(from: &str, to: &Path, flags: &[&str]) -> (i32, String, String) {
    let output = run(&[&["inspect", "copy", from, to.to_str().unwrap()], flags].concat());
    let errors = text(&output.stderr).to_owned();
    assert!(!errors.contains("panicked"), "{errors}");
    (output.status.code().unwrap(), text(&output.stdout).to_owned(), errors)
}

/// What a copy that succeeds tells of its entities.
fn copied(from: &Path, to: &Path, flags: &[&str]) -> Value {
    let (code, output, errors) = copy(from.to_str().unwrap(), to, &[flags, &["--json"]].concat());
    assert_eq!(code, 0, "{errors}");
    let told: Value = serde_json::from_str(&output).unwrap();
    let entities = told["tables"][0].clone();
    assert_eq!(entities["table"], "entities");
    entities
}

/// The value of an entry, which is longer than what the ledger holds.
fn value(index: usize) -> String {
    format!("the value of {index:06} {}", "v".repeat(100))
}

/// Writes entries with these numbers into the store of a folder.
fn fill(folder: &Path, numbers: std::ops::Range<usize>) {
    let store = EmbeddedStore::open(folder, EmbeddedOptions::default()).unwrap();
    let table = store.table("entities").unwrap();
    let all: Vec<_> = numbers.map(|index| (format!("{index:06}"), value(index))).collect();
    for some in all.chunks(1_000) {
        let operations: Vec<_> = some
            .iter()
            .map(|(key, value)| Operation {
                key: key.as_bytes(),
                value: Some(value.as_bytes()),
                condition: Condition::None,
                lifetime_ms: None,
            })
            .collect();
        let mut timeline = Timeline::off();
        store.write(table, &operations, Acknowledgement::Os, &mut timeline).wait().unwrap();
    }
    store.close().unwrap();
}

/// Folders for a source and a copy; neither is there yet.
fn two() -> (TempDir, PathBuf, PathBuf) {
    let folder = TempDir::new().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    (folder, from, to)
}

/// Turns one bit of the value of this entry around, in the journal.
fn flip(folder: &Path, index: usize) {
    let wanted = value(index);
    for file in std::fs::read_dir(folder.join("journal")).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        // All but the first letter, which is the one that is turned around.
        let rest = &wanted.as_bytes()[1..];
        if let Some(at) = bytes.windows(rest.len()).position(|window| window == rest) {
            bytes[at - 1] ^= 4;
            std::fs::write(&path, bytes).unwrap();
            return;
        }
    }
    panic!("{index} is in no segment");
}

#[test]
fn entities_and_documents_are_copied_and_compared() {
    let (_folder, from, to) = two();
    let serving = Serving::start(&from, &[]);
    let mut client = serving.client();
    assert_eq!(client.put(&entity("a"), "one").status, 201);
    assert_eq!(client.put(&format!("{}&ttl=3600", entity("b")), "two").status, 201);
    assert_eq!(client.call("POST", "/_api/collection", &[], br#"{"name":"c"}"#).status, 200);
    let document = br#"{"_key":"k","n":7}"#;
    assert_eq!(client.call("POST", "/_api/document/c", &[], document).status, 202);
    // A store that is open is not copied, and no store is made beside it.
    let (code, _, errors) = copy(from.to_str().unwrap(), &to, &[]);
    assert!(code == 1 && errors.contains("already open"), "{errors}");
    assert!(!to.exists());
    serving.stop();
    let (code, output, errors) = copy(from.to_str().unwrap(), &to, &[]);
    assert_eq!(code, 0, "{errors}");
    assert!(output.starts_with("entities: 2 entries, 8 bytes, the same in both\n"), "{output}");
    assert!(output.contains("\ndocuments: "), "{output}");
    let serving = Serving::start(&to, &[]);
    let mut client = serving.client();
    assert_eq!((client.get(&entity("a")).text(), client.get(&entity("b")).text()), ("one", "two"));
    assert_eq!(client.get("/_api/document/c/k").json()["n"], 7);
    assert_eq!(client.put(&entity("beside"), "x").status, 201);
    serving.stop();
    let (code, _, errors) = copy(from.to_str().unwrap(), &to, &[]);
    assert_eq!(code, 1);
    assert!(errors.contains("\"beside\" is in the copy alone"), "{errors}");
}

/// Cut short by damage in its source, which is mended.
#[test]
fn a_copy_that_failed_goes_on_where_it_was_and_takes_no_other_source() {
    let (folder, from, to) = two();
    let other = folder.path().join("other");
    fill(&from, 0..ENTRIES);
    fill(&other, 0..10);
    flip(&from, ENTRIES * 3 / 4);
    let (code, _, errors) = copy(from.to_str().unwrap(), &to, &[]);
    assert!(code == 1 && errors.contains("journal"), "{errors}");
    flip(&from, ENTRIES * 3 / 4);
    let (code, _, errors) = copy(other.to_str().unwrap(), &to, &[]);
    assert!(code == 1 && errors.contains("--anew") && errors.contains("entities"), "{errors}");
    // It is the store that counts, and not where it lies.
    let moved = folder.path().join("moved");
    std::fs::rename(&from, &moved).unwrap();
    let told = copied(&moved, &to, &[]);
    assert_eq!((&told["resumed"], &told["compared"]), (&true.into(), &ENTRIES.into()));
    let count = told["copied"].as_u64().unwrap() as usize;
    assert!((ENTRIES / 4..ENTRIES / 2).contains(&count), "{told}");
    let told = copied(&moved, &to, &[]);
    assert_eq!((&told["resumed"], &told["copied"]), (&false.into(), &ENTRIES.into()));
}

#[test]
fn a_copy_that_is_given_up_makes_way_for_another() {
    let (folder, from, to) = two();
    let other = folder.path().join("other");
    fill(&from, 0..ENTRIES);
    fill(&other, 0..ENTRIES);
    flip(&from, ENTRIES * 3 / 4);
    assert_eq!(copy(from.to_str().unwrap(), &to, &[]).0, 1);
    assert_eq!(copy(other.to_str().unwrap(), &to, &[]).0, 1);
    let told = copied(&other, &to, &["--anew"]);
    assert_eq!((&told["resumed"], &told["copied"]), (&false.into(), &ENTRIES.into()));
}

#[test]
fn a_copy_that_is_killed_goes_on_where_it_was() {
    let (_folder, from, to) = two();
    fill(&from, 0..MANY_ENTRIES);
    let (begun, mut tries) = (Instant::now(), 0);
    let told = loop {
        let to = to.with_extension(tries.to_string());
        let places = [from.to_str().unwrap(), to.to_str().unwrap()];
        let mut command = pellucid(&["inspect", "copy", places[0], places[1]]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("entities: copied 10"), "{line}");
        child.kill().unwrap();
        child.wait().unwrap();
        let told = copied(&from, &to, &[]);
        if told["resumed"] == true {
            break told;
        }
        // It was done before it could be killed, on a machine that was busy otherwise.
        assert!(begun.elapsed() < PATIENCE, "{tries}: {told}");
        tries += 1;
    };
    assert_eq!(told["compared"], MANY_ENTRIES);
    assert!(told["copied"].as_u64().unwrap() < MANY_ENTRIES as u64 / 2, "{told}");
}

#[test]
fn a_source_that_is_not_there_is_told_and_not_made() {
    let (folder, from, to) = two();
    for prefix in ["", "rocksdb://"] {
        let (code, _, errors) = copy(&format!("{prefix}{}", from.display()), &to, &[]);
        assert!(code == 2 && errors.contains("is no folder"), "{errors}");
        let (code, _, errors) = copy(&format!("{prefix}{}", folder.path().display()), &to, &[]);
        assert_eq!(code, 1, "{errors}");
        assert!(errors.contains(folder.path().to_str().unwrap()), "{errors}");
    }
    assert!(std::fs::read_dir(&folder).unwrap().next().is_none(), "nothing was made");
}

/// A mistyped scheme was a folder, into which all was copied.
#[test]
fn a_target_of_an_unknown_scheme_is_refused() {
    let (folder, from, _) = two();
    fill(&from, 0..1);
    for target in ["cql:/127.0.0.1/k", "http://127.0.0.1:1"] {
        let (code, _, errors) = copy(from.to_str().unwrap(), Path::new(target), &[]);
        assert!(code == 2 && errors.contains("no kind of store"), "{errors}");
        assert!(!Path::new(target).exists());
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "the source alone");
}

/// There and back, so that what RocksDB has is compared with what it was given.
#[cfg(feature = "rocksdb")]
#[test]
fn a_folder_is_copied_to_rocksdb_and_back() {
    let (folder, from, to) = two();
    fill(&from, 0..ENTRIES);
    let rocks = format!("rocksdb://{}", folder.path().join("rocks").display());
    let told = copied(&from, Path::new(&rocks), &[]);
    assert_eq!((&told["copied"], &told["compared"]), (&ENTRIES.into(), &ENTRIES.into()));
    let told = copied(Path::new(&rocks), &to, &[]);
    assert_eq!((&told["copied"], &told["compared"]), (&ENTRIES.into(), &ENTRIES.into()));
}
