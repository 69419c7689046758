//! Salvage: builds a new store of everything that is intact in a damaged one.
//!
//! Every segment is read record by record. After damage, every multiple of 8 bytes is tried as the
//! start of the next record; its checksum confirms that it is a record, and of this store. The
//! records found are written into new segments under their own sequence numbers, and a ledger is
//! built from them. The damaged store is not changed.
//!
//! If the newest record of a key is lost, an older record of it may show again, even if the key was
//! deleted: [`LostRange`] gives the sequence numbers that are affected.

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pellucid_io::{CopyingFileSystem, File, FileSystem, MapMode};

use crate::backup::{claim, finish};
use crate::codec::{FILE_HEADER_LENGTH, FileHeader, FileKind, checksum_seed};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::folder::take_lock_to_read;
use crate::journal::{
    JOURNAL_FOLDER, NoFooter, SegmentFiles, SegmentRange, SegmentRewriter, SegmentRun,
    SegmentSummary, Span, current_segments, decode_footer, is_intact, is_unused, list_segments,
    segment_path, verify_segment, walk_records,
};
use crate::ledger::{Manifest, SegmentMetadata};
use crate::manifest::manifest_path;
use crate::mapped_file::{map_file, unreadable_parts};
use crate::options::EngineOptions;
use crate::rebuild::journal_identity;

/// The most losses that a report lists. [`SalvageReport::lost_left_off`] counts the rest.
const LOST_MAX: usize = 10_000;

/// The descriptions of lost parts.
const DAMAGED: &str = "there is no intact record";
const UNREADABLE: &str = "it cannot be read from the medium";
const UNFINISHED: &str = "the end of the batch is missing";
const NOWHERE: &str = "no segment holds these sequence numbers";

/// A part of the journal that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// The file; or the folder of the journal, if the file is not known.
    pub path: PathBuf,
    /// The offset of the part in the file, in bytes.
    pub offset: u64,
    /// The length of the part in bytes; 0 if the file shows no trace of it.
    pub length: u64,
    /// The lowest sequence number that may have been in it; 0 if unknown.
    pub first_sequence: u64,
    /// The highest sequence number that may have been in it; 0 if unknown.
    pub last_sequence: u64,
    /// A description of the damage.
    pub what: String,
}

/// The outcome of a salvage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SalvageReport {
    /// The number of intact records, including overwritten ones.
    pub records: u64,
    /// The size of these records, in bytes.
    pub size_bytes: u64,
    /// The sequence number after which the new store continues.
    pub last_sequence: u64,
    /// The lost parts: first those of files, in the order of the files, then sequence numbers that
    /// no file shows.
    pub lost: Vec<LostRange>,
    /// The number of losses beyond those listed in `lost`.
    pub lost_left_off: u64,
}

impl SalvageReport {
    /// Notes a lost part of a file, given by offset and length, and by the first and last sequence
    /// number that may have been in it.
    fn lose(
        &mut self,
        path: &Path,
        (offset, length): (u64, u64),
        (first_sequence, last_sequence): (u64, u64),
        what: impl Into<String>,
    ) {
        if self.lost.len() < LOST_MAX {
            let (path, what) = (path.to_path_buf(), what.into());
            self.lost.push(LostRange { path, offset, length, first_sequence, last_sequence, what });
        } else {
            self.lost_left_off += 1;
        }
    }
}

/// An intact record.
#[derive(Clone, Copy)]
struct SalvagedRecord {
    sequence: u64,
    /// The index of its segment, in the order in which segments were read.
    segment: usize,
    offset: u64,
    length: u64,
}

/// Builds a store in `to`, which must be empty or not exist, from everything that is intact in the
/// store in `from`, which must not be open.
///
/// ```
/// # use pellucid_engine::*;
/// # fn main() -> Result<()> {
/// # let files = std::sync::Arc::new(pellucid_io::simulated::SimulatedFileSystem::new());
/// # let options = EngineOptions { file_system: files.clone(), ..EngineOptions::default() };
/// # let engine = Engine::open("/store", options.clone())?;
/// # let table = engine.table("t")?;
/// # engine.put(table, b"key", b"value")?;
/// # engine.close()?;
/// let salvaged = salvage("/store", "/salvaged", options.clone())?;
/// assert_eq!((salvaged.records, salvaged.lost), (2, vec![]));
/// let engine = Engine::open("/salvaged", options)?;
/// assert!(engine.get(table, b"key")?.is_some());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Occupied`] if the target is not empty, [`Error::Locked`] if the store is open, and
/// failures of the file system. Damage is not an error, unless not even the identity of the store
/// can be found.
pub fn salvage(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: EngineOptions,
) -> Result<SalvageReport> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let files = &*options.file_system;
    let damaged_files = &CopyingFileSystem(files);
    let _from_lock = take_lock_to_read(files, from)?;
    let mut salvaged = SalvageReport::default();
    let former = Manifest::read(files, from).unwrap_or_else(|error| {
        // Without the manifest, the list of segments and the time mark are unknown.
        let what = format!(
            "{error}: segments that are missing at the end, and expired entries that are there \
             again, cannot be told"
        );
        salvaged.lose(&manifest_path(from), (0, 0), (0, 0), what);
        None
    });
    let identity = match &former {
        Some(manifest) => manifest.store_identity,
        None => journal_identity(from, &options)?,
    };
    let former = former.unwrap_or_else(|| Manifest::empty(identity));
    let mut reader = SegmentReader {
        files: damaged_files,
        from,
        manifest: &former,
        paths: Vec::new(),
        places: Vec::new(),
        spans: Vec::new(),
        names_mounts: false,
    };
    reader.read_all(&mut salvaged)?;
    reader.lose_the_rest(&mut salvaged);
    let SegmentReader { paths, places, .. } = reader;
    salvaged.records = places.len() as u64;
    salvaged.size_bytes = places.iter().map(|place| place.length).sum();
    let highest = places.last().map_or(0, |place| place.sequence);
    let lost = salvaged.lost.iter().map(|lost| lost.last_sequence).max().unwrap_or(0);
    let sealed = former.segments.iter().map(|facts| facts.last_sequence).max().unwrap_or(0);
    // Never reuse a sequence number that was assigned before.
    salvaged.last_sequence = highest.max(lost).max(sealed).max(former.flushed_sequence);
    let lock = claim(files, to)?;
    write_journal(to, &options, identity, (&paths, &places), salvaged.last_sequence)?;
    let manifest = Manifest { time_mark_ms: former.time_mark_ms, ..Manifest::empty(identity) };
    finish(files, to, &manifest)?;
    drop(lock);
    let engine = Engine::open(to, options)?;
    engine.close()?;
    Ok(salvaged)
}

/// Writes the records at `places` as segments that cover all sequence numbers up to
/// `last_sequence`.
fn write_journal(
    to: &Path,
    options: &EngineOptions,
    identity: u64,
    (paths, places): (&[PathBuf], &[SalvagedRecord]),
    last_sequence: u64,
) -> Result<()> {
    let files = SegmentFiles::new(Arc::clone(&options.file_system), to.into(), identity, 1);
    let (mut rest, mut first) = (places, 1);
    let seed = checksum_seed(&[identity]);
    let mut source = Source { files: &*options.file_system, paths, seed, open: None };
    while first <= last_sequence {
        // If the gap before the next record is too large for a segment with records, an empty
        // segment covers it.
        let next = rest.first().map_or(last_sequence + 1, |place| place.sequence);
        if u32::try_from(next - first).is_err() {
            write_segment(&files, (first, next - 1), &[], &mut source)?;
            first = next;
            continue;
        }
        let mut size_bytes = 0;
        let fits = |place: &&SalvagedRecord| {
            size_bytes += place.length;
            size_bytes <= options.segment_size_bytes
                && u32::try_from(place.sequence - first).is_ok()
        };
        let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (taken, left) = rest.split_at(count);
        let last = match left.first() {
            Some(next) => next.sequence - 1,
            None => last_sequence,
        };
        write_segment(&files, (first, last), taken, &mut source)?;
        (rest, first) = (left, last + 1);
    }
    Ok(())
}

/// Writes a segment with the records at `places` that covers the sequence numbers from `first` to
/// `last`.
fn write_segment(
    files: &SegmentFiles,
    (first_sequence, last_sequence): (u64, u64),
    places: &[SalvagedRecord],
    source: &mut Source<'_>,
) -> Result<()> {
    let run = SegmentRun { segments: Vec::new(), first_sequence, last_sequence };
    let mut writer = SegmentRewriter::create(files, &run)?;
    for place in places {
        let record = source.read(place);
        let failed = |error| Error::io("read", &source.paths[place.segment], error);
        writer.add(place.sequence, &record.map_err(failed)?)?;
    }
    // It is unknown which records hid others in the lost part, so no marker may be dropped because
    // of this segment: its clean sequence number is 0.
    writer.finish(0).map(drop)
}

/// Reads the records that were found once more.
struct Source<'a> {
    files: &'a dyn FileSystem,
    paths: &'a [PathBuf],
    seed: u32,
    /// The segment that was read last: usually the next record is in it, too.
    open: Option<(usize, Arc<dyn File>)>,
}

impl Source<'_> {
    fn read(&mut self, place: &SalvagedRecord) -> io::Result<Vec<u8>> {
        let file = match &self.open {
            Some((segment, file)) if *segment == place.segment => file,
            _ => {
                let file = self.files.open(&self.paths[place.segment], false)?;
                &self.open.insert((place.segment, file)).1
            }
        };
        let mut bytes = vec![0; usize::try_from(place.length).map_err(io::Error::other)?];
        if let Err(error) = file.read_exact_at(&mut bytes, place.offset) {
            // The checksum may have been right with zeros in place of bytes that the medium cannot
            // deliver.
            let file = CopyingFileSystem(self.files).open(&self.paths[place.segment], false)?;
            let map = file.map(place.offset + place.length, MapMode::Read)?;
            bytes.copy_from_slice(&map.bytes()[place.offset as usize..]);
            if !is_intact(&bytes, self.seed) {
                return Err(error);
            }
        }
        Ok(bytes)
    }
}

struct SegmentReader<'a> {
    files: &'a dyn FileSystem,
    from: &'a Path,
    manifest: &'a Manifest,
    /// The paths of the segments that were read.
    paths: Vec<PathBuf>,
    places: Vec<SalvagedRecord>,
    /// The sequence numbers that sealed segments cover, each as (first, last).
    spans: Vec<(u64, u64)>,
    /// True if segments name the mount in which they were made.
    names_mounts: bool,
}

impl SegmentReader<'_> {
    fn read_all(&mut self, salvaged: &mut SalvageReport) -> Result<()> {
        let numbers = list_segments(self.files, self.from)?;
        for facts in &self.manifest.segments {
            if !numbers.contains(&facts.number) {
                let path = segment_path(self.from, facts.number);
                salvaged.lose(&path, (0, facts.size_bytes), facts.sequences(), "the file is gone");
            }
        }
        for number in self.current(&numbers) {
            let path = segment_path(self.from, number);
            if let Err(error) = self.read_segment(number, &path, salvaged) {
                let facts = self.manifest.segments.iter().find(|facts| facts.number == number);
                let facts = facts.copied().unwrap_or_default();
                salvaged.lose(&path, (0, facts.size_bytes), facts.sequences(), error.to_string());
            }
        }
        Ok(())
    }

    /// The segments to read: all except those that others have replaced. A segment that garbage
    /// collection left behind would bring deleted keys back. It is read if its replacement is
    /// missing, for example because the manifest is an old one.
    fn current(&mut self, numbers: &[u64]) -> Vec<u64> {
        let verify =
            |number: &u64| verify_segment(self.files, self.from, self.manifest, *number).ok();
        let summaries: Vec<(u64, Option<SegmentSummary>)> =
            numbers.iter().map(|number| (*number, verify(number).flatten())).collect();
        let readable = summaries.iter().filter_map(|(_, summary)| summary.as_ref());
        self.names_mounts = readable.clone().any(|summary| summary.has_mount);
        // If the header of a segment is damaged, it is not known whether another segment replaces
        // it.
        let spans = readable.map(SegmentSummary::span).filter(|span| span.first_sequence != 0);
        let spans: Vec<_> = spans.collect();
        let is_current = current_segments(&spans, self.manifest);
        let (current, others): (Vec<_>, Vec<_>) =
            std::iter::zip(&spans, is_current).partition(|(_, is_current)| *is_current);
        // The manifest knows the sequence numbers of segments that are damaged.
        let named = self.manifest.segments.iter().filter(|facts| numbers.contains(&facts.number));
        let named = named.map(SegmentMetadata::sequences);
        let current = current.iter().map(|(span, _)| (span.first_sequence, span.last_sequence));
        let covered = joined(current.chain(named).collect());
        let is_replaced = |span: &Span| {
            let (first, last) = (span.first_sequence, span.last_sequence);
            covered.iter().any(|covered| covered.0 <= first && last <= covered.1)
        };
        let replaced: Vec<u64> = others
            .iter()
            .filter(|(span, _)| is_replaced(span))
            .map(|(span, _)| span.number)
            .collect();
        numbers.iter().copied().filter(|number| !replaced.contains(number)).collect()
    }

    fn read_segment(
        &mut self,
        number: u64,
        path: &Path,
        salvaged: &mut SalvageReport,
    ) -> Result<()> {
        let map = map_file(self.files, path)?;
        let identity = self.manifest.store_identity;
        let header =
            FileHeader::decode_expected(map.bytes(), FileKind::Journal, identity, number, path);
        let unreadable = unreadable_parts(&*map);
        let is_unused = unreadable.is_empty() && is_unused(map.bytes());
        let facts = self.manifest.segments.iter().find(|facts| facts.number == number);
        let first_sequence = match (&header, facts) {
            (Ok(header), None) if header.first_sequence == 0 && is_unused => return Ok(()),
            (Ok(header), _) => header.first_sequence,
            (Err(Error::Foreign { .. } | Error::Version { .. }), _) => return header.map(|_| ()),
            (Err(_), facts) => facts.map_or(0, |facts| facts.first_sequence),
        };
        if let Err(error) = &header {
            salvaged.lose(path, (0, FILE_HEADER_LENGTH as u64), (0, 0), error.to_string());
        }
        let index = self.paths.len();
        let seed = checksum_seed(&[identity]);
        let last_sequence = facts.map_or(0, |facts| facts.last_sequence);
        let touches = |part: &(u64, u64), offset, length| {
            part.0 < offset + length && offset < part.0 + part.1
        };
        let is_unreadable =
            |offset, length| unreadable.iter().any(|part| touches(part, offset, length));
        let mut unnamed = unreadable.clone();
        let (places, spans) = (&mut self.places, &mut self.spans);
        // Segments of garbage collection name no mount, and each has had a footer since it got its
        // name. Other segments name none if it was unknown; only if the footer is damaged, the rest
        // of the store tells. Sequence numbers missing between two records of a collected segment
        // were not needed.
        let names_no_mount = matches!(&header, Ok(header) if header.mount_identity == [0; 16]);
        let footer = || decode_footer(map.bytes(), identity, number, first_sequence);
        let is_collected = names_no_mount
            && match footer() {
                Ok(footer) => footer.clean_sequence.is_some(),
                Err(NoFooter::Unsealed) if last_sequence == 0 && unreadable.is_empty() => false,
                Err(_) => self.names_mounts,
            };
        let mut previous = first_sequence.checked_sub(1).filter(|_| is_collected);
        let mut batch_begin = places.len();
        let mut visit = |found| match found {
            // Beyond the sealed end: an older state of the file, from before a loss of power.
            SegmentRange::Record { sequence, .. }
                if last_sequence != 0 && sequence > last_sequence => {}
            SegmentRange::Record { sequence, offset, length, batch_goes_on } => {
                if let Some(previous) = previous.filter(|previous| sequence > previous + 1) {
                    spans.push((previous + 1, sequence - 1));
                }
                previous = Some(sequence).filter(|_| is_collected);
                places.push(SalvagedRecord { sequence, segment: index, offset, length });
                if !batch_goes_on {
                    batch_begin = places.len();
                }
            }
            SegmentRange::Damage { offset, length, after, before } => {
                // A batch may have ended between the damage and the next record.
                if before.is_some() {
                    batch_begin = places.len();
                }
                previous = None;
                unnamed.retain(|part| !touches(part, offset, length));
                let is_unreadable = is_unreadable(offset, length);
                let first = after.map_or(first_sequence, |after| after + 1);
                let last = before.map_or(last_sequence, |before| before - 1);
                let what = if is_unreadable { UNREADABLE } else { DAMAGED };
                salvaged.lose(path, (offset, length), (first, last), what);
            }
        };
        let sealed_up_to =
            walk_records(map.bytes(), (identity, number, seed), first_sequence, &mut visit);
        let is_sealed = sealed_up_to.is_some();
        let sealed_up_to = sealed_up_to.filter(|_| first_sequence != 0);
        self.spans.extend(sealed_up_to.map(|last| (first_sequence, last)));
        // A batch without its end was never acknowledged. Segments of garbage collection may hold
        // parts of batches that were acknowledged.
        let has_grown = header.is_ok() && !is_collected;
        let may_be_torn = has_grown && !is_sealed && last_sequence == 0;
        let unfinished = places.split_off(if may_be_torn { batch_begin } else { places.len() });
        if let (Some(first), Some(last)) = (unfinished.first(), unfinished.last()) {
            let part = (first.offset, last.offset + last.length - first.offset);
            salvaged.lose(path, part, (first.sequence, last.sequence), UNFINISHED);
        }
        // The end of a segment may have held records, zeros, or its footer.
        for part in unnamed.into_iter().filter(|part| part.0 > 0) {
            salvaged.lose(path, part, (0, last_sequence), UNREADABLE);
        }
        self.paths.push(path.to_path_buf());
        Ok(())
    }

    /// Sorts the records, and notes as lost all sequence numbers of which no trace was found: a
    /// file may look as if it had never held them.
    fn lose_the_rest(&mut self, salvaged: &mut SalvageReport) {
        // After a loss of power, sequence numbers of lost records were used again.
        self.places.sort_unstable_by_key(|place| (place.sequence, Reverse(place.segment)));
        self.places.dedup_by_key(|place| place.sequence);
        let facts = &self.manifest.segments;
        let named = facts.iter().map(|facts| facts.first_sequence).min();
        let begin = named.unwrap_or(self.manifest.flushed_sequence + 1);
        let sealed = facts.iter().map(|facts| facts.last_sequence);
        let end = sealed.fold(self.manifest.flushed_sequence, u64::max);
        let lost = salvaged.lost.iter().map(|lost| (lost.first_sequence, lost.last_sequence));
        self.spans.extend(lost.filter(|(first, _)| *first != 0));
        for (first_sequence, last_sequence) in self.gaps(begin, end) {
            let holds = |facts: &&SegmentMetadata| {
                (facts.first_sequence..=facts.last_sequence).contains(&first_sequence)
            };
            let path = match facts.iter().find(holds) {
                Some(facts) => segment_path(self.from, facts.number),
                None => self.from.join(JOURNAL_FOLDER),
            };
            salvaged.lose(&path, (0, 0), (first_sequence, last_sequence), NOWHERE);
        }
    }

    /// The ranges of sequence numbers, each as (first, last), that no record and no span covers,
    /// from `begin` to `end` or to the last record.
    fn gaps(&mut self, begin: u64, end: u64) -> Vec<(u64, u64)> {
        self.spans.sort_unstable();
        let mut spans = self.spans.iter().copied().peekable();
        let mut records =
            self.places.iter().map(|place| (place.sequence, place.sequence)).peekable();
        let (mut gaps, mut next) = (Vec::new(), begin);
        loop {
            let covered = match (spans.peek(), records.peek()) {
                (Some(span), Some(record)) if span > record => records.next(),
                (Some(_), _) => spans.next(),
                (None, _) => records.next(),
            };
            let Some((first, last)) = covered else { break };
            if first > next {
                gaps.push((next, first - 1));
            }
            next = next.max(last.saturating_add(1));
        }
        if next <= end {
            gaps.push((next, end));
        }
        gaps
    }
}

/// Sorts ranges of sequence numbers, each given as (first, last), and joins those that overlap or
/// are adjacent.
fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut().filter(|before| first <= before.1.saturating_add(1)) {
            Some(before) => before.1 = before.1.max(last),
            None => joined.push((first, last)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use pellucid_io::simulated::SimulatedFileSystem;

    const STORE: &str = "/store";
    const SALVAGED: &str = "/salvaged";
    /// More sequence numbers than the 32-bit pairs of a footer can span.
    const FAR: u64 = 1 << 33;

    /// Regression: if nothing below [`FAR`] was left, the salvaged store could not be opened,
    /// because no segment covered the lowest sequence numbers. If nothing was left at all, its
    /// backup panicked.
    #[test]
    fn a_store_of_high_numbers_is_salvaged_and_can_be_backed_up() {
        for keeps_last in [true, false] {
            let files = Arc::new(SimulatedFileSystem::new());
            let options = || EngineOptions {
                background: false,
                file_system: Arc::clone(&files) as Arc<dyn FileSystem>,
                identity_seed: Some(1),
                ..EngineOptions::default()
            };
            let engine = Engine::open(STORE, options()).unwrap();
            let table = engine.table("t").unwrap();
            engine.put(table, b"low", b"1").unwrap();
            engine.close().unwrap();
            let lost = list_segments(&*files, Path::new(STORE)).unwrap();
            let number = leave_out(&files);
            let engine = Engine::open(STORE, options()).unwrap();
            assert_eq!(engine.put(table, b"high", b"2").unwrap().sequence, FAR + 1);
            engine.close().unwrap();
            let mut lost: Vec<u64> = lost.into_iter().chain([number]).collect();
            if !keeps_last {
                lost = list_segments(&*files, Path::new(STORE)).unwrap();
            }
            for number in lost {
                files.remove(&segment_path(Path::new(STORE), number)).unwrap();
            }
            let salvaged = salvage(STORE, SALVAGED, options()).unwrap();
            assert_eq!(salvaged.records, u64::from(keeps_last));
            assert_eq!(salvaged.last_sequence, FAR + 1);
            let engine = Engine::open(SALVAGED, options()).unwrap();
            assert_eq!(engine.stats().published_sequence, FAR + 1);
            assert_eq!(engine.backup("/backup").unwrap().sequence, FAR + 1);
            engine.close().unwrap();
            Engine::open("/backup", options()).unwrap().close().unwrap();
        }
    }

    /// Skips all sequence numbers up to [`FAR`], as if their records had been collected.
    fn leave_out(files: &SimulatedFileSystem) -> u64 {
        let directory = Path::new(STORE);
        let mut manifest = Manifest::read(files, directory).unwrap().unwrap();
        let number = manifest.segments.iter().map(|facts| facts.number).max().unwrap() + 1;
        let first_sequence = manifest.flushed_sequence + 1;
        let (file_system, identity) = (Arc::new(files.clone()), manifest.store_identity);
        let segments = SegmentFiles::new(file_system, directory.into(), identity, number);
        let run = SegmentRun { segments: Vec::new(), first_sequence, last_sequence: FAR };
        SegmentRewriter::create(&segments, &run).unwrap().finish(0).unwrap();
        let facts = SegmentMetadata {
            number,
            first_sequence,
            last_sequence: FAR,
            ..SegmentMetadata::default()
        };
        manifest.segments.push(facts);
        manifest.flushed_sequence = FAR;
        assert!(manifest.write(files, directory).is_ok());
        number
    }
}
