//! What flush, compaction and the façade share, and how the tree changes from version to version.
//!
//! Locks, in the order in which they are taken: `jobs` (one flush or merge at a time), `manifest`
//! (one commit at a time; held while the manifest is written), `edit` (held for moments, to swap
//! the version; writers and readers of the version's parts never wait for a disk behind it).

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use arc_swap::ArcSwap;
use pellucid_io::FileSystem;
use pellucid_thread::{Condvar, Indivisible, Mutex, MutexGuard};

use super::manifest::{Manifest, WriteFailure};
use super::memtable::{MemoryPool, Memtable, memtable_memory_bytes};
use super::outputs::WRITERS_MAX;
use super::snapshots::Snapshots;
use super::stats::Counters;
use super::table::{
    Directories, NewTable, PlacesBuilder, Table, TableFacts, TableMemory, TableShape, table_folder,
    table_path,
};
use super::version::{Levels, SealedMemtable, Version};
use super::{DroppedList, JournalLink, LedgerOptions, SegmentFacts};
use crate::error::{Error, Result};
use crate::tally::Tally;

/// Level 0 may hold this many times the tables that make its merge due before writes are delayed:
/// while they are merged, others come.
const LEVEL_0_PATIENCE: usize = 3;
/// Delay of a write for each table of level 0 above that, and for each sealed memtable but the
/// first two.
const WRITE_DELAY_STEP_NS: u64 = 500;
/// The longest delay: at 50,000 writes a second every merge catches up.
const WRITE_DELAY_MAX_NS: u64 = 20_000;

/// The share of a job's memory that its list of dropped entries may take.
const DROPPED_SHARE: u64 = 24;

/// A table that was written, with the directories for which there was room.
pub(super) struct WrittenTable {
    pub(super) facts: TableFacts,
    directories: Directories,
}

/// What is guarded by the lock on edits.
#[derive(Default)]
pub(super) struct EditState {
    /// The background thread runs.
    pub(super) background: bool,
    /// Why no further write is taken.
    pub(super) failure: Option<Error>,
    /// Why jobs are put off for a while.
    pub(super) shortage: Option<Error>,
}

/// What is guarded by the lock on the manifest.
struct Committed {
    edition: u64,
    flushed_sequence: u64,
}

/// A change of the tree's tables.
#[derive(Default)]
pub(super) struct Edit {
    /// Numbers of tables that go.
    pub(super) removed: Vec<u64>,
    /// Tables that come, with their levels.
    pub(super) added: Vec<(usize, Arc<Table>)>,
    /// The oldest sealed memtable is in tables now, and with it every record up to this.
    pub(super) flushed_sequence: Option<u64>,
    /// Entries that went.
    pub(super) dropped: DroppedList,
}

/// The state of a ledger.
pub(super) struct State {
    pub(super) fs: Arc<dyn FileSystem>,
    pub(super) directory: PathBuf,
    pub(super) store_identity: u64,
    pub(super) options: LedgerOptions,
    pub(super) link: Arc<dyn JournalLink>,
    pub(super) version: ArcSwap<Version>,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) counters: Counters,
    pub(super) tally: Tally,
    /// The memory held of tables.
    pub(super) table_memory: Arc<TableMemory>,
    /// The memory of memtables that were flushed.
    pub(super) pool: Arc<MemoryPool>,
    /// Memory in which the keys of tables are collected while they are written: that of the flush
    /// and those of the merge, kept because what is given back is not always reused.
    lent: Mutex<Vec<PlacesBuilder>>,
    /// The most that a job took for a table.
    pub(super) jobs_peak_bytes: AtomicU64,
    pub(super) jobs: Mutex<()>,
    committed: Mutex<Committed>,
    edit: Mutex<EditState>,
    /// There is something to do for the background thread.
    pub(super) work: Condvar,
    /// A memtable was flushed, or something went wrong.
    pub(super) room: Condvar,
    next_file_number: AtomicU64,
    flushed_sequence: AtomicU64,
    /// Sealed memtables; one that a large batch has made larger counts as several.
    sealed: AtomicUsize,
    failed: AtomicBool,
    closing: AtomicBool,
    write_delay_ns: AtomicU64,
}

#[track_caller]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    pub(super) fn new(
        fs: Arc<dyn FileSystem>,
        directory: PathBuf,
        options: LedgerOptions,
        link: Arc<dyn JournalLink>,
        levels: Levels,
        table_memory: Arc<TableMemory>,
        manifest: &Manifest,
    ) -> State {
        let size_bytes = options.memtable_size_bytes;
        let pool = Arc::new(MemoryPool::new(memtable_memory_bytes(size_bytes)));
        let active = Arc::new(Memtable::new(size_bytes, options.knows_stems, &pool));
        let snapshots = Snapshots::default();
        snapshots.publish(manifest.flushed_sequence);
        let tally = Tally::new(options.clock);
        let state = State {
            fs,
            directory,
            store_identity: manifest.store_identity,
            options,
            link,
            version: ArcSwap::from_pointee(Version { active, sealed: Vec::new(), levels }),
            snapshots: Arc::new(snapshots),
            counters: Counters::default(),
            tally,
            table_memory,
            pool,
            lent: Mutex::default(),
            jobs_peak_bytes: AtomicU64::new(0),
            jobs: Mutex::new(()),
            committed: Mutex::new(Committed {
                edition: manifest.edition,
                flushed_sequence: manifest.flushed_sequence,
            }),
            edit: Mutex::new(EditState::default()),
            work: Condvar::for_work(),
            room: Condvar::new(),
            next_file_number: AtomicU64::new(manifest.next_file_number),
            flushed_sequence: AtomicU64::new(manifest.flushed_sequence),
            sealed: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            write_delay_ns: AtomicU64::new(0),
        };
        state.note_debt(&state.version.load());
        state
    }

    pub(super) fn lock_jobs(&self) -> MutexGuard<'_, ()> {
        lock(&self.jobs)
    }

    /// The manifest that a commit would write now, with the segments that `segments` says, and the
    /// version that it describes.
    pub(super) fn capture<T>(
        &self,
        segments: impl FnOnce() -> (Vec<SegmentFacts>, T),
    ) -> (Manifest, Arc<Version>, T) {
        let committed = lock(&self.committed);
        let version = self.version.load_full();
        let (segments, rest) = segments();
        let manifest = Manifest {
            store_identity: self.store_identity,
            edition: committed.edition,
            flushed_sequence: committed.flushed_sequence,
            next_file_number: self.next_file_number.load(Ordering::Relaxed),
            time_mark_ms: self.link.now_ms(),
            tables: version.levels.facts(),
            segments,
        };
        (manifest, version, rest)
    }

    /// Returns once no commit is under way: whatever the version lacks was handed to the link.
    pub(super) fn settle(&self) {
        drop(lock(&self.committed));
    }

    pub(super) fn lock_edit(&self) -> MutexGuard<'_, EditState> {
        lock(&self.edit)
    }

    pub(super) fn table_shape(&self) -> TableShape {
        TableShape {
            block_size_bytes: self.options.block_size_bytes,
            filter_bits_per_key: self.options.filter_bits_per_key,
            clock: self.options.clock,
            rules: Arc::clone(&self.options.rules),
        }
    }

    pub(super) fn take_file_number(&self) -> u64 {
        self.next_file_number.fetch_add(1, Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn flushed_sequence(&self) -> u64 {
        self.flushed_sequence.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn write_delay_ns(&self) -> u64 {
        self.write_delay_ns.load(Ordering::Relaxed)
    }

    /// Sealed memtables that wait for their flush; one above the usual size counts as several.
    #[inline]
    pub(super) fn sealed(&self) -> usize {
        self.sealed.load(Ordering::Acquire)
    }

    /// Whether no further write is taken.
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Whether the ledger is being closed.
    #[inline]
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Has jobs end as soon as they can, and wakes all who wait.
    pub(super) fn close(&self) {
        let _edit = self.lock_edit();
        self.closing.store(true, Ordering::Release);
        self.work.notify_all();
        self.room.notify_all();
    }

    /// The failure, if there was one.
    pub(super) fn check(&self) -> Result<()> {
        match &self.lock_edit().failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    /// Takes no further write from now on, because of `error`. A full disk passes, as does a want
    /// of descriptors, and closing is no failure; none of them comes here.
    pub(super) fn fail(&self, error: &Error) {
        let mut edit = self.lock_edit();
        if edit.failure.is_none() {
            edit.failure = Some(Error::Poisoned { cause: error.to_string() });
        }
        self.failed.store(true, Ordering::Release);
        self.room.notify_all();
    }

    /// Seals the active memtable, in which all entries are up to `last_sequence`. Under the writer
    /// lock.
    pub(super) fn seal(&self, last_sequence: u64) {
        let _whole = Indivisible::begin();
        let options = &self.options;
        let size_bytes = options.memtable_size_bytes;
        let active = Arc::new(Memtable::new(size_bytes, options.knows_stems, &self.pool));
        let _edit = self.lock_edit();
        let current = self.version.load();
        let memtable = Arc::clone(&current.active);
        let highest = memtable.highest_sequence();
        assert!(highest <= last_sequence, "entry {highest} is above the last one, {last_sequence}");
        let mut sealed = vec![SealedMemtable { memtable, last_sequence }];
        sealed.extend(current.sealed.iter().cloned());
        self.swap(Version { active, sealed, levels: current.levels.clone() });
        self.work.notify_one();
    }

    /// Makes `version` the current one. Under the lock on edits.
    fn swap(&self, version: Version) {
        self.note_debt(&version);
        let usual_bytes = self.options.memtable_size_bytes.max(1);
        let size_of = |sealed: &SealedMemtable| {
            (sealed.memtable.size_bytes() / usual_bytes).clamp(1, u64::from(u32::MAX)) as usize
        };
        self.sealed.store(version.sealed.iter().map(size_of).sum(), Ordering::Release);
        self.version.store(Arc::new(version));
    }

    fn note_debt(&self, version: &Version) {
        let patience = LEVEL_0_PATIENCE * self.options.level_0_trigger;
        let tables = version.levels.level(0).len().saturating_sub(patience);
        let debt = tables + version.sealed.len().saturating_sub(2);
        let delay = (debt as u64 * WRITE_DELAY_STEP_NS).min(WRITE_DELAY_MAX_NS);
        self.write_delay_ns.store(delay, Ordering::Relaxed);
    }

    /// Writes a manifest with the edit in it, and then makes it the current version. If the
    /// manifest could not be written, nothing has changed here.
    pub(super) fn commit(&self, edit: &Edit) -> std::result::Result<(), WriteFailure> {
        let _whole = Indivisible::begin();
        let mut committed = lock(&self.committed);
        let levels = self.version.load().levels.edited(&edit.removed, &edit.added);
        let manifest = Manifest {
            store_identity: self.store_identity,
            edition: committed.edition + 1,
            flushed_sequence: edit.flushed_sequence.unwrap_or(committed.flushed_sequence),
            next_file_number: self.next_file_number.load(Ordering::Relaxed),
            tables: levels.facts(),
            time_mark_ms: self.link.now_ms(),
            segments: self.link.segment_facts(&edit.dropped),
        };
        assert!(
            manifest.flushed_sequence >= committed.flushed_sequence,
            "what is flushed stays flushed"
        );
        manifest.write(&*self.fs, &self.directory)?;
        committed.edition = manifest.edition;
        committed.flushed_sequence = manifest.flushed_sequence;
        self.flushed_sequence.store(manifest.flushed_sequence, Ordering::Release);
        {
            let _edit = self.lock_edit();
            let current = self.version.load();
            let mut sealed = current.sealed.clone();
            if let Some(flushed_sequence) = edit.flushed_sequence {
                let oldest = sealed.pop().expect("the memtable that was flushed is still there");
                assert_eq!(oldest.last_sequence, flushed_sequence, "the oldest is flushed first");
            }
            self.swap(Version { active: Arc::clone(&current.active), sealed, levels });
            self.room.notify_all();
        }
        // Still under the lock on commits: the next one's segment facts hold these bytes already.
        self.link.on_dropped(&edit.dropped);
        self.link.after_manifest(manifest.flushed_sequence);
        Ok(())
    }

    /// Commits, and takes care of the files: of the old ones if it was done, of the new ones if
    /// not.
    pub(super) fn commit_files(&self, edit: &Edit) -> Result<()> {
        match self.commit(edit) {
            Ok(()) => {
                let moved =
                    |number: &&u64| edit.added.iter().all(|(_, t)| t.facts().number != **number);
                self.remove_tables(edit.removed.iter().filter(moved).copied());
                Ok(())
            }
            Err(failure) if failure.may_be_in_place => {
                // The manifest on the medium names either the old or the new files: all stay.
                self.fail(&failure.error);
                Err(Error::Poisoned { cause: failure.error.to_string() })
            }
            Err(failure) => {
                let new = |number: &u64| !edit.removed.contains(number);
                let added = edit.added.iter().map(|(_, table)| table.facts().number);
                self.remove_tables(added.filter(new));
                Err(failure.error)
            }
        }
    }

    /// Removes files of tables that no manifest names. What cannot be removed now is removed when
    /// the store is opened next.
    pub(super) fn remove_tables(&self, numbers: impl Iterator<Item = u64>) {
        for number in numbers {
            let _ = self.fs.remove(&table_path(&self.directory, number));
        }
    }

    /// Opens tables that were just written, and makes their names durable.
    pub(super) fn open_new(&self, tables: Vec<WrittenTable>) -> Result<Vec<Arc<Table>>> {
        let folder = table_folder(&self.directory);
        self.fs.sync_directory(&folder).map_err(|error| Error::io("sync", &folder, error))?;
        let open = |new: WrittenTable| {
            let mut table =
                Table::open(&*self.fs, &self.directory, self.store_identity, new.facts)?;
            table.count_memory(&self.table_memory);
            table.give_directories(new.directories);
            table.prefault();
            Ok(Arc::new(table))
        };
        tables.into_iter().map(open).collect()
    }

    /// An empty list of entries that a job drops.
    pub(super) fn dropped_list(&self) -> DroppedList {
        let number = self.take_file_number();
        let path = table_folder(&self.directory).join(format!("{number:016x}.dropped.new"));
        let limit_bytes = self.options.job_memory_bytes / DROPPED_SHARE;
        DroppedList::spilling(&self.fs, path, limit_bytes as usize)
    }

    /// Notes what a job takes, for the figures.
    pub(super) fn note_job_memory(&self, bytes: u64) {
        self.jobs_peak_bytes.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Memory to collect the keys of a table in.
    pub(super) fn lend_memory(&self) -> PlacesBuilder {
        lock(&self.lent).pop().unwrap_or_default()
    }

    /// Makes the directories of a table that was written, and takes the memory back in which its
    /// keys were collected.
    pub(super) fn written(&self, new: NewTable) -> WrittenTable {
        let with_stems = self.options.knows_stems;
        let directories = new.places.finish(new.blocks, with_stems, &self.table_memory);
        self.give_back(new.places);
        WrittenTable { facts: new.facts, directories }
    }

    /// Takes back what was lent.
    pub(super) fn give_back(&self, memory: PlacesBuilder) {
        let mut lent = lock(&self.lent);
        if lent.len() < WRITERS_MAX {
            lent.push(memory);
        }
    }
}
