//! A segment: a mapped file of records, and the offset of each record.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pellucid_clock::Ticks;
use pellucid_io::{File, FileSystem, Map};

use super::footer::Footer;
use super::held_file::HeldFile;
use super::medium::DiskFileCount;
use super::record::{RECORD_LENGTH_MIN, Record};
use super::runs::Runs;
use super::timed_read::TimedRead;
use super::unneeded_records::{UnneededCount, UnneededRecords};
use crate::codec::FILE_HEADER_LENGTH;
use crate::compression::Compression;
use crate::counter_set::ThreadCounters;
use crate::error::{Error, Result};
use crate::header_form::HeaderForm;
use crate::ledger::{self, CACHE_LINE_BYTES, DroppedEntry, SegmentMetadata, prefetch};
use crate::mapped_file::{MappedFile, PAGE_BYTES};
use crate::object::{Head, Value};

/// The folder of the journal's segments within the store's folder.
pub(crate) const JOURNAL_FOLDER: &str = "journal";
const SUFFIX: &str = ".journal";
/// The most bytes that are prefetched for a read; for longer runs the processor prefetches itself.
const PREFETCH_MAX: usize = 1024;
/// The expected length of a record while its segment is being written, in bytes.
const USUAL_LENGTH: usize = 256;
/// Records up to this length, in bytes, are read by one call when they are not in memory.
const READ_MAX: usize = 128 << 10;

/// The path of segment `number` of the store in `directory`.
pub(crate) fn segment_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(JOURNAL_FOLDER).join(format!("{number:016x}{SUFFIX}"))
}

/// The segment number in a file name of the journal's folder; `None` if it is not a segment.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// The most files that are held open because records are read from the disk; beyond that, each read
/// opens its file.
const DISK_FILES_MAX: usize = 64;
/// The smallest segment that gets large pages, in bytes.
const LARGE_SEGMENT_MIN_BYTES: usize = 8 << 20;
/// The part at the end of a segment without large pages, in bytes: the pages around the footer are
/// synced twice.
const LARGE_PAGES_SPARED_BYTES: usize = 2 << 20;

/// A file that is held open for reads from the disk, as long as its segment exists.
struct DiskFile {
    file: Arc<dyn File>,
    count: DiskFileCount,
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The part of a segment that stays the same when the segment is sealed.
pub(crate) struct SegmentFile {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    pub(super) file: HeldFile,
    /// The file, opened when a record is first read from the disk.
    disk_file: OnceLock<DiskFile>,
    pub(super) map: MappedFile,
    /// The seed of the records' checksums.
    pub(super) store_seed: u32,
    /// Bytes of records that no key needs any more.
    dead_bytes: AtomicU64,
    /// Bytes of records of markers that the ledger no longer names
    /// ([`SegmentMetadata::marker_bytes`]).
    marker_bytes: AtomicU64,
    /// True if the segment is complete and all its records are on the medium.
    pub(super) is_synced: AtomicBool,
    /// Records that are known to be unneeded.
    unneeded: UnneededRecords,
    /// True if large pages were requested.
    is_large: AtomicBool,
}

/// The bytes of records whose entries the ledger dropped.
#[derive(Clone, Copy, Default)]
pub(super) struct DroppedBytes {
    pub(super) dead_bytes: u64,
    pub(super) marker_bytes: u64,
}

impl DroppedBytes {
    /// Adds the record of `dropped`, if `segment` holds it.
    #[inline]
    pub(super) fn add(&mut self, dropped: &DroppedEntry, segment: &Segment) {
        if segment.has(dropped.sequence) {
            match dropped.is_marker {
                true => self.marker_bytes += dropped.record_bytes,
                false => self.dead_bytes += dropped.record_bytes,
            }
        }
    }
}

/// A segment, as readers see it.
pub(crate) struct Segment {
    pub(crate) shared: Arc<SegmentFile>,
    /// The sequence number of the first record.
    pub(crate) first_sequence: u64,
    /// The approximate length of a record, in bytes.
    usual_length: usize,
    offsets: Offsets,
}

enum Offsets {
    /// Offsets in memory, while the segment is being written: in units of 8 bytes, zero for records
    /// that are not written yet.
    Growing(Box<[AtomicU32]>),
    /// Offsets in the footer, once the segment is sealed.
    Sealed { footer: Footer, runs: Option<Runs> },
}

/// An array of zeros whose pages are allocated on first use.
fn zeroed_offsets(count: usize) -> Box<[AtomicU32]> {
    let zeros: Box<[u32]> = vec![0; count].into_boxed_slice();
    let pointer = Box::into_raw(zeros);
    // SAFETY: AtomicU32 has the size, alignment and bit validity of u32, and the box is the only
    // owner of the memory.
    unsafe { Box::from_raw(pointer as *mut [AtomicU32]) }
}

/// The bytes of a sealed segment, which never change.
fn sealed_bytes<'a>(shared: &'a SegmentFile, footer: &Footer) -> &'a [u8] {
    let length = footer.offset + footer.length();
    // SAFETY: the footer was checked to lie within the file and the map, and a sealed segment is
    // not written to.
    unsafe { std::slice::from_raw_parts(shared.map.pointer(), length as usize) }
}

impl SegmentFile {
    /// The file at `path`, which is mapped as `map`; it counts as sealed and synced if `file` is
    /// closed.
    pub(super) fn new(
        number: u64,
        path: PathBuf,
        file: HeldFile,
        map: Arc<dyn Map>,
        store_seed: u32,
    ) -> SegmentFile {
        let is_synced = AtomicBool::new(file.is_closed());
        SegmentFile {
            number,
            path,
            file,
            disk_file: OnceLock::new(),
            map: map.into(),
            store_seed,
            dead_bytes: AtomicU64::new(0),
            marker_bytes: AtomicU64::new(0),
            is_synced,
            unneeded: UnneededRecords::default(),
            is_large: AtomicBool::new(false),
        }
    }

    /// Counts records whose entries the ledger dropped.
    pub(super) fn count_dropped(&self, dropped: DroppedBytes) {
        let DroppedBytes { dead_bytes, marker_bytes } = dropped;
        for (counter, bytes) in [(&self.dead_bytes, dead_bytes), (&self.marker_bytes, marker_bytes)]
        {
            if bytes > 0 {
                counter.fetch_add(bytes, Ordering::Relaxed);
            }
        }
    }

    /// Bytes of records that no key needs any more.
    pub(super) fn dead_bytes(&self) -> u64 {
        self.dead_bytes.load(Ordering::Relaxed)
    }

    /// True if large pages were requested.
    pub(super) fn is_large(&self) -> bool {
        self.is_large.load(Ordering::Relaxed)
    }

    /// Requests large pages, if the segment is large enough for them; returns true if it did.
    pub(super) fn prefer_large_pages(&self) -> bool {
        let is_large = self.map.length() >= LARGE_SEGMENT_MIN_BYTES;
        if is_large {
            self.map.prefer_large_pages(self.map.length() - LARGE_PAGES_SPARED_BYTES);
            // Otherwise the system populates two large pages per fault, which takes twice as long.
            self.map.expect_random();
            self.is_large.store(true, Ordering::Relaxed);
        }
        is_large
    }

    /// The file, for reads from the disk.
    fn disk_file(
        &self,
        (files, count): (&dyn FileSystem, &DiskFileCount),
    ) -> io::Result<Arc<dyn File>> {
        if let Some(held) = self.disk_file.get() {
            return Ok(Arc::clone(&held.file));
        }
        let file = files.open(&self.path, false)?;
        // Counted here, and uncounted when `held` is dropped, whether it is kept or not.
        let before = count.fetch_add(1, Ordering::Relaxed);
        let held = DiskFile { file: Arc::clone(&file), count: Arc::clone(count) };
        if before < DISK_FILES_MAX {
            let _ = self.disk_file.set(held);
        }
        Ok(file)
    }
}

impl Segment {
    /// A segment that is being written, with room for the offsets of `records_max` records.
    pub(crate) fn growing(
        shared: Arc<SegmentFile>,
        first_sequence: u64,
        records_max: usize,
    ) -> Segment {
        let offsets = Offsets::Growing(zeroed_offsets(records_max));
        Segment { shared, first_sequence, usual_length: USUAL_LENGTH, offsets }
    }

    /// A sealed segment with a valid footer.
    pub(crate) fn sealed(shared: Arc<SegmentFile>, first_sequence: u64, footer: Footer) -> Segment {
        let bytes = sealed_bytes(&shared, &footer);
        let runs = footer.runs(bytes);
        let usual_length = (footer.offset as usize).div_ceil(footer.count.max(1) as usize);
        Segment { shared, first_sequence, usual_length, offsets: Offsets::Sealed { footer, runs } }
    }

    /// The footer, if the segment is sealed.
    pub(crate) fn footer(&self) -> Option<&Footer> {
        match &self.offsets {
            Offsets::Growing(_) => None,
            Offsets::Sealed { footer, .. } => Some(footer),
        }
    }

    /// The number of records that a growing segment has offsets for; 0 for a sealed one.
    pub(crate) fn offsets_capacity(&self) -> usize {
        match &self.offsets {
            Offsets::Growing(offsets) => offsets.len(),
            Offsets::Sealed { .. } => 0,
        }
    }

    /// Sets the offset of a record of a growing segment. Readers see it once the sequence number is
    /// published.
    #[inline]
    pub(crate) fn set_offset(&self, sequence: u64, offset: u64) {
        match &self.offsets {
            Offsets::Growing(offsets) => {
                let index = (sequence - self.first_sequence) as usize;
                offsets[index].store((offset / 8) as u32, Ordering::Release);
            }
            Offsets::Sealed { .. } => unreachable!("a sealed segment takes no records"),
        }
    }

    /// The offset of the record with `sequence`, if the segment has it.
    #[inline]
    pub(crate) fn offset(&self, sequence: u64) -> Option<u64> {
        let index = sequence.checked_sub(self.first_sequence)?;
        match &self.offsets {
            Offsets::Growing(offsets) => {
                let offset = offsets.get(index as usize)?.load(Ordering::Acquire);
                (offset != 0).then_some(u64::from(offset) * 8)
            }
            Offsets::Sealed { footer, runs: Some(runs) } => {
                let number = footer.number_of(sealed_bytes(&self.shared, footer), index)?;
                Some(runs.offset(number))
            }
            Offsets::Sealed { footer, runs: None } => {
                footer.record_offset(sealed_bytes(&self.shared, footer), index)
            }
        }
    }

    /// True if the segment holds a record with `sequence`. Only in a segment with pairs does this
    /// take a search.
    #[inline]
    pub(crate) fn has(&self, sequence: u64) -> bool {
        let Some(distance) = sequence.checked_sub(self.first_sequence) else { return false };
        match &self.offsets {
            Offsets::Growing(_) => self.offset(sequence).is_some(),
            Offsets::Sealed { footer, .. } if !footer.has_pairs() => {
                footer.number_of(sealed_bytes(&self.shared, footer), distance).is_some()
            }
            Offsets::Sealed { .. } => self.offset(sequence).is_some(),
        }
    }

    /// Prefetches the cache line with the offset of `sequence`.
    #[inline]
    pub(crate) fn prefetch_offset(&self, sequence: u64) {
        let Some(distance) = sequence.checked_sub(self.first_sequence) else { return };
        match &self.offsets {
            Offsets::Growing(offsets) => {
                let offset = offsets.get(distance as usize).map(std::ptr::from_ref);
                offset.into_iter().for_each(|offset| prefetch(offset.cast()));
            }
            Offsets::Sealed { footer, runs: Some(_) } => {
                let at = footer.number_line(sealed_bytes(&self.shared, footer), distance);
                at.into_iter().for_each(prefetch);
            }
            Offsets::Sealed { footer, runs: None } => {
                let at = footer.offset_line(sealed_bytes(&self.shared, footer), distance);
                at.into_iter().for_each(prefetch);
            }
        }
    }

    /// The sequence number and offset of each record of a sealed segment, ascending.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let entries =
            self.footer().map(|footer| footer.entries(sealed_bytes(&self.shared, footer)));
        let entries = entries.into_iter().flatten();
        entries.map(|(distance, offset)| (self.first_sequence + distance, offset))
    }

    /// Length of the records of a sealed segment, in bytes; 0 for a growing one.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.footer().map_or(0, |footer| footer.offset - FILE_HEADER_LENGTH as u64)
    }

    /// The sequence number up to which markers hide nothing older in this segment; 0 if unknown.
    pub(crate) fn clean_sequence(&self) -> u64 {
        self.footer().and_then(|footer| footer.clean_sequence).unwrap_or(0)
    }

    /// True if the segment was collected, so that batches in it may lack their ends.
    pub(crate) fn is_collected(&self) -> bool {
        self.footer().is_some_and(|footer| footer.clean_sequence.is_some())
    }

    /// Notes that the record of `dropped` is unneeded, if that is certain without reading the
    /// record. It is not for a marker or a value that can expire, which may hide older values. It
    /// is noted only in segments where the index of a record follows from its sequence number.
    pub(super) fn note_unneeded(&self, dropped: &DroppedEntry, count: &UnneededCount) {
        if dropped.is_marker || dropped.form != HeaderForm::Short {
            return;
        }
        let records = match &self.offsets {
            Offsets::Growing(offsets) => offsets.len(),
            Offsets::Sealed { footer, .. } if footer.is_dense() => footer.count as usize,
            Offsets::Sealed { .. } => return,
        };
        if let Some(number) = dropped.sequence.checked_sub(self.first_sequence)
            && number < records as u64
        {
            self.shared.unneeded.note(number, records, count);
        }
    }

    /// True if the record with `sequence` is known to be unneeded.
    #[inline]
    pub(crate) fn is_unneeded(&self, sequence: u64) -> bool {
        self.shared.unneeded.contains(sequence - self.first_sequence)
    }

    /// All bytes of the file of a sealed segment; empty for a growing one.
    pub(crate) fn sealed_file(&self) -> &[u8] {
        self.footer().map_or(&[], |footer| sealed_bytes(&self.shared, footer))
    }

    /// Returns an error if a page of a sealed segment could not be read. To be called after its
    /// bytes were used.
    pub(crate) fn check_sealed(&self) -> Result<()> {
        self.shared.map.check(0..self.sealed_file().len(), &self.shared.path)
    }

    /// The end of the range in which readers may look for records.
    #[inline]
    fn records_end(&self) -> usize {
        match &self.offsets {
            Offsets::Growing(_) => self.shared.map.length(),
            Offsets::Sealed { footer, .. } => footer.offset as usize,
        }
    }

    /// Returns an error if a page with offsets of a sealed segment could not be read. To be called
    /// after an offset was read.
    pub(crate) fn check_offsets(&self) -> Result<()> {
        let Some(footer) = self.footer() else { return Ok(()) };
        let end = footer.offset + footer.length();
        self.shared.map.check(footer.offset as usize..end as usize, &self.shared.path)
    }

    /// Returns an error if a page of a growing segment was lost: what was written to it is gone.
    #[inline]
    pub(super) fn check_written(&self) -> Result<()> {
        self.shared.map.check(0..self.shared.map.length(), &self.shared.path)
    }

    /// Reads the value of the record at `offset`, and checks that it belongs to `key` and
    /// `sequence`.
    #[inline]
    pub(crate) fn read_at(&self, offset: u64, sequence: u64, key: &[u8]) -> Result<Value> {
        let record = self.record_at(offset)?;
        if !record.puts(sequence, key) {
            self.check_offsets()?;
            let what = format!(
                "expected sequence {sequence} with the key looked up, found sequence {} ({:?})",
                record.sequence, record.kind
            );
            return Err(Error::corruption(&self.shared.path, offset, what));
        }
        self.value_of(&record, offset)
    }

    /// Reads the head and the value of `key` from the record with `sequence`, if that record puts
    /// `key`. The sequence number comes from a directory of the ledger, and may belong to another
    /// key. `None` means nothing: the caller then looks up the ledger's entry. `steps` times the
    /// search for the record, from a moment before its segment was known, and the read.
    #[inline]
    pub(crate) fn read_named(
        &self,
        sequence: u64,
        key: &[u8],
        steps: Option<(ThreadCounters<'_>, Ticks)>,
    ) -> Option<(Head, Value)> {
        let offset = self.offset(sequence)?;
        let timed =
            steps.map(|it| TimedRead::begin(it, || self.is_resident(offset, self.usual_length)));
        self.prefetch(offset as usize, self.usual_length);
        let record = self.record_at(offset).ok().filter(|record| record.puts(sequence, key));
        let value = record.as_ref().and_then(|record| self.value_of(record, offset).ok());
        if let Some(timed) = timed {
            timed.end();
        }
        let record = record?;
        let head = Head {
            sequence,
            written_at_ms: record.written_at_ms,
            expires_at_ms: record.expires_at_ms,
            value_length: record.value_length() as u32,
            metadata: ledger::Head::new(record.head),
        };
        Some((head, value?))
    }

    /// The value of `record`, which is at `offset`.
    #[inline]
    pub(crate) fn value_of(&self, record: &Record<'_>, offset: u64) -> Result<Value> {
        if record.compression != Compression::None {
            return self.unpacked(record, offset);
        }
        let base = self.shared.map.pointer() as usize;
        let value_offset = record.value.as_ptr() as usize - base;
        Ok(self.shared.map.value(value_offset, record.value.len()))
    }

    /// True if this range of the file is in memory.
    pub(super) fn is_resident(&self, offset: u64, length: usize) -> bool {
        self.shared.map.is_resident(offset as usize, length)
    }

    /// True if the offset of the record with `sequence` is in memory.
    #[cold]
    pub(super) fn is_offset_resident(&self, sequence: u64) -> bool {
        let Offsets::Sealed { footer, runs } = &self.offsets else { return true };
        let Some(distance) = sequence.checked_sub(self.first_sequence) else { return true };
        let file = sealed_bytes(&self.shared, footer);
        if footer.has_pairs() {
            // A search looks at some twenty pairs on a few pages. Each question is a system call.
            let (mut pages, mut next) = ([u64::MAX; 8], 0);
            return footer.are_pairs_here(file, distance, |offset| {
                let page = offset / PAGE_BYTES as u64;
                if pages.contains(&page) {
                    return true;
                }
                pages[next % pages.len()] = page;
                next += 1;
                self.is_resident(offset, 1)
            });
        }
        let is_here = |line: Option<*const u8>| {
            let offset = line.map(|line| line.addr() - file.as_ptr().addr());
            offset.is_none_or(|offset| self.is_resident(offset as u64, 1))
        };
        is_here(footer.number_line(file, distance))
            && (runs.is_some() || is_here(footer.offset_line(file, distance)))
    }

    /// The length to read from the disk for a record at `offset` of a sealed segment that is
    /// expected to have `expected_length` bytes; `None` if it is in memory.
    pub(super) fn away_length(&self, offset: u64, expected_length: usize) -> Option<usize> {
        let footer = self.footer()?;
        let length = expected_length.min(footer.offset.saturating_sub(offset) as usize);
        (!self.is_resident(offset, length)).then_some(length)
    }

    /// Reads as [`Segment::read_at`] does, for a record that is not in memory: with one system call
    /// for all of its `length` bytes, so that a record across a page border costs one disk read,
    /// not two. Unless it `stays`, its pages are dropped from the page cache right after. `None` if
    /// the record has to be read through the map.
    pub(super) fn read_from_disk(
        &self,
        (sequence, offset): (u64, u64),
        key: &[u8],
        (length, stays): (usize, bool),
        files: (&dyn FileSystem, &DiskFileCount),
    ) -> Result<Option<Value>> {
        if length > READ_MAX {
            return Ok(None);
        }
        // The name of a collected segment's file may be gone, while the file is still mapped.
        let Ok(file) = self.shared.disk_file(files) else { return Ok(None) };
        let value = self.read_by_call(&*file, (sequence, offset), key, length);
        if !stays {
            file.drop_cached(offset, length);
        }
        value
    }

    /// Reads the record with this sequence number at this offset with one system call.
    pub(super) fn read_by_call(
        &self,
        file: &dyn File,
        (sequence, offset): (u64, u64),
        key: &[u8],
        length: usize,
    ) -> Result<Option<Value>> {
        let mut bytes = vec![0; length];
        let read = file.read_exact_at(&mut bytes, offset);
        read.map_err(|error| Error::io("read", &self.shared.path, error))?;
        // Anything unexpected is read again, and reported, through the map.
        let record = Record::decode(&bytes, self.shared.store_seed).ok();
        let record = record.filter(|record| record.puts(sequence, key));
        record.map(|record| self.unpacked(&record, offset)).transpose()
    }

    /// A copy of the value of `record`, which is at `offset`, decompressed if necessary.
    fn unpacked(&self, record: &Record<'_>, offset: u64) -> Result<Value> {
        let value = record.unpacked().map(Value::copied);
        value.map_err(|damage| Error::corruption(&self.shared.path, offset, damage.text()))
    }

    /// Prefetches all cache lines of a record at once; the checksum would wait for one after
    /// another.
    #[inline]
    pub(crate) fn prefetch(&self, offset: usize, length: usize) {
        let end = offset.saturating_add(length.min(PREFETCH_MAX)).min(self.shared.map.length());
        let pointer = self.shared.map.pointer();
        for line in (offset & !(CACHE_LINE_BYTES - 1)..end).step_by(CACHE_LINE_BYTES) {
            prefetch(pointer.wrapping_add(line));
        }
    }

    /// Reads and validates the record at `offset`, which must be published.
    #[inline]
    pub(crate) fn record_at(&self, offset: u64) -> Result<Record<'_>> {
        let (start, end) = (offset as usize, self.records_end());
        if start < FILE_HEADER_LENGTH || start + RECORD_LENGTH_MIN > end {
            self.check_offsets()?;
            let what = "the offset lies outside of the records";
            return Err(Error::corruption(&self.shared.path, offset, what));
        }
        // SAFETY: the header of the record lies within the map, and was written before its sequence
        // number was published. A record is never overwritten.
        let length = unsafe {
            let field = self.shared.map.pointer().add(start + 4);
            u32::from_le(field.cast::<u32>().read())
        };
        let length = (length as usize).clamp(RECORD_LENGTH_MIN, end - start);
        // SAFETY: the range is within the map, and the record does not change, as above. If its
        // length is damaged, the range may reach into bytes that are being written; then the
        // checksum fails.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.shared.map.pointer().add(start), length) };
        Record::decode(bytes, self.shared.store_seed).map_err(|damage| {
            let unreadable = self.shared.map.check(start..start + length, &self.shared.path).err();
            let damaged = || Error::corruption(&self.shared.path, offset, damage.text());
            unreadable.unwrap_or_else(damaged)
        })
    }

    /// Reads and validates the record at `offset`, which must have the sequence number `sequence`.
    pub(crate) fn record_with(&self, sequence: u64, offset: u64) -> Result<Record<'_>> {
        let record = self.record_at(offset)?;
        if record.sequence != sequence {
            let what = format!("expected sequence {sequence}, found {}", record.sequence);
            return Err(Error::corruption(&self.shared.path, offset, what));
        }
        Ok(record)
    }

    /// Reads and validates the record with `sequence` at `offset` of a sealed segment; also returns
    /// its bytes with the padding.
    pub(crate) fn record_and_bytes(
        &self,
        sequence: u64,
        offset: u64,
    ) -> Result<(Record<'_>, &[u8])> {
        let record = self.record_with(sequence, offset)?;
        let length = record.padded_length() as usize;
        let end = offset as usize + length;
        if end > FILE_HEADER_LENGTH + self.record_bytes() as usize {
            let what = "the padding reaches into the footer";
            return Err(Error::corruption(&self.shared.path, offset, what));
        }
        // SAFETY: the range was just checked to lie within the records of a sealed segment, which
        // never change, and its map lives as long as the segment.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.shared.map.pointer().add(offset as usize), length)
        };
        Ok((record, bytes))
    }

    /// The facts of the segment for the manifest.
    pub(crate) fn facts(&self) -> SegmentMetadata {
        SegmentMetadata {
            number: self.shared.number,
            first_sequence: self.first_sequence,
            last_sequence: self.footer().map_or(0, |footer| footer.last_sequence),
            size_bytes: self
                .footer()
                .map_or(self.shared.map.length() as u64, |footer| footer.offset + footer.length()),
            dead_bytes: self.shared.dead_bytes.load(Ordering::Relaxed),
            marker_bytes: self.shared.marker_bytes.load(Ordering::Relaxed),
        }
    }
}
