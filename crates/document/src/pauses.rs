//! Pauses of a transaction between a conflict and its next attempt.
//!
//! Where the store is far away, as a ring is, those who met over one document would meet again each
//! time if all went on at once. So each waits for a random time, and the longer, the more often it
//! was too late.

use std::time::Duration;

use pellucid_io::{Random, SystemRandom};

/// The longest that the first pause may be, in nanoseconds; that of each further one is twice that
/// of the one before.
const FIRST_NS_MAX: u64 = 250_000;
/// The longest that any pause may be, in nanoseconds: 64 of them take a second on average.
const PAUSE_NS_MAX: u64 = FIRST_NS_MAX << 7;

/// The pauses of one transaction.
pub struct Pauses<R = SystemRandom> {
    random: R,
    /// The longest that the next one may be.
    longest_ns: u64,
}

impl Pauses {
    /// Pauses by the operating system's randomness.
    #[must_use]
    pub fn new() -> Pauses {
        Pauses::with(SystemRandom)
    }
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses::new()
    }
}

impl<R: Random> Pauses<R> {
    /// Pauses by another randomness.
    pub fn with(random: R) -> Pauses<R> {
        Pauses { random, longest_ns: FIRST_NS_MAX }
    }

    /// The time to wait now: anything up to 0.25 ms the first time, up to twice that the next, and
    /// never above 32 ms.
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

    struct Always(u64);

    impl Random for Always {
        fn next_u64(&mut self) -> u64 {
            self.0
        }
    }

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let mut longest = Pauses::with(Always(u64::MAX));
        let pauses: Vec<_> = (0..10).map(|_| longest.next_pause().as_micros()).collect();
        assert_eq!(pauses[..4], [250, 500, 1_000, 2_000]);
        assert_eq!(pauses[7..], [32_000; 3]);
        let mut shortest = Pauses::with(Always(0));
        assert!((0..10).all(|_| shortest.next_pause().is_zero()));
    }

    #[test]
    fn two_that_met_go_on_at_different_times() {
        let of = |seed| {
            let mut pauses = Pauses::with(SeededRandom::new(seed));
            (0..ATTEMPTS_MAX).map(|_| pauses.next_pause()).collect::<Vec<_>>()
        };
        let (one, other) = (of(1), of(2));
        assert!(one.iter().zip(&other).all(|(one, other)| one != other));
        let all: Duration = one.iter().sum();
        assert!(all > Duration::from_millis(500) && all < Duration::from_millis(1_500), "{all:?}");
    }
}
