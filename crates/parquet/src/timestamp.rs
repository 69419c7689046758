//! Timestamps and dates in ISO 8601 format.

use std::fmt::Write;

use pellucid_clock::CalendarDate;

const DAY_SECONDS: i64 = 86_400;
/// The years with four digits.
const YEARS: std::ops::RangeInclusive<i64> = 0..=9_999;

/// A timestamp, in ticks since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    ticks: i64,
    per_second: u32,
    /// True if it is in UTC, and not in an unknown local time.
    is_utc: bool,
}

impl Timestamp {
    /// Makes a timestamp in UTC of milliseconds since 1970.
    pub fn of_unix_ms(ms: i64) -> Timestamp {
        Timestamp { ticks: ms, per_second: 1_000, is_utc: true }
    }

    pub(crate) fn new(ticks: i64, per_second: u32, is_utc: bool) -> Timestamp {
        Timestamp { ticks, per_second, is_utc }
    }

    /// The milliseconds since 1970; `None` if the timestamp has a finer fraction.
    pub fn unix_ms(self) -> Option<i64> {
        let per_ms = i64::from(self.per_second / 1_000);
        (self.ticks % per_ms == 0).then_some(self.ticks / per_ms)
    }

    /// The text, such as `2026-01-31T12:00:00.000Z`; `None` if the year has not four digits.
    pub(crate) fn text(self) -> Option<String> {
        let per_second = i64::from(self.per_second);
        let seconds = self.ticks.div_euclid(per_second);
        let mut text = day_text(seconds.div_euclid(DAY_SECONDS))?;
        let second = seconds.rem_euclid(DAY_SECONDS);
        let (hours, minutes) = (second / 3_600, second / 60 % 60);
        let (fraction, places) = (self.ticks.rem_euclid(per_second), self.per_second.ilog10());
        // Writing to memory cannot fail.
        let _ = write!(text, "T{hours:02}:{minutes:02}:{:02}", second % 60);
        let _ = write!(text, ".{fraction:0places$}", places = places as usize);
        text += if self.is_utc { "Z" } else { "" };
        Some(text)
    }
}

/// The text of a date in days since 1970, such as `2026-01-31`; `None` if the year has not four
/// digits.
pub(crate) fn day_text(day: i64) -> Option<String> {
    let CalendarDate { year, month, day } = CalendarDate::of_days(day);
    YEARS.contains(&year).then(|| format!("{year:04}-{month:02}-{day:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_converted_to_dates() {
        for (day, text) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_483, "2026-01-30"),
            (-719_528, "0000-01-01"),
            (2_932_896, "9999-12-31"),
        ] {
            assert_eq!(day_text(day).as_deref(), Some(text));
        }
        for day in [-719_529, 2_932_897, i64::from(i32::MAX), i64::from(i32::MIN)] {
            assert_eq!(day_text(day), None);
        }
    }

    #[test]
    fn timestamps_have_as_many_digits_as_their_unit() {
        let text = |ticks, per_second, is_utc| Timestamp::new(ticks, per_second, is_utc).text();
        assert_eq!(text(-1, 1_000, true).unwrap(), "1969-12-31T23:59:59.999Z");
        assert_eq!(text(3_723_000_004, 1_000_000, false).unwrap(), "1970-01-01T01:02:03.000004");
        assert_eq!(text(1, 1_000_000_000, true).unwrap(), "1970-01-01T00:00:00.000000001Z");
        assert_eq!(text(i64::MAX, 1_000, true), None);
        assert_eq!(Timestamp::new(5_000_000, 1_000_000_000, true).unix_ms(), Some(5));
        assert_eq!(Timestamp::new(5_000_001, 1_000_000_000, true).unix_ms(), None);
        assert_eq!(Timestamp::of_unix_ms(-7).unix_ms(), Some(-7));
    }
}
