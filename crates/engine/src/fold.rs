//! Folds: one answer from many entries, made while they are read.
//!
//! A fold holds one entry at a time, on one snapshot, and stops when its function breaks: whatever
//! the size of the table, its memory is that of the answer.

use std::ops::ControlFlow;

use crate::catalogue::{IndexId, TableId};
use crate::engine::Engine;
use crate::error::Result;
use crate::index::IndexEntry;
use crate::object::{Head, Object};
use crate::selection::Selection;
use crate::snapshot::Snapshot;

impl Snapshot {
    /// Gives `each` the selected keys, with what it returned before; returns what it returned last.
    /// The journal is not touched.
    ///
    /// ```
    /// # use pellucid_account::Timeline;
    /// # use pellucid_engine::*;
    /// # fn main() -> Result<()> {
    /// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
    /// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
    /// # let engine = Engine::open("/store", options)?;
    /// # let table = engine.table("t")?;
    /// # let mut timeline = Timeline::off();
    /// use std::ops::ControlFlow;
    ///
    /// for key in [b"a", b"b", b"c"] {
    ///     engine.put(table, key, b"value")?;
    /// }
    /// let snapshot = engine.snapshot();
    /// engine.delete(table, b"a")?;
    /// let count = |count: u64, _key: &[u8]| ControlFlow::Continue(count + 1);
    /// assert_eq!(snapshot.fold_keys(table, &Selection::default(), 0, count)?, 3);
    /// assert_eq!(engine.fold_keys(table, &Selection::default(), 0, count)?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn fold_keys<A>(
        &self,
        table: TableId,
        selection: &Selection<'_>,
        first: A,
        mut each: impl FnMut(A, &[u8]) -> ControlFlow<A, A>,
    ) -> Result<A> {
        self.fold_heads(table, selection, first, |folded, key, _| each(folded, key))
    }

    /// As [`Snapshot::fold_keys`], with the heads.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn fold_heads<A>(
        &self,
        table: TableId,
        selection: &Selection<'_>,
        first: A,
        mut each: impl FnMut(A, &[u8], &Head) -> ControlFlow<A, A>,
    ) -> Result<A> {
        let Selection { start, end, direction, limit } = *selection;
        let mut scan = self.scan(table, start, end, direction)?;
        let mut folded = first;
        for _ in 0..limit {
            let Some((key, head)) = scan.next_head()? else { break };
            match each(folded, key, &head) {
                ControlFlow::Continue(next) => folded = next,
                ControlFlow::Break(last) => return Ok(last),
            }
        }
        Ok(folded)
    }

    /// As [`Snapshot::fold_keys`], with heads and values.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn fold_objects<A>(
        &self,
        table: TableId,
        selection: &Selection<'_>,
        first: A,
        mut each: impl FnMut(A, &[u8], &Object) -> ControlFlow<A, A>,
    ) -> Result<A> {
        let Selection { start, end, direction, limit } = *selection;
        let mut scan = self.scan(table, start, end, direction)?;
        let mut folded = first;
        for _ in 0..limit {
            let Some((key, object)) = scan.next()? else { break };
            match each(folded, key, &object) {
                ControlFlow::Continue(next) => folded = next,
                ControlFlow::Break(last) => return Ok(last),
            }
        }
        Ok(folded)
    }

    /// As [`Snapshot::fold_keys`], with the entries of an index whose terms are selected.
    ///
    /// # Errors
    /// As [`Engine::scan_index`].
    pub fn fold_index<A>(
        &self,
        index: IndexId,
        selection: &Selection<'_>,
        first: A,
        mut each: impl FnMut(A, IndexEntry<'_>) -> ControlFlow<A, A>,
    ) -> Result<A> {
        let mut scan = self.scan_index(index, selection)?;
        let mut folded = first;
        while let Some(entry) = scan.next()? {
            match each(folded, entry) {
                ControlFlow::Continue(next) => folded = next,
                ControlFlow::Break(last) => return Ok(last),
            }
        }
        Ok(folded)
    }
}

/// Folds over the store as it is now.
impl Engine {
    /// As [`Snapshot::fold_keys`], on what is there now.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn fold_keys<A>(
        &self,
        table: TableId,
        selection: &Selection<'_>,
        first: A,
        each: impl FnMut(A, &[u8]) -> ControlFlow<A, A>,
    ) -> Result<A> {
        self.snapshot().fold_keys(table, selection, first, each)
    }

    /// As [`Snapshot::fold_heads`], on what is there now.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn fold_heads<A>(
        &self,
        table: TableId,
        selection: &Selection<'_>,
        first: A,
        each: impl FnMut(A, &[u8], &Head) -> ControlFlow<A, A>,
    ) -> Result<A> {
        self.snapshot().fold_heads(table, selection, first, each)
    }

    /// As [`Snapshot::fold_objects`], on what is there now.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn fold_objects<A>(
        &self,
        table: TableId,
        selection: &Selection<'_>,
        first: A,
        each: impl FnMut(A, &[u8], &Object) -> ControlFlow<A, A>,
    ) -> Result<A> {
        self.snapshot().fold_objects(table, selection, first, each)
    }

    /// As [`Snapshot::fold_index`], on what is there now.
    ///
    /// # Errors
    /// As [`Engine::scan_index`].
    pub fn fold_index<A>(
        &self,
        index: IndexId,
        selection: &Selection<'_>,
        first: A,
        each: impl FnMut(A, IndexEntry<'_>) -> ControlFlow<A, A>,
    ) -> Result<A> {
        self.snapshot().fold_index(index, selection, first, each)
    }
}
