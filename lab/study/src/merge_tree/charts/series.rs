//! Series from a track, and series derived from others: shares and differences.

use pellucid_report::Series;

use super::super::sample::Sample;
use super::super::sample_series::{SampleSeries, Values, operation};

/// The series whose sum is above zero; all series if there is none.
pub(super) fn with_something(series: Vec<Series>) -> Vec<Series> {
    let has = |series: &Series| series.sum() > 0.0;
    if series.iter().any(has) { series.into_iter().filter(has).collect() } else { series }
}

/// Converts values to shares of the sum over all series at the same index.
pub(super) fn shares(series: Vec<Series>) -> Vec<Series> {
    let length = series.iter().map(|one| one.values.len()).max().unwrap_or(0);
    let sums: Vec<f64> = (0..length)
        .map(|at| series.iter().filter_map(|one| one.values.get(at).copied().flatten()).sum())
        .collect();
    let share = |one: Series| {
        let values = one.values.iter().zip(&sums);
        let values = values.map(|(value, sum)| value.filter(|_| *sum > 0.0).map(|v| v / sum));
        Series::new(one.name, values.collect())
    };
    series.into_iter().map(share).collect()
}

/// Subtracts all `parts` from `whole`; negative differences become zero.
pub(super) fn less(whole: &Values, parts: &[&Values]) -> Values {
    let at = |(index, whole): (usize, &Option<f64>)| {
        let taken: f64 = parts.iter().filter_map(|part| part.get(index).copied().flatten()).sum();
        whole.map(|whole| (whole - taken).max(0.0))
    };
    whole.iter().enumerate().map(at).collect()
}

/// The mean time of a part of an operation, over all requests of the operation.
pub(super) fn part_mean(
    track: &SampleSeries<'_>,
    name: &'static str,
    part: &'static str,
) -> Values {
    let sum =
        move |sample: &Sample| operation(sample, name).parts_ns.get(part).copied().unwrap_or(0.0);
    track.mean(sum, move |sample| operation(sample, name).count as f64)
}

/// The mean time of an operation.
pub(super) fn total_mean(track: &SampleSeries<'_>, name: &'static str) -> Values {
    track.mean(
        move |sample| operation(sample, name).total_ns,
        move |sample| operation(sample, name).count as f64,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_one_where_values_exist() {
        let series = vec![
            Series::new("a", vec![Some(1.0), None, Some(0.0)]),
            Series::new("b", vec![Some(3.0), Some(2.0), Some(0.0)]),
        ];
        let shares = shares(series);
        assert_eq!(shares[0].values, [Some(0.25), None, None]);
        assert_eq!(shares[1].values, [Some(0.75), Some(1.0), None]);
    }

    #[test]
    fn differences_are_never_below_zero() {
        let left =
            less(&vec![Some(5.0), Some(1.0), None], &[&vec![Some(2.0), Some(3.0), Some(1.0)]]);
        assert_eq!(left, [Some(3.0), Some(0.0), None]);
        let kept = with_something(vec![
            Series::new("a", vec![Some(0.0)]),
            Series::new("b", vec![Some(1.0)]),
        ]);
        assert_eq!(kept.len(), 1);
    }
}
