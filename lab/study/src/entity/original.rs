//! The figures of the original study: an HTTP service over RocksDB, written in Java, under wrk2
//! with one connection, on a laptop; 5,000,000 keys, loads of 20 seconds.

use super::workload::LoadKind;

/// The rate of the overload, in requests per second.
pub(super) const OVERLOAD: f64 = 20_000.0;

/// The figures of one kind of load.
pub(super) struct Original {
    /// The rate that was found to be stable, in requests per second.
    pub(super) rate: f64,
    /// The p99 limit under which a rate counted as stable, in the syntax of the objectives of
    /// `pellucid load`.
    pub(super) p99_held: &'static str,
    /// The answers per second at the stable rate.
    pub(super) answered: f64,
    /// The mean response time at the stable rate, in nanoseconds.
    pub(super) mean_ns: f64,
    /// The answers per second at the overload.
    pub(super) reached: f64,
    /// The mean and the longest response time of the overload, in nanoseconds.
    pub(super) overload_ns: [f64; 2],
    /// The shares of the processor time: the store while it executes requests, writing answers,
    /// reading requests, flushes, and compactions. `None` if the original does not tell.
    pub(super) processor_shares: [Option<f64>; 5],
    /// Response times in milliseconds, each with the share of requests that took no longer. These
    /// are some of the lines that wrk2 printed; linear interpolation between them gives the others.
    ms_and_share: &'static [(f64, f64)],
}

const PUT: Original = Original {
    rate: 12_000.0,
    p99_held: "82ms",
    answered: 11_999.29,
    mean_ns: 7.352e6,
    reached: 13_907.98,
    overload_ns: [4.68e9, 6.09e9],
    processor_shares: [Some(0.46), Some(0.18), Some(0.10), Some(0.01), Some(0.04)],
    ms_and_share: &[
        (0.054, 0.0),
        (0.270, 0.1),
        (0.459, 0.2),
        (0.643, 0.3),
        (0.814, 0.4),
        (0.976, 0.5),
        (1.131, 0.6),
        (1.367, 0.7),
        (2.293, 0.75),
        (3.755, 0.775),
        (5.863, 0.8),
        (10.871, 0.825),
        (20.783, 0.875),
        (25.375, 0.9),
        (43.263, 0.943_75),
        (81.66, 0.99),
        (86.783, 0.997_266),
        (87.81, 0.999),
        (87.93, 0.9999),
        (87.999, 0.999_985),
        (88.0, 1.0),
    ],
};
const GET: Original = Original {
    rate: 10_000.0,
    p99_held: "47ms",
    answered: 9_999.37,
    mean_ns: 2.980e6,
    reached: 17_418.92,
    overload_ns: [2.65e9, 2.84e9],
    processor_shares: [Some(0.36), None, None, Some(0.0), Some(0.0)],
    ms_and_share: &[
        (0.045, 0.0),
        (0.216, 0.1),
        (0.361, 0.2),
        (0.505, 0.3),
        (0.640, 0.4),
        (0.770, 0.5),
        (0.896, 0.6),
        (1.024, 0.7),
        (1.089, 0.75),
        (1.214, 0.85),
        (1.467, 0.8875),
        (3.913, 0.9),
        (12.671, 0.925),
        (26.335, 0.9625),
        (38.207, 0.981_25),
        (46.94, 0.99),
        (48.48, 0.999),
        (48.64, 0.9999),
        (48.671, 1.0),
    ],
};

impl Original {
    pub(super) fn of(work: LoadKind) -> Original {
        match work {
            LoadKind::Put => PUT,
            LoadKind::Get => GET,
        }
    }

    /// The response time at a quantile, in nanoseconds.
    pub(super) fn at(&self, quantile: f64) -> f64 {
        let swapped = self.ms_and_share.iter().map(|(ms, share)| (*share, *ms));
        between(swapped, quantile) * 1e6
    }

    /// The share of requests that took at most `us` microseconds.
    pub(super) fn share_below(&self, us: u64) -> f64 {
        between(self.ms_and_share.iter().copied(), us as f64 / 1e3)
    }
}

/// Interpolates linearly between pairs of x and y; returns y at x = `at`.
fn between(pairs: impl Iterator<Item = (f64, f64)>, at: f64) -> f64 {
    let mut before: Option<(f64, f64)> = None;
    for (x, y) in pairs {
        if at <= x {
            return match before {
                Some((x_before, y_before)) => {
                    y_before + (y - y_before) * (at - x_before) / (x - x_before)
                }
                None => y,
            };
        }
        before = Some((x, y));
    }
    before.map_or(0.0, |(_, y)| y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolation_keeps_the_printed_percentiles() {
        let printed = [(0.5, 0.976e6), (0.99, 81.66e6), (0.99999, 88.0e6), (1.0, 88.0e6)];
        for (quantile, ns) in printed {
            assert!((PUT.at(quantile) - ns).abs() < 5e3, "{quantile}");
        }
        assert!((GET.at(0.99) - 46.94e6).abs() < 1.0);
        assert!(GET.at(0.9) < GET.at(0.95));
    }

    #[test]
    fn shares_grow_from_zero_to_one() {
        for original in [PUT, GET] {
            let shares = [1, 50, 1_000, 50_000, 1_000_000].map(|us| original.share_below(us));
            assert!(shares.is_sorted() && shares[0] == 0.0 && shares[4] == 1.0, "{shares:?}");
        }
    }
}
