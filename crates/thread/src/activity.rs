//! What this thread is doing, as three labels that a profiler's signal handler can read at any
//! instant: the operation and phase of the request, or the background job.
//!
//! Setting a label is one store to thread-local memory that needs no initialisation, because it
//! happens at every stamp of every request.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, AtomicUsize, Ordering};

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

/// What a thread was doing at an instant. Zero means that nothing is known.
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
    /// A sample that was taken before the operation was known, and the word that it must still
    /// hold to be this one.
    awaiting: AtomicPtr<AtomicU64>,
    awaiting_word: AtomicU64,
    pub(crate) stack_low: AtomicUsize,
    pub(crate) stack_high: AtomicUsize,
    pub(crate) random: AtomicU64,
    pub(crate) contended_unlocks: AtomicU64,
}

thread_local! {
    static THREAD: ThreadCell = const {
        ThreadCell {
            operation: AtomicU8::new(0),
            phase: AtomicU8::new(0),
            job: AtomicPtr::new(ptr::null_mut()),
            awaiting: AtomicPtr::new(ptr::null_mut()),
            awaiting_word: AtomicU64::new(0),
            stack_low: AtomicUsize::new(0),
            stack_high: AtomicUsize::new(0),
            random: AtomicU64::new(0),
            contended_unlocks: AtomicU64::new(0),
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
        thread.awaiting.store(ptr::null_mut(), Ordering::Relaxed);
    });
}

/// Notes which operation the thread works on: its number plus one. A sample that was taken while
/// the same request was still being read is given the operation, too.
#[inline(always)]
pub fn set_operation(operation: u8) {
    with_thread(|thread| {
        thread.operation.store(operation, Ordering::Relaxed);
        if !thread.awaiting.load(Ordering::Relaxed).is_null() {
            complete_sample(thread, operation);
        }
    });
}

#[cold]
fn complete_sample(thread: &ThreadCell, operation: u8) {
    let sample = thread.awaiting.swap(ptr::null_mut(), Ordering::Relaxed);
    let expected = thread.awaiting_word.load(Ordering::Relaxed);
    // SAFETY: whoever calls `await_operation` promises that the word lives as long as the process.
    let Some(sample) = (unsafe { sample.as_ref() }) else { return };
    let completed = expected & !0xff | u64::from(operation);
    // It fails if the sample was overwritten or read meanwhile; then it stays without operation.
    let _ = sample.compare_exchange(expected, completed, Ordering::Relaxed, Ordering::Relaxed);
}

/// Asks that the operation, once it is known, be stored in the lowest byte of `word`, if that is
/// still `expected`. For signal handlers.
pub fn await_operation(word: &'static AtomicU64, expected: u64) {
    with_thread(|thread| {
        thread.awaiting_word.store(expected, Ordering::Relaxed);
        thread.awaiting.store(ptr::from_ref(word).cast_mut(), Ordering::Relaxed);
    });
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
    fn a_sample_gets_the_operation_of_its_own_request_only() {
        static SAMPLE: AtomicU64 = AtomicU64::new(0x7700);
        begin_request(1);
        await_operation(&SAMPLE, 0x7700);
        set_operation(5);
        assert_eq!(SAMPLE.load(Ordering::Relaxed), 0x7705);
        set_operation(6);
        assert_eq!(SAMPLE.load(Ordering::Relaxed), 0x7705, "it is completed once");
        SAMPLE.store(0x8800, Ordering::Relaxed);
        await_operation(&SAMPLE, 0x8800);
        // The request did not come to its operation; the next one is another.
        begin_request(1);
        set_operation(7);
        assert_eq!(SAMPLE.load(Ordering::Relaxed), 0x8800);
    }

    #[test]
    fn equal_words_mean_equal_labels() {
        let with = |operation, phase, job| Labels { operation, phase, job }.word();
        let words = [with(1, 2, None), with(2, 1, None), with(1, 2, Some(&FLUSH))];
        assert!(words[0] != words[1] && words[0] != words[2] && words[1] != words[2]);
        assert_eq!(with(1, 2, Some(&MERGE)), with(1, 2, Some(&MERGE)));
    }
}
