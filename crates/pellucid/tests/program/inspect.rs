//! Tests of `pellucid inspect`.

use std::fs::File;
use std::io::PipeWriter;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{done, failed, pellucid, run, text};
use pellucid_engine::{
    Acknowledgement, Engine, EngineOptions, IndexChange, Operation, TableOptions,
};
use serde_json::Value;
use tempfile::TempDir;

const KEYS: u32 = 300;

/// Creates a store with a few hundred entries, and closes it.
fn store(folder: &TempDir) -> PathBuf {
    let directory = folder.path().join("store");
    let options = EngineOptions { segment_size_bytes: 16 << 10, ..EngineOptions::default() };
    let engine = Engine::open(&directory, options).unwrap();
    let table = engine.table("fruit").unwrap();
    for number in 0..KEYS {
        let key = format!("key {number:03}");
        let acknowledgement = Acknowledgement::Os;
        engine
            .write(&[Operation::put(table, key.as_bytes(), &[b'v'; 200])], acknowledgement)
            .unwrap();
    }
    engine.close().unwrap();
    directory
}

/// Runs `inspect`; returns its exit code, standard output and standard error.
fn inspect(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let directory = directory.to_str().unwrap();
    let output = run(&[&["inspect", directory], arguments].concat());
    let errors = text(&output.stderr).to_owned();
    assert!(!errors.contains("panicked"), "{errors}");
    (output.status.code().unwrap(), text(&output.stdout).to_owned(), errors)
}

fn json(directory: &Path, arguments: &[&str], code: i32) -> Value {
    let (found, output, errors) = inspect(directory, &[arguments, &["--json"]].concat());
    assert_eq!(found, code, "{arguments:?}: {errors}");
    let result: Value = serde_json::from_str(&output).unwrap();
    assert!(result["schema"].as_str().unwrap().starts_with("pellucid.inspect_"), "{result}");
    result
}

fn first_segment(directory: &Path) -> PathBuf {
    let entries = std::fs::read_dir(directory.join("journal")).unwrap();
    entries.map(|entry| entry.unwrap().path()).min().unwrap()
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset] ^= 4;
    std::fs::write(path, bytes).unwrap();
}

/// Runs the program with this standard output; returns its exit code and standard error.
fn with_output(arguments: &[&str], output: impl Into<Stdio>) -> (Option<i32>, String) {
    let mut command = pellucid(arguments);
    let child = command.stdout(output).stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), text(&output.stderr).to_owned())
}

/// A standard output on a full disk.
fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// A standard output whose reader has gone.
fn closed() -> PipeWriter {
    std::io::pipe().unwrap().1
}

/// Regression: commands that could not write to standard output ended with a signal and a stack
/// trace, also if the reader had closed its pipe, which is not an error.
#[test]
fn a_failed_write_to_standard_output_exits_with_1() {
    let folder = TempDir::new().unwrap();
    let directory = store(&folder);
    let directory = directory.to_str().unwrap();
    let cases = [
        &["inspect", directory, "dump"][..],
        &["inspect", directory, "verify"],
        &["inspect", directory, "stat", "--json"],
        &["completions", "bash"],
        &["serve", "--data", directory, "--print-config"],
    ];
    for arguments in cases {
        let (code, errors) = with_output(arguments, full());
        assert_eq!(code, Some(1), "{arguments:?}: {errors}");
        assert!(errors.contains("cannot write to standard output"), "{arguments:?}: {errors}");
        let ended = with_output(arguments, closed());
        assert_eq!(ended, (Some(0), String::new()), "{arguments:?}");
    }
}

/// Regression: a dump read the whole store, also if nobody read its output any more.
#[test]
fn a_dump_that_cannot_be_written_reads_no_further() {
    let folder = TempDir::new().unwrap();
    let directory = store(&folder);
    flip(&first_segment(&directory), 2_000);
    let dump = ["inspect", directory.to_str().unwrap(), "dump", "--values"];
    failed(&run(&dump), 1, "damaged");
    let (code, errors) = with_output(&dump, full());
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("cannot write to standard output"), "{errors}");
    assert_eq!(with_output(&dump, closed()), (Some(0), String::new()));
}

#[test]
fn an_intact_store_is_described_checked_and_dumped() {
    let folder = TempDir::new().unwrap();
    let directory = store(&folder);
    let (code, output, _) = inspect(&directory, &["stat"]);
    assert_eq!(code, 0);
    assert!(output.contains("segments") && output.contains("tables"), "{output}");
    let report = json(&directory, &["stat"], 0);
    assert_eq!(report["flushed_sequence"], KEYS + 1);
    assert!(report["segments"].as_array().unwrap().len() > 3);
    assert_eq!(json(&directory, &["verify"], 0)["problems"], Value::Array(Vec::new()));
    let (_, output, _) = inspect(&directory, &["verify"]);
    assert!(output.contains("301 records") && output.contains(" 0 problems"), "{output}");
    let (_, output, _) = inspect(&directory, &["dump"]);
    assert_eq!(output.lines().count(), KEYS as usize);
    assert!(output.starts_with("fruit\tkey 000\t2\t200\t"), "{output}");
    let (_, output, _) = inspect(&directory, &["dump", "--table", "fruit", "--values", "--json"]);
    let first: Value = serde_json::from_str(output.lines().next().unwrap()).unwrap();
    assert_eq!((&first["key"], &first["value"]), (&"key 000".into(), &"v".repeat(200).into()));
    let (code, _, errors) = inspect(&directory, &["dump", "--table", "stars"]);
    assert_eq!(code, 1);
    assert!(errors.contains("`stars`"));
}

/// Definitions are found in tables of the ledger, and in the journal before a flush.
#[test]
fn tables_and_indexes_are_named_with_their_kinds() {
    let folder = TempDir::new().unwrap();
    let directory = folder.path().join("store");
    let engine = Engine::open(&directory, EngineOptions::default()).unwrap();
    let fruit = engine.table("fruit").unwrap();
    engine.flush().unwrap();
    let heads = TableOptions { head_only: true, ..TableOptions::default() };
    engine.table_with("seen", &heads).unwrap();
    engine.index(fruit, "colour").unwrap();
    // `stat` also works on a store that is open.
    let (code, output, _) = inspect(&directory, &["stat"]);
    assert_eq!(code, 0);
    drop(engine);
    for line in ["1  fruit  objects\n", "2  seen  heads\n", "3  colour  index of table 1\n"] {
        assert!(output.contains(line), "{output}");
    }
    let (code, output, _) = inspect(&directory, &["verify"]);
    assert!(code == 0 && output.contains("colour  index of table 1\n"), "{output}");
    let report = json(&directory, &["verify"], 0);
    assert_eq!(report["definitions"][2]["kind"], "index");
    assert_eq!(report["definitions"][2]["index_of"], 1);
}

/// Regression: a dump left the entries of indexes out.
#[test]
fn a_dump_has_the_entries_of_indexes() {
    let folder = TempDir::new().unwrap();
    let directory = folder.path().join("store");
    let engine = Engine::open(&directory, EngineOptions::default()).unwrap();
    let fruit = engine.table("fruit").unwrap();
    let by_colour = engine.index(fruit, "colour").unwrap();
    let red = [IndexChange::add(by_colour, b"red")];
    let apple = Operation::put(fruit, b"apple", b"...").with_index_changes(&red);
    engine.write(&[apple], Acknowledgement::Os).unwrap();
    engine.close().unwrap();
    drop(engine);
    let (code, output, _) = inspect(&directory, &["dump"]);
    assert!(code == 0 && output.contains("fruit\tapple\tindex colour\tred\n"), "{output}");
}

#[test]
fn a_damaged_table_is_found_and_rebuilt() {
    let folder = TempDir::new().unwrap();
    let directory = store(&folder);
    let entries = std::fs::read_dir(directory.join("ledger")).unwrap();
    flip(&entries.map(|entry| entry.unwrap().path()).min().unwrap(), 100);
    let (code, _, errors) = inspect(&directory, &["verify"]);
    assert_eq!(code, 1);
    assert!(errors.contains("rebuild-ledger"), "{errors}");
    assert_eq!(json(&directory, &["rebuild-ledger"], 0)["last_sequence"], KEYS + 1);
    assert_eq!(inspect(&directory, &["verify"]).0, 0);
}

/// Regression: files that root's `inspect` had made were closed to the service.
#[test]
fn a_store_that_root_inspects_stays_with_its_owner() {
    let folder = TempDir::new().unwrap();
    let directory = store(&folder);
    let given = Command::new("chown").args(["-R", "4321"]).arg(&directory).output().unwrap();
    // Only root can give files away.
    if !given.status.success() {
        return;
    }
    for action in ["dump", "rebuild-ledger"] {
        assert_eq!(inspect(&directory, &[action]).0, 0, "{action}");
        let mut others = Command::new("find");
        let others = others.arg(&directory).args(["!", "-user", "4321"]).output().unwrap();
        assert_eq!(done(&others), "", "{action}");
    }
}

#[test]
fn a_backup_is_made_and_restored() {
    let folder = TempDir::new().unwrap();
    let directory = store(&folder);
    let (backup, restored) = (folder.path().join("backup"), folder.path().join("restored"));
    let made = json(&directory, &["backup", backup.to_str().unwrap()], 0);
    assert_eq!((&made["sequence"], &made["copied_files"]), (&(KEYS + 1).into(), &0.into()));
    let (code, _, errors) = inspect(&directory, &["backup", backup.to_str().unwrap()]);
    assert_eq!(code, 1);
    assert!(errors.contains("not empty"), "{errors}");
    std::fs::remove_dir_all(&directory).unwrap();
    let restore = ["restore", backup.to_str().unwrap(), "--bytes-per-second"];
    let (code, _, errors) = inspect(&restored, &[&restore[..], &["1000"]].concat());
    assert_eq!(code, 2);
    assert!(errors.contains("1048576"), "{errors}");
    let (code, output, _) = inspect(&restored, &[&restore[..], &["50000000"]].concat());
    assert_eq!(code, 0);
    assert!(output.contains("restored up to sequence 301"), "{output}");
    assert_eq!(inspect(&restored, &["dump"]).1.lines().count(), KEYS as usize);
}

#[test]
fn salvage_names_lost_records_and_saves_the_rest() {
    let folder = TempDir::new().unwrap();
    let directory = store(&folder);
    flip(&first_segment(&directory), 2_000);
    let to = folder.path().join("saved");
    let saved = json(&directory, &["salvage", to.to_str().unwrap()], 1);
    assert_eq!((&saved["records"], saved["lost"].as_array().unwrap().len()), (&KEYS.into(), 1));
    assert_eq!(inspect(&to, &["verify"]).0, 0);
    assert_eq!(inspect(&to, &["dump"]).1.lines().count(), KEYS as usize - 1);
}

#[test]
fn wrong_usage_and_a_store_in_use_are_refused() {
    let folder = TempDir::new().unwrap();
    let directory = store(&folder);
    assert_eq!(inspect(&directory, &[]).0, 2);
    assert_eq!(inspect(&directory, &["polish"]).0, 2);
    let (code, _, errors) = inspect(&folder.path().join("nowhere"), &["verify"]);
    assert_eq!(code, 2);
    assert!(errors.contains("nowhere"));
    // A folder that is not a store does not become one.
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert_eq!(inspect(&empty, &["dump"]).0, 1);
    let (code, _, errors) = inspect(&folder.path().join("new"), &["restore", "/nowhere"]);
    assert!(code == 2 && errors.contains("/nowhere is no folder"), "{errors}");
    assert!(std::fs::read_dir(&empty).unwrap().next().is_none());
    let engine = Engine::open(&directory, EngineOptions::default()).unwrap();
    for action in
        [&["verify"][..], &["dump"], &["rebuild-ledger"], &["cut-tail"], &["salvage", "x"]]
    {
        let (code, _, errors) = inspect(&directory, action);
        assert_eq!(code, 1, "{action:?}");
        assert!(errors.contains("already open"), "{errors}");
    }
    engine.close().unwrap();
    let help = run(&["inspect", "--help"]);
    assert!(text(&help.stdout).contains("Example: pellucid inspect"));
}
