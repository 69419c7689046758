//! Bars: the required values of figures, and their check.

/// The required value of a figure.
#[derive(Clone, Copy)]
pub enum Bar {
    /// The figure must not be below this value.
    AtLeast(f64),
    /// The figure must not be above this value.
    AtMost(f64),
}

/// Prints a line of JSON about a bar; returns true if the median of `figures`, one of each run,
/// holds it.
pub fn judge(name: &str, figures: &[f64], bar: Bar) -> bool {
    let value = median(figures);
    let (side, limit, holds) = match bar {
        Bar::AtLeast(limit) => ("at_least", limit, value >= limit),
        Bar::AtMost(limit) => ("at_most", limit, value <= limit),
    };
    println!(
        "{{\"bar\":\"{name}\",\"value\":{value:.3},\"{side}\":{limit},\"holds\":{holds},\
         \"runs\":{},\"spread\":{:.3}}}",
        figures.len(),
        spread(figures)
    );
    holds
}

/// Prints a line of JSON for figures without a bar, which help to understand one that has a bar.
pub fn tell(name: &str, figures: &[f64]) {
    println!(
        "{{\"figure\":\"{name}\",\"value\":{:.3},\"runs\":{},\"spread\":{:.3}}}",
        median(figures),
        figures.len(),
        spread(figures)
    );
}

/// The ratios of a figure of our side and of theirs, one of each round.
pub fn ratios<T>(pairs: &[(T, T)], figure: fn(&T) -> f64) -> Vec<f64> {
    pairs.iter().map(|(ours, theirs)| figure(ours) / figure(theirs)).collect()
}

/// The median: the middle figure, or the mean of the two in the middle.
pub fn median(figures: &[f64]) -> f64 {
    let sorted = sorted(figures);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The distance between the quartiles as a share of the median; zero if they are equal.
fn spread(figures: &[f64]) -> f64 {
    let sorted = sorted(figures);
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
    if sorted.is_empty() {
        return f64::NAN;
    }
    let between = at(0.75) - at(0.25);
    if between == 0.0 { 0.0 } else { between / median(figures) }
}

/// The figures in ascending order.
pub fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::{median, spread};

    #[test]
    fn medians_and_spreads() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(spread(&[1.0, 2.0, 3.0, 4.0, 5.0]), 2.0 / 3.0);
        assert_eq!(spread(&[0.0, 0.0]), 0.0);
    }
}
