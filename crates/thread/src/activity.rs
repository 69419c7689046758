//! The activity of this thread, as three labels that a profiler's signal handler can read at any
//! instant: the operation and phase of the request, or the background job.
//!
//! Setting a label is one store to thread-local memory that needs no initialisation, because it
//! happens at every stamp of every request.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use crate::early;

/// The phase of an event loop between requests: waiting for events, accepting, sweeping.
pub const LOOP_PHASE: u8 = u8::MAX;

/// A kind of background work, by its name; a static of whoever does it.
#[derive(Debug)]
pub struct Job(&'static str);

impl Job {
    /// A kind of work with this name.
    #[must_use]
    pub const fn new(name: &'static str) -> Job {
        Job(name)
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.0
    }
}

/// The activity of a thread at an instant. Zero means that nothing is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Labels {
    /// The operation of the request, as its owner counts them, plus one.
    pub operation: u8,
    /// The phase of the request, as its owner counts them, plus one, or [`LOOP_PHASE`].
    pub phase: u8,
    /// The background job.
    pub job: Option<&'static Job>,
}

impl Labels {
    /// True if they are of a request whose operation is not known yet.
    #[must_use]
    pub fn is_early(self) -> bool {
        self.operation == 0 && self.phase != 0 && self.phase != LOOP_PHASE && self.job.is_none()
    }

    /// The labels as one word that equals another's exactly if the labels do.
    pub(crate) fn word(self) -> u64 {
        let job = self.job.map_or(0, |job| ptr::from_ref(job).addr() as u64);
        // Addresses have 56 bits at most on the systems that are supported; two bytes are free
        // once the low three bits, which alignment makes zero, are cut off.
        (job >> 3) << 16 | u64::from(self.phase) << 8 | u64::from(self.operation)
    }
}

/// Everything that a signal handler may ask of a thread. All are atomics although one thread alone
/// uses them: its own handler interrupts it between any two instructions.
pub(crate) struct ThreadCell {
    operation: AtomicU8,
    phase: AtomicU8,
    job: AtomicPtr<Job>,
    /// The number of the request, if samples were taken of it before its operation was known; or
    /// zero.
    early: AtomicU64,
    /// The number of the request that the thread is at, as its owner counts them; or zero.
    pub(crate) request: AtomicU64,
    pub(crate) stack_low: AtomicUsize,
    pub(crate) stack_high: AtomicUsize,
    pub(crate) random: AtomicU64,
}

impl ThreadCell {
    /// Labels the thread anew.
    pub(crate) fn put(&self, labels: Labels) {
        self.operation.store(labels.operation, Ordering::Relaxed);
        self.phase.store(labels.phase, Ordering::Relaxed);
        let job = labels.job.map_or(ptr::null(), ptr::from_ref).cast_mut();
        self.job.store(job, Ordering::Relaxed);
    }
}

thread_local! {
    static THREAD: ThreadCell = const {
        ThreadCell {
            operation: AtomicU8::new(0),
            phase: AtomicU8::new(0),
            job: AtomicPtr::new(ptr::null_mut()),
            early: AtomicU64::new(0),
            request: AtomicU64::new(0),
            stack_low: AtomicUsize::new(0),
            stack_high: AtomicUsize::new(0),
            random: AtomicU64::new(0),
        }
    };
}

/// The cell of this thread. It has no destructor and a constant beginning, so the access neither
/// initialises nor fails, not even in a signal handler.
#[inline(always)]
pub(crate) fn with_thread<T>(look: impl FnOnce(&ThreadCell) -> T) -> T {
    THREAD.with(look)
}

/// Notes which phase of its request the thread is in from now on: its number plus one.
#[inline(always)]
pub fn set_phase(phase: u8) {
    with_thread(|thread| thread.phase.store(phase, Ordering::Relaxed));
}

/// Notes that the thread turns to the next request, of which only the phase is known.
#[inline(always)]
pub fn begin_request(phase: u8) {
    with_thread(|thread| {
        thread.phase.store(phase, Ordering::Relaxed);
        thread.operation.store(0, Ordering::Relaxed);
        thread.early.store(0, Ordering::Relaxed);
        thread.request.store(0, Ordering::Relaxed);
    });
}

/// Notes the number of the request that the thread is at, by which waits name it.
#[inline(always)]
pub fn set_request(number: u64) {
    with_thread(|thread| thread.request.store(number, Ordering::Relaxed));
}

/// Notes that the thread turns to a request again that [`suspend_request`] returned `early` for.
#[inline(always)]
pub fn resume_request(phase: u8, early: u64) {
    begin_request(phase);
    with_thread(|thread| thread.early.store(early, Ordering::Relaxed));
}

/// Notes that the thread leaves a request whose operation is not known yet, because more of it has
/// yet to come. Returns what [`resume_request`] takes.
#[inline(always)]
#[must_use = "samples of the request stay without operation unless it is resumed with this"]
pub fn suspend_request() -> u64 {
    with_thread(|thread| {
        let early = thread.early.load(Ordering::Relaxed);
        thread.early.store(0, Ordering::Relaxed);
        early
    })
}

/// Notes which operation the thread works on: its number plus one. Samples that were taken while
/// the same request was still being read are given the operation, too.
#[inline(always)]
pub fn set_operation(operation: u8) {
    with_thread(|thread| {
        thread.operation.store(operation, Ordering::Relaxed);
        if thread.early.load(Ordering::Relaxed) != 0 {
            let number = thread.early.swap(0, Ordering::Relaxed);
            early::resolve(number, operation);
        }
    });
}

/// The number by which [`crate::early_operation`] tells the operation of this thread's request once
/// it is known. For signal handlers.
#[must_use]
pub fn number_early_request() -> u64 {
    with_thread(|thread| {
        let number = thread.early.load(Ordering::Relaxed);
        if number != 0 {
            return number;
        }
        let number = early::next();
        thread.early.store(number, Ordering::Relaxed);
        number
    })
}

/// The labels of this thread. May be called in a signal handler.
#[inline]
#[must_use]
pub fn labels() -> Labels {
    with_thread(|thread| {
        let job = thread.job.load(Ordering::Relaxed);
        Labels {
            operation: thread.operation.load(Ordering::Relaxed),
            phase: thread.phase.load(Ordering::Relaxed),
            // SAFETY: only `start_job` stores there, from a reference to a static, or null.
            job: unsafe { job.as_ref() },
        }
    })
}

/// The end of a job: when it goes, the thread is labelled as it was before.
#[must_use = "the job ends when this is dropped"]
pub struct JobGuard {
    previous: *mut Job,
}

/// Labels this thread with a background job until the guard goes.
pub fn start_job(job: &'static Job) -> JobGuard {
    let job = ptr::from_ref(job).cast_mut();
    JobGuard { previous: with_thread(|thread| thread.job.swap(job, Ordering::Relaxed)) }
}

impl Drop for JobGuard {
    fn drop(&mut self) {
        with_thread(|thread| thread.job.store(self.previous, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::early::early_operation;

    static FLUSH: Job = Job::new("flush");
    static MERGE: Job = Job::new("merge");

    #[test]
    fn jobs_nest_and_requests_leave_nothing_behind() {
        let outer = start_job(&MERGE);
        {
            let _inner = start_job(&FLUSH);
            assert_eq!(labels().job.map(Job::name), Some("flush"));
        }
        assert_eq!(labels().job.map(Job::name), Some("merge"));
        drop(outer);
        set_operation(3);
        begin_request(1);
        let now = labels();
        assert_eq!((now.operation, now.phase, now.job.is_none()), (0, 1, true));
    }

    #[test]
    fn early_samples_get_the_operation_of_their_own_request_only() {
        begin_request(1);
        let first = number_early_request();
        assert_eq!(number_early_request(), first, "one request has one number");
        assert_eq!(early_operation(first), None);
        set_operation(5);
        set_operation(6);
        assert_eq!(early_operation(first), Some(5), "it is told once");
        begin_request(1);
        let second = number_early_request();
        // The request did not come to its operation; the next one is another.
        begin_request(1);
        set_operation(7);
        assert_eq!((early_operation(second), early_operation(first)), (None, Some(5)));
    }

    #[test]
    fn a_request_that_arrives_in_pieces_is_one() {
        begin_request(1);
        let number = number_early_request();
        let suspended = suspend_request();
        begin_request(1);
        assert_ne!(number_early_request(), number, "another connection's");
        resume_request(1, suspended);
        set_operation(3);
        assert_eq!(early_operation(number), Some(3));
    }

    #[test]
    fn equal_words_mean_equal_labels() {
        let with = |operation, phase, job| Labels { operation, phase, job }.word();
        let words = [with(1, 2, None), with(2, 1, None), with(1, 2, Some(&FLUSH))];
        assert!(words[0] != words[1] && words[0] != words[2] && words[1] != words[2]);
        assert_eq!(with(1, 2, Some(&MERGE)), with(1, 2, Some(&MERGE)));
    }
}
