//! Locking that ignores poisoning.

use std::sync::PoisonError;

use pellucid_thread::{Mutex, MutexGuard};

/// Locks a mutex, even if another thread panicked while it held the lock: none of the engine's
/// locks covers a state that is temporarily invalid.
#[track_caller]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
