//! A stopwatch, for measuring the duration of a piece of work.

use crate::source::Clock;
use crate::ticks::Ticks;

/// A running stopwatch.
///
/// ```
/// let stopwatch = pellucid_clock::Clock::system().stopwatch();
/// assert!(stopwatch.elapsed_ns() < 60_000_000_000);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    clock: Clock,
    begun: Ticks,
}

impl Clock {
    /// Starts a stopwatch.
    #[must_use]
    pub fn stopwatch(self) -> Stopwatch {
        Stopwatch { clock: self, begun: self.now() }
    }
}

impl Stopwatch {
    /// Nanoseconds since it was started.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.clock.nanoseconds(self.clock.now().since(self.begun))
    }
}
