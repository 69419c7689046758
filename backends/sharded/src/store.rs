//! The store of kind `sharded`: each request goes directly to the node that owns the key.

use std::sync::Arc;
use std::time::Duration;

use pellucid_account::Timeline;
use pellucid_clock::Clock;
use pellucid_cluster::{AskKind, Cluster, ClusterOptions, FORWARD_PARTS};
use pellucid_store::{
    Acknowledgement, Answer, CurrentView, DeferredAnswer, DeliveredAnswer, Head, KEY_LENGTH_MAX,
    Object, Operation, PartitionFunction, Properties, Range, Result, Scan, Snapshot, Store,
    StoreError, Table, Value, WriteOutcome,
};
use pellucid_topology::NodeList;

use crate::driver::{Driver, OwnedAsk, PendingAnswer, ReceivedAnswer};
use crate::scan::ShardedScan;
use crate::shared_state::{SharedState, unacceptable};

/// Default of [`ShardedOptions::value_bytes_max`]: the same as of the nodes, whose store is the
/// embedded one by default.
const VALUE_BYTES_DEFAULT: usize = 64 << 20;

/// The settings of a sharded store.
#[derive(Clone)]
pub struct ShardedOptions {
    /// The same list of nodes that every node has.
    pub nodes: NodeList,
    /// The shared secret, by which nodes and guests authenticate each other.
    pub secret: Option<Vec<u8>>,
    /// The longest wait for the answer about a key, and the longest silence of a node. A page of a
    /// range may take 60 times as long.
    pub wait: Duration,
    /// Limit of a value in bytes; not above the limit of the nodes. It is lowered to the longest
    /// value that one request can have, somewhat below 1 GiB.
    pub value_bytes_max: usize,
}

impl ShardedOptions {
    /// The default settings for these nodes.
    #[must_use]
    pub fn new(nodes: NodeList) -> ShardedOptions {
        let wait = pellucid_cluster::WAIT_DEFAULT;
        ShardedOptions { nodes, secret: None, wait, value_bytes_max: VALUE_BYTES_DEFAULT }
    }
}

/// A sharded cluster as a store.
///
/// It has these limits. All keys of a batch belong to one node, because a batch is atomic on one
/// node only. Snapshots and ranges do not show the state of one moment. Sequence numbers are those
/// of each key's owner, and numbers of different nodes cannot be compared.
pub struct ShardedStore {
    inner: Arc<SharedState>,
}

impl ShardedStore {
    /// Opens a store over these nodes. It connects to them in the background, and requests wait for
    /// that.
    ///
    /// # Errors
    /// If the system cannot start a thread or open descriptors.
    pub fn open(options: ShardedOptions) -> Result<ShardedStore> {
        let failed = |error: &dyn std::fmt::Display| StoreError::Failed(error.to_string());
        let mut guest = ClusterOptions::of_guest(options.nodes);
        guest.secret = options.secret;
        (guest.wait, guest.silence) = (options.wait, options.wait);
        let cluster = Cluster::new(guest, 1, |_| {}).map_err(|error| failed(&error))?;
        let driver = Driver::start(Arc::clone(&cluster)).map_err(|error| failed(&error))?;
        let inner = SharedState::new(driver, cluster, options.value_bytes_max);
        Ok(ShardedStore { inner: Arc::new(inner) })
    }
}

/// Sends an ask. `shown` makes the result of the owner's answer.
fn answer<T: Send + 'static>(
    inner: &Arc<SharedState>,
    asked: Result<(usize, OwnedAsk)>,
    shown: fn(ReceivedAnswer) -> T,
) -> Answer<T> {
    let (owner, ask) = match asked {
        Ok(asked) => asked,
        Err(error) => return Answer::Now(Err(error)),
    };
    let inner = Arc::clone(inner);
    Answer::Later(DeferredAnswer::new(move |callback| {
        let waiting = PendingAnswer::new(move |result| {
            callback(match result {
                Err(failure) => DeliveredAnswer::new(Err(failure.into()), Vec::new()),
                Ok(brought) => {
                    let parts = brought.answer.parts(Clock::system()).to_vec();
                    let error = brought.answer.error(&brought.payload);
                    DeliveredAnswer::new(error.map_or_else(|| Ok(shown(brought)), Err), parts)
                }
            });
        });
        inner.driver.ask(owner, ask, waiting);
    }))
}

impl Store for ShardedStore {
    fn table(&self, name: &str) -> Result<Table> {
        self.inner.open_table(name, None)
    }

    fn table_in_parts(&self, name: &str, part_of: PartitionFunction) -> Result<Table> {
        self.inner.open_table(name, Some(part_of))
    }

    fn get(&self, table: Table, key: &[u8], _timeline: &mut Timeline) -> Answer<Option<Object>> {
        answer(&self.inner, self.inner.get(table, key, AskKind::Get), |brought| {
            let head = brought.answer.head()?;
            Some(Object { head, value: Value::Owned(brought.payload) })
        })
    }

    fn head(&self, table: Table, key: &[u8], _timeline: &mut Timeline) -> Answer<Option<Head>> {
        answer(&self.inner, self.inner.get(table, key, AskKind::Head), |brought| {
            brought.answer.head()
        })
    }

    fn write(
        &self,
        table: Table,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
        _timeline: &mut Timeline,
    ) -> Answer<WriteOutcome> {
        if self.inner.driver.is_closed() {
            return Answer::Now(Err(StoreError::ReadOnly("the store was closed".to_owned())));
        }
        let named = self.inner.named(table);
        let asked = named.and_then(|n| self.inner.write_ask(&n, operations, acknowledgement));
        answer(&self.inner, asked, |brought| WriteOutcome {
            sequence: brought.answer.answer.sequence,
        })
    }

    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>> {
        if range.start.len().max(range.end.map_or(0, <[u8]>::len)) > KEY_LENGTH_MAX {
            return unacceptable(format!(
                "a range begins and ends with up to {KEY_LENGTH_MAX} bytes"
            ));
        }
        Ok(Box::new(ShardedScan::new(Arc::clone(&self.inner), self.inner.named(table)?, range)))
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        let store = ShardedStore { inner: Arc::clone(&self.inner) };
        // The nodes number their writes separately, and every write is visible.
        Ok(Arc::new(CurrentView { store, sequence: u64::MAX }))
    }

    fn properties(&self) -> Properties {
        Properties {
            copies: 1,
            value_bytes_max: self.inner.value_bytes_max,
            part_names: &FORWARD_PARTS,
            ranges_wait: false,
        }
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let nodes = 0..self.inner.cluster.nodes().nodes().len();
        let figures: Vec<_> = nodes.map(|node| self.inner.cluster.view(node).figures).collect();
        let sum = |of: fn(&pellucid_cluster::PeerFigures) -> u64| figures.iter().map(of).sum();
        vec![
            ("sharded_asked_total", sum(|figures| figures.asked)),
            ("sharded_answered_total", sum(|figures| figures.answered)),
            ("sharded_unreachable_total", sum(|figures| figures.unreachable)),
            ("sharded_late_total", sum(|figures| figures.late)),
            ("sharded_lost_total", sum(|figures| figures.lost)),
            ("sharded_in_flight", sum(|figures| figures.in_flight)),
        ]
    }

    /// Closes the connections. The nodes keep running, and acknowledged writes keep the durability
    /// that they were written with.
    fn close(&self) -> Result<()> {
        self.inner.driver.close();
        Ok(())
    }
}
