//! An RFC 3339 date, such as `2023-11-14T22:13:20.5Z`.
//!
//! Read like HTTP dates: digits in the places of the form, a day that exists, any offset. A date
//! without a zone would be local to an unknown place, so it is rejected.

use core::time::Duration;

use crate::WallTime;
use crate::byte_cursor::{ByteCursor, parse_fraction_nanos};
use crate::utc_date::{UtcDate, wall};

/// Parses the point in time; `None` if it is malformed or before 1970.
pub(crate) fn read(value: &[u8]) -> Option<WallTime> {
    let mut cursor = ByteCursor::new(value);
    let secs = date_and_time(&mut cursor)?.unix_secs().ok()?;
    let nanos = match cursor.text(b".") {
        Some(()) => parse_fraction_nanos(cursor.run(|b| b.is_ascii_digit()))?,
        None => 0,
    };
    let local = wall(secs, nanos);
    offset(cursor)?.to_utc(local)
}

fn date_and_time(cursor: &mut ByteCursor<'_>) -> Option<UtcDate> {
    let year = cursor.digits(4)?;
    cursor.text(b"-")?;
    let month = cursor.digits(2)?;
    cursor.text(b"-")?;
    let day = cursor.digits(2)?;
    cursor.byte(|b| matches!(b, b'T' | b't' | b' '))?;
    let hour = cursor.digits(2)?;
    cursor.text(b":")?;
    let minute = cursor.digits(2)?;
    cursor.text(b":")?;
    Some(UtcDate {
        year,
        month,
        day,
        hour,
        minute,
        second: cursor.digits(2)?,
    })
}

enum UtcOffset {
    East(Duration),
    West(Duration),
}

impl UtcOffset {
    fn to_utc(&self, local: WallTime) -> Option<WallTime> {
        match *self {
            Self::East(by) => local.as_duration().checked_sub(by).map(WallTime::since_epoch),
            Self::West(by) => Some(local.saturating_add(by)),
        }
    }
}

/// Parses `Z`, `+09:00` or `-05:30`, with nothing after it.
fn offset(mut cursor: ByteCursor<'_>) -> Option<UtcOffset> {
    if cursor.text(b"Z").is_some() {
        return cursor.is_done().then_some(UtcOffset::West(Duration::ZERO));
    }
    let sign = cursor.byte(|b| matches!(b, b'+' | b'-'))?;
    let hours = cursor.digits(2).filter(|hours| *hours <= 23)?;
    cursor.text(b":")?;
    let minutes = cursor.digits(2).filter(|minutes| *minutes <= 59)?;
    let by = Duration::from_secs(u64::from((hours * 60 + minutes) * 60));
    let offset = if sign == b'+' {
        UtcOffset::East(by)
    } else {
        UtcOffset::West(by)
    };
    cursor.is_done().then_some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    // All are 1700000000, in the zones of the providers.
    #[test]
    fn every_zone_yields_one_instant() {
        for text in [
            "2023-11-14T22:13:20Z",
            "2023-11-14t22:13:20z",
            "2023-11-14 22:13:20Z",
            "2023-11-14T22:13:20.000Z",
            "2023-11-15T07:13:20+09:00",
            "2023-11-14T16:43:20-05:30",
            "2023-11-14T22:13:20-00:00",
        ] {
            let expected = WallTime::from_unix_secs(1_700_000_000);
            assert_eq!(read(text.as_bytes()), Some(expected), "{text}");
        }
    }

    #[test]
    fn dates_without_a_zone_are_refused() {
        for text in [
            "",
            "2023-11-14",
            "2023-11-14T22:13:20",
            "2023-11-14T22:13Z",
            "2023-11-31T22:13:20Z",
            "2023-11-14T24:13:20Z",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13:20+0900",
            "2023-11-14T22:13:20+24:00",
            "2023-11-14T22:13:20Zulu",
            "23-11-14T22:13:20Z",
            "10000-01-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+00:01",
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
