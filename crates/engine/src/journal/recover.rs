//! Opening: which segments there are, where the journal ends, and whether what is missing there was
//! torn off or destroyed (`docs/format.md`, Recovery).

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use pellucid_account::Activity;
use pellucid_clock::Clock;
use pellucid_io::{File, FileSystem, Map, MapMode};
use pellucid_thread::{Condvar, Mutex};

use super::append::Appender;
use super::current::{Span, current_segments};
use super::ends::{ASKED_TOGETHER, SegmentEnds};
use super::footer::{Footer, NoFooter, decode_footer, encode_footer};
use super::gone::Gone;
use super::roll::RollerState;
use super::scan::{Scanned, find_stray, scan_records};
use super::segment::{
    HeldFile, JOURNAL_FOLDER, Segment, SegmentFile, segment_number, segment_path,
};
use super::sync::Waiters;
use super::{Journal, SegmentList};
use crate::codec::{FILE_HEADER_LENGTH, FileHeader, FileKind, checksum_seed};
use crate::engine::SyncTimes;
use crate::error::{Error, Result};
use crate::expiry::MarkedTime;
use crate::ledger::{Manifest, SegmentFacts};

/// What a journal is opened with.
pub(crate) struct JournalSetting {
    pub(crate) file_system: Arc<dyn FileSystem>,
    pub(crate) directory: PathBuf,
    pub(crate) clock: Clock,
    pub(crate) segment_size_bytes: u64,
    /// Records at which a segment ends.
    pub(crate) segment_records_max: u64,
    /// The time by which entries expire.
    pub(crate) time: Arc<MarkedTime>,
    /// Where jobs are noted.
    pub(crate) activity: Activity,
}

/// A segment's file, opened and looked at, before anything is changed.
struct Found {
    number: u64,
    path: PathBuf,
    file: Arc<dyn File>,
    map: Arc<dyn Map>,
    header: FileHeader,
    /// The manifest says that it is sealed.
    is_named_sealed: bool,
    dead_bytes: u64,
    marker_bytes: u64,
    state: State,
}

enum State {
    Sealed(Footer),
    Unsealed(Scanned),
}

/// What is to become of the files once all checks have passed.
#[derive(Default)]
struct Plan {
    keep: Vec<Found>,
    remove: Vec<PathBuf>,
}

/// Where the journal tears off: what is missing, and where.
struct Tear {
    path: PathBuf,
    offset: u64,
    missing_sequence: u64,
    what: String,
}

impl Journal {
    /// Opens the journal that goes with `manifest`, cuts a torn tail off, and leaves every segment
    /// sealed and everything on the medium.
    pub(crate) fn open(
        setting: JournalSetting,
        manifest: &Manifest,
    ) -> Result<(Journal, Appender)> {
        let recovery = Recovery {
            file_system: &*setting.file_system,
            directory: &setting.directory,
            manifest,
            store_seed: checksum_seed(&[manifest.store_identity]),
            boot_identity: setting.file_system.boot_identity(),
        };
        let (names, mut remove) = recovery.list()?;
        let highest_number = names.last().copied().unwrap_or(0);
        let found = recovery.find(&names, &mut remove)?;
        let found = recovery.without_replaced(found, &mut remove);
        let mut plan = recovery.judge(found)?;
        plan.remove.append(&mut remove);
        let segments = recovery.carry_out(plan)?;
        let last_sequence = segments
            .last()
            .and_then(|segment| segment.footer())
            .map_or(manifest.flushed_sequence, |footer| footer.last_sequence);
        let journal = Journal {
            store_identity: manifest.store_identity,
            store_seed: recovery.store_seed,
            boot_identity: recovery.boot_identity,
            file_system: setting.file_system,
            directory: setting.directory,
            clock: setting.clock,
            time: setting.time,
            activity: setting.activity,
            segment_size_bytes: setting.segment_size_bytes,
            segment_records_max: setting.segment_records_max,
            slow_reads: AtomicU32::new(0),
            slow_turns: AtomicU32::new(0),
            disk_files: Arc::default(),
            gone: Arc::default(),
            segments: ArcSwap::from_pointee(SegmentList::of(segments)),
            segments_change: Mutex::new(()),
            books: Mutex::default(),
            collection: super::collect::CollectionCounters::default(),
            next_number: AtomicU64::new(highest_number + 1),
            appended: AtomicU64::new(last_sequence),
            durable: AtomicU64::new(last_sequence),
            syncs: AtomicU64::new(0),
            prefers_large: AtomicBool::new(false),
            waits: super::sync::WaitTimes::default(),
            syncing: Mutex::new(SyncTimes::default()),
            poison: OnceLock::new(),
            roller: Mutex::new(RollerState::default()),
            roller_changed: Condvar::new(),
            waiters: Mutex::new(Waiters::default()),
            waiters_changed: Condvar::for_work(),
        };
        Ok((journal, Appender::after(last_sequence)))
    }
}

impl Found {
    fn span(&self) -> Span {
        let first_sequence = self.header.first_sequence;
        let (last_sequence, is_collected) = match &self.state {
            State::Sealed(footer) => (footer.last_sequence, footer.clean_sequence().is_some()),
            State::Unsealed(scanned) => {
                ((first_sequence + scanned.places.len() as u64).saturating_sub(1), false)
            }
        };
        Span { number: self.number, first_sequence, last_sequence, is_collected }
    }
}

struct Recovery<'a> {
    file_system: &'a dyn FileSystem,
    directory: &'a Path,
    manifest: &'a Manifest,
    store_seed: u32,
    boot_identity: [u8; 16],
}

impl Recovery<'_> {
    fn folder(&self) -> PathBuf {
        self.directory.join(JOURNAL_FOLDER)
    }

    /// The numbers of the segments there are, ascending, and the files that were being written.
    fn list(&self) -> Result<(Vec<u64>, Vec<PathBuf>)> {
        let folder = self.folder();
        let names = self.file_system.list(&folder);
        let names = names.map_err(|error| Error::io("list", &folder, error))?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment_number(name)).collect();
        numbers.sort_unstable();
        let unfinished = names.iter().filter(|name| name.ends_with(".new"));
        Ok((numbers, unfinished.map(|name| folder.join(name)).collect()))
    }

    /// What the manifest says of segment `number`.
    fn facts(&self, number: u64) -> Option<&SegmentFacts> {
        self.manifest.segments.iter().find(|facts| facts.number == number)
    }

    /// Opens the segments, and puts those that were never begun on the list to `remove`.
    fn find(&self, numbers: &[u64], remove: &mut Vec<PathBuf>) -> Result<Vec<Found>> {
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
            let open = |number| SegmentEnds::open(self.file_system, self.directory, number);
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

    /// Looks at a segment; `None` if it was never begun.
    fn look_at(&self, segment: SegmentEnds) -> Result<Option<Found>> {
        let SegmentEnds { number, path, file, length } = segment;
        let failed = |error| Error::io("open", &path, error);
        let facts = self.facts(number);
        let is_named_sealed = facts.is_some_and(|facts| facts.last_sequence != 0);
        let mut header = [0; FILE_HEADER_LENGTH];
        if length >= FILE_HEADER_LENGTH as u64 {
            file.read_exact_at(&mut header, 0).map_err(failed)?;
        }
        if header == [0; FILE_HEADER_LENGTH] && !is_named_sealed {
            return Ok(None);
        }
        let identity = self.manifest.store_identity;
        let header =
            FileHeader::decode_expected(&header, FileKind::Journal, identity, number, &path)?;
        if header.first_sequence == 0 && !is_named_sealed {
            return Ok(None);
        }
        let map = file.map(length, MapMode::Read).map_err(failed)?;
        let first = header.first_sequence;
        let state = match decode_footer(map.bytes(), identity, number, first) {
            Ok(footer) => State::Sealed(footer),
            Err(NoFooter::Unsealed | NoFooter::Damaged) if !is_named_sealed => {
                State::Unsealed(scan_records(map.bytes(), self.store_seed, first))
            }
            Err(_) => return Err(Error::corruption(&path, length, "the footer is damaged")),
        };
        let (dead_bytes, marker_bytes) =
            facts.map_or((0, 0), |facts| (facts.dead_bytes, facts.marker_bytes));
        Ok(Some(Found {
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

    /// Leaves out, and puts on the list to `remove`, what a collection left behind when the process
    /// ended: segments that others stand for. The rest comes back in order of the sequence.
    fn without_replaced(&self, found: Vec<Found>, remove: &mut Vec<PathBuf>) -> Vec<Found> {
        let spans: Vec<Span> = found.iter().map(Found::span).collect();
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

    /// Walks along the sequence to its end, and decides what is kept.
    fn judge(&self, found: Vec<Found>) -> Result<Plan> {
        let flushed = self.manifest.flushed_sequence;
        let named_first = self.manifest.segments.iter().map(|facts| facts.first_sequence).min();
        let mut expected = named_first.unwrap_or(flushed + 1);
        let mut plan = Plan::default();
        let mut tear = Tear {
            path: self.folder(),
            offset: 0,
            missing_sequence: expected,
            what: "no segment holds the sequence number".to_owned(),
        };
        let mut rest = found.into_iter().peekable();
        while let Some(segment) = rest.next_if(|next| next.header.first_sequence == expected) {
            match &segment.state {
                State::Sealed(footer) => {
                    self.check_sealed(&segment, footer)?;
                    expected = footer.last_sequence + 1;
                    tear.offset = footer.offset;
                    tear.missing_sequence = expected;
                    tear.what = "the segment that should follow is missing".to_owned();
                }
                State::Unsealed(scanned) => {
                    expected += scanned.places.len() as u64;
                    tear.offset = scanned.tear;
                    tear.missing_sequence = scanned.missing_sequence;
                    tear.what = scanned.damage.text().to_owned();
                }
            }
            tear.path.clone_from(&segment.path);
            let is_torn = match &segment.state {
                State::Sealed(_) => false,
                State::Unsealed(_) => {
                    rest.peek().is_none_or(|next| next.header.first_sequence != expected)
                }
            };
            if is_torn {
                self.check_behind(&segment, &tear)?;
            }
            plan.keep.push(segment);
        }
        for dropped in rest {
            self.check_dropped(&dropped, &tear)?;
            plan.remove.push(dropped.path);
        }
        if expected <= flushed {
            return Err(tear.corruption(&format!("sequence {flushed} is in the ledger already")));
        }
        Ok(plan)
    }

    /// Checks the records of a sealed segment that are to be replayed: what a sealed segment holds
    /// had been safe.
    fn check_sealed(&self, segment: &Found, footer: &Footer) -> Result<()> {
        let first = (self.manifest.flushed_sequence + 1).max(segment.header.first_sequence);
        if first > footer.last_sequence {
            return Ok(());
        }
        let reader = self.reader(segment, *footer);
        for (sequence, offset) in reader.entries().filter(|(sequence, _)| *sequence >= first) {
            let record = reader.record_at(offset)?;
            if record.sequence != sequence {
                let what = format!("expected sequence {sequence}, found {}", record.sequence);
                return Err(Error::corruption(&segment.path, offset, what));
            }
        }
        Ok(())
    }

    /// Looks behind the tear in the segment that it is in.
    fn check_behind(&self, segment: &Found, tear: &Tear) -> Result<()> {
        let same_boot = self.is_same_boot(segment);
        let (bytes, missing) = (segment.map.bytes(), tear.missing_sequence);
        match find_stray(bytes, self.store_seed, tear.offset, missing, same_boot) {
            None => Ok(()),
            Some(stray) => Err(tear.corruption(&stray_text(&segment.path, stray))),
        }
    }

    /// Looks whether a segment behind the tear shows that the missing record had been safe.
    fn check_dropped(&self, dropped: &Found, tear: &Tear) -> Result<()> {
        let path = &dropped.path;
        if let State::Sealed(footer) = &dropped.state {
            let last = footer.last_sequence;
            let why = format!("{} is sealed up to sequence {last}", path.display());
            return Err(tear.corruption(&why));
        }
        let same_boot = self.is_same_boot(dropped);
        let (bytes, missing) = (dropped.map.bytes(), tear.missing_sequence);
        let start = FILE_HEADER_LENGTH as u64;
        match find_stray(bytes, self.store_seed, start, missing, same_boot) {
            None => Ok(()),
            Some(stray) => Err(tear.corruption(&stray_text(path, stray))),
        }
    }

    fn is_same_boot(&self, segment: &Found) -> bool {
        self.boot_identity != [0; 16] && segment.header.boot_identity == self.boot_identity
    }

    fn reader(&self, found: &Found, footer: Footer) -> Segment {
        let shared = SegmentFile {
            number: found.number,
            path: found.path.clone(),
            file: HeldFile::closed(),
            disk_file: OnceLock::new(),
            gone: Gone::default(),
            map: Arc::clone(&found.map).into(),
            store_seed: self.store_seed,
            has_long_headers: found.header.has_long_headers(),
            dead_bytes: AtomicU64::new(found.dead_bytes),
            marker_bytes: AtomicU64::new(found.marker_bytes),
            is_synced: AtomicBool::new(true),
            is_large: AtomicBool::new(false),
        };
        Segment::sealed(Arc::new(shared), found.header.first_sequence, footer)
    }

    /// Removes what is dropped, seals what was not sealed, and makes both durable.
    fn carry_out(&self, mut plan: Plan) -> Result<Vec<Arc<Segment>>> {
        let is_empty = |found: &Found| match &found.state {
            State::Sealed(_) => false,
            State::Unsealed(scanned) => scanned.places.is_empty(),
        };
        plan.keep.retain(|found| {
            let keep = !is_empty(found);
            if !keep {
                plan.remove.push(found.path.clone());
            }
            keep
        });
        let has_removed = !plan.remove.is_empty();
        for path in &plan.remove {
            let removed = self.file_system.remove(path);
            removed.map_err(|error| Error::io("remove", path, error))?;
        }
        if has_removed {
            let folder = self.folder();
            let synced = self.file_system.sync_directory(&folder);
            synced.map_err(|error| Error::io("sync", &folder, error))?;
        }
        plan.keep.into_iter().map(|found| self.settle(found).map(Arc::new)).collect()
    }

    /// Makes a kept segment a sealed one on the medium.
    fn settle(&self, mut found: Found) -> Result<Segment> {
        let failed = |error| Error::io("seal", &found.path, error);
        let footer = match &found.state {
            State::Sealed(footer) => {
                if !found.is_named_sealed {
                    found.file.sync().map_err(failed)?;
                }
                let length = found.map.length() as u64;
                found.map = found.file.map(length, MapMode::ReadRandom).map_err(failed)?;
                *footer
            }
            State::Unsealed(scanned) => {
                let first = found.header.first_sequence;
                let identity = self.manifest.store_identity;
                let places = scanned.places.iter().copied();
                let footer = encode_footer(identity, found.number, first, scanned.end, places);
                let length = scanned.end + footer.len() as u64;
                // The records become durable before the footer that vouches for them.
                found.file.sync().map_err(failed)?;
                found.file.write_all_at(&footer, scanned.end).map_err(failed)?;
                found.file.set_length(length).map_err(failed)?;
                found.file.sync().map_err(failed)?;
                found.map = found.file.map(length, MapMode::ReadRandom).map_err(failed)?;
                decode_footer(found.map.bytes(), identity, found.number, first).map_err(|_| {
                    Error::corruption(&found.path, scanned.end, "the new footer reads back wrong")
                })?
            }
        };
        Ok(self.reader(&found, footer))
    }
}

impl Tear {
    fn corruption(&self, why: &str) -> Error {
        let what =
            format!("sequence {} is missing ({}), yet {why}", self.missing_sequence, self.what);
        Error::corruption(&self.path, self.offset, what)
    }
}

fn stray_text(path: &Path, stray: super::scan::Stray) -> String {
    let kind = match stray.marked_sequence {
        Some(_) => "a sync mark",
        None => "a valid record",
    };
    format!("{kind} follows in {} at offset {}", path.display(), stray.offset)
}
