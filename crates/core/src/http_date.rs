//! An HTTP date in any of its three forms.
//!
//! Fields that define the instant must be right; redundant fields are not checked. Digits must
//! stand in the places of the form, and the day must exist. A wrong weekday, lower case, and the
//! zones `UTC` and `+0000` for `GMT` are accepted: the server wants a wait, and ignoring it would
//! send the call early.
//!
//! A second of 60 is the first of the next minute. Years have two or four digits, as the form says.
//! Local zones and ISO 8601 are not HTTP dates.

use core::fmt;

use crate::WallTime;
use crate::byte_cursor::{ByteCursor, trim_blanks};
use crate::utc_date::{InvalidDate, LAST_SECOND, UtcDate, wall, weekday};

/// Point in civil time, to the second, that HTTP can write.
///
/// ```
/// use outflow_core::{HttpDate, WallTime};
///
/// let now = WallTime::from_unix_secs(1_700_000_000);
/// let date = HttpDate::read(b"Sun, 06 Nov 1994 08:49:37 GMT", now)?;
/// assert_eq!(date.at(), WallTime::from_unix_secs(784_111_777));
/// assert_eq!(HttpDate::read(b"Sunday, 06-Nov-94 08:49:37 GMT", now)?, date);
/// assert_eq!(HttpDate::read(b"Sun Nov  6 08:49:37 1994", now)?, date);
/// assert_eq!(date.to_string(), "Sun, 06 Nov 1994 08:49:37 GMT");
/// # Ok::<(), outflow_core::InvalidHttpDate>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HttpDate(WallTime);

impl HttpDate {
    /// Parses a header value, with surrounding blanks allowed. `now` only decides the century of a
    /// two-digit year: the latest that is at most 50 years ahead.
    ///
    /// # Errors
    /// If the value has none of the three forms, there is no such time, or it is before 1970.
    pub fn read(value: &[u8], now: WallTime) -> Result<Self, InvalidHttpDate> {
        let value = trim_blanks(value);
        let fields = imf_fixdate(ByteCursor::new(value))
            .or_else(|| rfc_850(ByteCursor::new(value), UtcDate::from_wall(now).year))
            .or_else(|| asctime(ByteCursor::new(value)))
            .ok_or(InvalidHttpDate::UnknownForm)?;
        match fields.unix_secs() {
            Ok(secs) => Ok(Self(wall(secs, 0))),
            Err(InvalidDate::NoSuchTime) => Err(InvalidHttpDate::NoSuchTime),
            Err(InvalidDate::BeforeEpoch) => Err(InvalidHttpDate::BeforeEpoch),
        }
    }

    /// Rounds `at` down to a whole second, at most the last one of the year 9999.
    pub fn from_wall(at: WallTime) -> Self {
        let secs = at.as_duration().as_secs();
        Self(WallTime::from_unix_secs(secs.min(LAST_SECOND)))
    }

    /// Returns the point in civil time.
    pub const fn at(self) -> WallTime {
        self.0
    }
}

/// Writes the one form that senders should use.
impl fmt::Display for HttpDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let date = UtcDate::from_wall(self.0);
        write!(
            f,
            "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
            named(&DAYS, weekday(self.0)),
            date.day,
            named(&MONTHS, date.month - 1),
            date.year,
            date.hour,
            date.minute,
            date.second,
        )
    }
}

/// Time of a response, by the server's clock or ours.
///
/// The server's own `Date` is preferred: dates in one response come from one clock, so their
/// difference is right however wrong our clock is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseTime<'a> {
    /// Value of the response's `Date` header, if it had one.
    pub date: Option<&'a [u8]>,
    /// Our own civil time at the response.
    pub wall: WallTime,
}

impl ResponseTime<'_> {
    /// Returns the time by the server's clock, or by ours if there is no valid `Date`.
    pub fn at_server(self) -> WallTime {
        self.date
            .and_then(|value| HttpDate::read(value, self.wall).ok())
            .map_or(self.wall, HttpDate::at)
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(mut cursor: ByteCursor<'_>) -> Option<UtcDate> {
    cursor.name(&DAYS)?;
    cursor.text(b", ")?;
    let day = cursor.digits(2)?;
    cursor.text(b" ")?;
    let month = cursor.name(&MONTHS)? + 1;
    cursor.text(b" ")?;
    let year = cursor.digits(4)?;
    cursor.text(b" ")?;
    let time = time_of_day(&mut cursor)?;
    zone(cursor)?;
    Some(time.on(year, month, day))
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc_850(mut cursor: ByteCursor<'_>, this_year: u32) -> Option<UtcDate> {
    cursor.name(&LONG_DAYS)?;
    cursor.text(b", ")?;
    let day = cursor.digits(2)?;
    cursor.text(b"-")?;
    let month = cursor.name(&MONTHS)? + 1;
    cursor.text(b"-")?;
    let year = full_year(cursor.digits(2)?, this_year);
    cursor.text(b" ")?;
    let time = time_of_day(&mut cursor)?;
    zone(cursor)?;
    Some(time.on(year, month, day))
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(mut cursor: ByteCursor<'_>) -> Option<UtcDate> {
    cursor.name(&DAYS)?;
    cursor.text(b" ")?;
    let month = cursor.name(&MONTHS)? + 1;
    cursor.text(b" ")?;
    let day = match cursor.text(b" ") {
        Some(()) => cursor.digits(1)?,
        None => cursor.digits(2)?,
    };
    cursor.text(b" ")?;
    let time = time_of_day(&mut cursor)?;
    cursor.text(b" ")?;
    let year = cursor.digits(4)?;
    cursor.is_done().then(|| time.on(year, month, day))
}

/// Returns the latest year with these last two digits that is at most 50 years ahead.
fn full_year(two_digits: u32, this_year: u32) -> u32 {
    let latest = this_year + 50;
    latest - (latest % 100 + 100 - two_digits) % 100
}

struct TimeOfDay {
    hour: u32,
    minute: u32,
    second: u32,
}

impl TimeOfDay {
    const fn on(self, year: u32, month: u32, day: u32) -> UtcDate {
        UtcDate {
            year,
            month,
            day,
            hour: self.hour,
            minute: self.minute,
            second: self.second,
        }
    }
}

fn time_of_day(cursor: &mut ByteCursor<'_>) -> Option<TimeOfDay> {
    let hour = cursor.digits(2)?;
    cursor.text(b":")?;
    let minute = cursor.digits(2)?;
    cursor.text(b":")?;
    let second = cursor.digits(2)?;
    Some(TimeOfDay { hour, minute, second })
}

fn zone(mut cursor: ByteCursor<'_>) -> Option<()> {
    cursor.text(b" ")?;
    cursor.name(&["GMT", "UTC", "+0000"])?;
    cursor.is_done().then_some(())
}

fn named(names: &[&'static str], place: u32) -> &'static str {
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    names.get(place).copied().unwrap_or_default()
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const LONG_DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
pub(crate) const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

error_enum! {
    /// Reason that a value is no date.
    pub enum InvalidHttpDate {
        /// It has none of the three forms.
        UnknownForm = "not an HTTP date: write it like \"Sun, 06 Nov 1994 08:49:37 GMT\"",
        /// It has a form, but there is no such day or time of day.
        NoSuchTime = "there is no such day or time of day: check the calendar",
        /// It is before 1970, which is long past in any case.
        BeforeEpoch = "dates before 1970 are not supported: use a later one",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallTime = WallTime::from_unix_secs(1_700_000_000);

    fn secs(text: &str) -> Result<u64, InvalidHttpDate> {
        HttpDate::read(text.as_bytes(), NOW).map(|date| date.at().as_duration().as_secs())
    }

    // All are 784111777, the instant of the example in RFC 9110.
    #[test]
    fn redundant_fields_are_ignored() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            " Sun, 06 Nov 1994 08:49:37 GMT\t",
            "sun, 06 nov 1994 08:49:37 gmt",
            "SUN, 06 NOV 1994 08:49:37 GMT",
            "Wed, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Monday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun Nov 06 08:49:37 1994",
        ] {
            assert_eq!(secs(text), Ok(784_111_777), "{text}");
        }
        assert_eq!(secs("Sun, 06 Nov 1994 08:49:60 GMT"), Ok(784_111_800));
    }

    #[test]
    fn fields_that_define_the_instant_must_be_valid() {
        use InvalidHttpDate::{BeforeEpoch, NoSuchTime, UnknownForm};
        for (text, error) in [
            ("", UnknownForm),
            ("Sun, 6 Nov 1994 08:49:37 GMT", UnknownForm),
            ("Sun, 06 Nov 10000 08:49:37 GMT", UnknownForm),
            ("Sun, 06 Nov 94 08:49:37 GMT", UnknownForm),
            ("Sun, 06 Nov +994 08:49:37 GMT", UnknownForm),
            ("Sun, 06 Nov 1994 8:49:37 GMT", UnknownForm),
            ("Sun, 06 Nov 1994 08:49:37", UnknownForm),
            ("Sun, 06 Nov 1994 08:49:37 PST", UnknownForm),
            ("Sun, 06 Nov 1994 08:49:37 +0100", UnknownForm),
            ("Sun, 06 Nov 1994 08:49:37 GMT+1", UnknownForm),
            ("06 Nov 1994 08:49:37 GMT", UnknownForm),
            ("Sun,  06 Nov 1994 08:49:37 GMT", UnknownForm),
            ("Sun, 06 Bad 1994 08:49:37 GMT", UnknownForm),
            ("Sun Nov  6 08:49:37 1994 GMT", UnknownForm),
            ("1994-11-06T08:49:37Z", UnknownForm),
            ("Sun, 31 Nov 1994 08:49:37 GMT", NoSuchTime),
            ("Tue, 29 Feb 2022 08:49:37 GMT", NoSuchTime),
            ("Sun, 06 Nov 1994 24:00:00 GMT", NoSuchTime),
            ("Sun, 06 Nov 1994 08:60:00 GMT", NoSuchTime),
            ("Sun, 06 Nov 1994 08:49:61 GMT", NoSuchTime),
            ("Fri, 31 Dec 9999 23:59:60 GMT", NoSuchTime),
            ("Wed, 31 Dec 1969 23:59:59 GMT", BeforeEpoch),
            ("Sat, 01 Jan 0000 00:00:00 GMT", BeforeEpoch),
        ] {
            assert_eq!(secs(text), Err(error), "{text:?}");
        }
        assert_eq!(secs("Fri, 31 Dec 9999 23:59:59 GMT"), Ok(253_402_300_799));
    }

    // In 2023, 73 is 50 years ahead and still the future, 74 is 51 ahead and so 1974.
    #[test]
    fn two_digit_years_are_at_most_fifty_years_ahead() {
        for (digits, now, year) in [
            (73, 2023, 2073),
            (74, 2023, 1974),
            (23, 2023, 2023),
            (0, 2023, 2000),
            (99, 2023, 1999),
            (1, 2099, 2101),
            (49, 2099, 2149),
            (50, 2099, 2050),
        ] {
            assert_eq!(full_year(digits, now), year, "{digits} in {now}");
        }
    }

    #[test]
    fn every_point_in_time_is_formatted() {
        let shown = |span| alloc::format!("{}", HttpDate::from_wall(WallTime::since_epoch(span)));
        let late = core::time::Duration::from_millis(999);
        assert_eq!(shown(late), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(shown(core::time::Duration::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn the_servers_own_clock_is_preferred() {
        let stamp = |date| ResponseTime { date, wall: NOW }.at_server();
        let date: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(stamp(Some(date)), WallTime::from_unix_secs(784_111_777));
        assert_eq!(stamp(Some(b"yesterday")), NOW);
        assert_eq!(stamp(None), NOW);
    }
}
