//! Cursors over the sorted entries of a memtable.

use std::sync::Arc;

use super::Memtable;
use crate::ledger::Entry;
use crate::prefetch::prefetch;

/// The distance ahead of a cursor at which nodes are prefetched.
const PREFETCH_DISTANCE: usize = 8;
/// The offset of a usual node's last byte, which is often in the next cache line.
const NODE_REACH: usize = 47;

/// A position in a sorted run of a memtable's entries.
pub(crate) struct MemtableCursor {
    memtable: Arc<Memtable>,
    run: Arc<[u32]>,
    /// The index of the current entry in the run; beyond the run if there is none.
    index: usize,
}

impl MemtableCursor {
    /// A cursor over all entries, without a current entry.
    pub(crate) fn over_all(memtable: &Arc<Memtable>) -> MemtableCursor {
        MemtableCursor::new(memtable, memtable.order.single_run(&memtable.nodes))
    }

    /// Cursors over all entries that existed at the call; later entries may be included. Each
    /// covers a sorted part of the entries, so the caller has to merge them. There are few of them.
    pub(crate) fn over_runs(memtable: &Arc<Memtable>) -> Vec<MemtableCursor> {
        let runs = memtable.order.runs(&memtable.nodes);
        runs.into_iter().map(|run| MemtableCursor::new(memtable, run)).collect()
    }

    fn new(memtable: &Arc<Memtable>, run: Arc<[u32]>) -> MemtableCursor {
        let index = run.len();
        MemtableCursor { memtable: Arc::clone(memtable), run, index }
    }

    /// The current entry.
    #[inline]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        self.run.get(self.index).map(|place| self.memtable.nodes.node(*place).entry())
    }

    /// Moves to the first entry.
    pub(crate) fn seek_first(&mut self) {
        self.index = 0;
    }

    /// Moves to the last entry.
    pub(crate) fn seek_last(&mut self) {
        self.index = self.run.len().wrapping_sub(1);
    }

    fn count_below(&self, key: &[u8]) -> usize {
        self.run.partition_point(|place| self.memtable.nodes.node(*place).key() < key)
    }

    /// Moves to the first entry whose key is not below `key`.
    pub(crate) fn seek_at_or_after(&mut self, key: &[u8]) {
        self.index = self.count_below(key);
    }

    /// Moves to the last entry whose key is below `key`.
    pub(crate) fn seek_before(&mut self, key: &[u8]) {
        self.index = self.count_below(key).wrapping_sub(1);
    }

    /// Moves to the next entry; there must be a current one.
    #[inline]
    pub(crate) fn next(&mut self) {
        self.index = self.index.wrapping_add(1);
        if let Some(place) = self.run.get(self.index.wrapping_add(PREFETCH_DISTANCE)) {
            let node = self.memtable.nodes.address(*place);
            prefetch(node);
            prefetch(node.wrapping_add(NODE_REACH));
        }
    }

    /// Moves to the previous entry; there must be a current one.
    #[inline]
    pub(crate) fn previous(&mut self) {
        self.index = self.index.wrapping_sub(1);
    }
}
