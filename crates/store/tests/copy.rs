//! Copies between stores: whole, resumed, and found out where they are not whole.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use pellucid_account::Timeline;
use pellucid_store::{
    Acknowledgement, Condition, CopiedTable, EmbeddedOptions, EmbeddedStore, Operation, Store,
    StoreError, compare, copy,
};
use tempfile::TempDir;

const ENTRIES: u64 = 20_000;
const TABLE: CopiedTable<'_> = CopiedTable { name: "t", part_of: None };

fn put(store: &dyn Store, key: &str, value: &str, lifetime_ms: Option<u64>) {
    let table = store.table("t").unwrap();
    let (key, value) = (key.as_bytes(), Some(value.as_bytes()));
    let operation = Operation { key, value, condition: Condition::None, lifetime_ms };
    let answer = store.write(table, &[operation], Acknowledgement::Os, &mut Timeline::off());
    answer.wait().unwrap();
}

fn store(folder: &TempDir) -> EmbeddedStore {
    EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap()
}

#[test]
fn a_copy_is_whole_goes_on_where_it_was_and_differences_are_found() {
    let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (from, to) = (store(&one), store(&other));
    for index in 0..ENTRIES {
        put(&from, &format!("{index:06}"), &format!("value {index}"), None);
    }
    put(&from, "with time", "t", Some(3_600_000));
    let mut reports = 0;
    // Cut short in the middle.
    let cut = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        copy(&from, &to, TABLE, &mut |copied| assert!(copied.entries < ENTRIES / 2)).unwrap()
    }));
    assert!(cut.is_err());
    let copied = copy(&from, &to, TABLE, &mut |_| reports += 1).unwrap();
    assert!(copied.resumed && copied.entries < ENTRIES && reports > 10, "{copied:?}");
    let compared = compare(&from, &to, TABLE, &mut |_| {}).unwrap();
    assert_eq!(compared.entries, ENTRIES + 1);
    let again = copy(&from, &to, TABLE, &mut |_| {}).unwrap();
    assert!(!again.resumed && again.entries == ENTRIES + 1, "a copy that ended begins anew");
    let table = to.table("t").unwrap();
    let range = pellucid_store::Range { start: b"with", end: None, reverse: false };
    let mut scan = to.scan(table, range).unwrap();
    assert!(scan.next().unwrap().is_some() && scan.expires_at_ms().is_some());
    drop(scan);
    put(&to, "000100", "other", None);
    let found = compare(&from, &to, TABLE, &mut |_| {});
    let Err(StoreError::Corruption(what)) = found else { panic!("{found:?}") };
    assert!(what.contains("000100"), "{what}");
}
