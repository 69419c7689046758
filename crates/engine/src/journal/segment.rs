//! A segment: a file of records, mapped, and where each record begins.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use pellucid_io::{File, FileSystem};
use pellucid_thread::Mutex;

use super::footer::Footer;
use super::gone::{Gone, GoneCount};
use super::link::DroppedBytes;
use super::record::{RECORD_LENGTH_MIN, Record, RecordKind};
use super::runs::Runs;
use crate::codec::{FILE_HEADER_LENGTH, keys_equal};
use crate::compression::Compression;
use crate::engine::lock;
use crate::error::{Error, Result};
use crate::header_form::{HeaderForm, LONG_MORE};
use crate::ledger::{CACHE_LINE_BYTES, Dropped, SegmentFacts, prefetch};
use crate::mapped::Mapped;
use crate::object::Value;
use crate::read_mode::ReadMode;

/// Where the journal's segments lie within the store's folder.
pub(crate) const JOURNAL_FOLDER: &str = "journal";
const SUFFIX: &str = ".journal";
/// The most that is asked for ahead of a read, in bytes; the processor follows longer runs itself.
const PREFETCH_MAX: usize = 1024;
/// How long a record is expected to be while its segment is being written, in bytes.
const USUAL_LENGTH: usize = 256;
/// Records up to this length, in bytes, are read by one call when they are not in memory.
const READ_MAX: usize = 128 << 10;

/// The path of segment `number` of the store in `directory`.
pub(crate) fn segment_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(JOURNAL_FOLDER).join(format!("{number:016x}{SUFFIX}"))
}

/// The number that a file name in the journal's folder stands for.
pub(crate) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// The open file of a segment for as long as something is left to sync. Reading goes through the
/// map, so that a store of many segments holds few descriptors.
pub(crate) struct HeldFile(Mutex<Option<Arc<dyn File>>>);

impl HeldFile {
    /// The file of a segment that is not on the medium yet.
    pub(crate) fn open(file: Arc<dyn File>) -> HeldFile {
        HeldFile(Mutex::new(Some(file)))
    }

    /// That of a segment that is.
    pub(crate) fn closed() -> HeldFile {
        HeldFile(Mutex::new(None))
    }

    /// Closes the file, all of which was synced.
    pub(crate) fn close(&self) {
        *lock(&self.0) = None;
    }

    /// Makes what was written durable; a file that was closed is so already.
    pub(crate) fn sync(&self) -> io::Result<()> {
        // Not under the lock: a sync takes long.
        let file = lock(&self.0).clone();
        file.map_or(Ok(()), |file| file.sync())
    }

    /// Cuts or extends the file.
    ///
    /// # Panics
    /// If it was closed: nobody changes a segment that is sealed.
    pub(crate) fn set_length(&self, length: u64) -> io::Result<()> {
        let file = lock(&self.0).clone();
        file.expect("a segment is cut before it is closed").set_length(length)
    }
}

/// Files that are held open because records are read from the disk; beyond, each read opens its
/// file.
const DISK_FILES_MAX: usize = 64;

/// The files that are held open for reads from the disk, counted.
pub(crate) type DiskFiles = Arc<AtomicUsize>;

/// A file that is held open for reads from the disk, as long as its segment is there.
pub(crate) struct DiskFile {
    file: Arc<dyn File>,
    count: DiskFiles,
}

impl Drop for DiskFile {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What outlives the change from growing to sealed.
pub(crate) struct SegmentFile {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    pub(crate) file: HeldFile,
    /// The file, once records were read from the disk.
    pub(crate) disk_file: OnceLock<DiskFile>,
    pub(crate) map: Mapped,
    /// The seed of the records' checksums.
    pub(crate) store_seed: u32,
    /// Whether all records have long headers: those of a segment of format version 1.
    pub(crate) has_long_headers: bool,
    /// Record bytes that no key needs any more.
    pub(crate) dead_bytes: AtomicU64,
    /// Record bytes of markers that the ledger names no more ([`SegmentFacts::marker_bytes`]).
    pub(crate) marker_bytes: AtomicU64,
    /// Whether no more records come and all of them are on the medium.
    pub(crate) is_synced: AtomicBool,
    /// What is known to be needed by nobody.
    pub(crate) gone: Gone,
    /// Whether large pages were asked for.
    pub(crate) is_large: AtomicBool,
}

/// A segment, as readers see it.
pub(crate) struct Segment {
    pub(crate) shared: Arc<SegmentFile>,
    /// The sequence number of the first record.
    pub(crate) first_sequence: u64,
    /// About how long its records are, in bytes.
    usual_length: usize,
    places: Places,
}

enum Places {
    /// The segment is being written: places in memory, zero where there is no record yet.
    Growing(Box<[AtomicU32]>),
    /// The segment is sealed: places in its footer.
    Sealed { footer: Footer, runs: Option<Runs> },
}

/// An array of zeros whose pages come with their first use.
fn zeroed_places(count: usize) -> Box<[AtomicU32]> {
    let zeros: Box<[u32]> = vec![0; count].into_boxed_slice();
    let pointer = Box::into_raw(zeros);
    // SAFETY: AtomicU32 has the size, alignment and bit validity of u32, and the box is the only
    // owner of the memory.
    unsafe { Box::from_raw(pointer as *mut [AtomicU32]) }
}

/// The bytes of a sealed segment: nobody writes to them.
fn sealed_bytes<'a>(shared: &'a SegmentFile, footer: &Footer) -> &'a [u8] {
    let length = footer.offset + footer.length();
    // SAFETY: the footer was checked to lie within the file and the map, and a sealed segment is
    // not written to.
    unsafe { std::slice::from_raw_parts(shared.map.pointer(), length as usize) }
}

impl SegmentFile {
    /// Bytes that the record of a dropped entry takes here.
    pub(super) fn bytes_of(&self, dropped: &Dropped) -> u64 {
        let is_longer = self.has_long_headers && dropped.form == HeaderForm::Short;
        dropped.record_bytes + if is_longer { LONG_MORE } else { 0 }
    }

    /// The file, for reads from the disk.
    fn disk_file(&self, files: &dyn FileSystem, count: &DiskFiles) -> io::Result<Arc<dyn File>> {
        if let Some(held) = self.disk_file.get() {
            return Ok(Arc::clone(&held.file));
        }
        let file = files.open(&self.path, false)?;
        // Counted by this value, kept or not.
        let before = count.fetch_add(1, Ordering::Relaxed);
        let held = DiskFile { file: Arc::clone(&file), count: Arc::clone(count) };
        if before < DISK_FILES_MAX {
            let _ = self.disk_file.set(held);
        }
        Ok(file)
    }
}

impl Segment {
    /// A segment that is being written, with space for `places` records.
    pub(crate) fn growing(shared: Arc<SegmentFile>, first_sequence: u64, places: usize) -> Segment {
        let places = Places::Growing(zeroed_places(places));
        Segment { shared, first_sequence, usual_length: USUAL_LENGTH, places }
    }

    /// A sealed segment, whose footer was checked.
    pub(crate) fn sealed(shared: Arc<SegmentFile>, first_sequence: u64, footer: Footer) -> Segment {
        let bytes = sealed_bytes(&shared, &footer);
        let runs = footer.runs(bytes);
        let usual_length = (footer.offset as usize).div_ceil(footer.count.max(1) as usize);
        Segment { shared, first_sequence, usual_length, places: Places::Sealed { footer, runs } }
    }

    /// About how long its records are, in bytes.
    #[inline]
    pub(super) fn usual_length(&self) -> usize {
        self.usual_length
    }

    /// The footer, if the segment is sealed.
    pub(crate) fn footer(&self) -> Option<&Footer> {
        match &self.places {
            Places::Growing(_) => None,
            Places::Sealed { footer, .. } => Some(footer),
        }
    }

    /// How many records a growing segment has places for.
    pub(crate) fn places_capacity(&self) -> usize {
        match &self.places {
            Places::Growing(places) => places.len(),
            Places::Sealed { .. } => 0,
        }
    }

    /// Notes the place of a record of a growing segment. Readers learn of it by the sequence number
    /// being published later.
    #[inline]
    pub(crate) fn set_place(&self, sequence: u64, offset: u64) {
        match &self.places {
            Places::Growing(places) => {
                let index = (sequence - self.first_sequence) as usize;
                places[index].store((offset / 8) as u32, Ordering::Release);
            }
            Places::Sealed { .. } => unreachable!("a sealed segment takes no records"),
        }
    }

    /// The offset of the record with `sequence`, if the segment has it.
    #[inline]
    pub(crate) fn place(&self, sequence: u64) -> Option<u64> {
        let index = sequence.checked_sub(self.first_sequence)?;
        match &self.places {
            Places::Growing(places) => {
                let place = places.get(index as usize)?.load(Ordering::Acquire);
                (place != 0).then_some(u64::from(place) * 8)
            }
            Places::Sealed { footer, runs: Some(runs) } => {
                let number = footer.number_of(sealed_bytes(&self.shared, footer), index)?;
                Some(runs.place(number) * 8)
            }
            Places::Sealed { footer, runs: None } => {
                footer.place(sealed_bytes(&self.shared, footer), index)
            }
        }
    }

    /// Whether the segment has a record with `sequence`. Only where records were collected, that
    /// takes more than a look at the ends.
    #[inline]
    pub(crate) fn has(&self, sequence: u64) -> bool {
        let Some(distance) = sequence.checked_sub(self.first_sequence) else { return false };
        match &self.places {
            Places::Growing(_) => self.place(sequence).is_some(),
            Places::Sealed { footer, .. } if !footer.has_pairs() => {
                footer.number_of(sealed_bytes(&self.shared, footer), distance).is_some()
            }
            Places::Sealed { .. } => self.place(sequence).is_some(),
        }
    }

    /// Asks the processor for the line in which the place of `sequence` is.
    #[inline]
    pub(crate) fn prefetch_place(&self, sequence: u64) {
        let Some(distance) = sequence.checked_sub(self.first_sequence) else { return };
        match &self.places {
            Places::Growing(places) => {
                let place = places.get(distance as usize).map(std::ptr::from_ref);
                place.into_iter().for_each(|place| prefetch(place.cast()));
            }
            Places::Sealed { footer, runs: Some(_) } => {
                let at = footer.number_line(sealed_bytes(&self.shared, footer), distance);
                at.into_iter().for_each(prefetch);
            }
            Places::Sealed { footer, runs: None } => {
                let at = footer.place_line(sealed_bytes(&self.shared, footer), distance);
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

    /// Bytes of the records of a sealed segment.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.footer().map_or(0, |footer| footer.offset - FILE_HEADER_LENGTH as u64)
    }

    /// No marker up to it has anything older to hide in this segment.
    pub(crate) fn clean_sequence(&self) -> u64 {
        self.footer().and_then(Footer::clean_sequence).unwrap_or(0)
    }

    /// Whether the segment was collected, so that batches in it may have lost their ends.
    pub(crate) fn is_collected(&self) -> bool {
        self.footer().is_some_and(|footer| footer.clean_sequence().is_some())
    }

    /// Notes that nobody needs the record of `dropped`, if that is so whatever the record says: a
    /// marker may have older values to hide, and so may one that can expire. Only where the number
    /// of a record follows from its sequence number.
    pub(super) fn note_gone(&self, dropped: &Dropped, count: &GoneCount) {
        if dropped.is_marker || dropped.form != HeaderForm::Short {
            return;
        }
        let records = match &self.places {
            Places::Growing(places) => places.len(),
            Places::Sealed { footer, .. } if footer.is_dense() => footer.count as usize,
            Places::Sealed { .. } => return,
        };
        if let Some(number) = dropped.sequence.checked_sub(self.first_sequence)
            && number < records as u64
        {
            self.shared.gone.note(number, records, count);
        }
    }

    /// Whether the record with `sequence` is known to be needed by nobody.
    #[inline]
    pub(crate) fn is_gone(&self, sequence: u64) -> bool {
        self.shared.gone.holds(sequence - self.first_sequence)
    }

    /// Counts records whose entries were dropped.
    pub(super) fn count_dropped(&self, dropped: DroppedBytes) {
        let DroppedBytes { dead_bytes, marker_bytes } = dropped;
        for (counter, bytes) in
            [(&self.shared.dead_bytes, dead_bytes), (&self.shared.marker_bytes, marker_bytes)]
        {
            if bytes > 0 {
                counter.fetch_add(bytes, Ordering::Relaxed);
            }
        }
    }

    /// All bytes of the file of a sealed segment, none of one that grows.
    pub(crate) fn sealed_file(&self) -> &[u8] {
        self.footer().map_or(&[], |footer| sealed_bytes(&self.shared, footer))
    }

    /// The end of the records, as far as readers may look.
    #[inline]
    fn records_end(&self) -> usize {
        match &self.places {
            Places::Growing(_) => self.shared.map.length(),
            Places::Sealed { footer, .. } => footer.offset as usize,
        }
    }

    /// Reads the record with `sequence`, if the segment has it, and checks that it is that of
    /// `key`.
    #[inline]
    pub(crate) fn read(
        &self,
        sequence: u64,
        key: &[u8],
        expected_length: usize,
    ) -> Result<Option<Value>> {
        let Some(offset) = self.place(sequence) else {
            // Zeros say that there is none.
            return self.check_places().map(|()| None);
        };
        self.prefetch(offset as usize, expected_length);
        self.read_at(offset, sequence, key).map(Some)
    }

    /// An error if a page with places of a sealed segment cannot be read: to be asked behind a
    /// look for one.
    pub(crate) fn check_places(&self) -> Result<()> {
        let Some(footer) = self.footer() else { return Ok(()) };
        let end = footer.offset + footer.length();
        self.shared.map.check(footer.offset as usize..end as usize, &self.shared.path)
    }

    /// An error if a page of a segment that grows was lost: what was written there is nowhere.
    #[inline]
    pub(super) fn check_written(&self) -> Result<()> {
        self.shared.map.check(0..self.shared.map.length(), &self.shared.path)
    }

    /// Reads the record at `offset`, and checks that it is that of `key` with `sequence`.
    #[inline]
    pub(crate) fn read_at(&self, offset: u64, sequence: u64, key: &[u8]) -> Result<Value> {
        let record = self.record_at(offset)?;
        if record.sequence != sequence
            || !keys_equal(record.key, key)
            || record.kind != RecordKind::Put
        {
            self.check_places()?;
            let what = format!(
                "expected sequence {sequence} with the key looked up, found sequence {} ({:?})",
                record.sequence, record.kind
            );
            return Err(Error::corruption(&self.shared.path, offset, what));
        }
        self.value_of(&record, offset)
    }

    /// The value of `record`, which lies at `offset`.
    #[inline]
    pub(super) fn value_of(&self, record: &Record<'_>, offset: u64) -> Result<Value> {
        if record.compression != Compression::None {
            return self.unpacked(record, offset);
        }
        let base = self.shared.map.pointer() as usize;
        let value_offset = record.value.as_ptr() as usize - base;
        Ok(self.shared.map.value(value_offset, record.value.len()))
    }

    /// As [`Segment::read`], for a record that is not in memory: by one call that reads all of it,
    /// so that a record that reaches over the border of two pages costs one disk read and not two.
    /// Unless `stays`, its pages are given up right after. `None` if the map is to be asked.
    pub(crate) fn read_from_disk(
        &self,
        sequence: u64,
        key: &[u8],
        expected_length: usize,
        (files, count, stays): (&dyn FileSystem, &DiskFiles, bool),
        mode: ReadMode,
    ) -> Result<Option<Value>> {
        let (Some(footer), Some(offset)) = (self.footer(), self.place(sequence)) else {
            return Ok(None);
        };
        let more = if self.shared.has_long_headers { LONG_MORE as usize } else { 0 };
        let length = expected_length + more;
        let length = length.min(footer.offset.saturating_sub(offset) as usize);
        let is_resident = self.shared.map.is_resident(offset as usize, length);
        if !is_resident && mode == ReadMode::InMemory {
            return Err(Error::NotInMemory);
        }
        if length > READ_MAX || is_resident {
            return Ok(None);
        }
        // One that was collected may be gone by its name, and is still mapped.
        let Ok(file) = self.shared.disk_file(files, count) else { return Ok(None) };
        let value = self.read_by_call(&*file, (sequence, offset), key, length);
        if !stays {
            file.drop_cached(offset, length);
        }
        value
    }

    /// Reads the record with this sequence number at this offset by one call.
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
        // Whatever is unexpected is looked at, and reported, through the map.
        let record = Record::decode(&bytes, self.shared.store_seed).ok().filter(|record| {
            record.sequence == sequence && record.key == key && record.kind == RecordKind::Put
        });
        record.map(|record| self.unpacked(&record, offset)).transpose()
    }

    /// A copy of the value of `record`, which lies at `offset`.
    fn unpacked(&self, record: &Record<'_>, offset: u64) -> Result<Value> {
        let value = record.unpacked().map(Value::copied);
        value.map_err(|damage| Error::corruption(&self.shared.path, offset, damage.text()))
    }

    /// Asks the processor for all lines of a record at once: the checksum would wait for them one
    /// after another.
    #[inline]
    pub(crate) fn prefetch(&self, offset: usize, length: usize) {
        let end = offset.saturating_add(length.min(PREFETCH_MAX)).min(self.shared.map.length());
        let pointer = self.shared.map.pointer();
        for line in (offset & !(CACHE_LINE_BYTES - 1)..end).step_by(CACHE_LINE_BYTES) {
            prefetch(pointer.wrapping_add(line));
        }
    }

    /// Reads and checks the record at `offset`, which must be published.
    #[inline]
    pub(crate) fn record_at(&self, offset: u64) -> Result<Record<'_>> {
        let (start, end) = (offset as usize, self.records_end());
        if start < FILE_HEADER_LENGTH || start + RECORD_LENGTH_MIN > end {
            self.check_places()?;
            let what = "the place lies outside of the records";
            return Err(Error::corruption(&self.shared.path, offset, what));
        }
        // SAFETY: the header of the record lies within the map and was written before its sequence
        // number was published; a place is never written twice.
        let length = unsafe {
            let field = self.shared.map.pointer().add(start + 4);
            u32::from_le(field.cast::<u32>().read())
        };
        let length = (length as usize).clamp(RECORD_LENGTH_MIN, end - start);
        // SAFETY: the range is within the map, and the record is settled, as above. Should its
        // length be damaged, the range may reach into bytes that are being written; then the
        // checksum fails.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.shared.map.pointer().add(start), length) };
        Record::decode(bytes, self.shared.store_seed).map_err(|damage| {
            let unreadable = self.shared.map.check(start..start + length, &self.shared.path).err();
            let damaged = || Error::corruption(&self.shared.path, offset, damage.text());
            unreadable.unwrap_or_else(damaged)
        })
    }

    /// What the manifest shall hold of the segment.
    pub(crate) fn facts(&self) -> SegmentFacts {
        SegmentFacts {
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
