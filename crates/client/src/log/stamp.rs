//! Civil time as logs show it: `2026-11-15T23:55:59.123Z`.
//!
//! A calendar of a few lines rather than a time library: it only ever writes, and only UTC.

use std::fmt;

use outflow_core::WallTime;

/// A point in time, shown to the millisecond.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogTime(pub(crate) WallTime);

impl fmt::Display for LogTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = self.0.as_duration();
        let secs = span.as_secs().min(LAST_SECOND);
        let (year, month, day) = date(secs / SECS_PER_DAY);
        let (hour, minute, second) = (secs / 3_600 % 24, secs / 60 % 60, secs % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
            span.subsec_millis()
        )
    }
}

/// Year, month and day of a day counted from 1970-01-01. Years are taken to begin in March, so that
/// the leap day is the last of its year and months follow one formula.
const fn date(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_BEFORE_1970;
    let (era, of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    // Each term takes out the leap days that the one before has not: every 4, 100 and 400 years.
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (year * 365 + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let january_on = if month <= 2 { 1 } else { 0 };
    (era * 400 + year + january_on, month, day)
}

const SECS_PER_DAY: u64 = 86_400;
/// From the first of March of the year 0 to the epoch.
const DAYS_BEFORE_1970: u64 = 719_468;
/// After 400 years the calendar repeats.
const DAYS_PER_ERA: u64 = 146_097;
/// The end of the year 9999: years have four digits.
const LAST_SECOND: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // Told by `date -u -d @N`; the ends of a leap year, of a century without one, and of all years.
    #[test]
    fn known_instants_are_shown_as_others_show_them() {
        for (millis, shown) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_007, "2000-02-29T00:00:00.007Z"),
            (978_307_199_999, "2000-12-31T23:59:59.999Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (253_402_300_799_000, "9999-12-31T23:59:59.000Z"),
            (u64::MAX, "9999-12-31T23:59:59.615Z"),
        ] {
            let at = WallTime::since_epoch(Duration::from_millis(millis));
            assert_eq!(LogTime(at).to_string(), shown);
        }
    }

    // After 400 years the calendar repeats: each day of them is one after the day before.
    #[test]
    fn days_follow_each_other_without_gaps() {
        let mut last = (1969, 12, 31);
        for days in 0..DAYS_PER_ERA {
            let next = date(days);
            let follows = next.2 == last.2 + 1 && (next.0, next.1) == (last.0, last.1)
                || next.2 == 1
                    && last.2 >= 28
                    && (next.1 == last.1 + 1 || (next.1, last.1) == (1, 12));
            assert!(follows, "{next:?} after {last:?}");
            last = next;
        }
        assert_eq!(last, (2369, 12, 31));
    }
}
