//! Helpers of the suite: a table with blocking calls.

use pellucid_account::Timeline;

use crate::error::Result;
use crate::model::{Acknowledgement, Condition, Head, Object, Operation, Table, WriteOutcome};
use crate::store::{Range, Store};

/// One table of a store. Its calls wait for the answers.
pub(super) struct BlockingTable<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) table: Table,
    pub(super) value_bytes_max: usize,
}

impl<'a> BlockingTable<'a> {
    pub(super) fn new(store: &'a dyn Store, table: &str) -> BlockingTable<'a> {
        BlockingTable::of(store, store.table(table).unwrap())
    }

    pub(super) fn of(store: &'a dyn Store, table: Table) -> BlockingTable<'a> {
        BlockingTable { store, table, value_bytes_max: store.properties().value_bytes_max }
    }

    pub(super) fn get(&self, key: impl AsRef<[u8]>) -> Option<Object> {
        self.store.get(self.table, key.as_ref(), &mut Timeline::off()).wait().unwrap()
    }

    pub(super) fn value(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        self.get(key).map(|object| object.value.to_vec())
    }

    pub(super) fn head(&self, key: impl AsRef<[u8]>) -> Option<Head> {
        self.store.head(self.table, key.as_ref(), &mut Timeline::off()).wait().unwrap()
    }

    pub(super) fn write(&self, operations: &[Operation<'_>]) -> Result<WriteOutcome> {
        let (acknowledgement, mut timeline) = (Acknowledgement::Os, Timeline::off());
        self.store.write(self.table, operations, acknowledgement, &mut timeline).wait()
    }

    pub(super) fn put(&self, key: &str, value: &str) -> u64 {
        self.write(&[put(key, value)]).unwrap().sequence
    }

    pub(super) fn scan(
        &self,
        start: &str,
        end: Option<&str>,
        reverse: bool,
    ) -> Vec<(String, String)> {
        let range = Range { start: start.as_bytes(), end: end.map(str::as_bytes), reverse };
        let mut scan = self.store.scan(self.table, range).unwrap();
        let mut entries = Vec::new();
        while let Some((key, object)) = scan.next().unwrap() {
            let key = String::from_utf8(key.to_vec()).unwrap();
            entries.push((key, String::from_utf8(object.value.to_vec()).unwrap()));
        }
        entries
    }

    pub(super) fn keys(&self, start: &str, end: Option<&str>, reverse: bool) -> String {
        self.scan(start, end, reverse).into_iter().map(|(key, _)| key + " ").collect()
    }
}

pub(super) fn put<'a>(key: &'a str, value: &'a str) -> Operation<'a> {
    Operation::plain(key.as_bytes(), Some(value.as_bytes()))
}

pub(super) fn delete(key: &str) -> Operation<'_> {
    Operation::plain(key.as_bytes(), None)
}

pub(super) fn when(operation: Operation<'_>, condition: Condition) -> Operation<'_> {
    Operation { condition, ..operation }
}
