//! Checks that every kind of store has to pass.

use std::time::Duration;

use pellucid_account::Timeline;
use pellucid_clock::Clock;

use super::blocking_table::{BlockingTable, delete, put, when};
use super::{Feature, TestedStore};
use crate::KEY_LENGTH_MAX;
use crate::error::{Result, StoreError};
use crate::model::{Acknowledgement, Condition, Operation, ReplicaQuorum, WriteOutcome};
use crate::store::Store;

/// The longest wait for an expected event, so long that a slow machine makes no difference.
const PATIENCE_NS: u64 = 60_000_000_000;
/// The interval at which the event is checked.
const POLL: Duration = Duration::from_millis(50);
/// The most by which the system's clock may be set back during a check.
const WALL_STEP_MS: u64 = 1_000;
/// The number of entries of a large batch.
pub(super) const LARGE_BATCH: usize = 5_000;

pub(super) fn reads_and_writes(using: &BlockingTable<'_>) {
    assert!(using.get("a").is_none() && using.head("a").is_none());
    let before_ms = Clock::system().wall().unix_ms();
    let first = using.put("a", "one");
    let object = using.get("a").unwrap();
    assert_eq!((&*object.value, object.head.sequence), (&b"one"[..], first));
    assert_eq!(object.head.value_length, 3);
    let now_ms = Clock::system().wall().unix_ms();
    // The system's clock may be set back between the three readings.
    let range_ms = before_ms - WALL_STEP_MS..=now_ms + WALL_STEP_MS;
    assert!(range_ms.contains(&object.head.written_at_ms));
    assert_eq!(using.head("a"), Some(object.head), "a head is the object without its value");
    let second = using.put("a", "");
    assert!(second > first, "later writes have higher sequence numbers");
    assert_eq!(using.value("a").unwrap(), b"");
    assert_eq!(using.head("a").unwrap().value_length, 0);
    using.write(&[delete("a")]).unwrap();
    assert!(using.get("a").is_none() && using.head("a").is_none());
    using.write(&[delete("a")]).unwrap();
    using.put("a", "back");
    assert_eq!(using.value("a").unwrap(), b"back");
    let key: &[u8] = &[0, 255, b'\n', 0];
    using.write(&[Operation::plain(key, Some(key))]).unwrap();
    assert_eq!(using.value(key).unwrap(), key);
    assert!(using.value([0, 255, b'\n']).is_none(), "a prefix is another key");
    assert_eq!(*object.value, *b"one", "what was read stays readable");
}

pub(super) fn fails_with_current(result: Result<WriteOutcome>, index: usize, current: Option<u64>) {
    assert_eq!(result, Err(StoreError::ConditionFailed { index, current }));
}

pub(super) fn conditions(using: &BlockingTable<'_>) {
    let first = put("a", "1");
    fails_with_current(using.write(&[when(first, Condition::Present)]), 0, None);
    fails_with_current(using.write(&[when(first, Condition::Sequence(1))]), 0, None);
    fails_with_current(using.write(&[when(delete("a"), Condition::Present)]), 0, None);
    assert!(using.get("a").is_none());
    let one = using.write(&[when(first, Condition::Absent)]).unwrap().sequence;
    let second = put("a", "2");
    fails_with_current(using.write(&[when(second, Condition::Absent)]), 0, Some(one));
    let wrong = Condition::Sequence(one + 1);
    fails_with_current(using.write(&[when(second, wrong)]), 0, Some(one));
    fails_with_current(using.write(&[when(second, Condition::Sequence(0))]), 0, Some(one));
    assert_eq!(using.value("a").unwrap(), b"1");
    let two = using.write(&[when(second, Condition::Sequence(one))]).unwrap().sequence;
    using.write(&[when(put("a", "3"), Condition::Present)]).unwrap();
    fails_with_current(
        using.write(&[when(delete("a"), Condition::Sequence(two))]),
        0,
        using.head("a").map(|head| head.sequence),
    );
    let last = using.head("a").unwrap().sequence;
    using.write(&[when(delete("a"), Condition::Sequence(last))]).unwrap();
    fails_with_current(using.write(&[when(second, Condition::Sequence(last))]), 0, None);
    using.write(&[when(second, Condition::Absent)]).unwrap();
}

pub(super) fn pairs(entries: &[(&str, &str)]) -> Vec<(String, String)> {
    entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

pub(super) fn is_unacceptable(result: Result<WriteOutcome>) {
    let Err(StoreError::Unacceptable(text)) = result else { panic!("{result:?}") };
    assert!(text.len() > 10, "{text}");
}

/// A full merge, if the store has one, changes no contents.
pub(super) fn full_merge(using: &BlockingTable<'_>) {
    for key in ["a", "b", "c"] {
        using.put(key, "old");
    }
    using.put("b", "new");
    using.write(&[delete("c")]).unwrap();
    let before = using.scan("", None, false);
    assert_eq!(before, pairs(&[("a", "old"), ("b", "new")]));
    if let Some(local) = using.store.local() {
        local.compact().unwrap();
        local.compact().unwrap();
    }
    assert_eq!(using.scan("", None, false), before);
    assert!(using.get("c").is_none());
}

pub(super) fn limits(using: &BlockingTable<'_>) {
    assert_eq!(using.store.properties().value_bytes_max, using.value_bytes_max);
    let longest_key = "k".repeat(KEY_LENGTH_MAX);
    using.put(&longest_key, "fits");
    assert_eq!(using.value(&longest_key).unwrap(), b"fits");
    let longest_value = "v".repeat(using.value_bytes_max);
    using.put("long", &longest_value);
    assert_eq!(using.value("long").unwrap(), longest_value.as_bytes());
    let (key, value) = (longest_key.clone() + "k", longest_value.clone() + "v");
    for bad in [put("", "x"), put(&key, "x"), delete(&key), put("x", &value)] {
        is_unacceptable(using.write(&[bad]));
        is_unacceptable(using.write(&[put("x", "good"), bad]));
    }
    assert!(using.get("x").is_none());
    for bad in [key.as_bytes(), b""] {
        let (store, table) = (using.store, using.table);
        let got = store.get(table, bad, &mut Timeline::off()).wait();
        let head = store.head(table, bad, &mut Timeline::off()).wait();
        assert!(matches!(got, Err(StoreError::Unacceptable(_))), "no key is like that");
        assert!(matches!(head, Err(StoreError::Unacceptable(_))));
    }
}

pub(super) fn scans(using: &BlockingTable<'_>) {
    for key in ["d", "b", "a", "c", "ab", "b\u{0}", "\u{7f}"] {
        using.put(key, key);
    }
    using.put("deleted", "x");
    using.write(&[delete("deleted")]).unwrap();
    for (start, end, forward) in [
        ("", None, "a ab b b\u{0} c d \u{7f} "),
        ("a", Some("b"), "a ab "),
        ("a", Some("b\u{0}"), "a ab b "),
        ("aa", None, "ab b b\u{0} c d \u{7f} "),
        ("b", Some("b"), ""),
        ("c", Some("a"), ""),
        ("d\u{0}", Some("z"), ""),
        ("\u{7f}\u{0}", None, ""),
    ] {
        assert_eq!(using.keys(start, end, false), forward, "{start:?} {end:?}");
        let backward: Vec<&str> = forward.split_terminator(' ').rev().collect();
        let found = using.keys(start, end, true);
        assert!(found.split_terminator(' ').eq(backward), "{start:?} {end:?}: {found}");
    }
}

/// An expired entry is absent from every read and for every condition.
pub(super) fn lifetimes(using: &BlockingTable<'_>) {
    let brief = Operation { lifetime_ms: Some(1_250), ..put("brief", "x") };
    let long = Operation { lifetime_ms: Some(3_600_500), ..put("long", "y") };
    using.write(&[long]).unwrap();
    let written = using.write(&[brief]).unwrap().sequence;
    using.put("stays", "z");
    let begun = Clock::monotonic().stopwatch();
    while let Some(head) = using.head("brief") {
        assert_eq!(head.sequence, written);
        assert!(begun.elapsed_ns() < PATIENCE_NS, "it is still there");
        std::thread::sleep(POLL);
    }
    assert!(using.get("brief").is_none());
    assert_eq!(using.keys("", None, false), "long stays ");
    assert_eq!(using.keys("", None, true), "stays long ");
    let again = put("brief", "again");
    fails_with_current(using.write(&[when(again, Condition::Present)]), 0, None);
    fails_with_current(using.write(&[when(again, Condition::Sequence(written))]), 0, None);
    using.write(&[when(again, Condition::Absent)]).unwrap();
    assert_eq!(using.value("brief").unwrap(), b"again");
    let current = using.head("long").unwrap().sequence;
    using.write(&[when(put("long", "new"), Condition::Sequence(current))]).unwrap();
    assert_eq!(using.value("long").unwrap(), b"new");
}

/// The part of a key is its prefix up to the first colon.
fn part_of(key: &[u8]) -> usize {
    key.iter().position(|byte| *byte == b':').map_or(0, |place| place + 1)
}

/// Batches within a part are atomic, with conditions, for any number of entries.
pub(super) fn parts(store: &dyn Store) {
    let table = store.table_in_parts("parts", part_of).unwrap();
    let using = BlockingTable::of(store, table);
    using.write(&[put("a:1", "1"), put("a:2", "1"), put("a:2", "2")]).unwrap();
    using.put("b:1", "1");
    using.put("0", "none");
    let present = |key| when(put(key, "new"), Condition::Present);
    let bad = [put("a:3", "new"), present("a:1"), present("a:4"), delete("a:2")];
    fails_with_current(using.write(&bad), 2, None);
    assert_eq!(using.keys("", None, false), "0 a:1 a:2 b:1 ");
    let written = using.write(&[put("a:3", "new"), present("a:1"), delete("a:2")]).unwrap();
    assert!(using.head("a:3").unwrap().sequence < written.sequence);
    assert_eq!(using.head("a:3").unwrap().sequence, using.head("a:1").unwrap().sequence - 1);
    assert_eq!(using.keys("", None, false), "0 a:1 a:3 b:1 ");
    assert_eq!(using.keys("a:", Some("a;"), true), "a:3 a:1 ");
    assert_eq!(using.keys("a:2", Some("b:1"), false), "a:3 ");
    let many: Vec<String> = (0..LARGE_BATCH).map(|index| format!("c:{index:05}")).collect();
    let mut operations: Vec<_> = many.iter().map(|key| put(key, key)).collect();
    operations.push(when(put("c:", "x"), Condition::Absent));
    using.write(&operations).unwrap();
    fails_with_current(
        using.write(&operations),
        LARGE_BATCH,
        using.get("c:").map(|o| o.head.sequence),
    );
    let found = using.scan("c:0", Some("c;"), false);
    assert!(found.iter().map(|(key, _)| key).eq(&many));
    let backward = using.scan("c:0", Some("c;"), true);
    assert!(backward.iter().map(|(key, _)| key).eq(many.iter().rev()));
    // Each condition is on the state before the batch.
    let absent = |value| when(put("d:1", value), Condition::Absent);
    using.write(&[absent("1"), absent("2")]).unwrap();
    assert_eq!(using.value("d:1").unwrap(), b"2");
    let gone = when(delete("e:1"), Condition::Present);
    fails_with_current(using.write(&[put("e:1", "1"), gone]), 1, None);
}

/// Regression: on a ring, a write whose only conditions are on absent entries that it deletes was
/// acknowledged, and its other entries were not written.
pub(super) fn deletions_of_absent_entries(store: &dyn Store) {
    let table = store.table_in_parts("absent", part_of).unwrap();
    let using = BlockingTable::of(store, table);
    let absent = |operation| when(operation, Condition::Absent);
    using.write(&[absent(delete("p:0"))]).unwrap();
    using.write(&[absent(delete("p:0")), put("p:1", "x")]).unwrap();
    using.write(&[absent(put("p:0", "x")), delete("p:0"), put("p:2", "x")]).unwrap();
    let present = when(put("p:2", "y"), Condition::Present);
    using.write(&[absent(delete("p:0")), present, put("p:3", "x")]).unwrap();
    let expected = pairs(&[("p:1", "x"), ("p:2", "y"), ("p:3", "x")]);
    assert_eq!(using.scan("", None, false), expected);
    let current = using.head("p:1").map(|head| head.sequence);
    let bad = [absent(delete("p:1")), delete("p:2"), put("p:4", "x")];
    fails_with_current(using.write(&bad), 0, current);
    assert_eq!(using.scan("", None, false), expected);
}

/// Reads that wait for any number of copies see a write that all copies acknowledged.
pub(super) fn copies(using: &BlockingTable<'_>) {
    let from = using.store.properties().copies;
    let replicated = using.store.replicated();
    let waiting_for = |copies| replicated.and_then(|store| store.waiting_for(copies).unwrap());
    for ack in [1, from / 2 + 1, from] {
        let key = format!("by {ack}");
        let all = ReplicaQuorum { ack: from, from };
        let asking = waiting_for(ReplicaQuorum { ack, from });
        let writing = waiting_for(all);
        let writer = BlockingTable::of(writing.as_deref().unwrap_or(using.store), using.table);
        let reader = BlockingTable::of(asking.as_deref().unwrap_or(using.store), using.table);
        let sequence = writer.put(&key, "value");
        assert_eq!(reader.value(&key).unwrap(), b"value");
        assert_eq!(reader.head(&key).unwrap().sequence, sequence);
        writer.write(&[delete(&key)]).unwrap();
        assert!(reader.get(&key).is_none(), "a deletion is an answer like any other");
    }
}

pub(super) fn tables(store: &dyn Store) {
    let (one, other) = (BlockingTable::new(store, "one"), BlockingTable::new(store, "other"));
    assert_ne!(one.table, other.table);
    assert_eq!(one.table, BlockingTable::new(store, "one").table, "a name is one table");
    if let Some(names) = store.local().map(|local| local.table_names().unwrap()) {
        let known = |name: &str| names.iter().any(|known| known == name);
        assert!(known("one") && known("other") && !known("none"), "{names:?}");
    }
    one.put("k", "1");
    assert!(other.get("k").is_none());
    other.put("k", "2");
    other.put("l", "2");
    assert_eq!(one.scan("", None, false), pairs(&[("k", "1")]));
    assert_eq!(other.keys("", None, true), "l k ");
    one.write(&[delete("k")]).unwrap();
    assert_eq!(other.value("k").unwrap(), b"2");
}

pub(super) fn acknowledgements(store: &dyn Store) {
    let table = store.table_in_parts("acknowledgements", part_of).unwrap();
    let using = BlockingTable::of(store, table);
    for acknowledgement in [Acknowledgement::Memory, Acknowledgement::Os, Acknowledgement::Disk] {
        let operations = [put("p:a", "x"), put("p:b", "y")];
        let mut timeline = Timeline::off();
        let answer = using.store.write(using.table, &operations, acknowledgement, &mut timeline);
        let written = answer.wait().unwrap();
        assert_eq!(using.head("p:b").unwrap().sequence, written.sequence, "{acknowledgement:?}");
    }
}

pub(super) fn figures(store: &dyn Store) {
    assert!(store.properties().copies >= 1);
    let figures = store.figures();
    let mut names: Vec<_> = figures.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), figures.len(), "each name is unique");
    let good = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    assert!(names.into_iter().all(good));
}

/// If one increment overwrote another, the sum would be too small.
pub(super) fn concurrent_increments(store: &dyn Store) {
    let table = BlockingTable::new(store, "increments");
    table.put("sum", "0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let using = BlockingTable::new(store, "increments");
                (0..100).for_each(|_| increment(&using));
            });
        }
    });
    assert_eq!(table.value("sum").unwrap(), b"400");
}

fn increment(using: &BlockingTable<'_>) {
    loop {
        let object = using.get("sum").unwrap();
        let sum: u64 = std::str::from_utf8(&object.value).unwrap().parse().unwrap();
        let next = (sum + 1).to_string();
        let condition = Condition::Sequence(object.head.sequence);
        match using.write(&[when(put("sum", &next), condition)]) {
            Ok(_) => return,
            Err(StoreError::ConditionFailed { index: 0, current }) => {
                assert_ne!(current, Some(object.head.sequence), "the condition holds");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

pub(super) fn closes_and_opens_again(store: Box<dyn Store>, kind: &TestedStore<'_>) {
    let using = BlockingTable::new(store.as_ref(), "kept");
    let large = "l".repeat(kind.value_bytes_max);
    using.put("large", &large);
    using.put("gone", "x");
    using.write(&[delete("gone")]).unwrap();
    let last = using.put("small", "s");
    let head = using.head("small");
    let tables = ["scans", "conditions", "limits", "kept"];
    let contents = |store: &dyn Store| -> Vec<Vec<(String, String)>> {
        tables.iter().map(|name| BlockingTable::new(store, name).scan("", None, false)).collect()
    };
    let before = contents(store.as_ref());
    store.close().unwrap();
    let refused = using.write(&[put("late", "x")]);
    assert!(refused.is_err(), "a closed store takes no writes");
    drop(store);
    let store = (kind.open)();
    assert!(contents(store.as_ref()) == before, "everything is there, and nothing else");
    let using = BlockingTable::new(store.as_ref(), "kept");
    assert_eq!((using.head("small"), using.value("large")), (head, Some(large.into_bytes())));
    assert!(using.get("gone").is_none() && using.get("late").is_none());
    let again = using.put("small", "x");
    assert!(again > last, "sequence numbers go on");
    if !kind.unsupported.contains(&Feature::OneLine) {
        assert!(using.put("next", "x") > again, "over all keys");
    }
    store.close().unwrap();
}
