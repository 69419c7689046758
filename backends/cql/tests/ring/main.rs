//! The store over a real ring of three Cassandra nodes: the common suite of all stores, and the
//! loss of nodes. It is one test, because all steps share one ring, whose nodes take half a minute
//! to start.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]
#![allow(clippy::print_stdout, reason = "it takes minutes, and shows its progress")]

mod apis;
mod foreign_keyspace;
mod histories;
mod http;
mod losses;
mod nodes;
mod passwords;
mod routing;
mod transactions;
mod view;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nodes::Ring;
use pellucid_account::Timeline;
use pellucid_cql::{CqlOptions, CqlStore, CqlTls};
use pellucid_store::suite::{Feature, TestedStore, behaves};
use pellucid_store::{
    Acknowledgement, Condition, Operation, ReplicaQuorum, Result, Store, StoreError, Table,
};
use transactions::Adder;

/// The largest value of the stores under test, in bytes.
const VALUE_BYTES_MAX: usize = 100_000;
/// The longest wait for any event that has to happen, also on a slow machine.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(250);
/// Number of increments of each of the competing writers.
const INCREMENTS: usize = 25;
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
    step("all nodes see each other", view::wait_for_all_views);
    step("the suite of all kinds", suite);
    step("numbers of copies", numbers_of_copies_are_checked);
    step("expired entries", a_put_of_an_expired_entry_succeeds);
    step("several writers in two processes", writers_contend);
    step("histories", histories::reads_see_what_was_acknowledged_before_them);
    step("traces", requests_are_traced);
    step("records of traced requests", apis::records_are_divided);
    step("requests go to who has the key", routing::requests_go_to_who_has_the_key);
    step("TLS", || connections_are_in_tls(&ring.authority));
    step("somebody else's keyspace", foreign_keyspace::a_keyspace_of_somebody_else_is_refused);
    step("entities over HTTP", apis::entities);
    step("documents over HTTP", apis::documents);
    step("documents of two servers", apis::one_server_at_a_time_serves_documents);
    let acknowledged = step("a node dies", || losses::one_node_dies(&mut ring));
    step("another one dies", || losses::another_node_dies(&mut ring, &acknowledged));
    drop(ring);
    step("a password", passwords::only_who_knows_it_is_let_in);
}

/// Calls `look` repeatedly until it returns `Ok`, and returns that value. Fails the test with the
/// last error after [`PATIENCE`].
fn wait_for<T, E: Debug>(mut look: impl FnMut() -> std::result::Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(last) => assert!(begun.elapsed() < PATIENCE, "it does not come: {last:?}"),
        }
        std::thread::sleep(POLL);
    }
}

/// Runs a step, and prints its name and its duration: on a slow machine, the test takes minutes.
fn step<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    println!("ring: {name} …");
    let result = work();
    println!("ring: {name}: {:.1} s", begun.elapsed().as_secs_f64());
    result
}

fn suite() {
    behaves(&TestedStore {
        open: &|| Box::new(CqlStore::open(&options("suite")).unwrap()),
        value_bytes_max: VALUE_BYTES_MAX,
        unsupported: &[
            Feature::Snapshots,
            Feature::ConditionsAcrossParts,
            Feature::LargeBatchesAcrossParts,
        ],
    });
}

/// A store that waits for `ack` of the three copies; `None` if that is the majority, for which
/// stores wait by default.
fn waiting_for(store: &CqlStore, ack: u32) -> Option<Arc<dyn Store>> {
    store.replicated().unwrap().waiting_for(ReplicaQuorum { ack, from: 3 }).unwrap()
}

fn put(store: &dyn Store, table: Table, key: &str) -> Result<()> {
    let operation = Operation::plain(key.as_bytes(), Some(key.as_bytes()));
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
    assert_eq!(store.properties().copies, 3, "as many as there are nodes");
    let other = store.replicated().unwrap().waiting_for(ReplicaQuorum { ack: 1, from: 2 });
    assert!(matches!(other, Err(StoreError::Unacceptable(_))), "`from` is all copies");
    assert!(waiting_for(&store, 2).is_none(), "the majority");
}

/// Regression: of an entry that got a lifetime later, a row without a version stayed after it had
/// expired, and no put of an absent entry succeeded.
fn a_put_of_an_expired_entry_succeeds() {
    let store = CqlStore::open(&options("suite")).unwrap();
    let table = store.table("expired").unwrap();
    put(&store, table, "a").unwrap();
    let write = |condition, lifetime_ms| {
        let operation = Operation { key: b"a", value: Some(b"x"), condition, lifetime_ms };
        store.write(table, &[operation], Acknowledgement::Os, &mut Timeline::off()).wait()
    };
    write(Condition::Present, Some(1_000)).unwrap();
    // The ring has the values for some seconds longer than reads show them.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(get(&store, table, "a").unwrap(), None);
    write(Condition::Absent, None).unwrap();
    assert!(get(&store, table, "a").unwrap().is_some());
}

/// Servers that do not know each other increment one number. The outcome of writes in doubt is
/// looked up, so each increment counts once.
fn writers_contend() {
    let stores: Vec<_> = (0..2).map(|_| CqlStore::open(&options("suite")).unwrap()).collect();
    let mut adders: Vec<_> = stores.iter().chain(&stores).map(Adder::new).collect();
    std::thread::scope(|scope| {
        for adder in &mut adders {
            scope.spawn(|| adder.contend(INCREMENTS));
        }
    });
    Adder::check(&adders);
}

/// TLS connections to all nodes succeed with the name in their certificate, and fail with another.
fn connections_are_in_tls(authority: &str) {
    let within = |name: &str| {
        let tls = CqlTls { authorities_pem: authority.into(), name: Some(name.to_owned()) };
        CqlStore::open(&CqlOptions { tls: Some(tls), ..options("suite") })
    };
    let store = within(nodes::NAME).unwrap();
    let table = store.table("tls").unwrap();
    let all = waiting_for(&store, 3).unwrap();
    for key in 0..20 {
        put(&*all, table, &format!("key {key}")).unwrap();
    }
    assert_eq!(get(&store, table, "key 7").unwrap().unwrap(), b"key 7");
    let other = within("other.example").err().unwrap();
    assert!(matches!(other, StoreError::Unreachable(_)), "{other}");
}

/// The ring traces a sampled share of the requests.
fn requests_are_traced() {
    let store = CqlStore::open(&options("suite")).unwrap();
    let table = store.table("traced").unwrap();
    let figure = |wanted: &str| {
        store.figures().iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value).unwrap()
    };
    wait_for(|| {
        if figure("cql_traced_total") >= 3 && figure("cql_traced_coordinator_us_total") > 0 {
            return Ok(());
        }
        (0..20).for_each(|_| put(&store, table, "traced").unwrap());
        Err(store.figures())
    });
}
