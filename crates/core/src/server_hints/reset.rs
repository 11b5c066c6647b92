//! Time until a limit resets, in all formats that servers use.
//!
//! The form identifies the format. A date has a `-` after its fourth digit; a duration has a unit
//! after every number (`6m0s`, `20ms`); a bare number is classified by its size:
//!
//! | number | is |
//! |---|---|
//! | below 1,000,000,000 | seconds from now: no limit resets in 31 years, no epoch in use is before
//! 2001 |
//! | below 100,000,000,000 | seconds since 1970, up to the year 5138 |
//! | below 100,000,000,000,000 | milliseconds since 1970 |
//! | more | unknown |
//!
//! A past point resets now.

use core::time::Duration;

use super::rfc3339;
use crate::WallTime;
use crate::byte_cursor::{ByteCursor, parse_fraction_nanos, parse_whole};

/// Returns the time until the reset, by the server's clock `now`.
pub(super) fn read(value: &[u8], now: WallTime) -> Option<Duration> {
    bare_number(value, now)
        .or_else(|| go_duration(value))
        .or_else(|| rfc3339::read(value).map(|at| at.since(now)))
}

fn bare_number(value: &[u8], now: WallTime) -> Option<Duration> {
    let mut cursor = ByteCursor::new(value);
    let number = decimal(&mut cursor)?;
    if !cursor.is_done() {
        return None;
    }
    match number.as_secs() {
        ..FIRST_EPOCH => Some(number),
        FIRST_EPOCH..FIRST_EPOCH_MILLIS => Some(WallTime::since_epoch(number).since(now)),
        FIRST_EPOCH_MILLIS..TOO_MUCH => {
            let millis = Duration::from_millis(number.as_secs());
            Some(WallTime::since_epoch(millis).since(now))
        }
        TOO_MUCH.. => None,
    }
}

/// Parses `6m0s`, `1h2m3.5s`, `20ms`.
fn go_duration(value: &[u8]) -> Option<Duration> {
    let mut cursor = ByteCursor::new(value);
    let mut total = Duration::ZERO;
    while !cursor.is_done() {
        let number = decimal(&mut cursor)?;
        total = total.checked_add(unit(&mut cursor)?.span(number)?)?;
    }
    (!value.is_empty()).then_some(total)
}

/// Parses `12` or `12.5` as seconds.
fn decimal(cursor: &mut ByteCursor<'_>) -> Option<Duration> {
    let secs = parse_whole(cursor.run(|b| b.is_ascii_digit()))?;
    let nanos = match cursor.text(b".") {
        Some(()) => parse_fraction_nanos(cursor.run(|b| b.is_ascii_digit()))?,
        None => 0,
    };
    Duration::from_secs(secs).checked_add(Duration::from_nanos(u64::from(nanos)))
}

/// Unit of time as a fraction or a multiple of a second.
#[derive(Clone, Copy)]
enum SpanUnit {
    Seconds(u32),
    PerSecond(u32),
}

impl SpanUnit {
    fn span(self, number: Duration) -> Option<Duration> {
        match self {
            Self::Seconds(each) => number.checked_mul(each),
            Self::PerSecond(parts) => number.checked_div(parts),
        }
    }
}

fn unit(cursor: &mut ByteCursor<'_>) -> Option<SpanUnit> {
    // `ms` before `m`: the longer name would never match otherwise.
    const NAMES: [&str; 8] = ["ms", "us", "µs", "ns", "d", "h", "m", "s"];
    match cursor.name(&NAMES)? {
        0 => Some(SpanUnit::PerSecond(1_000)),
        1 | 2 => Some(SpanUnit::PerSecond(1_000_000)),
        3 => Some(SpanUnit::PerSecond(1_000_000_000)),
        4 => Some(SpanUnit::Seconds(86_400)),
        5 => Some(SpanUnit::Seconds(3_600)),
        6 => Some(SpanUnit::Seconds(60)),
        _ => Some(SpanUnit::Seconds(1)),
    }
}

/// 2001-09-09 as seconds since 1970.
pub(crate) const FIRST_EPOCH: u64 = 1_000_000_000;
/// 1973-03-03 as milliseconds since 1970, the year 5138 as seconds.
pub(crate) const FIRST_EPOCH_MILLIS: u64 = 100_000_000_000;
/// The year 5138 as milliseconds: larger numbers are micro- or nanoseconds, which no server sends.
pub(crate) const TOO_MUCH: u64 = 100_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallTime = WallTime::from_unix_secs(1_700_000_000);

    fn millis(text: &str) -> Option<u128> {
        read(text.as_bytes(), NOW).map(|span| span.as_millis())
    }

    // Every row but the first five is 90 s from now.
    #[test]
    fn every_format_is_identified_by_its_form() {
        for (text, expected) in [
            ("0", 0),
            ("20ms", 20),
            ("1.5", 1_500),
            ("1699999999", 0),
            ("1s", 1_000),
            ("90", 90_000),
            ("1m30s", 90_000),
            ("90s", 90_000),
            ("1m29.5s500ms", 90_000),
            ("0h1m30s", 90_000),
            ("1700000090", 90_000),
            ("1700000090.000", 90_000),
            ("1700000090000", 90_000),
            ("2023-11-14T22:14:50Z", 90_000),
            ("2023-11-15T07:14:50+09:00", 90_000),
        ] {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
        assert_eq!(millis("6m0s"), Some(360_000));
        assert_eq!(millis("999999999"), Some(999_999_999_000));
    }

    #[test]
    fn unknown_forms_are_refused() {
        for text in [
            "",
            "-1",
            "+1",
            "1e3",
            "soon",
            "s",
            "6m0",
            "m6",
            "1 s",
            "1.s",
            ".5s",
            "100000000000000",
            "18446744073709551616",
            "18446744073709551615h",
            "Tue, 14 Nov 2023 22:14:50 GMT",
        ] {
            assert_eq!(millis(text), None, "{text:?}");
        }
    }
}
