//! The waits of a lock: the number of waiting threads, and the site of the last holder.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pellucid_clock::Clock;

use crate::wait_table::{WaitGuard, WaitKind};
use crate::waits;

/// The value of one waiting thread in [`Contention::waiters`].
const WAITER: u64 = 1;
/// The value of one thread that waits for exclusive access in [`Contention::waiters`].
const LONE_WAITER: u64 = 1 << 32 | WAITER;

/// The waits of one lock. A thread that finds the lock free does not write to it.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// The number of threads that wait for the lock; in the upper half, those that wait for
    /// exclusive access.
    waiters: AtomicU64,
    /// The site of the thread that released the lock, as returned by [`waits::holder`]; or zero.
    holder: AtomicUsize,
}

impl Contention {
    pub(crate) const fn new() -> Contention {
        Contention { waiters: AtomicU64::new(0), holder: AtomicUsize::new(0) }
    }

    /// The address that identifies the lock in a simulation.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Waits by `lock` for exclusive access to a lock that is taken. The time is charged to the
    /// waiting thread and to the holder.
    #[track_caller]
    pub(crate) fn wait<T>(&self, lock: impl FnOnce() -> T) -> T {
        self.wait_and(LONE_WAITER, lock, |holder| holder.swap(0, Ordering::Relaxed))
    }

    /// Waits like [`Contention::wait`], for shared access. Several such threads may be let in
    /// together, so the noted holder stays for the others, until it is replaced.
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
        let _waiting = WaitGuard::begin(WaitKind::Lock);
        let stopwatch = Clock::monotonic().stopwatch();
        self.waiters.fetch_add(waiter, Ordering::Relaxed);
        let locked = lock();
        self.waiters.fetch_sub(waiter, Ordering::Relaxed);
        let waited_ns = stopwatch.elapsed_ns();
        waits::charge(look(&self.holder), waited_ns);
        waits::note_wait(waited_ns);
        locked
    }

    /// Notes the site of this thread, which is about to release the lock, if threads wait for it.
    #[inline]
    pub(crate) fn note_holder(&self) {
        if self.waiters.load(Ordering::Relaxed) != 0 {
            self.holder.store(waits::holder(), Ordering::Relaxed);
        }
    }

    /// Notes the site like [`Contention::note_holder`], for a thread with shared access. It delays
    /// only threads that wait for exclusive access. The others are about to be let in, and need the
    /// note of the previous holder.
    #[inline]
    pub(crate) fn note_holder_among_others(&self) {
        if self.waiters.load(Ordering::Relaxed) >= LONE_WAITER {
            self.holder.store(waits::holder(), Ordering::Relaxed);
        }
    }
}
