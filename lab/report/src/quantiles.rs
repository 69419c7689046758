//! One interface for quantiles of the client's histograms and of the server's account.

use hdrhistogram::Histogram;
use pellucid_account::Distribution;

/// The quantiles in the tables of curves.
pub(crate) const NAMED_QUANTILES: [f64; 9] =
    [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999, 1.0];

/// The quantile that a percentage such as `99.9` names.
pub(crate) fn quantile_of_percent(percent: &str) -> Option<f64> {
    let percent: f64 = percent.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// A source of quantiles, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Curve<'figures> {
    /// A histogram of the client.
    Client(&'figures Histogram<u64>),
    /// A distribution of the server, by its fine buckets if it has them.
    Server(&'figures Distribution),
}

impl Curve<'_> {
    /// The number of values.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Curve::Client(histogram) => histogram.len(),
            Curve::Server(distribution) => distribution.count,
        }
    }

    /// The value at `quantile`; 0 without values.
    pub(crate) fn value_ns(&self, quantile: f64) -> u64 {
        match self {
            Curve::Client(histogram) if histogram.is_empty() => 0,
            Curve::Client(histogram) => histogram.value_at_quantile(quantile),
            Curve::Server(distribution) => server_value_ns(distribution, quantile),
        }
    }

    /// True if there are enough values for `quantile` to differ from the maximum.
    pub(crate) fn resolves(&self, quantile: f64) -> bool {
        let count = self.count() as f64;
        count > 0.0 && (quantile >= 1.0 || count * (1.0 - quantile) >= 0.999)
    }
}

/// The middle of the bucket that holds the quantile, within the exact bounds. The account itself
/// uses the same rule, so that curve and account agree.
fn server_value_ns(distribution: &Distribution, quantile: f64) -> u64 {
    let (least_ns, greatest_ns) = (distribution.min_ns, distribution.max_ns);
    if quantile <= 0.0 {
        return least_ns;
    }
    if quantile >= 1.0 {
        return greatest_ns;
    }
    let counts = distribution.buckets.iter().map(|(.., count)| *count);
    let counted = counts.fold(0, u64::saturating_add);
    let rank = (quantile * counted as f64).ceil().max(1.0) as u64;
    let mut seen = 0_u64;
    let bucket = distribution.buckets.iter().find(|(.., count)| {
        seen = seen.saturating_add(*count);
        seen >= rank
    });
    match bucket {
        Some((floor_ns, ceiling_ns, _)) => {
            floor_ns.midpoint(*ceiling_ns).max(least_ns).min(greatest_ns)
        }
        None => coarse_value_ns(distribution, quantile),
    }
}

/// The value without fine buckets: that of the next known quantile at or above `quantile`.
fn coarse_value_ns(distribution: &Distribution, quantile: f64) -> u64 {
    let known = [
        (0.25, distribution.q1_ns),
        (0.5, distribution.p50_ns),
        (0.75, distribution.q3_ns),
        (0.9, distribution.p90_ns),
        (0.99, distribution.p99_ns),
        (0.999, distribution.p99_9_ns),
        (0.9999, distribution.p99_99_ns),
    ];
    let next = known.iter().find(|(known, _)| *known >= quantile);
    next.map_or(distribution.max_ns, |(_, value_ns)| *value_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{account, constant};

    #[test]
    fn the_server_s_curve_follows_its_buckets() {
        let total = account().total;
        let curve = Curve::Server(&total);
        assert_eq!(curve.value_ns(0.5), 20_031);
        assert_eq!(curve.value_ns(0.98), 20_031);
        // The middle of the bucket, but not above the maximum.
        assert_eq!(curve.value_ns(0.99), 40_000);
        assert_eq!(curve.value_ns(1.0), total.max_ns);
    }

    #[test]
    fn without_buckets_the_known_quantiles_serve() {
        let mut distribution = constant(100, 5_000);
        distribution.p99_ns = 9_000;
        distribution.max_ns = 12_000;
        let curve = Curve::Server(&distribution);
        assert_eq!(curve.value_ns(0.95), 9_000);
        assert_eq!(curve.value_ns(0.99999), 12_000);
        assert!(curve.resolves(0.99) && !curve.resolves(0.999) && curve.resolves(1.0));
    }

    #[test]
    fn empty_curves_answer_nothing() {
        let histogram = Histogram::new(3).unwrap();
        let distribution = Distribution::default();
        for curve in [Curve::Client(&histogram), Curve::Server(&distribution)] {
            assert_eq!((curve.count(), curve.value_ns(0.5)), (0, 0));
            assert!(!curve.resolves(1.0));
        }
    }
}
