//! Times in documents: numbers of seconds since the Unix epoch, or ISO 8601 text.

use pellucid_clock::CalendarDate;
use pellucid_value::Ref;

/// The time that a value stands for, in seconds since the Unix epoch; `None` if it is no time.
pub(crate) fn seconds_of(value: Ref<'_>) -> Option<f64> {
    match value {
        Ref::Number(number) => Some(number.to_double()),
        Ref::String(text) => seconds_of_text(text),
        _ => None,
    }
}

/// Parses `YYYY-MM-DD[(T| )HH:MM[:SS[.fff]][Z|±HH:MM]]`; without an offset it is UTC.
fn seconds_of_text(text: &str) -> Option<f64> {
    let text = text.trim();
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(place) => (&text[..place], &text[place + 1..]),
        None => (text, ""),
    };
    let mut parts = date.split('-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let date = CalendarDate { year, month, day };
    let days = date.days();
    // A day that its month does not have is one of the next month.
    if parts.next().is_some() || CalendarDate::of_days(days) != date {
        return None;
    }
    Some(days as f64 * 86_400.0 + if time.is_empty() { 0.0 } else { seconds_of_day(time)? })
}

fn seconds_of_day(time: &str) -> Option<f64> {
    let (time, offset) = match time.find(['Z', 'z', '+', '-']) {
        None => (time, 0.0),
        Some(place) => (&time[..place], offset_seconds(&time[place..])?),
    };
    let mut parts = time.splitn(3, ':');
    let (hours, minutes) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let seconds = match parts.next() {
        None => 0.0,
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            text.parse().ok()?
        }
        Some(_) => return None,
    };
    let fits = hours < 24 && minutes < 60 && seconds < 61.0;
    let is_end_of_day = hours == 24 && minutes == 0 && seconds == 0.0;
    let own = (hours * 3_600 + minutes * 60) as f64 + seconds;
    (fits || is_end_of_day).then_some(own - offset)
}

fn offset_seconds(text: &str) -> Option<f64> {
    if text.eq_ignore_ascii_case("z") {
        return Some(0.0);
    }
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let (hours, minutes) = text[1..].split_once(':')?;
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    (hours < 24 && minutes < 60).then(|| sign * (hours * 3_600 + minutes * 60) as f64)
}

fn digits(text: &str) -> Option<i64> {
    let is_number = (1..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_text() {
        let seconds = |text| seconds_of_text(text);
        assert_eq!(seconds("1970-01-01"), Some(0.0));
        assert_eq!(seconds("2000-02-29T12:30:15.250Z"), Some(951_827_415.25));
        assert_eq!(seconds("2000-02-29 12:30"), Some(951_827_400.0));
        assert_eq!(seconds("2000-02-29T12:30:00+01:00"), Some(951_823_800.0));
        assert_eq!(seconds("2026-11-22T00:00:00-00:30"), Some(1_795_307_400.0));
        for other in ["", "now", "2000-13-01", "2000-01", "2000-01-01T", "2000-01-01Tx", "1e3"] {
            let expected = if other == "2000-01-01T" { Some(946_684_800.0) } else { None };
            assert_eq!(seconds(other), expected, "{other}");
        }
    }

    /// Regression: days that their month does not have, times behind the end of the day, and
    /// offsets of any length were taken for times, at which documents expired.
    #[test]
    fn times_that_no_calendar_or_clock_has_are_none() {
        assert_eq!(seconds_of_text("2000-02-28T24:00:00"), Some(951_782_400.0));
        assert_eq!(seconds_of_text("2000-02-28T23:00:00-23:59"), Some(951_865_140.0));
        for text in [
            "2000-02-30",
            "2001-02-29",
            "2000-04-31",
            "2000-00-10",
            "2000-10-00",
            "2000-02-28T24:59",
            "2000-02-28T24:00:01",
            "2000-02-28T00:00:00+24:00",
            "2000-02-28T00:00:00-9999:00",
            "2000-02-28T00:00:00+00:60",
        ] {
            assert_eq!(seconds_of_text(text), None, "{text}");
        }
    }
}
