//! Spare segments: the next ones are prepared off the write path.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pellucid_account::Activity;
use pellucid_clock::{Clock, Ticks};
use pellucid_thread::{Condvar, Mutex, MutexGuard, start_job};

use super::files::{SEGMENTS, SegmentFiles};
use super::segment::SegmentFile;
use super::segments::SegmentSet;
use super::sync::GroupSync;
use crate::error::{Error, Result};
use crate::jobs;
use crate::locks::lock;

/// The name of the thread.
const PREPARE_THREAD: &str = "pellucid-journal";
/// Segments that are made ahead of their use, and where they are filled quickly: then one lasts for
/// 30 ms, and the medium has been seen to take five times as long to make the next one durable.
const SPARES_USUAL_MAX: usize = 2;
const SPARES_QUICK_MAX: usize = 4;
/// Segments are filled quickly if the last one was in less than this, in nanoseconds: those that
/// are ready are full long before the system would write them by itself.
const QUICK_ROLL_NS: u64 = 1_000_000_000;
/// How long a writer waits for the thread before it says so.
const SPARE_WAIT_MAX: Duration = Duration::from_secs(60);
/// A segment is this share of the journal, between the limits: one that is being written and those
/// that are ready take their space before it is used, and a large share would be felt.
const SEGMENT_SHARE: u64 = 128;
/// The smallest segment, in bytes, unless the setting is below.
const SEGMENT_SIZE_USUAL_MIN_BYTES: u64 = 16 << 20;
/// Sizes are multiples of this, in bytes: a large page.
const SEGMENT_SIZE_STEP_BYTES: u64 = 2 << 20;
/// Bytes of a segment that are brought into memory in one go: a large page, for which the system
/// does not let others have the processor. Between two, a segment that is wanted is made first.
const BRING_IN_PIECE_BYTES: usize = 2 << 20;

/// The segments that are ready, and what the thread is to do.
#[derive(Default)]
struct State {
    /// The segments prepared for the next roll-overs, in the order of their numbers.
    ready: VecDeque<Arc<SegmentFile>>,
    /// Whether one more is to be made.
    is_wanted: bool,
    /// Whether one is being made; its number is taken, so no other segment may come before it.
    is_making: bool,
    is_running: bool,
    is_stopping: bool,
    /// When the last segment was begun.
    rolled_at: Option<Ticks>,
    /// Whether that was soon after the one before.
    is_quick: bool,
}

/// The segments that are prepared, and the thread that prepares them.
pub(super) struct Spares {
    files: Arc<SegmentFiles>,
    segments: Arc<SegmentSet>,
    sync: Arc<GroupSync>,
    clock: Clock,
    /// Jobs are noted here.
    activity: Activity,
    /// The largest usual segment.
    segment_size_bytes: u64,
    /// Whether the next segment shall have large pages.
    prefers_large: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

impl Spares {
    pub(super) fn new(
        files: Arc<SegmentFiles>,
        segments: Arc<SegmentSet>,
        sync: Arc<GroupSync>,
        (clock, activity): (Clock, Activity),
        segment_size_bytes: u64,
    ) -> Spares {
        Spares {
            files,
            segments,
            sync,
            clock,
            activity,
            segment_size_bytes,
            prefers_large: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// A segment's file of at least `needed_bytes`: a spare if that is large enough.
    pub(super) fn take(&self, needed_bytes: u64) -> Result<Arc<SegmentFile>> {
        match self.take_ready()? {
            Some(spare) if spare.map.length() as u64 >= needed_bytes => Ok(spare),
            small => {
                small.into_iter().for_each(|small| self.files.remove(&small.path));
                // Theirs are lower numbers than that of the one that is made now.
                self.remove_all()?;
                self.files.make(needed_bytes.max(self.usual_size_bytes()))
            }
        }
    }

    /// Removes all spares, whose space nobody uses.
    pub(super) fn remove_all(&self) -> Result<()> {
        while let Some(spare) = self.take_ready()? {
            self.files.remove(&spare.path);
        }
        Ok(())
    }

    /// The size of the next segment, if no batch needs a larger one.
    fn usual_size_bytes(&self) -> u64 {
        let journal_bytes: u64 = self.segments.facts().iter().map(|facts| facts.size_bytes).sum();
        let share = (journal_bytes / SEGMENT_SHARE).next_multiple_of(SEGMENT_SIZE_STEP_BYTES);
        share.max(SEGMENT_SIZE_USUAL_MIN_BYTES).min(self.segment_size_bytes)
    }

    /// The next spare, once it is no longer being made; `None` if there is none, and none will be
    /// made.
    fn take_ready(&self) -> Result<Option<Arc<SegmentFile>>> {
        let mut state = lock(&self.state);
        while state.ready.is_empty() && state.is_making {
            self.sync.check_poison()?;
            let wait = self.changed.wait_timeout(state, SPARE_WAIT_MAX);
            let (changed, wait) = wait.unwrap_or_else(PoisonError::into_inner);
            state = changed;
            if wait.timed_out() {
                let late = io::Error::from(io::ErrorKind::TimedOut);
                return Err(Error::io("prepare a segment in", self.files.directory(), late));
            }
        }
        let spare = state.ready.pop_front();
        // A writer that finds none makes one, and that is the next.
        state.is_wanted &= spare.is_some();
        Ok(spare)
    }

    /// Removes the spares, whose space nobody uses, but for `kept`.
    pub(super) fn give_up(&self, kept: usize) {
        let mut state = lock(&self.state);
        if !state.is_making && state.ready.len() > kept {
            state.is_wanted = false;
            let given_up = state.ready.split_off(kept);
            drop(state);
            given_up.iter().for_each(|spare| self.files.remove(&spare.path));
        }
    }

    /// Notes that a segment was begun, and has the next one prepared.
    pub(super) fn note_roll(&self) {
        let now = self.clock.now();
        let mut state = lock(&self.state);
        let last = state.rolled_at.replace(now);
        state.is_quick =
            last.is_some_and(|last| self.clock.nanoseconds(now.since(last)) < QUICK_ROLL_NS);
        drop(state);
        self.want();
    }

    /// Has one more segment prepared, unless there are enough.
    pub(super) fn want(&self) {
        let mut state = lock(&self.state);
        let spares_max = if state.is_quick { SPARES_QUICK_MAX } else { SPARES_USUAL_MAX };
        if state.is_running && state.ready.len() + usize::from(state.is_making) < spares_max {
            state.is_wanted = true;
            self.changed.notify_all();
        }
    }

    /// Says whether the next segments shall have large pages.
    pub(super) fn prefer_large(&self, prefers_large: bool) {
        self.prefers_large.store(prefers_large, Ordering::Relaxed);
    }

    /// Starts the thread.
    pub(super) fn start_thread(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let spares = Arc::clone(self);
        let thread = std::thread::Builder::new().name(PREPARE_THREAD.to_owned());
        let thread = thread.spawn(move || spares.prepare())?;
        lock(&self.state).is_running = true;
        Ok(thread)
    }

    /// Asks the thread to end.
    pub(super) fn stop_thread(&self) {
        lock(&self.state).is_stopping = true;
        self.changed.notify_all();
    }

    /// Prepares segments as they are wanted, until it is asked to end: makes their files, and then
    /// brings their pages into memory. Making pages, and large ones above all, takes milliseconds
    /// where memory is full, and a write should not be what waits for it.
    fn prepare(&self) {
        let _job = start_job(&SEGMENTS);
        let mut noted = None;
        // With the offsets up to which they were brought in: the spares, and those that were spares
        // when it began.
        let mut arriving: VecDeque<(Arc<SegmentFile>, usize)> = VecDeque::new();
        let mut state = lock(&self.state);
        while !state.is_stopping {
            if !state.is_wanted && arriving.is_empty() {
                noted = None;
                let changed = self.changed.wait_for_work(state);
                state = changed.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            noted.get_or_insert_with(|| self.activity.begin(jobs::SEGMENT, self.clock));
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
            state = lock(&self.state);
        }
    }

    /// Makes the spare that is wanted. Comes back with it if it has large pages, which are worth
    /// being brought in.
    fn make_one<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, Option<Arc<SegmentFile>>) {
        (state.is_wanted, state.is_making) = (false, true);
        drop(state);
        let made = self.files.make(self.usual_size_bytes()).ok();
        let is_large = made.as_ref().is_some_and(|made| {
            self.prefers_large.load(Ordering::Relaxed) && made.prefer_large_pages()
        });
        let mut state = lock(&self.state);
        // A writer that finds no spare tries for itself, and gets the error to return.
        state.is_making = false;
        state.ready.extend(made.clone());
        self.changed.notify_all();
        (state, made.filter(|_| is_large))
    }
}

/// Brings a piece of a segment's pages into memory, ready to be written to where they will be soon.
/// Where they will not, the system would write them as they are, and then again.
fn bring_in(segment: &SegmentFile, offset: usize, is_quick: bool) {
    if is_quick {
        segment.map.prefault(offset, BRING_IN_PIECE_BYTES);
    } else {
        segment.map.bring_in(offset, BRING_IN_PIECE_BYTES);
    }
}
