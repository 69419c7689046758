//! The waits of a lock: the number of waiting threads, and the place where it had been held.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pellucid_clock::Clock;

use crate::waiting::{WaitKind, Waiting};
use crate::waits;

/// One thread that waits, and one that waits to be alone, in [`Contention::waiters`].
const WAITER: u64 = 1;
const LONE_WAITER: u64 = 1 << 32 | WAITER;

/// The waits of one lock. A thread that finds the lock free touches none of it.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// Threads that wait for the lock; in the upper half, those that wait to have it alone.
    waiters: AtomicU64,
    /// The place where the lock was held that a waiting thread got, as [`waits::holder`]
    /// says it; or zero.
    holder: AtomicUsize,
}

impl Contention {
    pub(crate) const fn new() -> Contention {
        Contention { waiters: AtomicU64::new(0), holder: AtomicUsize::new(0) }
    }

    /// The name of the lock in a simulation.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Waits by `lock` to have alone what was found taken; the time counts against both sides.
    #[track_caller]
    pub(crate) fn wait<T>(&self, lock: impl FnOnce() -> T) -> T {
        self.wait_and(LONE_WAITER, lock, |holder| holder.swap(0, Ordering::Relaxed))
    }

    /// As [`Contention::wait`], for one of several threads that may be let in together: the note of
    /// the holder stays for the others, until another one is written.
    #[track_caller]
    pub(crate) fn wait_among_others<T>(&self, lock: impl FnOnce() -> T) -> T {
        self.wait_and(WAITER, lock, |holder| holder.load(Ordering::Relaxed))
    }

    #[track_caller]
    fn wait_and<T>(
        &self,
        waiter: u64,
        lock: impl FnOnce() -> T,
        look: impl FnOnce(&AtomicUsize) -> usize,
    ) -> T {
        let _waiting = Waiting::begin(WaitKind::Lock);
        let stopwatch = Clock::monotonic().stopwatch();
        self.waiters.fetch_add(waiter, Ordering::Relaxed);
        let locked = lock();
        self.waiters.fetch_sub(waiter, Ordering::Relaxed);
        let waited_ns = stopwatch.elapsed_ns();
        waits::charge(look(&self.holder), waited_ns);
        waits::note_wait(waited_ns);
        locked
    }

    /// Notes for waiting threads where the lock was held that is about to be given back.
    #[inline]
    pub(crate) fn note_holder(&self) {
        if self.waiters.load(Ordering::Relaxed) != 0 {
            self.holder.store(waits::holder(), Ordering::Relaxed);
        }
    }

    /// As [`Contention::note_holder`], for one of several threads that have it together. They hold
    /// up only threads that want it alone: the others are about to have it, too, and read the note
    /// of the holder before.
    #[inline]
    pub(crate) fn note_holder_among_others(&self) {
        if self.waiters.load(Ordering::Relaxed) >= LONE_WAITER {
            self.holder.store(waits::holder(), Ordering::Relaxed);
        }
    }
}
