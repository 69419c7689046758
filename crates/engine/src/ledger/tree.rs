//! The tree as a whole: what the façade calls.

use std::path::Path;
use std::sync::Arc;

use pellucid_account::EngineCounts;
use pellucid_io::FileSystem;

use super::{Direction, Entry, FoundEntry, JournalLink, KeyRange, LedgerOptions, SegmentFacts};
use crate::error::Error;

/// The manifest, as read from its file.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    /// Identity of the store.
    pub(crate) store_identity: u64,
    /// Every record up to it is in the tables; replay starts after it.
    pub(crate) flushed_sequence: u64,
    /// The journal's segments.
    pub(crate) segments: Vec<SegmentFacts>,
}

impl Manifest {
    /// Reads the manifest of the store in `directory`; `None` if there is no such file.
    pub(crate) fn read(_fs: &dyn FileSystem, _directory: &Path) -> Result<Option<Manifest>, Error> {
        unreachable!("being built")
    }
}

/// Keeps the versions that a snapshot sees for as long as it lives.
#[derive(Debug)]
pub(crate) struct SnapshotGuard {}

impl SnapshotGuard {
    /// The sequence number that the snapshot reads at.
    pub(crate) fn sequence(&self) -> u64 {
        unreachable!("being built")
    }
}

/// Figures of the tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct LedgerStats {}

/// A scan over a range; holds the version of the tree that it began with.
pub(crate) struct LedgerScan {}

impl LedgerScan {
    /// The next live key and its entry.
    #[allow(clippy::should_implement_trait, reason = "it lends the key, which Iterator cannot")]
    pub(crate) fn next(&mut self) -> Result<Option<(&[u8], FoundEntry)>, Error> {
        unreachable!("being built")
    }
}

/// The ledger of a store.
pub(crate) struct Ledger {}

impl Ledger {
    /// Makes an empty ledger in the store's folder `directory`, and its first manifest.
    pub(crate) fn create(
        _fs: Arc<dyn FileSystem>,
        _directory: &Path,
        _store_identity: u64,
        _options: LedgerOptions,
        _link: Arc<dyn JournalLink>,
    ) -> Result<Ledger, Error> {
        unreachable!("being built")
    }

    /// Opens the ledger that `manifest` names. The records after its flushed sequence number are
    /// then inserted by the façade from the journal, and published.
    pub(crate) fn open(
        _fs: Arc<dyn FileSystem>,
        _directory: &Path,
        _manifest: Manifest,
        _options: LedgerOptions,
        _link: Arc<dyn JournalLink>,
    ) -> Result<Ledger, Error> {
        unreachable!("being built")
    }

    /// Starts the thread that flushes and merges, unless the options say no. Called once replay is done.
    pub(crate) fn start_background(&self) -> Result<(), Error> {
        unreachable!("being built")
    }

    /// Puts an entry into the active memtable. Only under the writer lock; sequence numbers ascend.
    pub(crate) fn insert(&self, _entry: &Entry<'_>) {
        unreachable!("being built")
    }

    /// Lets readers see everything up to `sequence`. Under the writer lock, after a batch's inserts.
    pub(crate) fn publish(&self, _sequence: u64) {
        unreachable!("being built")
    }

    /// The highest sequence number that readers see.
    pub(crate) fn published_sequence(&self) -> u64 {
        unreachable!("being built")
    }

    /// Seals the active memtable if it is full; `last_sequence` is the last one inserted. Under the
    /// writer lock, between batches.
    pub(crate) fn rotate_if_full(&self, _last_sequence: u64) {
        unreachable!("being built")
    }

    /// The newest entry of `key` that is not above `at_sequence` ([`super::NEWEST`], or a registered
    /// snapshot's); a tombstone is returned as such.
    pub(crate) fn get(
        &self,
        _key: &[u8],
        _at_sequence: u64,
        _counts: &mut EngineCounts,
    ) -> Result<Option<FoundEntry>, Error> {
        unreachable!("being built")
    }

    /// The live keys of a range at `at_sequence` (as in [`Ledger::get`]).
    pub(crate) fn scan(
        &self,
        _range: KeyRange<'_>,
        _direction: Direction,
        _at_sequence: u64,
    ) -> Result<LedgerScan, Error> {
        unreachable!("being built")
    }

    /// Registers a snapshot at the published sequence number.
    pub(crate) fn register_snapshot(&self) -> SnapshotGuard {
        unreachable!("being built")
    }

    /// Every record up to it is in the tables of the committed manifest.
    pub(crate) fn flushed_sequence(&self) -> u64 {
        unreachable!("being built")
    }

    /// Seals the active memtable and returns once all sealed ones are in tables. Under the writer
    /// lock; `last_sequence` is the last one inserted.
    pub(crate) fn flush_now(&self, _last_sequence: u64) -> Result<(), Error> {
        unreachable!("being built")
    }

    /// Does one merge if one is due, and says whether it did.
    pub(crate) fn compact_step(&self) -> Result<bool, Error> {
        unreachable!("being built")
    }

    /// Merges until all tables are in one level.
    pub(crate) fn compact_all(&self) -> Result<(), Error> {
        unreachable!("being built")
    }

    /// Writes a manifest with the link's present facts on the segments.
    pub(crate) fn write_manifest(&self) -> Result<(), Error> {
        unreachable!("being built")
    }

    /// The delay that each write should take now, in proportion to the debt of merging.
    pub(crate) fn write_delay_ns(&self) -> u64 {
        unreachable!("being built")
    }

    /// Waits until there are few enough sealed memtables. Before a batch, under the writer lock.
    /// Says how long it waited.
    pub(crate) fn wait_for_room(&self) -> Result<std::time::Duration, Error> {
        unreachable!("being built")
    }

    /// Figures of the tree.
    pub(crate) fn stats(&self) -> LedgerStats {
        unreachable!("being built")
    }

    /// Ends the background thread; what is in memtables stays in the journal.
    pub(crate) fn close(&self) {
        unreachable!("being built")
    }
}
