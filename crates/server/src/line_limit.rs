//! The limit of lines of one kind in the log.

use pellucid_clock::{Clock, Stopwatch};

/// The limit of lines within one interval, so that a server on which all requests are slow, or
/// fail, is not busy with logging.
const LINES_MAX: usize = 20;
/// The least length of an interval.
const INTERVAL_NS: u64 = 1_000_000_000;

/// Lets lines pass up to the limit, and counts those beyond it.
pub(crate) struct LineLimit {
    clock: Clock,
    written: usize,
    left_out: u64,
    /// The time since the begin of the interval.
    age: Stopwatch,
}

impl LineLimit {
    pub(crate) fn new(clock: Clock) -> LineLimit {
        LineLimit { clock, written: 0, left_out: 0, age: clock.stopwatch() }
    }

    /// The time until the interval may end, in nanoseconds.
    pub(crate) fn left_ns(&self) -> u64 {
        INTERVAL_NS.saturating_sub(self.age.elapsed_ns())
    }

    /// Counts a line. Returns false if it is beyond the limit, and is left out.
    pub(crate) fn admit(&mut self) -> bool {
        let is_within = self.written < LINES_MAX;
        match is_within {
            true => self.written += 1,
            false => self.left_out += 1,
        }
        is_within
    }

    /// Begins a new interval. Returns the number of lines that were left out in the last one, and
    /// its length in seconds.
    pub(crate) fn end_interval(&mut self) -> (u64, u64) {
        let seconds = ((self.age.elapsed_ns() + INTERVAL_NS / 2) / INTERVAL_NS).max(1);
        let ended = std::mem::replace(self, LineLimit::new(self.clock));
        (ended.left_out, seconds)
    }
}
