//! The set of segments: it finds records by their sequence numbers. Changes replace the list of
//! segments as a whole.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use pellucid_thread::{CriticalSection, Mutex};

use super::files::SegmentFiles;
use super::footer::OFFSET_LENGTH;
use super::medium::MediumReads;
use super::record::Record;
use super::segment::Segment;
use super::timed_read::TimedRead;
use crate::counter_set::ThreadCounters;
use crate::error::{Error, Result};
use crate::ledger::SegmentMetadata;
use crate::object::Value;
use crate::read_mode::ReadMode;

/// The segments in order, with their first sequence numbers in one array for the search.
#[derive(Default)]
pub(crate) struct SegmentList {
    firsts: Vec<u64>,
    pub(crate) segments: Vec<Arc<Segment>>,
}

/// The location of a record: the index of its segment in the list, and its offset in the segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordLocation {
    segment: usize,
    offset: u64,
}

impl SegmentList {
    fn of(segments: Vec<Arc<Segment>>) -> SegmentList {
        let firsts = segments.iter().map(|segment| segment.first_sequence).collect();
        SegmentList { firsts, segments }
    }

    /// The segment in whose range `sequence` lies: the last one that does not begin after it.
    #[inline]
    pub(crate) fn find(&self, sequence: u64) -> Option<&Arc<Segment>> {
        self.segments.get(self.find_index(sequence)?)
    }

    /// The index of the segment in whose range `sequence` lies.
    #[inline]
    pub(crate) fn find_index(&self, sequence: u64) -> Option<usize> {
        self.firsts.partition_point(|first| *first <= sequence).checked_sub(1)
    }

    /// Finds the index as [`SegmentList::find_index`] does, without a search if it is the same as
    /// in the `last` call: entries that are dropped together were often written together.
    #[inline]
    pub(super) fn find_index_near(&self, sequence: u64, last: &mut usize) -> Option<usize> {
        let begins = self.firsts.get(*last).is_some_and(|first| *first <= sequence);
        let is_last = begins && self.firsts.get(*last + 1).is_none_or(|next| *next > sequence);
        if !is_last {
            *last = self.find_index(sequence)?;
        }
        Some(*last)
    }

    /// Prefetches the memory that [`SegmentList::locate_in`] reads.
    #[inline]
    pub(crate) fn prefetch_offset_in(&self, segment: Option<usize>, sequence: u64) {
        if let Some(segment) = segment {
            self.segments[segment].prefetch_offset(sequence);
        }
    }

    /// The location of the record with `sequence` in `segment`; `None` if there is none.
    #[inline]
    pub(crate) fn locate_in(
        &self,
        segment: Option<usize>,
        sequence: u64,
    ) -> Option<RecordLocation> {
        let segment = segment?;
        let offset = self.segments[segment].offset(sequence)?;
        Some(RecordLocation { segment, offset })
    }

    /// Prefetches the first cache line of the record at `location`.
    #[inline]
    pub(crate) fn prefetch_beginning(&self, location: RecordLocation) {
        self.segments[location.segment].prefetch(location.offset as usize, 1);
    }

    /// Prefetches the record at `location`, which is expected to have `length` bytes.
    #[inline]
    pub(crate) fn prefetch_record(&self, location: RecordLocation, length: usize) {
        self.segments[location.segment].prefetch(location.offset as usize, length);
    }

    /// The lowest sequence number after which no record is missing up to `last_sequence`.
    pub(crate) fn complete_since(&self, last_sequence: u64) -> u64 {
        let mut first = last_sequence + 1;
        for segment in self.segments.iter().rev() {
            let reaches = segment.footer().is_none_or(|footer| {
                footer.is_dense() && footer.last_sequence.saturating_add(1) >= first
            });
            if segment.is_collected() || !reaches {
                break;
            }
            first = segment.first_sequence;
        }
        first.saturating_sub(1)
    }

    /// The last sequence number before the newest sealed segments that together have at least
    /// `bytes`; 0 if all sealed segments have less, and `u64::MAX` if `bytes` is 0.
    pub(crate) fn end_before_newest(&self, bytes: u64) -> u64 {
        let mut sum_bytes = 0;
        let mut sealed = self.segments.iter().rev().filter(|segment| segment.footer().is_some());
        if bytes == 0 {
            return u64::MAX;
        }
        let oldest = sealed.find(|segment| {
            sum_bytes += segment.record_bytes();
            sum_bytes >= bytes
        });
        oldest.map_or(0, |segment| segment.first_sequence.saturating_sub(1))
    }

    /// Reads the value of the record at `location`, and checks that it belongs to `key` and
    /// `sequence`.
    #[inline]
    pub(crate) fn read(
        &self,
        location: RecordLocation,
        sequence: u64,
        key: &[u8],
    ) -> Result<Value> {
        self.segments[location.segment].read_at(location.offset, sequence, key)
    }
}

/// The segments of an open journal.
pub(crate) struct SegmentSet {
    files: Arc<SegmentFiles>,
    list: ArcSwap<SegmentList>,
    /// Locked while the list is replaced.
    change: Mutex<()>,
    medium: MediumReads,
}

impl SegmentSet {
    pub(super) fn new(
        files: Arc<SegmentFiles>,
        segments: Vec<Arc<Segment>>,
        medium: MediumReads,
    ) -> SegmentSet {
        let list = ArcSwap::from_pointee(SegmentList::of(segments));
        SegmentSet { files, list, change: Mutex::new(()), medium }
    }

    /// The current list of segments, for a short time.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<SegmentList>> {
        self.list.load()
    }

    /// The current list of segments, for as long as the caller needs it.
    pub(crate) fn list(&self) -> Arc<SegmentList> {
        self.list.load_full()
    }

    /// The account of the reads that had to wait for the medium.
    #[inline]
    pub(crate) fn medium(&self) -> &MediumReads {
        &self.medium
    }

    /// Changes the list of segments.
    pub(super) fn change(&self, change: impl FnOnce(&mut Vec<Arc<Segment>>)) {
        let _whole = CriticalSection::begin();
        let _held = self.change.lock();
        let mut segments = self.list.load().segments.clone();
        change(&mut segments);
        self.list.store(Arc::new(SegmentList::of(segments)));
    }

    /// Reads the value of `key` that was written with `sequence`. The record is expected to have
    /// `expected_length` bytes, so that all of them can be prefetched. `None` if no segment has the
    /// record: for a reader without a snapshot, the key may have been overwritten meanwhile and the
    /// record collected.
    #[inline]
    pub(crate) fn read(
        &self,
        (sequence, key): (u64, &[u8]),
        expected_length: usize,
        mode: ReadMode,
        steps: Option<ThreadCounters<'_>>,
    ) -> Result<Option<Value>> {
        let steps = steps.map(|counting| (counting, counting.now()));
        let segments = self.list.load();
        let Some(segment) = segments.find(sequence) else { return Ok(None) };
        if mode == ReadMode::InMemory && !segment.is_offset_resident(sequence) {
            return Err(Error::NotInMemory);
        }
        let Some(offset) = segment.offset(sequence) else {
            // A zero offset means that there is no record, or that the page could not be read.
            return segment.check_offsets().map(|()| None);
        };
        let timed =
            steps.map(|it| TimedRead::begin(it, || segment.is_resident(offset, expected_length)));
        let value = if mode == ReadMode::InMemory || self.medium.are_slow() {
            let stays = self.medium.stays();
            self.read_slowly(segment, (sequence, offset), key, expected_length, mode, stays)
        } else {
            segment.prefetch(offset as usize, expected_length);
            segment.read_at(offset, sequence, key)
        };
        if let Some(timed) = timed {
            timed.end();
        }
        value.map(Some)
    }

    /// Reads as [`SegmentSet::read`] does, for a scan: its snapshot keeps the record, and all pages
    /// that were fetched stay in the page cache, because the scan will need them for other records.
    /// While reads are slow, each read is measured. Otherwise a scan that begins after one slow
    /// read would check for all of its records whether they are in memory, which takes longer than
    /// reading them. A scan that must not wait checks all of them.
    pub(crate) fn read_for_scan(
        &self,
        sequence: u64,
        key: &[u8],
        expected_length: usize,
        mode: ReadMode,
    ) -> Result<Value> {
        let segments = self.list.load();
        let missing = || self.files.missing(sequence);
        let segment = segments.find(sequence).ok_or_else(missing)?;
        if mode == ReadMode::InMemory && !segment.is_offset_resident(sequence) {
            return Err(Error::NotInMemory);
        }
        let Some(offset) = segment.offset(sequence) else {
            return segment.check_offsets().and_then(|()| Err(missing()));
        };
        if mode != ReadMode::InMemory && !self.medium.are_slow() {
            segment.prefetch(offset as usize, expected_length);
            return segment.read_at(offset, sequence, key);
        }
        self.medium.measured(|| {
            self.read_slowly(segment, (sequence, offset), key, expected_length, mode, true)
        })
    }

    /// Reads a record, with one system call if it is not in memory.
    #[cold]
    fn read_slowly(
        &self,
        segment: &Segment,
        (sequence, offset): (u64, u64),
        key: &[u8],
        expected_length: usize,
        mode: ReadMode,
        stays: bool,
    ) -> Result<Value> {
        if let Some(length) = segment.away_length(offset, expected_length) {
            if mode == ReadMode::InMemory {
                return Err(Error::NotInMemory);
            }
            let files = (self.files.file_system(), self.medium.disk_files());
            let value = segment.read_from_disk((sequence, offset), key, (length, stays), files)?;
            if let Some(value) = value {
                return Ok(value);
            }
        }
        segment.prefetch(offset as usize, expected_length);
        segment.read_at(offset, sequence, key)
    }

    /// The error for a record that is missing although it must exist.
    pub(crate) fn missing(&self, sequence: u64) -> Error {
        self.files.missing(sequence)
    }

    /// The memory of offsets in segments that are not sealed, in bytes, if the last record is
    /// `last_sequence`.
    pub(super) fn offsets_bytes(&self, last_sequence: u64) -> u64 {
        let list = self.list();
        let first = list.segments.iter().find(|segment| segment.footer().is_none());
        first.map_or(0, |first| {
            (last_sequence + 1).saturating_sub(first.first_sequence) * OFFSET_LENGTH
        })
    }

    /// The current facts of all segments.
    pub(crate) fn facts(&self) -> Vec<SegmentMetadata> {
        self.list().segments.iter().map(|segment| segment.facts()).collect()
    }

    /// Calls `visit` with each existing record in `first..=last`, in order. Each record of a
    /// collected segment counts as a batch of its own: its batch was complete when it was
    /// collected.
    pub(crate) fn replay(
        &self,
        first: u64,
        last: u64,
        mut visit: impl FnMut(&Record<'_>) -> Result<()>,
    ) -> Result<()> {
        let list = self.list();
        let begin = list.find_index(first).unwrap_or(0);
        for segment in &list.segments[begin.min(list.segments.len())..] {
            let is_collected = segment.is_collected();
            for (sequence, offset) in segment.entries() {
                if sequence < first || sequence > last {
                    continue;
                }
                let record = segment.record_with(sequence, offset)?;
                let batch_goes_on = record.batch_goes_on && !is_collected;
                visit(&Record { batch_goes_on, ..record })?;
            }
            segment.check_offsets()?;
        }
        Ok(())
    }
}
