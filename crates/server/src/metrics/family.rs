//! Writes families of samples in the text format of Prometheus.

use std::fmt::{Display, Write};

use pellucid_account::Distribution;

/// The upper bounds of the buckets, as powers of two in nanoseconds: 0.5 µs to 17 s. The account's
/// histograms have the same bounds, so nothing is rounded.
const POWERS: std::ops::RangeInclusive<u32> = 9..=34;

/// The type of a family: a counter if its name ends with `_total`, a gauge otherwise.
pub(super) fn kind_of(name: &str) -> &'static str {
    if name.ends_with("_total") { "counter" } else { "gauge" }
}

/// Writes the head of a family: its description and its type.
pub(super) fn family(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

/// Writes a family with one sample without labels.
pub(super) fn single(page: &mut String, name: &str, help: &str, value: impl Display) {
    family(page, name, kind_of(name), help);
    let _ = writeln!(page, "{name} {value}");
}

/// Writes the samples of a histogram, with a bucket at every `step`-th of the bounds.
pub(super) fn histogram(
    page: &mut String,
    name: &str,
    labels: &str,
    of: &Distribution,
    step: usize,
) {
    let (mut below, mut rows) = (0, of.log2.iter().peekable());
    for power in POWERS.step_by(step) {
        let border_ns = 1_u64 << power;
        while let Some((_, count)) = rows.next_if(|(floor_ns, _)| *floor_ns < border_ns) {
            below += count;
        }
        let border = border_ns as f64 / 1e9;
        let _ = writeln!(page, "{name}_bucket{{{labels},le=\"{border}\"}} {below}");
    }
    // The product of mean and count would be rounded, and fall now and then.
    let sum = of.sum_ns as f64 / 1e9;
    let _ = writeln!(page, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", of.count);
    let _ = writeln!(page, "{name}_sum{{{labels}}} {sum}");
    let _ = writeln!(page, "{name}_count{{{labels}}} {}", of.count);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_up_to_the_number_of_requests() {
        let of = Distribution {
            count: 6,
            sum_ns: 12_000,
            mean_ns: 2_000.0,
            log2: vec![(256, 1), (512, 2), (4_096, 2), (1 << 40, 1)],
            ..Distribution::default()
        };
        let mut page = String::new();
        histogram(&mut page, "d", "a=\"b\"", &of, 1);
        let counts: Vec<&str> = page.lines().filter_map(|line| line.rsplit(' ').next()).collect();
        assert_eq!(&counts[..5], ["1", "3", "3", "3", "5"]);
        assert!(page.contains("d_bucket{a=\"b\",le=\"+Inf\"} 6\n"));
        assert!(page.contains("d_sum{a=\"b\"} 0.000012\n"));
        assert!(page.ends_with("d_count{a=\"b\"} 6\n"));
    }

    /// Regression: the sum was made from the mean, and fell now and then, which Prometheus takes
    /// for a restart of the server.
    #[test]
    fn a_sum_does_not_fall_while_the_count_rises() {
        let sum_of = |index: u64| {
            let (count, sum_ns) = (1 + 37 * index, 123_000_000_000);
            let mean_ns = sum_ns as f64 / count as f64;
            let of = Distribution { count, sum_ns, mean_ns, ..Distribution::default() };
            let mut page = String::new();
            histogram(&mut page, "d", "", &of, 1);
            let sum = page.lines().find_map(|line| line.strip_prefix("d_sum{} ")).unwrap();
            sum.parse::<f64>().unwrap()
        };
        assert!((0..400).map(sum_of).is_sorted());
    }
}
