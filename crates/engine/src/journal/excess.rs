//! The journal's dead bytes beyond their bound, and the delay of writes that follows from them.
//!
//! The bound is a share of the journal plus an allowance for records that are dead but not known to
//! be yet. With the default settings the journal takes up to half as much again as its live values.
//! Beyond the bound the collector does not rest, and writers slow down to its pace. Otherwise a
//! writer that is faster than the collector would fill the disk with dead records.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pellucid_thread::{Condvar, Mutex};

/// The largest delay of writes, per byte, reached when the excess is as large as the allowance: it
/// allows 62 MB per second, half of what a collector copies meanwhile.
const DELAY_A_BYTE_MAX_NS: u64 = 16;

/// The bound on the dead bytes of a journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadSpaceLimit {
    /// The share of the journal's bytes that may be dead.
    pub(crate) share: f64,
    /// Dead bytes beyond the share that are always tolerated.
    pub(crate) allowance_bytes: u64,
}

/// The dead bytes of a journal beyond the bound.
pub(crate) struct SpaceExcess {
    bound: DeadSpaceLimit,
    bytes: AtomicU64,
    /// Excess that the collector cannot remove: snapshots see it, or it is damaged.
    unavoidable_bytes: AtomicU64,
    /// True if a collector thread runs that reduces the excess.
    is_worked_off: AtomicBool,
    looks: Mutex<()>,
    changed: Condvar,
}

impl SpaceExcess {
    /// An account without excess.
    pub(super) fn new(bound: DeadSpaceLimit) -> SpaceExcess {
        SpaceExcess {
            bound,
            bytes: AtomicU64::new(0),
            unavoidable_bytes: AtomicU64::new(0),
            is_worked_off: AtomicBool::new(false),
            looks: Mutex::new(()),
            changed: Condvar::for_work(),
        }
    }

    /// Notes the dead bytes of a journal of `all_bytes`, and wakes the collector if there are too
    /// many.
    pub(super) fn note(&self, dead_bytes: u64, all_bytes: u64) {
        let DeadSpaceLimit { share, allowance_bytes } = self.bound;
        let usual_bytes = (all_bytes as f64 * share) as u64 + allowance_bytes;
        let excess_bytes = dead_bytes.saturating_sub(usual_bytes);
        self.bytes.store(excess_bytes, Ordering::Relaxed);
        if excess_bytes > self.unavoidable_bytes.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// The share of dead bytes from which on a segment is collected while there is an excess.
    pub(crate) fn collected_share(&self) -> f64 {
        self.bound.share
    }

    /// The excess that the collector can still remove, in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        let all_bytes = self.bytes.load(Ordering::Relaxed);
        all_bytes.saturating_sub(self.unavoidable_bytes.load(Ordering::Relaxed))
    }

    /// Notes that a collector thread runs.
    pub(crate) fn work_off(&self) {
        self.is_worked_off.store(true, Ordering::Relaxed);
    }

    /// Notes that the collector found nothing to free, so that writes do not wait for it.
    pub(crate) fn give_up(&self) {
        self.unavoidable_bytes.store(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Notes that the collector freed something, so that it tries all of the excess again.
    pub(crate) fn take_heart(&self) {
        self.unavoidable_bytes.store(0, Ordering::Relaxed);
    }

    /// The delay that a write of `size_bytes` has to take.
    #[inline]
    pub(crate) fn write_delay_ns(&self, size_bytes: u64) -> u64 {
        let excess_bytes = self.bytes();
        if excess_bytes == 0 || !self.is_worked_off.load(Ordering::Relaxed) {
            return 0;
        }
        let share = excess_bytes as f64 / self.bound.allowance_bytes.max(1) as f64;
        (size_bytes as f64 * DELAY_A_BYTE_MAX_NS as f64 * share.min(1.0)) as u64
    }

    /// Waits until there is an excess, at most for `longest`; returns at once if `is_over`. A
    /// change of the result of `is_over` is followed by a call of [`SpaceExcess::wake`].
    pub(crate) fn wait(&self, longest: Duration, is_over: impl Fn() -> bool) {
        let looks = self.looks.lock();
        if self.bytes() == 0 && !is_over() {
            drop(self.changed.wait_timeout(looks, longest));
        }
    }

    /// Ends a wait.
    pub(crate) fn wake(&self) {
        let _looks = self.looks.lock();
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: DeadSpaceLimit = DeadSpaceLimit { share: 1.0 / 3.0, allowance_bytes: 100 };

    #[test]
    fn writes_slow_down_with_the_excess_if_a_collector_runs() {
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
    fn writes_do_not_wait_for_bytes_that_cannot_be_freed() {
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
