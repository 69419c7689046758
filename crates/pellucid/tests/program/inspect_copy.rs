//! Tests of `pellucid inspect copy`: a complete copy, an interrupted one, one that differs, and
//! sources that do not exist.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::common::{TestServer, entity, pellucid, run, text};
use pellucid_account::Timeline;
use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};
use pellucid_store::{Acknowledgement, Operation, Store};
use serde_json::Value;
use tempfile::TempDir;

/// The number of entries of a copy that is interrupted by damage.
const ENTRIES: usize = 20_000;
/// The number of entries of a copy that is killed: enough for a line of progress and some time
/// after it.
const MANY_ENTRIES: usize = 150_000;
/// The time in which the test tries again to kill a copy before it ends.
const PATIENCE: Duration = Duration::from_secs(180);

/// Runs `inspect copy`; returns its exit code, standard output and standard error.
fn copy(from: &str, to: &Path, flags: &[&str]) -> (i32, String, String) {
    let output = run(&[&["inspect", "copy", from, to.to_str().unwrap()], flags].concat());
    let errors = text(&output.stderr).to_owned();
    assert!(!errors.contains("panicked"), "{errors}");
    (output.status.code().unwrap(), text(&output.stdout).to_owned(), errors)
}

/// Runs a copy that must succeed; returns its report about entities.
fn copied(from: &Path, to: &Path, flags: &[&str]) -> Value {
    let (code, output, errors) = copy(from.to_str().unwrap(), to, &[flags, &["--json"]].concat());
    assert_eq!(code, 0, "{errors}");
    let told: Value = serde_json::from_str(&output).unwrap();
    assert_eq!(told["schema"], "pellucid.inspect_copy.v1");
    let entities = told["tables"][0].clone();
    assert_eq!(entities["table"], "entities");
    entities
}

/// Returns the value of an entry. It is too long for the ledger, so it is in the journal alone.
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
            .map(|(key, value)| Operation::plain(key.as_bytes(), Some(value.as_bytes())))
            .collect();
        let mut timeline = Timeline::off();
        store.write(table, &operations, Acknowledgement::Os, &mut timeline).wait().unwrap();
    }
    store.close().unwrap();
}

/// Returns the paths of a source and a copy, neither of which exists yet.
fn two() -> (TempDir, PathBuf, PathBuf) {
    let folder = TempDir::new().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    (folder, from, to)
}

/// Flips one bit of the value of this entry in the journal; a second call restores it.
fn flip(folder: &Path, index: usize) {
    let wanted = value(index);
    for file in std::fs::read_dir(folder.join("journal")).unwrap() {
        let path = file.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        // The search leaves the first letter out, because it is the one that is flipped.
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
    let serving = TestServer::start(&from, &[]);
    let mut client = serving.client();
    assert_eq!(client.put(&entity("a"), "one").status, 201);
    assert_eq!(client.put(&format!("{}&ttl=3600", entity("b")), "two").status, 201);
    assert_eq!(client.call("POST", "/_api/collection", &[], br#"{"name":"c"}"#).status, 200);
    let document = br#"{"_key":"k","n":7}"#;
    assert_eq!(client.call("POST", "/_api/document/c", &[], document).status, 202);
    // A store that is open is not copied, and no target is created.
    let (code, _, errors) = copy(from.to_str().unwrap(), &to, &[]);
    assert!(code == 1 && errors.contains("already open"), "{errors}");
    assert!(!to.exists());
    serving.stop();
    let (code, output, errors) = copy(from.to_str().unwrap(), &to, &[]);
    assert_eq!(code, 0, "{errors}");
    assert!(output.starts_with("entities: 2 entries, 8 bytes, the same in both\n"), "{output}");
    assert!(output.contains("\ndocuments: "), "{output}");
    let serving = TestServer::start(&to, &[]);
    let mut client = serving.client();
    assert_eq!((client.get(&entity("a")).text(), client.get(&entity("b")).text()), ("one", "two"));
    assert_eq!(client.get("/_api/document/c/k").json()["n"], 7);
    assert_eq!(client.put(&entity("beside"), "x").status, 201);
    serving.stop();
    let (code, _, errors) = copy(from.to_str().unwrap(), &to, &[]);
    assert!(code == 1 && errors.contains("has entries already"), "{errors}");
    assert_eq!(copied(&from, &to, &["--anew"])["compared"], 2, "`beside` is removed");
}

/// Regression: the entries of the target were overwritten before the difference was reported. With
/// `--anew` they stayed among those of the source, and a table that the target alone has was told
/// as the same in both.
#[test]
fn a_target_with_entries_of_its_own_is_refused() {
    let (_folder, from, to) = two();
    fill(&from, 0..2);
    fill(&to, 1..3);
    let (code, _, errors) = copy(from.to_str().unwrap(), &to, &[]);
    assert!(code == 1 && errors.contains("has entries already, in its table entities"), "{errors}");
    assert_eq!(copied(&to, &from.with_extension("copy"), &[])["compared"], 2, "nothing is changed");
    let empty = from.with_extension("empty");
    fill(&empty, 0..0);
    let (code, _, errors) = copy(empty.to_str().unwrap(), &to, &["--anew"]);
    assert!(code == 1 && errors.contains("nothing was removed"), "{errors}");
    assert_eq!(copied(&from, &to, &["--anew"])["compared"], 2);
    let own = |change: &dyn Fn(&EmbeddedStore, pellucid_store::Table)| {
        let store = EmbeddedStore::open(&to, EmbeddedOptions::default()).unwrap();
        change(&store, store.table("entities/own").unwrap());
        store.close().unwrap();
    };
    own(&|store, table| {
        let put = [Operation::plain(b"k", Some(b"v"))];
        store.write(table, &put, Acknowledgement::Os, &mut Timeline::off()).wait().unwrap();
    });
    let (code, _, errors) = copy(from.to_str().unwrap(), &to, &[]);
    assert!(code == 1 && errors.contains("has entries already"), "{errors}");
    assert_eq!(copied(&from, &to, &["--anew"])["compared"], 2);
    own(&|store, table| {
        let object = store.get(table, b"k", &mut Timeline::off()).wait().unwrap();
        assert!(object.is_none());
    });
}

/// Regression: a copy took no value above 64 MiB, whatever the limit of the server.
#[test]
fn a_value_above_the_usual_limit_is_copied() {
    let (_folder, from, to) = two();
    let large = vec![b'v'; EmbeddedOptions::default().value_bytes_max + 1];
    let value_bytes_max = large.len();
    let options = EmbeddedOptions { value_bytes_max, ..EmbeddedOptions::default() };
    let store = EmbeddedStore::open(&from, options).unwrap();
    let table = store.table("entities").unwrap();
    let put = [Operation::plain(b"large", Some(&large))];
    store.write(table, &put, Acknowledgement::Os, &mut Timeline::off()).wait().unwrap();
    store.close().unwrap();
    drop(store);
    let told = copied(&from, &to, &[]);
    assert_eq!((&told["copied"], &told["compared"]), (&1.into(), &1.into()));
}

/// Damage in the source interrupts the copy, which continues once the source is repaired.
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
    // A copy belongs to the store itself, not to its path.
    let moved = folder.path().join("moved");
    std::fs::rename(&from, &moved).unwrap();
    let told = copied(&moved, &to, &[]);
    assert_eq!((&told["resumed"], &told["compared"]), (&true.into(), &ENTRIES.into()));
    let count = told["copied"].as_u64().unwrap() as usize;
    assert!((ENTRIES / 4..ENTRIES / 2).contains(&count), "{told}");
    let told = copied(&moved, &to, &["--anew"]);
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
        let (code, output, errors) = copy(from.to_str().unwrap(), &to, &["--json"]);
        if code == 0 {
            let told: Value = serde_json::from_str(&output).unwrap();
            break told["tables"][0].clone();
        }
        // On a busy machine, the copy may end before it is killed.
        assert!(errors.contains("has entries already"), "{errors}");
        assert!(begun.elapsed() < PATIENCE, "{tries}");
        tries += 1;
    };
    assert_eq!((&told["resumed"], &told["compared"]), (&true.into(), &MANY_ENTRIES.into()));
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

/// Regression: a target with a mistyped scheme was taken for the path of a folder.
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

/// The copy goes to RocksDB and back, so that the entries that come back can be compared with the
/// original ones.
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
