//! The units of wrk's command line and of its tables.
//!
//! Scripts and people rely on these, so they are kept exactly: `10k` is ten thousand, `2m` is two
//! minutes, and a table shows at most two digits after the point. Internally, times are
//! nanoseconds.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error};

use crate::error::LoadError;

/// A larger unit is used from this share of it on, as wrk does: 0.85 s is printed, 840 ms is too.
const SCALE_SHARE: f64 = 0.85;

/// Reads a count with an optional unit: `500`, `10k`, `2M`, `1G` (upper or lower case).
///
/// # Errors
/// The text says what was given and what is expected.
pub fn parse_count(text: &str) -> Result<u64, LoadError> {
    let wrong = || LoadError::Option(format!("'{text}' is not a count such as 500, 10k or 2M"));
    let (digits, unit) = split_unit(text).ok_or_else(wrong)?;
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let power = match unit.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(wrong()),
    };
    number.checked_mul(1_000_u64.pow(power)).ok_or_else(wrong)
}

/// Reads a duration with an optional unit: `20` and `20s` are seconds, `2m` minutes, `1h` hours.
/// `500ms` and `250us` are understood too, beyond what wrk does.
///
/// # Errors
/// The text says what was given and what is expected.
pub fn parse_duration(text: &str) -> Result<Duration, LoadError> {
    let wrong =
        || LoadError::Option(format!("'{text}' is not a time such as 20s, 2m, 1h or 500ms"));
    pellucid_clock::parse_duration(text).ok_or_else(wrong)
}

/// Reads a duration in a file, as [`parse_duration`] does.
pub(crate) fn deserialize_duration<'de, D>(deserializer: D) -> Result<Duration, D::Error>
where
    D: Deserializer<'de>,
{
    parse_duration(&String::deserialize(deserializer)?).map_err(Error::custom)
}

fn split_unit(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

fn scaled(amount: f64, base: &str, scale: f64, units: &[&str], decimals: usize) -> String {
    let (mut amount, mut unit) = (amount, base);
    for larger in units {
        if amount < scale * SCALE_SHARE {
            break;
        }
        amount /= scale;
        unit = larger;
    }
    format!("{amount:.decimals$}{unit}")
}

/// Bytes in powers of 1024, as wrk prints them: `12.78M`.
pub(crate) fn format_binary(bytes: f64) -> String {
    scaled(bytes, "", 1_024.0, &["K", "M", "G", "T"], 2)
}

/// A number in powers of 1000, as wrk prints it: `10.52k`.
pub(crate) fn format_metric(number: f64) -> String {
    scaled(number, "", 1_000.0, &["k", "M", "G", "T"], 2)
}

/// A time given in microseconds, as wrk prints it: `54.00us`, `1.11ms`, `4.68s`, `1.20m`.
pub(crate) fn format_time_us(time_us: f64) -> String {
    if time_us >= 1_000_000.0 {
        scaled(time_us / 1_000_000.0, "s", 60.0, &["m"], 2)
    } else {
        scaled(time_us, "us", 1_000.0, &["ms"], 2)
    }
}

/// The length of a run in seconds or minutes, as wrk prints it: `20s`, `2m`.
pub(crate) fn format_run_time(duration: Duration) -> String {
    if duration.subsec_nanos() != 0 {
        return format!("{:.2}s", duration.as_secs_f64());
    }
    scaled(duration.as_secs_f64(), "s", 60.0, &["m"], 0)
}

/// A duration in nanoseconds; 584 years or more are `u64::MAX`.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_as_wrk_reads_them() {
        for (text, count) in [("0", 0), ("500", 500), ("10k", 10_000), ("2M", 2_000_000)] {
            assert_eq!(parse_count(text).unwrap(), count);
        }
        for text in ["", "k", "-1", "1.5k", "10x", "10kk", "99999999999999999999", "20000P"] {
            assert!(parse_count(text).is_err(), "{text} must be refused");
        }
    }

    #[test]
    fn durations_as_wrk_reads_them() {
        for (text, ms) in [("20", 20_000), ("2s", 2_000), ("1h", 3_600_000), ("500ms", 500)] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(ms));
        }
        assert_eq!(parse_duration("2m").unwrap(), Duration::from_secs(120));
        for text in ["", "s", "2d", "-2s", "1.5s", "9999999999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text} must be refused");
        }
    }

    #[test]
    fn amounts_as_wrk_prints_them() {
        assert_eq!(format_time_us(54.0), "54.00us");
        assert_eq!(format_time_us(1_110.0), "1.11ms");
        assert_eq!(format_time_us(867_530.0), "867.53ms");
        assert_eq!(format_time_us(4_680_000.0), "4.68s");
        assert_eq!(format_metric(10_520.0), "10.52k");
        assert_eq!(format_metric(849.0), "849.00");
        assert_eq!(format_binary(13_401_000.0), "12.78M");
        assert_eq!(format_run_time(Duration::from_secs(20)), "20s");
        assert_eq!(format_run_time(Duration::from_secs(120)), "2m");
        assert_eq!(format_run_time(Duration::from_millis(250)), "0.25s");
    }
}
