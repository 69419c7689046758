//! The time by which entries expire. It never goes back, so that an expired entry stays expired.
//!
//! The wall clock may be set back, and may have been wrong when it was ahead. The engine uses the
//! highest wall time seen so far, advanced by the monotonic clock; the manifest keeps it across
//! restarts. While the wall clock is behind this time, lifetimes (`expires after`) still have their
//! right length, because they are added to [`crate::Engine::now_ms`].

use std::sync::atomic::{AtomicU64, Ordering};

use pellucid_clock::{Clock, Ticks};

use crate::ledger::{EntryKind, FoundEntry};

const NS_PER_MS: u64 = 1_000_000;

/// A wall clock that never goes back.
#[derive(Debug)]
pub(crate) struct ExpiryClock {
    clock: Clock,
    opened: Ticks,
    /// The highest difference seen between the wall time and the time since opening.
    offset_ms: AtomicU64,
}

impl ExpiryClock {
    /// Continues from `mark_ms`, the highest time of earlier runs.
    pub(crate) fn new(clock: Clock, mark_ms: u64) -> ExpiryClock {
        ExpiryClock { clock, opened: clock.now(), offset_ms: AtomicU64::new(mark_ms) }
    }

    /// The time in milliseconds since the Unix epoch.
    pub(crate) fn now_ms(&self) -> u64 {
        self.raise(self.clock.wall().unix_ms())
    }

    /// Notes that the wall clock showed `seen_ms`, and returns the time.
    pub(crate) fn raise(&self, seen_ms: u64) -> u64 {
        let elapsed_ms = self.clock.nanoseconds(self.clock.now().since(self.opened)) / NS_PER_MS;
        let offset_ms = seen_ms.saturating_sub(elapsed_ms);
        // Read first, because writing to a shared cache line slows down every reader.
        let highest = self.offset_ms.load(Ordering::Relaxed);
        if offset_ms > highest {
            self.offset_ms.fetch_max(offset_ms, Ordering::Relaxed);
        }
        highest.max(offset_ms).saturating_add(elapsed_ms)
    }

    /// True if an entry is a value that has not expired. For an entry without expiry the clock is
    /// not read.
    #[inline]
    pub(crate) fn is_live(&self, entry: &FoundEntry) -> bool {
        entry.kind == EntryKind::Put && !self.has_expired(entry.expires_at_ms)
    }

    /// True if `expires_at_ms` has passed; 0 means never.
    #[inline]
    pub(crate) fn has_expired(&self, expires_at_ms: u64) -> bool {
        expires_at_ms != 0 && expires_at_ms <= self.now_ms()
    }
}

#[cfg(test)]
mod tests {
    use pellucid_clock::SimulatedClock;

    use super::*;

    #[test]
    fn the_time_goes_on_and_never_back() {
        let simulated = SimulatedClock::leaked(5_000);
        let time = ExpiryClock::new(Clock::simulated(simulated), 0);
        assert_eq!(time.now_ms(), 5_000);
        simulated.set_wall_ms(9_000);
        assert_eq!(time.now_ms(), 9_000);
        simulated.set_wall_ms(1_000);
        assert_eq!(time.now_ms(), 9_000);
        let before = time.now_ms();
        simulated.advance_ns(250 * NS_PER_MS);
        assert_eq!(time.now_ms(), before + 250, "it does not stand still meanwhile");
        let later = ExpiryClock::new(Clock::simulated(simulated), time.now_ms());
        assert_eq!(later.now_ms(), before + 250, "nor does it go back with a restart");
    }
}
