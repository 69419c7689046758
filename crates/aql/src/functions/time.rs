//! Conversion between dates and milliseconds since 1970 (proleptic Gregorian calendar, UTC).

use std::ops::RangeInclusive;

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

/// The most digits of a year.
const YEAR_DIGITS_MAX: usize = 6;

/// Parses an ISO 8601 date such as `2020-08-29T16:30:05.123+02:00` to milliseconds since 1970. All
/// parts but the year are optional.
#[must_use]
pub fn parse(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    if rest.len() > DATE_BYTES_MAX {
        return None;
    }
    take(&mut rest, &['+']);
    let year = number(&mut rest, YEAR_DIGITS_MAX, 0..=9999)?;
    let (mut month, mut day) = (1, 1);
    if take(&mut rest, &['-']) {
        month = number(&mut rest, 2, 1..=12)?;
        if take(&mut rest, &['-']) {
            // The excess days of a shorter month carry over to the next month.
            day = number(&mut rest, 2, 1..=31)?;
        }
    }
    let mut moment = days_of(year, month, day) * DAY_MS;
    if take(&mut rest, &['T', ' ']) {
        moment += time_of_day(&mut rest)?;
    }
    moment -= offset(&mut rest)?;
    rest.is_empty().then_some(moment)
}

/// Takes one of these characters off the front of a text. Returns false if there is none.
pub(super) fn take(rest: &mut &str, characters: &[char]) -> bool {
    match rest.strip_prefix(characters) {
        Some(after) => {
            *rest = after;
            true
        }
        None => false,
    }
}

/// Takes all digits off the front of a text; `None` unless there are 1 to `most`.
fn digits<'t>(rest: &mut &'t str, most: usize) -> Option<&'t str> {
    let count = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, after) = rest.split_at(count);
    *rest = after;
    (1..=most).contains(&count).then_some(digits)
}

/// Takes a number of at most `most` digits off the front of a text.
pub(super) fn number(rest: &mut &str, most: usize, range: RangeInclusive<i64>) -> Option<i64> {
    digits(rest, most)?.parse::<i64>().ok().filter(|number| range.contains(number))
}

/// Takes the digits behind a decimal point off the front of a text. Returns the thousandths;
/// further digits are cut off.
pub(super) fn thousandths(rest: &mut &str, most: usize) -> Option<i64> {
    let (mut thousandths, mut unit) = (0, 100);
    for digit in digits(rest, most)?.bytes() {
        thousandths += unit * i64::from(digit - b'0');
        unit /= 10;
    }
    Some(thousandths)
}

/// Takes a time off the front of a text. Returns the milliseconds since midnight.
fn time_of_day(rest: &mut &str) -> Option<i64> {
    let mut time = number(rest, 2, 0..=23)? * 3_600_000;
    if !take(rest, &[':']) {
        return None;
    }
    time += number(rest, 2, 0..=59)? * 60_000;
    if take(rest, &[':']) {
        time += number(rest, 2, 0..=59)? * 1000;
        if take(rest, &['.']) {
            time += thousandths(rest, DATE_BYTES_MAX)?;
        }
    }
    Some(time)
}

/// Takes an offset such as `Z` or `+02:00`, if there is one, off the front of a text. Returns its
/// milliseconds.
fn offset(rest: &mut &str) -> Option<i64> {
    let sign = if take(rest, &['+']) {
        1
    } else if take(rest, &['-']) {
        -1
    } else {
        take(rest, &['Z', 'z']);
        return Some(0);
    };
    let hours = number(rest, 2, 0..=23)?;
    if !take(rest, &[':']) {
        return None;
    }
    Some(sign * (hours * 3_600_000 + number(rest, 2, 0..=59)? * 60_000))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn moments_and_their_parts_agree() {
        for days in (-719_000..800_000).step_by(97) {
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
            ("+2020-03-15-01:30", 5_400_000),
            ("2020-02-31", -13 * DAY_MS),
        ] {
            assert_eq!(parse(text), Some(day + after), "{text}");
        }
        for text in [
            "", "-2020", "10000", "2020-13-01", "2020-02-32", "abc", "2020-01-01T24:00",
            "2020-01-01T1:2:3:4", "2020-01-01T1:2:3.", "2020-01-01T10:00+02", "2020-01-01+24:00",
        ] {
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
