//! The confidence interval of a median at 95 %, for any distribution of the figures.

use crate::bars::{Bar, median, sorted};

/// The probability that the median lies outside of the interval.
const RISK: f64 = 0.05;

/// Returns the confidence interval at 95 % of the median of the distribution that `figures` were
/// drawn from, by the sign test: each figure is below that median with a probability of one half,
/// so the number of figures below it is binomial. Too few figures give the whole range.
pub fn of_median(figures: &[f64]) -> [f64; 2] {
    let sorted = sorted(figures);
    let Some(last) = sorted.len().checked_sub(1) else { return [f64::NAN; 2] };
    let cut = figures_outside(sorted.len()).min(last / 2);
    [sorted[cut], sorted[last - cut]]
}

/// The number of the smallest figures that are outside of the interval; as many of the greatest are
/// too.
fn figures_outside(count: usize) -> usize {
    // The probability that exactly `below` figures are below the median; the loop begins with none.
    let mut chance = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let (mut sum, mut below) = (0.0, 0);
    while below < count {
        sum += chance;
        if sum > RISK / 2.0 {
            break;
        }
        chance *= (count - below) as f64 / (below + 1) as f64;
        below += 1;
    }
    below.saturating_sub(1)
}

/// Judges `figures` like [`crate::bars::judge`], and prints the interval of the median too.
pub fn judge(name: &str, figures: &[f64], bar: Bar) -> bool {
    let (value, [low, high]) = (median(figures), of_median(figures));
    let (side, limit, holds) = match bar {
        Bar::AtLeast(limit) => ("at_least", limit, value >= limit),
        Bar::AtMost(limit) => ("at_most", limit, value <= limit),
    };
    println!(
        "{{\"bar\":\"{name}\",\"value\":{value:.4},\"interval_95\":[{low:.4},{high:.4}],\
         \"{side}\":{limit},\"holds\":{holds},\"runs\":{}}}",
        figures.len()
    );
    holds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_match_the_tables_of_the_sign_test() {
        // Ten figures give the second smallest and the second greatest; five give the whole range.
        let figures = |count: u32| (1..=count).map(f64::from).collect::<Vec<_>>();
        assert_eq!(of_median(&figures(10)), [2.0, 9.0]);
        assert_eq!(of_median(&figures(5)), [1.0, 5.0]);
        assert_eq!(of_median(&figures(20)), [6.0, 15.0]);
        assert_eq!(of_median(&figures(100)), [40.0, 61.0]);
        // With so many figures, the probability that none is below the median is near the smallest
        // number that is not zero.
        let [low, high] = of_median(&figures(1_000));
        assert!((low - 470.0).abs() < 2.0 && (high - 531.0).abs() < 2.0, "{low}, {high}");
        assert!(of_median(&[]).iter().all(|bound| bound.is_nan()));
    }
}
