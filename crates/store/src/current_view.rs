//! A substitute for the snapshots of stores that have none.

use pellucid_account::Timeline;

use crate::error::Result;
use crate::model::{Object, Table};
use crate::store::{Range, Scan, Snapshot, Store};

/// A substitute for a snapshot: its reads also see later writes.
pub struct CurrentView<S> {
    /// The store.
    pub store: S,
    /// The sequence number that the view tells.
    pub sequence: u64,
}

impl<S: Store> Snapshot for CurrentView<S> {
    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn get(&self, table: Table, key: &[u8], timeline: &mut Timeline) -> Result<Option<Object>> {
        self.store.get(table, key, timeline).wait_for(timeline)
    }

    fn scan(&self, table: Table, range: Range<'_>) -> Result<Box<dyn Scan>> {
        self.store.scan(table, range)
    }
}
