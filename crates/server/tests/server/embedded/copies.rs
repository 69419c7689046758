//! `ack` and `from` over a store that keeps three copies of each entry, one of which is
//! unreachable: reads of one key and of ranges pass the parameters to the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{TestServer, entity, request, start_on_store};
use pellucid_account::Timeline;
use pellucid_embedded::EmbeddedStore;
use pellucid_io::pass_on;
use pellucid_server::EmbeddedOptions;
use pellucid_store::{
    Acknowledgement, Answer, DeferredAnswer, DeliveredAnswer, Head, Object, Operation, Properties,
    Range, ReplicaQuorum, ReplicatedStore, Result, Scan, Snapshot, Store, StoreError, Table,
    WriteOutcome,
};
use tempfile::TempDir;

const COPIES: u32 = 3;
const COPIES_THERE: u32 = 2;

/// A store that answers like a ring with a dead node.
struct ThreeCopies {
    entries: Arc<EmbeddedStore>,
    ack: u32,
    /// The number of look-ups of a table that fail before one succeeds.
    looks: AtomicUsize,
    /// The number of reads that fail before one succeeds.
    reads: AtomicUsize,
    /// While true, the store answers nothing for [`HANG`].
    hangs: Arc<AtomicBool>,
}

impl ThreeCopies {
    /// Fails if fewer copies are reachable than the request waits for.
    fn check(&self) -> Result<()> {
        refuse_first(&self.reads)?;
        if self.ack > COPIES_THERE {
            let ack = self.ack;
            let what = format!("{COPIES_THERE} of {COPIES} copies answered, and {ack} have to");
            return Err(StoreError::Unreachable(what));
        }
        Ok(())
    }

    fn checked<T: Send + 'static>(
        &self,
        answer: impl FnOnce(&EmbeddedStore) -> Answer<T>,
    ) -> Answer<T> {
        if self.hangs.load(Ordering::Relaxed) {
            return Answer::Later(DeferredAnswer::new(|callback| {
                std::thread::spawn(move || {
                    std::thread::sleep(HANG);
                    callback(DeliveredAnswer::new(
                        Err(StoreError::Unreachable(String::new())),
                        Vec::new(),
                    ));
                });
            }));
        }
        match self.check() {
            Ok(()) => answer(&self.entries),
            Err(error) => Answer::Now(Err(error)),
        }
    }
}

/// Fails as often as `left` says.
fn refuse_first(left: &AtomicUsize) -> Result<()> {
    let less = |left: usize| left.checked_sub(1);
    match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
        Ok(_) => Err(StoreError::Unreachable("1 of 3 copies is there".to_owned())),
        Err(_) => Ok(()),
    }
}

impl Store for ThreeCopies {
    fn table(&self, name: &str) -> Result<Table> {
        refuse_first(&self.looks)?;
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
    ) -> Answer<WriteOutcome> {
        self.checked(|entries| entries.write(table, operations, acknowledgement, timeline))
    }

    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>> {
        self.check()?;
        self.entries.scan(table, range)
    }

    fn properties(&self) -> Properties {
        Properties { copies: COPIES, ..self.entries.properties() }
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    pass_on! { entries:
        fn snapshot() -> Result<Arc<dyn Snapshot>>;
        fn close() -> Result<()>;
    }

    fn replicated(&self) -> Option<&dyn ReplicatedStore> {
        Some(self)
    }
}

impl ReplicatedStore for ThreeCopies {
    fn waiting_for(&self, copies: ReplicaQuorum) -> Result<Option<Arc<dyn Store>>> {
        if copies.from != COPIES {
            return Err(StoreError::Unacceptable(format!("`from` has to be {COPIES}")));
        }
        let (entries, hangs) = (Arc::clone(&self.entries), Arc::clone(&self.hangs));
        let (ack, looks, reads) = (copies.ack, AtomicUsize::new(0), AtomicUsize::new(0));
        let other =
            || Arc::new(ThreeCopies { entries, ack, looks, reads, hangs }) as Arc<dyn Store>;
        Ok((ack != self.ack).then(other))
    }
}

/// The time for which a hanging store does not answer.
const HANG: Duration = Duration::from_secs(120);

/// Starts a server whose store refuses the first `looks` look-ups of a table, and then the first
/// `reads`. Returns the server, and the switch that makes the store hang.
fn start_after(looks: usize, reads: usize) -> (TestServer, Arc<AtomicBool>) {
    let folder = Arc::new(TempDir::new().unwrap());
    let entries = EmbeddedStore::open(folder.path(), EmbeddedOptions::default()).unwrap();
    let (entries, hangs) = (Arc::new(entries), Arc::new(AtomicBool::new(false)));
    let (looks, reads) = (AtomicUsize::new(looks), AtomicUsize::new(reads));
    let store = ThreeCopies { entries, ack: 2, looks, reads, hangs: Arc::clone(&hangs) };
    (start_on_store(Arc::new(store), folder, |_| {}), hangs)
}

/// Regression: the server ended with an error instead of waiting, later only if the definitions of
/// its documents could not be read.
#[test]
fn a_starting_server_waits_for_enough_copies_and_logs_that() {
    for (looks, reads) in [(2, 0), (0, 1)] {
        let (server, _) = start_after(looks, reads);
        let said = server.log.lock().unwrap().clone();
        assert_eq!(said.iter().filter(|line| line.contains("1 of 3 copies is there")).count(), 1);
        assert_eq!(server.client().put(&entity("k"), "v").status, 201);
    }
}

/// Regression: a stop waited as long as requests in flight took, and for its last notes as well.
#[test]
fn a_server_ends_soon_though_its_store_answers_nothing() {
    let (mut server, hangs) = start_after(0, 0);
    hangs.store(true, Ordering::Relaxed);
    let mut client = server.client();
    client.send(&request("GET", &entity("k"), &[], b""));
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    let stopped = server.stop();
    let took = begun.elapsed();
    assert!(took < HANG / 4, "{took:?} {stopped:?} {:?}", server.log.lock().unwrap());
}

#[test]
fn the_request_decides_for_how_many_copies_the_store_waits() {
    let (server, _) = start_after(0, 0);
    let mut client = server.client();
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
}
