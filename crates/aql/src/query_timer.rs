//! The measurement of a query's running time.

use pellucid_clock::{Clock, Stopwatch};

/// The running time of a query, without the pauses between two calls for more of its result.
pub(crate) struct QueryTimer {
    clock: Clock,
    begun: Stopwatch,
    /// The time of planning before `begun`.
    planning_ns: u64,
    /// The total of the pauses that have ended.
    paused_ns: u64,
    /// The current pause, if there is one.
    pause: Option<Stopwatch>,
}

impl QueryTimer {
    /// Begins now, after a planning of `planning_ns`.
    pub(crate) fn new(planning_ns: u64) -> Self {
        let clock = Clock::system();
        Self { clock, begun: clock.stopwatch(), planning_ns, paused_ns: 0, pause: None }
    }

    pub(crate) fn stopwatch(&self) -> Stopwatch {
        self.clock.stopwatch()
    }

    /// The nanoseconds since the beginning, without pauses.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        let paused_ns = self.paused_ns + self.pause.as_ref().map_or(0, Stopwatch::elapsed_ns);
        self.begun.elapsed_ns().saturating_sub(paused_ns)
    }

    /// As [`Self::elapsed_ns`], with planning.
    pub(crate) fn elapsed_with_planning_ns(&self) -> u64 {
        self.planning_ns.saturating_add(self.elapsed_ns())
    }

    pub(crate) fn pause(&mut self) {
        self.pause = Some(self.clock.stopwatch());
    }

    pub(crate) fn go_on(&mut self) {
        self.paused_ns += self.pause.take().map_or(0, |pause| pause.elapsed_ns());
    }
}
