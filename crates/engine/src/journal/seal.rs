//! Sealing: closing a full segment, off the write path. Its records become durable, its footer is
//! written, and the rest of its space is given back.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pellucid_thread::{Condvar, CriticalSection, JoinHandle, Mutex, start_job};

use super::base::JournalBase;
use super::files::SEGMENTS;
use super::footer::{decode_footer, encode_footer};
use super::segment::Segment;
use crate::error::{Error, Result};
use crate::header_form::RECORD_ALIGNMENT;
use crate::jobs;

/// The name of the thread. It is not the thread that prepares segments, because a seal waits for
/// the medium, and writers must not wait for the next segment meanwhile.
const SEAL_THREAD: &str = "pellucid-seal";
/// The most segments that may wait for their seal; then writers wait, too.
const SEALING_MAX: usize = 8;
/// The longest time that a writer waits for the thread.
const SEAL_WAIT_MAX: Duration = Duration::from_secs(60);

/// A segment that takes no more records.
pub(super) struct FullSegment {
    pub(super) segment: Arc<Segment>,
    /// The end of the records, as an offset in bytes.
    pub(super) end: u64,
    /// The number of records.
    pub(super) count: u64,
}

/// The work of the thread.
#[derive(Default)]
struct State {
    waiting: VecDeque<FullSegment>,
    /// True while a seal runs.
    is_sealing: bool,
    is_running: bool,
    is_stopping: bool,
}

/// Seals segments, on a thread of its own if that was started.
pub(super) struct Sealer {
    base: JournalBase,
    state: Mutex<State>,
    changed: Condvar,
}

impl Sealer {
    pub(super) fn new(base: JournalBase) -> Sealer {
        Sealer { base, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until fewer than [`SEALING_MAX`] segments wait for their seal.
    pub(super) fn wait_for_room(&self) -> Result<()> {
        let mut state = self.state.lock();
        while state.waiting.len() >= SEALING_MAX {
            self.base.sync.check_poison()?;
            let wait;
            (state, wait) = self.changed.wait_timeout(state, SEAL_WAIT_MAX);
            if wait.timed_out() {
                let late = io::Error::from(io::ErrorKind::TimedOut);
                return Err(Error::io("seal segments in", self.base.files.directory(), late));
            }
        }
        Ok(())
    }

    /// Hands a full segment to the thread, or seals it on the calling thread if there is none.
    pub(super) fn offload(&self, full: FullSegment) -> Result<()> {
        let mut state = self.state.lock();
        if !state.is_running {
            drop(state);
            return self.seal(&full);
        }
        state.waiting.push_back(full);
        drop(state);
        self.changed.notify_all();
        Ok(())
    }

    /// Seals a segment: makes its records durable, writes the footer into the space reserved for
    /// it, gives the rest of the space back, and makes that durable. A segment without records is
    /// removed.
    pub(super) fn seal(&self, full: &FullSegment) -> Result<()> {
        self.base.sync.check_poison()?;
        let _whole = CriticalSection::begin();
        let shared = &full.segment.shared;
        if full.count == 0 {
            self.base.segments.change(|segments| {
                segments.retain(|segment| segment.shared.number != shared.number);
            });
            self.base.files.remove(&shared.path);
            return Ok(());
        }
        let sealed = self.write_footer(full).map_err(|error| self.base.sync.poison(&error))?;
        let last = full.segment.first_sequence + full.count - 1;
        self.base.segments.change(|segments| {
            for segment in segments.iter_mut() {
                if segment.shared.number == shared.number {
                    *segment = Arc::clone(&sealed);
                }
            }
        });
        shared.is_synced.store(true, Ordering::Release);
        shared.file.close();
        self.base.sync.note_durable(last);
        Ok(())
    }

    fn write_footer(&self, full: &FullSegment) -> Result<Arc<Segment>> {
        let (segment, shared) = (&full.segment, &full.segment.shared);
        let failed = |error| Error::io("seal", &shared.path, error);
        // Without this, the kernel searches for all mappings of the pages of full segments: 1.05 s
        // of processor time in a fill of 5.2 s.
        shared.map.settle();
        shared.file.sync().map_err(failed)?;
        let (identity, first) = (self.base.files.store_identity(), segment.first_sequence);
        let offsets = (0..full.count as usize).map(|index| {
            let offset = segment.offset(first + index as u64);
            (offset.expect("every record has an offset") / RECORD_ALIGNMENT) as u32
        });
        let footer = encode_footer(identity, shared.number, first, full.end, offsets);
        let length = full.end as usize + footer.len();
        assert!(length <= shared.map.length(), "room for the footer was reserved");
        // SAFETY: the range is within the writable map, behind the last record. The writer no
        // longer uses the segment, and readers read only records.
        unsafe {
            let target = shared.map.pointer().add(full.end as usize);
            std::ptr::copy_nonoverlapping(footer.as_ptr(), target, footer.len());
        }
        segment.check_written()?;
        shared.file.set_length(length as u64).map_err(failed)?;
        shared.file.sync().map_err(failed)?;
        // SAFETY: as above; nothing writes to the map from here on.
        let bytes = unsafe { std::slice::from_raw_parts(shared.map.pointer(), length) };
        let footer = decode_footer(bytes, identity, shared.number, first).map_err(|_| {
            Error::corruption(&shared.path, full.end, "the footer reads back wrong")
        })?;
        // Otherwise a GET that misses the page cache would also read the bytes around its record:
        // up to the disk's read-ahead, which may be megabytes.
        shared.map.expect_random();
        Ok(Arc::new(Segment::sealed(Arc::clone(shared), first, footer)))
    }

    /// Waits until every segment that was handed over is sealed. A failed seal has poisoned the
    /// journal.
    pub(super) fn wait(&self) -> Result<()> {
        let mut state = self.state.lock();
        while state.is_sealing || !state.waiting.is_empty() {
            self.base.sync.check_poison()?;
            state = self.changed.wait(state);
        }
        self.base.sync.check_poison()
    }

    /// Starts the thread.
    pub(super) fn start_thread(self: &Arc<Self>) -> io::Result<JoinHandle<()>> {
        let sealer = Arc::clone(self);
        let thread = pellucid_thread::spawn(SEAL_THREAD, move || sealer.seal_all())?;
        self.state.lock().is_running = true;
        Ok(thread)
    }

    /// Asks the thread to seal the waiting segments, and to end.
    pub(super) fn stop_thread(&self) {
        self.state.lock().is_stopping = true;
        self.changed.notify_all();
    }

    /// Seals segments until it is asked to end and none is waiting.
    fn seal_all(&self) {
        let _job = start_job(&SEGMENTS);
        let mut state = self.state.lock();
        loop {
            if let Some(full) = state.waiting.pop_front() {
                state.is_sealing = true;
                drop(state);
                // A failure has poisoned the journal, which reports it to all callers.
                let noted = self.base.activity.begin(jobs::SEGMENT, self.base.clock);
                let _ = self.seal(&full);
                drop(noted);
                state = self.state.lock();
                state.is_sealing = false;
                self.changed.notify_all();
            } else if state.is_stopping {
                return;
            } else {
                state = self.changed.wait_for_work(state);
            }
        }
    }
}
