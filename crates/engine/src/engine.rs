//! The engine: the type through which a program uses a store, from opening to closing.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use pellucid_account::{Activity, Timeline};

use crate::backup::{self, Backup};
use crate::batch::{Operation, WriteOutcome};
use crate::changes::Changes;
use crate::definition::TableOptions;
use crate::durability::{DurableCallback, SyncTimes};
use crate::error::Result;
use crate::file_copier::CopyOptions;
use crate::index::IndexScan;
use crate::ledger::NEWEST;
use crate::object::{Head, Object};
use crate::open_store::OpenStore;
use crate::options::{Acknowledgement, EngineOptions};
use crate::read_mode::{ReadMode, ReadResult};
use crate::scan::{Direction, Scan};
use crate::selection::Selection;
use crate::snapshot::Snapshot;
use crate::stats::{Collected, EngineStats, MemoryFigures, MemoryShare};
use crate::table_id::{IndexId, TableId};
use crate::tables;

/// An open store. Clones share the same store, and may be used by any number of threads.
///
/// Dropping the last clone without [`Engine::close`] loses no acknowledged write, but the next
/// opening has to replay the end of the journal.
///
/// ```
/// use pellucid_engine::{Acknowledgement, Condition, Engine, EngineOptions, Error, Operation};
///
/// # fn main() -> pellucid_engine::Result<()> {
/// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
/// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
/// let engine = Engine::open("/var/lib/example", options)?;
/// let users = engine.table("users")?;
///
/// // A head is stored beside the value, and read without it.
/// let put = Operation::put(users, b"ada", b"{...}").with_head(b"text/plain");
/// let put = put.with_condition(Condition::Absent);
/// let written = engine.write(&[put], Acknowledgement::Disk)?;
/// if written.pending {
///     engine.wait_durable(written.sequence)?;
/// }
/// let head = engine.head(users, b"ada")?.expect("it was put");
/// assert_eq!((&*head.metadata, head.value_length), (&b"text/plain"[..], 5));
///
/// // The condition does not hold a second time.
/// let again = engine.write(&[put], Acknowledgement::Os);
/// assert!(matches!(again, Err(Error::ConditionFailed { index: 0, .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine {
    store: Arc<OpenStore>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("directory", &self.store.directory).finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens the store in `directory`; creates the directory and the store if they do not exist.
    /// Every write that was acknowledged before is readable again.
    ///
    /// # Errors
    /// If the store is open already, if its files are damaged, or if the file system fails.
    pub fn open(directory: impl AsRef<Path>, options: EngineOptions) -> Result<Engine> {
        let store = OpenStore::open(directory.as_ref(), options)?;
        Ok(Engine { store: Arc::new(store) })
    }

    /// Returns the table called `name`, whatever its options are. If there is none, creates it with
    /// default options. A name has 1 to [`crate::KEY_LENGTH_MAX`] bytes.
    ///
    /// # Errors
    /// As [`Engine::write`], and [`crate::Error::TablesExhausted`].
    pub fn table(&self, name: &str) -> Result<TableId> {
        tables::table(&self.store, name)
    }

    /// Returns the table called `name`, which must have these options. If there is none, creates it
    /// with them.
    ///
    /// ```
    /// # use pellucid_engine::*;
    /// # fn main() -> Result<()> {
    /// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
    /// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
    /// # let engine = Engine::open("/store", options)?;
    /// let heads_only = TableOptions { head_only: true, ..TableOptions::default() };
    /// let seen = engine.table_with("seen", &heads_only)?;
    /// let twice = Operation::put(seen, b"page", b"").with_head(b"twice");
    /// engine.write(&[twice], Acknowledgement::Os)?;
    /// let refused = engine.put(seen, b"page", b"a value");
    /// assert!(matches!(refused, Err(Error::ValueRefused { .. })));
    ///
    /// let other = engine.table_with("seen", &TableOptions::default());
    /// assert!(matches!(other, Err(Error::TableDiffers { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::TableDiffers`] if a table of that name has other options;
    /// [`crate::Error::ExtractorMissing`] if the table has to be created and its metadata extractor
    /// is not registered; [`crate::Error::Option`] for invalid options; and the errors of
    /// [`Engine::table`].
    pub fn table_with(&self, name: &str, options: &TableOptions) -> Result<TableId> {
        tables::table_with(&self.store, name, options)
    }

    /// The options of a table; `None` if the store has no such table.
    #[must_use]
    pub fn table_options(&self, table: TableId) -> Option<TableOptions> {
        let definitions = self.store.catalogue.read();
        definitions.objects(table).map(|objects| objects.options.clone())
    }

    /// All tables, by name.
    #[must_use]
    pub fn tables(&self) -> Vec<(String, TableId)> {
        self.store.catalogue.read().tables()
    }

    /// Returns the index called `name` of `table`; creates it if there is none. A name has 1 to
    /// [`crate::INDEX_NAME_LENGTH_MAX`] bytes. An index can be created only while its table has no
    /// objects. Its entries are those that writes add ([`crate::Operation::with_index_changes`]).
    ///
    /// ```
    /// # use pellucid_engine::*;
    /// # fn main() -> Result<()> {
    /// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
    /// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
    /// # let engine = Engine::open("/store", options)?;
    /// let fruit = engine.table("fruit")?;
    /// let by_colour = engine.index(fruit, "colour")?;
    /// let changes = [IndexChange::add(by_colour, b"green"), IndexChange::add(by_colour, b"red")];
    /// let apple = Operation::put(fruit, b"apple", b"...").with_index_changes(&changes);
    /// engine.write(&[apple], Acknowledgement::Os)?;
    ///
    /// let mut scan = engine.scan_index(by_colour, &Selection::one(b"red"))?;
    /// assert_eq!(scan.next()?, Some(IndexEntry { term: b"red", key: b"apple" }));
    /// assert_eq!(scan.next()?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::IndexLate`] if the index does not exist and the table has objects: the
    /// engine does not know their terms. [`crate::Error::TableUnknown`],
    /// [`crate::Error::TablesExhausted`], [`crate::Error::Option`] for an invalid name, and the
    /// errors of [`Engine::write`].
    pub fn index(&self, table: TableId, name: &str) -> Result<IndexId> {
        tables::index(&self.store, table, name)
    }

    /// All indexes of a table, by name.
    #[must_use]
    pub fn indexes(&self, table: TableId) -> Vec<(String, IndexId)> {
        self.store.catalogue.read().indexes(table)
    }

    /// The head and the value of `key`, if it is there. An empty value costs no read of the
    /// journal, because the ledger already tells that the value is empty.
    ///
    /// # Errors
    /// [`crate::Error::Corruption`] if a block or the record is damaged: a key that cannot be read
    /// is never reported as absent.
    #[inline]
    pub fn get(&self, table: TableId, key: &[u8]) -> Result<Option<Object>> {
        let read = self.get_timed(table, key, ReadMode::MayBlock, &mut Timeline::off());
        read.map(ReadResult::value)
    }

    /// Reads as [`Engine::get`] does, in `mode`, and records the parts of the read in `timeline`.
    ///
    /// With [`ReadMode::InMemory`], a read may still wait for the medium once, if reads were fast
    /// until then: that slow read is how the engine learns that reads are slow.
    ///
    /// # Errors
    /// As [`Engine::get`].
    #[inline]
    pub fn get_timed(
        &self,
        table: TableId,
        key: &[u8],
        mode: ReadMode,
        timeline: &mut Timeline,
    ) -> Result<ReadResult<Object>> {
        let reader = &self.store.reader;
        let get = |mode, of: &mut Timeline| reader.get(table, key, NEWEST, mode, of);
        reader.in_mode(mode, timeline, get)
    }

    /// Everything about `key` except its value, if the key is there. The journal is not touched.
    ///
    /// # Errors
    /// As [`Engine::get`].
    #[inline]
    pub fn head(&self, table: TableId, key: &[u8]) -> Result<Option<Head>> {
        let read = self.head_timed(table, key, ReadMode::MayBlock, &mut Timeline::off());
        read.map(ReadResult::value)
    }

    /// Reads as [`Engine::head`] does, with the mode and the timeline of [`Engine::get_timed`].
    ///
    /// # Errors
    /// As [`Engine::get`].
    #[inline]
    pub fn head_timed(
        &self,
        table: TableId,
        key: &[u8],
        mode: ReadMode,
        timeline: &mut Timeline,
    ) -> Result<ReadResult<Head>> {
        let reader = &self.store.reader;
        let head = |mode, of: &mut Timeline| reader.head(table, key, NEWEST, mode, of);
        reader.in_mode(mode, timeline, head)
    }

    /// Runs `reads`, a group of reads on a thread that must not wait, and passes it the read mode
    /// to use ([`Engine::snapshot_in`]). Returns what `reads` returns: true if all of them found
    /// their data in memory. If false, the caller repeats the whole group on a thread that may
    /// wait.
    pub fn all_in_memory(&self, reads: impl FnOnce(ReadMode) -> bool) -> bool {
        self.store.reader.all_in_memory(reads)
    }

    /// True if no recent read had to wait for the medium. This is only a hint: the next read may
    /// wait.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        !self.store.reader.is_slow()
    }

    /// Writes all of `operations` or none; a [`crate::Batch`] can be passed. The writes are visible
    /// to readers on return, and as safe as `acknowledgement` asks for. This call never waits for
    /// the medium: with [`Acknowledgement::Disk`] it may return with [`WriteOutcome::pending`] set,
    /// and the writes are then not durable yet.
    ///
    /// # Errors
    /// [`crate::Error::ConditionFailed`], [`crate::Error::DiskFull`], [`crate::Error::Exhausted`]
    /// and errors about limits leave everything as before. After [`crate::Error::Poisoned`] the
    /// engine refuses all writes.
    pub fn write(
        &self,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
    ) -> Result<WriteOutcome> {
        self.write_timed(operations, acknowledgement, &mut Timeline::off())
    }

    /// Writes as [`Engine::write`] does, and records the parts of the write in `timeline`.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn write_timed(
        &self,
        operations: &[Operation<'_>],
        acknowledgement: Acknowledgement,
        timeline: &mut Timeline,
    ) -> Result<WriteOutcome> {
        let writer = &self.store.writer;
        let sequence = match writer.prepare(operations, timeline)? {
            None => writer.write(operations, 0, || Ok(()), timeline)?,
            Some(prepared) => {
                let all = prepared.expand(operations);
                writer.write(&all, prepared.index_entries(), || Ok(()), timeline)?
            }
        };
        let pending = acknowledgement == Acknowledgement::Disk
            && self.store.journal.sync().durable_sequence() < sequence;
        Ok(WriteOutcome { sequence, pending })
    }

    /// Sets one key, with an empty head and without conditions; [`Engine::write`] offers both.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn put(&self, table: TableId, key: &[u8], value: &[u8]) -> Result<WriteOutcome> {
        self.write(&[Operation::put(table, key, value)], Acknowledgement::Os)
    }

    /// Removes one key.
    ///
    /// # Errors
    /// As [`Engine::write`].
    pub fn delete(&self, table: TableId, key: &[u8]) -> Result<WriteOutcome> {
        self.write(&[Operation::delete(table, key)], Acknowledgement::Os)
    }

    /// Returns once everything up to `sequence` is on the medium. Callers that wait at the same
    /// time share one sync. If `sequence` is above the last write, returns once all writes until
    /// now are on the medium, without waiting for further ones.
    ///
    /// # Errors
    /// [`crate::Error::Poisoned`] if a sync failed: the write may or may not survive.
    pub fn wait_durable(&self, sequence: u64) -> Result<SyncTimes> {
        self.store.journal.sync().wait_durable(sequence)
    }

    /// Calls `callback` once everything up to `sequence` is on the medium, as for
    /// [`Engine::wait_durable`], or once that has become impossible. The callback runs on the sync
    /// thread, which serves all callers, so it must be short. If there is nothing to wait for, or
    /// no sync thread, it runs on the calling thread, before this returns.
    pub fn when_durable(&self, sequence: u64, callback: DurableCallback) {
        self.store.journal.sync().when_durable(sequence, callback);
    }

    /// A snapshot of the store as it is now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot_in(ReadMode::MayBlock)
    }

    /// A snapshot of the store as it is now, whose reads and scans use `mode`.
    #[must_use]
    pub fn snapshot_in(&self, mode: ReadMode) -> Snapshot {
        Snapshot::of(&self.store, mode)
    }

    /// A scan of the keys of a range, as they are now.
    ///
    /// ```
    /// # use pellucid_engine::*;
    /// use std::ops::Bound;
    /// # fn main() -> Result<()> {
    /// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
    /// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
    /// # let engine = Engine::open("/store", options)?;
    /// # let table = engine.table("t")?;
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

    /// The writes of `table` after the sequence number `since`, in the order of their sequence
    /// numbers. After zero come all writes that there ever were, as long as none was collected.
    ///
    /// ```
    /// # use pellucid_engine::*;
    /// # fn main() -> Result<()> {
    /// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
    /// # let options = EngineOptions { file_system: files, ..EngineOptions::default() };
    /// # let engine = Engine::open("/store", options)?;
    /// let table = engine.table("t")?;
    /// let since = engine.newest_sequence();
    /// engine.put(table, b"a", b"1")?;
    /// engine.delete(table, b"a")?;
    /// let mut changes = engine.changes(table, since)?;
    /// let mut puts_and_deletes = Vec::new();
    /// while let ChangeStep::Change(change) = changes.step()? {
    ///     puts_and_deletes.push(change.object.is_some());
    /// }
    /// assert_eq!(puts_and_deletes, [true, false]);
    /// assert_eq!(changes.sequence(), engine.newest_sequence());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::ChangesLost`] if the journal no longer holds all of them.
    pub fn changes(&self, table: TableId, since: u64) -> Result<Changes> {
        Changes::of(&self.store, table, since)
    }

    /// The sequence number of the last write that readers see.
    #[must_use]
    pub fn newest_sequence(&self) -> u64 {
        self.store.ledger.published_sequence()
    }

    /// The entries of an index whose terms are selected, as they are now.
    ///
    /// # Errors
    /// As [`Engine::get`], and [`crate::Error::IndexUnknown`].
    pub fn scan_index(&self, index: IndexId, selection: &Selection<'_>) -> Result<IndexScan> {
        self.snapshot().scan_index(index, selection)
    }

    /// Flushes: writes to tables everything that is so far only in memory and in the journal, so
    /// that the next opening has nothing to replay.
    ///
    /// # Errors
    /// If the file system fails.
    pub fn flush(&self) -> Result<()> {
        self.store.writer.flush()
    }

    /// Flushes everything that was written before, and merges all tables of the ledger into one
    /// level. Other threads can write meanwhile.
    ///
    /// # Errors
    /// [`crate::Error::MergeOvertaken`] if they write too much, and if the file system fails.
    pub fn compact(&self) -> Result<()> {
        self.store.writer.seal_memtable()?;
        self.store.ledger.compact_all()
    }

    /// Collects garbage in the journal: rewrites the segments with the largest share of dead bytes,
    /// one after another, and returns when that is done. It stops once no more than a fourteenth of
    /// the journal is dead, or no segment is left of which at least a tenth is dead. A record
    /// counts as dead only once the newer write of its key was flushed and a merge has dropped the
    /// old entry: call [`Engine::flush`] and [`Engine::compact`] before to free all that can be
    /// freed. The engine also collects by itself, in the background, once 55 % of a segment is dead
    /// (see [`EngineOptions::dead_share`]).
    ///
    /// ```
    /// # use pellucid_engine::*;
    /// # fn main() -> Result<()> {
    /// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
    /// # let mut options = EngineOptions { file_system: files, ..EngineOptions::default() };
    /// # options.background = false;
    /// # options.segment_size_bytes = 4096;
    /// # let engine = Engine::open("/store", options)?;
    /// # let table = engine.table("t")?;
    /// for _ in 0..100 {
    ///     engine.put(table, b"key", &[7; 500])?;
    /// }
    /// engine.flush()?;
    /// let collected = engine.collect()?;
    /// assert!(collected.freed_bytes > 40_000);
    /// assert!(engine.get(table, b"key")?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::DiskFull`], [`crate::Error::Exhausted`] and failures of the file system
    /// leave everything as before.
    pub fn collect(&self) -> Result<Collected> {
        let collected = self.store.collector.collect()?;
        self.store.writer.give_up_spares();
        Ok(collected)
    }

    /// Makes a backup of the store, as it is now, in `directory`, which must be empty or not exist.
    /// Reads go on meanwhile; writes wait until the data in memory is flushed. The backup is a
    /// store of its own: [`Engine::open`] can open it and [`crate::restore`] can copy it.
    ///
    /// ```
    /// # use pellucid_engine::*;
    /// # fn main() -> Result<()> {
    /// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
    /// # let options = EngineOptions { file_system: files.clone(), ..EngineOptions::default() };
    /// # let engine = Engine::open("/store", options.clone())?;
    /// # let table = engine.table("t")?;
    /// engine.put(table, b"key", b"value")?;
    /// let backup = engine.backup("/backup")?;
    /// assert_eq!(verify("/backup", &*files)?.problems, []);
    ///
    /// restore("/backup", "/restored", &*files)?;
    /// let restored = Engine::open("/restored", options)?;
    /// assert_eq!(restored.stats().published_sequence, backup.sequence);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Occupied`] if the target is not empty, and failures of the file system; the
    /// target is then not a valid store, and may be removed.
    pub fn backup(&self, directory: impl AsRef<Path>) -> Result<Backup> {
        self.backup_with(directory, CopyOptions::default())
    }

    /// Makes a backup as [`Engine::backup`] does. Files that cannot be linked, because the target
    /// is on another file system, are copied as `options` say. Reads and writes go on meanwhile.
    ///
    /// # Errors
    /// As [`Engine::backup`], and [`crate::Error::Stopped`] if `options` stop the copying.
    pub fn backup_with(
        &self,
        directory: impl AsRef<Path>,
        options: CopyOptions<'_>,
    ) -> Result<Backup> {
        backup::backup(&self.store, directory.as_ref(), options)
    }

    /// Makes everything durable, flushes it, and releases the store, so that it can be opened again
    /// quickly. Reads through this engine still work; writes are refused.
    ///
    /// # Errors
    /// If the file system fails; the store is released all the same.
    pub fn close(&self) -> Result<()> {
        self.store.close()
    }

    /// The time by which entries expire, in milliseconds since the Unix epoch: the wall clock,
    /// except that it never goes back. To give an entry a lifetime, add the lifetime to this time.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.store.time.now_ms()
    }

    /// The running background jobs of the store; [`crate::jobs`] lists their kinds.
    #[must_use]
    pub fn activity(&self) -> Activity {
        self.store.activity.clone()
    }

    /// Figures of the store.
    #[must_use]
    pub fn stats(&self) -> EngineStats {
        let store = &*self.store;
        let segments = store.journal.segments().facts();
        let sync = store.journal.sync();
        let tally = store.ledger.tally();
        let (shares, ledger) = (store.options.shares(), store.ledger.memory());
        let share = |limit_bytes, used_bytes| MemoryShare { limit_bytes, used_bytes };
        EngineStats {
            published_sequence: store.ledger.published_sequence(),
            durable_sequence: sync.durable_sequence(),
            flushed_sequence: store.ledger.flushed_sequence(),
            segments: segments.len() as u64,
            journal_bytes: segments.iter().map(|segment| segment.size_bytes).sum(),
            journal_dead_bytes: segments.iter().map(|segment| segment.dead_bytes).sum(),
            journal_marker_bytes: segments.iter().map(|segment| segment.marker_bytes).sum(),
            collected: store.journal.garbage().collected(),
            collection_trouble: store.collector.trouble(),
            syncs: sync.syncs(),
            durability: sync.durability(),
            reads: tally.reads(),
            writes: tally.writes(),
            ledger: store.ledger.stats(),
            memory: MemoryFigures {
                setting_bytes: shares.setting_bytes,
                memtables: share(shares.memtables_bytes, ledger.memtables_bytes),
                tables: share(shares.tables_bytes, ledger.tables_bytes),
                jobs: share(shares.jobs_bytes, ledger.jobs_peak_bytes),
                journal: share(shares.journal_bytes, store.journal.offsets_bytes()),
            },
        }
    }
}
