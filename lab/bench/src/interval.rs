//! How sure a median is: where it lies with 95 % certainty, whatever the figures are distributed
//! like.

use crate::bars::{Bar, median};

/// How unlikely it may be that the median lies outside.
const RISK: f64 = 0.05;

/// The interval in which the median of what `figures` were drawn from lies with 95 % certainty, by
/// the sign test: a figure is below that median by a chance of one half, so how many are is
/// binomial. All that there is, where figures are too few to say more.
pub fn of_median(figures: &[f64]) -> [f64; 2] {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return [f64::NAN; 2] };
    let cut = figures_outside(sorted.len()).min(last / 2);
    [sorted[cut], sorted[last - cut]]
}

/// How many of the least figures, and as many of the greatest, are outside of the interval.
fn figures_outside(count: usize) -> usize {
    // The chance that exactly `below` of them are below the median, from none up.
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

/// As [`crate::bars::judge`], with the interval of the median.
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
    fn intervals_are_those_of_the_tables_of_the_sign_test() {
        // With ten figures, the second least and the second greatest; five say nothing.
        let figures = |count: u32| (1..=count).map(f64::from).collect::<Vec<_>>();
        assert_eq!(of_median(&figures(10)), [2.0, 9.0]);
        assert_eq!(of_median(&figures(5)), [1.0, 5.0]);
        assert_eq!(of_median(&figures(20)), [6.0, 15.0]);
        assert_eq!(of_median(&figures(100)), [40.0, 61.0]);
        // So many that the chance of none at all is hardly a number.
        let [low, high] = of_median(&figures(1_000));
        assert!((low - 470.0).abs() < 2.0 && (high - 531.0).abs() < 2.0, "{low}, {high}");
        assert!(of_median(&[]).iter().all(|bound| bound.is_nan()));
    }
}
