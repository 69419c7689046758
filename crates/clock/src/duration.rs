//! Parsing of durations in command lines and configuration files.

use std::time::Duration;

/// The longest duration in seconds, minutes or hours: far beyond any run, and far from an overflow.
const LONGEST_SECONDS: u64 = 100 * 365 * 86_400;

/// Parses a duration with an optional unit: `20` and `20s` are seconds, `2m` minutes, `1h` hours,
/// `500ms` milliseconds, `250us` microseconds. Returns none if the text is invalid.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let number: u64 = digits.parse().ok()?;
    let seconds = match unit.to_ascii_lowercase().as_str() {
        "us" => return Some(Duration::from_micros(number)),
        "ms" => return Some(Duration::from_millis(number)),
        "" | "s" => number,
        "m" => number.checked_mul(60)?,
        "h" => number.checked_mul(3_600)?,
        _ => return None,
    };
    (seconds <= LONGEST_SECONDS).then(|| Duration::from_secs(seconds))
}
