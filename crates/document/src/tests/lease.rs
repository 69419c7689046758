//! Tests of several processes on one store: one of them serves the documents, and another one takes
//! over when it ends.

use std::sync::Arc;
use std::time::Duration;

use pellucid_account::Timeline;
use pellucid_clock::{Clock, SimulatedClock};
use pellucid_embedded::EmbeddedStore;
use pellucid_io::pass_on;
use pellucid_io::simulated::SimulatedFileSystem;
use pellucid_store::{
    Acknowledgement, Answer, Head, KEY_LENGTH_MAX, Object, Operation, Properties, Range,
    ReplicatedStore, Result as StoreResult, Scan, Snapshot, Store, Table, WriteOutcome,
};
use pellucid_thread::Mutex;
use pellucid_value::Value;

use super::{Step, agree, apply, make, query, store};
use crate::layout::{contents_prefix, part_of};
use crate::lease::{FREE_AFTER, Lease, SERVES_FOR};
use crate::{Documents, ErrorNumber, drop_index};

/// The keys at which scans began.
type ScanStarts = Arc<Mutex<Vec<Vec<u8>>>>;

/// A store to which other processes write as well, and which takes no batch of several parts.
struct SharedStore {
    store: EmbeddedStore,
    starts: ScanStarts,
}

impl Store for SharedStore {
    pass_on! { store:
        fn table(name: &str) -> StoreResult<Table>;
        fn get(table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Object>>;
        fn head(table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Head>>;
        fn properties() -> Properties;
        fn figures() -> Vec<(&'static str, u64)>;
        fn close() -> StoreResult<()>;
    }

    fn scan(&self, table: Table, range: Range<'_>) -> StoreResult<Box<dyn Scan>> {
        self.starts.lock().push(range.start.to_vec());
        self.store.scan(table, range)
    }

    fn snapshot(&self) -> StoreResult<Arc<dyn Snapshot>> {
        Ok(Arc::new(SharedSnapshot(self.store.snapshot()?)))
    }

    fn write(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Answer<WriteOutcome> {
        let mut parts: Vec<_> =
            operations.iter().map(|each| &each.key[..part_of(each.key)]).collect();
        parts.dedup();
        assert!(parts.len() <= 1, "a batch is within one part: {parts:?}");
        self.store.write(table, operations, acknowledgement, timeline)
    }

    fn replicated(&self) -> Option<&dyn ReplicatedStore> {
        Some(self)
    }
}

/// A snapshot of the store, whose scans take no bound that is longer than a key.
struct SharedSnapshot(Arc<dyn Snapshot>);

impl Snapshot for SharedSnapshot {
    pass_on! { 0:
        fn sequence() -> u64;
        fn get(table: Table, key: &[u8], timeline: &mut Timeline) -> StoreResult<Option<Object>>;
        fn scan_prefix(table: Table, prefix: &[u8], reverse: bool) -> StoreResult<Box<dyn Scan>>;
    }

    fn scan(&self, table: Table, range: Range<'_>) -> StoreResult<Box<dyn Scan>> {
        let longest = range.start.len().max(range.end.map_or(0, <[u8]>::len));
        assert!(longest <= KEY_LENGTH_MAX, "a bound of {longest} bytes");
        self.0.scan(table, range)
    }
}

impl ReplicatedStore for SharedStore {
    fn sequence_now(&self) -> Option<u64> {
        self.store.snapshot().ok().map(|now| now.sequence())
    }
}

/// Processes that share a store and a simulated clock.
struct Processes {
    store: Arc<dyn Store>,
    starts: ScanStarts,
    time: &'static SimulatedClock,
}

impl Processes {
    fn new() -> Processes {
        let (store, starts) = (store(&SimulatedFileSystem::new()).unwrap(), ScanStarts::default());
        let store = Arc::new(SharedStore { store, starts: Arc::clone(&starts) });
        Processes { store, starts, time: SimulatedClock::leaked(1) }
    }

    fn lease(&self, name: &str) -> Arc<Lease> {
        let lease = Lease::of(&self.store, name, Clock::simulated(self.time)).unwrap();
        Arc::new(lease.expect("others write to the store"))
    }

    fn documents(&self, lease: &Arc<Lease>) -> Arc<Documents> {
        let (store, lease) = (Arc::clone(&self.store), Some(Arc::clone(lease)));
        Arc::new(Documents::open_with(store, lease, None).unwrap())
    }

    fn wait(&self, time: Duration) {
        self.time.advance_ns(u64::try_from(time.as_nanos()).unwrap());
    }
}

#[test]
fn a_store_of_one_process_needs_no_lease() {
    let store: Arc<dyn Store> = Arc::new(store(&SimulatedFileSystem::new()).unwrap());
    assert!(Lease::of(&store, "alone", Clock::monotonic()).unwrap().is_none());
}

#[test]
fn one_process_at_a_time_has_the_lease_and_another_takes_it_when_it_is_not_renewed() {
    let processes = Processes::new();
    let (first, second) = (processes.lease("the first"), processes.lease("the second"));
    first.look().unwrap();
    second.look().unwrap();
    assert!(first.is_ours() && !second.is_ours());
    let refusal = second.refusal();
    assert_eq!(refusal.number, ErrorNumber::HTTP_SERVICE_UNAVAILABLE);
    assert!(refusal.message.contains("served by the first"), "{refusal}");
    // As long as the first process renews the lease, it keeps it.
    for _ in 0..20 {
        processes.wait(SERVES_FOR / 2);
        first.look().unwrap();
        second.look().unwrap();
        assert!(first.is_ours() && !second.is_ours());
    }
    // The first process renews it late, but before another one takes it.
    processes.wait(SERVES_FOR);
    second.look().unwrap();
    assert!(!first.is_ours() && !second.is_ours(), "what was begun has time to end");
    first.look().unwrap();
    assert!(first.is_ours());
    second.look().unwrap();
    processes.wait(FREE_AFTER / 2);
    second.look().unwrap();
    assert!(!second.is_ours());
    processes.wait(FREE_AFTER / 2);
    second.look().unwrap();
    assert!(second.is_ours() && !first.is_ours());
    first.look().unwrap();
    let refusal = first.refusal();
    assert!(refusal.message.contains("lost") && refusal.message.contains("the second"));
    // The first process never takes it again, because its catalogue is out of date.
    processes.wait(FREE_AFTER * 3);
    first.look().unwrap();
    assert!(!first.is_ours());
}

/// Regression: a start that failed after it had taken the lease kept all others from the documents
/// until the lease ran out.
#[test]
fn a_failed_start_leaves_no_lease_behind() {
    let processes = Processes::new();
    let failing = processes.lease("the first");
    failing.look().unwrap();
    assert!(failing.is_ours());
    drop(failing);
    let second = processes.lease("the second");
    second.look().unwrap();
    assert!(second.is_ours());
}

/// Regression: a server that stopped beside a write that did not end released the lease, so the
/// next server read the documents before that write was made.
#[test]
fn a_process_that_stops_beside_its_writes_is_followed_only_after_them() {
    let processes = Processes::new();
    let (one, other) = (processes.lease("the first"), processes.lease("the second"));
    one.look().unwrap();
    let first = processes.documents(&one);
    first.abandon();
    assert!(first.database("_system").is_err() && first.note_counts().is_err());
    drop((first, one));
    other.look().unwrap();
    processes.wait(FREE_AFTER / 2);
    other.look().unwrap();
    assert!(!other.is_ours());
    processes.wait(FREE_AFTER / 2);
    other.look().unwrap();
    assert!(other.is_ours());
}

#[test]
fn documents_are_served_by_one_process_and_then_by_the_next() {
    let processes = Processes::new();
    let (one, other) = (processes.lease("the first"), processes.lease("the second"));
    one.look().unwrap();
    other.look().unwrap();
    let (first, second) = (processes.documents(&one), processes.documents(&other));
    let collection = make(&first).unwrap();
    let insert = |key: &str| Step::Insert(key.to_owned(), serde_json::json!({"a": key}));
    apply(&first, &collection, &insert("k")).unwrap();
    let refused = second.database("_system").unwrap_err();
    assert_eq!(refused.number, ErrorNumber::HTTP_SERVICE_UNAVAILABLE);
    assert!(refused.message.contains("served by the first"), "{refused}");
    assert_eq!(second.serve().unwrap_err(), refused);
    assert!(second.create_database("mine").is_err() && second.note_counts().is_err());
    first.note_counts().unwrap();
    first.release();
    let late = apply(&first, &collection, &insert("late")).unwrap_err();
    assert_eq!(late.number, ErrorNumber::HTTP_SERVICE_UNAVAILABLE);
    assert!(first.database("_system").is_err());
    other.look().unwrap();
    let early = second.database("_system").unwrap_err();
    assert!(early.message.contains("being opened"), "{early}");
    second.serve().unwrap();
    let database = second.database("_system").unwrap();
    let found = database.collection("c").unwrap();
    assert_eq!(agree(&second, &found).len(), 1, "and its entries of indexes");
    assert!(second.next_tick().unwrap() > first.next_tick().unwrap(), "no number comes twice");
}

/// Regression: a process that had just taken the lease made a database before it had loaded those
/// in the store: under a name or a number that another one had.
#[test]
fn no_database_is_made_before_those_in_the_store_are_loaded() {
    let processes = Processes::new();
    let (one, other) = (processes.lease("the first"), processes.lease("the second"));
    one.look().unwrap();
    other.look().unwrap();
    let (first, second) = (processes.documents(&one), processes.documents(&other));
    first.create_database("mine").unwrap();
    first.release();
    other.look().unwrap();
    let early = second.create_database("mine").unwrap_err();
    assert_eq!(early.number, ErrorNumber::HTTP_SERVICE_UNAVAILABLE);
    second.serve().unwrap();
    let late = second.create_database("mine").unwrap_err();
    assert_eq!(late.number, ErrorNumber::DUPLICATE_NAME);
}

/// Regression: the last keys of a prefix were removed in one batch with its mark, which is in
/// another part. A ring refused that, so no garbage was ever removed. Also, each step passed all
/// that the steps before had removed, at which a ring fails.
#[test]
fn garbage_is_removed_part_by_part_and_each_step_goes_on_behind_the_one_before() {
    let processes = Processes::new();
    let (one, other) = (processes.lease("the first"), processes.lease("the second"));
    one.look().unwrap();
    let first = processes.documents(&one);
    let collection = make(&first).unwrap();
    for hundred in 0..25 {
        let line = |number| (format!("{hundred}-{number}"), serde_json::json!({}));
        apply(&first, &collection, &Step::Import((0..100).map(line).collect())).unwrap();
    }
    let index = collection.shape().indexes[0].definition.id;
    drop_index(&first, &collection, index).unwrap();
    first.drop_collection(&first.database("_system").unwrap(), &collection).unwrap();
    processes.starts.lock().clear();
    assert!(first.remove_garbage().unwrap() && first.remove_garbage().unwrap());
    let mut starts = processes.starts.lock().clone();
    first.release();
    other.look().unwrap();
    let second = processes.documents(&other);
    processes.starts.lock().clear();
    while second.remove_garbage().unwrap() {}
    starts.append(&mut processes.starts.lock());
    starts.retain(|start| start.starts_with(&contents_prefix()));
    assert!(starts.len() > 4 && starts.is_sorted_by(|last, next| last < next), "{starts:?}");
    assert!(second.storage().reader().garbage().unwrap().is_empty());
}

/// Regression: a text longer than a key went to the store as a bound, which a ring refuses.
#[test]
fn a_text_longer_than_a_key_bounds_the_keys() {
    let processes = Processes::new();
    let lease = processes.lease("the first");
    lease.look().unwrap();
    let documents = processes.documents(&lease);
    let collection = make(&documents).unwrap();
    for (key, a) in [("w", 1), (&*"x".repeat(254), 2), ("y", 3)] {
        let step = Step::Insert(key.to_owned(), serde_json::json!({ "a": a }));
        apply(&documents, &collection, &step).unwrap();
    }
    let binds = serde_json::json!({ "k": "x".repeat(70_000) });
    for (rest, expected) in [
        ("FILTER d._key < @k", vec![1_i64, 2]),
        ("FILTER d._key <= @k SORT d._key DESC", vec![2, 1]),
        ("FILTER d._key > @k", vec![3]),
        ("FILTER d._key >= @k && d._key < 'z'", vec![3]),
        ("FILTER d._key > @k && d._key < @k", vec![]),
        ("FILTER STARTS_WITH(d._key, @k)", vec![]),
    ] {
        let found = query(&documents, &format!("FOR d IN c {rest} RETURN d.a"), &binds);
        let expected: Vec<_> = expected.into_iter().map(Value::from).collect();
        assert_eq!(found, expected, "{rest}");
    }
}
