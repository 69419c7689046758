//! The store over a real ring of three Cassandra nodes: the suite of all kinds, and the loss of
//! nodes. One test, because there is one ring, and its nodes take half a minute to start.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::Ring;
use pellucid_account::Timeline;
use pellucid_cql::{CqlOptions, CqlStore};
use pellucid_store::suite::{Feature, Kind, behaves};
use pellucid_store::{
    Acknowledgement, Condition, Copies, Operation, Result, Store, StoreError, Table,
};

/// The largest value of the stores under test, in bytes.
const VALUE_BYTES_MAX: usize = 100_000;
/// The longest wait for what has to come to pass, however slow the machine is.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(250);
/// Threads that load the ring while a node dies.
const CLIENTS: usize = 4;
/// Writes of each of them before the node dies, and after it is dead.
const WRITES: usize = 150;

fn options(keyspace: &str) -> CqlOptions {
    CqlOptions {
        keyspace: keyspace.to_owned(),
        replication: Some(3),
        buckets: 8,
        timeout: Duration::from_secs(30),
        trace_share: 0.05,
        value_bytes_max: VALUE_BYTES_MAX,
        ..CqlOptions::new(Ring::addresses())
    }
}

#[test]
fn a_ring() {
    let mut ring = Ring::start();
    wait_for_all_copies();
    behaves(&Kind {
        open: &|| Box::new(CqlStore::open(&options("suite")).unwrap()),
        value_bytes_max: VALUE_BYTES_MAX,
        unsupported: &[
            Feature::Snapshots,
            Feature::ConditionsAcrossParts,
            Feature::LargeBatchesAcrossParts,
        ],
    });
    numbers_of_copies_are_checked();
    requests_are_traced();
    nodes_die(&mut ring);
}

/// A ring that has just begun may not have all nodes in everybody's view.
fn wait_for_all_copies() {
    let begun = Instant::now();
    loop {
        let written = CqlStore::open(&options("suite")).and_then(|store| {
            let all = Copies { ack: 3, from: 3 };
            let table = store.table("first")?;
            put(&*store.waiting_for(all)?.unwrap(), table, "first")
        });
        match written {
            Ok(()) => return,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(POLL);
    }
}

fn put(store: &dyn Store, table: Table, key: &str) -> Result<()> {
    let (key, value) = (key.as_bytes(), Some(key.as_bytes()));
    let operation = Operation { key, value, condition: Condition::None, lifetime_ms: None };
    let answer = store.write(table, &[operation], Acknowledgement::Os, &mut Timeline::off());
    answer.wait().map(|_| ())
}

fn get(store: &dyn Store, table: Table, key: &str) -> Result<Option<Vec<u8>>> {
    let answer = store.get(table, key.as_bytes(), &mut Timeline::off());
    Ok(answer.wait()?.map(|object| object.value.to_vec()))
}

fn numbers_of_copies_are_checked() {
    let usual = CqlOptions { replication: None, ..options("usual") };
    let store = CqlStore::open(&usual).unwrap();
    assert_eq!(store.copies(), 3, "as many as there are nodes");
    let other = store.waiting_for(Copies { ack: 1, from: 2 });
    assert!(matches!(other, Err(StoreError::Unacceptable(_))), "`from` is all copies");
    assert!(store.waiting_for(Copies { ack: 2, from: 3 }).unwrap().is_none(), "the majority");
}

/// The ring tells where the time of a sampled share went.
fn requests_are_traced() {
    let store = CqlStore::open(&options("suite")).unwrap();
    let table = store.table("traced").unwrap();
    let figure = |wanted: &str| {
        store.figures().iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value).unwrap()
    };
    let begun = Instant::now();
    while figure("cql_traced_total") < 3 || figure("cql_traced_coordinator_us_total") == 0 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", store.figures());
        (0..20).for_each(|_| put(&store, table, "traced").unwrap());
        std::thread::sleep(POLL);
    }
}

/// What one client of the load did.
struct Client<'a> {
    number: usize,
    store: &'a dyn Store,
    table: Table,
    acknowledged: Vec<String>,
}

impl Client<'_> {
    /// Writes and reads what it wrote, until it has written so often after `is_dead`.
    fn load(mut self, is_dead: &AtomicBool, before: &AtomicUsize) -> Vec<String> {
        let (mut index, mut after) = (0, 0);
        while after < WRITES {
            let key = format!("{} {index:06}", self.number);
            let began_after = is_dead.load(Ordering::SeqCst);
            let written = put(self.store, self.table, &key);
            let read = written.and_then(|()| {
                self.acknowledged.push(key.clone());
                get(self.store, self.table, &key)
            });
            match read {
                Ok(found) => assert_eq!(found.as_deref(), Some(key.as_bytes())),
                Err(error) if began_after => panic!("begun after the node was dead: {error}"),
                Err(_) => {}
            }
            index += 1;
            after += usize::from(began_after);
            before.fetch_add(usize::from(!began_after), Ordering::SeqCst);
        }
        self.acknowledged
    }
}

fn nodes_die(ring: &mut Ring) {
    let store: Arc<dyn Store> = Arc::new(CqlStore::open(&options("loss")).unwrap());
    let table = store.table("loss").unwrap();
    let (is_dead, before) = (AtomicBool::new(false), AtomicUsize::new(0));
    let acknowledged: Vec<String> = std::thread::scope(|scope| {
        let client = |number| Client { number, store: &*store, table, acknowledged: Vec::new() };
        let (is_dead, before) = (&is_dead, &before);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| scope.spawn(move || client(number).load(is_dead, before)))
            .collect();
        let begun = Instant::now();
        while before.load(Ordering::SeqCst) < CLIENTS * WRITES {
            assert!(begun.elapsed() < PATIENCE || clients.iter().any(|one| !one.is_finished()));
            std::thread::sleep(POLL);
        }
        ring.kill(3);
        is_dead.store(true, Ordering::SeqCst);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    assert!(acknowledged.len() >= 2 * CLIENTS * WRITES);
    for key in &acknowledged {
        let found = get(&*store, table, key).unwrap();
        assert_eq!(found.as_deref(), Some(key.as_bytes()), "{key} was acknowledged");
    }
    ring.kill(2);
    let refused = put(&*store, table, "two are dead");
    let Err(StoreError::Unreachable(what)) = refused else { panic!("{refused:?}") };
    assert!(what.contains("copies") || what.contains("answer"), "{what}");
    let one = store.waiting_for(Copies { ack: 1, from: 3 }).unwrap().unwrap();
    let begun = Instant::now();
    // The node that is left learns only after seconds that it is alone.
    while put(&*one, table, "by one").and_then(|()| get(&*one, table, "by one")).is_err() {
        assert!(begun.elapsed() < PATIENCE, "one copy is enough");
    }
    for key in acknowledged.iter().step_by(acknowledged.len() / 50) {
        let found = get(&*one, table, key).unwrap();
        assert!(found.is_none_or(|found| found == key.as_bytes()), "one copy may be behind");
    }
    let refused = get(&*store, table, "by one");
    assert!(matches!(refused, Err(StoreError::Unreachable(_))), "{refused:?}");
}
