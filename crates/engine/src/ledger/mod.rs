//! The ledger: an LSM tree that maps an internal key to the facts of its newest record.
//!
//! The journal holds every record once. The ledger holds, for each key, the sequence number of the
//! record, and enough other facts (lengths, times, head) that a HEAD, a test for existence or a
//! scan of keys never reads the journal. Everything in it can be rebuilt from the journal. Garbage
//! collection of the journal never writes the ledger, because the ledger points to records by their
//! sequence numbers.
//!
//! # Use
//!
//! The engine holds the writer lock and, for each batch: calls [`Ledger::wait_for_memtables`],
//! appends to the journal, inserts each record into [`Ledger::active`], calls [`Ledger::publish`]
//! with the batch's last sequence number, and [`Ledger::seal_active`] if the memtable is full.
//! Readers take no lock: [`Ledger::get`] and [`Ledger::scan`] load the version and then the
//! published sequence number.
//!
//! # Retention of versions
//!
//! An old entry of a key may be dropped once a newer one is *published* and no registered snapshot
//! lies between the two. A reader that asks for [`NEWEST`] is safe, because the version of the tree
//! is loaded before the published sequence number. Any other sequence number must come from a
//! registered snapshot ([`Ledger::register_snapshot`]) that is held during the read.

mod background;
mod compaction;
mod dropped_entries;
mod entry;
mod flush;
mod job_sampler;
mod journal_link;
mod key_front;
mod lookup;
mod memtable;
mod merge;
mod options;
mod outputs;
mod parallel_merge;
mod picker;
mod pinned_tree;
mod scan;
mod signals;
mod snapshots;
mod state;
mod stats;
mod table;
mod table_files;
mod tree;
mod version;
mod version_set;

pub(crate) use crate::manifest::{Manifest, SegmentMetadata};
pub(crate) use crate::prefetch::{CACHE_LINE_BYTES, prefetch, prefetch_to_write};
pub(crate) use dropped_entries::{DroppedEntry, DroppedList, Verdict};
pub(crate) use entry::{Entry, EntryKind, FoundEntry, Head};
pub(crate) use journal_link::JournalLink;
pub(crate) use lookup::{LookupRequest, LookupResult, NoRecordReader, RecordReader};
#[cfg(test)]
pub(crate) use memtable::VERSIONS_LOOKED_AT;
pub(crate) use memtable::memtable_memory_bytes;
pub use options::Direction;
pub(crate) use options::{KeyRange, LEVELS, LedgerOptions, NEWEST};
pub(crate) use pinned_tree::PinnedTree;
pub(crate) use scan::LedgerScan;
pub(crate) use snapshots::SnapshotGuard;
pub(crate) use table::{
    Table, TableCursor, TableMetadata, check_block, check_filter, check_footer, check_index,
    table_path,
};
pub(crate) use tree::Ledger;
pub(crate) use version::LookupMetrics;

#[cfg(test)]
mod tests;
