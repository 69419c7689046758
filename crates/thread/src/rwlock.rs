//! A reader-writer lock that records its waits and the holders for which threads wait. Without
//! contention it costs one load more than the standard one, and nothing is timed.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::TryLockError;

use crate::contention::Contention;
use crate::lock::{if_free, unpoisoned};
use crate::simulation;

/// A lock like [`std::sync::RwLock`], with its waits in the profiles `block` and `mutex`. If a
/// writer waits for several readers, the wait is charged to the last of them. Like
/// [`crate::Mutex`], it is not poisoned by a panic.
#[derive(Default)]
pub struct RwLock<T> {
    contention: Contention,
    inner: std::sync::RwLock<T>,
}

/// The guard of a [`RwLock`]: `SHARED` for reading, with other readers, else for writing.
#[must_use = "the lock is given back when this is dropped"]
pub struct RwLockGuard<'a, G, const SHARED: bool> {
    // Dropped after this guard's own `drop`.
    inner: G,
    contention: &'a Contention,
}

/// The guard for reading, like [`std::sync::RwLockReadGuard`].
pub type RwLockReadGuard<'a, T> = RwLockGuard<'a, std::sync::RwLockReadGuard<'a, T>, true>;

/// The guard for writing, like [`std::sync::RwLockWriteGuard`].
pub type RwLockWriteGuard<'a, T> = RwLockGuard<'a, std::sync::RwLockWriteGuard<'a, T>, false>;

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock { contention: Contention::new(), inner: std::sync::RwLock::new(value) }
    }

    /// Waits until no writer has the lock, and takes it for reading.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        simulation::point();
        match if_free(self.inner.try_read()) {
            Some(locked) => self.guard_of(locked),
            None => {
                self.contended(|| if_free(self.inner.try_read()), || unpoisoned(self.inner.read()))
            }
        }
    }

    /// Takes the lock for reading if a reader would not have to wait.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        if_free(self.inner.try_read()).map(|locked| self.guard_of(locked))
    }

    /// True if a reader would have to wait now.
    #[must_use]
    pub fn has_writer(&self) -> bool {
        matches!(self.inner.try_read(), Err(TryLockError::WouldBlock))
    }

    /// Waits until no other thread has the lock, and takes it for writing.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        simulation::point();
        match if_free(self.inner.try_write()) {
            Some(locked) => self.guard_of(locked),
            None => self
                .contended(|| if_free(self.inner.try_write()), || unpoisoned(self.inner.write())),
        }
    }

    /// Takes the lock by `attempt` in a simulation, and otherwise by `wait`.
    #[cold]
    #[track_caller]
    fn contended<G, const SHARED: bool>(
        &self,
        attempt: impl FnMut() -> Option<G>,
        wait: impl FnOnce() -> G,
    ) -> RwLockGuard<'_, G, SHARED> {
        self.guard_of(match simulation::wait_for(self.contention.address(), attempt) {
            Some(locked) => locked,
            None if SHARED => self.contention.wait_among_others(wait),
            None => self.contention.wait(wait),
        })
    }

    #[inline]
    fn guard_of<G, const SHARED: bool>(&self, inner: G) -> RwLockGuard<'_, G, SHARED> {
        let contention = &self.contention;
        simulation::took(contention.address());
        RwLockGuard { inner, contention }
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<G, const SHARED: bool> Drop for RwLockGuard<'_, G, SHARED> {
    #[inline]
    fn drop(&mut self) {
        // In a simulation, no other thread runs between this and the drop of `inner`.
        simulation::gave_back(self.contention.address());
        if SHARED {
            self.contention.note_holder_among_others();
        } else {
            self.contention.note_holder();
        }
    }
}

impl<G: Deref, const SHARED: bool> Deref for RwLockGuard<'_, G, SHARED> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.inner
    }
}

impl<G: DerefMut, const SHARED: bool> DerefMut for RwLockGuard<'_, G, SHARED> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.inner
    }
}

impl<G: fmt::Debug, const SHARED: bool> fmt::Debug for RwLockGuard<'_, G, SHARED> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::{set_operation, set_request};
    use crate::sites::Site;
    use crate::wait_table::{Wait, WaitKind, waits};
    use crate::waits::{HOLDERS_ONE_IN, blocked, contended, sample_waits};

    /// The rounds after which it is practically impossible that no holder was sampled.
    const ROUNDS_MAX: usize = 300;
    /// The time for which the lock is held after all threads are about to wait.
    const HELD: std::time::Duration = std::time::Duration::from_millis(20);

    #[test]
    fn a_rwlock_excludes_and_is_usable_after_a_panic_of_its_writer() {
        const TURNS: u64 = if cfg!(miri) { 10 } else { 10_000 };
        let lock = RwLock::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..TURNS).for_each(|_| *lock.write() += 1));
                scope.spawn(|| (0..TURNS).for_each(|_| drop(lock.read())));
            }
        });
        let (one, other) = (lock.read(), lock.read());
        assert_eq!((*one, *other), (3 * TURNS, 3 * TURNS));
        drop((one, other));
        let panicked = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let _guard = lock.write();
                panic!("on purpose");
            });
            writer.join()
        });
        assert!(panicked.is_err());
        assert_eq!(*lock.read(), 3 * TURNS);
        assert_eq!(*lock.write(), 3 * TURNS);
    }

    /// Events and nanoseconds at the sites of an operation.
    fn counted(sites: &[Site], operation: u8) -> (f64, f64) {
        let of = sites.iter().filter(|site| site.labels.operation == operation);
        of.fold((0.0, 0.0), |(events, amount), site| {
            (events + site.counts.events, amount + site.counts.amount)
        })
    }

    /// Holds the lock by `hold` as operation `holder` until `waiters` threads wait for it by `wait`
    /// as operation `waiter`. Repeats that until the holder was sampled, and checks the counts.
    fn contend<G>(
        hold: impl Fn() -> G,
        wait: impl Fn() + Sync,
        waiters: usize,
        (holder, waiter): (u8, u8),
    ) {
        let request = 50_000 + u64::from(waiter);
        let waiting = || {
            let is_ours = |wait: &&Wait| wait.request == request && wait.kind == WaitKind::Lock;
            waits().iter().filter(is_ours).count()
        };
        for _ in 0..ROUNDS_MAX {
            std::thread::scope(|scope| {
                set_operation(holder);
                let held = hold();
                for _ in 0..waiters {
                    scope.spawn(|| {
                        set_operation(waiter);
                        set_request(request);
                        wait();
                    });
                }
                while waiting() < waiters {
                    std::thread::yield_now();
                }
                std::thread::sleep(HELD);
                drop(held);
            });
            let (events, amount) = counted(&contended(), holder);
            if events > 0.0 {
                let (all, one) = (f64::from(HOLDERS_ONE_IN) * waiters as f64, 1e6);
                assert!(events == all && amount >= all * one, "{events} waits, {amount} ns");
                assert!(counted(&blocked(), waiter).1 >= waiters as f64 * one);
                return;
            }
        }
        panic!("no holder was charged");
    }

    #[test]
    fn waits_of_readers_and_of_writers_are_charged_to_both_sides() {
        sample_waits();
        let lock = RwLock::new(0);
        contend(|| lock.read(), || *lock.write() += 1, 1, (81, 82));
        contend(|| lock.write(), || drop(lock.read()), 3, (83, 84));
    }
}
