//! A short pause under full load, to gather more work per wake-up.
//!
//! A loop under full load finds few ready connections per wake-up: only those that became readable
//! while it handled the previous ones. So it switches between reading, answering and writing all
//! the time; its clients get few answers at a time, and send few requests at a time. With a short
//! pause, both sides have more to do at a time, and more requests are answered at less cost
//! (docs/lab/2026-11-24-request-path.md). So a loop that has been busy for nearly all of the recent
//! time, and found few connections in this wake-up, looks once more after
//! [`GATHER_PAUSE`](crate::limits::GATHER_PAUSE).
//!
//! The pause is part of the `receive` of the requests that were ready before it, because they wait
//! for the loop. Pauses count as idle time, so that they cannot make a loop look busy. There are no
//! pauses while the service's links are in use, because the loops at their other ends wait for this
//! one as it waits for them: two nodes of a cluster that paused for each other forwarded 121,000
//! requests per second, instead of 140,000.

use pellucid_clock::{Clock, Ticks};

use crate::limits::{GATHER_CONNECTIONS_MAX, GATHER_WORK_TO_IDLE};
use crate::ready_list::ReadyList;

/// The decay per wake-up of the earlier work and idle time: they lose one part in two to this
/// power.
const FADING_SHIFT: u32 = 4;
/// The longest idle time that counts, in nanoseconds: after it, the loop has to be busy for some
/// fifty wake-ups before it pauses again.
const IDLE_MAX_NS: u64 = 1_000_000;
/// Wake-ups without an event of a link after which links count as not in use.
const LINKS_QUIET_WAKE_UPS: u32 = 64;

/// The recent work and idle time of a loop, which decide whether it pauses.
pub(crate) struct LoopLoad {
    work_ticks: u64,
    idle_ticks: u64,
    idle_ticks_max: u64,
    /// Wake-ups since the last one with links.
    without_links: u32,
    /// The beginning of the last wake-up.
    woke: Ticks,
}

impl LoopLoad {
    pub(crate) fn new(clock: &Clock) -> LoopLoad {
        let idle_ticks_max = clock.ticks(IDLE_MAX_NS);
        let woke = clock.now();
        LoopLoad { work_ticks: 0, idle_ticks: 0, idle_ticks_max, without_links: 0, woke }
    }

    /// Notes a wake-up at `woke`, for which the loop waited since `looked`, and the descriptors
    /// that it found. Returns true if the loop should look again after a pause.
    #[inline]
    pub(crate) fn is_due(&mut self, looked: Ticks, woke: Ticks, found: &ReadyList) -> bool {
        let counted = self.without_links.saturating_add(1);
        self.without_links = if found.has_links() { 0 } else { counted };
        self.work_ticks += looked.since(self.woke);
        self.work_ticks -= self.work_ticks >> FADING_SHIFT;
        self.idle_ticks -= self.idle_ticks >> FADING_SHIFT;
        self.idle(looked, woke);
        // A single ready connection may be the only active one: a pause would gather nothing.
        self.idle_ticks * GATHER_WORK_TO_IDLE < self.work_ticks
            && (2..GATHER_CONNECTIONS_MAX).contains(&found.len())
            && self.without_links > LINKS_QUIET_WAKE_UPS
    }

    /// Notes time without work: a pause, or a wait for events.
    pub(crate) fn idle(&mut self, from: Ticks, to: Ticks) {
        self.idle_ticks += to.since(from).min(self.idle_ticks_max);
        self.woke = to;
    }
}

/// Sets the timer slack of this thread to its minimum. With the default, the system may end a sleep
/// 50 µs late, to group timers.
pub(crate) fn sleep_to_the_point() {
    // If this fails, pauses are longer.
    let _ = rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
}

#[cfg(test)]
mod tests {
    use mio::Token;
    use pellucid_clock::SimulatedClock;

    use super::*;
    use crate::links::LINKS;
    use crate::ready_list::{PeerState, ReadyDescriptor};

    fn found(tokens: impl Iterator<Item = usize>) -> ReadyList {
        let ready =
            |token| ReadyDescriptor { token: Token(token), peer: PeerState::Open, woke: Ticks(0) };
        ReadyList(tokens.map(ready).collect())
    }

    /// Simulates 100 wake-ups of a loop with `work` and `wait` nanoseconds and `count` ready
    /// connections in each; returns the number of pauses.
    fn pauses(gather: &mut LoopLoad, now: &mut u64, work: u64, wait: u64, count: usize) -> usize {
        let (found, mut pauses) = (found(0..count), 0);
        for _ in 0..100 {
            let looked = *now + work;
            *now = looked + wait;
            if gather.is_due(Ticks(looked), Ticks(*now), &found) {
                pauses += 1;
                gather.idle(Ticks(*now), Ticks(*now + 20_000));
                *now += 20_000;
            }
        }
        pauses
    }

    #[test]
    fn a_pause_is_due_under_full_load_with_few_connections() {
        let clock = Clock::simulated(SimulatedClock::leaked(0));
        let (mut gather, mut now) = (LoopLoad::new(&clock), 0);
        let mut of = |work, wait, found| pauses(&mut gather, &mut now, work, wait, found);
        assert_eq!(of(20_000, 60_000, 4), 0, "a quarter of the load");
        // The simulated clock ticks in nanoseconds. Of 220 us of work, 20 us are a pause.
        assert!(of(200_000, 500, 4) > 50);
        assert_eq!(of(200_000, 500, 1), 0, "one alone");
        assert_eq!(of(200_000, 500, GATHER_CONNECTIONS_MAX), 0, "enough");
        // With a pause in each wake-up, the loop would be idle for half of the time.
        let some = of(20_000, 500, 4);
        assert!(some > 0 && some < 50, "{some}");
        of(20_000, 2_000_000, 4);
        assert_eq!(of(20_000, 60_000, 4), 0);
    }

    /// Regression: two nodes of a cluster paused for each other, which slowed both.
    #[test]
    fn while_links_are_in_use_there_is_no_pause() {
        let clock = Clock::simulated(SimulatedClock::leaked(0));
        let mut gather = LoopLoad::new(&clock);
        assert!(pauses(&mut gather, &mut 0, 200_000, 500, 4) > 0);
        let mut now = 1_000_000_000;
        let mut is_due = |tokens: &[usize]| {
            now += 200_000;
            gather.is_due(Ticks(now), Ticks(now), &found(tokens.iter().copied()))
        };
        assert!(is_due(&[1, 2]));
        assert!(!is_due(&[1, LINKS]));
        let after = (0..1_000).position(|_| is_due(&[1, 2]));
        assert_eq!(after, Some(LINKS_QUIET_WAKE_UPS as usize));
        // The listener and the mailbox are no links.
        assert!(is_due(&[1, usize::MAX]));
    }
}
