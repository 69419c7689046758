//! Snapshots: the store as it was at one moment.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use pellucid_account::Timeline;

use crate::error::Result;
use crate::index::{IndexEntry, IndexScan};
use crate::object::{Head, Object};
use crate::open_store::OpenStore;
use crate::read_mode::ReadMode;
use crate::scan::{Direction, Scan, View};
use crate::selection::Selection;
use crate::table_id::{IndexId, TableId};

/// The store as it was at one moment. Taking a snapshot costs next to nothing; while it is held,
/// the entries that it sees stay in the tables.
#[derive(Clone)]
pub struct Snapshot(View);

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("sequence", &self.sequence()).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Takes a snapshot of the store as it is now; all its reads and scans use `mode`.
    pub(crate) fn of(store: &Arc<OpenStore>, mode: ReadMode) -> Snapshot {
        let guard = Arc::new(store.ledger.register_snapshot());
        Snapshot(View { store: Arc::clone(store), guard, mode })
    }

    /// The sequence number of the last write that the snapshot sees.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.0.guard.sequence()
    }

    /// Reads as [`crate::Engine::get`] does, at the moment of the snapshot.
    ///
    /// # Errors
    /// As [`crate::Engine::get`].
    pub fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Object>> {
        self.get_timed(table, key, &mut Timeline::off())
    }

    /// Reads as [`Snapshot::get`] does, and records the parts of the read in `timeline`.
    ///
    /// # Errors
    /// As [`crate::Engine::get`].
    pub fn get_timed(
        &self,
        table: TableId,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Result<Option<Object>> {
        self.0.store.reader.get(table, key, self.sequence(), self.0.mode, timeline)
    }

    /// Reads as [`crate::Engine::head`] does, at the moment of the snapshot.
    ///
    /// # Errors
    /// As [`crate::Engine::get`].
    pub fn head(&self, table: TableId, key: &[u8]) -> Result<Option<Head>> {
        let timeline = &mut Timeline::off();
        self.0.store.reader.head(table, key, self.sequence(), self.0.mode, timeline)
    }

    /// Scans as [`crate::Engine::scan`] does, at the moment of the snapshot.
    ///
    /// # Errors
    /// As [`crate::Engine::get`].
    pub fn scan(
        &self,
        table: TableId,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<Scan> {
        Scan::new(self.0.clone(), table, (start, end), direction)
    }

    /// A scan of the keys that begin with `prefix`, which has to be a complete prefix by the
    /// table's rule ([`crate::EngineOptions::prefix_rules`]). With a rule it is quick even if there
    /// are no such keys; without one it works, too.
    ///
    /// ```
    /// # use pellucid_engine::*;
    /// # fn main() -> Result<()> {
    /// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
    /// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
    /// // The prefix is everything up to and including the colon.
    /// let prefix_of = |key: &[u8]| key.iter().position(|byte| *byte == b':').map(|at| at + 1);
    /// let rules = vec![PrefixRule { table: "by colour", prefix_of }];
    /// let options = EngineOptions { prefix_rules: rules, ..options };
    /// let engine = Engine::open("/store", options)?;
    /// let table = engine.table("by colour")?;
    /// for key in ["blue:sea", "red:poppy", "red:rose"] {
    ///     engine.put(table, key.as_bytes(), b"")?;
    /// }
    /// let mut scan = engine.snapshot().scan_prefix(table, b"red:", Direction::Forward)?;
    /// let mut keys = Vec::new();
    /// while let Some((key, _head)) = scan.next_head()? {
    ///     keys.push(key.to_vec());
    /// }
    /// assert_eq!(keys, [&b"red:poppy"[..], b"red:rose"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`crate::Engine::get`].
    pub fn scan_prefix(&self, table: TableId, prefix: &[u8], direction: Direction) -> Result<Scan> {
        Scan::of_prefix(self.0.clone(), table, prefix, direction)
    }

    /// A scan of the entries of an index whose terms are selected.
    ///
    /// # Errors
    /// As [`crate::Engine::get`], and [`crate::Error::IndexUnknown`].
    pub fn scan_index(&self, index: IndexId, selection: &Selection<'_>) -> Result<IndexScan> {
        IndexScan::new(self.0.clone(), index, selection, None)
    }

    /// Scans as [`Snapshot::scan_index`] does, but only the entries behind the entry of `key` under
    /// `term`, in the selection's direction: the next page. That entry itself need not exist.
    ///
    /// # Errors
    /// As [`Snapshot::scan_index`], and [`crate::Error::TermLength`] and
    /// [`crate::Error::KeyLength`] if the term or the key of that entry is invalid.
    pub fn scan_index_after(
        &self,
        index: IndexId,
        selection: &Selection<'_>,
        term: &[u8],
        key: &[u8],
    ) -> Result<IndexScan> {
        IndexScan::new(self.0.clone(), index, selection, Some((term, key)))
    }

    /// Folds over the selected keys: calls `each` with the result so far, which begins as `first`,
    /// and with each key, until it returns [`ControlFlow::Break`]. Returns the last result. The
    /// journal is not touched.
    ///
    /// ```
    /// # use pellucid_engine::*;
    /// # fn main() -> Result<()> {
    /// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
    /// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
    /// # let engine = Engine::open("/store", options)?;
    /// # let table = engine.table("t")?;
    /// use std::ops::ControlFlow;
    ///
    /// for key in [b"a", b"b", b"c"] {
    ///     engine.put(table, key, b"value")?;
    /// }
    /// let snapshot = engine.snapshot();
    /// engine.delete(table, b"a")?;
    /// let count = |count: u64, _key: &[u8]| ControlFlow::Continue(count + 1);
    /// assert_eq!(snapshot.fold_keys(table, &Selection::default(), 0, count)?, 3);
    /// assert_eq!(engine.snapshot().fold_keys(table, &Selection::default(), 0, count)?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`crate::Engine::get`].
    pub fn fold_keys<A>(
        &self,
        table: TableId,
        selection: &Selection<'_>,
        first: A,
        mut each: impl FnMut(A, &[u8]) -> ControlFlow<A, A>,
    ) -> Result<A> {
        self.fold_heads(table, selection, first, |folded, key, _| each(folded, key))
    }

    /// Folds as [`Snapshot::fold_keys`] does, with keys and heads.
    ///
    /// # Errors
    /// As [`crate::Engine::get`].
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

    /// Folds as [`Snapshot::fold_keys`] does, with keys, heads and values.
    ///
    /// # Errors
    /// As [`crate::Engine::get`].
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

    /// Folds as [`Snapshot::fold_keys`] does, over the selected entries of an index.
    ///
    /// # Errors
    /// As [`crate::Engine::scan_index`].
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
