//! Locks that go on after a panic.

use std::sync::PoisonError;

use pellucid_thread::{Mutex, MutexGuard};

/// Locks a mutex; that another thread panicked while it held it is no reason to stop, because none
/// of the engine's locks covers a state that is wrong in between.
#[track_caller]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
