//! The time that a query takes.

use pellucid_clock::{Clock, Stopwatch};

/// The time that a query takes, without that in which nobody asks for more of its result.
pub(crate) struct Timing {
    clock: Clock,
    begun: Stopwatch,
    /// Nanoseconds before then in which it was planned.
    planning_ns: u64,
    /// Nanoseconds of the pauses that are over.
    paused_ns: u64,
    /// The pause that lasts.
    pause: Option<Stopwatch>,
}

impl Timing {
    /// Begins now, after so many nanoseconds of planning.
    pub(crate) fn new(planning_ns: u64) -> Self {
        let clock = Clock::system();
        Self { clock, begun: clock.stopwatch(), planning_ns, paused_ns: 0, pause: None }
    }

    pub(crate) fn stopwatch(&self) -> Stopwatch {
        self.clock.stopwatch()
    }

    /// Nanoseconds since it began.
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
