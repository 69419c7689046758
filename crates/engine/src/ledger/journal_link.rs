//! The journal as the ledger sees it.

use super::DroppedList;
use crate::error::Error;
use crate::manifest::SegmentFacts;

/// What the ledger asks of the journal, by way of the façade.
pub(crate) trait JournalLink: Send + Sync {
    /// Returns once every record up to `sequence` is on the medium. Called before a table that
    /// names them comes into the manifest.
    fn make_durable(&self, sequence: u64) -> Result<(), Error>;

    /// Takes note of entries that the tree holds no more. Each is handed over exactly once, after
    /// the manifest that is without them was committed; that manifest counts them already.
    fn on_dropped(&self, dropped: &DroppedList);

    /// The facts of all segments for a manifest that is about to be committed, in order of their
    /// first sequence numbers, with the bytes of everything that was handed to `on_dropped`, and of
    /// `dropped`, which will be.
    fn segment_facts(&self, dropped: &DroppedList) -> Vec<SegmentFacts>;

    /// The time, in milliseconds since the Unix epoch, by which entries expire. It never goes back.
    fn now_ms(&self) -> u64;

    /// A manifest was committed: every record up to `flushed_sequence` is in the tables, which take
    /// `tables_bytes`.
    fn after_manifest(&self, flushed_sequence: u64, tables_bytes: u64);
}
