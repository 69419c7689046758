//! What every kind of store has to do, in one function; each kind runs it.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::path::Path;

use pellucid_account::Timeline;
use pellucid_clock::Clock;
use pellucid_store::{
    Acknowledgement, Condition, EmbeddedOptions, EmbeddedStore, Head, KEY_LENGTH_MAX, Object,
    Operation, Range, Result, Store, StoreError, Table, Written,
};
use tempfile::TempDir;

/// The largest value of the stores under test, in bytes.
const VALUE_BYTES_MAX: usize = 100_000;

/// A store, opened anew as often as it is asked for.
type Open<'a> = &'a dyn Fn() -> Box<dyn Store>;

/// One table of a store, with answers waited for.
struct Using<'a> {
    store: &'a dyn Store,
    table: Table,
}

impl<'a> Using<'a> {
    fn new(store: &'a dyn Store, table: &str) -> Using<'a> {
        Using { store, table: store.table(table).unwrap() }
    }

    fn get(&self, key: impl AsRef<[u8]>) -> Option<Object> {
        self.store.get(self.table, key.as_ref(), &mut Timeline::off()).wait().unwrap()
    }

    fn value(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        self.get(key).map(|object| object.value.to_vec())
    }

    fn head(&self, key: impl AsRef<[u8]>) -> Option<Head> {
        self.store.head(self.table, key.as_ref(), &mut Timeline::off()).wait().unwrap()
    }

    fn write(&self, operations: &[Operation<'_>]) -> Result<Written> {
        let (acknowledgement, mut timeline) = (Acknowledgement::Os, Timeline::off());
        self.store.write(self.table, operations, acknowledgement, &mut timeline).wait()
    }

    fn put(&self, key: &str, value: &str) -> u64 {
        self.write(&[put(key, value)]).unwrap().sequence
    }

    fn scan(&self, start: &str, end: Option<&str>, reverse: bool) -> Vec<(String, String)> {
        let range = Range { start: start.as_bytes(), end: end.map(str::as_bytes), reverse };
        let mut scan = self.store.scan(self.table, range).unwrap();
        let mut entries = Vec::new();
        while let Some((key, object)) = scan.next().unwrap() {
            let key = String::from_utf8(key.to_vec()).unwrap();
            entries.push((key, String::from_utf8(object.value.to_vec()).unwrap()));
        }
        entries
    }

    fn keys(&self, start: &str, end: Option<&str>, reverse: bool) -> String {
        self.scan(start, end, reverse).into_iter().map(|(key, _)| key + " ").collect()
    }
}

fn put<'a>(key: &'a str, value: &'a str) -> Operation<'a> {
    let (key, value) = (key.as_bytes(), Some(value.as_bytes()));
    Operation { key, value, condition: Condition::None, lifetime_ms: None }
}

fn delete(key: &str) -> Operation<'_> {
    Operation { key: key.as_bytes(), value: None, condition: Condition::None, lifetime_ms: None }
}

fn when(operation: Operation<'_>, condition: Condition) -> Operation<'_> {
    Operation { condition, ..operation }
}

/// All of it: what the APIs above rely on, whichever store they are on.
fn behaves(open: Open<'_>) {
    let store = open();
    reads_and_writes(&Using::new(store.as_ref(), "reads and writes"));
    conditions(&Using::new(store.as_ref(), "conditions"));
    batches(&Using::new(store.as_ref(), "batches"));
    limits(&Using::new(store.as_ref(), "limits"));
    scans(&Using::new(store.as_ref(), "scans"));
    snapshots(&Using::new(store.as_ref(), "snapshots"));
    tables(store.as_ref());
    acknowledgements(&Using::new(store.as_ref(), "acknowledgements"));
    figures(store.as_ref());
    concurrent_increments(store.as_ref());
    closes_and_opens_again(store, open);
}

fn reads_and_writes(using: &Using<'_>) {
    assert!(using.get("a").is_none() && using.head("a").is_none());
    let before_ms = Clock::system().wall().unix_ms();
    let first = using.put("a", "one");
    let object = using.get("a").unwrap();
    assert_eq!((&*object.value, object.head.sequence), (&b"one"[..], first));
    assert_eq!(object.head.value_length, 3);
    let now_ms = Clock::system().wall().unix_ms();
    assert!((before_ms..=now_ms).contains(&object.head.written_at_ms));
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
    let operation =
        Operation { key, value: Some(key), condition: Condition::None, lifetime_ms: None };
    using.write(&[operation]).unwrap();
    assert_eq!(using.value(key).unwrap(), key);
    assert!(using.value([0, 255, b'\n']).is_none(), "a prefix is another key");
    assert_eq!(*object.value, *b"one", "what was read stays readable");
}

fn fails_with_current(result: Result<Written>, index: usize, current: Option<u64>) {
    assert_eq!(result, Err(StoreError::ConditionFailed { index, current }));
}

fn conditions(using: &Using<'_>) {
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

fn batches(using: &Using<'_>) {
    using.put("old", "x");
    let written = using.write(&[put("a", "1"), delete("old"), put("b", "2"), put("a", "3")]);
    assert_eq!(using.value("a").unwrap(), b"3", "the last one about a key stands");
    assert_eq!(using.head("a").unwrap().sequence, written.unwrap().sequence);
    assert_eq!(using.keys("", None, false), "a b ");
    let bad = [put("a", "4"), put("c", "4"), when(put("b", "4"), Condition::Absent), delete("a")];
    let current = using.head("b").map(|head| head.sequence);
    fails_with_current(using.write(&bad), 2, current);
    assert_eq!(using.scan("", None, false), pairs(&[("a", "3"), ("b", "2")]));
    let many: Vec<String> = (0..5_000).map(|index| format!("many {index:05}")).collect();
    let operations: Vec<_> = many.iter().map(|key| put(key, key)).collect();
    using.write(&operations).unwrap();
    let found = using.scan("many", Some("many:"), false);
    assert!(found.iter().map(|(key, _)| key).eq(&many));
    assert!(found.iter().all(|(key, value)| key == value));
}

fn pairs(entries: &[(&str, &str)]) -> Vec<(String, String)> {
    entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

fn is_unacceptable(result: Result<Written>) {
    let Err(StoreError::Unacceptable(text)) = result else { panic!("{result:?}") };
    assert!(text.len() > 10, "{text}");
}

fn limits(using: &Using<'_>) {
    assert_eq!(using.store.value_bytes_max(), VALUE_BYTES_MAX);
    let longest_key = "k".repeat(KEY_LENGTH_MAX);
    using.put(&longest_key, "fits");
    assert_eq!(using.value(&longest_key).unwrap(), b"fits");
    let longest_value = "v".repeat(VALUE_BYTES_MAX);
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

fn scans(using: &Using<'_>) {
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

/// A scan is of the moment at which it began, whatever is written while it goes on.
fn snapshots(using: &Using<'_>) {
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

fn tables(store: &dyn Store) {
    let (one, other) = (Using::new(store, "one"), Using::new(store, "other"));
    assert_ne!(one.table, other.table);
    assert_eq!(one.table, Using::new(store, "one").table, "a name is one table");
    one.put("k", "1");
    assert!(other.get("k").is_none());
    other.put("k", "2");
    other.put("l", "2");
    assert_eq!(one.scan("", None, false), pairs(&[("k", "1")]));
    assert_eq!(other.keys("", None, true), "l k ");
    one.write(&[delete("k")]).unwrap();
    assert_eq!(other.value("k").unwrap(), b"2");
}

fn acknowledgements(using: &Using<'_>) {
    for acknowledgement in [Acknowledgement::Memory, Acknowledgement::Os, Acknowledgement::Disk] {
        let operations = [put("a", "x"), put("b", "y")];
        let mut timeline = Timeline::off();
        let answer = using.store.write(using.table, &operations, acknowledgement, &mut timeline);
        let written = answer.wait().unwrap();
        assert_eq!(using.head("b").unwrap().sequence, written.sequence, "{acknowledgement:?}");
    }
}

fn figures(store: &dyn Store) {
    assert!(store.copies() >= 1);
    let figures = store.figures();
    let mut names: Vec<_> = figures.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), figures.len(), "a name comes once");
    let good = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    assert!(names.into_iter().all(good));
}

/// An increment that overwrote another would be missing from the sum.
fn concurrent_increments(store: &dyn Store) {
    let table = Using::new(store, "increments");
    table.put("sum", "0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let using = Using::new(store, "increments");
                (0..100).for_each(|_| increment(&using));
            });
        }
    });
    assert_eq!(table.value("sum").unwrap(), b"400");
}

fn increment(using: &Using<'_>) {
    loop {
        let object = using.get("sum").unwrap();
        let sum: u64 = std::str::from_utf8(&object.value).unwrap().parse().unwrap();
        let next = (sum + 1).to_string();
        let condition = Condition::Sequence(object.head.sequence);
        match using.write(&[when(put("sum", &next), condition)]) {
            Ok(_) => return,
            Err(StoreError::ConditionFailed { index: 0, current }) => {
                assert_ne!(current, Some(object.head.sequence), "it would have held");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn closes_and_opens_again(store: Box<dyn Store>, open: Open<'_>) {
    let using = Using::new(store.as_ref(), "kept");
    let large = "l".repeat(VALUE_BYTES_MAX);
    using.put("large", &large);
    using.put("gone", "x");
    using.write(&[delete("gone")]).unwrap();
    let last = using.put("small", "s");
    let head = using.head("small");
    let tables = ["scans", "batches", "limits", "kept"];
    let contents = |store: &dyn Store| -> Vec<Vec<(String, String)>> {
        tables.iter().map(|name| Using::new(store, name).scan("", None, false)).collect()
    };
    let before = contents(store.as_ref());
    store.close().unwrap();
    let refused = using.write(&[put("late", "x")]);
    assert!(refused.is_err(), "a closed store takes no writes");
    drop(store);
    let store = open();
    assert!(contents(store.as_ref()) == before, "everything is there, and nothing else");
    let using = Using::new(store.as_ref(), "kept");
    assert_eq!((using.head("small"), using.value("large")), (head, Some(large.into_bytes())));
    assert!(using.get("gone").is_none() && using.get("late").is_none());
    assert!(using.put("next", "x") > last, "sequence numbers go on");
    store.close().unwrap();
}

fn embedded(folder: &Path, memory_bytes: u64) -> Box<dyn Store> {
    let value_bytes_max = VALUE_BYTES_MAX;
    let options = EmbeddedOptions { memory_bytes, value_bytes_max, ..EmbeddedOptions::default() };
    Box::new(EmbeddedStore::open(folder, options).unwrap())
}

#[test]
fn the_embedded_store_behaves() {
    let folder = TempDir::new().unwrap();
    behaves(&|| embedded(folder.path(), EmbeddedOptions::default().memory_bytes));
}

/// So little memory that tables are written and merged all the while.
#[test]
fn the_embedded_store_behaves_with_little_memory() {
    let folder = TempDir::new().unwrap();
    behaves(&|| embedded(folder.path(), 256 << 10));
}

#[test]
fn a_folder_is_open_once() {
    let folder = TempDir::new().unwrap();
    let first = embedded(folder.path(), 1 << 20);
    let options = EmbeddedOptions::default();
    let Err(error) = EmbeddedStore::open(folder.path(), options) else { panic!("opened twice") };
    assert!(error.to_string().contains("already open"), "{error}");
    first.close().unwrap();
    drop(first);
    drop(embedded(folder.path(), 1 << 20));
}
