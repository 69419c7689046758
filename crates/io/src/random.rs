//! Random numbers: from the operating system, or reproducible from a seed.

/// A source of random numbers.
pub trait Random: Send {
    /// The next number, uniformly distributed over all 64-bit numbers.
    fn next_u64(&mut self) -> u64;
}

/// The randomness of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0_u8; 8];
        loop {
            // SAFETY: the buffer is valid for the 8 bytes that the call may write.
            let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
            if got == 8 {
                return u64::from_le_bytes(bytes);
            }
            let error = std::io::Error::last_os_error();
            assert!(
                got >= 0 || error.kind() == std::io::ErrorKind::Interrupted,
                "the operating system gives no randomness: {error}"
            );
        }
    }
}

/// The increment between two states of a sequence.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Random numbers from a seed, the same on every machine (SplitMix64, Steele et al. 2014). They are
/// not secure.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    state: u64,
}

impl SeededRandom {
    /// The generator of the sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom { state: seed }
    }

    /// The generator of one of many independent sequences of `seed`.
    #[must_use]
    pub fn of_stream(seed: u64, stream: u64) -> SeededRandom {
        let mut random = SeededRandom::new(seed ^ stream.wrapping_mul(0xd6e8_feb8_6659_fd93));
        random.state = random.next_u64();
        random
    }

    /// The number at this position of the sequence of seed zero. Different positions have different
    /// numbers.
    #[must_use]
    pub fn at(place: u64) -> u64 {
        SeededRandom::new(place.wrapping_mul(STEP)).next_u64()
    }

    /// A uniform number below `limit`, with a bias below limit ÷ 2⁶⁴; zero for a limit of zero.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// A uniform index into a list of this length, drawn by [`SeededRandom::below`].
    #[inline]
    pub fn place(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A uniform number from 0 up to, but not including, 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The time to the next event of a Poisson process in which one is expected per unit of time.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        // 1 - unit is never 0, whose logarithm would be infinite.
        -(1.0 - self.unit()).ln()
    }
}

impl Random for SeededRandom {
    #[inline]
    fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_have_equal_sequences_and_others_differ() {
        let draw = |seed| {
            let mut random = SeededRandom::new(seed);
            (0..4).map(|_| random.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn a_position_has_the_number_of_the_sequence() {
        let mut random = SeededRandom::new(0);
        assert!((0..100).all(|place| SeededRandom::at(place) == random.next_u64()));
    }

    #[test]
    fn numbers_are_uniform_and_streams_differ() {
        let mut random = SeededRandom::of_stream(7, 0);
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|_| counts[random.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 500), "{counts:?}");
        let mean = (0..100_000).map(|_| random.unit()).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert_ne!(
            SeededRandom::of_stream(7, 0).next_u64(),
            SeededRandom::of_stream(7, 1).next_u64()
        );
        assert_eq!(
            SeededRandom::of_stream(7, 3).next_u64(),
            SeededRandom::of_stream(7, 3).next_u64()
        );
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn exponential_times_have_a_mean_and_a_deviation_of_one() {
        let mut random = SeededRandom::of_stream(1, 1);
        let times: Vec<f64> = (0..200_000).map(|_| random.exponential()).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / 2e5;
        assert!((mean - 1.0).abs() < 0.02 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }

    #[test]
    fn two_numbers_of_the_system_differ() {
        assert_ne!(SystemRandom.next_u64(), SystemRandom.next_u64());
    }
}
