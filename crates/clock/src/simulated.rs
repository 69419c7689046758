//! A simulated clock, which advances only on request.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ticks::Ticks;
use crate::wall::WallTime;

/// A clock for tests and simulations. The time of day can be set separately, as on real systems.
#[derive(Debug)]
pub struct SimulatedClock {
    now_ns: AtomicU64,
    wall_ms: AtomicU64,
    /// The step by which each reading advances the clock, so that stamps differ.
    step_ns: AtomicU64,
}

impl SimulatedClock {
    /// A clock at zero ticks and at `wall_ms` milliseconds since the Unix epoch. It is leaked, so
    /// that a [`crate::Clock`] stays `Copy`; simulations make few of them.
    #[must_use]
    pub fn leaked(wall_ms: u64) -> &'static SimulatedClock {
        Box::leak(Box::new(SimulatedClock {
            now_ns: AtomicU64::new(0),
            wall_ms: AtomicU64::new(wall_ms),
            step_ns: AtomicU64::new(0),
        }))
    }

    /// Advances the ticks and the time of day.
    pub fn advance_ns(&self, nanoseconds: u64) {
        self.now_ns.fetch_add(nanoseconds, Ordering::SeqCst);
        self.wall_ms.fetch_add(nanoseconds / 1_000_000, Ordering::SeqCst);
    }

    /// Makes every reading advance the clock by `nanoseconds` first.
    pub fn step_by_ns(&self, nanoseconds: u64) {
        self.step_ns.store(nanoseconds, Ordering::SeqCst);
    }

    /// Sets only the time of day, forwards or backwards, as an operator or NTP may.
    pub fn set_wall_ms(&self, wall_ms: u64) {
        self.wall_ms.store(wall_ms, Ordering::SeqCst);
    }

    pub(crate) fn now(&self) -> Ticks {
        let step_ns = self.step_ns.load(Ordering::SeqCst);
        Ticks(self.now_ns.fetch_add(step_ns, Ordering::SeqCst) + step_ns)
    }

    pub(crate) fn wall(&self) -> WallTime {
        WallTime::from_unix_ms(self.wall_ms.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Clock, SimulatedClock};

    #[test]
    fn the_clock_advances_only_on_request() {
        let simulated = SimulatedClock::leaked(1_000);
        let clock = Clock::simulated(simulated);
        let first = clock.now();
        assert_eq!(clock.now(), first);
        simulated.advance_ns(2_000_000);
        assert_eq!(clock.now().since(first), 2_000_000);
        assert_eq!(clock.wall().unix_ms(), 1_002);
        simulated.set_wall_ms(7);
        assert_eq!(clock.wall().unix_ms(), 7);
        simulated.step_by_ns(10);
        assert_eq!(clock.now().since(clock.now()), 0);
    }
}
