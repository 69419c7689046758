//! A condition variable for [`Mutex`], whose waits are in the profile `block`.

use std::time::Duration;

use pellucid_clock::Clock;

use crate::lock::{Mutex, MutexGuard, unpoisoned};
use crate::simulation;
use crate::wait_table::{WaitGuard, WaitKind, monotonic_ns};
use crate::waits;

/// The result of a wait with a timeout, like [`std::sync::WaitTimeoutResult`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if the timeout passed before a notification.
    #[must_use]
    pub fn timed_out(self) -> bool {
        self.0
    }
}

/// A condition variable like [`std::sync::Condvar`].
#[derive(Debug, Default)]
pub struct Condvar {
    inner: std::sync::Condvar,
    /// True if threads wait here for work.
    is_idle: bool,
}

impl Condvar {
    /// A condition whose waits delay the progress of a request or a job.
    #[must_use]
    pub const fn new() -> Condvar {
        Condvar { inner: std::sync::Condvar::new(), is_idle: false }
    }

    /// A condition at which threads wait for work. Such waits delay nothing, so profiles do not
    /// have them.
    #[must_use]
    pub const fn for_work() -> Condvar {
        Condvar { inner: std::sync::Condvar::new(), is_idle: true }
    }

    /// Wakes one thread that waits.
    pub fn notify_one(&self) {
        simulation::wake(self.address(), false);
        self.inner.notify_one();
    }

    /// Wakes all threads that wait.
    pub fn notify_all(&self) {
        simulation::wake(self.address(), true);
        self.inner.notify_all();
    }

    /// Releases the lock, waits for a notification, and takes the lock again.
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let (lock, inner) = guard.into_parts();
        if simulation::is_simulated() {
            return self.wait_simulated(lock, inner, None).0;
        }
        lock.guard_of(unpoisoned(self.timed(|condition| condition.wait(inner))))
    }

    /// Waits like [`Condvar::wait`], for a thread that waits for work at a condition at which
    /// others wait for progress. Profiles do not have this wait.
    pub fn wait_for_work<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let (lock, inner) = guard.into_parts();
        if simulation::is_simulated() {
            return self.wait_simulated(lock, inner, None).0;
        }
        lock.guard_of(unpoisoned(self.inner.wait(inner)))
    }

    /// Waits for a notification and a turn in a simulation. No other thread runs between the
    /// release of the lock and the beginning of the wait.
    fn wait_simulated<'a, T>(
        &self,
        lock: &'a Mutex<T>,
        inner: std::sync::MutexGuard<'a, T>,
        timeout: Option<Duration>,
    ) -> (MutexGuard<'a, T>, bool) {
        drop(inner);
        simulation::gave_back(lock.address());
        let is_timed_out = simulation::wait(self.address(), timeout);
        (lock.lock(), is_timed_out)
    }

    /// The address that identifies the condition in a simulation.
    fn address(&self) -> usize {
        (&raw const self.inner).addr()
    }

    /// Waits like [`Condvar::wait`], until `condition` returns false.
    #[track_caller]
    pub fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while condition(&mut guard) {
            guard = self.wait(guard);
        }
        guard
    }

    /// Waits like [`Condvar::wait`], for at most `timeout`.
    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let (lock, inner) = guard.into_parts();
        if simulation::is_simulated() {
            let (guard, is_over) = self.wait_simulated(lock, inner, Some(timeout));
            return (guard, WaitTimeoutResult(is_over));
        }
        let waited = self.timed(|condition| condition.wait_timeout(inner, timeout));
        let (locked, result) = unpoisoned(waited);
        (lock.guard_of(locked), WaitTimeoutResult(result.timed_out()))
    }

    /// Waits like [`Condvar::wait_while`], for at most `timeout`.
    #[track_caller]
    pub fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        timeout: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> (MutexGuard<'a, T>, WaitTimeoutResult) {
        let now_ns = || simulation::now_ns().unwrap_or_else(monotonic_ns);
        let begun_ns = now_ns();
        let mut left = timeout;
        while condition(&mut guard) {
            let result;
            (guard, result) = self.wait_timeout(guard, left);
            left = timeout.saturating_sub(Duration::from_nanos(now_ns() - begun_ns));
            if result.timed_out() || left.is_zero() {
                let is_over = condition(&mut guard);
                return (guard, WaitTimeoutResult(is_over));
            }
        }
        (guard, WaitTimeoutResult(false))
    }

    #[track_caller]
    fn timed<T>(&self, wait: impl FnOnce(&std::sync::Condvar) -> T) -> T {
        if self.is_idle {
            return wait(&self.inner);
        }
        let _waiting = WaitGuard::begin(WaitKind::Condition);
        let stopwatch = Clock::monotonic().stopwatch();
        let outcome = wait(&self.inner);
        waits::note_wait(stopwatch.elapsed_ns());
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_ends_a_wait_and_so_does_the_timeout() {
        let (lock, condition) = (Mutex::new(false), Condvar::new());
        let short = Duration::from_millis(1);
        // Spurious wake-ups are possible, so only the value is certain.
        let (guard, _) = condition.wait_timeout(lock.lock(), short);
        assert!(!*guard);
        drop(guard);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                *lock.lock() = true;
                condition.notify_all();
            });
            let guard = condition.wait_while(lock.lock(), |done| !*done);
            assert!(*guard);
        });
        let still = |done: &mut bool| *done;
        let (_guard, result) = condition.wait_timeout_while(lock.lock(), short, still);
        assert!(result.timed_out());
    }
}
