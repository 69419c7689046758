//! Contents and settings that keep a store from becoming a node of a cluster, because entries would
//! be out of reach afterwards.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::nodes::{
    Nodes, free_addresses, is_one_down, keys_at, list_of, options, try_start,
};
use crate::common::{Client, PATIENCE, entity, wait_until};
use pellucid_account::Timeline;
use pellucid_embedded::{EmbeddedOptions, EmbeddedStore};
use pellucid_server::ServerOptions;
use pellucid_sharded::{ShardedOptions, ShardedStore};
use pellucid_store::{Acknowledgement, Operation, Store};
use tempfile::TempDir;

fn put(store: &dyn Store, table: &str, key: &str) {
    let table = store.table(table).unwrap();
    let operation = Operation::plain(key.as_bytes(), Some(b"value"));
    let written = store.write(table, &[operation], Acknowledgement::Os, &mut Timeline::off());
    written.wait().unwrap();
}

/// Starts a server outside a cluster for one call. Returns the status of the answer.
fn call_alone(
    folder: &TempDir,
    address: SocketAddr,
    method: &str,
    target: &str,
    body: &[u8],
) -> u16 {
    let mut alone = ServerOptions::new(folder.path().to_owned());
    alone.listen = vec![address.into()];
    let (server, _) = try_start(alone).unwrap();
    let status = Client::connect(address).call(method, target, &[], body).status;
    server.stop().unwrap();
    status
}

/// Regression: such a store started as a node, and its documents were answered with 501 from then
/// on.
#[test]
fn a_store_with_collections_cannot_become_a_node() {
    let folder = TempDir::new().unwrap();
    let address = free_addresses(1)[0];
    let call = |method: &str, target: &str, body: &[u8]| {
        let status = call_alone(&folder, address, method, target, body);
        assert_eq!(status, 200, "{method} {target}");
    };
    call("POST", "/_api/collection", b"{\"name\":\"mine\"}");
    let lists = [list_of(&[address]), list_of(&[address, free_addresses(1)[0]])];
    for list in &lists {
        let error = try_start(options(&folder, address, list)).err().unwrap().to_string();
        assert!(error.contains("collection `mine`") && error.contains("--cluster"), "{error}");
    }
    // The attempts leave nothing behind.
    call("GET", "/_api/collection/mine", b"");
    call("DELETE", "/_api/collection/mine", b"");
    let (server, _) = try_start(options(&folder, address, &lists[1])).unwrap();
    server.stop().unwrap();
}

/// Regression: only the table of the entity API was checked.
#[test]
fn keys_in_any_table_keep_a_store_from_becoming_a_node() {
    let folder = TempDir::new().unwrap();
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    put(&store, "of a guest", "key");
    store.close().unwrap();
    drop(store);
    let addresses = free_addresses(2);
    let list = list_of(&addresses);
    let error = try_start(options(&folder, addresses[0], &list)).err().unwrap().to_string();
    assert!(error.contains("table `of a guest`") && error.contains("empty folder"), "{error}");
}

/// Regression: such a node kept its list. With keys of its own, its next start alone was refused,
/// and a start with the list was accepted, as if its keys were its share of the cluster's.
#[test]
fn a_node_with_an_empty_store_leaves_its_cluster_when_it_starts_alone() {
    let folder = TempDir::new().unwrap();
    let addresses = free_addresses(2);
    let (address, list) = (addresses[0], list_of(&addresses));
    let (server, _) = try_start(options(&folder, address, &list)).unwrap();
    server.stop().unwrap();
    assert_eq!(call_alone(&folder, address, "PUT", &entity("key"), b"value"), 201);
    assert_eq!(call_alone(&folder, address, "GET", &entity("key"), b""), 200);
    let error = try_start(options(&folder, address, &list)).err().unwrap().to_string();
    assert!(error.contains("no cluster.list"), "{error}");
}

/// Regression: such a node started. The first forwarded GET of a longer value closed the
/// connection, with all requests on it.
#[test]
fn a_node_may_not_have_values_that_no_frame_holds() {
    let folder = TempDir::new().unwrap();
    let addresses = free_addresses(2);
    let mut options = options(&folder, addresses[0], &list_of(&addresses));
    options.embedded.value_bytes_max = 1 << 30;
    let error = try_start(options).err().unwrap().to_string();
    assert!(error.contains("--value-max"), "{error}");
}

#[test]
fn keys_that_a_guest_has_put_keep_a_node_from_another_list() {
    let mut nodes = Nodes::start(2, |_| {});
    let of_guest = ShardedOptions::new(nodes.list.clone());
    let guest = ShardedStore::open(ShardedOptions { wait: PATIENCE, ..of_guest }).unwrap();
    put(&guest, "of a guest", &nodes.key_of(1));
    guest.close().unwrap();
    nodes.stop(0);
    nodes.stop(1);
    let third = free_addresses(1)[0];
    let start = |node: usize| {
        let (folder, address) = (&nodes.nodes[node].folder, nodes.nodes[node].address);
        try_start(options(folder, address, &list_of(&[address, third])))
    };
    let error = start(1).err().unwrap().to_string();
    let names_it = error.contains("table `of a guest`") && error.contains(&nodes.list.text());
    assert!(names_it, "{error}");
    // The other node's share of that table is empty.
    let (server, _) = start(0).unwrap();
    server.stop().unwrap();
}

/// Regression: a node took another for unreachable until its own next attempt, up to half a second
/// later, although the other had already connected to it.
#[test]
fn two_nodes_that_serve_reach_each_other_from_their_first_request_on() {
    let (folders, addresses) =
        ([TempDir::new().unwrap(), TempDir::new().unwrap()], free_addresses(2));
    let list = list_of(&addresses);
    let start = |node: usize| try_start(options(&folders[node], addresses[node], &list)).unwrap().0;
    let key = keys_at(&list, format!("http://{}", addresses[1])).next().unwrap();
    let first = start(0);
    for round in 0..5 {
        wait_until(|| Client::connect(addresses[0]).get("/v0/cluster").json(), is_one_down);
        // By now it tries only twice a second.
        std::thread::sleep(Duration::from_millis(1_200));
        assert_eq!(Client::connect(addresses[0]).get(&entity(&key)).status, 504, "round {round}");
        let second = start(1);
        for address in &addresses {
            let status = || Client::connect(*address).get("/v0/status").status;
            wait_until(status, |status| *status == 200);
        }
        // Enough requests that each event loop has some.
        for _ in 0..20 {
            let answer = Client::connect(addresses[0]).call("PUT", &entity(&key), &[], b"x");
            assert_eq!(answer.status, 201, "round {round}: {}", answer.text());
        }
        second.stop().unwrap();
    }
    first.stop().unwrap();
}
