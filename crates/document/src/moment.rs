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
    let is_date = parts.next().is_none()
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && year <= 9_999;
    if !is_date {
        return None;
    }
    let days = CalendarDate { year, month, day }.days();
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
    let fits = hours <= 24 && minutes < 60 && seconds < 61.0;
    fits.then(|| (hours * 3_600 + minutes * 60) as f64 + seconds - offset)
}

fn offset_seconds(text: &str) -> Option<f64> {
    if text.eq_ignore_ascii_case("z") {
        return Some(0.0);
    }
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let (hours, minutes) = text[1..].split_once(':')?;
    Some(sign * (digits(hours)? * 3_600 + digits(minutes)? * 60) as f64)
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
}
