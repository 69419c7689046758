//! Rolling over: the next segment is prepared and the last one sealed off the write path.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_io::{File, MapMode};
use pellucid_thread::{Job, MutexGuard, start_job};

use super::append::{Active, Appender};
use super::footer::{PLACE_LENGTH, decode_footer, encode_footer};
use super::segment::{HeldFile, JOURNAL_FOLDER, Segment, SegmentFile, segment_path};
use super::{Journal, lock};
use crate::codec::{FileHeader, FileKind};
use crate::error::{Error, Result};
use crate::jobs;

/// The names of the threads that prepare and seal segments.
const PREPARE_THREAD: &str = "pellucid-journal";
const SEAL_THREAD: &str = "pellucid-seal";
/// What both of them work at.
static SEGMENTS: Job = Job::new("segments");
/// Segments that are made ahead of their use. One is filled in 50 ms where writers are fastest, and
/// the medium has been seen to take three times as long to make the next one durable.
const SPARES_MAX: usize = 2;
/// Segments that may wait for their seal before writers wait too.
const SEALING_MAX: usize = 8;
/// How long a writer waits for these threads before it says so.
const ROLL_WAIT_MAX: Duration = Duration::from_secs(60);
/// Segments below it are not worth large pages, in bytes.
const LARGE_SEGMENT_MIN_BYTES: usize = 8 << 20;
/// So much of a segment's end has no large pages, in bytes: what is around the footer is synced
/// twice.
const LARGE_PAGES_SPARED_BYTES: usize = 2 << 20;
/// A segment is this share of the journal, between the limits: one that is being written and one
/// that is ready for it take their space before it is used, and a large share would be felt.
const SEGMENT_SHARE: u64 = 128;
/// The smallest segment, in bytes, unless the setting is below.
const SEGMENT_SIZE_USUAL_MIN_BYTES: u64 = 16 << 20;
/// Sizes are multiples of this, in bytes: a large page.
const SEGMENT_SIZE_STEP_BYTES: u64 = 2 << 20;
/// The shortest record takes this much with its place: header, table number, one byte of key.
const RECORD_WITH_PLACE_MIN: u64 = 32 + PLACE_LENGTH;
/// Bytes of a segment that are brought into memory in one go: a large page. Between two, a segment
/// that is wanted is made first.
const BRING_IN_PIECE_BYTES: usize = 2 << 20;

/// What the threads have to do and have done.
#[derive(Default)]
pub(super) struct RollerState {
    /// The segments prepared for the next roll-overs, in the order of their numbers.
    spares: VecDeque<Arc<SegmentFile>>,
    /// Whether one more is to be made.
    is_wanted: bool,
    /// Whether one is being made; its number is taken, so no other segment may come before it.
    is_making: bool,
    to_seal: VecDeque<Active>,
    /// Whether a seal is under way.
    is_sealing: bool,
    is_running: bool,
    is_stopping: bool,
}

impl SegmentFile {
    /// Asks for large pages, and says whether they are worth it.
    pub(super) fn prefer_large_pages(&self) -> bool {
        let is_large = self.map.length() >= LARGE_SEGMENT_MIN_BYTES;
        if is_large {
            self.map.prefer_large_pages(self.map.length() - LARGE_PAGES_SPARED_BYTES);
            self.is_large.store(true, Ordering::Relaxed);
        }
        is_large
    }
}

impl Journal {
    /// Begins a segment of at least `needed_bytes` and at least `records` places, with a spare if
    /// that is large enough.
    pub(super) fn begin_segment(
        &self,
        needed_bytes: u64,
        records: u64,
        first: u64,
    ) -> Result<Arc<Segment>> {
        let size_bytes = || needed_bytes.max(self.usual_segment_size_bytes());
        let shared = match self.take_spare()? {
            Some(spare) if spare.map.length() as u64 >= needed_bytes => spare,
            Some(small) => {
                self.discard(&small);
                // Theirs are lower numbers than that of the one that is made now.
                while let Some(spare) = self.take_spare()? {
                    self.discard(&spare);
                }
                self.make_segment_file(size_bytes())?
            }
            None => self.make_segment_file(size_bytes())?,
        };
        let header = self.header(shared.number, first).encode();
        // SAFETY: the map is writable and longer than a header, and nobody else knows it yet.
        unsafe {
            std::ptr::copy_nonoverlapping(header.as_ptr(), shared.map.pointer(), header.len());
        }
        let possible = shared.map.length() as u64 / RECORD_WITH_PLACE_MIN + 1;
        let places = possible.min(self.segment_records_max.max(records));
        let segment = Arc::new(Segment::growing(shared, first, places as usize));
        self.change_segments(|segments| segments.push(Arc::clone(&segment)));
        self.want_spare();
        Ok(segment)
    }

    /// The size of the next segment, if no batch needs a larger one.
    pub(super) fn usual_segment_size_bytes(&self) -> u64 {
        let segments = self.segments();
        let journal_bytes: u64 = segments.segments.iter().map(|s| s.facts().size_bytes).sum();
        let share = (journal_bytes / SEGMENT_SHARE).next_multiple_of(SEGMENT_SIZE_STEP_BYTES);
        share.max(SEGMENT_SIZE_USUAL_MIN_BYTES).min(self.segment_size_bytes)
    }

    fn header(&self, number: u64, first_sequence: u64) -> FileHeader {
        FileHeader {
            first_sequence,
            boot_identity: self.boot_identity,
            ..FileHeader::new(FileKind::Journal, self.store_identity, number)
        }
    }

    /// The next spare, once it is no longer being made; `None` if there is none, and none will be
    /// made.
    fn take_spare(&self) -> Result<Option<Arc<SegmentFile>>> {
        let mut roller = lock(&self.roller);
        while (roller.spares.is_empty() && roller.is_making) || roller.to_seal.len() >= SEALING_MAX
        {
            self.check_poison()?;
            let (state, wait) = self
                .roller_changed
                .wait_timeout(roller, ROLL_WAIT_MAX)
                .unwrap_or_else(PoisonError::into_inner);
            roller = state;
            if wait.timed_out() {
                let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
                return Err(Error::io("prepare a segment in", &self.directory, late));
            }
        }
        let spare = roller.spares.pop_front();
        // Whoever finds none makes one, and that is the next.
        roller.is_wanted &= spare.is_some();
        Ok(spare)
    }

    /// Removes the spares, whose space nobody uses, if there is time to make others before they are
    /// needed. Under the writer lock.
    pub(crate) fn give_up_spares(&self, appender: &Appender) {
        let mut roller = lock(&self.roller);
        if appender.lasts() && !roller.is_making {
            roller.is_wanted = false;
            let spares = std::mem::take(&mut roller.spares);
            drop(roller);
            for spare in spares {
                self.discard(&spare);
            }
        }
    }

    /// Has one more segment prepared, unless there are enough.
    pub(super) fn want_spare(&self) {
        let mut roller = lock(&self.roller);
        if roller.is_running && roller.spares.len() + usize::from(roller.is_making) < SPARES_MAX {
            roller.is_wanted = true;
            self.roller_changed.notify_all();
        }
    }

    /// Removes a segment in which nothing was written. Should that fail, the next opening does it.
    fn discard(&self, shared: &SegmentFile) {
        let _ = self.file_system.remove(&shared.path);
    }

    /// Makes a segment's file with a header that says that it is not begun. Its name and its space
    /// are durable before it is used.
    fn make_segment_file(&self, size_bytes: u64) -> Result<Arc<SegmentFile>> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let path = segment_path(&self.directory, number);
        let make = || {
            let file = self.file_system.create(&path)?;
            file.allocate(size_bytes)?;
            file.write_all_at(&self.header(number, 0).encode(), 0)?;
            file.sync()?;
            self.file_system.sync_directory(&self.directory.join(JOURNAL_FOLDER))?;
            let map = file.map(size_bytes, MapMode::Write)?;
            Ok((file, map))
        };
        let made: std::io::Result<(Arc<dyn File>, _)> = make();
        match made {
            Ok((file, map)) => Ok(Arc::new(SegmentFile {
                number,
                path,
                file: HeldFile::open(file),
                disk_file: OnceLock::new(),
                map: map.into(),
                store_seed: self.store_seed,
                has_long_headers: false,
                dead_bytes: AtomicU64::new(0),
                marker_bytes: AtomicU64::new(0),
                is_synced: AtomicBool::new(false),
                is_large: AtomicBool::new(false),
            })),
            Err(error) => {
                let _ = self.file_system.remove(&path);
                Err(Error::io("make a segment", &path, error))
            }
        }
    }

    /// Gives a full segment to the thread that seals, or seals it here if there is none.
    pub(super) fn hand_over_for_sealing(&self, full: Active) -> Result<()> {
        let mut roller = lock(&self.roller);
        if !roller.is_running {
            drop(roller);
            return self.seal(&full);
        }
        roller.to_seal.push_back(full);
        drop(roller);
        self.roller_changed.notify_all();
        Ok(())
    }

    /// Seals a segment: its records become durable, then the footer is written into the space
    /// reserved for it, the rest is given back, and that becomes durable.
    fn seal(&self, full: &Active) -> Result<()> {
        self.check_poison()?;
        let shared = &full.segment.shared;
        if full.count == 0 {
            self.change_segments(|segments| {
                segments.retain(|segment| segment.shared.number != shared.number);
            });
            self.discard(shared);
            return Ok(());
        }
        let sealed = self.write_seal(full).map_err(|error| self.poison(&error))?;
        let last = full.segment.first_sequence + full.count - 1;
        self.change_segments(|segments| {
            for segment in segments.iter_mut() {
                if segment.shared.number == shared.number {
                    *segment = Arc::clone(&sealed);
                }
            }
        });
        shared.is_synced.store(true, Ordering::Release);
        shared.file.close();
        self.durable.fetch_max(last, Ordering::AcqRel);
        Ok(())
    }

    fn write_seal(&self, full: &Active) -> Result<Arc<Segment>> {
        let segment = &full.segment;
        let shared = &segment.shared;
        let failed = |error| Error::io("seal", &shared.path, error);
        shared.file.sync().map_err(failed)?;
        let first = segment.first_sequence;
        let places = (0..full.count as usize)
            .map(|index| segment.place(first + index as u64))
            .map(|place| (place.expect("every record has a place") / 8) as u32);
        let footer = encode_footer(self.store_identity, shared.number, first, full.end, places);
        let length = full.end as usize + footer.len();
        assert!(length <= shared.map.length(), "room for the footer was reserved");
        // SAFETY: the range is within the writable map, behind the last record; the writer has
        // given the segment up, and readers look at records only.
        unsafe {
            let target = shared.map.pointer().add(full.end as usize);
            std::ptr::copy_nonoverlapping(footer.as_ptr(), target, footer.len());
        }
        shared.file.set_length(length as u64).map_err(failed)?;
        shared.file.sync().map_err(failed)?;
        // SAFETY: as above; from here on nobody writes to the map.
        let bytes = unsafe { std::slice::from_raw_parts(shared.map.pointer(), length) };
        let footer = decode_footer(bytes, self.store_identity, shared.number, first)
            .expect("the footer was written a moment ago");
        // A GET that misses the page cache would otherwise read what lies around it, too: up to
        // what the disk reads ahead, which may be megabytes.
        shared.map.expect_random();
        Ok(Arc::new(Segment::sealed(Arc::clone(shared), first, footer)))
    }

    /// Starts the threads that prepare and seal segments. They are two, because a seal waits for
    /// the medium, and who writes must not wait for the next segment meanwhile.
    pub(crate) fn start_roll_threads(self: &Arc<Self>) -> Result<[JoinHandle<()>; 2]> {
        let preparing = self.start_roll_thread(PREPARE_THREAD, Journal::prepare_segments)?;
        let sealing = self.start_roll_thread(SEAL_THREAD, Journal::seal_segments)?;
        lock(&self.roller).is_running = true;
        Ok([preparing, sealing])
    }

    fn start_roll_thread(
        self: &Arc<Self>,
        name: &str,
        run: impl FnOnce(&Journal) + Send + 'static,
    ) -> Result<JoinHandle<()>> {
        let journal = Arc::clone(self);
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&journal))
            .map_err(|error| Error::io("start a thread for", &self.directory, error))
    }

    /// Asks for what waits to be sealed, and the threads to end.
    pub(crate) fn stop_roll_threads(&self) {
        lock(&self.roller).is_stopping = true;
        self.roller_changed.notify_all();
    }

    /// Returns once every segment handed over is sealed. A failure has poisoned the journal.
    fn wait_for_seals(&self) -> Result<()> {
        let mut roller = lock(&self.roller);
        while roller.is_sealing || !roller.to_seal.is_empty() {
            self.check_poison()?;
            roller = self.roller_changed.wait(roller).unwrap_or_else(PoisonError::into_inner);
        }
        self.check_poison()
    }

    /// Prepares segments as they are wanted, until it is asked to end: makes their files, and then
    /// brings their pages into memory. Making pages, and large ones above all, takes milliseconds
    /// where memory is full, and a write should not be what waits for it.
    fn prepare_segments(&self) {
        let _job = start_job(&SEGMENTS);
        let mut noted = None;
        // With the offsets up to which they were brought in: the spares, and those that were spares
        // when it began.
        let mut arriving: VecDeque<(Arc<SegmentFile>, usize)> = VecDeque::new();
        let mut roller = lock(&self.roller);
        while !roller.is_stopping {
            if !roller.is_wanted && arriving.is_empty() {
                noted = None;
                let changed = self.roller_changed.wait_for_work(roller);
                roller = changed.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            noted.get_or_insert_with(|| self.activity.begin(jobs::SEGMENT, self.clock));
            if roller.is_wanted {
                let made;
                (roller, made) = self.make_spare(roller);
                arriving.extend(made.map(|made| (made, 0)));
                continue;
            }
            drop(roller);
            if let Some((segment, offset)) = arriving.front_mut() {
                segment.map.bring_in(*offset, BRING_IN_PIECE_BYTES);
                *offset += BRING_IN_PIECE_BYTES;
            }
            arriving.retain(|(segment, offset)| *offset < segment.map.length());
            roller = lock(&self.roller);
        }
    }

    /// Makes the spare that is wanted. Comes back with it if it has large pages, which are worth
    /// being brought in.
    fn make_spare<'a>(
        &'a self,
        mut roller: MutexGuard<'a, RollerState>,
    ) -> (MutexGuard<'a, RollerState>, Option<Arc<SegmentFile>>) {
        (roller.is_wanted, roller.is_making) = (false, true);
        drop(roller);
        let made = self.make_segment_file(self.usual_segment_size_bytes()).ok();
        let is_large = made.as_ref().is_some_and(|made| {
            self.prefers_large.load(Ordering::Relaxed) && made.prefer_large_pages()
        });
        let mut roller = lock(&self.roller);
        // A writer that finds no spare tries for itself, and gets the error to return.
        roller.is_making = false;
        roller.spares.extend(made.clone());
        self.roller_changed.notify_all();
        (roller, made.filter(|_| is_large))
    }

    /// Seals what is handed over, until it is asked to end and nothing waits any more.
    fn seal_segments(&self) {
        let _job = start_job(&SEGMENTS);
        let mut roller = lock(&self.roller);
        loop {
            if let Some(full) = roller.to_seal.pop_front() {
                roller.is_sealing = true;
                drop(roller);
                // A failure has poisoned the journal, which tells everybody.
                let noted = self.activity.begin(jobs::SEGMENT, self.clock);
                let _ = self.seal(&full);
                drop(noted);
                roller = lock(&self.roller);
                roller.is_sealing = false;
                self.roller_changed.notify_all();
            } else if roller.is_stopping {
                return;
            } else {
                let changed = self.roller_changed.wait_for_work(roller);
                roller = changed.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Seals everything that was written so far. Under the writer lock.
    pub(crate) fn seal_active(&self, appender: &mut Appender) -> Result<()> {
        self.wait_for_seals()?;
        appender.take_active().map_or(Ok(()), |active| self.seal(&active))
    }

    /// Seals the active segment and removes the spare, so that the next opening has nothing to
    /// replay. Under the writer lock, for the last time.
    pub(crate) fn close(&self, appender: &mut Appender) -> Result<()> {
        self.seal_active(appender)?;
        while let Some(spare) = self.take_spare()? {
            self.discard(&spare);
        }
        Ok(())
    }
}
