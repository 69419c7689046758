//! The journal: the only log, in which every value is written once.
//!
//! A record is found by its sequence number: a binary search over the segments' first sequence
//! numbers, one look-up in the segment's offset index, then the record itself, all in mapped memory
//! ([`segments`]). Appending copies the record into a mapped file whose space was allocated before
//! ([`writer`]). Background threads prepare segments ([`spares`]), seal them ([`seal`]) and sync
//! them in groups ([`sync`]); a segment is collected once most of it is garbage ([`garbage`]). On a
//! disk that is nearly full, a reserve is kept for work that frees space ([`room`]).

mod base;
mod excess;
mod files;
mod footer;
mod garbage;
mod held_file;
#[allow(clippy::module_inception, reason = "the journal as a whole")]
mod journal;
mod medium;
mod offset_bitmap;
mod record;
mod recover;
mod rewrite;
mod room;
mod runs;
mod salvage;
mod scan;
mod seal;
mod segment;
mod segment_ends;
mod segment_selection;
mod segments;
mod spare_segments;
mod sync;
#[cfg(test)]
mod tests;
mod timed_read;
mod unneeded_records;
mod verify;
mod writer;

pub(crate) use excess::{DeadSpaceLimit, SpaceExcess};
pub(crate) use files::SegmentFiles;
pub(crate) use footer::{NoFooter, OFFSET_LENGTH, decode_footer};
pub(crate) use garbage::{GarbageLimits, SegmentRun};
pub(crate) use journal::Journal;
pub(crate) use record::{Record, RecordKind};
pub use recover::TruncatedPart;
pub(crate) use recover::{JournalSetting, check as check_journal, cut_tail};
pub(crate) use rewrite::SegmentRewriter;
pub(crate) use room::{LedgerRoom, Purpose, SpaceLevel};
pub(crate) use salvage::{SegmentRange, is_intact, walk_records};
pub(crate) use scan::{find_stray, is_unused, scan_records};
pub(crate) use segment::{JOURNAL_FOLDER, Segment, segment_path};
pub(crate) use segment_selection::{Span, current_segments};
pub(crate) use segments::{RecordLocation, SegmentList, SegmentSet};
pub(crate) use sync::GroupSync;
pub(crate) use unneeded_records::UNNEEDED_SEGMENTS_MAX;
pub use verify::SegmentReport;
pub(crate) use verify::{SegmentSummary, list_segments, verify_segment, verify_segments};
pub(crate) use writer::JournalWriter;
