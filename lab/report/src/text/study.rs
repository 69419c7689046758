//! The table of one distribution, in the layout of the studies: R's summary, and the quantiles of
//! the tail.

use pellucid_account::Distribution;

/// Shows min, quartiles, mean and max of a distribution, and below them its quantiles, in
/// nanoseconds.
#[must_use]
pub fn study_table(distribution: &Distribution) -> String {
    let summary = [
        ("Min.", distribution.min_ns),
        ("1st Qu.", distribution.q1_ns),
        ("Median", distribution.p50_ns),
        ("Mean", distribution.mean_ns.round() as u64),
        ("3rd Qu.", distribution.q3_ns),
        ("Max.", distribution.max_ns),
    ];
    let quantiles = [
        ("50%", distribution.p50_ns),
        ("90%", distribution.p90_ns),
        ("99%", distribution.p99_ns),
        ("99.9%", distribution.p99_9_ns),
        ("99.99%", distribution.p99_99_ns),
    ];
    format!("{}\n{}", two_lines(&summary), two_lines(&quantiles))
}

/// Shows names above values. As in R, all columns are as wide as the widest.
fn two_lines(columns: &[(&str, u64)]) -> String {
    let widths = columns.iter().map(|(name, value)| name.len().max(value.to_string().len()));
    let width = widths.max().unwrap_or(0);
    let names: Vec<String> = columns.iter().map(|(name, _)| format!("{name:>width$}")).collect();
    let values: Vec<String> = columns.iter().map(|(_, value)| format!("{value:>width$}")).collect();
    format!("{}\n{}\n", names.join(" "), values.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The total as the study of `/_api/version` printed it.
    #[test]
    fn the_table_of_the_study_comes_out_as_it_was_printed() {
        let distribution = Distribution {
            count: 1_000_000,
            min_ns: 50_815,
            q1_ns: 56_862,
            mean_ns: 62_411.3,
            q3_ns: 64_593,
            max_ns: 2_890_129,
            p50_ns: 60_017,
            p90_ns: 73_724,
            p99_ns: 87_258,
            p99_9_ns: 136_061,
            p99_99_ns: 178_574,
            ..Distribution::default()
        };
        let expected = [
            "   Min. 1st Qu.  Median    Mean 3rd Qu.    Max.",
            "  50815   56862   60017   62411   64593 2890129",
            "",
            "   50%    90%    99%  99.9% 99.99%",
            " 60017  73724  87258 136061 178574",
            "",
        ];
        assert_eq!(study_table(&distribution), expected.join("\n"));
    }

    #[test]
    fn long_values_widen_every_column() {
        let distribution = Distribution { max_ns: 12_345_678_901, ..Distribution::default() };
        let table = study_table(&distribution);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0].len(), lines[1].len());
        assert!(lines[1].ends_with(" 12345678901"));
        assert!(lines[0].starts_with("       Min."));
    }
}
