//! The back-off of a transaction between a conflict and its next attempt.
//!
//! With a remote store, writers that conflict over one document would conflict again if all of them
//! retried at once. So each waits for a random time, whose bound doubles with each conflict.

use std::time::Duration;

use pellucid_io::{Random, SystemRandom};

/// The bound of the first pause, in nanoseconds. The bound doubles with each further pause.
const FIRST_NS_MAX: u64 = 250_000;
/// The most times that the bound doubles. 64 pauses take about a second on average.
const DOUBLINGS_MAX: u32 = 7;

/// The pauses of one transaction.
#[derive(Default)]
pub struct RetryBackoff {
    /// The number of times that the bound has doubled.
    doublings: u32,
}

impl RetryBackoff {
    /// The time of the next pause: up to 0.25 ms the first time, up to twice the previous bound
    /// each further time, and never above 32 ms.
    pub fn next_pause(&mut self) -> Duration {
        self.pause(SystemRandom.next_u64())
    }

    /// As [`Self::next_pause`], the share of the bound that `random` is of all numbers.
    fn pause(&mut self, random: u64) -> Duration {
        let longest_ns = FIRST_NS_MAX << self.doublings;
        self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
        let share = u128::from(random) * u128::from(longest_ns + 1);
        Duration::from_nanos((share >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use pellucid_io::SeededRandom;

    use super::*;
    use crate::ATTEMPTS_MAX;

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let mut longest = RetryBackoff::default();
        let pauses: Vec<_> = (0..10).map(|_| longest.pause(u64::MAX).as_micros()).collect();
        assert_eq!(pauses[..4], [250, 500, 1_000, 2_000]);
        assert_eq!(pauses[7..], [32_000; 3]);
        let mut shortest = RetryBackoff::default();
        assert!((0..10).all(|_| shortest.pause(0).is_zero()));
    }

    #[test]
    fn two_transactions_have_different_pauses() {
        let of = |seed| {
            let (mut pauses, mut random) = (RetryBackoff::default(), SeededRandom::new(seed));
            (0..ATTEMPTS_MAX).map(|_| pauses.pause(random.next_u64())).collect::<Vec<_>>()
        };
        let (one, other) = (of(1), of(2));
        assert!(one.iter().zip(&other).all(|(one, other)| one != other));
        let all: Duration = one.iter().sum();
        assert!(all > Duration::from_millis(500) && all < Duration::from_millis(1_500), "{all:?}");
    }
}
