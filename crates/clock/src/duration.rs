//! Parsing of durations in command lines and configuration files.

use std::time::Duration;

/// The longest duration: far beyond any run, and far from an overflow.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Parses a duration with an optional unit: `20` and `20s` are seconds, `2m` minutes, `1h` hours,
/// `500ms` milliseconds, `250us` microseconds. Returns none if the text is invalid, or if the
/// duration is above a hundred years.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let number: u64 = digits.parse().ok()?;
    let duration = match unit.to_ascii_lowercase().as_str() {
        "us" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        "" | "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.checked_mul(60)?),
        "h" => Duration::from_secs(number.checked_mul(3_600)?),
        _ => return None,
    };
    (duration <= LONGEST).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the limit did not apply to milliseconds and microseconds.
    #[test]
    fn the_limit_applies_to_all_units() {
        for unit in ["", "s", "m", "h", "ms", "us"] {
            assert_eq!(parse_duration(&format!("{}{unit}", u64::MAX)), None, "{unit}");
        }
        let longest = LONGEST.as_micros();
        assert_eq!(parse_duration(&format!("{longest}us")), Some(LONGEST));
        assert_eq!(parse_duration(&format!("{}us", longest + 1)), None);
    }
}
