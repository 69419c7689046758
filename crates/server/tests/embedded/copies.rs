//! `ack` and `from` over a store that keeps three copies of each entry, one of which is away: what
//! is asked for is passed to the store, by reads of one key and of ranges alike.

use std::sync::Arc;

use crate::common::{Client, entity};
use pellucid_account::Timeline;
use pellucid_embedded::EmbeddedStore;
use pellucid_server::{EmbeddedOptions, Log, RunningServer, ServerOptions, start_on};
use pellucid_store::{
    Acknowledgement, Answer, Copies, Head, Object, Operation, Properties, Range, ReplicatedStore,
    Result, Scan, Snapshot, Store, StoreError, Table, Written,
};
use tempfile::TempDir;

const COPIES: u32 = 3;
const COPIES_THERE: u32 = 2;

/// A store that says what a ring with a dead node says.
struct ThreeCopies {
    entries: Arc<EmbeddedStore>,
    ack: u32,
}

impl ThreeCopies {
    /// Refuses what too few copies are there for.
    fn check(&self) -> Result<()> {
        if self.ack > COPIES_THERE {
            let ack = self.ack;
            let what = format!("{COPIES_THERE} of {COPIES} copies answered, and {ack} have to");
            return Err(StoreError::Unreachable(what));
        }
        Ok(())
    }

    fn checked<T>(&self, answer: impl FnOnce(&EmbeddedStore) -> Answer<T>) -> Answer<T> {
        match self.check() {
            Ok(()) => answer(&self.entries),
            Err(error) => Answer::Now(Err(error)),
        }
    }
}

impl Store for ThreeCopies {
    fn table(&self, name: &str) -> Result<Table> {
        self.entries.table(name)
    }

    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Object>> {
        self.checked(|entries| entries.get(table, key, timeline))
    }

    fn head(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Answer<Option<Head>> {
        self.checked(|entries| entries.head(table, key, timeline))
    }

    fn write(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Answer<Written> {
        self.checked(|entries| entries.write(table, operations, acknowledgement, timeline))
    }

    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>> {
        self.check()?;
        self.entries.scan(table, range)
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        self.entries.snapshot()
    }

    fn properties(&self) -> Properties {
        Properties { copies: COPIES, ..self.entries.properties() }
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    fn close(&self) -> Result<()> {
        self.entries.close()
    }

    fn replicated(&self) -> Option<&dyn ReplicatedStore> {
        Some(self)
    }
}

impl ReplicatedStore for ThreeCopies {
    fn waiting_for(&self, copies: Copies) -> Result<Option<Arc<dyn Store>>> {
        if copies.from != COPIES {
            return Err(StoreError::Unacceptable(format!("`from` has to be {COPIES}")));
        }
        let (entries, ack) = (Arc::clone(&self.entries), copies.ack);
        Ok((ack != self.ack).then(|| Arc::new(ThreeCopies { entries, ack }) as Arc<dyn Store>))
    }
}

fn start(folder: &TempDir) -> RunningServer {
    let entries = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let store = ThreeCopies { entries: Arc::new(entries), ack: 2 };
    let mut options = ServerOptions::new(folder.path().to_owned());
    options.listen = "127.0.0.1:0".parse().unwrap();
    start_on(Arc::new(store), options, Log::new(|_| {})).unwrap()
}

#[test]
fn so_many_copies_are_waited_for_as_the_request_says() {
    let folder = TempDir::new().unwrap();
    let server = start(&folder);
    let mut client = Client::connect(server.address());
    assert_eq!(client.put(&entity("k"), "v").status, 201);
    for (copies, status, word) in [
        ("", 200, ""),
        ("&ack=1&from=3", 200, ""),
        ("&ack=2&from=3", 200, ""),
        ("&from=3&ack=3", 504, "2 of 3 copies answered, and 3 have to"),
        ("&ack=1&from=2", 400, "`from` has to be 3"),
        ("&ack=4&from=4", 400, "≤ 3"),
        ("&ack=0&from=3", 400, "≤ 3"),
        ("&ack=2", 400, "both or neither"),
        ("&from=3", 400, "both or neither"),
        ("&ack=x&from=3", 400, "`ack`"),
    ] {
        for (target, found) in [(entity("k"), "v"), ("/v0/entities?start=k".to_owned(), "k\nv")] {
            let answer = client.get(&format!("{target}{copies}"));
            assert_eq!(answer.status, status, "{target}{copies}");
            let expected = if status == 200 { found } else { word };
            assert!(answer.text().contains(expected), "{target}{copies}: {}", answer.text());
        }
    }
    server.stop().unwrap();
}
