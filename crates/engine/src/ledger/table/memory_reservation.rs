//! Memory reservations, and the count of their bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The count of the bytes in use.
#[derive(Clone, Debug, Default)]
pub(super) struct UsedBytes(Arc<AtomicU64>);

impl UsedBytes {
    /// The bytes in use.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes `bytes` if at most `limit_bytes` are in use afterwards.
    pub(super) fn take_within(&self, bytes: u64, limit_bytes: u64) -> Option<MemoryReservation> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit_bytes);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        taken.ok().map(|_| MemoryReservation { used: self.clone(), bytes })
    }

    /// Takes `bytes` without a limit.
    pub(super) fn take_always(&self, bytes: u64) -> MemoryReservation {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        MemoryReservation { used: self.clone(), bytes }
    }
}

/// A part of the memory, released when it is dropped.
#[derive(Debug)]
pub(super) struct MemoryReservation {
    used: UsedBytes,
    bytes: u64,
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.used.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
