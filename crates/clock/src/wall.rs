//! The time of day, and its text forms.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::calendar::CalendarDate;

/// A time of day with its date, as milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime {
    unix_ms: u64,
}

impl WallTime {
    /// The Unix epoch.
    pub(crate) const EPOCH: WallTime = WallTime { unix_ms: 0 };

    /// The system's time; the Unix epoch if the system's time is before 1970.
    #[must_use]
    pub fn now() -> WallTime {
        WallTime::of_unix(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// The time `since_epoch` after the Unix epoch.
    pub(crate) fn of_unix(since_epoch: Duration) -> WallTime {
        // Computed with 64 bits, which is faster than `as_millis`: each write calls this.
        let whole_ms = since_epoch.as_secs().saturating_mul(1_000);
        WallTime { unix_ms: whole_ms.saturating_add(u64::from(since_epoch.subsec_millis())) }
    }

    /// The time `unix_ms` milliseconds after the Unix epoch.
    #[must_use]
    pub fn from_unix_ms(unix_ms: u64) -> WallTime {
        WallTime { unix_ms }
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn unix_ms(self) -> u64 {
        self.unix_ms
    }

    /// The date in the format of HTTP (RFC 9110, section 5.6.7): always 29 bytes.
    #[must_use]
    pub fn http_date(self) -> HttpDate {
        HttpDate::of_unix_seconds(self.unix_ms / 1_000)
    }

    /// The date in the format of ISO 8601, in UTC: `1994-11-06T08:49:37.123Z`.
    #[must_use]
    pub fn iso_date(self) -> String {
        let (seconds, ms) = ((self.unix_ms / 1_000).min(LAST_SECOND), self.unix_ms % 1_000);
        let CalendarDate { year, month, day } = CalendarDate::of_days((seconds / 86_400) as i64);
        let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

/// A date in the preferred format of HTTP, `Sun, 06 Nov 1994 08:49:37 GMT`, without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpDate {
    text: [u8; 29],
}

/// The HTTP date of the Unix epoch.
const EPOCH: &[u8; 29] = b"Thu, 01 Jan 1970 00:00:00 GMT";
const DAYS: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
/// The last second of the year 9999, because the formats have four digits for the year.
const LAST_SECOND: u64 = 253_402_300_799;

impl HttpDate {
    fn of_unix_seconds(seconds: u64) -> HttpDate {
        let seconds = seconds.min(LAST_SECOND);
        let (days, second_of_day) = (seconds / 86_400, (seconds % 86_400) as u32);
        let mut text = midnight_of(days);
        write_two(&mut text, 17, second_of_day / 3_600);
        write_two(&mut text, 20, second_of_day / 60 % 60);
        write_two(&mut text, 23, second_of_day % 60);
        HttpDate { text }
    }

    /// The text of 29 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 29] {
        &self.text
    }
}

thread_local! {
    /// The last day that this thread has formatted, and the text of its midnight. Most entries that
    /// are read were written on a few days, and the calendar takes two thirds of the instructions.
    static LAST_DAY: Cell<(u64, [u8; 29])> = const { Cell::new((0, *EPOCH)) };
}

/// The text of the first second of a day, given in days since the Unix epoch.
#[inline]
fn midnight_of(days: u64) -> [u8; 29] {
    let (last, text) = LAST_DAY.get();
    if last == days {
        return text;
    }
    let text = write_midnight(days);
    LAST_DAY.set((days, text));
    text
}

#[cold]
fn write_midnight(days: u64) -> [u8; 29] {
    let CalendarDate { year, month, day } = CalendarDate::of_days(days as i64);
    let mut text = *EPOCH;
    text[0..3].copy_from_slice(DAYS[(days % 7) as usize]);
    write_two(&mut text, 5, day as u32);
    text[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    write_two(&mut text, 12, (year / 100) as u32);
    write_two(&mut text, 14, (year % 100) as u32);
    text
}

/// Writes two digits at `place`.
#[inline]
fn write_two(out: &mut [u8; 29], place: usize, value: u32) {
    out[place] = b'0' + (value / 10 % 10) as u8;
    out[place + 1] = b'0' + (value % 10) as u8;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(seconds: u64) -> String {
        let date = WallTime::from_unix_ms(seconds * 1_000).http_date();
        String::from_utf8(date.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn iso_dates_are_formatted() {
        let text = |unix_ms| WallTime::from_unix_ms(unix_ms).iso_date();
        assert_eq!(text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(951_827_415_250), "2000-02-29T12:30:15.250Z");
        assert_eq!(text(1_795_305_600_007), "2026-11-22T00:00:00.007Z");
        assert_eq!(text(u64::MAX), "9999-12-31T23:59:59.615Z");
    }

    #[test]
    fn the_cached_day_is_not_used_for_another_day() {
        let day = 86_400;
        for seconds in [day, day + 59, 2 * day - 1, 2 * day, day, 0, day + 1] {
            let again = std::thread::spawn(move || text(seconds)).join().unwrap();
            assert_eq!(text(seconds), again, "{seconds}");
        }
    }

    #[test]
    fn http_dates_are_formatted() {
        assert_eq!(text(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        // This is the example of RFC 9110.
        assert_eq!(text(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(text(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(text(4_107_542_399), "Sun, 28 Feb 2100 23:59:59 GMT");
        assert_eq!(text(u64::MAX / 1_000), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
}
