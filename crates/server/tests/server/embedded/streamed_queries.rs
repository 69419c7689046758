//! Streamed queries between two batches.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::start_on_store;
use pellucid_account::Timeline;
use pellucid_embedded::EmbeddedStore;
use pellucid_io::pass_on;
use pellucid_server::EmbeddedOptions;
use pellucid_store::{
    Acknowledgement, Answer, Head, Object, Operation, Properties, Range, Result, Scan, Snapshot,
    Store, Table, WriteOutcome,
};
use serde_json::json;
use tempfile::TempDir;

/// A store that counts how often scans in its snapshots are released.
struct CountedStore(EmbeddedStore, Arc<AtomicU32>);
struct CountedSnapshot(Arc<dyn Snapshot>, Arc<AtomicU32>);
struct CountedScan(Box<dyn Scan>, Arc<AtomicU32>);

impl Store for CountedStore {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(CountedSnapshot(self.0.snapshot()?, Arc::clone(&self.1))))
    }

    pass_on! { 0:
        fn table(name: &str) -> Result<Table>;
        fn get(table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Object>>;
        fn head(table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Head>>;
        fn write(
            table: Table,
            operations: &[Operation<'_>],
            acknowledgement: Acknowledgement,
            timeline: &mut Timeline
        ) -> Answer<WriteOutcome>;
        fn scan(table: Table, range: Range<'_>) -> Result<Box<dyn Scan>>;
        fn properties() -> Properties;
        fn figures() -> Vec<(&'static str, u64)>;
        fn close() -> Result<()>;
    }
}

impl Snapshot for CountedSnapshot {
    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>> {
        Ok(Box::new(CountedScan(self.0.scan(table, range)?, Arc::clone(&self.1))))
    }

    pass_on! { 0:
        fn sequence() -> u64;
        fn get(table: Table, key: &[u8], timeline: &mut Timeline) -> Result<Option<Object>>;
    }
}

impl Scan for CountedScan {
    fn next(&mut self) -> Result<Option<(&[u8], Object)>> {
        self.0.next()
    }

    fn next_head(&mut self) -> Result<Option<(&[u8], Head)>> {
        self.0.next_head()
    }

    fn release(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.release();
    }
}

/// Regression: the scan of a streamed query kept memtables and merged tables, in no budget, until
/// its cursor was read to the end or expired.
#[test]
fn streamed_queries_release_their_scans_behind_each_batch() {
    let (folder, releases) = (Arc::new(TempDir::new().unwrap()), Arc::new(AtomicU32::new(0)));
    let store = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let store = CountedStore(store, Arc::clone(&releases));
    let server = start_on_store(Arc::new(store), folder, |_| {});
    let mut client = server.client();
    client.call("POST", "/_api/collection", &[], r#"{"name":"c"}"#).having(200);
    let index = r#"{"type":"persistent","fields":["n"]}"#;
    client.call("POST", "/_api/index?collection=c", &[], index).having(201);
    let documents: Vec<_> = (0..40).map(|n| json!({"n": n})).collect();
    client.call("POST", "/_api/document/c", &[], json!(documents).to_string()).having(202);
    // Scans of documents, of an index with its documents, and of an index alone.
    for query in [
        "FOR d IN c RETURN d",
        "FOR d IN c FILTER d.n >= 0 RETURN d",
        "FOR d IN c FILTER d.n >= 0 RETURN d.n",
    ] {
        let before = releases.load(Ordering::Relaxed);
        let body = json!({"query": query, "batchSize": 20, "options": {"stream": true}});
        let first = client.call("POST", "/_api/cursor", &[], body.to_string()).having(201).json();
        assert_eq!(releases.load(Ordering::Relaxed), before + 1, "{query}");
        let next = format!("/_api/cursor/{}", first["id"].as_str().unwrap());
        let last = client.call("POST", &next, &[], "").having(200).json();
        assert_eq!(last["hasMore"], false, "{query}");
        let batches = [&first, &last].map(|batch| batch["result"].as_array().unwrap());
        let found: HashSet<_> = batches.into_iter().flatten().map(ToString::to_string).collect();
        assert_eq!(found.len(), 40, "{query}");
    }
}
