//! The activity of this thread, as labels that a profiler's signal handler can read at any instant:
//! the operation and phase of the request, and the background job.
//!
//! Setting a label is one store to thread-local memory without initialisation, because it happens
//! at every stamp of every request.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use crate::early_operations;

/// The phase of an event loop between requests: waiting for events, accepting, sweeping.
pub const LOOP_PHASE: u8 = u8::MAX;

/// A kind of background work, identified by a static with its name.
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

/// The activity of a thread at an instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Labels {
    /// The owner's number of the request's operation, plus one; zero if it is unknown.
    pub operation: u8,
    /// The owner's number of the request's phase, plus one, or [`LOOP_PHASE`]; zero if it is
    /// unknown.
    pub phase: u8,
    /// The background job, if the thread runs one.
    pub job: Option<&'static Job>,
}

impl Labels {
    /// True if the labels belong to a request whose operation is not known yet.
    #[must_use]
    pub fn is_early(self) -> bool {
        self.operation == 0 && self.phase != 0 && self.phase != LOOP_PHASE && self.job.is_none()
    }

    /// The labels as one word. Two words are equal exactly if the labels are.
    pub(crate) fn word(self) -> u64 {
        let job = self.job.map_or(0, |job| ptr::from_ref(job).addr() as u64);
        // There is room for 48 bits of the address, so for 51 without the low three, which are zero
        // by alignment. Programs have longer addresses only if they ask for them.
        (job >> 3) << 16 | u64::from(self.phase) << 8 | u64::from(self.operation)
    }
}

/// The state of a thread that its signal handler may read. The fields are atomics although only one
/// thread uses them, because its own handler interrupts it between any two instructions.
pub(crate) struct ThreadCell {
    operation: AtomicU8,
    phase: AtomicU8,
    job: AtomicPtr<Job>,
    /// The number under which samples of the request were taken before its operation was known;
    /// zero if there are none.
    early: AtomicU64,
    /// The owner's number of the request at which the thread works; zero for none.
    pub(crate) request: AtomicU64,
    pub(crate) stack_low: AtomicUsize,
    pub(crate) stack_high: AtomicUsize,
    pub(crate) random: AtomicU64,
}

impl ThreadCell {
    /// Replaces the labels of the thread.
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

/// Calls `look` with the cell of this thread. The cell has a constant initial value and no
/// destructor, so that the access cannot fail, not even in a signal handler.
#[inline(always)]
pub(crate) fn with_thread<T>(look: impl FnOnce(&ThreadCell) -> T) -> T {
    THREAD.with(look)
}

/// Sets the phase of this thread's request: its number plus one.
#[inline(always)]
pub fn set_phase(phase: u8) {
    with_thread(|thread| thread.phase.store(phase, Ordering::Relaxed));
}

/// Notes that the thread begins to work at another request, of which only the phase is known.
#[inline(always)]
pub fn begin_request(phase: u8) {
    with_thread(|thread| {
        thread.phase.store(phase, Ordering::Relaxed);
        thread.operation.store(0, Ordering::Relaxed);
        thread.early.store(0, Ordering::Relaxed);
        thread.request.store(0, Ordering::Relaxed);
    });
}

/// Sets the number of this thread's request, under which its waits are noted.
#[inline(always)]
pub fn set_request(number: u64) {
    with_thread(|thread| thread.request.store(number, Ordering::Relaxed));
}

/// Notes that the thread continues a request for which [`suspend_request`] returned `early`.
#[inline(always)]
pub fn resume_request(phase: u8, early: u64) {
    begin_request(phase);
    with_thread(|thread| thread.early.store(early, Ordering::Relaxed));
}

/// Notes that the thread leaves a request that is incomplete, so that its operation is not known.
/// Returns the argument for [`resume_request`].
#[inline(always)]
#[must_use = "samples of the request stay without operation unless it is resumed with this"]
pub fn suspend_request() -> u64 {
    with_thread(|thread| {
        let early = thread.early.load(Ordering::Relaxed);
        thread.early.store(0, Ordering::Relaxed);
        early
    })
}

/// Sets the operation of this thread's request: its number plus one. Samples that were taken while
/// the request was still being read get the operation as well.
#[inline(always)]
pub fn set_operation(operation: u8) {
    with_thread(|thread| {
        thread.operation.store(operation, Ordering::Relaxed);
        if thread.early.load(Ordering::Relaxed) != 0 {
            let number = thread.early.swap(0, Ordering::Relaxed);
            early_operations::resolve(number, operation);
        }
    });
}

/// The number under which [`crate::early_operation`] has the operation of this thread's request
/// once it is known. May be called in a signal handler.
#[must_use]
pub fn number_early_request() -> u64 {
    with_thread(|thread| {
        let number = thread.early.load(Ordering::Relaxed);
        if number != 0 {
            return number;
        }
        let number = early_operations::next();
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
            // SAFETY: only references to statics, and null, are ever stored there.
            job: unsafe { job.as_ref() },
        }
    })
}

/// The guard of a background job. When it is dropped, the thread gets its previous job label back.
#[must_use = "the job ends when this is dropped"]
pub struct JobGuard {
    previous: *mut Job,
}

/// Labels this thread with a background job until the guard is dropped.
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
    use crate::early_operations::early_operation;

    static FLUSH: Job = Job::new("flush");
    static MERGE: Job = Job::new("merge");

    #[test]
    fn jobs_nest_and_a_new_request_has_no_operation() {
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
        // This request never gets an operation; the next one is another request.
        begin_request(1);
        set_operation(7);
        assert_eq!((early_operation(second), early_operation(first)), (None, Some(5)));
    }

    #[test]
    fn a_request_that_arrives_in_pieces_keeps_its_number() {
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
