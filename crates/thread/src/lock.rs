//! A mutex that records its waits and the holders for which threads wait. Without contention it
//! costs one load more than the standard one, and nothing is timed.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};

use crate::contention::Contention;
use crate::simulation;

/// A mutex like [`std::sync::Mutex`], with its waits in the profiles `block` and `mutex`. A panic
/// of its holder does not poison it: [`crate::CriticalSection`] decides what a panic leaves behind.
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    contention: Contention,
    pub(crate) inner: std::sync::Mutex<T>,
}

/// The guard of a locked [`Mutex`], like [`std::sync::MutexGuard`].
#[must_use = "the mutex is unlocked when this is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    pub(crate) lock: &'a Mutex<T>,
    inner: ManuallyDrop<std::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { contention: Contention::new(), inner: std::sync::Mutex::new(value) }
    }

    /// Takes the value out of the mutex.
    pub fn into_inner(self) -> T {
        unpoisoned(self.inner.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// The value. It needs no locking, because the reference is exclusive.
    pub fn get_mut(&mut self) -> &mut T {
        unpoisoned(self.inner.get_mut())
    }

    /// Waits for the lock and takes it.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        simulation::point();
        match if_free(self.inner.try_lock()) {
            Some(locked) => self.guard_of(locked),
            None => self.lock_contended(),
        }
    }

    #[cold]
    #[track_caller]
    fn lock_contended(&self) -> MutexGuard<'_, T> {
        // The wait is in no closure, whose frame would be the place in profiles.
        match simulation::wait_for(self.address(), || if_free(self.inner.try_lock())) {
            Some(locked) => self.guard_of(locked),
            None => self.guard_of(unpoisoned(self.contention.wait(|| self.inner.lock()))),
        }
    }

    /// The address that identifies the lock in a simulation.
    pub(crate) fn address(&self) -> usize {
        (&raw const self.inner).addr()
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        if_free(self.inner.try_lock()).map(|locked| self.guard_of(locked))
    }

    #[inline]
    pub(crate) fn guard_of<'a>(
        &'a self,
        locked: std::sync::MutexGuard<'a, T>,
    ) -> MutexGuard<'a, T> {
        simulation::took(self.address());
        MutexGuard { lock: self, inner: ManuallyDrop::new(locked) }
    }
}

/// The guard or value of a standard lock, poisoned or not.
#[inline]
pub(crate) fn unpoisoned<G>(locked: LockResult<G>) -> G {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// The guard of a standard lock, poisoned or not, if it was free; else none.
#[inline]
pub(crate) fn if_free<G>(tried: TryLockResult<G>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Splits the guard into the lock and the standard guard, for the wait of a condition.
    pub(crate) fn into_parts(self) -> (&'a Mutex<T>, std::sync::MutexGuard<'a, T>) {
        self.lock.contention.note_holder();
        let mut guard = ManuallyDrop::new(self);
        // SAFETY: the outer guard is not dropped, so that the inner one is not used again.
        (guard.lock, unsafe { ManuallyDrop::take(&mut guard.inner) })
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.contention.note_holder();
        // SAFETY: the inner guard is dropped only here, and this runs once.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
        simulation::gave_back(self.lock.address());
        simulation::point();
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutex_excludes_and_is_usable_after_a_panic_of_its_holder() {
        const TURNS: u64 = if cfg!(miri) { 20 } else { 10_000 };
        let lock = std::sync::Arc::new(Mutex::new(0_u64));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..TURNS).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 4 * TURNS);
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(guard);
        let held = std::sync::Arc::clone(&lock);
        let panicked = std::thread::spawn(move || {
            let _guard = held.lock();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert_eq!(lock.try_lock().map(|value| *value), Some(4 * TURNS));
        assert_eq!(*lock.lock(), 4 * TURNS);
    }
}
