//! The room on the disk for segments, and the reserve that puts must leave free.
//!
//! Flushes, merges and garbage collection take space before they free any; deletes and an opening
//! take some, too. Without a reserve, puts could fill the disk so that none of these can run, and
//! nothing would ever free space again. So a batch with a put may begin a segment only if that
//! leaves the reserve free; everything else may use the reserve. Close to the reserve, segments are
//! small, so that puts can use the disk up to it, and the reserve lasts for many deletes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::files::SegmentFiles;
use super::segments::SegmentSet;
use crate::error::{Error, Result, SpaceShortage};

/// The number of usual segments that fit into the reserve: one that is begun for deletes, and one
/// for the remaining records of collected segments.
const RESERVE_SEGMENTS: u64 = 2;
/// The number of times that the tables fit into the reserve, for a flush of tombstones and the
/// merge that follows.
const RESERVE_TABLES: u64 = 2;
/// The reserve is at most one in this many of the bytes that the store takes or that are free: most
/// of a small disk must be usable.
const RESERVE_ONE_IN: u64 = 8;
/// If a usual segment would take from the reserve, a small one is made: one in this many of a usual
/// one.
const SMALL_SEGMENT_SHARE: u64 = 16;
/// A segment is one in this many of the journal's bytes, within limits: the active segment and the
/// spare ones take their space before it is used, and a large share would be noticeable.
const SEGMENT_SHARE: u64 = 128;
/// The smallest usual segment, in bytes, unless the setting is smaller.
const SEGMENT_SIZE_USUAL_MIN_BYTES: u64 = 16 << 20;
/// The usual sizes are multiples of this, in bytes: a large page.
const SEGMENT_SIZE_STEP_BYTES: u64 = 2 << 20;
/// Small sizes are multiples of this, in bytes.
const SMALL_SEGMENT_STEP_BYTES: u64 = 4 << 10;

/// The purpose for which a segment is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A batch that puts something.
    Puts,
    /// A batch that only deletes, or marks data as given up.
    Deletes,
}

/// The room that a batch found on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpaceLevel {
    /// There is enough room.
    Ample,
    /// Little space is left apart from the reserve.
    Scarce,
    /// The room is taken from the reserve.
    Reserved,
}

/// The space that the ledger needs before it gives any back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LedgerRoom {
    /// The space for the tables of all memtables that may exist.
    pub(crate) flush_bytes: u64,
    /// The largest space that a merge may need, however large the ledger is.
    pub(crate) merge_max_bytes: u64,
}

/// A segment that may be made.
pub(super) struct SegmentPlan {
    pub(super) size_bytes: u64,
    pub(super) space: SpaceLevel,
}

/// The state of the disk at a moment.
#[derive(Clone, Copy)]
struct DiskState {
    /// The size of a new segment, if no batch needs a larger one and there is room.
    usual_bytes: u64,
    free_bytes: u64,
    reserve_bytes: u64,
}

impl DiskState {
    /// True if `bytes` can be taken without touching the reserve.
    fn has_beside_reserve(&self, bytes: u64) -> bool {
        self.free_bytes.saturating_sub(self.reserve_bytes) >= bytes
    }
}

/// The room on the disk for the segments of a journal.
pub(crate) struct SegmentRoom {
    files: Arc<SegmentFiles>,
    segments: Arc<SegmentSet>,
    /// The largest usual segment, in bytes.
    segment_size_bytes: u64,
    ledger: LedgerRoom,
    /// The size of the ledger's tables, in bytes.
    tables_bytes: AtomicU64,
    /// The reserve when it was last computed, in bytes.
    reserve_bytes: AtomicU64,
    /// The largest segment for which there was no room, in bytes.
    refused_bytes: AtomicU64,
}

impl SegmentRoom {
    pub(super) fn new(
        (files, segments): (Arc<SegmentFiles>, Arc<SegmentSet>),
        segment_size_bytes: u64,
        ledger: LedgerRoom,
        tables_bytes: u64,
    ) -> SegmentRoom {
        SegmentRoom {
            files,
            segments,
            segment_size_bytes,
            ledger,
            tables_bytes: AtomicU64::new(tables_bytes),
            reserve_bytes: AtomicU64::new(0),
            refused_bytes: AtomicU64::new(0),
        }
    }

    /// Notes the size of the ledger's tables.
    pub(super) fn note_tables(&self, tables_bytes: u64) {
        self.tables_bytes.store(tables_bytes, Ordering::Relaxed);
    }

    /// The free bytes of the disk; `u64::MAX` if the file system does not tell.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.files.file_system().free_bytes(self.files.directory()).unwrap_or(u64::MAX)
    }

    fn look(&self) -> DiskState {
        let journal_bytes: u64 = self.segments.facts().iter().map(|facts| facts.size_bytes).sum();
        let share = (journal_bytes / SEGMENT_SHARE).next_multiple_of(SEGMENT_SIZE_STEP_BYTES);
        let usual_bytes = share.max(SEGMENT_SIZE_USUAL_MIN_BYTES).min(self.segment_size_bytes);
        let (free_bytes, tables_bytes) =
            (self.free_bytes(), self.tables_bytes.load(Ordering::Relaxed));
        let ledger_bytes = RESERVE_TABLES * tables_bytes + self.ledger.flush_bytes;
        let needed_bytes =
            RESERVE_SEGMENTS * usual_bytes + ledger_bytes.min(self.ledger.merge_max_bytes);
        let disk_bytes = free_bytes.saturating_add(journal_bytes).saturating_add(tables_bytes);
        let reserve_bytes = needed_bytes.min(disk_bytes / RESERVE_ONE_IN);
        self.reserve_bytes.store(reserve_bytes, Ordering::Relaxed);
        DiskState { usual_bytes, free_bytes, reserve_bytes }
    }

    /// True if the reserve is free, in the size that it had when it was last computed.
    pub(super) fn keeps_reserve(&self) -> bool {
        self.free_bytes() >= self.reserve_bytes.load(Ordering::Relaxed)
    }

    /// The size of a spare segment, which is made before it is needed; `None` if it would take from
    /// the reserve.
    pub(super) fn spare_bytes(&self) -> Option<u64> {
        let look = self.look();
        look.has_beside_reserve(look.usual_bytes).then_some(look.usual_bytes)
    }

    /// Plans the segment for a batch that needs at least `needed_bytes`. An error means that the
    /// batch would take from the reserve, and must not.
    pub(super) fn plan(&self, needed_bytes: u64, purpose: Purpose) -> Result<SegmentPlan> {
        let look = self.look();
        let small_bytes = look.usual_bytes / SMALL_SEGMENT_SHARE;
        let small_bytes = small_bytes.next_multiple_of(SMALL_SEGMENT_STEP_BYTES).max(needed_bytes);
        let usual_bytes = look.usual_bytes.max(needed_bytes);
        if look.has_beside_reserve(usual_bytes) {
            Ok(SegmentPlan { size_bytes: usual_bytes, space: SpaceLevel::Ample })
        } else if look.has_beside_reserve(small_bytes) {
            Ok(SegmentPlan { size_bytes: small_bytes, space: SpaceLevel::Scarce })
        } else if purpose == Purpose::Deletes {
            let fits = look.free_bytes >= small_bytes;
            let size_bytes = if fits { small_bytes } else { needed_bytes };
            Ok(SegmentPlan { size_bytes, space: SpaceLevel::Reserved })
        } else {
            let (free_bytes, reserve_bytes) = (look.free_bytes, look.reserve_bytes);
            let room = Some(SpaceShortage { needed_bytes, free_bytes, reserve_bytes });
            Err(Error::DiskFull { path: self.files.directory().to_path_buf(), room })
        }
    }

    /// Notes that there was no room for a segment of `needed_bytes`.
    pub(super) fn note_refused(&self, needed_bytes: u64) {
        self.refused_bytes.fetch_max(needed_bytes, Ordering::Relaxed);
    }

    /// True if there is room for as much as the reserve again, and for the segment that was
    /// refused. Less would soon be used up, and making room costs merges.
    pub(crate) fn is_ample(&self) -> bool {
        let look = self.look();
        let refused_bytes = self.refused_bytes.load(Ordering::Relaxed);
        look.has_beside_reserve(look.reserve_bytes.max(look.usual_bytes).max(refused_bytes))
    }

    /// Forgets what was refused: all room that could be made was made.
    pub(crate) fn forget_refused(&self) {
        self.refused_bytes.store(0, Ordering::Relaxed);
    }
}
