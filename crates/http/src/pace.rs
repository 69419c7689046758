//! The pace at which a client takes its responses.
//!
//! A limit on the time without progress is not enough: a client that takes one byte every half
//! minute could hold a response, and its memory, for any time.

use std::time::Duration;

use pellucid_clock::{Clock, Ticks};

/// The pace of a client since some of its responses first had to wait for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// The beginning of the current wait for the client; none if no bytes wait.
    since: Option<Ticks>,
    /// Ticks of all earlier waits.
    waited_ticks: u64,
    /// Bytes that the client took since the first wait began.
    bytes: u64,
}

impl Pace {
    /// True if any bytes have had to wait for the client so far.
    #[inline]
    pub(crate) fn is_begun(&self) -> bool {
        self.since.is_some() || self.waited_ticks > 0
    }

    /// The beginning of the current wait for the client; none if no bytes wait.
    #[inline]
    pub(crate) fn waiting_since(&self) -> Option<Ticks> {
        self.since
    }

    /// Notes that the client took `bytes`; `is_rest` is true if more wait for it.
    pub(crate) fn note(&mut self, bytes: u64, is_rest: bool, now: Ticks) {
        if self.is_begun() {
            self.bytes = self.bytes.saturating_add(bytes);
        }
        match self.since {
            None if is_rest => self.since = Some(now),
            Some(since) if !is_rest => {
                self.waited_ticks += now.since(since);
                self.since = None;
            }
            _ => {}
        }
    }

    /// True if the sum of the waits is longer than `grace` plus the time in which the client would
    /// have taken its bytes at `bytes_per_second_min`. If that is zero, there is no limit.
    pub(crate) fn is_slow(
        &self,
        grace: Duration,
        bytes_per_second_min: u64,
        clock: &Clock,
        now: Ticks,
    ) -> bool {
        if bytes_per_second_min == 0 {
            return false;
        }
        let waiting_ticks = self.since.map_or(0, |since| now.since(since));
        let waited_ns = u128::from(clock.nanoseconds(self.waited_ticks + waiting_ticks));
        let due_ns = u128::from(self.bytes) * 1_000_000_000 / u128::from(bytes_per_second_min);
        waited_ns > grace.as_nanos() + due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(30);
    const RATE: u64 = 1_000;

    /// Simulates a client that takes `bytes` of an endless response every `pause_ms`, for ten
    /// minutes. Returns after how many seconds it counts as slow; none if it never does.
    fn slow_after_seconds(bytes: u64, pause_ms: u64) -> Option<u64> {
        let clock = Clock::monotonic();
        let at = |ms: u64| Ticks(clock.ticks(ms * 1_000_000));
        let mut pace = Pace::default();
        pace.note(100_000, true, at(0));
        (1..=600_000 / pause_ms).map(|turn| turn * pause_ms).find_map(|ms| {
            pace.note(bytes, true, at(ms));
            pace.is_slow(GRACE, RATE, &clock, at(ms)).then_some(ms / 1_000)
        })
    }

    #[test]
    fn a_client_below_the_lowest_rate_is_slow_and_one_at_it_is_not() {
        // Cases: nothing, a byte now and then, and nine tenths of the lowest rate.
        assert_eq!(slow_after_seconds(0, 250), Some(30));
        assert_eq!(slow_after_seconds(1, 1_000), Some(31));
        assert_eq!(slow_after_seconds(900, 1_000), Some(301));
        for (bytes, pause_ms) in [(1_000, 1_000), (25_000, 25_000), (250, 250)] {
            assert_eq!(slow_after_seconds(bytes, pause_ms), None, "{bytes} in {pause_ms} ms");
        }
    }

    #[test]
    fn only_time_with_waiting_bytes_counts() {
        let clock = Clock::monotonic();
        let at = |seconds: u64| Ticks(clock.ticks(seconds * 1_000_000_000));
        let is_slow = |pace: &Pace, now| pace.is_slow(GRACE, RATE, &clock, at(now));
        let mut pace = Pace::default();
        assert!(!pace.is_begun());
        pace.note(5_000, false, at(0));
        assert!(!pace.is_begun() && !is_slow(&pace, 1_000_000));
        // Waits of 20 s each, with nothing waiting in between. Bytes taken before the first wait do
        // not count.
        pace.note(9_000, true, at(100));
        pace.note(10, false, at(120));
        assert!(pace.is_begun() && !is_slow(&pace, 1_000_000));
        pace.note(10, true, at(1_000));
        assert!(!is_slow(&pace, 1_010) && is_slow(&pace, 1_011), "30 s, and 20 bytes");
        assert!(!pace.is_slow(GRACE, 0, &clock, at(1_000_000)), "zero is no limit");
        // A client that catches up is no longer slow.
        pace.note(100_000, true, at(1_012));
        assert!(!is_slow(&pace, 1_100) && is_slow(&pace, 1_111));
    }
}
