//! Log-linear histograms of durations: merging them is exact, and adding is cheap.

/// The binary logarithm of the sub-buckets per power of two: a bucket's width is at most 1/128 of
/// its value.
pub(crate) const PRECISION_BITS: u32 = 7;
/// Durations from 2^43 ns (2.4 hours) on share the last bucket.
const MAGNITUDE_MAX: u32 = 43;
/// The number of buckets of a histogram.
pub(crate) const BUCKETS: usize =
    (((MAGNITUDE_MAX - PRECISION_BITS) as usize) + 1) << PRECISION_BITS;

/// The bucket of a duration. Below 2^(precision + 1) each nanosecond has its own bucket.
#[inline]
pub(crate) fn bucket_of(value_ns: u64) -> usize {
    if value_ns < 1 << PRECISION_BITS {
        return value_ns as usize;
    }
    let magnitude = 63 - value_ns.leading_zeros();
    if magnitude >= MAGNITUDE_MAX {
        return BUCKETS - 1;
    }
    let shift = magnitude - PRECISION_BITS;
    let within = (value_ns >> shift) as usize - (1 << PRECISION_BITS);
    (((shift + 1) as usize) << PRECISION_BITS) + within
}

/// The lowest duration of a bucket, in nanoseconds.
pub(crate) fn bucket_floor_ns(bucket: usize) -> u64 {
    let (row, within) = (bucket >> PRECISION_BITS, bucket as u64 & ((1 << PRECISION_BITS) - 1));
    if row == 0 { within } else { (within + (1 << PRECISION_BITS)) << (row - 1) }
}

/// The highest duration of a bucket, in nanoseconds.
pub(crate) fn bucket_ceiling_ns(bucket: usize) -> u64 {
    if bucket + 1 >= BUCKETS { u64::MAX } else { bucket_floor_ns(bucket + 1) - 1 }
}

/// Counts per bucket, with the exact minimum, maximum, count and sum.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    buckets: Vec<u64>,
    pub(crate) count: u64,
    pub(crate) sum_ns: u64,
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram { buckets: vec![0; BUCKETS], count: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }

    pub(crate) fn merge(&mut self, other: &SparseHistogram) {
        for (bucket, count) in &other.buckets {
            self.buckets[*bucket as usize] += u64::from(*count);
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The value that a share of `quantile` of the requests does not exceed: the middle of its
    /// bucket, clamped to the exact minimum and maximum.
    pub(crate) fn quantile_ns(&self, quantile: f64) -> u64 {
        let Some(bucket) = self.bucket_at(quantile) else { return 0 };
        let middle = bucket_floor_ns(bucket).midpoint(bucket_ceiling_ns(bucket));
        middle.clamp(self.min_ns, self.max_ns)
    }

    fn bucket_at(&self, quantile: f64) -> Option<usize> {
        let rank = (quantile * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.buckets.iter().position(|count| {
            seen += count;
            self.count > 0 && seen >= rank
        })
    }

    /// The non-empty buckets: lowest value, highest value, and count of each.
    pub(crate) fn filled(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bucket, count)| (bucket_floor_ns(bucket), bucket_ceiling_ns(bucket), *count))
    }
}

/// The contents of a histogram as pairs of bucket and count.
#[derive(Clone, Debug)]
pub(crate) struct SparseHistogram {
    pub(crate) buckets: Vec<(u16, u32)>,
    pub(crate) count: u64,
    pub(crate) sum_ns: u64,
    /// The minimum; `u64::MAX` if nothing was counted.
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_have_no_gaps_and_do_not_overlap() {
        for bucket in 0..BUCKETS - 1 {
            let (floor, ceiling) = (bucket_floor_ns(bucket), bucket_ceiling_ns(bucket));
            assert_eq!(bucket_of(floor), bucket);
            assert_eq!(bucket_of(ceiling), bucket);
            assert_eq!(bucket_floor_ns(bucket + 1), ceiling + 1);
            assert!((ceiling - floor) * 128 <= floor.max(128), "bucket {bucket} is too wide");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    fn sparse(values: &[u64]) -> SparseHistogram {
        let mut counts = std::collections::BTreeMap::new();
        for value in values {
            *counts.entry(bucket_of(*value) as u16).or_insert(0) += 1;
        }
        SparseHistogram {
            buckets: counts.into_iter().collect(),
            count: values.len() as u64,
            sum_ns: values.iter().sum(),
            min_ns: values.iter().min().copied().unwrap_or(u64::MAX),
            max_ns: values.iter().max().copied().unwrap_or(0),
        }
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_hundredth_of_the_sorted_values(
            mut values in proptest::collection::vec(0_u64..10_000_000_000, 1..500),
            quantile in 0.0_f64..1.0,
        ) {
            let mut histogram = Histogram::new();
            histogram.merge(&sparse(&values));
            values.sort_unstable();
            let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
            let (exact, shown) = (values[rank - 1], histogram.quantile_ns(quantile));
            prop_assert!(exact.abs_diff(shown) as f64 <= exact as f64 / 100.0 + 1.0);
            prop_assert_eq!(histogram.min_ns, values[0]);
            prop_assert_eq!(histogram.max_ns, values[values.len() - 1]);
        }

        #[test]
        fn merging_loses_nothing(
            values in proptest::collection::vec(any::<u64>().prop_map(|v| v >> 22), 0..200),
        ) {
            let mut merged = Histogram::new();
            values.chunks(7).for_each(|values| merged.merge(&sparse(values)));
            prop_assert_eq!(merged.count, values.len() as u64);
            prop_assert_eq!(merged.sum_ns, values.iter().sum::<u64>());
            for power in [1, 9, 20, 41] {
                let below = values.iter().filter(|value| **value < 1 << power).count() as u64;
                let shown = merged.filled().filter(|(floor_ns, ..)| *floor_ns < 1 << power);
                prop_assert_eq!(shown.map(|(.., count)| count).sum::<u64>(), below);
            }
        }
    }
}
