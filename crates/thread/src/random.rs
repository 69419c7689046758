//! Random numbers for sampling, with a generator of one word per thread. Samples at fixed distances
//! could synchronise with the measured work.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::activity::with_thread;

/// The next random number of this thread (xorshift64*). Allocates nothing.
fn next() -> u64 {
    static SEEDS: AtomicU64 = AtomicU64::new(0x9e37_79b9_7f4a_7c15);
    with_thread(|thread| {
        let mut state = thread.random.load(Ordering::Relaxed);
        if state == 0 {
            state = SEEDS.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) | 1;
        }
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        thread.random.store(state, Ordering::Relaxed);
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    })
}

/// A random number from 0 up to, but not including, 1.
pub(crate) fn uniform() -> f64 {
    (next() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A random number of the exponential distribution with this mean: the distance between independent
/// events.
#[must_use]
pub fn exponential(mean: f64) -> f64 {
    -(1.0 - uniform()).ln() * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_numbers_have_the_given_mean() {
        let sum: f64 = (0..100_000).map(|_| exponential(50.0)).sum();
        let mean = sum / 100_000.0;
        // Five standard errors of the mean.
        assert!((mean - 50.0).abs() < 5.0 * 50.0 / 100_000_f64.sqrt(), "{mean}");
    }
}
