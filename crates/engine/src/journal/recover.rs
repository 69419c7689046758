//! Recovery: finds the segments and the end of the journal, and distinguishes a torn tail from
//! corruption (`docs/format.md`, Recovery).

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pellucid_account::Activity;
use pellucid_clock::Clock;
use pellucid_io::{File, FileSystem, Map, MapMode};

use super::excess::DeadSpaceLimit;
use super::files::SegmentFiles;
use super::footer::{Footer, NoFooter, decode_footer, encode_footer};
use super::held_file::HeldFile;
use super::medium::MediumReads;
use super::room::LedgerRoom;
use super::scan::{ScannedSegment, find_stray, for_each_record, is_unused, scan_records};
use super::segment::{
    DroppedBytes, JOURNAL_FOLDER, Segment, SegmentFile, segment_number, segment_path,
};
use super::segment_ends::{ASKED_TOGETHER, SegmentEnds};
use super::segment_selection::{Span, current_segments};
use super::segments::SegmentSet;
use crate::codec::{FILE_HEADER_LENGTH, FileHeader, FileKind, checksum_seed};
use crate::error::{Error, Result, is_full};
use crate::expiry::ExpiryClock;
use crate::ledger::{Manifest, SegmentMetadata};
use crate::mapped_file::MappedFile;

/// Bytes that one call rewrites.
const REWRITE_LENGTH: usize = 1 << 20;

/// The settings of a journal.
pub(crate) struct JournalSetting {
    pub(crate) file_system: Arc<dyn FileSystem>,
    pub(crate) directory: PathBuf,
    pub(crate) clock: Clock,
    pub(crate) segment_size_bytes: u64,
    /// The bound on the journal's dead bytes.
    pub(crate) dead_bound: DeadSpaceLimit,
    /// The number of records at which a segment ends.
    pub(crate) segment_records_max: u64,
    /// The space that the ledger needs before it gives any back.
    pub(crate) ledger_room: LedgerRoom,
    /// The time by which entries expire.
    pub(crate) time: Arc<ExpiryClock>,
    /// The register of running jobs.
    pub(crate) activity: Activity,
}

/// The file of a segment after it was opened and examined, before anything is changed.
struct SegmentCandidate {
    number: u64,
    path: PathBuf,
    file: Arc<dyn File>,
    map: Arc<dyn Map>,
    header: FileHeader,
    /// True if the manifest says that the segment is sealed.
    is_named_sealed: bool,
    dead_bytes: u64,
    marker_bytes: u64,
    state: CandidateState,
}

impl SegmentCandidate {
    /// The bytes before `end`, the end of a record. If the file was cut within the padding of that
    /// record, the missing zeros are added.
    fn bytes_to(&self, end: u64) -> Cow<'_, [u8]> {
        let (bytes, end) = (self.map.bytes(), end as usize);
        match bytes.get(..end) {
            Some(whole) => Cow::Borrowed(whole),
            None => Cow::Owned([bytes, &vec![0; end - bytes.len()]].concat()),
        }
    }

    fn is_sealed(&self) -> bool {
        matches!(self.state, CandidateState::Sealed(_))
    }

    /// False if the header says that nothing was written to the segment. After a loss of power the
    /// first records may be on the medium although the header with their sequence number is not.
    fn says_it_begins(&self) -> bool {
        self.header.first_sequence != 0
    }

    fn span(&self) -> Span {
        let first_sequence = self.header.first_sequence;
        let (last_sequence, is_collected) = match &self.state {
            CandidateState::Sealed(footer) => {
                (footer.last_sequence, footer.clean_sequence.is_some())
            }
            CandidateState::Unsealed(scanned) => {
                ((first_sequence + scanned.offsets.len() as u64).saturating_sub(1), false)
            }
        };
        Span { number: self.number, first_sequence, last_sequence, is_collected }
    }
}

enum CandidateState {
    Sealed(Footer),
    Unsealed(ScannedSegment),
}

/// The decision about each file, made after all checks have passed.
struct Plan {
    keep: Vec<SegmentCandidate>,
    /// Segments behind the end of the journal.
    dropped: Vec<SegmentCandidate>,
    remove: Vec<PathBuf>,
    /// The highest number of any file; 0 if there is none.
    highest_number: u64,
}

/// The point at which the journal ends: the missing record and its location.
struct TornTail {
    path: PathBuf,
    offset: u64,
    missing_sequence: u64,
    what: String,
}

/// A part of the journal that cutting off its tail drops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruncatedPart {
    /// The file.
    pub path: PathBuf,
    /// The offset of the part in the file, in bytes.
    pub offset: u64,
    /// The length of the part in bytes, without the zeros at its end.
    pub length: u64,
    /// The lowest sequence number of an intact record in the part; 0 if there is none.
    pub first_sequence: u64,
    /// The highest sequence number of an intact record in the part; 0 if there is none.
    pub last_sequence: u64,
    /// The number of intact records in the part.
    pub records: u64,
    /// The file in which the dropped part is kept.
    pub kept_as: PathBuf,
}

/// The extension of files that keep dropped parts.
const DROPPED_EXTENSION: &str = "journal.dropped";

/// A recovered journal: every segment is sealed, and everything is on the medium.
pub(super) struct RecoveredJournal {
    pub(super) files: Arc<SegmentFiles>,
    pub(super) segments: Arc<SegmentSet>,
    pub(super) last_sequence: u64,
}

/// Recovers the journal that belongs to `manifest`, and cuts off a torn tail.
pub(super) fn recover(setting: JournalSetting, manifest: &Manifest) -> Result<RecoveredJournal> {
    let recovery = Recovery::new(&*setting.file_system, &setting.directory, manifest);
    let mut plan = recovery.plan()?;
    let highest_number = plan.highest_number;
    plan.remove.extend(plan.dropped.drain(..).map(|dropped| dropped.path));
    let segments = recovery.carry_out(plan)?;
    let last_sequence = segments
        .last()
        .and_then(|segment| segment.footer())
        .map_or(manifest.flushed_sequence, |footer| footer.last_sequence);
    let JournalSetting { file_system, directory, clock, .. } = setting;
    let identity = manifest.store_identity;
    let files = SegmentFiles::new(file_system, directory, identity, highest_number + 1);
    let files = Arc::new(files);
    let segments = SegmentSet::new(Arc::clone(&files), segments, MediumReads::new(clock));
    Ok(RecoveredJournal { files, segments: Arc::new(segments), last_sequence })
}

/// Checks the journal that belongs to `manifest` as an opening does, without changing anything.
///
/// # Errors
/// The errors for which an opening would refuse the journal.
pub(crate) fn check(
    file_system: &dyn FileSystem,
    directory: &Path,
    manifest: &Manifest,
) -> Result<()> {
    let recovery = Recovery { writes: false, ..Recovery::new(file_system, directory, manifest) };
    recovery.plan().map(drop)
}

/// Cuts off the journal that belongs to `manifest` where its consecutive records end, whatever is
/// behind that point. The complete files are kept under other names. Returns the parts that were
/// dropped.
pub(crate) fn cut_tail(
    file_system: &dyn FileSystem,
    directory: &Path,
    manifest: &Manifest,
) -> Result<Vec<TruncatedPart>> {
    let recovery = Recovery { cuts: true, ..Recovery::new(file_system, directory, manifest) };
    let plan = recovery.plan()?;
    let mut parts = Vec::new();
    if let Some(last) = plan.keep.last() {
        parts.extend(recovery.cut_segment(last)?);
    }
    for dropped in &plan.dropped {
        let part = recovery.part(dropped, FILE_HEADER_LENGTH as u64);
        let renamed = file_system.rename(&part.path, &part.kept_as);
        renamed.map_err(|error| Error::io("rename", &part.path, error))?;
        parts.push(part);
    }
    let folder = recovery.folder();
    file_system.sync_directory(&folder).map_err(|error| Error::io("sync", &folder, error))?;
    Ok(parts)
}

struct Recovery<'a> {
    file_system: &'a dyn FileSystem,
    directory: &'a Path,
    manifest: &'a Manifest,
    store_seed: u32,
    mount_identity: [u8; 16],
    /// True if the tail is cut off on request: nothing behind the end is then a reason to refuse.
    cuts: bool,
    /// True if files are also opened for writing.
    writes: bool,
}

impl<'a> Recovery<'a> {
    fn new(
        file_system: &'a dyn FileSystem,
        directory: &'a Path,
        manifest: &'a Manifest,
    ) -> Recovery<'a> {
        Recovery {
            file_system,
            directory,
            manifest,
            store_seed: checksum_seed(&[manifest.store_identity]),
            mount_identity: file_system.mount_identity(directory),
            cuts: false,
            writes: true,
        }
    }

    /// Decides about every file, without changing any.
    fn plan(&self) -> Result<Plan> {
        let (numbers, highest_number, mut remove) = self.list()?;
        let found = self.find(&numbers, &mut remove)?;
        let (found, headless) = found.into_iter().partition(SegmentCandidate::says_it_begins);
        let found = self.without_replaced(found, &mut remove);
        let (keep, dropped) = self.judge(found, headless)?;
        Ok(Plan { keep, dropped, remove, highest_number })
    }

    fn folder(&self) -> PathBuf {
        self.directory.join(JOURNAL_FOLDER)
    }

    /// The numbers of the segments, ascending; the highest number of any file; and files whose
    /// writing was interrupted.
    fn list(&self) -> Result<(Vec<u64>, u64, Vec<PathBuf>)> {
        let folder = self.folder();
        let names = self.file_system.list(&folder);
        let names = names.map_err(|error| Error::io("list", &folder, error))?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
        numbers.sort_unstable();
        // A number is not used again while a kept file has it.
        let ever = names.iter().map(|name| name.strip_suffix(".dropped").unwrap_or(name));
        let highest = ever.filter_map(segment_number).max().unwrap_or(0);
        let unfinished = names.iter().filter(|name| name.ends_with(".new"));
        Ok((numbers, highest, unfinished.map(|name| folder.join(name)).collect()))
    }

    /// The facts of segment `number` in the manifest.
    fn facts(&self, number: u64) -> Option<&SegmentMetadata> {
        self.manifest.segments.iter().find(|facts| facts.number == number)
    }

    /// Opens the segments, and adds those that were never used to `remove`.
    fn find(&self, numbers: &[u64], remove: &mut Vec<PathBuf>) -> Result<Vec<SegmentCandidate>> {
        for facts in &self.manifest.segments {
            let is_needed =
                facts.last_sequence != 0 || facts.first_sequence <= self.manifest.flushed_sequence;
            if is_needed && numbers.binary_search(&facts.number).is_err() {
                let path = segment_path(self.directory, facts.number);
                return Err(Error::corruption(&path, 0, "the manifest names the file; it is gone"));
            }
        }
        let mut found = Vec::with_capacity(numbers.len());
        for numbers in numbers.chunks(ASKED_TOGETHER) {
            let open =
                |number| SegmentEnds::open(self.file_system, self.directory, number, self.writes);
            let opened: Vec<_> = numbers.iter().copied().map(open).collect::<Result<_>>()?;
            opened.iter().try_for_each(SegmentEnds::expect_footer)?;
            for segment in opened {
                let number = segment.number;
                match self.look_at(segment)? {
                    Some(segment) => found.push(segment),
                    None => remove.push(segment_path(self.directory, number)),
                }
            }
        }
        Ok(found)
    }

    /// Examines a segment; `None` if it was never used.
    fn look_at(&self, segment: SegmentEnds) -> Result<Option<SegmentCandidate>> {
        let SegmentEnds { number, path, file, length } = segment;
        let failed = |error| Error::io("open", &path, error);
        let facts = self.facts(number);
        let is_named_sealed = facts.is_some_and(|facts| facts.last_sequence != 0);
        let mut header = vec![0; length.min(FILE_HEADER_LENGTH as u64) as usize];
        file.read_exact_at(&mut header, 0).map_err(failed)?;
        let identity = self.manifest.store_identity;
        // A file gets its header before its name: one without a valid header is damaged.
        let decoded =
            FileHeader::decode_expected(&header, FileKind::Journal, identity, number, &path);
        let (header, is_doubtful) = match decoded {
            // It is unknown which records the file holds: it is dropped with the tail.
            Err(Error::Corruption { .. }) if self.cuts && facts.is_none() => {
                (FileHeader::new(FileKind::Journal, identity, number), true)
            }
            decoded => (decoded?, false),
        };
        let map = file.map(length, MapMode::Read).map_err(failed)?;
        // Bytes that the medium cannot deliver look like zeros, and so like an unused file, or like
        // the end of the records.
        let check = || MappedFile::from(Arc::clone(&map)).check(0..map.length(), &path);
        let is_spare = header.first_sequence == 0 && facts.is_none() && is_unused(map.bytes());
        if is_spare && !is_doubtful && check().is_ok() {
            return Ok(None);
        }
        let first = header.first_sequence;
        let state = match decode_footer(map.bytes(), identity, number, first) {
            Ok(footer) => CandidateState::Sealed(footer),
            Err(NoFooter::Unsealed | NoFooter::Damaged) if !is_named_sealed => {
                CandidateState::Unsealed(scan_records(map.bytes(), self.store_seed, first))
            }
            Err(_) => return Err(Error::corruption(&path, length, "the footer is damaged")),
        };
        if !self.cuts && matches!(state, CandidateState::Unsealed(_)) {
            check()?;
        }
        let (dead_bytes, marker_bytes) =
            facts.map_or((0, 0), |facts| (facts.dead_bytes, facts.marker_bytes));
        Ok(Some(SegmentCandidate {
            number,
            path,
            file,
            map,
            header,
            is_named_sealed,
            dead_bytes,
            marker_bytes,
            state,
        }))
    }

    /// Removes from `found` the segments that were replaced by garbage collection and left behind
    /// by a crash, and adds them to `remove`. Returns the others in the order of their sequence
    /// numbers.
    fn without_replaced(
        &self,
        found: Vec<SegmentCandidate>,
        remove: &mut Vec<PathBuf>,
    ) -> Vec<SegmentCandidate> {
        let spans: Vec<Span> = found.iter().map(SegmentCandidate::span).collect();
        let is_current = current_segments(&spans, self.manifest);
        let mut kept = Vec::with_capacity(found.len());
        for (segment, is_current) in found.into_iter().zip(is_current) {
            if is_current {
                kept.push(segment);
            } else {
                remove.push(segment.path);
            }
        }
        kept.sort_by_key(|segment| segment.header.first_sequence);
        kept
    }

    /// Follows the sequence numbers to their end. Returns the segments to keep, and the ones to
    /// drop: those behind the end, and those that are `headless`.
    fn judge(
        &self,
        found: Vec<SegmentCandidate>,
        headless: Vec<SegmentCandidate>,
    ) -> Result<(Vec<SegmentCandidate>, Vec<SegmentCandidate>)> {
        let flushed = self.manifest.flushed_sequence;
        let named_first = self.manifest.segments.iter().map(|facts| facts.first_sequence).min();
        let mut expected = named_first.unwrap_or(flushed + 1);
        let (mut keep, mut all_dropped) = (Vec::new(), Vec::new());
        let mut tear = TornTail {
            path: self.folder(),
            offset: 0,
            missing_sequence: expected,
            what: "no segment holds the sequence number".to_owned(),
        };
        let mut rest = found.into_iter().peekable();
        while let Some(segment) = rest.next_if(|next| next.header.first_sequence == expected) {
            match &segment.state {
                CandidateState::Sealed(footer) => {
                    self.check_sealed(&segment, footer)?;
                    expected = footer.last_sequence + 1;
                    tear.offset = footer.offset;
                    tear.missing_sequence = expected;
                    tear.what = "the segment that should follow is missing".to_owned();
                }
                CandidateState::Unsealed(scanned) => {
                    expected += scanned.offsets.len() as u64;
                    tear.offset = scanned.tear;
                    tear.missing_sequence = scanned.missing_sequence;
                    tear.what = scanned.damage.text().to_owned();
                }
            }
            tear.path.clone_from(&segment.path);
            let is_torn = !segment.is_sealed()
                && rest.peek().is_none_or(|next| next.header.first_sequence != expected);
            if is_torn && !self.cuts {
                self.check_stray(&segment, tear.offset, &tear)?;
            }
            keep.push(segment);
        }
        for dropped in rest.chain(headless) {
            self.check_dropped(&dropped, &tear)?;
            all_dropped.push(dropped);
        }
        if expected <= flushed {
            return Err(tear.corruption(&format!("sequence {flushed} is in the ledger already")));
        }
        Ok((keep, all_dropped))
    }

    /// Checks the records of a sealed segment that will be replayed: records in a sealed segment
    /// were durable, so a damaged one is corruption.
    fn check_sealed(&self, segment: &SegmentCandidate, footer: &Footer) -> Result<()> {
        let first = (self.manifest.flushed_sequence + 1).max(segment.header.first_sequence);
        if first > footer.last_sequence {
            return Ok(());
        }
        let reader = self.reader(segment, *footer);
        for (sequence, offset) in reader.entries().filter(|(sequence, _)| *sequence >= first) {
            reader.record_with(sequence, offset)?;
        }
        Ok(())
    }

    /// Searches a segment behind the tear for proof that the missing record was durable.
    fn check_dropped(&self, dropped: &SegmentCandidate, tear: &TornTail) -> Result<()> {
        if self.cuts && !dropped.is_named_sealed {
            return Ok(());
        }
        if let CandidateState::Sealed(footer) = &dropped.state {
            let last = footer.last_sequence;
            let why = format!("{} is sealed up to sequence {last}", dropped.path.display());
            return Err(tear.corruption(&why));
        }
        self.check_stray(dropped, FILE_HEADER_LENGTH as u64, tear)
    }

    /// Searches a segment from the offset `from` on for a record that proves corruption.
    fn check_stray(&self, segment: &SegmentCandidate, from: u64, tear: &TornTail) -> Result<()> {
        let mount = segment.header.mount_identity;
        let same_mount = mount != [0; 16] && mount == self.mount_identity;
        let (bytes, missing) = (segment.map.bytes(), tear.missing_sequence);
        let Some(stray) = find_stray(bytes, self.store_seed, from, missing, same_mount) else {
            // The search was the first to touch these pages: one that cannot be read is all zeros,
            // and may have held the proof.
            let map = MappedFile::from(Arc::clone(&segment.map));
            return map.check(from as usize..map.length(), &segment.path);
        };
        let is_mark = stray.marked_sequence.is_some();
        let kind = if is_mark { "a sync mark" } else { "a valid record" };
        let path = segment.path.display();
        Err(tear.corruption(&format!("{kind} follows in {path} at offset {}", stray.offset)))
    }

    /// Cuts off everything behind the records of a segment that is not sealed, if there is
    /// anything. The original file is kept under another name.
    fn cut_segment(&self, segment: &SegmentCandidate) -> Result<Option<TruncatedPart>> {
        let CandidateState::Unsealed(scanned) = &segment.state else { return Ok(None) };
        let part = self.part(segment, scanned.end);
        if part.length == 0 {
            return Ok(None);
        }
        let new_path = segment.path.with_extension("journal.new");
        let replace = || {
            let file = self.file_system.create(&new_path)?;
            write_anew(&*file, &segment.bytes_to(scanned.end))?;
            file.set_length(segment.map.length() as u64)?;
            file.sync()?;
            match self.file_system.hard_link(&segment.path, &part.kept_as) {
                // An earlier cut that was interrupted has already kept the same file.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                linked => linked?,
            }
            self.file_system.rename(&new_path, &segment.path)
        };
        replace().map_err(|error| Error::io("cut", &segment.path, error))?;
        Ok(Some(part))
    }

    /// Describes the part of a segment from `offset` on.
    fn part(&self, segment: &SegmentCandidate, offset: u64) -> TruncatedPart {
        let bytes = segment.map.bytes();
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
        let mut part = TruncatedPart {
            path: segment.path.clone(),
            offset,
            length: end.saturating_sub(offset),
            first_sequence: 0,
            last_sequence: 0,
            records: 0,
            kept_as: segment.path.with_extension(DROPPED_EXTENSION),
        };
        for_each_record(bytes, self.store_seed, offset, |record| {
            let sequence = record.sequence;
            part.first_sequence = if part.records == 0 { sequence } else { part.first_sequence };
            part.last_sequence = part.last_sequence.max(sequence);
            part.records += 1;
        });
        part
    }

    fn reader(&self, found: &SegmentCandidate, footer: Footer) -> Segment {
        let (path, map) = (found.path.clone(), Arc::clone(&found.map));
        let shared = SegmentFile::new(found.number, path, HeldFile::closed(), map, self.store_seed);
        let (dead_bytes, marker_bytes) = (found.dead_bytes, found.marker_bytes);
        shared.count_dropped(DroppedBytes { dead_bytes, marker_bytes });
        Segment::sealed(Arc::new(shared), found.header.first_sequence, footer)
    }

    /// Removes the segments to drop, seals those that are not sealed, and makes both durable.
    fn carry_out(&self, plan: Plan) -> Result<Vec<Arc<Segment>>> {
        let is_empty = |found: &SegmentCandidate| match &found.state {
            CandidateState::Sealed(_) => false,
            CandidateState::Unsealed(scanned) => scanned.offsets.is_empty(),
        };
        let Plan { keep, mut remove, .. } = plan;
        let (empty, keep): (Vec<_>, Vec<_>) = keep.into_iter().partition(is_empty);
        remove.extend(empty.into_iter().map(|found| found.path));
        for path in &remove {
            let removed = self.file_system.remove(path);
            removed.map_err(|error| Error::io("remove", path, error))?;
        }
        if !remove.is_empty() {
            let folder = self.folder();
            let synced = self.file_system.sync_directory(&folder);
            synced.map_err(|error| Error::io("sync", &folder, error))?;
        }
        // A failed seal is always the last one: the footers before it have reached the medium.
        let last_sealed = keep.iter().rposition(SegmentCandidate::is_sealed);
        let settled = keep.into_iter().enumerate().map(|(index, found)| {
            let is_vouched = found.is_named_sealed
                || (found.is_sealed() && last_sealed.is_some_and(|last| index < last));
            self.settle(found, is_vouched).map(Arc::new)
        });
        settled.collect()
    }

    /// Makes a kept segment sealed and durable. If it `is_vouched` for, it is so already.
    fn settle(&self, mut found: SegmentCandidate, is_vouched: bool) -> Result<Segment> {
        let failed = |error| Error::io("seal", &found.path, error);
        if let (CandidateState::Sealed(footer), true) = (&found.state, is_vouched) {
            let length = found.map.length() as u64;
            found.map = found.file.map(length, MapMode::ReadRandom).map_err(failed)?;
            return Ok(self.reader(&found, *footer));
        }
        let (identity, first) = (self.manifest.store_identity, found.header.first_sequence);
        let (end, footer) = match &found.state {
            CandidateState::Sealed(footer) => {
                (footer.offset, found.map.bytes()[footer.offset as usize..].to_vec())
            }
            CandidateState::Unsealed(scanned) => {
                let offsets = scanned.offsets.iter().copied();
                let footer = encode_footer(identity, found.number, first, scanned.end, offsets);
                (scanned.end, footer)
            }
        };
        let records = found.bytes_to(end);
        let placed = match self.copy(&found.path, &records, &footer) {
            Ok(file) => Some(file),
            // On a full disk the store must still open: write in place, although that is less safe.
            Err(error) if is_full(&error) => {
                write_in_place(&*found.file, &records, &footer).map_err(failed)?;
                None
            }
            Err(error) => return Err(failed(error)),
        };
        drop(records);
        found.file = placed.unwrap_or(found.file);
        let length = end + footer.len() as u64;
        found.map = found.file.map(length, MapMode::ReadRandom).map_err(failed)?;
        let footer = decode_footer(found.map.bytes(), identity, found.number, first)
            .map_err(|_| Error::corruption(&found.path, end, "the new footer reads back wrong"))?;
        Ok(self.reader(&found, footer))
    }

    /// Replaces the file at `path` by a new file with these records and this footer. The old file
    /// may exist only in memory: after a failed sync the system considers pages clean that never
    /// reached the medium, and a later sync succeeds without writing them. On ext4 not even
    /// rewriting the pages helps, because their space counts as never written.
    fn copy(&self, path: &Path, records: &[u8], footer: &[u8]) -> std::io::Result<Arc<dyn File>> {
        let new_path = path.with_extension("journal.new");
        let copy = || {
            let file = self.file_system.create(&new_path)?;
            write_anew(&*file, records)?;
            file.write_all_at(footer, records.len() as u64)?;
            file.sync()?;
            self.file_system.rename(&new_path, path)?;
            self.file_system.sync_directory(&self.folder())?;
            Ok(file)
        };
        copy().inspect_err(|_| {
            // If this fails, the next opening removes the file.
            let _ = self.file_system.remove(&new_path);
        })
    }
}

/// Rewrites the records of a file in place, and writes the footer once they are durable.
fn write_in_place(file: &dyn File, records: &[u8], footer: &[u8]) -> std::io::Result<()> {
    write_anew(file, records)?;
    file.sync()?;
    let end = records.len() as u64;
    file.write_all_at(footer, end)?;
    file.set_length(end + footer.len() as u64)?;
    file.sync()
}

/// Rewrites the first bytes of a file with `bytes`.
fn write_anew(file: &dyn File, bytes: &[u8]) -> std::io::Result<()> {
    // Through a copy, because `bytes` may be a map of the same file.
    let (mut offset, mut copy) = (0, Vec::new());
    for piece in bytes.chunks(REWRITE_LENGTH) {
        copy.clear();
        copy.extend_from_slice(piece);
        file.write_all_at(&copy, offset)?;
        offset += piece.len() as u64;
    }
    Ok(())
}

impl TornTail {
    fn corruption(&self, why: &str) -> Error {
        let what =
            format!("sequence {} is missing ({}), yet {why}", self.missing_sequence, self.what);
        Error::corruption(&self.path, self.offset, what)
    }
}
