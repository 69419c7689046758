//! The store itself: every key is asked for at the node that owns it.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use pellucid_account::Timeline;
use pellucid_clock::Clock;
use pellucid_cluster::{
    AskKind, CONTENT_BYTES_MAX, Cluster, ClusterOptions, FORWARD_PARTS, PartOperation,
    TABLE_NAME_BYTES_MAX,
};
use pellucid_store::{
    Acknowledgement, Answer, Arrival, Condition, Head, KEY_LENGTH_MAX, Object, Operation, PartOf,
    Pending, Properties, Range, Result, Scan, Snapshot, Store, StoreError, Table, Value, Written,
};
use pellucid_thread::Mutex;
use pellucid_topology::NodeList;

use crate::driver::{Brought, Driver, OwnedAsk, Waiting};
use crate::scan::ShardedScan;

/// Tables that can be open at once.
const TABLES_MAX: usize = 1_024;
/// Bytes that a value may have, unless an operator says otherwise: the embedded engine's default,
/// which is the nodes'.
const VALUE_BYTES_DEFAULT: usize = 64 << 20;

/// Where the nodes are, and how they are asked.
#[derive(Clone)]
pub struct ShardedOptions {
    /// The nodes, as every one of them was told.
    pub nodes: NodeList,
    /// What nodes and guests prove to each other that they know.
    pub secret: Option<Vec<u8>>,
    /// How long an answer is waited for, and how long a node may be silent.
    pub wait: Duration,
    /// Bytes that a value may have: no more than the nodes take.
    pub value_bytes_max: usize,
}

impl ShardedOptions {
    /// The defaults, for these nodes.
    #[must_use]
    pub fn new(nodes: NodeList) -> ShardedOptions {
        let wait = pellucid_cluster::WAIT_DEFAULT;
        ShardedOptions { nodes, secret: None, wait, value_bytes_max: VALUE_BYTES_DEFAULT }
    }
}

/// See the crate.
///
/// What it does not do: a batch belongs to one node, as all or nothing holds on one alone;
/// snapshots and ranges are of no one moment; and sequence numbers are those of each key's owner,
/// in one line for each node.
pub struct ShardedStore {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) driver: Driver,
    pub(crate) cluster: Arc<Cluster>,
    tables: Mutex<Vec<Named>>,
    value_bytes_max: usize,
}

/// A table by its name: nodes find it by that, and make it when they are first asked for it.
#[derive(Clone)]
pub(crate) struct Named {
    pub(crate) name: Arc<str>,
    part_of: Option<PartOf>,
}

impl Named {
    /// How much of a key says whose it is.
    fn part_length(&self, key: &[u8]) -> usize {
        self.part_of.map_or(key.len(), |part_of| part_of(key).min(key.len()))
    }
}

impl ShardedStore {
    /// The store over these nodes. Connections are made beside; until then requests wait for them.
    ///
    /// # Errors
    /// If the system has no room for a thread or its descriptors.
    pub fn open(options: ShardedOptions) -> Result<ShardedStore> {
        let failed = |error: &dyn std::fmt::Display| StoreError::Failed(error.to_string());
        let mut guest = ClusterOptions::of_guest(options.nodes);
        guest.secret = options.secret;
        (guest.wait, guest.silence) = (options.wait, options.wait);
        let cluster = Cluster::new(guest, 1, |_| {}).map_err(|error| failed(&error))?;
        let driver = Driver::start(Arc::clone(&cluster)).map_err(|error| failed(&error))?;
        let (tables, value_bytes_max) = (Mutex::new(Vec::new()), options.value_bytes_max);
        let inner = Inner { driver, cluster, tables, value_bytes_max };
        Ok(ShardedStore { inner: Arc::new(inner) })
    }
}

fn unacceptable<T>(what: String) -> Result<T> {
    Err(StoreError::Unacceptable(what))
}

impl Inner {
    fn open_table(&self, name: &str, part_of: Option<PartOf>) -> Result<Table> {
        if name.is_empty() || name.len() > TABLE_NAME_BYTES_MAX {
            return unacceptable(format!(
                "the name of a table has up to {TABLE_NAME_BYTES_MAX} bytes, and one at least"
            ));
        }
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match tables.iter().position(|table| *table.name == *name) {
            Some(index) => index,
            None if tables.len() >= TABLES_MAX => {
                return unacceptable(format!("{TABLES_MAX} tables are open already"));
            }
            None => {
                tables.push(Named { name: name.into(), part_of });
                tables.len() - 1
            }
        };
        Ok(Table::of_number(u16::try_from(index).expect("there are fewer tables than that")))
    }

    pub(crate) fn named(&self, table: Table) -> Result<Named> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let named = tables.get(usize::from(table.number())).cloned();
        named.ok_or_else(|| StoreError::Failed("this table is of another store".to_owned()))
    }

    /// The node that owns a key, and what it is asked.
    fn ask_for(&self, kind: AskKind, table: &Named, key: &[u8]) -> Result<(usize, OwnedAsk)> {
        check_key(key)?;
        let part_length = table.part_length(key);
        let owner = self.cluster.owner(&key[..part_length]);
        let ask = OwnedAsk {
            kind,
            acknowledgement: Acknowledgement::Memory,
            condition: Condition::None,
            lifetime_ms: None,
            table: (Arc::clone(&table.name), part_length as u16),
            key: key.to_vec(),
            value: Vec::new(),
        };
        Ok((owner, ask))
    }

    /// The node that takes a write, and what it is asked.
    fn write_ask(
        &self,
        table: &Named,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
    ) -> Result<(usize, OwnedAsk)> {
        for operation in operations {
            check_key(operation.key)?;
            let length = operation.value.map_or(0, <[u8]>::len);
            if length > self.value_bytes_max {
                let max = self.value_bytes_max;
                return unacceptable(format!("a value of {length} bytes is above {max}"));
            }
        }
        match operations {
            [] => unacceptable("a batch has at least one entry".to_owned()),
            [operation] => {
                let kind = if operation.value.is_some() { AskKind::Put } else { AskKind::Delete };
                let (owner, mut ask) = self.ask_for(kind, table, operation.key)?;
                ask.acknowledgement = acknowledgement;
                (ask.condition, ask.lifetime_ms) = (operation.condition, operation.lifetime_ms);
                ask.value = operation.value.unwrap_or_default().to_vec();
                Ok((owner, ask))
            }
            [first, rest @ ..] => {
                let part = |operation: &Operation<'_>| table.part_length(operation.key);
                let owner_of = |operation: &Operation<'_>| {
                    self.cluster.owner(&operation.key[..part(operation)])
                };
                let owner = owner_of(first);
                if let Some(other) = rest.iter().map(owner_of).find(|other| *other != owner) {
                    let (one, other) = (self.cluster.url(owner), self.cluster.url(other));
                    return unacceptable(format!(
                        "the keys of a batch belong to one node, so that all of it or nothing is \
                         written: these are of {one} and {other}"
                    ));
                }
                let mut value = Vec::new();
                for operation in operations {
                    let part_length = part(operation) as u16;
                    PartOperation { operation: *operation, part_length }.encode(&mut value);
                }
                if value.len() > CONTENT_BYTES_MAX {
                    return unacceptable(format!("a batch above {CONTENT_BYTES_MAX} bytes"));
                }
                let ask = OwnedAsk {
                    kind: AskKind::Write,
                    acknowledgement,
                    condition: Condition::None,
                    lifetime_ms: None,
                    table: (Arc::clone(&table.name), 0),
                    key: Vec::new(),
                    value,
                };
                Ok((owner, ask))
            }
        }
    }

    fn get(&self, table: Table, key: &[u8], kind: AskKind) -> Result<(usize, OwnedAsk)> {
        let table = self.named(table)?;
        self.ask_for(kind, &table, key)
    }
}

fn check_key(key: &[u8]) -> Result<()> {
    match key.len() {
        1..=KEY_LENGTH_MAX => Ok(()),
        length => unacceptable(format!(
            "a key has up to {KEY_LENGTH_MAX} bytes, and one at least: this one has {length}"
        )),
    }
}

/// The answer to an ask, as `shown` makes it of what the owner brings.
fn answer<T: Send + 'static>(
    inner: &Arc<Inner>,
    asked: Result<(usize, OwnedAsk)>,
    shown: fn(Brought) -> T,
) -> Answer<T> {
    let (owner, ask) = match asked {
        Ok(asked) => asked,
        Err(error) => return Answer::Now(Err(error)),
    };
    let inner = Arc::clone(inner);
    Answer::Later(Pending::new(move |callback| {
        let waiting = Waiting::new(move |result| {
            callback(match result {
                Err(failure) => Arrival::new(Err(failure.into()), Vec::new()),
                Ok(brought) => {
                    let parts = brought.answer.parts(Clock::system()).to_vec();
                    let error = brought.answer.error(&brought.payload);
                    Arrival::new(error.map_or_else(|| Ok(shown(brought)), Err), parts)
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

    fn table_in_parts(&self, name: &str, part_of: PartOf) -> Result<Table> {
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
    ) -> Answer<Written> {
        if self.inner.driver.is_closed() {
            return Answer::Now(Err(StoreError::ReadOnly("the store was closed".to_owned())));
        }
        let named = self.inner.named(table);
        let asked = named.and_then(|n| self.inner.write_ask(&n, operations, acknowledgement));
        answer(&self.inner, asked, |brought| Written { sequence: brought.answer.sequence })
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
        Ok(Arc::new(AsItIs(ShardedStore { inner: Arc::clone(&self.inner) })))
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

    /// Ends the connections. The nodes go on; what they acknowledged is as durable as it was asked
    /// to be.
    fn close(&self) -> Result<()> {
        self.inner.driver.close();
        Ok(())
    }
}

/// What stands for a snapshot: the store as it is whenever it is read.
struct AsItIs(ShardedStore);

impl Snapshot for AsItIs {
    /// There is no one line of sequence numbers; whatever has one is seen.
    fn sequence(&self) -> u64 {
        u64::MAX
    }

    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Result<Option<Object>> {
        self.0.get(table, key, timeline).wait()
    }

    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>> {
        self.0.scan(table, range)
    }
}
