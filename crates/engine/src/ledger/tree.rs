//! The tree as a whole: the interface of the ledger to the engine.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use pellucid_account::EngineCounts;
use pellucid_io::FileSystem;
use pellucid_thread::{JoinHandle, Mutex};

#[cfg(test)]
use super::background::do_one_job;
use super::background::{start, wait_for_flush};
use super::compaction::{compact, compact_for_room, is_merge_due};
use super::flush::flush_all;
use super::merge::Merge;
use super::options::LEVELS;
use super::picker::{MergePlan, debt_bytes};
use super::pinned_tree::PinnedTree;
use super::scan::LedgerScan;
use super::snapshots::SnapshotGuard;
use super::state::LedgerState;
use super::stats::LedgerMemory;
use super::table::{Table, TableFile, TableMemory, TableMetadata, table_folder, table_path};
use super::version::{Levels, LookupMetrics, Version};
use super::version_set::VersionEdit;
use super::{
    Direction, Entry, FoundEntry, JournalLink, KeyRange, LedgerOptions, LookupRequest,
    LookupResult, NEWEST, NoRecordReader, SegmentMetadata,
};
use crate::codec::key_hash;
use crate::counter_set::CounterSet;
use crate::error::{Error, Result};
use crate::manifest::{Manifest, manifest_path};
use crate::prefix::end_of_prefix;
use crate::read_mode::ReadMode;
use crate::stats::{LedgerFigures, LevelFigures};

/// The number of tables that are opened together, so that their disk reads overlap.
const OPENED_TOGETHER: usize = 64;

/// The active memtable, which receives new entries. It stays the active one as long as the writer
/// lock is held and [`Ledger::seal_active`] is not called.
pub(crate) struct ActiveMemtable<'a> {
    version: Guard<Arc<Version>>,
    options: &'a LedgerOptions,
}

impl ActiveMemtable<'_> {
    /// Prefetches the memory that inserting an entry of `key` will need.
    #[inline]
    pub(crate) fn prefetch(&self, key: &[u8]) {
        self.version.active.prefetch_slot(key_hash(key));
    }

    /// Inserts an entry. Only under the writer lock.
    #[inline]
    pub(crate) fn insert(&self, entry: &Entry<'_>) {
        if let Some(prefix) = self.options.rules.prefix_of(entry.key) {
            self.version.active.note_prefix(key_hash(prefix));
        }
        self.version.active.insert(entry, key_hash(entry.key));
    }

    /// True if the memtable has reached its size limit.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.version.active.is_full(self.options.memtable_size_bytes)
    }
}

/// The ledger of a store.
pub(crate) struct Ledger {
    state: Arc<LedgerState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Ledger {
    /// Opens the ledger that `manifest` names, and removes files that it does not name. The engine
    /// then inserts and publishes the records after its flushed sequence number from the journal.
    pub(crate) fn open(
        fs: Arc<dyn FileSystem>,
        directory: &Path,
        manifest: Manifest,
        options: LedgerOptions,
        link: Arc<dyn JournalLink>,
    ) -> Result<Ledger> {
        Manifest::remove_unfinished(&*fs, directory)?;
        let mut tables = Vec::with_capacity(manifest.tables.len());
        let table_memory = TableMemory::new(options.tables_memory_bytes);
        for named in manifest.tables.chunks(OPENED_TOGETHER) {
            let open =
                |(_, facts): &(_, TableMetadata)| TableFile::open(&*fs, directory, facts.clone());
            let files: Vec<_> = named.iter().map(open).collect::<Result<_>>()?;
            files.iter().try_for_each(TableFile::expect_parts)?;
            for ((level, _), file) in named.iter().zip(files) {
                let mut table = Table::of_file(file, manifest.store_identity)?;
                table.count_memory(&table_memory);
                tables.push((usize::from(*level), Arc::new(table)));
            }
        }
        let levels = Levels::new(tables)
            .map_err(|what| Error::corruption(&manifest_path(directory), 0, what))?;
        // Done last: if the manifest does not fit its tables, no file may be removed.
        remove_unnamed_tables(&*fs, directory, &manifest)?;
        let directory = directory.to_path_buf();
        let state = LedgerState::new(fs, directory, options, link, levels, table_memory, &manifest);
        Ok(Ledger { state: Arc::new(state), thread: Mutex::new(None) })
    }

    /// Starts the thread that flushes and merges, unless the options say no. Does nothing if it
    /// runs.
    pub(crate) fn start_background(&self) -> Result<()> {
        let mut thread = self.thread.lock();
        if self.state.options.background && thread.is_none() {
            *thread = Some(start(&self.state)?);
        }
        Ok(())
    }

    /// The active memtable. Called under the writer lock.
    #[inline]
    pub(crate) fn active(&self) -> ActiveMemtable<'_> {
        ActiveMemtable { version: self.state.versions.load(), options: &self.state.options }
    }

    /// Inserts an entry into the active memtable. Only under the writer lock.
    #[inline]
    pub(crate) fn insert(&self, entry: &Entry<'_>) {
        self.active().insert(entry);
    }

    /// Makes everything up to `sequence` visible to readers. Called under the writer lock, after
    /// the inserts of a batch.
    #[inline]
    pub(crate) fn publish(&self, sequence: u64) {
        self.state.snapshots.publish(sequence);
    }

    /// The counters of reads and writes.
    #[inline]
    pub(crate) fn tally(&self) -> &CounterSet {
        &self.state.tally
    }

    /// The highest sequence number that readers see.
    #[inline]
    pub(crate) fn published_sequence(&self) -> u64 {
        self.state.snapshots.published()
    }

    /// Seals the active memtable if it is full; `last_sequence` is that of the last entry inserted.
    /// Called under the writer lock, between batches.
    #[inline]
    pub(crate) fn rotate_if_full(&self, last_sequence: u64) {
        if self.active().is_full() {
            self.state.seal(last_sequence);
        }
    }

    /// Seals the active memtable if it has entries; `last_sequence` is that of the last one. Called
    /// under the writer lock, between batches.
    pub(crate) fn seal_active(&self, last_sequence: u64) {
        if self.state.versions.load().active.entries() > 0 {
            self.state.seal(last_sequence);
        }
    }

    /// Seals the active memtable as [`Ledger::seal_active`] does, unless so many wait for their
    /// flush that writers would have to wait, too. Returns true if the active memtable is empty
    /// now.
    pub(crate) fn try_seal_active(&self, last_sequence: u64) -> bool {
        if self.state.versions.sealed() >= self.sealed_max() {
            return self.state.versions.load().active.entries() == 0;
        }
        self.seal_active(last_sequence);
        true
    }

    /// The most sealed memtables with which writers need not wait for a flush.
    #[inline]
    fn sealed_max(&self) -> usize {
        self.state.options.sealed_memtables_max.max(1) - 1
    }

    /// The newest entry of `key` at or below `at_sequence`, which is [`NEWEST`] or the sequence
    /// number of a registered snapshot. A tombstone is returned as such.
    #[inline]
    pub(crate) fn get(
        &self,
        key: &[u8],
        at_sequence: u64,
        mode: ReadMode,
        counts: &mut EngineCounts,
    ) -> Result<Option<FoundEntry>> {
        let (version, at_sequence) = self.version_at(at_sequence);
        let sought = LookupRequest { key, hash: key_hash(key), at_sequence, mode };
        let asking = LookupMetrics::begin(self.tally().mine());
        let found = version.find(&sought, counts, &asking, &mut NoRecordReader);
        if found.is_ok() {
            asking.end(counts);
        }
        Ok(found?.map(LookupResult::into_entry))
    }

    /// The current version of the tree, and the sequence number up to which its entries are visible
    /// for `at_sequence` (see [`Ledger::get`]).
    #[inline]
    pub(crate) fn version_at(&self, at_sequence: u64) -> (Guard<Arc<Version>>, u64) {
        // The version is loaded first: an entry that a later version has dropped was shadowed by
        // one that is published by now.
        let version = self.state.versions.load();
        (version, self.resolve(at_sequence))
    }

    #[inline]
    fn resolve(&self, at_sequence: u64) -> u64 {
        if at_sequence == NEWEST { self.published_sequence() } else { at_sequence }
    }

    /// Scans the live keys of a range at `at_sequence` (see [`Ledger::get`]).
    pub(crate) fn scan(
        &self,
        range: KeyRange<'_>,
        direction: Direction,
        at_sequence: u64,
        mode: ReadMode,
    ) -> Result<LedgerScan> {
        let (version, at_sequence) = self.version_at(at_sequence);
        let merge = Merge::of_version(&version, &range, direction, at_sequence, mode)?;
        Ok(LedgerScan::new(merge, &range, direction, at_sequence, mode))
    }

    /// Scans the live keys with a prefix at `at_sequence` (see [`Ledger::get`]). `prefix` is an
    /// internal key prefix: the table number and, if the table has a rule, a complete, non-empty
    /// prefix by it.
    pub(crate) fn scan_prefix(
        &self,
        prefix: &[u8],
        direction: Direction,
        at_sequence: u64,
        mode: ReadMode,
    ) -> Result<LedgerScan> {
        let (version, at_sequence) = self.version_at(at_sequence);
        let behind = end_of_prefix(prefix);
        let end = behind.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = KeyRange { start: Bound::Included(prefix), end };
        // Without a rule, no memtable and no table has noted the prefixes of the keys.
        let merge = match self.state.options.rules.has_prefixes(prefix) {
            true => Merge::of_prefix(&version, prefix, &range, direction, at_sequence, mode),
            false => Merge::of_version(&version, &range, direction, at_sequence, mode),
        }?;
        Ok(LedgerScan::new(merge, &range, direction, at_sequence, mode))
    }

    /// Lets a scan that was released go on in the current version. A snapshot must keep the entries
    /// that the scan sees.
    #[cold]
    pub(crate) fn resume(&self, scan: &mut LedgerScan, mode: ReadMode) -> Result<()> {
        scan.resume(|range, direction, at_sequence| {
            let version = self.state.versions.load();
            Merge::of_version(&version, range, direction, at_sequence, mode)
        })
    }

    /// Registers a snapshot at the published sequence number.
    pub(crate) fn register_snapshot(&self) -> SnapshotGuard {
        self.state.snapshots.register()
    }

    /// The sequence number up to which every record is in the tables of the committed manifest.
    pub(crate) fn flushed_sequence(&self) -> u64 {
        self.state.versions.flushed_sequence()
    }

    /// Seals the active memtable and waits until all sealed ones are in tables. Called under the
    /// writer lock. `last_sequence` is the last sequence number in use: a record up to it that was
    /// not inserted does not exist.
    pub(crate) fn flush_now(&self, last_sequence: u64) -> Result<()> {
        self.state.signals.check()?;
        let version = self.state.versions.load();
        let newest = version.sealed.first().map(|sealed| sealed.last_sequence);
        let covered = newest.unwrap_or_else(|| self.flushed_sequence());
        if version.active.entries() > 0 || covered < last_sequence {
            self.state.seal(last_sequence);
        }
        self.wait_for_flushes()
    }

    /// Waits until the memtables that are sealed now are in tables.
    pub(crate) fn wait_for_flushes(&self) -> Result<()> {
        let versions = &self.state.versions;
        let newest = versions.load().sealed.first().map_or(0, |sealed| sealed.last_sequence);
        wait_for_flush(&self.state, || versions.flushed_sequence() >= newest).map(|_| ())
    }

    /// Merges until all tables are in one level.
    pub(crate) fn compact_all(&self) -> Result<()> {
        self.state.in_job(|state| {
            state.signals.check_open()?;
            flush_all(state)?;
            let plan = MergePlan::of_all(&state.versions.load().levels, state.link.now_ms());
            plan.map_or(Ok(()), |plan| compact(state, &plan))
        })
    }

    /// Flushes all sealed memtables and does one merge for which there is room on the disk, so that
    /// more records are known to be dead. Returns true if another call may find more.
    pub(crate) fn merge_for_room(&self) -> Result<bool> {
        self.state.in_job(|state| {
            state.signals.check_open()?;
            flush_all(state)?;
            compact_for_room(state)
        })
    }

    /// Writes a manifest with the current facts of the journal's segments.
    pub(crate) fn write_manifest(&self) -> Result<()> {
        self.state.signals.check()?;
        self.state.commit(&VersionEdit::default())
    }

    /// The delay that each write has to take now, in proportion to the debt of flushes and merges.
    #[inline]
    pub(crate) fn write_delay_ns(&self) -> u64 {
        self.state.versions.write_delay_ns()
    }

    /// True if flushes or merges are behind, so that other background work should wait.
    pub(crate) fn has_debt(&self) -> bool {
        self.state.versions.sealed() > 0 || is_merge_due(&self.state)
    }

    /// True if a write is possible, and need not wait for a flush.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.state.versions.sealed() <= self.sealed_max() && !self.state.signals.has_failed()
    }

    /// True if the job that was put off last, and still is, was a flush.
    pub(crate) fn is_flush_put_off(&self) -> bool {
        self.state.signals.is_flush_put_off()
    }

    /// Waits until there are few enough sealed memtables; returns the time that it waited. Called
    /// before a batch, under the writer lock. After an error no write is possible: for good, or
    /// until there is room ([`Error::DiskFull`], [`Error::Exhausted`]).
    #[inline]
    pub(crate) fn wait_for_memtables(&self) -> Result<Duration> {
        if self.has_room() {
            return Ok(Duration::ZERO);
        }
        let (options, sealed_max) = (&self.state.options, self.sealed_max());
        let noted = options.activity.begin(crate::jobs::STALL, options.clock);
        let waited = wait_for_flush(&self.state, || self.state.versions.sealed() <= sealed_max)?;
        drop(noted);
        self.state.counters.add_wait(waited);
        Ok(waited)
    }

    /// Captures the current content of the store: its manifest, with the segments that `segments`
    /// returns, and its tables, whose bytes stay readable even if their files are removed. Nothing
    /// is committed meanwhile.
    pub(crate) fn capture<T>(
        &self,
        segments: impl FnOnce() -> (Vec<SegmentMetadata>, T),
    ) -> (Manifest, Vec<Arc<Table>>, T) {
        let state = &self.state;
        state.versions.capture(&state.files, state.link.now_ms(), segments)
    }

    /// Pins the current version of the tree. All entries that it no longer holds have been handed
    /// to [`JournalLink::on_dropped`] when this returns.
    pub(crate) fn pin(&self) -> PinnedTree {
        // The view is taken first: none of its readers needs an entry that the version no longer
        // holds.
        let view = self.state.snapshots.view();
        let version = self.state.versions.load_full();
        self.state.versions.settle();
        PinnedTree { view, version }
    }

    /// The figures of the tree.
    pub(crate) fn stats(&self) -> LedgerFigures {
        let state = &self.state;
        let version = state.versions.load_full();
        let sealed = version.sealed.iter().map(|sealed| sealed.memtable.size_bytes());
        let mut stats = LedgerFigures {
            memtable_bytes: version.active.size_bytes() + sealed.sum::<u64>(),
            sealed_memtables: version.sealed.len() as u64,
            table_memory_bytes: state.files.memory().used_bytes(),
            debt_bytes: debt_bytes(&state.options, &version.levels),
            write_delay_ns: state.versions.write_delay_ns(),
            snapshots: state.snapshots.registered() as u64,
            levels: (0..LEVELS).map(|level| self.level_stats(&version.levels, level)).collect(),
            running: self.running(),
            trouble: state.signals.trouble(),
            ..LedgerFigures::default()
        };
        state.counters.read_into(&mut stats);
        stats
    }

    /// The name of the flush or merge that runs now: the first kinds of jobs are flushes, and the
    /// merges of each level.
    fn running(&self) -> Option<&'static str> {
        let activity = &self.state.options.activity;
        let mut jobs = activity.names().iter().zip(activity.totals()).take(1 + LEVELS);
        jobs.find(|(_, totals)| totals.running > 0).map(|(name, _)| *name)
    }

    /// The memory of the tree outside the page cache.
    pub(crate) fn memory(&self) -> LedgerMemory {
        let state = &self.state;
        let version = state.versions.load_full();
        let sealed = version.sealed.iter().map(|sealed| sealed.memtable.memory_bytes());
        let memtables_bytes = version.active.memory_bytes() + sealed.sum::<u64>();
        LedgerMemory {
            memtables_bytes: memtables_bytes + state.versions.pooled_bytes(),
            tables_bytes: state.files.memory().used_bytes(),
            jobs_peak_bytes: state.files.jobs_peak_bytes(),
        }
    }

    fn level_stats(&self, levels: &Levels, level: usize) -> LevelFigures {
        let tables = levels.level(level);
        LevelFigures {
            tables: tables.len() as u64,
            size_bytes: levels.size_bytes(level),
            entries: tables.iter().map(|table| table.facts().entries).sum(),
            tombstones: tables.iter().map(|table| table.tombstones()).sum(),
            blocks: tables.iter().map(|table| table.blocks().checked().0).sum(),
            blocks_checked: tables.iter().map(|table| table.blocks().checked().1).sum(),
            directory_bytes: tables.iter().map(|table| table.directories().size_bytes()).sum(),
            reads: self.tally().level(level),
            ..LevelFigures::default()
        }
    }

    /// Ends the background thread. Entries that are only in memtables are still in the journal.
    pub(crate) fn close(&self) {
        self.state.signals.close();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic of the thread was noted as the ledger's failure.
            let _ = thread.join();
        }
        // A merge that runs on a caller's thread gives up, and removes its tables.
        drop(self.state.lock_jobs());
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.close();
    }
}

/// Removes the tables that a flush or merge left behind in a crash.
fn remove_unnamed_tables(fs: &dyn FileSystem, directory: &Path, manifest: &Manifest) -> Result<()> {
    let folder = table_folder(directory);
    let names = fs.list(&folder).map_err(|error| Error::io("list", &folder, error))?;
    let named: std::collections::HashSet<_> =
        manifest.tables.iter().map(|(_, facts)| table_path(directory, facts.number)).collect();
    for name in names.iter().filter(|name| name.ends_with(".table") || name.ends_with(".new")) {
        let path = folder.join(name);
        if !named.contains(&path) {
            fs.remove(&path).map_err(|error| Error::io("remove", &path, error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
impl Ledger {
    /// Does one job as the thread does; returns true if one was due.
    pub(crate) fn job_step(&self) -> Result<bool> {
        do_one_job(&self.state)
    }

    /// Does one merge if one is due; returns true if it did.
    pub(crate) fn compact_step(&self) -> Result<bool> {
        self.state.in_job(super::compaction::compact_one)
    }

    /// Checks every block of every table, even those that were checked before.
    pub(crate) fn verify(&self) -> Result<()> {
        let version = self.state.versions.load_full();
        version.levels.all().try_for_each(|(_, table)| table.verify())
    }

    /// Seals the active memtable, however full it is, and does not flush it.
    pub(crate) fn seal_for_tests(&self, last_sequence: u64) {
        self.state.seal(last_sequence);
    }

    /// The sequence numbers of all entries in the tree.
    pub(crate) fn sequences_for_tests(&self) -> Vec<u64> {
        let version = self.state.versions.load_full();
        let (range, mode) = (KeyRange::EVERYTHING, ReadMode::MayBlock);
        let merge = Merge::of_version(&version, &range, Direction::Forward, NEWEST, mode);
        let mut merge = merge.expect("the tables are sound");
        let mut sequences = Vec::new();
        while let Some(entry) = merge.entry() {
            sequences.push(entry.sequence);
            merge.advance().expect("the tables are sound");
        }
        sequences
    }
}
