//! The journal: the only log, in which every value is written once.
//!
//! A record is found by its sequence number: a binary search over the segments' first sequence
//! numbers, one look-up in the segment's place array, and the record itself, all in mapped memory.
//! Appending is copying into a mapped file whose space was allocated before, so a record is in the
//! operating system's hands without a system call. Segments are prepared and sealed off the write
//! path ([`roll`]), and made durable in groups ([`sync`]).

mod append;
mod collect;
mod current;
mod ends;
mod footer;
mod gone;
mod link;
mod named;
mod ranked;
mod record;
mod recover;
mod roll;
mod runs;
mod salvage;
mod scan;
mod seal;
mod segment;
mod steps;
mod sync;
#[cfg(test)]
mod tests;
mod verify;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use pellucid_account::Activity;
use pellucid_clock::Clock;
use pellucid_io::FileSystem;
use pellucid_thread::{Condvar, Indivisible, Mutex, MutexGuard};

use crate::engine::SyncTimes;
use crate::error::{Error, Result};
use crate::expiry::MarkedTime;
use crate::object::Value;
use crate::read_mode::ReadMode;

pub(crate) use append::Appender;
pub(crate) use collect::{CollectedWriter, Limits, Run};
pub(crate) use current::current_segments;
pub(crate) use footer::{PLACE_LENGTH, decode_footer};
pub(crate) use gone::GONE_SEGMENTS_MAX;
pub(crate) use record::{Record, RecordKind};
pub(crate) use recover::JournalSetting;
pub(crate) use salvage::{Found, renewed_bytes, walk_records, write_segment};
pub(crate) use scan::{find_stray, scan_records};
pub(crate) use segment::{JOURNAL_FOLDER, Segment, segment_path};
pub(crate) use verify::{SegmentSummary, list_segments, verify_segment};

/// A record whose reading takes as long was not in memory: quick disks need some 10 µs, and a copy
/// from the page cache 1 µs.
const SLOW_READ_NS: u64 = 8_000;
/// After so many samples in a row that were quick, records are taken to be in memory.
const SLOW_READS_REMEMBERED: u32 = 4;
/// Of so many records that are read from the disk, one stays in the page cache.
const STAYS_ONE_IN: u32 = 16;

/// The segments in order, with their first sequence numbers side by side for the search.
#[derive(Default)]
pub(crate) struct SegmentList {
    firsts: Vec<u64>,
    pub(crate) segments: Vec<Arc<Segment>>,
}

impl SegmentList {
    fn of(segments: Vec<Arc<Segment>>) -> SegmentList {
        let firsts = segments.iter().map(|segment| segment.first_sequence).collect();
        SegmentList { firsts, segments }
    }

    /// The segment that `sequence` belongs to, if there is one that begins early enough.
    #[inline]
    pub(crate) fn find(&self, sequence: u64) -> Option<&Arc<Segment>> {
        self.segments.get(self.find_index(sequence)?)
    }

    /// Where in the list that segment stands.
    #[inline]
    pub(crate) fn find_index(&self, sequence: u64) -> Option<usize> {
        self.firsts.partition_point(|first| *first <= sequence).checked_sub(1)
    }

    /// As [`SegmentList::find_index`], without a search if it is the one of the last call: entries
    /// that are dropped together were often written together.
    #[inline]
    fn find_index_near(&self, sequence: u64, last: &mut usize) -> Option<usize> {
        let begins = self.firsts.get(*last).is_some_and(|first| *first <= sequence);
        let is_last = begins && self.firsts.get(*last + 1).is_none_or(|next| *next > sequence);
        if !is_last {
            *last = self.find_index(sequence)?;
        }
        Some(*last)
    }
}

/// Where a record is: the segment's index in the list, and the record's offset in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordPlace {
    segment: usize,
    offset: u64,
}

impl SegmentList {
    /// Asks for what [`SegmentList::place_in`] will look at.
    #[inline]
    pub(crate) fn prefetch_place_in(&self, segment: Option<usize>, sequence: u64) {
        if let Some(segment) = segment {
            self.segments[segment].prefetch_place(sequence);
        }
    }

    /// Where the record with `sequence` is, which belongs to `segment`, if there is one.
    #[inline]
    pub(crate) fn place_in(&self, segment: Option<usize>, sequence: u64) -> Option<RecordPlace> {
        let segment = segment?;
        let offset = self.segments[segment].place(sequence)?;
        Some(RecordPlace { segment, offset })
    }

    /// Asks for the first line of the record at `place`.
    #[inline]
    pub(crate) fn prefetch_beginning(&self, place: RecordPlace) {
        self.segments[place.segment].prefetch(place.offset as usize, 1);
    }

    /// Asks for the record at `place`, which is expected to have `length` bytes.
    #[inline]
    pub(crate) fn prefetch_record(&self, place: RecordPlace, length: usize) {
        self.segments[place.segment].prefetch(place.offset as usize, length);
    }

    /// Reads the value of the record at `place`, and checks that it is that of `key` with
    /// `sequence`.
    #[inline]
    pub(crate) fn read(&self, place: RecordPlace, sequence: u64, key: &[u8]) -> Result<Value> {
        self.segments[place.segment].read_at(place.offset, sequence, key)
    }
}

/// The journal of an open store.
pub(crate) struct Journal {
    file_system: Arc<dyn FileSystem>,
    directory: PathBuf,
    clock: Clock,
    /// The time by which entries expire.
    pub(crate) time: Arc<MarkedTime>,
    /// Where jobs are noted.
    activity: Activity,
    pub(crate) store_identity: u64,
    store_seed: u32,
    boot_identity: [u8; 16],
    segment_size_bytes: u64,
    /// Records at which a segment ends, so that their places stay within the memory budget.
    segment_records_max: u64,
    segments: ArcSwap<SegmentList>,
    /// Above zero while records are read from the disk rather than from memory.
    slow_reads: AtomicU32,
    /// Counts those reads: some of the records stay in the page cache.
    slow_turns: AtomicU32,
    disk_files: segment::DiskFiles,
    /// Segments of which it is known what nobody needs.
    gone: gone::GoneCount,
    /// Held while the list of segments is replaced.
    segments_change: Mutex<()>,
    /// Held while dead bytes are counted, and while collected segments take the place of others.
    books: Mutex<link::Books>,
    pub(crate) collection: collect::CollectionCounters,
    next_number: AtomicU64,
    /// The last sequence number of the last batch that was written in full.
    appended: AtomicU64,
    /// The highest sequence number known to be on the medium.
    durable: AtomicU64,
    syncs: AtomicU64,
    /// Whether the next segment shall have large pages.
    prefers_large: AtomicBool,
    /// How long they took, and how long those who wanted them waited.
    waits: sync::WaitTimes,
    /// Held during a sync; the times of the last one.
    syncing: Mutex<SyncTimes>,
    /// The failure after which nothing may be written, once there was one.
    poison: OnceLock<String>,
    roller: Mutex<roll::RollerState>,
    roller_changed: Condvar,
    waiters: Mutex<sync::Waiters>,
    waiters_changed: Condvar,
}

/// Locks a mutex; that another thread panicked while it held it is no reason to stop, because none
/// of the journal's locks covers a state that is wrong in between.
#[track_caller]
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Journal {
    /// Reads the value of `key` that was written with `sequence`, for a scan. The record is
    /// expected to have `expected_length` bytes, so that they can be fetched together. All that was
    /// fetched stays in the page cache: the scan comes back to each page for its other records.
    pub(crate) fn read(
        &self,
        sequence: u64,
        key: &[u8],
        expected_length: usize,
        mode: ReadMode,
    ) -> Result<Value> {
        let segments = self.segments.load();
        let segment = segments.find(sequence).ok_or_else(|| self.missing(sequence))?;
        if self.slow_reads.load(Ordering::Relaxed) > 0 {
            let how = (&*self.file_system, &self.disk_files, true);
            let value = segment.read_from_disk(sequence, key, expected_length, how, mode)?;
            if let Some(value) = value {
                return Ok(value);
            }
        }
        let value = segment.read(sequence, key, expected_length)?;
        value.ok_or_else(|| self.missing(sequence))
    }

    /// As [`Journal::read`]; `None` if no segment has the record. For a reader that holds no
    /// snapshot that may mean that the key was written anew meanwhile and the record collected.
    #[inline]
    pub(crate) fn read_if_held(
        &self,
        sequence: u64,
        key: &[u8],
        expected_length: usize,
        mode: ReadMode,
    ) -> Result<Option<Value>> {
        let segments = self.segments.load();
        let Some(segment) = segments.find(sequence) else { return Ok(None) };
        if self.slow_reads.load(Ordering::Relaxed) > 0
            && let Some(value) = self.read_slowly(segment, sequence, key, expected_length, mode)?
        {
            return Ok(Some(value));
        }
        segment.read(sequence, key, expected_length)
    }

    /// Reads a record from the disk, if it is not in memory.
    ///
    /// One record in [`STAYS_ONE_IN`] stays in the page cache. Where records are asked for at
    /// random out of more than there is memory for, caching each one would do nothing but push out
    /// the ledger's blocks, and a GET would cost two disk reads; what is asked for often gets its
    /// turn to stay soon. This is bimodal insertion (Qureshi et al., ISCA 2007).
    #[cold]
    fn read_slowly(
        &self,
        segment: &Segment,
        sequence: u64,
        key: &[u8],
        expected_length: usize,
        mode: ReadMode,
    ) -> Result<Option<Value>> {
        let turn = self.slow_turns.fetch_add(1, Ordering::Relaxed);
        let how = (&*self.file_system, &self.disk_files, turn.is_multiple_of(STAYS_ONE_IN));
        segment.read_from_disk(sequence, key, expected_length, how, mode)
    }

    /// As [`Journal::read`], for scans: while reads are slow, each tells whether they still are.
    /// Otherwise a scan that begins after one slow read would ask for all of its records whether
    /// they are in memory, which takes longer than reading them.
    pub(crate) fn read_and_learn(
        &self,
        sequence: u64,
        key: &[u8],
        expected_length: usize,
        mode: ReadMode,
    ) -> Result<Value> {
        if !self.reads_are_slow() {
            return self.read(sequence, key, expected_length, mode);
        }
        let begun = self.clock.now();
        let value = self.read(sequence, key, expected_length, mode)?;
        self.note_read(self.clock.nanoseconds(self.clock.now().since(begun)));
        Ok(value)
    }

    /// Whether records had to be fetched from the medium of late.
    pub(crate) fn reads_are_slow(&self) -> bool {
        self.slow_reads.load(Ordering::Relaxed) > 0
    }

    /// Takes note of how long the reading of a record took: by this the journal learns whether its
    /// segments are in memory.
    #[inline]
    pub(crate) fn note_read(&self, took_ns: u64) {
        let before = self.slow_reads.load(Ordering::Relaxed);
        if took_ns >= SLOW_READ_NS {
            self.slow_reads.store(SLOW_READS_REMEMBERED, Ordering::Relaxed);
        } else if before > 0 {
            self.slow_reads.store(before - 1, Ordering::Relaxed);
        }
    }

    /// As [`Journal::note_read`], for a read that was not sampled: only a slow one is noted.
    #[inline]
    pub(crate) fn note_if_slow(&self, took_ns: u64) {
        if took_ns >= SLOW_READ_NS {
            self.note_away();
        }
    }

    /// Takes note that something was not in memory.
    pub(crate) fn note_away(&self) {
        self.slow_reads.store(SLOW_READS_REMEMBERED, Ordering::Relaxed);
    }

    pub(crate) fn missing(&self, sequence: u64) -> Error {
        let what = format!("no segment holds sequence {sequence}");
        Error::corruption(&self.directory.join(JOURNAL_FOLDER), 0, what)
    }

    /// The segments as they are now.
    pub(crate) fn segments(&self) -> Arc<SegmentList> {
        self.segments.load_full()
    }

    /// Memory of the places of records in segments that are not sealed.
    pub(crate) fn places_bytes(&self) -> u64 {
        let segments = self.segments();
        let unsealed = segments.segments.iter().position(|segment| segment.footer().is_none());
        let first = unsealed.map(|index| segments.segments[index].first_sequence);
        first.map_or(0, |first| (self.appended_sequence() + 1).saturating_sub(first) * PLACE_LENGTH)
    }

    /// The last sequence number of the last batch that was written in full.
    pub(crate) fn appended_sequence(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }

    /// The highest sequence number known to be on the medium.
    pub(crate) fn durable_sequence(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// How often the journal was synced.
    pub(crate) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Calls `visit` with each record there is of `first..=last`, in order. Records of collected
    /// segments are batches of their own: what is left of a batch was written in full.
    pub(crate) fn replay(
        &self,
        first: u64,
        last: u64,
        mut visit: impl FnMut(&Record<'_>) -> Result<()>,
    ) -> Result<()> {
        let segments = self.segments();
        let begin = segments.find_index(first).unwrap_or(0);
        for segment in &segments.segments[begin.min(segments.segments.len())..] {
            let is_collected = segment.is_collected();
            for (sequence, offset) in segment.entries() {
                if sequence < first || sequence > last {
                    continue;
                }
                let record = segment.record_at(offset)?;
                if record.sequence != sequence {
                    let what = format!("expected sequence {sequence}, found {}", record.sequence);
                    return Err(Error::corruption(&segment.shared.path, offset, what));
                }
                let batch_goes_on = record.batch_goes_on && !is_collected;
                visit(&Record { batch_goes_on, ..record })?;
            }
            segment.check_places()?;
        }
        Ok(())
    }

    /// Changes the list of segments.
    fn change_segments(&self, change: impl FnOnce(&mut Vec<Arc<Segment>>)) {
        let _whole = Indivisible::begin();
        let _held = lock(&self.segments_change);
        let mut segments = self.segments.load().segments.clone();
        change(&mut segments);
        self.segments.store(Arc::new(SegmentList::of(segments)));
    }

    /// Refuses if an earlier failure made it unknown what is on the medium.
    #[inline]
    pub(crate) fn check_poison(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
        }
    }

    /// Makes `error` the failure after which nothing is written any more, unless there was one
    /// before, and returns what writers get from now on.
    pub(crate) fn poison(&self, error: &Error) -> Error {
        let cause = self.poison.get_or_init(|| error.to_string()).clone();
        Error::Poisoned { cause }
    }
}
