//! The parts of a ledger that its jobs, the background thread and the engine share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pellucid_io::FileSystem;
use pellucid_thread::{CriticalSection, Mutex, MutexGuard};

use super::signals::Signals;
use super::snapshots::Snapshots;
use super::stats::Counters;
use super::table::TableMemory;
use super::table_files::TableFiles;
use super::version::Levels;
use super::version_set::{VersionEdit, VersionSet};
use super::{JournalLink, LedgerOptions};
use crate::counter_set::CounterSet;
use crate::error::{Error, Result};
use crate::manifest::Manifest;

/// The number of entries between two checks whether a memtable waits for its flush, or another
/// thread for the processor: some 100 µs of work.
pub(super) const ENTRIES_A_SLICE: u64 = 256;

/// Level 0 is crowded once it holds this many times the tables that make its merge due.
const LEVEL_0_CROWD: usize = 8;

/// The state of a ledger.
pub(super) struct LedgerState {
    pub(super) options: Arc<LedgerOptions>,
    pub(super) link: Arc<dyn JournalLink>,
    pub(super) versions: VersionSet,
    pub(super) files: TableFiles,
    pub(super) signals: Signals,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) counters: Counters,
    pub(super) tally: CounterSet,
    /// True if a flush failed in the current job, which may be a merge that flushes meanwhile.
    pub(super) has_flush_failed: AtomicBool,
    /// Locked while a flush or merge runs. Taken before the locks of `versions` and `signals`.
    jobs: Mutex<()>,
}

impl LedgerState {
    /// True if level 0 has so many tables that a merge comes before any flush, unless it is one of
    /// everything, which is given up later; writers then wait for it. Each further table makes
    /// reads slower, and the manifest longer, which each flush writes.
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded_times(1)
    }

    /// True if level 0 has `times` as many tables as a crowded one.
    pub(super) fn is_crowded_times(&self, times: usize) -> bool {
        let tables_max = times * LEVEL_0_CROWD * self.options.level_0_trigger.max(1);
        self.level_0_tables() >= tables_max
    }

    /// The number of tables in level 0.
    pub(super) fn level_0_tables(&self) -> usize {
        self.versions.load().levels.level(0).len()
    }

    pub(super) fn new(
        fs: Arc<dyn FileSystem>,
        directory: PathBuf,
        options: LedgerOptions,
        link: Arc<dyn JournalLink>,
        levels: Levels,
        table_memory: Arc<TableMemory>,
        manifest: &Manifest,
    ) -> LedgerState {
        let options = Arc::new(options);
        let (identity, next_number) = (manifest.store_identity, manifest.next_file_number);
        let snapshots = Snapshots::default();
        snapshots.publish(manifest.flushed_sequence);
        LedgerState {
            link,
            versions: VersionSet::new(&options, levels, manifest),
            files: TableFiles::new(fs, directory, identity, next_number, &options, table_memory),
            signals: Signals::new(),
            snapshots: Arc::new(snapshots),
            counters: Counters::default(),
            tally: CounterSet::new(options.clock),
            has_flush_failed: AtomicBool::new(false),
            jobs: Mutex::new(()),
            options,
        }
    }

    /// Takes the job lock: no job runs until the guard is dropped.
    pub(super) fn lock_jobs(&self) -> MutexGuard<'_, ()> {
        self.jobs.lock()
    }

    /// Runs `job` under the job lock, and notes its outcome.
    pub(super) fn in_job<T>(&self, job: impl FnOnce(&LedgerState) -> Result<T>) -> Result<T> {
        let _jobs = self.lock_jobs();
        self.signals.check()?;
        let _whole = CriticalSection::begin();
        self.has_flush_failed.store(false, Ordering::Relaxed);
        let outcome = job(self);
        // A merge that lacks room is no reason to refuse a write.
        self.signals.note_outcome(&outcome, self.has_flush_failed.load(Ordering::Relaxed));
        outcome
    }

    /// Seals the active memtable, whose entries are all at or below `last_sequence`. Called under
    /// the writer lock.
    pub(super) fn seal(&self, last_sequence: u64) {
        let _whole = CriticalSection::begin();
        self.versions.seal(last_sequence);
        self.signals.wake_work();
    }

    /// Commits an edit, and removes the files that no manifest names afterwards: the replaced ones
    /// after success, the new ones after a failure.
    pub(super) fn commit(&self, edit: &VersionEdit) -> Result<()> {
        let swapped = || self.signals.wake_room();
        match self.versions.commit(edit, &self.files, &*self.link, swapped) {
            Ok(()) => {
                let moved =
                    |number: &&u64| edit.added.iter().all(|(_, t)| t.facts().number != **number);
                self.files.remove(edit.removed.iter().filter(moved).copied());
                Ok(())
            }
            Err(failure) if failure.may_be_in_place => {
                // The manifest on the medium names either the old or the new files: all of them
                // stay.
                self.signals.fail(&failure.error);
                Err(Error::Poisoned { cause: failure.error.to_string() })
            }
            Err(failure) => {
                let new = |number: &u64| !edit.removed.contains(number);
                let added = edit.added.iter().map(|(_, table)| table.facts().number);
                self.files.remove(added.filter(new));
                Err(failure.error)
            }
        }
    }
}
