//! Snapshots: the store as it was at one moment.

use std::ops::Bound;
use std::sync::Arc;

use pellucid_account::Timeline;

use crate::catalogue::TableId;
use crate::engine::{Engine, Inner};
use crate::error::Result;
use crate::ledger::SnapshotGuard;
use crate::object::{Head, Object};
use crate::read_mode::ReadMode;
use crate::scan::{Direction, Scan};

/// The store as it was at one moment. It costs next to nothing to take; while it is held, what it
/// sees stays in the tables.
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<Inner>,
    guard: Arc<SnapshotGuard>,
    mode: ReadMode,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("sequence", &self.sequence()).finish_non_exhaustive()
    }
}

impl Engine {
    /// The store as it is now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_in(ReadMode::MayBlock)
    }

    /// The store as it is now, with the mode of the snapshot's reads and scans.
    #[must_use]
    pub fn snapshot_in(&self, mode: ReadMode) -> Snapshot {
        let guard = Arc::new(self.inner.ledger.register_snapshot());
        Snapshot { inner: Arc::clone(&self.inner), guard, mode }
    }

    /// The keys of a range, as they are now.
    ///
    /// ```
    /// # use pellucid_account::Timeline;
    /// # use pellucid_engine::*;
    /// use std::ops::Bound;
    /// # fn main() -> Result<()> {
    /// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
    /// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
    /// # let engine = Engine::open("/store", options)?;
    /// # let table = engine.table("t")?;
    /// # let mut timeline = Timeline::off();
    /// for key in [b"a", b"b", b"c"] {
    ///     engine.put(table, key, b"value")?;
    /// }
    /// let end = Bound::Excluded(&b"c"[..]);
    /// let mut scan = engine.scan(table, Bound::Unbounded, end, Direction::Backward)?;
    /// let mut keys = Vec::new();
    /// while let Some((key, _object)) = scan.next()? {
    ///     keys.push(key.to_vec());
    /// }
    /// assert_eq!(keys, [b"b", b"a"]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn scan(
        &self,
        table: TableId,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<Scan> {
        self.snapshot().scan(table, start, end, direction)
    }
}

impl Snapshot {
    /// What a scan needs.
    pub(crate) fn parts(&self) -> (Arc<Inner>, Arc<SnapshotGuard>, ReadMode) {
        (Arc::clone(&self.inner), Arc::clone(&self.guard), self.mode)
    }

    /// The sequence number of the last write that the snapshot sees.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.guard.sequence()
    }

    /// As [`Engine::get`], at the moment of the snapshot.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Object>> {
        self.get_timed(table, key, &mut Timeline::off())
    }

    /// As [`Snapshot::get`], with the parts of the read in `timeline`.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn get_timed(
        &self,
        table: TableId,
        key: &[u8],
        timeline: &mut Timeline,
    ) -> Result<Option<Object>> {
        self.inner.get_at(table, key, self.sequence(), self.mode, timeline)
    }

    /// As [`Engine::head`], at the moment of the snapshot.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn head(&self, table: TableId, key: &[u8]) -> Result<Option<Head>> {
        let timeline = &mut Timeline::off();
        self.inner.head_at(table, key, self.sequence(), self.mode, timeline)
    }

    /// As [`Engine::scan`], at the moment of the snapshot.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn scan(
        &self,
        table: TableId,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<Scan> {
        let (inner, guard, mode) = self.parts();
        Scan::new(inner, guard, table, (start, end), direction, mode)
    }

    /// The keys of a stem, which has to be a whole one by the table's rule
    /// ([`crate::EngineOptions::stem_rules`]): those that begin with it. It is quick whether there
    /// are any or not, and a table without a rule answers, too.
    ///
    /// ```
    /// # use pellucid_account::Timeline;
    /// # use pellucid_engine::*;
    /// # fn main() -> Result<()> {
    /// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
    /// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
    /// // What stands up to the colon, with it.
    /// let stem_of = |key: &[u8]| key.iter().position(|byte| *byte == b':').map(|at| at + 1);
    /// let options =
    ///     EngineOptions { stem_rules: vec![StemRule { table: "by colour", stem_of }], ..options };
    /// let engine = Engine::open("/store", options)?;
    /// let table = engine.table("by colour")?;
    /// # let mut timeline = Timeline::off();
    /// for key in ["blue:sea", "red:poppy", "red:rose"] {
    ///     engine.put(table, key.as_bytes(), b"")?;
    /// }
    /// let mut scan = engine.snapshot().scan_stem(table, b"red:", Direction::Forward)?;
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
    /// As [`Engine::get`].
    pub fn scan_stem(&self, table: TableId, stem: &[u8], direction: Direction) -> Result<Scan> {
        let (inner, guard, mode) = self.parts();
        Scan::of_stem(inner, guard, (table, stem), direction, mode)
    }
}
