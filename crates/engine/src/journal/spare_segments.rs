//! Spare segments: the next segments are prepared off the write path.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pellucid_clock::Ticks;
use pellucid_thread::{Condvar, JoinHandle, Mutex, MutexGuard, start_job};

use super::base::JournalBase;
use super::files::SEGMENTS;
use super::room::{Purpose, SegmentPlan, SegmentRoom, SpaceLevel};
use super::segment::SegmentFile;
use crate::error::{Error, Result};
use crate::jobs;

/// The name of the thread.
const PREPARE_THREAD: &str = "pellucid-journal";
/// The most spare segments, usually and while segments fill quickly. A segment then lasts for 30
/// ms, and the medium may take five times as long to make the next one durable.
const SPARES_USUAL_MAX: usize = 2;
const SPARES_QUICK_MAX: usize = 4;
/// Segments fill quickly if the last one took less than this, in nanoseconds: spare ones are then
/// full long before the system would write them back by itself.
const QUICK_ROLL_NS: u64 = 1_000_000_000;
/// The longest time that a writer waits for the thread.
const SPARE_WAIT_MAX: Duration = Duration::from_secs(60);
/// Bytes of a segment whose pages are brought into memory at a time: a large page, which the kernel
/// allocates without yielding the processor. Between two pieces, a segment that is wanted is made
/// first.
const BRING_IN_PIECE_BYTES: usize = 2 << 20;

/// The spare segments, and the work of the thread.
#[derive(Default)]
struct State {
    /// The segments prepared for the next roll-overs, by ascending number.
    ready: VecDeque<Arc<SegmentFile>>,
    /// True if one more segment is to be made.
    is_wanted: bool,
    /// True if one is being made; it already has its number, so no other segment may be used before
    /// it.
    is_making: bool,
    is_running: bool,
    is_stopping: bool,
    /// The time at which the last segment was begun.
    rolled_at: Option<Ticks>,
    /// True if it was begun soon after the one before.
    is_quick: bool,
}

/// The file of a segment that was taken for a batch, and the room that there was for it.
pub(super) struct AllocatedSegment {
    pub(super) file: Arc<SegmentFile>,
    pub(super) space: SpaceLevel,
}

/// The spare segments, and the thread that prepares them.
pub(super) struct SpareSegments {
    base: JournalBase,
    room: Arc<SegmentRoom>,
    /// True if the next segment is to have large pages.
    prefers_large: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

impl SpareSegments {
    pub(super) fn new(base: JournalBase, room: Arc<SegmentRoom>) -> SpareSegments {
        SpareSegments {
            base,
            room,
            prefers_large: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Takes the file of a segment of at least `needed_bytes`: a spare one if it is large enough,
    /// and if the reserve is free or may be used.
    pub(super) fn take(&self, needed_bytes: u64, purpose: Purpose) -> Result<AllocatedSegment> {
        if let Some(file) = self.take_ready()? {
            let keeps_reserve = self.room.keeps_reserve();
            let may_take = keeps_reserve || purpose == Purpose::Deletes;
            if may_take && file.map.length() as u64 >= needed_bytes {
                let space = if keeps_reserve { SpaceLevel::Ample } else { SpaceLevel::Reserved };
                return Ok(AllocatedSegment { file, space });
            }
            self.base.files.remove(&file.path);
        }
        // Their numbers are lower than that of the new segment.
        self.remove_all()?;
        let made = self.make(needed_bytes, purpose);
        made.inspect_err(|_| self.room.note_refused(needed_bytes))
    }

    /// Makes the file of a segment of at least `needed_bytes`, if there is room.
    fn make(&self, needed_bytes: u64, purpose: Purpose) -> Result<AllocatedSegment> {
        let SegmentPlan { size_bytes, space } = self.room.plan(needed_bytes, purpose)?;
        let is_more = size_bytes > needed_bytes;
        match self.base.files.make(size_bytes) {
            // Another program took the room meanwhile, or the disk has a quota that it does not
            // report.
            Err(Error::DiskFull { .. }) if purpose == Purpose::Deletes && is_more => {
                let file = self.base.files.make(needed_bytes)?;
                Ok(AllocatedSegment { file, space: SpaceLevel::Reserved })
            }
            made => made.map(|file| AllocatedSegment { file, space }),
        }
    }

    /// Removes all spares.
    pub(super) fn remove_all(&self) -> Result<()> {
        while let Some(spare) = self.take_ready()? {
            self.base.files.remove(&spare.path);
        }
        Ok(())
    }

    /// Takes the next spare, and waits for it if it is being made; `None` if there is none and none
    /// is being made.
    fn take_ready(&self) -> Result<Option<Arc<SegmentFile>>> {
        let mut state = self.state.lock();
        while state.ready.is_empty() && state.is_making {
            self.base.sync.check_poison()?;
            let wait;
            (state, wait) = self.changed.wait_timeout(state, SPARE_WAIT_MAX);
            if wait.timed_out() {
                let late = io::Error::from(io::ErrorKind::TimedOut);
                return Err(Error::io("prepare a segment in", self.base.files.directory(), late));
            }
        }
        let spare = state.ready.pop_front();
        // A writer that finds no spare makes the next segment itself.
        state.is_wanted &= spare.is_some();
        Ok(spare)
    }

    /// Removes all spares except the first `kept`.
    pub(super) fn give_up(&self, kept: usize) {
        let mut state = self.state.lock();
        if !state.is_making && state.ready.len() > kept {
            state.is_wanted = false;
            let given_up = state.ready.split_off(kept);
            drop(state);
            given_up.iter().for_each(|spare| self.base.files.remove(&spare.path));
        }
    }

    /// Notes that a segment was begun, and requests that the next one is prepared.
    pub(super) fn note_roll(&self) {
        let now = self.base.clock.now();
        let mut state = self.state.lock();
        let last = state.rolled_at.replace(now);
        state.is_quick =
            last.is_some_and(|last| self.base.clock.nanoseconds(now.since(last)) < QUICK_ROLL_NS);
        drop(state);
        self.want();
    }

    /// Requests one more spare, unless there are enough.
    pub(super) fn want(&self) {
        let mut state = self.state.lock();
        let spares_max = if state.is_quick { SPARES_QUICK_MAX } else { SPARES_USUAL_MAX };
        if state.is_running && state.ready.len() + usize::from(state.is_making) < spares_max {
            state.is_wanted = true;
            self.changed.notify_all();
        }
    }

    /// Sets whether the next segments are to have large pages.
    pub(super) fn prefer_large(&self, prefers_large: bool) {
        self.prefers_large.store(prefers_large, Ordering::Relaxed);
    }

    /// Starts the thread.
    pub(super) fn start_thread(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let spares = Arc::clone(self);
        let thread = pellucid_thread::spawn(PREPARE_THREAD, move || spares.prepare())?;
        self.state.lock().is_running = true;
        Ok(thread)
    }

    /// Asks the thread to end.
    pub(super) fn stop_thread(&self) {
        self.state.lock().is_stopping = true;
        self.changed.notify_all();
    }

    /// Prepares the segments that are wanted, until it is asked to end: makes their files, and then
    /// brings their pages into memory. Populating pages, large ones above all, takes milliseconds
    /// if memory is full, and writes should not wait for that.
    fn prepare(&self) {
        let _job = start_job(&SEGMENTS);
        let mut noted = None;
        // Segments whose pages are being brought in, each with the offset reached so far. A segment
        // may meanwhile have been taken by a writer.
        let mut arriving: VecDeque<(Arc<SegmentFile>, usize)> = VecDeque::new();
        let mut state = self.state.lock();
        while !state.is_stopping {
            if !state.is_wanted && arriving.is_empty() {
                noted = None;
                state = self.changed.wait_for_work(state);
                continue;
            }
            noted.get_or_insert_with(|| self.base.activity.begin(jobs::SEGMENT, self.base.clock));
            if state.is_wanted {
                let made;
                (state, made) = self.make_one(state);
                arriving.extend(made.map(|made| (made, 0)));
                continue;
            }
            let is_quick = state.is_quick;
            drop(state);
            if let Some((segment, offset)) = arriving.front_mut() {
                bring_in(segment, *offset, is_quick);
                *offset += BRING_IN_PIECE_BYTES;
            }
            arriving.retain(|(segment, offset)| *offset < segment.map.length());
            state = self.state.lock();
        }
    }

    /// Makes the wanted spare, unless it would take from the reserve. Returns it if it has large
    /// pages, which are worth bringing in.
    fn make_one<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, Option<Arc<SegmentFile>>) {
        (state.is_wanted, state.is_making) = (false, true);
        drop(state);
        let made = self.room.spare_bytes().and_then(|bytes| self.base.files.make(bytes).ok());
        let is_large = made.as_ref().is_some_and(|made| {
            self.prefers_large.load(Ordering::Relaxed) && made.prefer_large_pages()
        });
        let mut state = self.state.lock();
        // A writer that finds no spare makes a segment itself, and reports the error if that fails.
        state.is_making = false;
        state.ready.extend(made.clone());
        self.changed.notify_all();
        (state, made.filter(|_| is_large))
    }
}

/// Brings a piece of a segment's pages into memory. If the segment is used soon, the pages are also
/// made ready for writing; otherwise the system would write the clean pages back, and then again.
fn bring_in(segment: &SegmentFile, offset: usize, is_quick: bool) {
    if is_quick {
        segment.map.prefault(offset, BRING_IN_PIECE_BYTES);
    } else {
        segment.map.bring_in(offset, BRING_IN_PIECE_BYTES);
    }
}
