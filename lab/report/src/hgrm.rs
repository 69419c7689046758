//! The percentile text of HdrHistogram (`.hgrm`), which its plotters and many scripts read.

use hdrhistogram::Histogram;

/// Lines for each halving of the distance to 100 %, as the original prints by default.
const TICKS_PER_HALF_DISTANCE: u32 = 5;
/// Nanoseconds in the unit of the file, a millisecond.
const UNIT_NS: f64 = 1e6;

/// The percentile distribution of a histogram of nanoseconds, with values in milliseconds. The
/// layout is that of the original, except for six decimals instead of three: here, a microsecond is
/// a long time.
#[must_use]
pub fn hgrm(histogram: &Histogram<u64>) -> String {
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut below = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        below += step.count_since_last_iteration();
        let value = step.value_iterated_to() as f64 / UNIT_NS;
        let quantile = step.quantile_iterated_to();
        text.push_str(&format!("{value:12.6} {quantile:14.12} {below:10}"));
        if quantile < 1.0 {
            text.push_str(&format!(" {:14.2}", 1.0 / (1.0 - quantile)));
        }
        text.push('\n');
    }
    text.push_str(&format!(
        "#[Mean    = {:12.6}, StdDeviation   = {:12.6}]\n\
         #[Max     = {:12.6}, Total count    = {:12}]\n\
         #[Buckets = {:12}, SubBuckets     = {:12}]\n",
        histogram.mean() / UNIT_NS,
        histogram.stdev() / UNIT_NS,
        histogram.max() as f64 / UNIT_NS,
        histogram.len(),
        histogram.buckets(),
        sub_buckets(histogram.sigfig()),
    ));
    text
}

/// The number of sub-buckets for this many digits: the next power of two from 2 × 10^digits on.
fn sub_buckets(significant_digits: u8) -> u64 {
    (2 * 10_u64.pow(u32::from(significant_digits))).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values_us: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        values_us.into_iter().for_each(|value_us| histogram.record(value_us * 1_000).unwrap());
        histogram
    }

    #[test]
    fn the_layout_is_that_of_the_original() {
        let text = hgrm(&histogram(1..=4));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "       Value     Percentile TotalCount 1/(1-Percentile)");
        assert_eq!(lines[1], "");
        assert_eq!(lines[2], "    0.001000 0.000000000000          1           1.00");
        let last = lines.iter().rposition(|line| !line.starts_with('#')).unwrap();
        assert_eq!(lines[last], "    0.004001 1.000000000000          4");
        assert!(lines[last + 1].starts_with("#[Mean    =     0.0025"), "{}", lines[last + 1]);
        assert_eq!(lines[last + 2], "#[Max     =     0.004001, Total count    =            4]");
        assert!(lines[last + 3].ends_with("SubBuckets     =         2048]"));
    }

    #[test]
    fn values_percentiles_and_counts_never_fall() {
        let text = hgrm(&histogram((1..10_000).map(|step| step * step % 7_919 + 1)));
        let rows: Vec<Vec<f64>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()).collect())
            .collect();
        assert!(rows.len() > 50);
        for pair in rows.windows(2) {
            assert!(pair[0].iter().zip(&pair[1]).all(|(before, after)| before <= after));
        }
        assert_eq!(rows.last().unwrap()[1..], [1.0, 9_999.0]);
    }

    #[test]
    fn an_empty_histogram_has_head_and_foot() {
        assert_eq!(hgrm(&histogram([])).lines().count(), 5);
    }
}
