//! The pace at which a client takes its responses.
//!
//! That it takes anything now and then is not enough: a byte in every half minute would hold a
//! response, and all that belongs to it, for as long as the client likes.

use std::time::Duration;

use pellucid_clock::{Clock, Ticks};

use crate::limits::Limits;

/// The pace of a client since some of its responses first had to wait for it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// The beginning of a wait for it to take bytes; none while there are none.
    since: Option<Ticks>,
    /// Ticks of such waits before.
    waited_ticks: u64,
    /// Bytes that it took since the first of these waits began.
    bytes: u64,
}

impl Pace {
    /// True if anything had to wait for the client yet.
    #[inline]
    pub(crate) fn is_begun(&self) -> bool {
        self.since.is_some() || self.waited_ticks > 0
    }

    /// Notes that the client took `bytes`, and whether more are there that it did not take.
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

    /// As [`Pace::is_slow`], by the limits of a listener.
    pub(crate) fn exceeds(&self, limits: &Limits, clock: &Clock, now: Ticks) -> bool {
        self.is_slow(limits.exchange, limits.response_bytes_per_second, clock, now)
    }

    /// True if the client has made us wait for longer than `grace` and the time in which it would
    /// have taken its bytes at `bytes_per_second_min`. Nobody is slow where that is zero.
    fn is_slow(
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

    /// A client that takes `bytes` every `pause_ms`, for ten minutes, of what never ends; when it
    /// was found to be slow, in seconds.
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
    fn who_takes_little_is_slow_and_who_takes_enough_is_not() {
        // Nothing, a byte now and then, and nine tenths of the least rate.
        assert_eq!(slow_after_seconds(0, 250), Some(30));
        assert_eq!(slow_after_seconds(1, 1_000), Some(31));
        assert_eq!(slow_after_seconds(900, 1_000), Some(301));
        for (bytes, pause_ms) in [(1_000, 1_000), (25_000, 25_000), (250, 250)] {
            assert_eq!(slow_after_seconds(bytes, pause_ms), None, "{bytes} in {pause_ms} ms");
        }
    }

    #[test]
    fn only_what_waits_for_the_client_counts() {
        let clock = Clock::monotonic();
        let at = |seconds: u64| Ticks(clock.ticks(seconds * 1_000_000_000));
        let is_slow = |pace: &Pace, now| pace.is_slow(GRACE, RATE, &clock, at(now));
        let mut pace = Pace::default();
        assert!(!pace.is_begun());
        pace.note(5_000, false, at(0));
        assert!(!pace.is_begun() && !is_slow(&pace, 1_000_000));
        // Waits of 20 s each, between which it has all there is; what it took before the first one
        // is no merit.
        pace.note(9_000, true, at(100));
        pace.note(10, false, at(120));
        assert!(pace.is_begun() && !is_slow(&pace, 1_000_000));
        pace.note(10, true, at(1_000));
        assert!(!is_slow(&pace, 1_010) && is_slow(&pace, 1_011), "30 s, and 20 bytes");
        assert!(!pace.is_slow(GRACE, 0, &clock, at(1_000_000)), "zero is no limit");
        // Whoever makes up for it is slow no more.
        pace.note(100_000, true, at(1_012));
        assert!(!is_slow(&pace, 1_100) && is_slow(&pace, 1_111));
    }
}
