//! The journal writer: appends records to the active segment, under the engine's writer lock.
//!
//! Appending copies the record into a mapped file whose space was allocated before. So the record
//! is in the operating system's memory without a system call.

use std::sync::Arc;

use super::base::JournalBase;
use super::footer::{FOOTER_FIXED_LENGTH, OFFSET_LENGTH};
use super::record::{Record, RecordKind, SYNC_MARK_LENGTH};
use super::room::{Purpose, SpaceLevel};
use super::seal::{FullSegment, Sealer};
use super::segment::Segment;
use super::spare_segments::{AllocatedSegment, SpareSegments};
use crate::codec::FILE_HEADER_LENGTH;
use crate::error::{Error, Result};
use crate::ledger::{CACHE_LINE_BYTES, prefetch_to_write};

/// Length of a footer beyond its offsets, in bytes: the fixed part and the padding.
const FOOTER_RESERVE: u64 = FOOTER_FIXED_LENGTH + 8;
/// Length of the shortest record together with its offset, in bytes: header, table number, one byte
/// of key, padding.
const RECORD_WITH_OFFSET_MIN: u64 = 32 + OFFSET_LENGTH;

/// The most syncs of a segment for which large pages are a gain. The first access to a page of 4
/// KiB costs 2.5 µs; a page of 2 MiB costs a third of that per byte, and a sync has fewer pages to
/// protect. But each sync writes the whole large page that is being filled, which takes 1 ms
/// instead of 0.1 ms. Flushes cause few syncs, writers that wait for durability thousands.
const LARGE_SYNCS_MAX: u64 = 16;

/// The most bytes that are prefetched for the next record: for a longer record the processor
/// prefetches the rest itself.
const EXPECTED_BYTES_MAX: usize = 512;

/// The segment that is being written.
struct ActiveSegment {
    segment: Arc<Segment>,
    /// The offset of the next record.
    end: u64,
    /// The number of records written.
    count: u64,
    /// The number of syncs when the segment was begun; `None` if it has no large pages.
    large_since_syncs: Option<u64>,
    /// The offset from which on the next segment is requested, if there is no spare.
    spare_from: u64,
    /// True if the segment takes space from the reserve, which is for deletes.
    is_reserved: bool,
}

impl ActiveSegment {
    fn new(
        segment: Arc<Segment>,
        large_since_syncs: Option<u64>,
        space: SpaceLevel,
    ) -> ActiveSegment {
        let (end, spare_from) = (FILE_HEADER_LENGTH as u64, segment.shared.map.length() as u64 / 2);
        let is_reserved = space == SpaceLevel::Reserved;
        ActiveSegment { segment, end, count: 0, large_since_syncs, spare_from, is_reserved }
    }

    /// True if batches for this purpose may be written to the segment.
    fn serves(&self, purpose: Purpose) -> bool {
        !self.is_reserved || purpose == Purpose::Deletes
    }

    /// True if the segment has large pages and is synced so often that they are a burden.
    fn suffers_from_syncs(&self, syncs: u64) -> bool {
        self.large_since_syncs.is_some_and(|since| syncs.saturating_sub(since) > LARGE_SYNCS_MAX)
    }

    /// True if `count` records of `size_bytes` in all fit and leave room for the footer, so that
    /// sealing never needs more space.
    fn has_room(&self, size_bytes: u64, count: u64) -> bool {
        let records = self.count + count;
        let needed = self.end + size_bytes + records * OFFSET_LENGTH + FOOTER_RESERVE;
        needed <= self.segment.shared.map.length() as u64
            && records <= self.segment.offsets_capacity() as u64
    }

    /// Writes `record` at the end of the segment.
    #[inline]
    fn lay_down(&mut self, record: &Record<'_>) {
        let shared = &self.segment.shared;
        let padded_length = record.padded_length();
        assert!(self.end + padded_length <= shared.map.length() as u64, "reserve made room");
        // SAFETY: the end is a multiple of 8 within a page-aligned map, the length was just
        // checked, the space was allocated as zeros and is written once, and only the holder of the
        // writer lock writes.
        unsafe {
            record.lay_down(shared.map.pointer().add(self.end as usize), shared.store_seed);
        }
        self.end += padded_length;
        self.expect_next(padded_length as usize);
    }

    /// Prefetches the memory of the next record, assuming that it is as long as this one. The
    /// memory was zeroed long ago, and a writer of single records would wait for each cache line.
    #[inline]
    fn expect_next(&self, length: usize) {
        let pointer = self.segment.shared.map.pointer();
        for line in (0..length.min(EXPECTED_BYTES_MAX)).step_by(CACHE_LINE_BYTES) {
            prefetch_to_write(pointer.wrapping_add(self.end as usize + line));
        }
    }
}

impl From<ActiveSegment> for FullSegment {
    fn from(growing: ActiveSegment) -> FullSegment {
        let ActiveSegment { segment, end, count, .. } = growing;
        FullSegment { segment, end, count }
    }
}

/// The size of a segment in which `count` records of `size_bytes` in all fit.
fn segment_size_for(size_bytes: u64, count: u64) -> u64 {
    let needed = FILE_HEADER_LENGTH as u64 + size_bytes + count * OFFSET_LENGTH + FOOTER_RESERVE;
    needed.next_multiple_of(4096)
}

/// The writing end of the journal. The engine's writer lock protects it.
pub(crate) struct JournalWriter {
    base: JournalBase,
    spares: Arc<SpareSegments>,
    sealer: Arc<Sealer>,
    /// The number of records at which a segment ends, so that their offsets fit into the memory
    /// budget.
    segment_records_max: u64,
    growing: Option<ActiveSegment>,
    next_sequence: u64,
    /// The sequence number whose durability the last sync mark guarantees.
    marked: u64,
    /// True if the last record was not the end of its batch.
    is_within_batch: bool,
    /// The number of syncs when the segment was begun.
    syncs_at_roll: u64,
}

impl JournalWriter {
    /// A writer at the end of a journal whose records are all on the medium.
    pub(super) fn new(
        base: JournalBase,
        (spares, sealer): (Arc<SpareSegments>, Arc<Sealer>),
        segment_records_max: u64,
    ) -> JournalWriter {
        let marked = base.sync.appended_sequence();
        JournalWriter {
            base,
            spares,
            sealer,
            segment_records_max,
            growing: None,
            next_sequence: marked + 1,
            marked,
            is_within_batch: false,
            syncs_at_roll: 0,
        }
    }

    /// The sequence number of the next record.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Makes room for `count` records of `size_bytes` in all in the active segment, or begins a new
    /// one. Returns the state of the room on the disk. After an error everything is as before.
    pub(crate) fn reserve(
        &mut self,
        size_bytes: u64,
        count: u64,
        purpose: Purpose,
    ) -> Result<SpaceLevel> {
        let size_bytes = size_bytes + SYNC_MARK_LENGTH;
        let syncs = self.base.sync.syncs();
        let fits = |growing: &&mut ActiveSegment| {
            growing.has_room(size_bytes, count) && growing.serves(purpose)
        };
        let can_go_on =
            |growing: &&mut ActiveSegment| fits(growing) && !growing.suffers_from_syncs(syncs);
        if let Some(growing) = self.growing.as_mut().filter(can_go_on) {
            if growing.end >= growing.spare_from {
                growing.spare_from = u64::MAX;
                self.spares.want();
            }
            return Ok(SpaceLevel::Ample);
        }
        let taken = self.take(segment_size_for(size_bytes, count), purpose);
        if let Err(error) = &taken
            && error.passes()
            && let Some(growing) = self.growing.as_mut().filter(fits)
        {
            // Frequent syncs of large pages are slow, but better than failing the write.
            growing.large_since_syncs = None;
            let is_full = matches!(error, Error::DiskFull { .. });
            return Ok(if is_full { SpaceLevel::Scarce } else { SpaceLevel::Ample });
        }
        let taken = taken?;
        let space = taken.space;
        self.roll(taken, count, syncs)?;
        Ok(space)
    }

    /// Takes the file of a segment of at least `needed_bytes`, once few enough segments wait for
    /// their seal.
    fn take(&self, needed_bytes: u64, purpose: Purpose) -> Result<AllocatedSegment> {
        self.sealer.wait_for_room()?;
        self.spares.take(needed_bytes, purpose)
    }

    /// Begins a segment with at least `records` offsets in the file that was taken, and hands the
    /// full one over to be sealed.
    fn roll(&mut self, taken: AllocatedSegment, records: u64, syncs: u64) -> Result<()> {
        let AllocatedSegment { file: shared, space } = taken;
        let first = self.next_sequence;
        let header = self.base.files.header(shared.number, first).encode();
        // SAFETY: the map is writable and longer than a header, and no other thread knows it yet.
        unsafe {
            std::ptr::copy_nonoverlapping(header.as_ptr(), shared.map.pointer(), header.len());
        }
        let possible = shared.map.length() as u64 / RECORD_WITH_OFFSET_MIN + 1;
        let records_max = possible.min(self.segment_records_max.max(records));
        let segment = Arc::new(Segment::growing(shared, first, records_max as usize));
        self.base.segments.change(|segments| segments.push(Arc::clone(&segment)));
        self.spares.note_roll();
        // Assume that this segment will be synced as often as the one before.
        let is_quiet = syncs.saturating_sub(self.syncs_at_roll) <= LARGE_SYNCS_MAX;
        self.syncs_at_roll = syncs;
        self.spares.prefer_large(is_quiet);
        let is_large =
            segment.shared.is_large() || (is_quiet && segment.shared.prefer_large_pages());
        let growing = ActiveSegment::new(segment, is_large.then_some(syncs), space);
        let full = self.growing.replace(growing);
        full.map_or(Ok(()), |full| self.sealer.offload(full.into()))
    }

    /// Appends a record, for which room must be reserved. It gets the next sequence number,
    /// whatever `record` says. The last record of a batch makes the whole batch count as appended.
    #[inline]
    pub(crate) fn append(&mut self, record: Record<'_>) -> Result<u64> {
        let durable = self.base.sync.durable_sequence();
        // Not between the records of a batch: if the tail is torn there, recovery keeps the batches
        // before it, with the marks behind them.
        if durable > self.marked && !self.is_within_batch {
            self.append_mark(durable);
        }
        self.is_within_batch = record.batch_goes_on;
        let sequence = self.next_sequence;
        let growing = self.growing.as_mut().expect("reserve began a segment");
        let offset = growing.end;
        growing.lay_down(&Record { sequence, ..record });
        growing.segment.set_offset(sequence, offset);
        growing.count += 1;
        self.next_sequence += 1;
        if !self.is_within_batch {
            // If a page of the segment could not be written, its records are lost, and no further
            // write may be acknowledged.
            growing.segment.check_written().map_err(|error| self.base.sync.poison(&error))?;
            self.base.sync.note_appended(sequence);
        }
        Ok(sequence)
    }

    /// Writes a sync mark: it records in the journal which records are known to be durable, so that
    /// recovery can distinguish a torn tail from corruption.
    #[cold]
    fn append_mark(&mut self, durable: u64) {
        self.marked = durable;
        let mark = Record {
            sequence: self.next_sequence - 1,
            kind: RecordKind::SyncMark,
            value: &durable.to_le_bytes(),
            ..Record::EMPTY
        };
        self.growing.as_mut().expect("reserve began a segment").lay_down(&mark);
    }

    /// Removes the spares: all of them, if the active segment has enough room left until others are
    /// made, otherwise all but the next one.
    pub(crate) fn give_up_spares(&self) {
        let lasts = self.growing.as_ref().is_some_and(|growing| growing.spare_from != u64::MAX);
        self.spares.give_up(usize::from(!lasts));
    }

    /// Seals everything that was written so far.
    pub(crate) fn seal(&mut self) -> Result<()> {
        self.sealer.wait()?;
        self.growing.take().map_or(Ok(()), |full| self.sealer.seal(&full.into()))
    }

    /// Seals the active segment and removes the spares, so that the next opening has nothing to
    /// replay.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.seal()?;
        self.spares.remove_all()
    }
}
