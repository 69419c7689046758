//! The back-off of a transaction between a conflict and its next attempt.
//!
//! With a remote store, writers that conflict over one document would conflict again if all of them
//! retried at once. So each waits for a random time, whose bound doubles with each conflict.

use std::time::Duration;

use pellucid_io::{Random, SystemRandom};

/// The bound of the first pause, in nanoseconds. The bound doubles with each further pause.
const FIRST_NS_MAX: u64 = 250_000;
/// The bound of any pause, in nanoseconds. 64 pauses take about a second on average.
const PAUSE_NS_MAX: u64 = FIRST_NS_MAX << 7;

/// The pauses of one transaction.
pub struct RetryBackoff<R = SystemRandom> {
    random: R,
    /// The bound of the next pause.
    longest_ns: u64,
}

impl RetryBackoff {
    /// Makes pauses from the operating system's random numbers.
    #[must_use]
    pub fn new() -> RetryBackoff {
        RetryBackoff::with(SystemRandom)
    }
}

impl Default for RetryBackoff {
    fn default() -> RetryBackoff {
        RetryBackoff::new()
    }
}

impl<R: Random> RetryBackoff<R> {
    /// Makes pauses from the random numbers of `random`.
    pub fn with(random: R) -> RetryBackoff<R> {
        RetryBackoff { random, longest_ns: FIRST_NS_MAX }
    }

    /// The time of the next pause: up to 0.25 ms the first time, up to twice the previous bound
    /// each further time, and never above 32 ms.
    pub fn next_pause(&mut self) -> Duration {
        let longest_ns = self.longest_ns;
        self.longest_ns = (longest_ns * 2).min(PAUSE_NS_MAX);
        let share = u128::from(self.random.next_u64()) * u128::from(longest_ns + 1);
        Duration::from_nanos((share >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use pellucid_io::SeededRandom;

    use super::*;
    use crate::ATTEMPTS_MAX;

    struct ConstantRandom(u64);

    impl Random for ConstantRandom {
        fn next_u64(&mut self) -> u64 {
            self.0
        }
    }

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let mut longest = RetryBackoff::with(ConstantRandom(u64::MAX));
        let pauses: Vec<_> = (0..10).map(|_| longest.next_pause().as_micros()).collect();
        assert_eq!(pauses[..4], [250, 500, 1_000, 2_000]);
        assert_eq!(pauses[7..], [32_000; 3]);
        let mut shortest = RetryBackoff::with(ConstantRandom(0));
        assert!((0..10).all(|_| shortest.next_pause().is_zero()));
    }

    #[test]
    fn two_transactions_have_different_pauses() {
        let of = |seed| {
            let mut pauses = RetryBackoff::with(SeededRandom::new(seed));
            (0..ATTEMPTS_MAX).map(|_| pauses.next_pause()).collect::<Vec<_>>()
        };
        let (one, other) = (of(1), of(2));
        assert!(one.iter().zip(&other).all(|(one, other)| one != other));
        let all: Duration = one.iter().sum();
        assert!(all > Duration::from_millis(500) && all < Duration::from_millis(1_500), "{all:?}");
    }
}
