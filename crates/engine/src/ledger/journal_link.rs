//! The journal as the ledger sees it.

use super::DroppedList;
use crate::error::Error;
use crate::manifest::SegmentMetadata;

/// The requests of the ledger to the journal, through the engine.
pub(crate) trait JournalLink: Send + Sync {
    /// Waits until every record up to `sequence` is on the medium. Called before a table that names
    /// these records is put into the manifest.
    fn make_durable(&self, sequence: u64) -> Result<(), Error>;

    /// Notes entries that the tree no longer holds. Each is handed over exactly once, after the
    /// manifest without it was committed; that manifest already counts it.
    fn on_dropped(&self, dropped: &DroppedList);

    /// The facts of all segments for a manifest that is about to be committed, ordered by their
    /// first sequence numbers. They count everything that was handed to `on_dropped`, and
    /// `dropped`, which will be.
    fn segment_facts(&self, dropped: &DroppedList) -> Vec<SegmentMetadata>;

    /// The time by which entries expire, in milliseconds since the Unix epoch. It never goes back.
    fn now_ms(&self) -> u64;

    /// Notes that a manifest was committed: every record up to `flushed_sequence` is in tables,
    /// which take `tables_bytes`.
    fn after_manifest(&self, flushed_sequence: u64, tables_bytes: u64);
}
