//! Families of samples in Prometheus' text form.

use std::fmt::{Display, Write};

use pellucid_account::Distribution;

/// Buckets of durations end at these powers of two nanoseconds: 0.5 µs to 17 s. The server's own
/// histograms have borders there, so nothing is rounded.
const POWERS: std::ops::RangeInclusive<u32> = 9..=34;

/// The kind of a family, which its name tells.
pub(super) fn kind_of(name: &str) -> &'static str {
    if name.ends_with("_total") { "counter" } else { "gauge" }
}

/// Begins a family: its description and its kind.
pub(super) fn family(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

/// A family of one sample without labels.
pub(super) fn single(page: &mut String, name: &str, help: &str, value: impl Display) {
    family(page, name, kind_of(name), help);
    let _ = writeln!(page, "{name} {value}");
}

/// The samples of a histogram, at every `step` of its borders.
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
    let sum = of.mean_ns * of.count as f64 / 1e9;
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
}
