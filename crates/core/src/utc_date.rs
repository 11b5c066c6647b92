//! The Gregorian calendar in UTC, as far as servers' dates need it.
//!
//! Only from 1970 to 9999 and only whole seconds: other dates name no wait. Days come from tables
//! and leap-year arithmetic instead of a time library, because this crate has no dependencies and
//! needs two functions.

use core::fmt;
use core::time::Duration;

use crate::WallTime;

/// Date and time of day in UTC, shown in RFC 3339 to the second.
///
/// ```
/// use outflow_core::{UtcDate, WallTime};
///
/// let date = UtcDate::from_wall(WallTime::from_unix_secs(1_700_000_000));
/// assert_eq!(date.to_string(), "2023-11-14T22:13:20Z");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UtcDate {
    pub(crate) year: u32,
    /// 1 to 12.
    pub(crate) month: u32,
    /// 1 to 31.
    pub(crate) day: u32,
    pub(crate) hour: u32,
    pub(crate) minute: u32,
    /// 0 to 60: a leap second is the first instant of the next minute.
    pub(crate) second: u32,
}

/// Error in the fields of a date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InvalidDate {
    /// There is no such day or time of day, or its year has more than four digits.
    NoSuchTime,
    /// It is before 1970.
    BeforeEpoch,
}

impl UtcDate {
    /// Returns the seconds since 1970.
    pub(crate) fn unix_secs(self) -> Result<u64, InvalidDate> {
        if !self.exists() {
            return Err(InvalidDate::NoSuchTime);
        }
        if self.year < EPOCH_YEAR {
            return Err(InvalidDate::BeforeEpoch);
        }
        let days = days_before(self.year) - days_before(EPOCH_YEAR)
            + month_start(self.year, self.month)
            + u64::from(self.day - 1);
        let of_day = (self.hour * 60 + self.minute) * 60 + self.second;
        let secs = days * SECS_PER_DAY + u64::from(of_day);
        // A leap second can exceed the last year.
        (secs <= LAST_SECOND).then_some(secs).ok_or(InvalidDate::NoSuchTime)
    }

    /// Splits a point in time into fields, up to the end of the year 9999.
    pub fn from_wall(at: WallTime) -> Self {
        let secs = at.as_duration().as_secs().min(LAST_SECOND);
        let (days, of_day) = (secs / SECS_PER_DAY, small(secs % SECS_PER_DAY));
        let year = year_of(days);
        let of_year = days + days_before(EPOCH_YEAR) - days_before(year);
        let month = (1..=12)
            .rev()
            .find(|month| month_start(year, *month) <= of_year)
            .unwrap_or(1);
        Self {
            year,
            month,
            day: small(of_year - month_start(year, month)) + 1,
            hour: of_day / 3_600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
        }
    }

    fn exists(self) -> bool {
        let month_days =
            month_start(self.year, self.month.saturating_add(1)).saturating_sub(month_start(self.year, self.month));
        self.year <= LAST_YEAR
            && (1..=12).contains(&self.month)
            && self.day >= 1
            && u64::from(self.day) <= month_days
            && self.hour <= 23
            && self.minute <= 59
            && self.second <= 60
    }
}

impl fmt::Display for UtcDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
            self.year, self.month, self.day, self.hour, self.minute, self.second
        )
    }
}

/// Returns the day of the week, 0 for Monday.
pub(crate) fn weekday(at: WallTime) -> u32 {
    // The epoch was a Thursday.
    small((at.as_duration().as_secs() / SECS_PER_DAY + 3) % 7)
}

/// The last second of a four-digit year, since the epoch.
pub(crate) const LAST_SECOND: u64 = 253_402_300_799;

/// Builds the point in time from seconds and nanoseconds after the epoch.
pub(crate) fn wall(secs: u64, nanos: u32) -> WallTime {
    let span = Duration::from_secs(secs).saturating_add(Duration::from_nanos(u64::from(nanos)));
    WallTime::since_epoch(span)
}

fn year_of(days: u64) -> u32 {
    // 400 years are 146,097 days: the estimate is at most one year off.
    let estimate = EPOCH_YEAR + small(days * 400 / 146_097);
    let target = days + days_before(EPOCH_YEAR);
    (estimate.saturating_sub(1)..=estimate + 1)
        .rev()
        .find(|year| days_before(*year) <= target)
        .unwrap_or(estimate)
}

/// Returns the days from the start of the year 0 to the start of `year`.
fn days_before(year: u32) -> u64 {
    let last = u64::from(year.saturating_sub(1));
    // The year 0 is itself a leap year.
    let leap_days = last / 4 - last / 100 + last / 400 + u64::from(year > 0);
    u64::from(year) * 365 + leap_days
}

/// Returns the days from the start of the year to the start of `month`; month 13 is the year's end.
fn month_start(year: u32, month: u32) -> u64 {
    const DAYS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let months = usize::try_from(month.saturating_sub(1)).unwrap_or(usize::MAX);
    let leap_day = u64::from(month > 2 && is_leap(year));
    DAYS.iter().take(months).sum::<u64>() + leap_day
}

const fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Converts a number that is below 4 billion by construction.
fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

const EPOCH_YEAR: u32 = 1970;
/// Dates have four digits for the year.
const LAST_YEAR: u32 = 9_999;
const SECS_PER_DAY: u64 = 86_400;

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn midnight(year: u32, month: u32, day: u32) -> UtcDate {
        UtcDate {
            year,
            month,
            day,
            hour: 0,
            minute: 0,
            second: 0,
        }
    }

    // Every day of every year in range: the two directions agree and no day is skipped.
    #[test]
    fn every_day_converts_both_ways() {
        for day in 0..=LAST_SECOND / SECS_PER_DAY {
            let at = WallTime::from_unix_secs(day * SECS_PER_DAY);
            assert_eq!(UtcDate::from_wall(at).unix_secs(), Ok(day * SECS_PER_DAY));
        }
        let last = UtcDate::from_wall(WallTime::from_unix_secs(u64::MAX));
        assert_eq!((last.year, last.month, last.day), (9_999, 12, 31));
    }

    // Days from other calendars: `date -u -d 2000-02-29 +%s` and the like.
    #[test]
    fn known_days_have_their_unix_time() {
        for (year, month, day, secs) in [
            (1970, 1, 1, 0),
            (1994, 11, 6, 784_080_000),
            (2000, 2, 29, 951_782_400),
            (2100, 3, 1, 4_107_542_400),
        ] {
            assert_eq!(midnight(year, month, day).unix_secs(), Ok(secs));
        }
        assert_eq!(weekday(WallTime::from_unix_secs(784_080_000)), 6, "a Sunday");
    }

    // The ends of months and years, and both kinds of leap year.
    #[test]
    fn dates_follow_the_calendar() {
        for (secs, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (784_111_777, "1994-11-06T08:49:37Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            let date = UtcDate::from_wall(WallTime::from_unix_secs(secs));
            assert_eq!(date.to_string(), text);
        }
    }

    #[test]
    fn impossible_days_are_refused() {
        for (year, month, day) in [
            (2023, 2, 29),
            (2100, 2, 29),
            (2024, 4, 31),
            (2024, 0, 1),
            (2024, 13, 1),
            (2024, 1, 0),
            (2024, 1, 32),
            (10_000, 1, 1),
            (u32::MAX, u32::MAX, u32::MAX),
        ] {
            let read = midnight(year, month, day).unix_secs();
            assert_eq!(read, Err(InvalidDate::NoSuchTime), "{year}-{month}-{day}");
        }
        let read = midnight(1969, 12, 31).unix_secs();
        assert_eq!(read, Err(InvalidDate::BeforeEpoch));
    }
}
