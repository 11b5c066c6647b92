//! A date as RFC 3339 writes it, such as `2023-11-14T22:13:20.5Z`.
//!
//! Read by the same rule as dates of HTTP: digits where the form wants them, a day that exists, any
//! offset. Without a zone it would be a local time of we know not where, so that is refused.

use core::time::Duration;

use crate::WallTime;
use crate::byte_cursor::{ByteCursor, fraction_nanos};
use crate::utc_date::{UtcDate, wall};

/// The point in time, or `None` if it is no such date or before 1970.
pub(crate) fn read(value: &[u8]) -> Option<WallTime> {
    let mut scan = ByteCursor::new(value);
    let secs = date_and_time(&mut scan)?.unix_secs().ok()?;
    let nanos = match scan.text(b".") {
        Some(()) => fraction_nanos(scan.run(|b| b.is_ascii_digit()))?,
        None => 0,
    };
    let local = wall(secs, nanos);
    offset(scan)?.to_utc(local)
}

fn date_and_time(scan: &mut ByteCursor<'_>) -> Option<UtcDate> {
    let year = scan.digits(4)?;
    scan.text(b"-")?;
    let month = scan.digits(2)?;
    scan.text(b"-")?;
    let day = scan.digits(2)?;
    scan.byte(|b| matches!(b, b'T' | b't' | b' '))?;
    let hour = scan.digits(2)?;
    scan.text(b":")?;
    let minute = scan.digits(2)?;
    scan.text(b":")?;
    Some(UtcDate {
        year,
        month,
        day,
        hour,
        minute,
        second: scan.digits(2)?,
    })
}

enum UtcOffset {
    East(Duration),
    West(Duration),
}

impl UtcOffset {
    fn to_utc(&self, local: WallTime) -> Option<WallTime> {
        match *self {
            Self::East(by) => local
                .as_duration()
                .checked_sub(by)
                .map(WallTime::since_epoch),
            Self::West(by) => Some(local.saturating_add(by)),
        }
    }
}

/// `Z`, `+09:00`, `-05:30`, and nothing behind it.
fn offset(mut scan: ByteCursor<'_>) -> Option<UtcOffset> {
    if scan.text(b"Z").is_some() {
        return scan.is_done().then_some(UtcOffset::West(Duration::ZERO));
    }
    let sign = scan.byte(|b| matches!(b, b'+' | b'-'))?;
    let hours = scan.digits(2).filter(|hours| *hours <= 23)?;
    scan.text(b":")?;
    let minutes = scan.digits(2).filter(|minutes| *minutes <= 59)?;
    let by = Duration::from_secs(u64::from((hours * 60 + minutes) * 60));
    let offset = if sign == b'+' {
        UtcOffset::East(by)
    } else {
        UtcOffset::West(by)
    };
    scan.is_done().then_some(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    // All are 1700000000, in the places where the providers' people live.
    #[test]
    fn every_zone_tells_the_same_instant() {
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
    fn what_is_not_a_date_with_a_zone_is_refused() {
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
