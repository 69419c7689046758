//! The pacing of wrk2, so that figures can be compared with those that wrk2 measured.
//!
//! Each connection of wrk2 has its own schedule, at an even share of the rate, and one request in
//! flight. It checks the schedule when an answer is complete, and sleeps by a timer of whole
//! milliseconds if the next start is still to come: it sends about a millisecond late, and counts
//! that as latency. A connection that is behind sends at twice its rate until it has caught up.
//! Connections begin five milliseconds apart.

use std::ops::Range;

use pellucid_clock::{Clock, Ticks};

/// The time between the starts of two connections of a thread, in milliseconds.
const STAGGER_MS: u64 = 5;
const NS_PER_MS: u64 = 1_000_000;

/// The method that times the sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacer {
    /// The method of this generator: to microseconds, on the next free connection.
    #[default]
    Exact,
    /// The method of wrk2: by timers of whole milliseconds, each connection by itself.
    Wrk2,
}

impl Pacer {
    /// The name, as in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Pacer::Exact => "exact",
            Pacer::Wrk2 => "wrk2",
        }
    }
}

/// The next step of a connection that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendDecision {
    /// Send now the request with this intended start.
    Send(Ticks),
    /// Sleep by a timer until this time, and ask again.
    Sleep(Ticks),
}

/// A connection's place in its schedule.
#[derive(Clone, Debug, Default)]
struct ConnectionSchedule {
    /// The start of the schedule; `None` before the first request.
    begun: Option<Ticks>,
    sent: u64,
    /// The time since which the connection is behind, and the number of requests sent until then.
    behind: Option<(Ticks, u64)>,
}

/// The schedules of a thread's connections.
#[derive(Clone, Debug)]
pub(crate) struct Wrk2Timers {
    clock: Clock,
    start: Ticks,
    /// Ticks between two requests of a connection.
    interval: f64,
    /// The number of requests in a batch.
    batch: u64,
    hands: Vec<ConnectionSchedule>,
}

impl Wrk2Timers {
    /// The schedules of `connections`, which together send `rate_per_second` from `start` on, in
    /// batches of `batch`.
    pub(crate) fn new(
        clock: Clock,
        start: Ticks,
        connections: usize,
        rate_per_second: f64,
        batch: usize,
    ) -> Wrk2Timers {
        let interval = clock.ticks_per_second() as f64 * connections as f64 / rate_per_second;
        let hands = vec![ConnectionSchedule::default(); connections];
        Wrk2Timers { clock, start, interval, batch: batch as u64, hands }
    }

    /// The next step of a connection at `now`.
    pub(crate) fn next(&mut self, connection: usize, now: Ticks) -> SendDecision {
        let stagger_ns = connection as u64 * STAGGER_MS * NS_PER_MS;
        let earliest = Ticks(self.start.0 + self.clock.ticks(stagger_ns));
        let hand = &mut self.hands[connection];
        if hand.begun.is_none() && now < earliest {
            return SendDecision::Sleep(earliest);
        }
        let begun = *hand.begun.get_or_insert(now);
        let due = after(begun, self.interval * hand.sent as f64);
        if due > now {
            hand.behind = None;
            return SendDecision::Sleep(self.timer(due, now));
        }
        let (since, sent_before) = *hand.behind.get_or_insert((now, hand.sent));
        let caught_up = after(since, self.interval / 2.0 * (hand.sent - sent_before) as f64);
        if caught_up > now {
            return SendDecision::Sleep(self.timer(caught_up, now));
        }
        hand.sent += self.batch;
        SendDecision::Send(due)
    }

    /// The number of requests that are due by `end` and not sent.
    pub(crate) fn due_by(&self, end: Ticks) -> u64 {
        self.unsent(end).map(|(_, numbers)| numbers.end - numbers.start).sum()
    }

    /// The intended starts of the requests that are due by `end` and not sent: a batch starts with
    /// its first request.
    pub(crate) fn unsent_starts(&self, end: Ticks) -> impl Iterator<Item = Ticks> {
        self.unsent(end).flat_map(move |(begun, numbers)| {
            let first = move |number: u64| number - number % self.batch;
            numbers.map(move |number| after(begun, self.interval * first(number) as f64))
        })
    }

    /// The earliest of those starts.
    pub(crate) fn oldest_due(&self, end: Ticks) -> Option<Ticks> {
        let due = self.unsent(end).filter(|(_, numbers)| !numbers.is_empty());
        due.map(|(begun, numbers)| after(begun, self.interval * numbers.start as f64)).min()
    }

    /// For each connection that has begun: the start of its schedule, and the numbers of its
    /// requests that are due by `end` and not sent.
    fn unsent(&self, end: Ticks) -> impl Iterator<Item = (Ticks, Range<u64>)> {
        self.hands.iter().filter_map(move |hand| {
            let begun = hand.begun?;
            let due = (end.since(begun) as f64 / self.interval).ceil() as u64;
            Some((begun, hand.sent..due.max(hand.sent)))
        })
    }

    /// The wait from `now` for a timer that ends at `end`, in nanoseconds: a thread sleeps for
    /// whole milliseconds.
    pub(crate) fn wait_ns(&self, end: Ticks, now: Ticks) -> u64 {
        let since_start = |time: Ticks| self.clock.nanoseconds(time.since(self.start));
        // A timer ends at a whole millisecond, to within a tick of the clock.
        let end_ms = (since_start(end) + NS_PER_MS / 2) / NS_PER_MS;
        end_ms.saturating_sub(since_start(now) / NS_PER_MS) * NS_PER_MS
    }

    /// The end of the timer that is set at `now` for a request that is due later. As in wrk2, it is
    /// at a whole millisecond of the clock: the wait is rounded up to at most a millisecond more.
    fn timer(&self, due: Ticks, now: Ticks) -> Ticks {
        let since_start = |time: Ticks| self.clock.nanoseconds(time.since(self.start));
        let wait_ms = (since_start(due) - since_start(now)) / NS_PER_MS + 1;
        let end_ms = since_start(now) / NS_PER_MS + wait_ms;
        Ticks(self.start.0 + self.clock.ticks(end_ms * NS_PER_MS))
    }
}

fn after(begin: Ticks, ticks: f64) -> Ticks {
    Ticks(begin.0 + ticks as u64)
}

#[cfg(test)]
mod tests {
    use pellucid_clock::SimulatedClock;

    use super::*;

    const US: u64 = 1_000;

    /// 200 requests a second over two connections: one each ten milliseconds on either. A tick of
    /// the simulated clock is a nanosecond.
    fn timers() -> Wrk2Timers {
        let clock = Clock::simulated(SimulatedClock::leaked(0));
        Wrk2Timers::new(clock, Ticks(0), 2, 200.0, 1)
    }

    #[test]
    fn connections_begin_apart_and_sleep_for_whole_milliseconds() {
        let mut timers = timers();
        assert_eq!(timers.next(0, Ticks(0)), SendDecision::Send(Ticks(0)));
        assert_eq!(timers.next(1, Ticks(0)), SendDecision::Sleep(Ticks(5_000 * US)));
        assert_eq!(timers.next(1, Ticks(5_100 * US)), SendDecision::Send(Ticks(5_100 * US)));
        // Answered at 300 µs: 9.7 ms remain, which are ten by a timer of whole milliseconds that
        // was set in the millisecond that began at zero.
        let end = Ticks(10_000 * US);
        assert_eq!(timers.next(0, Ticks(300 * US)), SendDecision::Sleep(end));
        // The thread itself sleeps for whole milliseconds, from wherever it is within one.
        assert_eq!(timers.wait_ns(end, Ticks(300 * US)), 10_000 * US);
        assert_eq!(timers.wait_ns(end, Ticks(9_300 * US)), 1_000 * US);
        assert_eq!(timers.next(0, Ticks(10_300 * US)), SendDecision::Send(end));
        assert_eq!(timers.due_by(Ticks(10_300 * US)), 0);
        let end = Ticks(30_100 * US);
        assert_eq!(timers.due_by(end), 2 + 2);
        let starts: Vec<u64> = timers.unsent_starts(end).map(|start| start.0 / US).collect();
        assert_eq!(starts, [20_000, 30_000, 15_100, 25_100]);
        assert_eq!(timers.oldest_due(end), Some(Ticks(15_100 * US)));
        assert_eq!(timers.oldest_due(Ticks(10_300 * US)), None);
    }

    /// Regression: a millisecond is no whole number of ticks, so a thread that should sleep for one
    /// woke up again and again.
    #[test]
    fn no_sleep_is_cut_short_by_the_ticks_of_a_real_clock() {
        let clock = Clock::system();
        let start = Ticks(12_345);
        let timers = Wrk2Timers::new(clock, start, 1, 1_000.0, 1);
        let at = |us: u64| Ticks(start.0 + clock.ticks(us * US));
        for ms in 1..2_000 {
            let (end, now) = (at(ms * 1_000), at(ms * 1_000 - 700));
            assert_eq!(timers.wait_ns(end, now), NS_PER_MS, "at {ms} ms");
        }
    }

    /// A connection catches up at twice its rate, counted from the request that delayed it: at
    /// first, that is at once.
    #[test]
    fn a_connection_that_was_delayed_catches_up() {
        let mut timers = timers();
        assert_eq!(timers.next(0, Ticks(0)), SendDecision::Send(Ticks(0)));
        // Answered after a tenth of a second: ten are due.
        for number in 1..=10 {
            let now = Ticks((100_000 + number * 100) * US);
            assert_eq!(timers.next(0, now), SendDecision::Send(Ticks(number * 10_000 * US)));
        }
        assert_eq!(timers.next(0, Ticks(101_100 * US)), SendDecision::Sleep(Ticks(110_000 * US)));
        // A connection that falls behind later sends at most at twice its rate.
        assert_eq!(timers.next(0, Ticks(140_000 * US)), SendDecision::Send(Ticks(110_000 * US)));
        assert_eq!(timers.next(0, Ticks(140_100 * US)), SendDecision::Sleep(Ticks(145_000 * US)));
    }
}
