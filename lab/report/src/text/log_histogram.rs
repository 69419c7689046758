//! The logarithmic histogram, in the layout of bpftrace.

use std::collections::BTreeMap;

use pellucid_account::Distribution;

/// The width of the longest bar in characters.
const BAR_CHARACTERS: u64 = 52;

/// Shows one row per power of two between the smallest and the greatest value that occurred,
/// including empty rows.
#[must_use]
pub fn log_histogram(distribution: &Distribution) -> String {
    let rows = powers_of_two(&distribution.log2);
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let mut text = String::new();
    for (power, count) in rows {
        // The product may need more than 64 bits.
        let length = (u128::from(count) * u128::from(BAR_CHARACTERS) / u128::from(most)) as usize;
        let (label, bar) = (label_of(power), "@".repeat(length));
        text.push_str(&format!("{label:<16}{count:>8} |{bar:<52}|\n"));
    }
    text
}

/// The counts by power of two without gaps; `None` is the row of the value 0.
pub(crate) fn powers_of_two(log2: &[(u64, u64)]) -> Vec<(Option<u32>, u64)> {
    let mut counts: BTreeMap<Option<u32>, u64> = BTreeMap::new();
    for (floor_ns, count) in log2 {
        let sum = counts.entry(floor_ns.checked_ilog2()).or_default();
        *sum = sum.saturating_add(*count);
    }
    let (Some((least, _)), Some((greatest, _))) =
        (counts.first_key_value(), counts.last_key_value())
    else {
        return Vec::new();
    };
    let ordinal = |power: &Option<u32>| power.map_or(0, |power| power + 1);
    (ordinal(least)..=ordinal(greatest))
        .map(|ordinal| ordinal.checked_sub(1))
        .map(|power| (power, counts.get(&power).copied().unwrap_or(0)))
        .collect()
}

fn label_of(power: Option<u32>) -> String {
    match power {
        None => "[0]".to_owned(),
        Some(0) => "[1]".to_owned(),
        Some(power) => format!("[{}, {})", short(power), short(power + 1)),
    }
}

/// A power of two with a binary suffix: 15 gives `32K`.
fn short(power: u32) -> String {
    let suffixes = ["", "K", "M", "G", "T", "P", "E"];
    format!("{}{}", 1_u64 << (power % 10), suffixes[(power / 10) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(log2: &[(u64, u64)]) -> String {
        log_histogram(&Distribution { log2: log2.to_vec(), ..Distribution::default() })
    }

    /// The histogram as the study of `/_api/version` printed it.
    #[test]
    fn the_histogram_of_the_study_comes_out_as_it_was_printed() {
        let counts = [792_482, 206_229, 1_245, 26, 11, 7, 1];
        let log2: Vec<(u64, u64)> =
            counts.iter().enumerate().map(|(row, count)| (32_768 << row, *count)).collect();
        let expected = "\
[32K, 64K)        792482 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
[64K, 128K)       206229 |@@@@@@@@@@@@@                                       |
[128K, 256K)        1245 |                                                    |
[256K, 512K)          26 |                                                    |
[512K, 1M)            11 |                                                    |
[1M, 2M)               7 |                                                    |
[2M, 4M)               1 |                                                    |
";
        assert_eq!(histogram(&log2), expected);
    }

    #[test]
    fn small_values_have_rows_of_their_own_and_gaps_are_shown() {
        let text = histogram(&[(0, 4), (1, 2), (2, 4), (8, 1)]);
        let labels: Vec<&str> = text.lines().map(|line| line[..16].trim_end()).collect();
        assert_eq!(labels, ["[0]", "[1]", "[2, 4)", "[4, 8)", "[8, 16)"]);
        assert!(text.lines().nth(3).unwrap().starts_with("[4, 8)                 0 |  "));
    }

    #[test]
    fn the_extremes_fit() {
        assert_eq!(histogram(&[]), "");
        let text = histogram(&[(1 << 63, u64::MAX), (1 << 62, u64::MAX / 2)]);
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains("[8E, 16E)"), "{text}");
    }
}
