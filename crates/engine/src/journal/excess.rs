//! Bytes of the journal beyond its bound, and the delay of writes that follows from them.
//!
//! Some share of the journal may be dead, and an allowance for what was written and is not yet
//! known to be dead: by default, the journal of live values takes half as much again. Beyond it the
//! collector does not rest, and writers slow down to its pace: else a writer that is faster than it
//! fills the disk with dead records.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pellucid_thread::{Condvar, Mutex};

/// Delay of writes for each byte where the excess is as large as the allowance: 62 MB in a second,
/// half of what a collector copies beside it.
const DELAY_A_BYTE_MAX_NS: u64 = 16;

/// The dead bytes that a journal may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadBound {
    /// The share of the journal.
    pub(crate) share: f64,
    /// Bytes beyond it that are there in any case, and no reason to hurry.
    pub(crate) allowance_bytes: u64,
}

/// The excess of a journal.
pub(crate) struct SpaceExcess {
    bound: DeadBound,
    bytes: AtomicU64,
    /// Excess that the collector can do nothing about: snapshots see it, or it is damaged.
    unavoidable_bytes: AtomicU64,
    /// A collector runs and works it off.
    is_worked_off: AtomicBool,
    looks: Mutex<()>,
    changed: Condvar,
}

impl SpaceExcess {
    /// No excess yet.
    pub(super) fn new(bound: DeadBound) -> SpaceExcess {
        SpaceExcess {
            bound,
            bytes: AtomicU64::new(0),
            unavoidable_bytes: AtomicU64::new(0),
            is_worked_off: AtomicBool::new(false),
            looks: Mutex::new(()),
            changed: Condvar::for_work(),
        }
    }

    /// Notes the dead bytes of a journal of `all_bytes`, and wakes the collector if they are too
    /// many.
    pub(super) fn note(&self, dead_bytes: u64, all_bytes: u64) {
        let DeadBound { share, allowance_bytes } = self.bound;
        let usual_bytes = (all_bytes as f64 * share) as u64 + allowance_bytes;
        let excess_bytes = dead_bytes.saturating_sub(usual_bytes);
        self.bytes.store(excess_bytes, Ordering::Relaxed);
        if excess_bytes > self.unavoidable_bytes.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// The share of a segment from which on it is collected where there is an excess.
    pub(crate) fn collected_share(&self) -> f64 {
        self.bound.share
    }

    /// The bytes that the collector can still work off.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        let all_bytes = self.bytes.load(Ordering::Relaxed);
        all_bytes.saturating_sub(self.unavoidable_bytes.load(Ordering::Relaxed))
    }

    /// Notes that a collector runs.
    pub(crate) fn work_off(&self) {
        self.is_worked_off.store(true, Ordering::Relaxed);
    }

    /// Notes that the collector finds nothing to free, so that nobody waits for it.
    pub(crate) fn give_up(&self) {
        self.unavoidable_bytes.store(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Notes that the collector has freed something.
    pub(crate) fn take_heart(&self) {
        self.unavoidable_bytes.store(0, Ordering::Relaxed);
    }

    /// The delay that a write of so many bytes should take.
    #[inline]
    pub(crate) fn write_delay_ns(&self, size_bytes: u64) -> u64 {
        let excess_bytes = self.bytes();
        if excess_bytes == 0 || !self.is_worked_off.load(Ordering::Relaxed) {
            return 0;
        }
        let share = excess_bytes as f64 / self.bound.allowance_bytes.max(1) as f64;
        (size_bytes as f64 * DELAY_A_BYTE_MAX_NS as f64 * share.min(1.0)) as u64
    }

    /// Waits until there is an excess, or for so long; not if `is_over`, whose change
    /// [`SpaceExcess::wake`] tells.
    pub(crate) fn wait(&self, longest: Duration, is_over: impl Fn() -> bool) {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        if self.bytes() == 0 && !is_over() {
            drop(self.changed.wait_timeout(looks, longest));
        }
    }

    /// Ends a wait.
    pub(crate) fn wake(&self) {
        let _looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: DeadBound = DeadBound { share: 1.0 / 3.0, allowance_bytes: 100 };

    #[test]
    fn writes_are_slower_the_more_is_dead_and_only_if_somebody_collects() {
        let excess = SpaceExcess::new(BOUND);
        excess.note(400, 900);
        assert_eq!((excess.bytes(), excess.write_delay_ns(1_000)), (0, 0));
        excess.note(450, 900);
        assert_eq!((excess.bytes(), excess.write_delay_ns(1_000)), (50, 0));
        excess.work_off();
        assert_eq!(excess.write_delay_ns(1_000), 8_000);
        excess.note(900, 900);
        assert_eq!(excess.write_delay_ns(1_000), 16_000);
    }

    #[test]
    fn nobody_waits_for_what_cannot_be_freed() {
        let excess = SpaceExcess::new(BOUND);
        excess.work_off();
        excess.note(500, 900);
        excess.give_up();
        assert_eq!((excess.bytes(), excess.write_delay_ns(1_000)), (0, 0));
        excess.note(520, 900);
        assert_eq!(excess.bytes(), 20);
        excess.take_heart();
        assert_eq!(excess.bytes(), 120);
    }
}
