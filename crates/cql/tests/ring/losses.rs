//! Nodes that die under load, and what is left of what was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use pellucid_cql::{CqlOptions, CqlStore};
use pellucid_store::{Copies, Store, StoreError, Table};

use super::http::Running;
use super::nodes::Ring;
use super::{PATIENCE, POLL, get, options, put};

/// Threads that load the ring while a node dies.
const CLIENTS: usize = 4;
/// Writes of each of them before the node dies, and after it is dead.
const WRITES: usize = 100;

/// How far the death of a node is. A request that ended before it began, or began after it was
/// over, has nothing to do with it.
#[derive(Default)]
struct Death {
    has_begun: AtomicBool,
    is_over: AtomicBool,
    written_before: AtomicUsize,
}

/// One client of the load.
struct Client<'a> {
    number: usize,
    store: &'a dyn Store,
    table: Table,
    death: &'a Death,
    acknowledged: Vec<String>,
}

impl Client<'_> {
    /// Writes, and reads what it wrote, until it has written so often after the death.
    fn load(mut self) -> Vec<String> {
        let (mut index, mut after) = (0, 0);
        while after < WRITES {
            let key = format!("{} {index:06}", self.number);
            let began_after = self.death.is_over.load(Ordering::SeqCst);
            if self.succeeds("write", || put(self.store, self.table, &key)).is_some() {
                self.acknowledged.push(key.clone());
                let found = self.succeeds("read", || get(self.store, self.table, &key));
                assert!(found.is_none_or(|found| found.as_deref() == Some(key.as_bytes())));
            }
            index += 1;
            after += usize::from(began_after);
            self.death.written_before.fetch_add(usize::from(!began_after), Ordering::SeqCst);
        }
        self.acknowledged
    }

    /// What a request answers; nothing if it failed and was in flight when the node died.
    fn succeeds<T>(&self, what: &str, ask: impl FnOnce() -> Result<T, StoreError>) -> Option<T> {
        let began_after = self.death.is_over.load(Ordering::SeqCst);
        match ask() {
            Ok(answer) => Some(answer),
            Err(error) => {
                let ended_before = !self.death.has_begun.load(Ordering::SeqCst);
                assert!(!ended_before, "a {what} that ended before the death: {error}");
                assert!(!began_after, "a {what} that began after the death: {error}");
                None
            }
        }
    }
}

fn open() -> CqlStore {
    // The majority of three, so that each request waits for two copies.
    CqlStore::open(&CqlOptions { trace_share: 0.0, ..options("losses") }).unwrap()
}

pub(crate) fn one_node_dies(ring: &mut Ring) -> Vec<String> {
    let store = open();
    let table = store.table("entities").unwrap();
    let death = Death::default();
    let acknowledged: Vec<String> = std::thread::scope(|scope| {
        let (store, death) = (&store, &death);
        let client = |number| Client { number, store, table, death, acknowledged: Vec::new() };
        let clients: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || client(number).load())).collect();
        let begun = Instant::now();
        while death.written_before.load(Ordering::SeqCst) < CLIENTS * WRITES {
            assert!(begun.elapsed() < PATIENCE, "the ring takes no load");
            // A client that ended has failed, and says so when it is joined.
            if clients.iter().any(|client| client.is_finished()) {
                break;
            }
            std::thread::sleep(POLL);
        }
        death.has_begun.store(true, Ordering::SeqCst);
        ring.kill(3);
        death.is_over.store(true, Ordering::SeqCst);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    // Each client had one request in flight, and lost at most that one.
    assert!(acknowledged.len() >= 2 * CLIENTS * WRITES - CLIENTS, "{}", acknowledged.len());
    for key in &acknowledged {
        let found = get(&store, table, key).unwrap();
        assert_eq!(found.as_deref(), Some(key.as_bytes()), "{key} was acknowledged");
    }
    acknowledged
}

/// One copy answers who asks for one; two that are asked for are missing, and are named.
pub(crate) fn another_node_dies(ring: &mut Ring, acknowledged: &[String]) {
    let store = Arc::new(open());
    let table = store.table("entities").unwrap();
    let server = Running::on(Arc::clone(&store) as Arc<dyn Store>);
    ring.kill(2);
    let refused = server.expect(504, "PUT", "/v0/entity?id=two&ack=2&from=3", "x");
    for word in ["copies", "2 have to"] {
        assert!(refused.body.contains(word), "{refused:?}");
    }
    server.expect(504, "GET", "/v0/entity?id=two&ack=2&from=3", "");
    server.expect(504, "PUT", "/v0/entity?id=two", "by a majority, unless it says otherwise");
    let begun = Instant::now();
    // The node that is left learns only after seconds that it is alone.
    for (method, status) in [("PUT", 201), ("GET", 200), ("DELETE", 202), ("GET", 404)] {
        while server.ask(method, "/v0/entity?id=one&ack=1&from=3", "", "x").status != status {
            assert!(begun.elapsed() < PATIENCE, "one copy is enough for a {method}");
            std::thread::sleep(POLL);
        }
    }
    let one = store.waiting_for(Copies { ack: 1, from: 3 }).unwrap().unwrap();
    for key in acknowledged.iter().step_by(acknowledged.len() / 20) {
        let found = get(&*one, table, key).unwrap();
        assert!(found.is_none_or(|found| found == key.as_bytes()), "one copy may be behind");
    }
    server.stop();
}
