//! The keys that requests ask for.

use pellucid_io::SeededRandom;

/// A prime above any number of keys: steps of this length visit every key once, in scattered order.
const STRIDE: u128 = (1 << 60) - 93;
/// The largest number of keys in a set.
pub(crate) const KEYS_MAX: u64 = 1 << 59;

/// The distribution of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Distribution {
    /// All keys are equally frequent.
    Uniform,
    /// The n-th most popular key is drawn in proportion to 1 / n^skew. Popular keys are scattered
    /// over all.
    Zipf(Zipf),
    /// Keys come one after the other, and then again from the first.
    Sequential,
}

/// A set of keys 1…count and how they are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Keys {
    pub(crate) count: u64,
    pub(crate) distribution: Distribution,
    /// The share of requests for keys that are not in the set: count+1…2×count.
    pub(crate) missing: f64,
}

/// Draws the keys of one thread.
#[derive(Clone, Debug)]
pub(crate) struct KeyGenerator {
    keys: Keys,
    next: u64,
    step: u64,
}

impl KeyGenerator {
    /// The key generator of one of `threads` threads.
    pub(crate) fn new(keys: Keys, thread: u64, threads: u64) -> KeyGenerator {
        KeyGenerator { keys, next: thread % keys.count, step: threads }
    }

    #[inline]
    pub(crate) fn draw(&mut self, random: &mut SeededRandom) -> u64 {
        let count = self.keys.count;
        let index = match &self.keys.distribution {
            Distribution::Uniform => random.below(count),
            Distribution::Zipf(zipf) => scattered(zipf.draw(random) - 1, count),
            Distribution::Sequential => {
                let index = self.next;
                self.next = (self.next + self.step) % count;
                index
            }
        };
        let missing = self.keys.missing > 0.0 && random.unit() < self.keys.missing;
        index + 1 + if missing { count } else { 0 }
    }
}

/// The position of an index of 0…count when all are visited in scattered order.
fn scattered(index: u64, count: u64) -> u64 {
    (u128::from(index) * STRIDE % u128::from(count)) as u64
}

/// Draws ranks of a Zipf distribution by rejection-inversion (Hörmann and Derflinger 1996): the
/// same time and no table for any number of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Zipf {
    count: f64,
    skew: f64,
    /// The integral of the density's hull at its ends.
    area_first: f64,
    area_last: f64,
    /// Values this close above their rank are accepted at once.
    squeeze: f64,
}

impl Zipf {
    /// Ranks 1…count with a skew above 0.
    pub(crate) fn new(count: u64, skew: f64) -> Zipf {
        let mut zipf =
            Zipf { count: count as f64, skew, area_first: 0.0, area_last: 0.0, squeeze: 0.0 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(zipf.count + 0.5);
        zipf.squeeze = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.weight(2.0));
        zipf
    }

    fn draw(&self, random: &mut SeededRandom) -> u64 {
        loop {
            let area = self.area_last + random.unit() * (self.area_first - self.area_last);
            let value = self.area_inverse(area);
            let rank = (value + 0.5).floor().clamp(1.0, self.count);
            if rank - value <= self.squeeze || area >= self.area(rank + 0.5) - self.weight(rank) {
                return rank as u64;
            }
        }
    }

    fn weight(&self, rank: f64) -> f64 {
        (-self.skew * rank.ln()).exp()
    }

    /// The integral of 1 / x^skew, up to a constant, in a form that is exact near a skew of 1.
    fn area(&self, value: f64) -> f64 {
        let logarithm = value.ln();
        let product = (1.0 - self.skew) * logarithm;
        logarithm * if product.abs() > 1e-8 { product.exp_m1() / product } else { 1.0 }
    }

    fn area_inverse(&self, area: f64) -> f64 {
        let product = (area * (1.0 - self.skew)).max(-1.0);
        let factor = if product.abs() > 1e-8 { product.ln_1p() / product } else { 1.0 };
        (area * factor).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(distribution: Distribution, count: u64, missing: f64, draws: usize) -> Vec<u64> {
        let keys = Keys { count, distribution, missing };
        let (mut hand, mut random) = (KeyGenerator::new(keys, 0, 1), SeededRandom::of_stream(3, 0));
        (0..draws).map(|_| hand.draw(&mut random)).collect()
    }

    #[test]
    fn zipf_ranks_have_their_shares() {
        for skew in [0.5, 0.99, 1.0, 1.5] {
            let zipf = Zipf::new(1_000, skew);
            let mut random = SeededRandom::of_stream(1, 0);
            let mut counts = vec![0_u32; 1_001];
            (0..300_000).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1);
            let all: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-skew)).sum();
            for rank in [1_u32, 2, 3, 10] {
                let expected = 300_000.0 * f64::from(rank).powf(-skew) / all;
                let seen = f64::from(counts[rank as usize]);
                let near = 5.0 * expected.sqrt();
                assert!((seen - expected).abs() < near, "{skew} {rank}: {seen} {expected}");
            }
            assert_eq!(counts[0], 0);
        }
    }

    #[test]
    fn all_distributions_stay_within_their_keys() {
        for distribution in
            [Distribution::Uniform, Distribution::Sequential, Distribution::Zipf(Zipf::new(1, 1.0))]
        {
            assert!(drawn(distribution, 1, 0.0, 100).iter().all(|key| *key == 1));
        }
        let zipf = Distribution::Zipf(Zipf::new(50, 0.99));
        let mut keys = drawn(zipf, 50, 0.0, 20_000);
        keys.sort_unstable();
        keys.dedup();
        assert!(keys.iter().eq((1..=50).collect::<Vec<u64>>().iter()), "scattered over all keys");
    }

    #[test]
    fn sequential_keys_are_shared_by_the_threads_without_gaps() {
        let keys = Keys { count: 6, distribution: Distribution::Sequential, missing: 0.0 };
        let mut random = SeededRandom::of_stream(0, 0);
        let mut seen = Vec::new();
        let mut hands: Vec<KeyGenerator> =
            (0..2).map(|thread| KeyGenerator::new(keys, thread, 2)).collect();
        (0..3).for_each(|_| seen.extend(hands.iter_mut().map(|hand| hand.draw(&mut random))));
        assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn missing_keys_lie_beyond_the_set() {
        let keys = drawn(Distribution::Uniform, 100, 0.25, 40_000);
        let missing = keys.iter().filter(|key| **key > 100).count();
        assert!(missing.abs_diff(10_000) < 500, "{missing}");
        assert!(keys.iter().all(|key| (1..=200).contains(key)));
    }
}
