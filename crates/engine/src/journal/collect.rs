//! Collection, the journal's side: which segments are worth it, the file that what is left of them
//! goes to, and the moment at which it takes their place.
//!
//! Records keep their sequence numbers and their bytes, so nothing that names them changes. What
//! may go is for the engine to say (`crate::collect`).

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pellucid_io::{File, MapMode};

use super::footer::{decode_footer, encode_collected_footer};
use super::gone::Gone;
use super::link::{Books, DroppedBytes, Watched};
use super::record::Record;
use super::segment::{HeldFile, JOURNAL_FOLDER, Segment, SegmentFile, segment_path};
use super::{Journal, lock};
use crate::codec::{FILE_HEADER_LENGTH, FileHeader, FileKind};
use crate::error::{Error, Result};
use crate::header_form::RECORD_ALIGNMENT;
use crate::ledger::SegmentFacts;

/// Segments that are collected into one at most.
const RUN_SEGMENTS_MAX: usize = 256;
/// Records are written to the new file in pieces of this size, in bytes, each at a multiple of it:
/// the page cache then takes them in large pages, and a GET does not wait for page tables.
const WRITE_LENGTH: usize = 2 << 20;

/// Neighbouring segments that one new segment will stand for.
pub(crate) struct Run {
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The first sequence number of the first one.
    pub(crate) first_sequence: u64,
    /// The last sequence number of the last one.
    pub(crate) last_sequence: u64,
}

/// How far collection may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Only segments up to it are collected: every record up to it is in tables and on the medium.
    pub(crate) flushed_sequence: u64,
    /// Markers above it are not let go.
    pub(crate) marker_sequence: u64,
    /// The share of dead bytes from which on a segment is worth it.
    pub(crate) dead_share: f64,
}

/// What is known of a segment that might be collected.
struct Candidate {
    index: usize,
    record_bytes: u64,
    /// Bytes that collection would free.
    free_bytes: u64,
    records: u64,
    first_sequence: u64,
    last_sequence: u64,
}

impl Candidate {
    /// Records that will be left, if all are of one size.
    fn live_records(&self) -> u64 {
        (self.records as f64 * (1.0 - self.share())) as u64
    }

    fn live_bytes(&self) -> u64 {
        self.record_bytes - self.free_bytes
    }

    fn share(&self) -> f64 {
        self.free_bytes as f64 / self.record_bytes.max(1) as f64
    }
}

/// Sums over all collections since the store was opened.
#[derive(Default)]
pub(crate) struct CollectionCounters {
    pub(crate) segments: AtomicU64,
    pub(crate) copied_bytes: AtomicU64,
    pub(crate) freed_bytes: AtomicU64,
}

impl Journal {
    /// The facts of all segments as they are now.
    pub(crate) fn facts(&self) -> Vec<SegmentFacts> {
        self.segments().segments.iter().map(|segment| segment.facts()).collect()
    }

    /// Bytes of the segments' records that no key needs any more, and of all their files.
    pub(crate) fn dead_and_all_bytes(&self) -> (u64, u64) {
        let facts = self.facts();
        let dead_bytes = facts.iter().map(|facts| facts.dead_bytes + facts.marker_bytes);
        (dead_bytes.sum(), facts.iter().map(|facts| facts.size_bytes).sum())
    }

    /// The run that frees the largest share, if there is one that is worth it. Whoever gets it must
    /// have it installed or abandoned before the next one.
    pub(crate) fn pick_run(&self, limits: &Limits) -> Option<Run> {
        let list = self.segments();
        let mut books = lock(&self.books);
        let candidates = self.candidates(&list.segments, &books, limits);
        let worth = |candidate: &&Candidate| {
            candidate.free_bytes > 0 && candidate.share() >= limits.dead_share
        };
        let (seed, _) = candidates
            .iter()
            .enumerate()
            .filter(|(_, candidate)| worth(candidate))
            .max_by(|a, b| a.1.share().total_cmp(&b.1.share()))?;
        let range = self.extend(&candidates, seed, limits);
        let segments: Vec<_> = candidates[range]
            .iter()
            .map(|candidate| Arc::clone(&list.segments[candidate.index]))
            .collect();
        let first_sequence = segments.first()?.first_sequence;
        let last_sequence = segments.last()?.footer()?.last_sequence;
        books.watched = Some(Watched::new(first_sequence, last_sequence));
        Some(Run { segments, first_sequence, last_sequence })
    }

    fn candidates(
        &self,
        segments: &[Arc<Segment>],
        books: &Books,
        limits: &Limits,
    ) -> Vec<Candidate> {
        let mut marker_sequence = limits.marker_sequence;
        let mut candidates = Vec::new();
        for (index, segment) in segments.iter().enumerate() {
            let Some(footer) = segment.footer() else { break };
            if footer.last_sequence > limits.flushed_sequence {
                break;
            }
            let (facts, record_bytes) = (segment.facts(), segment.record_bytes());
            let can_drop_markers = footer.last_sequence <= marker_sequence;
            let markers = if can_drop_markers { facts.marker_bytes } else { 0 };
            let free_bytes = (facts.dead_bytes + markers).min(record_bytes);
            if facts.dead_bytes > 0 {
                marker_sequence = marker_sequence.min(segment.clean_sequence());
            }
            if !books.damaged.contains(&segment.shared.number) {
                candidates.push(Candidate {
                    index,
                    record_bytes,
                    free_bytes,
                    records: u64::from(footer.count),
                    first_sequence: segment.first_sequence,
                    last_sequence: footer.last_sequence,
                });
            }
        }
        candidates
    }

    /// Takes in neighbours of the candidate at `seed`: those that are worth it themselves, and
    /// small ones, as long as what is left of all fits into one segment.
    fn extend(
        &self,
        candidates: &[Candidate],
        seed: usize,
        limits: &Limits,
    ) -> std::ops::Range<usize> {
        let (mut low, mut high) = (seed, seed + 1);
        let mut live_bytes = candidates[seed].live_bytes();
        let mut live_records = candidates[seed].live_records();
        loop {
            let (first, last) = (&candidates[low], &candidates[high - 1]);
            let fits = |neighbour: &Candidate, beside: &Candidate| {
                let first_sequence = first.first_sequence.min(neighbour.first_sequence);
                let last_sequence = last.last_sequence.max(neighbour.last_sequence);
                let is_small = neighbour.live_bytes() <= live_bytes
                    && neighbour.record_bytes <= self.segment_size_bytes / 2;
                neighbour.index.abs_diff(beside.index) == 1
                    && live_bytes + neighbour.live_bytes() <= self.segment_size_bytes
                    && live_records + neighbour.live_records() <= self.segment_records_max
                    && Watched::reaches(first_sequence, last_sequence)
                    && (neighbour.share() >= limits.dead_share || is_small)
            };
            if high - low >= RUN_SEGMENTS_MAX {
                return low..high;
            }
            if let Some(next) = candidates.get(high)
                && fits(next, &candidates[high - 1])
            {
                live_bytes += next.live_bytes();
                live_records += next.live_records();
                high += 1;
            } else if let Some(previous) = low.checked_sub(1)
                && fits(&candidates[previous], &candidates[low])
            {
                live_bytes += candidates[previous].live_bytes();
                live_records += candidates[previous].live_records();
                low = previous;
            } else {
                return low..high;
            }
        }
    }

    /// Markers up to it have nothing older to hide below `first_sequence`: each segment there holds
    /// no dead record, or was collected after them.
    pub(crate) fn markers_clean_below(&self, first_sequence: u64) -> u64 {
        let segments = self.segments();
        let below = segments.segments.iter().take_while(|s| s.first_sequence < first_sequence);
        below
            .filter(|segment| segment.shared.dead_bytes.load(Ordering::Relaxed) > 0)
            .map(|segment| segment.clean_sequence())
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Ends a collection that came to nothing.
    pub(crate) fn abandon(&self, run: &Run, error: &Error) {
        let mut books = lock(&self.books);
        books.watched = None;
        if let Error::Corruption { path, .. } = error {
            // Damage is reported where it is read; collecting it again and again would not cure it.
            let damaged = run.segments.iter().filter(|segment| segment.shared.path == *path);
            books.damaged.extend(damaged.map(|segment| segment.shared.number));
        }
    }

    /// Lets `collected` take the place of `run`. The files of the run go with the next manifest.
    /// `markers` are records kept that the ledger names no more: sequence number and bytes.
    pub(crate) fn install(&self, run: &Run, collected: Arc<Segment>, markers: &[(u64, u64)]) {
        let mut books = lock(&self.books);
        let watched = books.watched.take().expect("a run is watched from its picking on");
        let (mut marker_bytes, mut markers) = (0, markers.iter().peekable());
        // Both ascend: markers that were dropped meanwhile are counted as such.
        let mut lost = DroppedBytes::default();
        for dropped in watched.into_sorted() {
            lost.add(&dropped, &collected);
            while let Some((_, bytes)) = markers.next_if(|(at, _)| *at < dropped.sequence) {
                marker_bytes += bytes;
            }
            markers.next_if(|(at, _)| *at == dropped.sequence);
        }
        marker_bytes += markers.map(|(_, bytes)| *bytes).sum::<u64>();
        lost.marker_bytes += marker_bytes;
        collected.count_dropped(lost);
        let old_bytes: u64 = run.segments.iter().map(|segment| segment.facts().size_bytes).sum();
        let new_bytes = collected.facts().size_bytes;
        let numbers: HashSet<u64> =
            run.segments.iter().map(|segment| segment.shared.number).collect();
        self.change_segments(|segments| {
            let at = segments.iter().position(|s| numbers.contains(&s.shared.number));
            let at = at.expect("only collection takes sealed segments away");
            segments.retain(|segment| !numbers.contains(&segment.shared.number));
            segments.insert(at, Arc::clone(&collected));
        });
        for segment in &run.segments {
            books.retire(segment.shared.path.clone());
        }
        let counters = &self.collection;
        counters.segments.fetch_add(run.segments.len() as u64, Ordering::Relaxed);
        counters.copied_bytes.fetch_add(new_bytes, Ordering::Relaxed);
        counters.freed_bytes.fetch_add(old_bytes.saturating_sub(new_bytes), Ordering::Relaxed);
    }
}

/// Writes a collected segment. Dropped before it is finished, it leaves nothing behind.
pub(crate) struct CollectedWriter<'a> {
    journal: &'a Journal,
    number: u64,
    path: PathBuf,
    new_path: PathBuf,
    file: Arc<dyn File>,
    first_sequence: u64,
    /// Records that are not yet written.
    buffer: Vec<u8>,
    /// Where the buffer goes.
    offset: u64,
    pairs: Vec<(u32, u32)>,
    is_finished: bool,
}

impl<'a> CollectedWriter<'a> {
    /// Begins the segment that will stand for `run`.
    pub(crate) fn create(journal: &'a Journal, run: &Run) -> Result<CollectedWriter<'a>> {
        let number = journal.next_number.fetch_add(1, Ordering::Relaxed);
        let path = segment_path(&journal.directory, number);
        let new_path = path.with_extension("journal.new");
        let file = journal.file_system.create(&new_path);
        let file = file.map_err(|error| Error::io("create", &new_path, error))?;
        let header = FileHeader {
            first_sequence: run.first_sequence,
            ..FileHeader::new(FileKind::Journal, journal.store_identity, number)
        };
        Ok(CollectedWriter {
            journal,
            number,
            path,
            new_path,
            file,
            first_sequence: run.first_sequence,
            buffer: header.encode().to_vec(),
            offset: 0,
            pairs: Vec::new(),
            is_finished: false,
        })
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::io("write", &self.new_path, error)
    }

    fn end(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    /// Adds a record, byte by byte as it was if that is how it would be written now. Comes back
    /// with how many bytes were added.
    pub(crate) fn add(&mut self, record: &Record<'_>, bytes: &[u8]) -> Result<u64> {
        let renewed = record.renewed();
        if renewed.form == record.form {
            return self.add_bytes(record.sequence, bytes);
        }
        self.add_bytes(record.sequence, &renewed.laid_down(self.journal.store_seed))
    }

    fn add_bytes(&mut self, sequence: u64, bytes: &[u8]) -> Result<u64> {
        let distance = u32::try_from(sequence - self.first_sequence);
        let place = u32::try_from(self.end() / RECORD_ALIGNMENT);
        let (Ok(distance), Ok(place)) = (distance, place) else {
            let error = std::io::Error::other("the segments span too much to become one");
            return Err(self.failed(error));
        };
        self.pairs.push((distance, place));
        self.buffer.extend_from_slice(bytes);
        while self.buffer.len() >= WRITE_LENGTH {
            self.write_out(WRITE_LENGTH)?;
        }
        Ok(bytes.len() as u64)
    }

    /// Writes the first `length` bytes of the buffer.
    fn write_out(&mut self, length: usize) -> Result<()> {
        let written = self.file.write_all_at(&self.buffer[..length], self.offset);
        written.map_err(|error| self.failed(error))?;
        self.offset += length as u64;
        self.buffer.drain(..length);
        Ok(())
    }

    /// Makes the segment durable under its name, and opens it.
    pub(crate) fn finish(mut self, run: &Run, clean_sequence: u64) -> Result<Arc<Segment>> {
        let (identity, end) = (self.journal.store_identity, self.end());
        let sequences = (run.last_sequence, clean_sequence);
        let footer = encode_collected_footer(
            identity,
            self.number,
            self.first_sequence,
            sequences,
            end,
            &self.pairs,
        );
        self.buffer.extend_from_slice(&footer);
        self.write_out(self.buffer.len())?;
        let files = &self.journal.file_system;
        let folder = self.journal.directory.join(JOURNAL_FOLDER);
        let settle = || {
            self.file.sync()?;
            files.rename(&self.new_path, &self.path)?;
            files.sync_directory(&folder)?;
            self.file.map(self.offset, MapMode::ReadRandom)
        };
        let map = settle().map_err(|error| Error::io("write", &self.path, error))?;
        let footer = decode_footer(map.bytes(), identity, self.number, self.first_sequence)
            .map_err(|_| Error::corruption(&self.path, end, "the footer reads back wrong"))?;
        self.is_finished = true;
        let shared = SegmentFile {
            number: self.number,
            path: self.path.clone(),
            file: HeldFile::closed(),
            disk_file: OnceLock::new(),
            gone: Gone::default(),
            map: map.into(),
            store_seed: self.journal.store_seed,
            has_long_headers: false,
            dead_bytes: AtomicU64::new(0),
            marker_bytes: AtomicU64::new(0),
            is_synced: AtomicBool::new(true),
            is_large: AtomicBool::new(false),
        };
        Ok(Arc::new(Segment::sealed(Arc::new(shared), self.first_sequence, footer)))
    }
}

impl Drop for CollectedWriter<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // Whatever cannot be removed now is removed by the next opening.
            for path in [&self.new_path, &self.path] {
                if self.journal.file_system.exists(path) {
                    let _ = self.journal.file_system.remove(path);
                }
            }
        }
    }
}

impl Segment {
    /// The record at `offset` of a sealed segment, checked, and its bytes with the padding.
    pub(crate) fn checked_bytes(&self, offset: u64) -> Result<(Record<'_>, &[u8])> {
        let record = self.record_at(offset)?;
        let length = record.padded_length() as usize;
        let end = offset as usize + length;
        if end > FILE_HEADER_LENGTH + self.record_bytes() as usize {
            let what = "the padding reaches into the footer";
            return Err(Error::corruption(&self.shared.path, offset, what));
        }
        // SAFETY: the range was just checked to lie within the records of a sealed segment, which
        // nobody writes to, and its map lives as long as the segment.
        let bytes = unsafe {
            std::slice::from_raw_parts(self.shared.map.pointer().add(offset as usize), length)
        };
        Ok((record, bytes))
    }
}
