//! The writer: records are appended to the segment that grows, under the engine's writer lock.
//!
//! Appending is copying into a mapped file whose space was allocated before, so a record is in the
//! operating system's hands without a system call.

use std::sync::Arc;

use super::files::SegmentFiles;
use super::footer::{FOOTER_FIXED_LENGTH, OFFSET_LENGTH};
use super::record::{Record, RecordKind, SYNC_MARK_LENGTH};
use super::room::{Purpose, Space};
use super::seal::{FullSegment, Sealer};
use super::segment::Segment;
use super::segments::SegmentSet;
use super::spares::{Spares, Taken};
use super::sync::GroupSync;
use crate::codec::FILE_HEADER_LENGTH;
use crate::compression::Compression;
use crate::error::{Error, Result};
use crate::header_form::HeaderForm;
use crate::ledger::{CACHE_LINE_BYTES, prefetch_to_write};

/// Room that a footer takes beyond the offsets: its fixed part and their padding.
const FOOTER_RESERVE: u64 = FOOTER_FIXED_LENGTH + 8;
/// The shortest record takes this much with its offset: header, table number, one byte of key.
const RECORD_WITH_OFFSET_MIN: u64 = 32 + OFFSET_LENGTH;

/// Syncs of a segment up to which large pages are a gain: touching a page of 4 KiB for the first
/// time costs 2.5 µs, one of 2 MiB a third of that for as much, and a sync has fewer to protect.
/// But each sync writes all of the large page that is being filled, 1 ms instead of 0.1: flushes
/// ask for a few of them, and writers that wait for the medium for thousands.
const LARGE_SYNCS_MAX: u64 = 16;

/// Bytes of the next record that are asked for ahead: the beginning of a long one is enough, as the
/// processor sees by itself that the rest follows.
const EXPECTED_BYTES_MAX: usize = 512;

/// The segment that is being written.
struct Growing {
    segment: Arc<Segment>,
    /// The offset of the next record.
    end: u64,
    /// Records with an offset.
    count: u64,
    /// In large pages: the number of syncs when the segment was begun.
    large_since_syncs: Option<u64>,
    /// From here on the next segment is asked for, should there be none.
    spare_from: u64,
    /// True if its space is from the reserve, which is for deletes.
    is_reserved: bool,
}

impl Growing {
    fn new(segment: Arc<Segment>, large_since_syncs: Option<u64>, space: Space) -> Growing {
        let (end, spare_from) = (FILE_HEADER_LENGTH as u64, segment.shared.map.length() as u64 / 2);
        let is_reserved = space == Space::Reserved;
        Growing { segment, end, count: 0, large_since_syncs, spare_from, is_reserved }
    }

    /// True if batches of this kind may go on in it.
    fn serves(&self, purpose: Purpose) -> bool {
        !self.is_reserved || purpose == Purpose::Deletes
    }

    /// True if the segment has large pages and is synced so often that they are a burden.
    fn suffers_from_syncs(&self, syncs: u64) -> bool {
        self.large_since_syncs.is_some_and(|since| syncs.saturating_sub(since) > LARGE_SYNCS_MAX)
    }

    /// True if `size_bytes` of `count` records fit, and then still the footer: so sealing never
    /// needs space that is not there.
    fn has_room(&self, size_bytes: u64, count: u64) -> bool {
        let records = self.count + count;
        let needed = self.end + size_bytes + records * OFFSET_LENGTH + FOOTER_RESERVE;
        needed <= self.segment.shared.map.length() as u64
            && records <= self.segment.offsets_capacity() as u64
    }

    /// Lays `record` down at the end of the segment.
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

    /// Asks for the memory of the next record, which is as long as this one, as a guess. It was
    /// zeroed long ago, and a writer of one record at a time would wait for each of its lines.
    #[inline]
    fn expect_next(&self, length: usize) {
        let pointer = self.segment.shared.map.pointer();
        for line in (0..length.min(EXPECTED_BYTES_MAX)).step_by(CACHE_LINE_BYTES) {
            prefetch_to_write(pointer.wrapping_add(self.end as usize + line));
        }
    }
}

impl From<Growing> for FullSegment {
    fn from(growing: Growing) -> FullSegment {
        let Growing { segment, end, count, .. } = growing;
        FullSegment { segment, end, count }
    }
}

/// The size of a segment in which `size_bytes` of `count` records fit.
fn segment_size_for(size_bytes: u64, count: u64) -> u64 {
    let needed = FILE_HEADER_LENGTH as u64 + size_bytes + count * OFFSET_LENGTH + FOOTER_RESERVE;
    needed.next_multiple_of(4096)
}

/// The writing end of the journal. It belongs to the engine's writer lock.
pub(crate) struct JournalWriter {
    files: Arc<SegmentFiles>,
    segments: Arc<SegmentSet>,
    sync: Arc<GroupSync>,
    spares: Arc<Spares>,
    sealer: Arc<Sealer>,
    /// Records at which a segment ends, so that their offsets stay within the memory budget.
    segment_records_max: u64,
    growing: Option<Growing>,
    next_sequence: u64,
    /// The sequence number that the last sync mark vouches for.
    marked: u64,
    /// True if the batch of the last record goes on.
    is_within_batch: bool,
    /// The number of syncs when the segment was begun.
    syncs_at_roll: u64,
}

impl JournalWriter {
    /// At the end of a journal all of which is on the medium.
    pub(super) fn new(
        files: Arc<SegmentFiles>,
        segments: Arc<SegmentSet>,
        sync: Arc<GroupSync>,
        (spares, sealer): (Arc<Spares>, Arc<Sealer>),
        segment_records_max: u64,
    ) -> JournalWriter {
        let marked = sync.appended_sequence();
        JournalWriter {
            files,
            segments,
            sync,
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

    /// The sequence number that the next record gets.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Sees to it that `count` records of `size_bytes` in all fit into the growing segment, and
    /// says what room there was on the disk if that took some. After an error, everything is as
    /// before.
    pub(crate) fn reserve(
        &mut self,
        size_bytes: u64,
        count: u64,
        purpose: Purpose,
    ) -> Result<Space> {
        let size_bytes = size_bytes + SYNC_MARK_LENGTH;
        let syncs = self.sync.syncs();
        let fits =
            |growing: &&mut Growing| growing.has_room(size_bytes, count) && growing.serves(purpose);
        let can_go_on =
            |growing: &&mut Growing| fits(growing) && !growing.suffers_from_syncs(syncs);
        if let Some(growing) = self.growing.as_mut().filter(can_go_on) {
            if growing.end >= growing.spare_from {
                growing.spare_from = u64::MAX;
                self.spares.want();
            }
            return Ok(Space::Ample);
        }
        let taken = self.take(segment_size_for(size_bytes, count), purpose);
        if let Err(Error::DiskFull { .. }) = &taken
            && let Some(growing) = self.growing.as_mut().filter(fits)
        {
            // Syncs that are a burden are better than no write.
            growing.large_since_syncs = None;
            return Ok(Space::Scarce);
        }
        let taken = taken?;
        let space = taken.space;
        self.roll(taken, count, syncs)?;
        Ok(space)
    }

    /// The file of a segment of at least `needed_bytes`, once few enough wait for their seal.
    fn take(&self, needed_bytes: u64, purpose: Purpose) -> Result<Taken> {
        self.sealer.wait_for_room()?;
        self.spares.take(needed_bytes, purpose)
    }

    /// Begins a segment with at least `records` offsets in the file that was taken, and has the
    /// full one sealed.
    fn roll(&mut self, taken: Taken, records: u64, syncs: u64) -> Result<()> {
        let Taken { file: shared, space } = taken;
        let first = self.next_sequence;
        let header = self.files.header(shared.number, first).encode();
        // SAFETY: the map is writable and longer than a header, and nobody else knows it yet.
        unsafe {
            std::ptr::copy_nonoverlapping(header.as_ptr(), shared.map.pointer(), header.len());
        }
        let possible = shared.map.length() as u64 / RECORD_WITH_OFFSET_MIN + 1;
        let records_max = possible.min(self.segment_records_max.max(records));
        let segment = Arc::new(Segment::growing(shared, first, records_max as usize));
        self.segments.change(|segments| segments.push(Arc::clone(&segment)));
        self.spares.note_roll();
        // As it was with the segment before, so it will be with this one.
        let is_quiet = syncs.saturating_sub(self.syncs_at_roll) <= LARGE_SYNCS_MAX;
        self.syncs_at_roll = syncs;
        self.spares.prefer_large(is_quiet);
        let is_large =
            segment.shared.is_large() || (is_quiet && segment.shared.prefer_large_pages());
        let growing = Growing::new(segment, is_large.then_some(syncs), space);
        let full = self.growing.replace(growing);
        full.map_or(Ok(()), |full| self.sealer.offload(full.into()))
    }

    /// Appends a record, for which there must be room. It gets the next sequence number, whatever
    /// it says. With the last record of a batch, others learn that the batch is written in full.
    #[inline]
    pub(crate) fn append(&mut self, record: Record<'_>) -> Result<u64> {
        let durable = self.sync.durable_sequence();
        // Not between the records of a batch: a tail that is torn there is recovered up to the
        // batch before, with the marks behind it.
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
            // A page of the segment that could not be written is nowhere, and nothing is
            // acknowledged any more.
            growing.segment.check_written().map_err(|error| self.sync.poison(&error))?;
            self.sync.note_appended(sequence);
        }
        Ok(sequence)
    }

    /// Notes in the journal itself what is known to be on the medium, so that recovery can tell a
    /// torn tail from corruption.
    #[cold]
    fn append_mark(&mut self, durable: u64) {
        self.marked = durable;
        let mark = Record {
            form: HeaderForm::Short,
            sequence: self.next_sequence - 1,
            written_at_ms: 0,
            expires_at_ms: 0,
            kind: RecordKind::SyncMark,
            batch_goes_on: false,
            key: &[],
            head: &[],
            compression: Compression::None,
            value: &durable.to_le_bytes(),
        };
        self.growing.as_mut().expect("reserve began a segment").lay_down(&mark);
    }

    /// Removes the spares: all of them, if the growing segment will take writes for long enough to
    /// make others meanwhile, and all but the next one otherwise.
    pub(crate) fn give_up_spares(&self) {
        let lasts = self.growing.as_ref().is_some_and(|growing| growing.spare_from != u64::MAX);
        self.spares.give_up(usize::from(!lasts));
    }

    /// Seals everything that was written so far.
    pub(crate) fn seal(&mut self) -> Result<()> {
        self.sealer.wait()?;
        self.growing.take().map_or(Ok(()), |full| self.sealer.seal(&full.into()))
    }

    /// Seals the growing segment and removes the spares, so that the next opening has nothing to
    /// replay.
    pub(crate) fn close(&mut self) -> Result<()> {
        self.seal()?;
        self.spares.remove_all()
    }
}
