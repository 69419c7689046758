//! When requests are meant to start.
//!
//! The rate is spread evenly over all connections, and their starts are spread evenly over the
//! interval, so that requests come one by one instead of in volleys. All times are kept as ticks
//! with 32 binary digits after the point: adding an interval a billion times stays exact to less
//! than a tick.

use pellucid_clock::Ticks;

/// A time in ticks, with 32 binary digits after the point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FineTicks(u128);

impl FineTicks {
    /// The first whole tick at which this time has come.
    #[inline]
    pub(crate) fn ticks(self) -> Ticks {
        Ticks((self.0 >> 32) as u64)
    }
}

/// A constant rate: request n of connection c is meant to start at
/// `start + (c + n × connections) × requests / rate`, where `requests` go out at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    start: FineTicks,
    /// Between two sends of different connections, over all threads.
    step: u128,
    connections: u128,
}

impl Pace {
    pub(crate) fn new(
        rate_per_second: u64,
        requests_per_send: usize,
        connections: usize,
        ticks_per_second: u64,
        start: Ticks,
    ) -> Pace {
        let per_send = (u128::from(ticks_per_second) << 32) * requests_per_send as u128;
        Pace {
            start: FineTicks(u128::from(start.0) << 32),
            // Rounded up, so that a run does not get one request more than its length allows.
            step: per_send.div_ceil(u128::from(rate_per_second.max(1))),
            connections: connections as u128,
        }
    }

    /// The first start of a connection.
    pub(crate) fn first(&self, connection: usize) -> FineTicks {
        FineTicks(self.start.0 + self.step * connection as u128)
    }

    /// The start after `time` on the same connection.
    #[inline]
    pub(crate) fn after(&self, time: FineTicks) -> FineTicks {
        FineTicks(time.0 + self.step * self.connections)
    }

    /// How many starts of a connection, from `next` on, come before `end`.
    pub(crate) fn sends_until(&self, next: FineTicks, end: Ticks) -> u64 {
        let left = (u128::from(end.0) << 32).saturating_sub(next.0);
        u64::try_from(left.div_ceil(self.step * self.connections)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_even_over_all_connections() {
        let pace = Pace::new(1_000, 1, 4, 1_000_000_000, Ticks(5));
        let mut starts = Vec::new();
        for connection in 0..4 {
            let mut time = pace.first(connection);
            for _ in 0..3 {
                starts.push(time.ticks().0);
                time = pace.after(time);
            }
        }
        starts.sort_unstable();
        let expected: Vec<u64> = (0..12).map(|n| 5 + n * 1_000_000).collect();
        assert_eq!(starts, expected);
    }

    #[test]
    fn a_million_odd_intervals_do_not_drift() {
        let pace = Pace::new(30_000, 1, 1, 2_900_000_123, Ticks(0));
        let mut time = pace.first(0);
        for _ in 0..30_000_000 / 30 {
            time = pace.after(time);
        }
        let exact = 2_900_000_123_u128 * 1_000_000 / 30_000;
        assert!(u128::from(time.ticks().0).abs_diff(exact) <= 1);
    }

    #[test]
    fn starts_before_the_end_are_counted() {
        let pace = Pace::new(1_000, 1, 1, 1_000_000_000, Ticks(0));
        for (end, count) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
            assert_eq!(pace.sends_until(pace.first(0), Ticks(end)), count);
        }
    }

    #[test]
    fn a_pipelined_batch_takes_the_time_of_its_requests() {
        let pace = Pace::new(1_000, 3, 1, 1_000_000_000, Ticks(0));
        assert_eq!(pace.after(pace.first(0)).ticks(), Ticks(3_000_000));
    }
}
