//! Instants as logs and job files write them.
//!
//! Reading and writing both use the calendar of this crate, so that all crates share one. Offsets without a
//! colon are read too: many loggers write them.

use alloc::format;
use core::fmt;
use core::time::Duration;

use crate::WallTime;
use crate::http_date::MONTHS;
use crate::server_hints::rfc3339;
use crate::utc_date::UtcDate;

/// An instant that is read from text, and shown in RFC 3339 to the millisecond.
///
/// ```
/// use outflow_core::Timestamp;
///
/// let instant = Timestamp::read("2026-10-10T22:15:36+09:00");
/// assert_eq!(Timestamp::read_access_log("10/Oct/2026:13:15:36 +0000"), instant);
/// assert_eq!(instant.expect("a date").to_string(), "2026-10-10T13:15:36.000Z");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Timestamp(pub WallTime);

impl Timestamp {
    /// Reads RFC 3339, such as `2026-10-10T13:55:36.250Z` or `2026-10-10T13:55:36+0900`.
    pub fn read(text: &str) -> Option<Self> {
        let read = |text: &str| rfc3339::read(text.as_bytes()).map(Self);
        read(text).or_else(|| {
            let (head, minutes) = text.split_at_checked(text.len().checked_sub(2)?)?;
            read(&format!("{head}:{minutes}"))
        })
    }

    /// Reads the time of an access log, such as `10/Oct/2026:13:55:36 -0700`.
    pub fn read_access_log(text: &str) -> Option<Self> {
        let (date, zone) = text.split_once(' ')?;
        let mut parts = date.splitn(4, ['/', ':']);
        let (day, month) = (parts.next()?, parts.next()?);
        let (year, time) = (parts.next()?, parts.next()?);
        let month = MONTHS.iter().position(|name| *name == month)? + 1;
        Self::read(&format!("{year}-{month:02}-{day:0>2}T{time}{zone}"))
    }

    /// Reads seconds since 1970 with a fraction; a number too large for seconds counts milliseconds.
    pub fn read_unix(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let whole: u64 = whole.parse().ok()?;
        let fraction = format!("{fraction:0<9}");
        let nanos: u64 = fraction.get(..9)?.parse().ok()?;
        let nanos = if whole < FIRST_MILLIS {
            whole.checked_mul(1_000_000_000)?.checked_add(nanos)?
        } else {
            whole.checked_mul(1_000_000)?
        };
        Some(Self(WallTime::since_epoch(Duration::from_nanos(nanos))))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = UtcDate::from_wall(self.0);
        let millis = self.0.as_duration().subsec_millis();
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{millis:03}Z",
            date.year, date.month, date.day, date.hour, date.minute, date.second,
        )
    }
}

/// As seconds this is the year 5138; as milliseconds, 1973.
const FIRST_MILLIS: u64 = 100_000_000_000;

#[cfg(test)]
mod tests {
    use std::string::ToString;

    use super::*;

    // 1,791,638,136 s is 2026-10-10T13:15:36Z, as `date -d` says.
    #[test]
    fn every_form_reads_as_one_instant() {
        let instant = Some(Timestamp(WallTime::from_unix_secs(1_791_638_136)));
        for read in [
            Timestamp::read_access_log("10/Oct/2026:13:15:36 +0000"),
            Timestamp::read_access_log("10/Oct/2026:06:15:36 -0700"),
            Timestamp::read("2026-10-10T13:15:36Z"),
            Timestamp::read("2026-10-10T22:15:36+09:00"),
            Timestamp::read("2026-10-10T22:15:36+0900"),
            Timestamp::read_unix("1791638136"),
            Timestamp::read_unix("1791638136.0"),
            Timestamp::read_unix("1791638136000"),
        ] {
            assert_eq!(read, instant);
        }
        for invalid in [
            "",
            "10/Okt/2026:13:15:36 +0000",
            "10/Oct/2026",
            "99/Oct/2026:25:15:36 +0000",
            "31/Apr/2026:13:15:36 +0000",
        ] {
            assert_eq!(Timestamp::read_access_log(invalid), None, "{invalid}");
            assert_eq!(Timestamp::read(invalid), None, "{invalid}");
            assert_eq!(Timestamp::read_unix(invalid), None, "{invalid}");
        }
    }

    // Instants from `date -u -d @N`: ends of a leap year, of a century without one, and of all years.
    #[test]
    fn known_instants_are_shown_as_date_shows_them() {
        for (millis, shown) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_007, "2000-02-29T00:00:00.007Z"),
            (978_307_199_999, "2000-12-31T23:59:59.999Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (253_402_300_799_000, "9999-12-31T23:59:59.000Z"),
            (u64::MAX, "9999-12-31T23:59:59.615Z"),
        ] {
            let at = WallTime::since_epoch(Duration::from_millis(millis));
            assert_eq!(Timestamp(at).to_string(), shown);
        }
    }

    // Expected values from `date -u -d @N`: ends of a leap year, of a century without one, of all years.
    #[test]
    fn known_times_are_shown_to_the_millisecond() {
        for (millis, shown) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_007, "2000-02-29T00:00:00.007Z"),
            (978_307_199_999, "2000-12-31T23:59:59.999Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (253_402_300_799_000, "9999-12-31T23:59:59.000Z"),
            (u64::MAX, "9999-12-31T23:59:59.615Z"),
        ] {
            let at = WallTime::since_epoch(Duration::from_millis(millis));
            assert_eq!(Timestamp(at).to_string(), shown);
        }
    }
}
