//! Civil times as logs write them, in nanoseconds since 1970.

use outflow_core::Nanos;

/// Reads `10/Oct/2026:13:55:36 -0700`.
pub(crate) fn of_access_log(text: &str) -> Option<Nanos> {
    let (date, offset) = text.split_once(' ')?;
    let mut parts = date.splitn(4, ['/', ':']);
    let day: i64 = parts.next()?.parse().ok()?;
    let month = parts.next()?;
    let month = MONTHS.iter().position(|name| *name == month)?;
    let year: i64 = parts.next()?.parse().ok()?;
    let month = i64::try_from(month).ok()? + 1;
    let seconds = days(year, month, day)? * 86_400 + clock(parts.next()?)?;
    since_epoch(seconds - zone(offset)?, 0)
}

/// Reads `2026-10-10T13:55:36.250Z`, with any offset.
pub(crate) fn of_rfc3339(text: &str) -> Option<Nanos> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.splitn(3, '-');
    let mut number = || parts.next()?.parse::<i64>().ok();
    let days = days(number()?, number()?, number()?)?;
    let (time, rest) = rest.split_at_checked(8)?;
    let digits = rest.strip_prefix('.').map_or(0, |rest| {
        rest.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len())
    });
    let skipped = if digits == 0 { 0 } else { digits + 1 };
    let fraction = format!("{:0<9}", rest.get(skipped - digits..skipped)?);
    let nanos: u64 = fraction.get(..9)?.parse().ok()?;
    let offset = match rest.get(skipped..)? {
        "Z" | "z" => 0,
        offset => zone(&offset.replace(':', ""))?,
    };
    since_epoch(days * 86_400 + clock(time)? - offset, nanos)
}

/// Seconds since 1970, with a fraction; what is too large for them is milliseconds.
pub(crate) fn of_number(number: &serde_json::Number) -> Option<Nanos> {
    let text = number.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let whole: u64 = whole.parse().ok()?;
    let fraction = format!("{fraction:0<9}");
    let fraction: u64 = fraction.get(..9)?.parse().ok()?;
    match whole {
        0..LATEST_SECOND => Some(Nanos::from_nanos(
            whole.checked_mul(1_000_000_000)?.checked_add(fraction)?,
        )),
        millis => Some(Nanos::from_nanos(millis.checked_mul(1_000_000)?)),
    }
}

fn clock(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, ':');
    let mut number = || parts.next()?.parse::<i64>().ok();
    let (hour, minute, second) = (number()?, number()?, number()?);
    let fits = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    fits.then_some(hour * 3_600 + minute * 60 + second)
}

/// Reads `-0700`, in seconds.
fn zone(text: &str) -> Option<i64> {
    let (sign, digits) = text.split_at_checked(1)?;
    let number: i64 = digits.get(..4)?.parse().ok()?;
    let seconds = number / 100 * 3_600 + number % 100 * 60;
    match sign {
        "+" => Some(seconds),
        "-" => Some(-seconds),
        _ => None,
    }
}

/// The days from 1970 to a date of our calendar. Years begin in March, so that the day that comes and
/// goes is their last.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1970..=2500).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    if !(1..=last_day(year, month)).contains(&day) {
        return None;
    }
    let (year, month) = if month < 3 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    Some(year * 365 + leap_days + (month * 306 + 5) / 10 + day - 1 - EPOCH)
}

fn last_day(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn since_epoch(seconds: i64, nanos: u64) -> Option<Nanos> {
    let seconds = u64::try_from(seconds).ok()?;
    let nanos = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    Some(Nanos::from_nanos(nanos))
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The days from the March of year 0 to the beginning of 1970.
const EPOCH: i64 = 719_468;

/// In seconds this is the year 5138; in milliseconds, 1973.
const LATEST_SECOND: u64 = 100_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    // 1,791,640,536 s is 2026-10-10T13:15:36Z, as `date -d` says.
    #[test]
    fn one_instant_is_read_in_every_form() {
        let instant = Nanos::from_secs(1_791_638_136);
        assert_eq!(of_access_log("10/Oct/2026:13:15:36 +0000"), Some(instant));
        assert_eq!(of_access_log("10/Oct/2026:06:15:36 -0700"), Some(instant));
        assert_eq!(of_rfc3339("2026-10-10T13:15:36Z"), Some(instant));
        assert_eq!(of_rfc3339("2026-10-10T22:15:36+09:00"), Some(instant));
        assert_eq!(of_number(&1_791_638_136_u64.into()), Some(instant));
        assert_eq!(of_number(&1_791_638_136_000_u64.into()), Some(instant));
        let quarter = Nanos::from_nanos(instant.as_nanos() + 250_000_000);
        assert_eq!(of_rfc3339("2026-10-10T13:15:36.25Z"), Some(quarter));
        for wrong in [
            "",
            "10/Okt/2026:13:15:36 +0000",
            "10/Oct/2026",
            "99/Oct/2026:25:15:36 +0000",
        ] {
            assert_eq!(of_access_log(wrong), None, "{wrong}");
            assert_eq!(of_rfc3339(wrong), None, "{wrong}");
        }
    }

    // 2028 and 2000 have a day more, 2027 and 2100 do not.
    #[test]
    fn a_day_that_is_not_is_refused() {
        for (date, is_one) in [
            ("2027-02-28", true),
            ("2027-02-29", false),
            ("2027-02-31", false),
            ("2028-02-29", true),
            ("2000-02-29", true),
            ("2100-02-29", false),
            ("2027-04-30", true),
            ("2027-04-31", false),
            ("2027-12-31", true),
        ] {
            let read = of_rfc3339(&format!("{date}T00:00:00Z"));
            assert_eq!(read.is_some(), is_one, "{date}");
        }
        assert_eq!(of_access_log("31/Apr/2026:13:15:36 +0000"), None);
    }
}
