//! Meaning of a `Retry-After` value.
//!
//! The value is a number of seconds or a date, and in practice sometimes neither. A value that can
//! be understood is obeyed within bounds. Any other is ignored, never taken for zero, so that the
//! caller uses its own backoff. Numbers are digits alone: common integer parsers accept `+5` and
//! wrap or fail on long ones; here they saturate and are capped.
//!
//! A number of a billion or more is a date too, in seconds since the epoch: no wait lasts thirty years. From a
//! hundred billion on it is in milliseconds since the epoch: no date in seconds is after the year 5138. Some
//! APIs send milliseconds in `retry-after-ms`, which is finer and wins where it can be understood.
//!
//! A date is compared with the response's own `Date`, so a wrong local clock does not matter. The
//! policy decides which responses are obeyed.

use core::time::Duration;

use crate::byte_cursor::{ByteCursor, is_blank, parse_fraction_nanos, parse_whole_saturating, trim_blanks};
use crate::http_date::{HttpDate, InvalidHttpDate, ResponseTime};
use crate::server_hints::{FIRST_EPOCH, FIRST_EPOCH_MILLIS, TOO_MUCH};
use crate::time::WallTime;

/// Wait that a server asked for, within our bounds.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::{ResponseTime, RetryAfter, WaitBounds, WallTime};
///
/// let response_time = ResponseTime { date: None, wall: WallTime::from_unix_secs(1_700_000_000) };
/// let read = |value: &[u8]| RetryAfter::read(value, response_time, WaitBounds::default());
/// assert_eq!(read(b"120").wait(), Some(Duration::from_secs(120)));
/// assert_eq!(read(b"Tue, 14 Nov 2023 22:13:50 GMT").wait(), Some(Duration::from_secs(30)));
/// assert_eq!(read(b"99999999999999999999").wait(), Some(Duration::from_hours(24)));
/// assert_eq!(read(b"soon").wait(), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum RetryAfter {
    /// Wait exactly as long as asked.
    Wait(Duration),
    /// The server asked for less than the shortest wait, or for a past time: wait the shortest.
    Floored(Duration),
    /// The server asked for more than the longest wait: wait the longest, and warn.
    Capped {
        /// Actual wait.
        wait: Duration,
        /// Requested wait, saturated.
        asked: Duration,
    },
    /// The value is malformed: use the own backoff, and count it.
    Ignored(MalformedRetryAfter),
}

/// Reason that a value is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MalformedRetryAfter {
    /// It is empty.
    Empty,
    /// It is neither seconds nor a date.
    NeitherSecondsNorDate,
    /// It looks like a date, but there is no such time.
    NoSuchTime,
}

impl RetryAfter {
    /// Parses one header value. Of a list, as some proxies join repeated headers, the longest wait
    /// counts; a list with a malformed member is ignored. So is `1,000`, which could be a thousand
    /// or a list; `120,120` is always a list.
    pub fn read(value: &[u8], response_time: ResponseTime<'_>, bounds: WaitBounds) -> Self {
        let value = trim_blanks(value);
        if value.is_empty() {
            return Self::Ignored(MalformedRetryAfter::Empty);
        }
        match asked(value, response_time) {
            Ok(asked) => bounds.apply(asked),
            Err(garbage) => {
                let asked = longest_of_list(value, response_time);
                asked.map_or(Self::Ignored(garbage), |asked| bounds.apply(asked))
            }
        }
    }

    /// Parses all headers of that name in a response. The longest wait wins, because sending too
    /// late is the lesser harm. Returns `None` if there was none.
    pub fn read_all<'a>(
        values: impl IntoIterator<Item = &'a [u8]>,
        response_time: ResponseTime<'_>,
        bounds: WaitBounds,
    ) -> Option<Self> {
        longest(values.into_iter().map(|value| Self::read(value, response_time, bounds)))
    }

    /// Parses all `retry-after-ms` headers of a response, each a number of milliseconds. The longest wait
    /// wins. Returns `None` if there was none.
    pub fn read_all_millis<'a>(
        values: impl IntoIterator<Item = &'a [u8]>,
        response_time: ResponseTime<'_>,
        bounds: WaitBounds,
    ) -> Option<Self> {
        let read = |value| match seconds(trim_blanks(value)) {
            Some(date) if is_epoch_millis(date) => bounds.apply(until(date, response_time.at_server())),
            Some(thousandfold) => bounds.apply(thousandfold / 1_000),
            None => Self::Ignored(MalformedRetryAfter::NeitherSecondsNorDate),
        };
        longest(values.into_iter().map(read))
    }

    /// Returns the wait, or `None` if the value was ignored.
    pub const fn wait(&self) -> Option<Duration> {
        match *self {
            Self::Wait(wait) | Self::Floored(wait) | Self::Capped { wait, .. } => Some(wait),
            Self::Ignored(_) => None,
        }
    }
}

/// Shortest and longest wait that a server can ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitBounds {
    min_sleep: Duration,
    max_honour: Duration,
}

impl WaitBounds {
    /// Builds bounds that raise waits to `min_sleep` and cut them to `max_honour`. Choose the first
    /// above the time in which a server can change its mind, the second as the longest credible
    /// wait.
    ///
    /// # Errors
    /// If the shortest wait is zero or longer than the longest.
    pub const fn new(min_sleep: Duration, max_honour: Duration) -> Result<Self, InvalidWaitBounds> {
        if min_sleep.is_zero() {
            return Err(InvalidWaitBounds::NoShortest);
        }
        if min_sleep.as_nanos() > max_honour.as_nanos() {
            return Err(InvalidWaitBounds::Crossed);
        }
        Ok(Self { min_sleep, max_honour })
    }

    /// Returns the shortest wait.
    pub const fn min_sleep(self) -> Duration {
        self.min_sleep
    }

    /// Returns the longest wait.
    pub const fn max_honour(self) -> Duration {
        self.max_honour
    }

    fn apply(self, asked: Duration) -> RetryAfter {
        if asked < self.min_sleep {
            RetryAfter::Floored(self.min_sleep)
        } else if asked > self.max_honour {
            RetryAfter::Capped {
                wait: self.max_honour,
                asked,
            }
        } else {
            RetryAfter::Wait(asked)
        }
    }
}

impl Default for WaitBounds {
    /// From 1 s, below which a retry is throttled again, to 24 h, above which an error is more
    /// likely than an intention.
    fn default() -> Self {
        Self {
            min_sleep: Duration::from_secs(1),
            max_honour: Duration::from_hours(24),
        }
    }
}

error_enum! {
    /// Reason that bounds cannot be built.
    pub enum InvalidWaitBounds {
        /// The shortest wait is zero.
        NoShortest = "a shortest wait of 0 would repeat a refused call at once: use 1s",
        /// The shortest wait is longer than the longest.
        Crossed = "the shortest wait is longer than the longest: exchange them",
    }
}

fn longest(reads: impl Iterator<Item = RetryAfter>) -> Option<RetryAfter> {
    reads.reduce(|a, b| if b.wait() > a.wait() { b } else { a })
}

/// Returns the requested wait; zero for a past time.
fn asked(value: &[u8], response_time: ResponseTime<'_>) -> Result<Duration, MalformedRetryAfter> {
    let now = response_time.at_server();
    match seconds(value) {
        Some(date) if date >= FIRST_DATE => return Ok(until(date, now)),
        Some(wait) => return Ok(wait),
        None => {}
    }
    match HttpDate::read(value, now) {
        Ok(date) => Ok(date.at().since(now)),
        Err(InvalidHttpDate::BeforeEpoch) => Ok(Duration::ZERO),
        Err(InvalidHttpDate::NoSuchTime) => Err(MalformedRetryAfter::NoSuchTime),
        Err(InvalidHttpDate::UnknownForm) => Err(MalformedRetryAfter::NeitherSecondsNorDate),
    }
}

/// Returns the time until a date in seconds or milliseconds since the epoch.
fn until(date: Duration, now: WallTime) -> Duration {
    let date = if is_epoch_millis(date) { date / 1_000 } else { date };
    WallTime::since_epoch(date).since(now)
}

fn is_epoch_millis(number: Duration) -> bool {
    (FIRST_EPOCH_MILLIS..TOO_MUCH).contains(&number.as_secs())
}

/// Parses `120` or `1.5`; zero for `-5`, which is past.
fn seconds(value: &[u8]) -> Option<Duration> {
    let mut cursor = ByteCursor::new(value);
    let negative = cursor.text(b"-").is_some();
    let parse_whole = parse_whole_saturating(cursor.run(|b| b.is_ascii_digit()))?;
    let nanos = match cursor.text(b".") {
        Some(()) => parse_fraction_nanos(cursor.run(|b| b.is_ascii_digit()))?,
        None => 0,
    };
    if !cursor.is_done() {
        return None;
    }
    if negative {
        return Some(Duration::ZERO);
    }
    let fraction = Duration::from_nanos(u64::from(nanos));
    Some(Duration::from_secs(parse_whole).saturating_add(fraction))
}

/// Returns the longest wait of the list's members; `None` if one of them is malformed.
fn longest_of_list(value: &[u8], response_time: ResponseTime<'_>) -> Option<Duration> {
    if is_grouped(value) {
        return None;
    }
    let (mut longest, mut rest) = (None, value);
    // Empty members are skipped.
    while let Some(start) = rest.iter().position(|b| !is_blank(*b) && *b != b',') {
        let (asked, after) = first_member(rest.get(start..)?, response_time)?;
        longest = longest.max(Some(asked));
        rest = after;
    }
    longest
}

/// Parses the first member and returns the rest. Two of the date forms contain one comma, so a
/// member ends at the first comma or at the second.
fn first_member<'a>(list: &'a [u8], response_time: ResponseTime<'_>) -> Option<(Duration, &'a [u8])> {
    let commas = list.iter().enumerate().filter(|(_, b)| **b == b',');
    let mut ends = commas.map(|(end, _)| end).chain([list.len()]).take(2);
    ends.find_map(|end| {
        let (member, rest) = list.split_at_checked(end)?;
        let asked = asked(trim_blanks(member), response_time).ok()?;
        Some((asked, rest.get(1..).unwrap_or_default()))
    })
}

/// Returns true for digits grouped by thousands, unless they repeat one number.
fn is_grouped(value: &[u8]) -> bool {
    let parse_whole = value.split(|b| *b == b'.').next().unwrap_or_default();
    let mut groups = parse_whole.split(|b| *b == b',');
    let first = groups.next().unwrap_or_default();
    let is_group = |group: &[u8]| group.len() == 3 && group.iter().all(u8::is_ascii_digit);
    (1..=3).contains(&first.len())
        && first.iter().all(u8::is_ascii_digit)
        && groups.clone().all(is_group)
        && groups.any(|group| group != first)
}

/// Seconds from which a number is a date: a wait of 31 years as well as the year 2001.
const FIRST_DATE: Duration = Duration::from_secs(FIRST_EPOCH);
