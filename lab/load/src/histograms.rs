//! Histograms of times and rates. All have the same bounds, so that those of several threads can be
//! added.

use hdrhistogram::Histogram;

/// The longest time that a histogram distinguishes; a longer one counts as this.
const LONGEST_NS: u64 = 24 * 3_600 * 1_000_000_000;
/// Significant decimal digits of the histograms, as wrk2 has them.
const SIGNIFICANT_DIGITS: u8 = 3;
/// The highest rate of a thread that a histogram distinguishes.
const HIGHEST_RATE: u64 = 100_000_000;
/// The longest time of wrk2's histogram, in microseconds: it decides the number of its buckets.
const LONGEST_US: u64 = 24 * 3_600 * 1_000_000;

/// A histogram of times in nanoseconds.
pub(crate) fn time_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS)
        .expect("the bounds are constants that the histogram accepts")
}

/// A histogram of requests per second.
pub(crate) fn rate_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, HIGHEST_RATE, SIGNIFICANT_DIGITS)
        .expect("the bounds are constants that the histogram accepts")
}

/// Adds a histogram to another one of the same bounds.
pub(crate) fn add(sum: &mut Histogram<u64>, other: &Histogram<u64>) {
    sum.add(other).expect("histograms of the same bounds can be added");
}

/// Converts times to microseconds, into a histogram with the bounds of wrk2's: its tables are made
/// from that.
pub(crate) fn in_microseconds(times: &Histogram<u64>) -> Histogram<u64> {
    let mut times_us =
        Histogram::new_with_bounds(1, LONGEST_US, 3).expect("the bounds are constants");
    for step in times.iter_recorded() {
        let time_us = times.median_equivalent(step.value_iterated_to()).saturating_add(500) / 1_000;
        times_us.saturating_record_n(time_us, step.count_since_last_iteration());
    }
    times_us
}
