//! Chance for loads: quick, small, and the same sequence for the same seed, so that a run can be
//! repeated. It is spread that a load needs, not secrecy.

/// Steele's, Lea's and Flood's SplitMix64 (2014).
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// A sequence of its own for every stream of a seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random { state: seed ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93) };
        random.state = random.next();
        random
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, as evenly as 64 bits spread; 0 for a bound of 0.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 to below 1.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The time to the next event of a Poisson process in which one is expected per unit of time.
    #[inline]
    pub(crate) fn exponential(&mut self) -> f64 {
        // 1 - unit is never 0, whose logarithm would be infinite.
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_even_and_streams_differ() {
        let mut random = Random::new(7, 0);
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|_| counts[random.below(10) as usize] += 1);
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 500), "{counts:?}");
        let mean = (0..100_000).map(|_| random.unit()).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert_ne!(Random::new(7, 0).next(), Random::new(7, 1).next());
        assert_eq!(Random::new(7, 3).next(), Random::new(7, 3).next());
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn exponential_times_have_a_mean_and_a_deviation_of_one() {
        let mut random = Random::new(1, 1);
        let times: Vec<f64> = (0..200_000).map(|_| random.exponential()).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / 2e5;
        assert!((mean - 1.0).abs() < 0.02 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
