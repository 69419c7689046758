//! Copies between stores: a complete copy, a resumed one, a resume from another source, and the
//! comparison that finds differences.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::time::Duration;

use pellucid_account::Timeline;
use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};
use pellucid_store::{
    Acknowledgement, CopiedTable, LocalStore, Operation, Range, Result, Source, Store, StoreError,
    TableCopyProgress, begin_copy, compare, copy, empty, end_copy, filled_table, give_up_copies,
    is_same,
};
use tempfile::TempDir;

const ENTRIES: u64 = 20_000;
const TABLE: CopiedTable<'_> = CopiedTable { name: "t", part_of: None };
const OTHER_TABLE: CopiedTable<'_> = CopiedTable { name: "u", part_of: None };
const HOUR_MS: u64 = 3_600_000;

fn put(store: &dyn Store, key: &str, value: &str, lifetime_ms: Option<u64>) {
    let table = store.table("t").unwrap();
    let (key, value) = (key.as_bytes(), Some(value.as_bytes()));
    let operation = Operation { lifetime_ms, ..Operation::plain(key, value) };
    let answer = store.write(table, &[operation], Acknowledgement::Os, &mut Timeline::off());
    answer.wait().unwrap();
}

fn store(folder: &TempDir) -> EmbeddedStore {
    EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap()
}

/// Two empty stores and their folders.
fn two() -> ([TempDir; 2], [EmbeddedStore; 2]) {
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let stores = folders.each_ref().map(store);
    (folders, stores)
}

fn named<'a>(store: &'a dyn Store, identity: &'a str) -> Source<'a> {
    Source { store, identity }
}

/// Fills a store, and copies a part of it.
fn cut_short(from: &Source<'_>, to: &dyn Store) {
    for index in 0..ENTRIES {
        put(from.store, &format!("{index:06}"), &format!("value {index}"), None);
    }
    begin_copy(from, to, &[TABLE]).unwrap();
    let cut = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        copy(from, to, TABLE, &mut |copied| assert!(copied.entries < ENTRIES / 2)).unwrap()
    }));
    assert!(cut.is_err());
}

fn compared(from: &dyn Store, to: &dyn Store) -> Result<TableCopyProgress> {
    compare(from, to, TABLE, &mut |_| {})
}

/// The difference that a comparison reports.
fn difference(from: &dyn Store, to: &dyn Store) -> String {
    match compared(from, to) {
        Err(StoreError::Corruption(what)) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_copy_resumes_is_complete_and_differences_are_found() {
    let (_folders, [from, to]) = two();
    let source = named(&from, "one");
    cut_short(&source, &to);
    put(&from, "with time", "t", Some(HOUR_MS));
    let mut reports = 0;
    begin_copy(&source, &to, &[TABLE]).unwrap();
    let copied = copy(&source, &to, TABLE, &mut |_| reports += 1).unwrap();
    assert!(copied.resumed && copied.entries < ENTRIES && reports > 10, "{copied:?}");
    assert_eq!(compared(&from, &to).unwrap().entries, ENTRIES + 1);
    let again = copy(&source, &to, TABLE, &mut |_| {}).unwrap();
    assert_eq!(
        again,
        TableCopyProgress { resumed: true, ..TableCopyProgress::default() },
        "nothing is left to copy"
    );
    end_copy(&to, &[TABLE]).unwrap();
    let again = copy(&source, &to, TABLE, &mut |_| {}).unwrap();
    assert!(!again.resumed && again.entries == ENTRIES + 1, "an ended copy starts again");
    let table = to.table("t").unwrap();
    let range = Range { start: b"with", end: None, reverse: false };
    let mut scan = to.scan(table, range).unwrap();
    assert!(scan.next().unwrap().is_some() && scan.expires_at_ms().is_some());
    drop(scan);
    put(&to, "000100", "other", None);
    let what = difference(&from, &to);
    assert!(what.contains("\"000100\" has two values"), "{what}");
}

/// Regression: a copy resumed from the position of another source, and never copied the entries
/// before it.
#[test]
fn an_interrupted_copy_resumes_only_from_its_own_source() {
    let (_folders, [from, to]) = two();
    let (_other_folders, [other, _]) = two();
    cut_short(&named(&from, "one"), &to);
    put(&other, "000000", "of the other", None);
    let stranger = named(&other, "other");
    // The refusal writes nothing to any table, also not to one that no copy has begun.
    for refused in [
        begin_copy(&stranger, &to, &[OTHER_TABLE, TABLE]),
        copy(&stranger, &to, TABLE, &mut |_| {}).map(|_| ()),
    ] {
        let Err(StoreError::Unacceptable(what)) = refused else { panic!("{refused:?}") };
        assert!(what.contains("from one,") && what.ends_with("from other"), "{what}");
    }
    begin_copy(&named(&from, "one"), &to, &[OTHER_TABLE, TABLE]).unwrap();
    assert!(copy(&named(&from, "one"), &to, TABLE, &mut |_| {}).unwrap().resumed);
    compared(&from, &to).unwrap();
    // The copy is not over until `end_copy`.
    assert!(begin_copy(&stranger, &to, &[TABLE]).is_err());
    end_copy(&to, &[OTHER_TABLE, TABLE]).unwrap();
    begin_copy(&stranger, &to, &[TABLE]).unwrap();
    copy(&stranger, &to, TABLE, &mut |_| {}).unwrap();
    let what = difference(&other, &to);
    assert!(what.contains("\"000001\" is in the copy alone"), "{what}");
}

/// Regression: a group had a mebibyte and any further entry, and a store may refuse a batch that is
/// larger than its largest value.
#[test]
fn a_group_is_larger_than_its_limit_only_with_one_entry() {
    let (_folders, [from, to]) = two();
    let (large, larger) = ("v".repeat(600 << 10), "v".repeat(2 << 20));
    for (key, value) in [("a", &large), ("b", &large), ("c", &larger)] {
        put(&from, key, value, None);
    }
    let source = named(&from, "one");
    begin_copy(&source, &to, &[TABLE]).unwrap();
    let mut copied = Vec::new();
    copy(&source, &to, TABLE, &mut |progress| copied.push(progress.entries)).unwrap();
    assert_eq!(copied, [1, 2, 3]);
}

/// Regression: a copy that began anew left what the target had, and the notes of other copies.
#[test]
fn a_target_is_emptied_with_its_notes() {
    let (_folders, [from, to]) = two();
    for index in 0..1_000 {
        put(&to, &format!("{index:06}"), "v", None);
    }
    begin_copy(&named(&from, "one"), &to, &[OTHER_TABLE]).unwrap();
    for part_of in [None, Some((|key| key.len().min(4)) as fn(&[u8]) -> usize)] {
        let table = CopiedTable { part_of, ..TABLE };
        put(&to, "again", "v", None);
        assert_eq!(filled_table(&to, &[OTHER_TABLE, table]).unwrap(), Some("t"));
        empty(&to, table).unwrap();
        assert_eq!(filled_table(&to, &[OTHER_TABLE, table]).unwrap(), None);
    }
    give_up_copies(&to).unwrap();
    begin_copy(&named(&from, "two"), &to, &[OTHER_TABLE]).unwrap();
}

#[test]
fn two_handles_of_one_store_are_told_from_two_stores() {
    let (_folders, [one, other]) = two();
    assert!(is_same(&one, &one).unwrap() && !is_same(&one, &other).unwrap());
    assert!(begin_copy(&named(&other, "other"), &one, &[TABLE]).is_ok(), "no note is left");
}

#[test]
fn a_copy_does_not_create_tables_in_its_source() {
    let (_folders, [from, to]) = two();
    let source = named(&from, "one");
    begin_copy(&source, &to, &[TABLE]).unwrap();
    assert_eq!(copy(&source, &to, TABLE, &mut |_| {}).unwrap(), TableCopyProgress::default());
    assert_eq!(compared(&from, &to).unwrap(), TableCopyProgress::default());
    assert_eq!(from.table_names().unwrap(), Vec::<String>::new());
}

/// Regression: an entry expires a little earlier in one of the two stores, and the comparison
/// reported that as a difference.
#[test]
fn an_entry_about_to_expire_is_no_difference_and_a_lasting_one_is() {
    let (_folders, [from, to]) = two();
    put(&from, "b", "", None);
    put(&to, "b", "", None);
    // An entry that has expired in the copy already, by the copy's clock.
    put(&from, "a", "", Some(2_000));
    // Entries whose lifetime was counted from the moment they were written to the copy.
    put(&to, "c", "", Some(20_000));
    put(&to, "d", "", Some(20_000));
    put(&from, "e", "", Some(1));
    std::thread::sleep(Duration::from_millis(5));
    let found = compared(&from, &to).unwrap();
    // After a pause of the machine, all of them have expired in both stores.
    assert!(found.entries == 1 && found.expired <= 3, "{found:?}");
    put(&to, "f", "", Some(HOUR_MS));
    let what = difference(&from, &to);
    assert!(what.contains("\"f\" is in the copy alone"), "{what}");
    put(&from, "f", "", Some(HOUR_MS));
    compared(&from, &to).unwrap();
    put(&from, "0", "", Some(HOUR_MS));
    let what = difference(&from, &to);
    assert!(what.contains("\"0\" is in the source alone"), "{what}");
}
