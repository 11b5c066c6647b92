//! Laws of the core's parsers: rates, `Retry-After`, dates and rate limit headers.

use std::time::Duration;

use outflow_core::{Dialects, Hint, HintLabel, Hints, HttpDate, Rate, ResponseTime, RetryAfter, WaitBounds, WallTime};

/// All that is shown of a rate parses: the exact form as an equal rate, the rounded one as a rate that differs by
/// the rounding alone and is itself shown exactly.
pub fn rate(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let Ok(rate) = text.parse::<Rate>() else {
        return;
    };
    assert!(rate.quantity() > 0 && rate.per() > Duration::ZERO);
    let (shown, exact) = (rate.to_string(), format!("{rate:#}"));
    assert_eq!(exact.parse(), Ok(rate), "{text:?} was shown as {exact:?}");
    let copied: Rate = shown.parse().expect("a shown rate parses");
    assert_eq!(copied.to_string().parse(), Ok(copied), "{shown:?} is not stable");
    let ratio = copied.as_per_second() / rate.as_per_second();
    let is_rounded = (0.95..=1.06).contains(&ratio) || shown == SLOWEST_SHOWN;
    assert!(
        is_rounded && (shown != exact || copied == rate),
        "{text:?} was shown as {shown:?}"
    );
}

/// Slower rates are shown as this one.
const SLOWEST_SHOWN: &str = "0.01/d";

/// A wait stays within its bounds, a longer value is no shorter wait, and only numbers and dates
/// are obeyed: a value without a digit never is.
pub fn retry_after(input: &[u8]) {
    let (clock, value) = split_number(input);
    let (date, value) = split_line(value);
    let bounds = WaitBounds::default();
    let came = ResponseTime {
        date: (!date.is_empty()).then_some(date),
        wall: WallTime::from_unix_secs(clock),
    };
    let read = RetryAfter::read(value, came, bounds);
    let millis = RetryAfter::read_all_millis([value], came, bounds);
    for wait in [Some(read), millis]
        .into_iter()
        .flatten()
        .filter_map(|read| read.wait())
    {
        assert!(wait >= bounds.min_sleep() && wait <= bounds.max_honour());
        assert!(value.iter().any(u8::is_ascii_digit), "{value:?}");
    }
    if let RetryAfter::Capped { wait, asked } = read {
        assert!(asked > wait);
    }
    let twice = RetryAfter::read_all([value, value], came, bounds);
    assert_eq!(twice, Some(read), "saying it twice changes nothing");
}

/// A parsed date is before the year 10000 and shown in a form that parses as an equal date, in any
/// century.
pub fn http_date(input: &[u8]) {
    let (clock, value) = split_number(input);
    let now = WallTime::from_unix_secs(clock);
    let Ok(date) = HttpDate::read(value, now) else {
        return;
    };
    assert!(date.at() <= LAST);
    let shown = date.to_string();
    assert_eq!(HttpDate::read(shown.as_bytes(), WallTime::EPOCH), Ok(date));
}

/// Hints are few, have content, name printable groups, and do not depend on the case of names.
pub fn server_hints(input: &[u8]) {
    let (clock, rest) = split_number(input);
    let mut headers = Vec::new();
    for line in rest.split(|byte| *byte == b'\n') {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        if let Ok(name) = std::str::from_utf8(name) {
            headers.push((name, value.get(1..).unwrap_or_default()));
        }
    }
    let came = ResponseTime {
        date: None,
        wall: WallTime::from_unix_secs(clock),
    };
    let hints = Hints::read(headers.iter().copied(), Dialects::ALL, came);
    assert!(hints.iter().count() <= 8);
    hints.iter().for_each(sound);
    let upper: Vec<_> = headers.iter().map(|(name, _)| name.to_ascii_uppercase()).collect();
    let shouted = upper
        .iter()
        .zip(&headers)
        .map(|(name, (_, value))| (name.as_str(), *value));
    assert_eq!(Hints::read(shouted, Dialects::ALL, came), hints);
    let unheard = Hints::read(headers, Dialects::NONE, came);
    assert_eq!((unheard.iter().count(), unheard.malformed()), (0, 0));
}

fn sound(hint: &Hint) {
    let numbers = [hint.limit, hint.remaining, hint.used];
    assert!(numbers.iter().any(Option::is_some) || hint.resets_in.is_some());
    if let Some(group) = hint.group {
        assert_eq!(HintLabel::new(group.as_str().as_bytes()), Some(group));
    }
    if let (Some(used), Some(limit)) = (hint.server_used(), hint.limit) {
        assert!(hint.used.is_some() || used <= limit);
    }
}

/// Returns the first eight bytes as a number, so that inputs choose the clock too.
fn split_number(input: &[u8]) -> (u64, &[u8]) {
    match input.split_first_chunk() {
        Some((head, rest)) => (u64::from_le_bytes(*head), rest),
        None => (0, input),
    }
}

fn split_line(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n');
    let (line, rest) = input.split_at(end.unwrap_or(0));
    (line, rest.strip_prefix(b"\n").unwrap_or(rest))
}

/// The last second of the year 9999.
const LAST: WallTime = WallTime::from_unix_secs(253_402_300_799);
