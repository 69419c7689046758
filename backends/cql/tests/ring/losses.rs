//! Nodes that die under load: acknowledged writes must survive.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pellucid_cql::{CqlOptions, CqlStore};
use pellucid_store::{Store, Table};

use super::histories::History;
use super::http::TestServer;
use super::nodes::Ring;
use super::transactions::{Adder, BatchWriter, DocumentWriter, documents_are_whole};
use super::{get, options, put, wait_for, waiting_for};

/// Number of threads that make plain writes while a node dies.
const CLIENTS: usize = 4;
/// Number of writes of each thread before the death, and again after it.
const WRITES: usize = 100;
/// Number of threads for each kind of transaction meanwhile, and of the transactions of each before
/// the death, and again after it.
const TRANSACTORS: usize = 2;
const TRANSACTIONS: usize = 25;

/// The progress of a node's death. A request that ended before the death began, or began after it
/// was over, must not fail because of it.
#[derive(Default)]
pub(crate) struct NodeDeath {
    has_begun: AtomicBool,
    is_over: AtomicBool,
    /// Number of clients that have made all their requests before the death.
    ready: AtomicUsize,
}

impl NodeDeath {
    /// Calls `work` with numbers from zero on: at least `times` before the death, and `times` after
    /// it.
    pub(crate) fn amid(&self, times: usize, mut work: impl FnMut(usize)) {
        let (mut index, mut after) = (0, 0);
        while after < times {
            let began_after = self.is_over.load(Ordering::SeqCst);
            work(index);
            index += 1;
            after += usize::from(began_after);
            self.ready.fetch_add(usize::from(index == times), Ordering::SeqCst);
        }
    }

    /// The answer of a request; `None` if it failed and was in flight when the node died. Any other
    /// failure fails the test.
    pub(crate) fn excuses<T, E: std::fmt::Display>(
        &self,
        what: &str,
        ask: impl FnOnce() -> Result<T, E>,
    ) -> Option<T> {
        let began_after = self.is_over.load(Ordering::SeqCst);
        match ask() {
            Ok(answer) => Some(answer),
            Err(error) => {
                let ended_before = !self.has_begun.load(Ordering::SeqCst);
                assert!(!ended_before, "a {what} that ended before the death: {error}");
                assert!(!began_after, "a {what} that began after the death: {error}");
                None
            }
        }
    }
}

/// A client that makes plain writes.
struct Writer<'a> {
    number: usize,
    store: &'a dyn Store,
    table: Table,
    acknowledged: Vec<String>,
}

impl Writer<'_> {
    /// Writes keys, and reads each one back.
    fn load(&mut self, death: &NodeDeath) {
        let Writer { number, store, table, ref mut acknowledged } = *self;
        death.amid(WRITES, |index| {
            let key = format!("{number} {index:06}");
            if death.excuses("write", || put(store, table, &key)).is_some() {
                acknowledged.push(key.clone());
                let found = death.excuses("read", || get(store, table, &key));
                assert!(found.is_none_or(|found| found.as_deref() == Some(key.as_bytes())));
            }
        });
    }
}

fn open() -> CqlStore {
    // By default, requests wait for the majority: two of three copies.
    CqlStore::open(&CqlOptions { trace_share: 0.0, ..options("losses") }).unwrap()
}

/// Kills a node under plain writes, conditional writes, batches and documents. No acknowledged
/// write is lost, none is there in part, and only requests in flight fail. Returns the keys of the
/// plain writes.
pub(crate) fn one_node_dies(ring: &mut Ring) -> Vec<String> {
    let store = open();
    let table = store.table("entities").unwrap();
    let server = TestServer::on(Arc::new(open()));
    let documents = server.client();
    let meeting = store.table("meeting").unwrap();
    let (death, history) = (NodeDeath::default(), History::default());
    let writer = |number| Writer { number, store: &store, table, acknowledged: Vec::new() };
    let mut writers: Vec<_> = (0..CLIENTS).map(writer).collect();
    let each = 0..TRANSACTORS;
    let mut adders: Vec<_> = each.clone().map(|_| Adder::new(&store)).collect();
    let over_parts = each.clone().map(|at| BatchWriter::over_parts(&store, at));
    let within = each.clone().map(|at| BatchWriter::within_a_part(&store, at));
    let mut batches: Vec<_> = over_parts.chain(within).collect();
    let mut others: Vec<_> = each.map(|at| DocumentWriter::new(documents, at)).collect();
    std::thread::scope(|scope| {
        let (death, times) = (&death, TRANSACTIONS);
        let mut clients = Vec::new();
        clients.extend(writers.iter_mut().map(|it| scope.spawn(move || it.load(death))));
        clients.extend(adders.iter_mut().map(|it| scope.spawn(move || it.load(times, death))));
        clients.extend(batches.iter_mut().map(|it| scope.spawn(move || it.load(times, death))));
        clients.extend(others.iter_mut().map(|it| scope.spawn(move || it.load(times, death))));
        clients.extend((0..CLIENTS).map(|client| {
            let (store, history) = (&store, &history);
            scope.spawn(move || {
                death.amid(times, |index| {
                    death.excuses("step", || history.step(store, meeting, (client, index)));
                });
            })
        }));
        wait_for(|| {
            let ready = death.ready.load(Ordering::SeqCst);
            // A client that has ended by now has failed, and the join below shows why.
            let has_failed = clients.iter().any(|client| client.is_finished());
            if ready >= clients.len() || has_failed { Ok(()) } else { Err(ready) }
        });
        death.has_begun.store(true, Ordering::SeqCst);
        ring.kill(3);
        death.is_over.store(true, Ordering::SeqCst);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    let acknowledged: Vec<_> = writers.into_iter().flat_map(|it| it.acknowledged).collect();
    // Each client has lost at most one write: the one that was in flight.
    assert!(acknowledged.len() >= 2 * CLIENTS * WRITES - CLIENTS, "{}", acknowledged.len());
    for key in &acknowledged {
        let found = get(&store, table, key).unwrap();
        assert_eq!(found.as_deref(), Some(key.as_bytes()), "{key} was acknowledged");
    }
    Adder::check(&adders);
    batches.iter().for_each(BatchWriter::check);
    documents_are_whole(documents, &others);
    server.stop();
    acknowledged
}

/// Kills a second node. Requests for one copy succeed; requests for two fail, and the error names
/// the dead nodes.
pub(crate) fn another_node_dies(ring: &mut Ring, acknowledged: &[String]) {
    let store = Arc::new(open());
    let table = store.table("entities").unwrap();
    let server = TestServer::on(Arc::clone(&store) as Arc<dyn Store>);
    ring.kill(2);
    let refused = server.expect(504, "PUT", "/v0/entity?id=two&ack=2&from=3", "x");
    let [left, dead, other] = [1, 2, 3].map(Ring::host);
    for word in ["of 2 needed copies", "not connected", &dead[..], &other[..]] {
        assert!(refused.body.contains(word), "{word}: {refused:?}");
    }
    assert!(!refused.body.contains(&left[..]), "it is connected: {refused:?}");
    server.expect(504, "GET", "/v0/entity?id=two&ack=2&from=3", "");
    server.expect(504, "PUT", "/v0/entity?id=two", "by a majority, unless it says otherwise");
    // The last node notices only after seconds that the others are dead.
    for (method, status) in [("PUT", 201), ("GET", 200), ("DELETE", 202), ("GET", 404)] {
        server.wait_for(status, method, "/v0/entity?id=one&ack=1&from=3", "x");
    }
    let condition = "If-None-Match: *\r\n";
    let refused = server.ask("PUT", "/v0/entity?id=three", condition, "by a transaction");
    assert_eq!(refused.status, 504, "{refused:?}");
    assert!(refused.body.contains(&dead[..]) && refused.body.contains(&other[..]), "{refused:?}");
    let one = waiting_for(&store, 1).unwrap();
    for key in acknowledged.iter().step_by(acknowledged.len() / 20) {
        let found = get(&*one, table, key).unwrap();
        assert!(found.is_none_or(|found| found == key.as_bytes()), "one copy may be behind");
    }
    server.stop();
}
