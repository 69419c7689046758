//! The current version of the tree, and the commit of a manifest that makes the next one current.
//!
//! Locks, in the order in which they are taken: `committed_edition` (one commit at a time, held
//! while the manifest is written), `swapping` (held only for moments, so that neither writers nor
//! readers wait for a disk).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};
use pellucid_thread::{CriticalSection, Mutex};

use super::memtable::{MemoryPool, Memtable, memtable_memory_bytes};
use super::table::Table;
use super::table_files::TableFiles;
use super::version::{Levels, SealedMemtable, Version};
use super::{DroppedList, JournalLink, LedgerOptions};
use crate::manifest::{Manifest, SegmentMetadata, WriteFailure};

/// Writes are delayed once level 0 has more than this many times the tables that make its merge
/// due: while those are merged, others are added.
const LEVEL_0_PATIENCE: usize = 3;
/// The delay of a write for each table of level 0 above that, and for each sealed memtable beyond
/// the first two.
const WRITE_DELAY_STEP_NS: u64 = 500;
/// The longest delay: at 50,000 writes per second, every merge catches up.
const WRITE_DELAY_MAX_NS: u64 = 20_000;

/// A change of the tree's tables.
#[derive(Default)]
pub(super) struct VersionEdit {
    /// The numbers of tables to remove.
    pub(super) removed: Vec<u64>,
    /// The tables to add, with their levels.
    pub(super) added: Vec<(usize, Arc<Table>)>,
    /// For a flush, the sequence number up to which every record is now in tables: that of the
    /// oldest sealed memtable, which is removed.
    pub(super) flushed_sequence: Option<u64>,
    /// The entries that the edit drops.
    pub(super) dropped: DroppedList,
}

/// The versions of a tree.
pub(super) struct VersionSet {
    current: ArcSwap<Version>,
    /// The edition of the manifest on the medium.
    committed_edition: Mutex<u64>,
    swapping: Mutex<()>,
    /// The flushed sequence number of that manifest, changed under the lock `committed_edition`.
    flushed_sequence: AtomicU64,
    /// The number of sealed memtables; one of more than the usual size counts as several.
    sealed: AtomicUsize,
    write_delay_ns: AtomicU64,
    /// The memory of flushed memtables, to be reused.
    pool: Arc<MemoryPool>,
    options: Arc<LedgerOptions>,
}

impl VersionSet {
    /// The versions of a tree with the tables of `manifest` and an empty memtable.
    pub(super) fn new(
        options: &Arc<LedgerOptions>,
        levels: Levels,
        manifest: &Manifest,
    ) -> VersionSet {
        let memtable_size_bytes = options.memtable_size_bytes;
        let pool = Arc::new(MemoryPool::new(memtable_memory_bytes(memtable_size_bytes)));
        let active = Arc::new(Memtable::new(memtable_size_bytes, options.knows_prefixes, &pool));
        let versions = VersionSet {
            current: ArcSwap::from_pointee(Version { active, sealed: Vec::new(), levels }),
            committed_edition: Mutex::new(manifest.edition),
            swapping: Mutex::new(()),
            flushed_sequence: AtomicU64::new(manifest.flushed_sequence),
            sealed: AtomicUsize::new(0),
            write_delay_ns: AtomicU64::new(0),
            pool,
            options: Arc::clone(options),
        };
        versions.note_debt(&versions.load());
        versions
    }

    /// The current version, for a short time.
    #[inline]
    pub(super) fn load(&self) -> Guard<Arc<Version>> {
        self.current.load()
    }

    /// The current version, for as long as the caller needs it.
    pub(super) fn load_full(&self) -> Arc<Version> {
        self.current.load_full()
    }

    /// The sequence number up to which every record is in the tables of the committed manifest.
    #[inline]
    pub(super) fn flushed_sequence(&self) -> u64 {
        self.flushed_sequence.load(Ordering::Acquire)
    }

    /// The delay that each write has to take now.
    #[inline]
    pub(super) fn write_delay_ns(&self) -> u64 {
        self.write_delay_ns.load(Ordering::Relaxed)
    }

    /// The number of sealed memtables that wait for their flush; one above the usual size counts as
    /// several.
    #[inline]
    pub(super) fn sealed(&self) -> usize {
        self.sealed.load(Ordering::Acquire)
    }

    /// Bytes of memory that are kept for future memtables.
    pub(super) fn pooled_bytes(&self) -> u64 {
        self.pool.kept_bytes()
    }

    /// The manifest that a commit would write now, with the segments that `segments` returns, and
    /// the tables that it names.
    pub(super) fn capture<T>(
        &self,
        files: &TableFiles,
        time_mark_ms: u64,
        segments: impl FnOnce() -> (Vec<SegmentMetadata>, T),
    ) -> (Manifest, Vec<Arc<Table>>, T) {
        let edition = self.committed_edition.lock();
        let version = self.load_full();
        let (segments, rest) = segments();
        let manifest = Manifest {
            store_identity: files.store_identity(),
            edition: *edition,
            flushed_sequence: self.flushed_sequence(),
            next_file_number: files.next_number(),
            time_mark_ms,
            tables: version.levels.facts(),
            segments,
        };
        let tables = version.levels.all().map(|(_, table)| Arc::clone(table)).collect();
        (manifest, tables, rest)
    }

    /// Waits until no commit is under way: all entries that the current version lacks have then
    /// been handed to the link.
    pub(super) fn settle(&self) {
        drop(self.committed_edition.lock());
    }

    /// Seals the active memtable, whose entries are all at or below `last_sequence`. Called under
    /// the writer lock.
    pub(super) fn seal(&self, last_sequence: u64) {
        let (size_bytes, knows_prefixes) =
            (self.options.memtable_size_bytes, self.options.knows_prefixes);
        let active = Arc::new(Memtable::new(size_bytes, knows_prefixes, &self.pool));
        let _swapping = self.swapping.lock();
        let current = self.load();
        let memtable = Arc::clone(&current.active);
        let highest = memtable.highest_sequence();
        assert!(highest <= last_sequence, "entry {highest} is above the last one, {last_sequence}");
        let mut sealed = vec![SealedMemtable { memtable, last_sequence }];
        sealed.extend(current.sealed.iter().cloned());
        self.swap(Version { active, sealed, levels: current.levels.clone() });
    }

    /// Makes `version` the current one. Called under the lock `swapping`.
    fn swap(&self, version: Version) {
        self.note_debt(&version);
        let usual_bytes = self.options.memtable_size_bytes.max(1);
        let size_of = |sealed: &SealedMemtable| {
            (sealed.memtable.size_bytes() / usual_bytes).clamp(1, u64::from(u32::MAX)) as usize
        };
        self.sealed.store(version.sealed.iter().map(size_of).sum(), Ordering::Release);
        self.current.store(Arc::new(version));
    }

    fn note_debt(&self, version: &Version) {
        let tables_max = LEVEL_0_PATIENCE * self.options.level_0_trigger;
        let tables = version.levels.level(0).len().saturating_sub(tables_max);
        let debt = tables + version.sealed.len().saturating_sub(2);
        let delay = (debt as u64 * WRITE_DELAY_STEP_NS).min(WRITE_DELAY_MAX_NS);
        self.write_delay_ns.store(delay, Ordering::Relaxed);
    }

    /// Writes a manifest with the edit, makes the edited version the current one, and calls
    /// `swapped`. If the manifest could not be written, the current version stays.
    pub(super) fn commit(
        &self,
        edit: &VersionEdit,
        files: &TableFiles,
        link: &dyn JournalLink,
        swapped: impl FnOnce(),
    ) -> Result<(), WriteFailure> {
        let _whole = CriticalSection::begin();
        let mut edition = self.committed_edition.lock();
        let levels = self.load().levels.edited(&edit.removed, &edit.added);
        let manifest = Manifest {
            store_identity: files.store_identity(),
            edition: *edition + 1,
            flushed_sequence: edit.flushed_sequence.unwrap_or_else(|| self.flushed_sequence()),
            next_file_number: files.next_number(),
            tables: levels.facts(),
            time_mark_ms: link.now_ms(),
            segments: link.segment_facts(&edit.dropped),
        };
        assert!(
            manifest.flushed_sequence >= self.flushed_sequence(),
            "the flushed sequence number only rises"
        );
        manifest.write(files.fs(), files.directory())?;
        *edition = manifest.edition;
        self.flushed_sequence.store(manifest.flushed_sequence, Ordering::Release);
        {
            let _swapping = self.swapping.lock();
            let current = self.load();
            let mut sealed = current.sealed.clone();
            if let Some(flushed_sequence) = edit.flushed_sequence {
                let oldest = sealed.pop().expect("the memtable that was flushed is still there");
                assert_eq!(oldest.last_sequence, flushed_sequence, "the oldest is flushed first");
            }
            self.swap(Version { active: Arc::clone(&current.active), sealed, levels });
        }
        swapped();
        // Still under the lock `committed_edition`: the segment facts of the next commit must
        // include these bytes.
        link.on_dropped(&edit.dropped);
        link.after_manifest(manifest.flushed_sequence, manifest.tables_bytes());
        Ok(())
    }
}
