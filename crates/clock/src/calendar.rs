//! Conversion between days since the Unix epoch and calendar dates.

/// A date of the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CalendarDate {
    /// The year; year 0 precedes year 1.
    pub year: i64,
    /// The month, 1 to 12.
    pub month: i64,
    /// The day of the month, 1 to 31.
    pub day: i64,
}

/// The days of 400 years, after which the calendar repeats.
const DAYS_OF_ERA: i64 = 146_097;
/// The days from March 1 of the year 0 to the Unix epoch.
const DAYS_BEFORE_EPOCH: i64 = 719_468;

// Internally, years begin in March, so that the leap day is the last day of its year, and the
// lengths of months follow a formula.
impl CalendarDate {
    /// The date `days` days after 1970-01-01.
    ///
    /// ```
    /// use pellucid_clock::CalendarDate;
    ///
    /// let date = CalendarDate::of_days(11_016);
    /// assert_eq!(date, CalendarDate { year: 2000, month: 2, day: 29 });
    /// assert_eq!(date.days(), 11_016);
    /// ```
    #[must_use]
    pub fn of_days(days: i64) -> CalendarDate {
        let days = days + DAYS_BEFORE_EPOCH;
        let (era, day_of_era) = (days.div_euclid(DAYS_OF_ERA), days.rem_euclid(DAYS_OF_ERA));
        let leap_days = day_of_era / 1_460 + day_of_era / 146_096 - day_of_era / 36_524;
        let year_of_era = (day_of_era - leap_days) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        CalendarDate { year: era * 400 + year_of_era + i64::from(month <= 2), month, day }
    }

    /// The days since 1970-01-01. A day beyond the end of its month counts into the next month.
    #[must_use]
    pub fn days(self) -> i64 {
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        era * DAYS_OF_ERA + day_of_era - DAYS_BEFORE_EPOCH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_round_trip_and_are_in_order() {
        let mut last = CalendarDate::of_days(-800_000);
        for days in -799_999..800_000 {
            let date = CalendarDate::of_days(days);
            assert!(date > last, "{date:?} after {last:?}");
            assert_eq!(date.days(), days);
            last = date;
        }
    }

    #[test]
    fn known_dates_are_converted() {
        for (days, year, month, day) in [
            (0, 1970, 1, 1),
            (-1, 1969, 12, 31),
            (11_016, 2000, 2, 29),
            (47_540, 2100, 2, 28),
            (47_541, 2100, 3, 1),
            (2_932_896, 9999, 12, 31),
        ] {
            assert_eq!(CalendarDate::of_days(days), CalendarDate { year, month, day });
        }
    }
}
