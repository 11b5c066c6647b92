//! Parses durations, sizes and shares.
//!
//! A number without a unit is an error and not a guess: many outages come from seconds taken for
//! milliseconds. All arithmetic uses whole numbers; 1.5 s is 1,500,000 millionths of a second.

use std::time::Duration;

use outflow_core::{RateFactor, Share};

use super::reader::ValueError;

/// Parses `10s`, `1m30s`, `250ms`, `1.5h`.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, ValueError> {
    let mut rest = text.trim();
    let mut nanos = 0_u128;
    if rest.is_empty() {
        return Err(duration_error(text));
    }
    while !rest.is_empty() {
        let (number, after) = split_number(rest);
        let (unit, next) = split_unit(after);
        let millionths = decimal_millionths(number).ok_or_else(|| duration_error(text))?;
        let (_, each) = TIMES
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| time_unit_error(number, unit))?;
        nanos = nanos.saturating_add(millionths.saturating_mul(*each) / MILLION);
        rest = next;
    }
    match u64::try_from(nanos) {
        Ok(nanos) if nanos <= YEAR => Ok(Duration::from_nanos(nanos)),
        _ => Err(ValueError::new("this is longer than a year").help("write a shorter time")),
    }
}

/// Parses `10MiB`, `500kB`, `1.5GiB`.
pub(crate) fn parse_size(text: &str) -> Result<u64, ValueError> {
    let (number, unit) = split_number(text.trim());
    let unit = unit.trim();
    let Some(millionths) = decimal_millionths(number) else {
        return Err(ValueError::new("this is not a size").help("write it like \"10MiB\""));
    };
    let (_, each) = SIZES
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| size_unit_error(number, unit))?;
    u64::try_from(millionths.saturating_mul(*each) / MILLION)
        .ok()
        .filter(|bytes| *bytes <= MAX_SIZE)
        .ok_or_else(|| ValueError::new("this is larger than any disk").help("write a smaller size"))
}

/// Parses `20%` or `0.2`.
pub(crate) fn parse_share(text: &str) -> Result<Share, ValueError> {
    let (number, parts) = match text.trim().strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 100),
        None => (text.trim(), 1),
    };
    let millionths = decimal_millionths(number).ok_or_else(|| share_error(text))?;
    u32::try_from(millionths / parts)
        .ok()
        .filter(|parts| *parts <= 1_000_000)
        .map(Share::parts_per_million)
        .ok_or_else(|| {
            let help = match millionths / MILLION {
                percent @ 2..=100 if parts == 1 => format!("write \"{percent}%\""),
                _ => "write a share from \"0%\" to \"100%\"".to_owned(),
            };
            ValueError::new("this is more than all").help(help)
        })
}

/// Parses a factor: `2` or `1.5`.
pub(crate) fn parse_factor(text: &str) -> Result<RateFactor, ValueError> {
    let millionths = decimal_millionths(text.trim())
        .ok_or_else(|| ValueError::new("this is no number to multiply by").help("write it like 2 or 1.5"))?;
    u32::try_from(millionths)
        .map(RateFactor::parts_per_million)
        .map_err(|_| ValueError::new("this factor is above 4294").help("write a smaller one"))
}

/// Parses a decimal number into millionths and drops digits beyond the sixth; `None` for signs, exponents
/// and `nan`.
pub fn decimal_millionths(text: &str) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let millionths = format!("{fraction:0<6}");
    let fraction: u128 = millionths.get(..6)?.parse().ok()?;
    let whole: u128 = whole.parse().ok()?;
    whole.checked_mul(MILLION)?.checked_add(fraction)
}

fn split_number(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    text.split_at(end)
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
    let (unit, rest) = text.split_at(end);
    (unit, rest.trim_start())
}

fn duration_error(text: &str) -> ValueError {
    let message = if text.trim().starts_with('-') {
        "a duration cannot be negative"
    } else {
        "this is not a duration"
    };
    ValueError::new(message).help("write it like \"10s\", \"1m30s\" or \"250ms\"")
}

fn time_unit_error(number: &str, unit: &str) -> ValueError {
    let number = show_number(number);
    if unit.is_empty() {
        return ValueError::new("a duration needs its unit").help(advise_unit(number));
    }
    let meant = LONG_TIMES
        .iter()
        .find(|(long, _)| long.contains(&unit.to_lowercase().as_str()));
    let help = match meant {
        Some((_, short)) => format!("write \"{number}{short}\""),
        None => "the units are ms, s, m, h and d".to_owned(),
    };
    ValueError::new("this unit of time is unknown").help(help)
}

/// Returns the advice for a number without a unit.
pub(crate) fn advise_unit(number: &str) -> String {
    let number = show_number(number);
    format!("write \"{number}s\" for seconds or \"{number}ms\" for milliseconds")
}

/// Returns the number, or an example if it is so long that it could be a part of a secret.
pub(crate) fn show_number(number: &str) -> &str {
    if number.len() > MAX_SHOWN_DIGITS { "10" } else { number }
}

fn size_unit_error(number: &str, unit: &str) -> ValueError {
    let number = show_number(number);
    if unit.is_empty() {
        let help = format!("write \"{number}MiB\", \"{number}KiB\" or \"{number}B\"");
        return ValueError::new("a size needs its unit").help(help);
    }
    let meant = SIZES.iter().find(|(name, _)| {
        let name = name.to_lowercase();
        name == unit.to_lowercase() || name.replace('b', "") == unit.to_lowercase()
    });
    let help = match meant {
        Some((name, _)) => format!("write \"{number}{name}\""),
        None => "the units are B, KiB, MiB, GiB, TiB and kB, MB, GB, TB".to_owned(),
    };
    ValueError::new("this unit of size is unknown").help(help)
}

fn share_error(text: &str) -> ValueError {
    let message = if text.trim().starts_with('-') {
        "a share cannot be negative"
    } else {
        "this is not a share"
    };
    ValueError::new(message).help("write it like \"20%\" or 0.2")
}

const MILLION: u128 = 1_000_000;

/// A longer duration is probably an error of unit.
const YEAR: u64 = 366 * 86_400 * 1_000_000_000;

/// A year in seconds has eight digits.
const MAX_SHOWN_DIGITS: usize = 8;

/// One pebibyte.
const MAX_SIZE: u64 = 1 << 50;

/// In nanoseconds.
const TIMES: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Other names of units, and ours.
const LONG_TIMES: [(&[&str], &str); 5] = [
    (&["msec", "msecs", "millis", "millisecond", "milliseconds"], "ms"),
    (&["s", "sec", "secs", "second", "seconds"], "s"),
    (&["m", "min", "mins", "minute", "minutes"], "m"),
    (&["h", "hr", "hrs", "hour", "hours"], "h"),
    (&["d", "day", "days"], "d"),
];

/// In bytes.
const SIZES: [(&str, u128); 9] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_durations_are_parsed() {
        for (text, nanos) in [
            ("10s", 10_000_000_000),
            ("1m30s", 90_000_000_000),
            ("1h 2m", 3_720_000_000_000),
            ("250ms", 250_000_000),
            ("1.5s", 1_500_000_000),
            ("0s", 0),
            ("7ns", 7),
            ("366d", YEAR),
        ] {
            assert_eq!(parse_duration(text).expect(text), Duration::from_nanos(nanos), "{text}");
        }
        for text in ["", "s", "10", "-1s", "1e3s", "1s5", "10 secs", "367d", "1.s", ".5s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn written_sizes_and_shares_are_parsed() {
        assert_eq!(parse_size("10MiB").expect("valid"), 10 << 20);
        assert_eq!(parse_size("1.5kB").expect("valid"), 1_500);
        assert_eq!(parse_share("20%").expect("valid"), Share::percent(20));
        assert_eq!(
            parse_share("0.125").expect("valid"),
            parse_share("12.5%").expect("valid")
        );
        assert_eq!(parse_share("1").expect("valid"), Share::ALL);
        assert_eq!(parse_factor("1.1").expect("valid"), RateFactor::percent(110));
        for text in ["nan", "inf", "-1", "1e2", "101%", "", "%", "20"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
        for text in ["10", "10 mib", "MiB", "99999999TiB", "-1B"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
