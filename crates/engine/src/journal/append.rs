//! Appending: what happens under the writer lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Journal;
use super::footer::{FOOTER_FIXED_LENGTH, PLACE_LENGTH};
use super::record::{Record, RecordKind, SYNC_MARK_LENGTH};
use super::segment::Segment;
use crate::codec::FILE_HEADER_LENGTH;
use crate::compression::Compression;
use crate::error::Result;
use crate::header_form::HeaderForm;
use crate::ledger::{CACHE_LINE_BYTES, prefetch_to_write};

/// Room that a footer takes beyond the places: its fixed part and the padding of the places.
const FOOTER_RESERVE: u64 = FOOTER_FIXED_LENGTH + 8;

/// Syncs of a segment up to which large pages are a gain: touching a page of 4 KiB for the first
/// time costs 2.5 µs, one of 2 MiB a third of that for as much, and a sync has fewer to protect.
/// But each sync writes all of the large page that is being filled, 1 ms instead of 0.1: flushes
/// ask for a few of them, and writers that wait for the medium for thousands.
const LARGE_SYNCS_MAX: u64 = 16;

/// Bytes of the next record that are asked for ahead: the beginning of a long one is enough, as the
/// processor sees by itself that the rest follows.
const EXPECTED_BYTES_MAX: usize = 512;

/// The writing end of the journal. It belongs to the writer lock.
pub(crate) struct Appender {
    active: Option<Active>,
    next_sequence: u64,
    /// The sequence number that the last sync mark vouches for.
    marked: u64,
    /// Whether the batch of the last record goes on.
    is_within_batch: bool,
    /// How often the journal had been synced when the active segment was begun.
    syncs_at_roll: u64,
}

/// The segment that is being written.
pub(super) struct Active {
    pub(super) segment: Arc<Segment>,
    /// Where the next record goes.
    pub(super) end: u64,
    /// Records with a place.
    pub(super) count: u64,
    /// In large pages: how often the journal had been synced when the segment was begun.
    large_since_syncs: Option<u64>,
    /// From here on the next segment is asked for, should there be none.
    spare_from: u64,
}

impl Active {
    pub(super) fn new(segment: Arc<Segment>, large_since_syncs: Option<u64>) -> Active {
        let (end, spare_from) = (FILE_HEADER_LENGTH as u64, segment.shared.map.length() as u64 / 2);
        Active { segment, end, count: 0, large_since_syncs, spare_from }
    }

    /// Whether the segment has large pages and is synced so often that they are a burden.
    fn suffers_from_syncs(&self, syncs: u64) -> bool {
        self.large_since_syncs.is_some_and(|since| syncs.saturating_sub(since) > LARGE_SYNCS_MAX)
    }

    /// Whether `size_bytes` of `count` records fit, and then still the footer: so sealing never
    /// needs space that is not there.
    fn has_room(&self, size_bytes: u64, count: u64) -> bool {
        let places = self.count + count;
        let needed = self.end + size_bytes + places * PLACE_LENGTH + FOOTER_RESERVE;
        needed <= self.segment.shared.map.length() as u64
            && places <= self.segment.places_capacity() as u64
    }
}

/// The size of a segment in which `size_bytes` of `count` records fit.
fn segment_size_for(size_bytes: u64, count: u64) -> u64 {
    let needed = FILE_HEADER_LENGTH as u64 + size_bytes + count * PLACE_LENGTH + FOOTER_RESERVE;
    needed.next_multiple_of(4096)
}

impl Appender {
    /// The end of a journal whose last record has `last_sequence` and is on the medium.
    pub(super) fn after(last_sequence: u64) -> Appender {
        let (next_sequence, marked) = (last_sequence + 1, last_sequence);
        let (is_within_batch, syncs_at_roll) = (false, 0);
        Appender { active: None, next_sequence, marked, is_within_batch, syncs_at_roll }
    }

    /// The sequence number that the next record gets.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Whether the active segment will take writes for long enough to make the next one meanwhile.
    pub(super) fn lasts(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.spare_from != u64::MAX)
    }

    /// Takes the active segment away, to be sealed.
    pub(super) fn take_active(&mut self) -> Option<Active> {
        self.active.take()
    }
}

impl Journal {
    /// Sees to it that `count` records of `size_bytes` in all fit into the active segment. After an
    /// error, everything is as before.
    pub(crate) fn reserve(
        &self,
        appender: &mut Appender,
        size_bytes: u64,
        count: u64,
    ) -> Result<()> {
        let size_bytes = size_bytes + SYNC_MARK_LENGTH;
        let syncs = self.syncs();
        let can_go_on = |active: &Active| {
            active.has_room(size_bytes, count) && !active.suffers_from_syncs(syncs)
        };
        if let Some(active) = &mut appender.active
            && can_go_on(active)
        {
            if active.end >= active.spare_from {
                active.spare_from = u64::MAX;
                self.want_spare();
            }
            return Ok(());
        }
        let needed_bytes = segment_size_for(size_bytes, count);
        let segment = self.begin_segment(needed_bytes, count, appender.next_sequence)?;
        // As it was with the segment before, so it will be with this one.
        let is_quiet = syncs.saturating_sub(appender.syncs_at_roll) <= LARGE_SYNCS_MAX;
        appender.syncs_at_roll = syncs;
        self.prefers_large.store(is_quiet, Ordering::Relaxed);
        let is_large = segment.shared.is_large.load(Ordering::Relaxed)
            || (is_quiet && segment.shared.prefer_large_pages());
        let full = appender.active.replace(Active::new(segment, is_large.then_some(syncs)));
        if let Some(full) = full {
            self.hand_over_for_sealing(full)?;
        }
        Ok(())
    }

    /// Appends a record, for which there must be room. It gets the next sequence number, whatever
    /// it says.
    #[inline]
    pub(crate) fn append(&self, appender: &mut Appender, record: Record<'_>) -> u64 {
        let durable = self.durable.load(Ordering::Relaxed);
        // Not between the records of a batch: earlier builds take a mark there for damage.
        if durable > appender.marked && !appender.is_within_batch {
            self.append_mark(appender, durable);
        }
        appender.is_within_batch = record.batch_goes_on;
        let sequence = appender.next_sequence;
        let active = appender.active.as_mut().expect("reserve made a segment active");
        let offset = active.end;
        let record = Record { sequence, ..record };
        lay_down_at(active, &record);
        active.segment.set_place(sequence, offset);
        active.count += 1;
        appender.next_sequence += 1;
        sequence
    }

    /// Notes in the journal itself what is known to be on the medium, so that recovery can tell a
    /// torn tail from corruption.
    #[cold]
    pub(super) fn append_mark(&self, appender: &mut Appender, durable: u64) {
        appender.marked = durable;
        let active = appender.active.as_mut().expect("reserve made a segment active");
        let mark = Record {
            form: HeaderForm::Short,
            sequence: appender.next_sequence - 1,
            written_at_ms: 0,
            expires_at_ms: 0,
            kind: RecordKind::SyncMark,
            batch_goes_on: false,
            key: &[],
            head: &[],
            compression: Compression::None,
            value: &durable.to_le_bytes(),
        };
        lay_down_at(active, &mark);
    }

    /// Says that the batch is written in full. An error says that a page of the segment could not
    /// be written: nothing is acknowledged any more.
    #[inline]
    pub(crate) fn complete_batch(&self, appender: &Appender) -> Result<()> {
        if let Some(active) = &appender.active {
            active.segment.check_written().map_err(|error| self.poison(&error))?;
        }
        self.appended.store(appender.next_sequence - 1, Ordering::Release);
        Ok(())
    }
}

/// Lays `record` down at the end of the active segment.
#[inline]
fn lay_down_at(active: &mut Active, record: &Record<'_>) {
    let shared = &active.segment.shared;
    let padded_length = record.padded_length();
    assert!(active.end + padded_length <= shared.map.length() as u64, "reserve made room");
    // SAFETY: the end is a multiple of 8 within a page-aligned map, the length was just checked,
    // the space was allocated as zeros and is written once, and only the holder of the writer lock
    // writes.
    unsafe {
        record.lay_down(shared.map.pointer().add(active.end as usize), shared.store_seed);
    }
    active.end += padded_length;
    expect_next(active, padded_length as usize);
}

/// Asks for the memory of the next record, which is as long as this one, as a guess. It was zeroed
/// long ago, and whoever writes one record at a time would wait for each of its lines.
#[inline]
fn expect_next(active: &Active, length: usize) {
    let pointer = active.segment.shared.map.pointer();
    for line in (0..length.min(EXPECTED_BYTES_MAX)).step_by(CACHE_LINE_BYTES) {
        prefetch_to_write(pointer.wrapping_add(active.end as usize + line));
    }
}
