//! Histograms of response times, with roughly logarithmic bounds.

use hdrhistogram::Histogram;
use pellucid_report::{Chart, ChartForm, Series, Unit};

/// The upper bounds of the bars in microseconds; a last bar contains all longer times.
pub(crate) const BAR_ENDS_US: [u64; 12] =
    [50, 100, 200, 400, 700, 1_000, 2_000, 4_000, 10_000, 20_000, 40_000, 100_000];
/// The number of bars of a histogram.
pub(crate) const BARS: usize = BAR_ENDS_US.len() + 1;

/// The share of the times in each bar. `times` are in nanoseconds.
pub(crate) fn shares_of(times: &Histogram<u64>) -> [f64; BARS] {
    let mut shares = [0.0; BARS];
    // Iterate over the recorded values, so that each is in exactly one bar. Counting between two
    // bounds would include values at both bounds.
    for times_here in times.iter_recorded() {
        let at_us = times_here.value_iterated_to() / 1_000;
        let bar = BAR_ENDS_US.partition_point(|end_us| *end_us <= at_us);
        let count = times_here.count_since_last_iteration();
        shares[bar] += count as f64 / times.len() as f64;
    }
    shares
}

/// A histogram of several loads on one scale, from their times in nanoseconds.
pub(crate) fn histogram(name: String, loads: &[(&str, &Histogram<u64>)]) -> Chart {
    let shares = loads.iter().map(|(name, times)| (*name, shares_of(times)));
    histogram_of(name, &shares.collect::<Vec<_>>())
}

/// A histogram of several loads on one scale, from the shares in each bar.
pub(crate) fn histogram_of(name: String, loads: &[(&str, [f64; BARS])]) -> Chart {
    let how_to_read = "Of all requests, the share whose response time lies below the bound and \
                       above the one before.";
    Chart::new(
        (name, "Histogram of the response times", how_to_read),
        Unit::Share,
        ChartForm::Groups { rows: (0..BARS).map(bar_name).collect() },
        loads.iter().map(|(name, shares)| Series::new(*name, shares.map(Some).to_vec())),
    )
}

fn bar_name(bar: usize) -> String {
    match BAR_ENDS_US.get(bar) {
        Some(end_us) => format!("below {}", Unit::Nanoseconds.show((end_us * 1_000) as f64)),
        None => "beyond".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_one_bar() {
        let mut times = Histogram::new(3).unwrap();
        for ns in [10_000, 49_000, 150_000, 900_000_000] {
            times.record(ns).unwrap();
        }
        let shares = shares_of(&times);
        assert_eq!((shares[0], shares[1], shares[2], shares[BARS - 1]), (0.5, 0.0, 0.25, 0.25));
        assert_eq!(shares.iter().sum::<f64>(), 1.0);
        assert_eq!((bar_name(0), bar_name(BARS - 1)), ("below 50.0 µs".into(), "beyond".into()));
    }
}
