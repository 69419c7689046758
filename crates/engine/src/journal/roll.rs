//! Rolling over: the next segment is prepared off the write path; [`super::seal`] has what becomes
//! of the last one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_clock::Ticks;
use pellucid_io::{File, MapMode};
use pellucid_thread::{Job, MutexGuard, start_job};

use super::append::{Active, Appender};
use super::footer::PLACE_LENGTH;
use super::gone::Gone;
use super::seal::SEALING_MAX;
use super::segment::{HeldFile, JOURNAL_FOLDER, Segment, SegmentFile, segment_path};
use super::{Journal, lock};
use crate::codec::{FileHeader, FileKind};
use crate::error::{Error, Result};
use crate::jobs;

/// The names of the threads that prepare and seal segments.
const PREPARE_THREAD: &str = "pellucid-journal";
const SEAL_THREAD: &str = "pellucid-seal";
/// What both of them work at.
pub(super) static SEGMENTS: Job = Job::new("segments");
/// Segments that are made ahead of their use, and where they are filled quickly: then one lasts for
/// 30 ms, and the medium has been seen to take five times as long to make the next one durable.
const SPARES_USUAL_MAX: usize = 2;
const SPARES_QUICK_MAX: usize = 4;
/// Segments are filled quickly if the last one was in less than this, in nanoseconds: those that
/// are ready are full long before the system would write what is in them by itself.
const QUICK_ROLL_NS: u64 = 1_000_000_000;
/// How long a writer waits for these threads before it says so.
const ROLL_WAIT_MAX: Duration = Duration::from_secs(60);
/// Segments below it are not worth large pages, in bytes.
const LARGE_SEGMENT_MIN_BYTES: usize = 8 << 20;
/// So much of a segment's end has no large pages, in bytes: what is around the footer is synced
/// twice.
const LARGE_PAGES_SPARED_BYTES: usize = 2 << 20;
/// A segment is this share of the journal, between the limits: one that is being written and those
/// that are ready take their space before it is used, and a large share would be felt.
const SEGMENT_SHARE: u64 = 128;
/// The smallest segment, in bytes, unless the setting is below.
const SEGMENT_SIZE_USUAL_MIN_BYTES: u64 = 16 << 20;
/// Sizes are multiples of this, in bytes: a large page.
const SEGMENT_SIZE_STEP_BYTES: u64 = 2 << 20;
/// The shortest record takes this much with its place: header, table number, one byte of key.
const RECORD_WITH_PLACE_MIN: u64 = 32 + PLACE_LENGTH;
/// Bytes of a segment that are brought into memory in one go: a large page, for which the system
/// does not let others have the processor. Between two, a segment that is wanted is made first.
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
    pub(super) to_seal: VecDeque<Active>,
    /// Whether a seal is under way.
    pub(super) is_sealing: bool,
    pub(super) is_running: bool,
    pub(super) is_stopping: bool,
    /// When the last segment was begun.
    rolled_at: Option<Ticks>,
    /// Whether that was soon after the one before.
    is_quick: bool,
}

impl SegmentFile {
    /// Asks for large pages, and says whether they are worth it.
    pub(super) fn prefer_large_pages(&self) -> bool {
        let is_large = self.map.length() >= LARGE_SEGMENT_MIN_BYTES;
        if is_large {
            self.map.prefer_large_pages(self.map.length() - LARGE_PAGES_SPARED_BYTES);
            // Otherwise the system makes two of them at a time, which takes it twice as long.
            self.map.expect_random();
            self.is_large.store(true, Ordering::Relaxed);
        }
        is_large
    }

    /// Brings a piece of the pages into memory, ready to be written to where they will be soon.
    /// Where they will not, the system would write them as they are, and then again.
    fn bring_in(&self, offset: usize, is_quick: bool) {
        if is_quick {
            self.map.prefault(offset, BRING_IN_PIECE_BYTES);
        } else {
            self.map.bring_in(offset, BRING_IN_PIECE_BYTES);
        }
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
        self.note_roll();
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
    pub(super) fn take_spare(&self) -> Result<Option<Arc<SegmentFile>>> {
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

    /// Removes the spares, whose space nobody uses: all of them, if there is time to make others
    /// before they are needed, and all but the next one otherwise. Under the writer lock.
    pub(crate) fn give_up_spares(&self, appender: &Appender) {
        let kept = usize::from(!appender.lasts());
        let mut roller = lock(&self.roller);
        if !roller.is_making && roller.spares.len() > kept {
            roller.is_wanted = false;
            let given_up = roller.spares.split_off(kept);
            drop(roller);
            for spare in given_up {
                self.discard(&spare);
            }
        }
    }

    /// Notes that a segment was begun.
    fn note_roll(&self) {
        let now = self.clock.now();
        let mut roller = lock(&self.roller);
        let last = roller.rolled_at.replace(now);
        roller.is_quick =
            last.is_some_and(|last| self.clock.nanoseconds(now.since(last)) < QUICK_ROLL_NS);
    }

    /// Has one more segment prepared, unless there are enough.
    pub(super) fn want_spare(&self) {
        let mut roller = lock(&self.roller);
        let spares_max = if roller.is_quick { SPARES_QUICK_MAX } else { SPARES_USUAL_MAX };
        if roller.is_running && roller.spares.len() + usize::from(roller.is_making) < spares_max {
            roller.is_wanted = true;
            self.roller_changed.notify_all();
        }
    }

    /// Removes a segment in which nothing was written. Should that fail, the next opening does it.
    pub(super) fn discard(&self, shared: &SegmentFile) {
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
                gone: Gone::default(),
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
            let is_quick = roller.is_quick;
            drop(roller);
            if let Some((segment, offset)) = arriving.front_mut() {
                segment.bring_in(*offset, is_quick);
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
}
