//! Checks of the features that only some kinds of store support: that each works, or that it does
//! not.

use pellucid_account::Timeline;

use super::Feature;
use super::blocking_table::{BlockingTable, delete, put, when};
use super::checks::{LARGE_BATCH, fails_with_current, is_unacceptable, pairs};
use crate::model::Condition;
use crate::store::{Range, Store};

pub(super) fn check(feature: Feature, is_supported: bool, store: &dyn Store) {
    let using = BlockingTable::new(store, &format!("{feature:?}"));
    match (feature, is_supported) {
        (Feature::Snapshots, true) => snapshots(&using),
        (Feature::Snapshots, false) => no_snapshots(&using),
        (Feature::ConditionsAcrossParts, true) => conditions(&using),
        (Feature::ConditionsAcrossParts, false) => {
            let some: Vec<_> = (0..100).map(|index| index.to_string()).collect();
            let puts = some.iter().map(|key| when(put(key, "x"), Condition::Absent));
            is_unacceptable(using.write(&puts.collect::<Vec<_>>()));
            assert_eq!(using.keys("", None, false), "");
        }
        (Feature::LargeBatchesAcrossParts, _) => large_batches(&using, is_supported),
        (Feature::BatchesAcrossParts, true) => batches(&using),
        (Feature::BatchesAcrossParts, false) => no_batches(&using),
        (Feature::OneLine, _) => one_line(&using, is_supported),
    }
}

fn batches(using: &BlockingTable<'_>) {
    using.put("old", "x");
    let written = using.write(&[put("a", "1"), delete("old"), put("b", "2"), put("a", "3")]);
    assert_eq!(using.value("a").unwrap(), b"3", "the last operation on a key counts");
    assert_eq!(using.head("a").unwrap().sequence, written.unwrap().sequence);
    assert_eq!(using.keys("", None, false), "a b ");
}

/// Some pairs of keys are in one part by chance. The others are refused, and nothing of them is
/// written.
fn no_batches(using: &BlockingTable<'_>) {
    let pairs = (0..100).map(|index| (format!("{index} one"), format!("{index} other")));
    let mut refused = 0;
    for (one, other) in pairs {
        let written = using.write(&[put(&one, "x"), put(&other, "x")]);
        if written.is_err() {
            is_unacceptable(written);
            assert!(using.get(&one).is_none() && using.get(&other).is_none());
            refused += 1;
        }
    }
    assert!(refused > 0, "it has batches after all");
}

fn one_line(using: &BlockingTable<'_>, is_supported: bool) {
    let sequences: Vec<u64> =
        (0..200).map(|index| using.put(&format!("line {index}"), "x")).collect();
    assert_eq!(sequences.is_sorted_by(|one, next| one < next), is_supported);
}

fn conditions(using: &BlockingTable<'_>) {
    using.write(&[put("a", "3"), put("b", "2")]).unwrap();
    let bad = [put("a", "4"), put("c", "4"), when(put("b", "4"), Condition::Absent), delete("a")];
    let current = using.head("b").map(|head| head.sequence);
    fails_with_current(using.write(&bad), 2, current);
    assert_eq!(using.scan("", None, false), pairs(&[("a", "3"), ("b", "2")]));
}

fn large_batches(using: &BlockingTable<'_>, is_supported: bool) {
    let many: Vec<String> = (0..LARGE_BATCH).map(|index| format!("many {index:05}")).collect();
    let operations: Vec<_> = many.iter().map(|key| put(key, key)).collect();
    if !is_supported {
        is_unacceptable(using.write(&operations));
        assert_eq!(using.keys("", None, false), "");
        return;
    }
    using.write(&operations).unwrap();
    let found = using.scan("many", Some("many:"), false);
    assert!(found.iter().map(|(key, _)| key).eq(&many));
    assert!(found.iter().all(|(key, value)| key == value));
}

/// A snapshot of a store without this feature sees entries that were written after it was taken.
fn no_snapshots(using: &BlockingTable<'_>) {
    using.put("a", "old");
    let snapshot = using.store.snapshot().unwrap();
    using.put("a", "new");
    let found = snapshot.get(using.table, b"a", &mut Timeline::off()).unwrap();
    assert_eq!(&*found.unwrap().value, b"new", "it has snapshots after all");
}

/// A scan sees only the state at its beginning, whatever is written while it runs.
fn snapshots(using: &BlockingTable<'_>) {
    using.put("a", "old");
    let snapshot = using.store.snapshot().unwrap();
    using.put("a", "new");
    let found = snapshot.get(using.table, b"a", &mut Timeline::off()).unwrap();
    assert_eq!(&*found.unwrap().value, b"old");
    using.write(&[delete("a")]).unwrap();
    for index in 0..500 {
        using.put(&format!("{index:03}"), "old");
    }
    let all = |reverse| Range { start: b"000", end: None, reverse };
    let mut forward = using.store.scan(using.table, all(false)).unwrap();
    let mut backward = using.store.scan(using.table, all(true)).unwrap();
    for index in 0..500 {
        let key = format!("{index:03}");
        if index % 2 == 0 {
            using.put(&key, "new")
        } else {
            using.write(&[delete(&key)]).unwrap().sequence
        };
        using.put(&(key + "x"), "new");
    }
    for index in 0..500 {
        for (scan, index) in [(&mut forward, index), (&mut backward, 499 - index)] {
            let (key, object) = scan.next().unwrap().unwrap();
            assert_eq!((key, &*object.value), (format!("{index:03}").as_bytes(), &b"old"[..]));
        }
    }
    assert!(forward.next().unwrap().is_none() && backward.next().unwrap().is_none());
    assert!(forward.next().unwrap().is_none(), "the end is the end");
}
