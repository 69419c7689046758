//! The state that the store shares with its scans: open tables, and the making of asks.

use std::sync::Arc;

use pellucid_cluster::{AskKind, CONTENT_BYTES_MAX, Cluster, PartOperation, TABLE_NAME_BYTES_MAX};
use pellucid_store::{
    Acknowledgement, Condition, KEY_LENGTH_MAX, Operation, PartitionFunction, Result, StoreError,
    Table, check_key,
};
use pellucid_thread::Mutex;

use crate::driver::{Driver, OwnedAsk};

/// Limit of the open tables.
const TABLES_MAX: usize = 1_024;

/// The state that the store shares with its scans.
pub(crate) struct SharedState {
    pub(crate) driver: Driver,
    pub(crate) cluster: Arc<Cluster>,
    tables: Mutex<Vec<OpenTable>>,
    pub(crate) value_bytes_max: usize,
}

/// An open table. The nodes know it by its name, and create it with the first ask for it.
#[derive(Clone)]
pub(crate) struct OpenTable {
    pub(crate) name: Arc<str>,
    part_of: Option<PartitionFunction>,
}

impl OpenTable {
    /// Length in bytes of the key's prefix that determines its owner.
    fn part_length(&self, key: &[u8]) -> usize {
        self.part_of.map_or(key.len(), |part_of| part_of(key).min(key.len()))
    }
}

pub(crate) fn unacceptable<T>(what: String) -> Result<T> {
    Err(StoreError::Unacceptable(what))
}

impl SharedState {
    pub(crate) fn new(
        driver: Driver,
        cluster: Arc<Cluster>,
        value_bytes_max: usize,
    ) -> SharedState {
        // The owner takes a longer ask for damage, and closes the link with all its other asks.
        let value_bytes_max = value_bytes_max.min(CONTENT_BYTES_MAX - KEY_LENGTH_MAX);
        SharedState { driver, cluster, tables: Mutex::new(Vec::new()), value_bytes_max }
    }

    pub(crate) fn open_table(
        &self,
        name: &str,
        part_of: Option<PartitionFunction>,
    ) -> Result<Table> {
        if name.is_empty() || name.len() > TABLE_NAME_BYTES_MAX {
            return unacceptable(format!(
                "the name of a table has up to {TABLE_NAME_BYTES_MAX} bytes, and one at least"
            ));
        }
        let mut tables = self.tables.lock();
        let index = match tables.iter().position(|table| *table.name == *name) {
            Some(index) => index,
            None if tables.len() >= TABLES_MAX => {
                return unacceptable(format!("{TABLES_MAX} tables are open already"));
            }
            None => {
                tables.push(OpenTable { name: name.into(), part_of });
                tables.len() - 1
            }
        };
        Ok(Table::of_number(u16::try_from(index).expect("there are fewer tables than that")))
    }

    pub(crate) fn named(&self, table: Table) -> Result<OpenTable> {
        let tables = self.tables.lock();
        let named = tables.get(usize::from(table.number())).cloned();
        named.ok_or_else(|| StoreError::Failed("this table is of another store".to_owned()))
    }

    /// The index of the node that owns a key, and the ask for it.
    fn ask_for(&self, kind: AskKind, table: &OpenTable, key: &[u8]) -> Result<(usize, OwnedAsk)> {
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

    /// The index of the node that owns the keys of a write, and the ask for it.
    ///
    /// # Errors
    /// If an operation is invalid, there is none, or the keys belong to several nodes.
    pub(crate) fn write_ask(
        &self,
        table: &OpenTable,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
    ) -> Result<(usize, OwnedAsk)> {
        operations.iter().try_for_each(|operation| operation.check(self.value_bytes_max))?;
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
                    return unacceptable(format!(
                        "the batch has {} bytes, and a node takes up to {CONTENT_BYTES_MAX}: \
                         divide it",
                        value.len()
                    ));
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

    pub(crate) fn get(&self, table: Table, key: &[u8], kind: AskKind) -> Result<(usize, OwnedAsk)> {
        let table = self.named(table)?;
        self.ask_for(kind, &table, key)
    }
}

#[cfg(test)]
mod tests {
    use pellucid_cluster::ClusterOptions;
    use pellucid_topology::NodeList;

    use super::*;

    /// Regression: a single value was not checked against the limit of an ask. Beyond it, the owner
    /// closed the link with all asks on it.
    #[test]
    fn a_value_longer_than_an_ask_is_refused() {
        let nodes = NodeList::parse("http://127.0.0.1:1").unwrap();
        let cluster = Cluster::new(ClusterOptions::of_guest(nodes), 1, |_| {}).unwrap();
        let driver = Driver::start(Arc::clone(&cluster)).unwrap();
        let inner = SharedState::new(driver, cluster, usize::MAX);
        assert!(inner.value_bytes_max + KEY_LENGTH_MAX <= CONTENT_BYTES_MAX);
        let table = inner.named(inner.open_table("t", None).unwrap()).unwrap();
        // Its pages are never touched, so it takes no memory.
        let value = vec![0; inner.value_bytes_max + 1];
        let put = Operation::plain(b"k", Some(&value));
        for operations in [&[put][..], &[put, put]] {
            let asked = inner.write_ask(&table, operations, Acknowledgement::Memory);
            assert!(matches!(asked.err(), Some(StoreError::Unacceptable(_))));
        }
    }
}
