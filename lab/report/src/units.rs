//! Figures as text for readers: three significant digits and a suitable unit.

use pellucid_clock::CalendarDate;

/// The units of time with their lengths in nanoseconds, ascending.
const TIME_UNITS: [(&str, f64); 4] = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
/// The units of memory, each 1024 times the one before.
const SIZE_UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
/// The units of memory, each 1000 times the one before.
const DECIMAL_SIZE_UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];

/// A duration with three significant digits, such as `14.2 µs`.
pub(crate) fn duration(nanoseconds: f64) -> String {
    let (number, unit) = scaled_duration(nanoseconds);
    format!("{number} {unit}")
}

/// A duration as the label of an axis, without trailing zeros.
pub(crate) fn duration_tick(nanoseconds: f64) -> String {
    if nanoseconds == 0.0 {
        return "0".to_owned();
    }
    let (number, unit) = scaled_duration(nanoseconds);
    format!("{} {unit}", without_trailing_zeros(&number))
}

fn scaled_duration(nanoseconds: f64) -> (String, &'static str) {
    // An empty sum is negative zero, which would be shown with a sign.
    let nanoseconds = if nanoseconds.is_finite() { nanoseconds + 0.0 } else { 0.0 };
    for (unit, length_ns) in TIME_UNITS {
        let value = nanoseconds / length_ns;
        // 999.6 would be shown as 1000, so it belongs to the next unit.
        if value.abs() < 999.5 || unit == "s" {
            let whole = unit == "ns" && value.fract() == 0.0;
            return (if whole { format!("{value:.0}") } else { three_digits(value) }, unit);
        }
    }
    unreachable!("the last unit takes every value")
}

/// A number with three significant digits, but with all digits before the point.
fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

fn without_trailing_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// Microseconds with two decimals and no unit, for the columns of a table.
pub(crate) fn microseconds(nanoseconds: f64) -> String {
    format!("{:.2}", nanoseconds / 1e3)
}

/// A count with separated thousands, such as `1,234,567`.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate per second: whole from 100 on, otherwise with three digits.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        rate if !rate.is_finite() || rate <= 0.0 => "0".to_owned(),
        rate if rate >= 99.5 => count(rate.round() as u64),
        rate => without_trailing_zeros(&three_digits(rate)).to_owned(),
    }
}

/// A share of 0 to 1 as percent: `61 %`, `0.4 %`, `< 0.1 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = if share.is_finite() { share * 100.0 } else { 0.0 };
    match percent {
        percent if percent <= 0.0 => "0 %".to_owned(),
        percent if percent < 0.1 => "< 0.1 %".to_owned(),
        percent if percent < 9.95 => format!("{percent:.1} %"),
        percent => format!("{percent:.0} %"),
    }
}

/// A share of 0 to 1 as percent with one decimal and no unit, for the columns of a table.
pub(crate) fn percent_column(share: f64) -> String {
    format!("{:.1}", if share.is_finite() { share * 100.0 } else { 0.0 })
}

/// The name of a quantile, such as `p99.9`.
pub(crate) fn quantile_name(quantile: f64) -> String {
    format!("p{}", quantile_percent(quantile))
}

/// A quantile in percent without trailing zeros, such as `99.9`.
pub(crate) fn quantile_percent(quantile: f64) -> String {
    without_trailing_zeros(&format!("{:.6}", quantile * 100.0)).to_owned()
}

/// A size of memory, such as `7.8 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < SIZE_UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && value < 99.95);
    format!("{value:.decimals$} {}", SIZE_UNITS[unit])
}

/// A size in powers of a thousand, as on axes, such as `2.50 MB`.
pub(crate) fn decimal_size(bytes: f64) -> String {
    let mut value = bytes;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < DECIMAL_SIZE_UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let number = if unit == 0 { format!("{value:.0}") } else { three_digits(value) };
    format!("{number} {}", DECIMAL_SIZE_UNITS[unit])
}

/// A size as the label of an axis, without trailing zeros.
pub(crate) fn decimal_size_tick(bytes: f64) -> String {
    let text = decimal_size(bytes);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    format!("{} {unit}", without_trailing_zeros(number))
}

/// A moment as the date and the time of day in UTC.
pub(crate) fn date_time(unix_ms: u64) -> String {
    let seconds = unix_ms / 1_000;
    let CalendarDate { year, month, day } = CalendarDate::of_days((seconds / 86_400) as i64);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_a_fitting_unit() {
        for (nanoseconds, shown) in [
            (0.0, "0 ns"),
            (-0.0, "0 ns"),
            (7.0, "7 ns"),
            (7.25, "7.25 ns"),
            (999.4, "999 ns"),
            (999.6, "1.00 µs"),
            (14_234.0, "14.2 µs"),
            (9_996.0, "10.0 µs"),
            (999_499.0, "999 µs"),
            (1_500_000.0, "1.50 ms"),
            (88_000_000.0, "88.0 ms"),
            (4_680_000_000.0, "4.68 s"),
            (7_200_000_000_000.0, "7200 s"),
            (f64::NAN, "0 ns"),
        ] {
            assert_eq!(duration(nanoseconds), shown, "{nanoseconds}");
        }
        assert_eq!(duration_tick(20_000.0), "20 µs");
        assert_eq!(duration_tick(2_500_000.0), "2.5 ms");
        assert_eq!(duration_tick(0.0), "0");
        assert_eq!(duration_tick(100.0), "100 ns");
    }

    #[test]
    fn counts_rates_shares_and_sizes() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(rate(9_999.67), "10,000");
        assert_eq!(rate(12.5), "12.5");
        assert_eq!(rate(f64::NAN), "0");
        assert_eq!(percent(0.614), "61 %");
        assert_eq!(percent(0.0994), "9.9 %");
        assert_eq!(percent(0.0004), "< 0.1 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(size(512), "512 B");
        assert_eq!(size(8_371_830_784), "7.8 GiB");
        assert_eq!(decimal_size(0.0), "0 B");
        assert_eq!(decimal_size(999_600.0), "1.00 MB");
        assert_eq!(decimal_size(2e15), "2000 TB");
        assert_eq!(decimal_size_tick(1_500_000.0), "1.5 MB");
        assert_eq!(decimal_size_tick(200_000.0), "200 kB");
        assert_eq!(quantile_name(0.999), "p99.9");
        assert_eq!(quantile_name(0.5), "p50");
        assert_eq!(quantile_name(0.99999), "p99.999");
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date_time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date_time(951_782_400_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(date_time(1_709_251_199_999), "2024-02-29 23:59:59 UTC");
        assert_eq!(date_time(1_735_689_600_000), "2025-01-01 00:00:00 UTC");
        assert!(date_time(u64::MAX).ends_with("UTC"));
    }
}
