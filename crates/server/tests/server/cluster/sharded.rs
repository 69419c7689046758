//! The store over the nodes of a cluster: the suite that every kind of store passes, on three real
//! nodes, and tests of its own.

use std::time::Duration;

use crate::common::nodes::Nodes;
use crate::common::{PATIENCE, entity, wait_for};
use pellucid_account::Timeline;
use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};
use pellucid_sharded::{ShardedOptions, ShardedStore};
use pellucid_store::suite::{Feature, TestedStore, behaves};
use pellucid_store::{
    Acknowledgement, CopiedTable, Operation, Range, Result, Source, Store, StoreError, Table,
    WriteOutcome, compare, copy,
};
use tempfile::TempDir;

/// The largest value of the stores under test, in bytes.
const VALUE_BYTES_MAX: usize = 100_000;

/// The table behind the entity API.
const ENTITIES: &str = "entities";

fn sharded(nodes: &Nodes, wait: Duration) -> ShardedStore {
    let options = ShardedOptions::new(nodes.list.clone());
    let options = ShardedOptions { wait, value_bytes_max: VALUE_BYTES_MAX, ..options };
    ShardedStore::open(options).unwrap()
}

fn put(store: &dyn Store, table: Table, keys: &[&str]) -> Result<WriteOutcome> {
    let operations: Vec<_> =
        keys.iter().map(|key| Operation::plain(key.as_bytes(), Some(b"value"))).collect();
    store.write(table, &operations, Acknowledgement::Os, &mut Timeline::off()).wait()
}

#[test]
fn the_sharded_store_passes_the_suite() {
    let nodes = Nodes::start(3, |_| {});
    behaves(&TestedStore {
        open: &|| Box::new(sharded(&nodes, PATIENCE)),
        value_bytes_max: VALUE_BYTES_MAX,
        unsupported: &[
            Feature::Snapshots,
            Feature::ConditionsAcrossParts,
            Feature::LargeBatchesAcrossParts,
            Feature::BatchesAcrossParts,
            Feature::OneLine,
        ],
    });
}

#[test]
fn entities_are_stored_where_nodes_look_for_them() {
    let nodes = Nodes::start(3, |_| {});
    let store = sharded(&nodes, PATIENCE);
    let table = store.table(ENTITIES).unwrap();
    for owner in 0..3 {
        let key = nodes.key_of(owner);
        let written = put(&store, table, &[&key]).unwrap();
        let mut client = nodes.client(owner);
        let got = client.get(&entity(&key));
        assert_eq!((got.text(), got.etag()), ("value", format!("\"{}\"", written.sequence)));
        assert!(client.get("/v0/entities?start=key").text().contains(&format!("{key}\nvalue")));
    }
    let (one, other) = (nodes.key_of(0), nodes.key_of(1));
    let Err(StoreError::Unacceptable(what)) = put(&store, table, &[&one, &other]) else { panic!() };
    for node in [0, 1] {
        assert!(what.contains(&nodes.nodes[node].address.to_string()), "{what}");
    }
    let long = vec![b'x'; 2_000];
    let range = Range { start: &long, end: None, reverse: false };
    assert!(matches!(store.scan(table, range), Err(StoreError::Unacceptable(_))));
}

#[test]
fn a_node_that_is_away_fails_only_its_keys() {
    let mut nodes = Nodes::start(3, |_| {});
    let store = sharded(&nodes, PATIENCE);
    let table = store.table(ENTITIES).unwrap();
    let keys = [0, 1, 2].map(|owner| nodes.key_of(owner));
    for key in &keys {
        put(&store, table, &[key]).unwrap();
    }
    nodes.stop(2);
    // A read may still be under way when the connection breaks; all later ones fail at once.
    wait_for(|| put(&store, table, &[&keys[2]]).err().ok_or("it is there"));
    let Err(StoreError::Unreachable(what)) = put(&store, table, &[&keys[2]]) else { panic!() };
    assert!(what.contains(&nodes.nodes[2].address.to_string()), "{what}");
    put(&store, table, &[&keys[0]]).unwrap();
    put(&store, table, &[&keys[1]]).unwrap();
    let all = Range { start: b"", end: None, reverse: false };
    let mut scan = store.scan(table, all).unwrap();
    assert!(matches!(scan.next(), Err(StoreError::Unreachable(_))), "a range that lacks a node");
    assert!(scan.next().is_err(), "it stays so");
    nodes.start_again(2);
    wait_for(|| put(&store, table, &[&keys[2]]));
}

/// Callers that wait for an answer get an error, and none waits forever.
#[test]
fn closing_the_store_ends_all_waits() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let list = crate::common::nodes::list_of(&[silent.local_addr().unwrap()]);
    let options = ShardedOptions { wait: PATIENCE, ..ShardedOptions::new(list) };
    let store = ShardedStore::open(options).unwrap();
    let table = store.table(ENTITIES).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.get(table, b"key", &mut Timeline::off()).wait());
        // The store is closed before the ask, or while it waits for a node that never answers.
        store.close().unwrap();
        assert!(matches!(waiting.join().unwrap(), Err(StoreError::Unreachable(_))));
    });
    assert!(matches!(put(&store, table, &["key"]), Err(StoreError::ReadOnly(_))));
    assert!(store.get(table, b"key", &mut Timeline::off()).wait().is_err());
}

#[test]
fn a_folder_is_copied_to_a_cluster_and_back() {
    fn source(store: &dyn Store) -> Source<'_> {
        Source { store, identity: "the only one" }
    }
    let nodes = Nodes::start(2, |_| {});
    let entities = CopiedTable { name: ENTITIES, part_of: None };
    let folders = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let [from, back] = folders
        .each_ref()
        .map(|folder| EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap());
    let table = from.table(ENTITIES).unwrap();
    for number in 0..500 {
        put(&from, table, &[&format!("k{number:04}")]).unwrap();
    }
    let lasting =
        Operation { lifetime_ms: Some(86_400_000), ..Operation::plain(b"lasting", Some(b"value")) };
    from.write(table, &[lasting], Acknowledgement::Os, &mut Timeline::off()).wait().unwrap();
    let cluster = sharded(&nodes, PATIENCE);
    assert_eq!(copy(&source(&from), &cluster, entities, &mut |_| {}).unwrap().entries, 501);
    compare(&from, &cluster, entities, &mut |_| {}).unwrap();
    assert_eq!(copy(&source(&cluster), &back, entities, &mut |_| {}).unwrap().entries, 501);
    compare(&from, &back, entities, &mut |_| {}).unwrap();
    // The copy has the rest of the entry's lifetime.
    let range = Range { start: b"lasting", end: None, reverse: false };
    let mut scan = back.scan(back.table(ENTITIES).unwrap(), range).unwrap();
    scan.next().unwrap().unwrap();
    assert!(scan.expires_at_ms().is_some());
}
