//! The time before each send in which a thread stays awake, so that it sends on time.
//!
//! A thread that sleeps until a request is due wakes up late: by a few microseconds on an idle
//! core, by hundreds on a virtual machine whose host has to fetch the processor back first. So it
//! stays awake before each send for twice as long as its own wake-ups were late, which it learns as
//! it goes. That takes the core from other threads on the same core. Their presence is visible: the
//! kernel then preempts this thread. If that happens often, the thread goes back to the shortest
//! time awake.

/// The shortest time awake: twice the lateness of a wake-up on an idle core (4 µs in the median, 6
/// µs at p99).
const SHORTEST_NS: u64 = 8_000;
/// The longest time awake. A greater lateness has other causes than waking up.
const LONGEST_NS: u64 = 250_000;
/// The time awake before each send, as a multiple of the lateness of wake-ups.
const ROOM: f64 = 2.0;
/// The share of wake-ups that may be later than the estimate.
const LATER_SHARE: f64 = 0.01;
/// The share by which a wake-up that is later than the estimate raises it, about.
const STEP: f64 = 0.05;
/// The factor by which the estimate decays in each tick: a thread that no longer sleeps must try
/// again.
const REMAINS: f64 = 0.95;
/// The number of preemptions in a tick above which the core counts as shared.
const TAKEN_AT_MOST: u64 = 20;
/// The number of ticks for which a core then counts as shared.
const SHARED_TICKS: u32 = 50;

/// A thread's record of its own wake-ups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeUpLateness {
    /// The estimate of the 99th percentile of the lateness of wake-ups, in nanoseconds; `None` in
    /// virtual time, where no wait is late.
    late_ns: Option<f64>,
    /// The number of ticks for which the core still counts as shared.
    shared_ticks: u32,
    /// The number of preemptions until the last tick.
    taken: u64,
    /// The time that the thread was awake only to send on time, in nanoseconds.
    awake_ns: u64,
}

impl WakeUpLateness {
    /// A new record for a thread that was preempted `taken` times so far.
    pub(crate) fn new(taken: u64) -> Self {
        let late_ns = Some(SHORTEST_NS as f64 / ROOM);
        Self { late_ns, shared_ticks: 0, taken, awake_ns: 0 }
    }

    /// A record for a thread in virtual time.
    pub(crate) fn of_simulation() -> Self {
        Self { late_ns: None, shared_ticks: 0, taken: 0, awake_ns: 0 }
    }

    /// The time before a send in which the thread polls for events without sleeping, in
    /// nanoseconds.
    pub(crate) fn awake_before_ns(&self) -> u64 {
        match self.late_ns {
            None => 0,
            Some(_) if self.shared_ticks > 0 => SHORTEST_NS,
            Some(late_ns) => ((late_ns * ROOM) as u64).clamp(SHORTEST_NS, LONGEST_NS),
        }
    }

    /// Records a wait without events that was meant to last for `wait_ns` and lasted for
    /// `waited_ns`.
    pub(crate) fn note(&mut self, wait_ns: u64, waited_ns: u64) {
        if wait_ns == 0 {
            self.awake_ns += waited_ns;
            return;
        }
        let Some(late_ns) = &mut self.late_ns else { return };
        let is_later = waited_ns.saturating_sub(wait_ns) as f64 > *late_ns;
        let step = if is_later { 1.0 - LATER_SHARE } else { -LATER_SHARE };
        let limits = (SHORTEST_NS as f64 / ROOM, LONGEST_NS as f64 / ROOM);
        *late_ns = (*late_ns * (1.0 + STEP * step)).clamp(limits.0, limits.1);
    }

    /// Updates the record once in a tick. `taken` is the number of preemptions of the thread so
    /// far.
    pub(crate) fn tick(&mut self, taken: u64) {
        let by_others = taken.saturating_sub(std::mem::replace(&mut self.taken, taken));
        self.shared_ticks = self.shared_ticks.saturating_sub(1);
        if by_others > TAKEN_AT_MOST {
            self.shared_ticks = SHARED_TICKS;
        }
        if let Some(late_ns) = &mut self.late_ns {
            *late_ns = (*late_ns * REMAINS).max(SHORTEST_NS as f64 / ROOM);
        }
    }

    /// The time that the thread was awake only to send on time, in nanoseconds; it does not count
    /// as work.
    pub(crate) fn awake_ns(&self) -> u64 {
        self.awake_ns
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_NS, SHARED_TICKS, SHORTEST_NS, TAKEN_AT_MOST, WakeUpLateness};

    /// The record after many wake-ups that are late by these times in turn.
    fn after(late_ns: &[u64]) -> WakeUpLateness {
        let mut punctuality = WakeUpLateness::new(0);
        for late_ns in late_ns.iter().cycle().take(20_000) {
            punctuality.note(50_000, 50_000 + late_ns);
        }
        punctuality
    }

    #[test]
    fn a_thread_that_is_woken_on_time_sleeps_until_shortly_before_a_send() {
        assert_eq!(WakeUpLateness::new(0).awake_before_ns(), SHORTEST_NS);
        assert_eq!(after(&[3_000]).awake_before_ns(), SHORTEST_NS);
    }

    #[test]
    fn a_thread_that_is_woken_late_stays_awake_for_longer_than_it_was_late() {
        let awake_before_ns = after(&[10_000, 60_000]).awake_before_ns();
        assert!((60_000..LONGEST_NS).contains(&awake_before_ns), "{awake_before_ns}");
        assert_eq!(after(&[10_000_000]).awake_before_ns(), LONGEST_NS);
    }

    #[test]
    fn a_thread_that_no_longer_sleeps_tries_again() {
        let mut punctuality = after(&[10_000_000]);
        for _ in 0..100 {
            punctuality.tick(0);
        }
        assert_eq!(punctuality.awake_before_ns(), SHORTEST_NS);
    }

    #[test]
    fn a_core_that_others_want_is_left_to_them() {
        let mut punctuality = after(&[60_000]);
        let alone_ns = punctuality.awake_before_ns();
        punctuality.tick(TAKEN_AT_MOST);
        assert!(punctuality.awake_before_ns() > alone_ns / 2, "the kernel's own work is short");
        punctuality.tick(2 * TAKEN_AT_MOST + 1);
        assert_eq!(punctuality.awake_before_ns(), SHORTEST_NS);
        for _ in 0..SHARED_TICKS {
            punctuality.note(50_000, 110_000);
            punctuality.tick(2 * TAKEN_AT_MOST + 1);
        }
        assert_eq!(punctuality.shared_ticks, 0);
    }

    #[test]
    fn time_awake_without_an_event_does_not_count_as_work() {
        let mut punctuality = WakeUpLateness::new(0);
        punctuality.note(0, 700);
        punctuality.note(50_000, 53_000);
        assert_eq!(punctuality.awake_ns(), 700);
    }
}
