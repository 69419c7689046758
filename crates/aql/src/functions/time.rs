//! Conversion between dates and milliseconds since 1970 (proleptic Gregorian calendar, UTC).

use pellucid_clock::CalendarDate;

/// The milliseconds of a day.
pub(super) const DAY_MS: i64 = 86_400_000;

/// The parts of a moment, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DateTime {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) millisecond: i64,
}

/// The days since 1970-01-01 of a date, whose month must be 1 to 12.
pub(super) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    CalendarDate { year, month, day }.days()
}

pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl DateTime {
    pub(super) fn of(milliseconds: i64) -> Self {
        let date = CalendarDate::of_days(milliseconds.div_euclid(DAY_MS));
        let CalendarDate { year, month, day } = date;
        let rest = milliseconds.rem_euclid(DAY_MS);
        Self {
            year,
            month,
            day,
            hour: rest / 3_600_000,
            minute: rest / 60_000 % 60,
            second: rest / 1000 % 60,
            millisecond: rest % 1000,
        }
    }

    pub(super) fn milliseconds(self) -> i64 {
        days_of(self.year, self.month, self.day) * DAY_MS
            + self.hour * 3_600_000
            + self.minute * 60_000
            + self.second * 1000
            + self.millisecond
    }

    /// The number of days since the first of January.
    pub(super) fn day_of_year(self) -> i64 {
        days_of(self.year, self.month, self.day) - days_of(self.year, 1, 1) + 1
    }

    /// The day of the week; 0 is Sunday.
    pub(super) fn day_of_week(self) -> i64 {
        (days_of(self.year, self.month, self.day) + 4).rem_euclid(7)
    }

    /// The year and the week by ISO 8601: a week belongs to the year of its Thursday.
    pub(super) fn iso_week(self) -> (i64, i64) {
        let days = days_of(self.year, self.month, self.day);
        let thursday = days - (days + 3).rem_euclid(7) + 3;
        let year = CalendarDate::of_days(thursday).year;
        (year, (thursday - days_of(year, 1, 1)) / 7 + 1)
    }

    pub(super) fn iso(self) -> String {
        let Self { year, month, day, hour, minute, second, millisecond } = self;
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
    }
}

/// The most bytes of a date that is parsed.
const DATE_BYTES_MAX: usize = 64;

/// Parses an ISO 8601 date such as `2020-08-29T16:30:05.123+02:00`. All parts but the year are
/// optional.
pub(super) fn parse(text: &str) -> Option<i64> {
    let text = text.trim();
    if text.len() > DATE_BYTES_MAX {
        return None;
    }
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text.strip_suffix(['Z', 'z']).unwrap_or(text), None),
    };
    let (sign, date) = match date.strip_prefix('-') {
        Some(date) => (-1, date),
        None => (1, date.strip_prefix('+').unwrap_or(date)),
    };
    let mut parts = date.split('-');
    let year = sign * digits(parts.next()?, 1, 6)?;
    let month = parts.next().map_or(Some(1), |part| digits(part, 1, 2))?;
    let day = parts.next().map_or(Some(1), |part| digits(part, 1, 2))?;
    // The excess days of a shorter month carry over to the next month.
    let is_date = parts.next().is_none() && (1..=12).contains(&month) && (1..=31).contains(&day);
    let midnight = is_date.then(|| days_of(year, month, day) * DAY_MS)?;
    match time {
        Some(time) => Some(midnight + time_of_day(time)?),
        None => Some(midnight),
    }
}

/// Parses a number of `least` to `most` digits.
fn digits(text: &str, least: usize, most: usize) -> Option<i64> {
    let fits =
        (least..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

/// Parses a time with an optional offset. Returns the milliseconds since midnight UTC.
fn time_of_day(text: &str) -> Option<i64> {
    let (time, offset) = match text.find(['Z', 'z', '+', '-']) {
        Some(at) => (&text[..at], offset(&text[at..])?),
        None => (text, 0),
    };
    let mut parts = time.split(':');
    let hour = digits(parts.next()?, 1, 2)?;
    let minute = digits(parts.next()?, 1, 2)?;
    let (second, millisecond) = match parts.next() {
        None => (0, 0),
        Some(part) => {
            let (second, fraction) = part.split_once('.').unwrap_or((part, "0"));
            // Digits beyond milliseconds are cut off.
            digits(fraction, 1, 9)?;
            let fraction: String = fraction.chars().chain("00".chars()).take(3).collect();
            (digits(second, 1, 2)?, digits(&fraction, 3, 3)?)
        }
    };
    if parts.next().is_some() || hour > 24 || minute > 59 || second > 59 {
        return None;
    }
    Some(hour * 3_600_000 + minute * 60_000 + second * 1000 + millisecond - offset)
}

/// Parses an offset such as `Z`, `+02:00`, `-0130` or `+02`. Returns its milliseconds.
fn offset(text: &str) -> Option<i64> {
    if text.eq_ignore_ascii_case("Z") {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let rest: String = text[1..].chars().filter(|character| *character != ':').take(5).collect();
    // The rest may have characters of several bytes, so it must not be cut at arbitrary bytes.
    let (hours, minutes) = match (rest.get(..2), rest.get(2..)) {
        (Some(hours), Some("")) => (digits(hours, 2, 2)?, 0),
        (Some(hours), Some(minutes)) => (digits(hours, 2, 2)?, digits(minutes, 2, 2)?),
        _ => return None,
    };
    Some(sign * (hours * 3_600_000 + minutes * 60_000))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn moments_and_their_parts_agree() {
        for days in (-800_000..800_000).step_by(97) {
            let parts = DateTime::of(days * DAY_MS + 12_345);
            assert_eq!(parts.milliseconds(), days * DAY_MS + 12_345);
            assert_eq!(parse(&parts.iso()), Some(days * DAY_MS + 12_345), "{parts:?}");
        }
        let parts = DateTime::of(parse("2020-08-29T16:30:05.123").unwrap());
        assert_eq!(parts.iso(), "2020-08-29T16:30:05.123Z");
        assert_eq!((parts.day_of_week(), parts.day_of_year()), (6, 242));
        assert_eq!(parts.iso_week(), (2020, 35));
        assert_eq!(DateTime::of(parse("2021-01-03").unwrap()).iso_week(), (2020, 53));
    }

    #[test]
    fn dates_are_read_in_all_their_forms() {
        let day = parse("2020-03-15").unwrap();
        for (text, after) in [
            ("2020-03-15T00:00:00.000-02:00", 2 * 3_600_000),
            ("2020-03-15 10:00", 10 * 3_600_000),
            ("2020-3-15T01:00:00.5Z", 3_600_500),
            ("2020-03-15Z", 0),
            ("2020-02-31", -13 * DAY_MS),
        ] {
            assert_eq!(parse(text), Some(day + after), "{text}");
        }
        for text in
            ["", "2020-13-01", "2020-02-32", "abc", "2020-01-01T25:00", "2020-01-01T1:2:3:4"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    /// Texts that are nearly dates.
    const DATE: &str = concat!(
        "[0-9]{1,7}(-[0-9]{1,2}){0,2}",
        "[Tt ]?([0-9]{2}:?){0,3}[.]?[0-9€]{0,3}[+-Zz]?\\PC{0,4}",
    );

    proptest! {
        /// Regression: offsets such as `+€a` were cut within a character, which ended the process.
        #[test]
        fn any_text_is_read_or_refused(
            text in DATE,
            offset in "[+-]\\PC{0,5}",
            any in "\\PC*",
        ) {
            for text in [text, format!("2020-01-01T00:00{offset}"), any] {
                let moment = parse(&text);
                prop_assert!(moment.is_none_or(|moment| moment.unsigned_abs() < 1 << 55));
            }
        }
    }
}
