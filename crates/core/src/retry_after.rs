//! What a server means by `Retry-After`.
//!
//! The value is a number of seconds or a date, and in the wild neither. It is read by the cautious
//! rule: whatever can be understood is obeyed, within bounds; whatever cannot is ignored, so that
//! the caller falls back to its own backoff, and never taken for zero. Numbers are digits alone:
//! the usual integer parsers let `+5` through and wrap or fail on long ones, here they saturate and
//! are capped. A date is compared with the response's own `Date`, so a wrong clock on our side does
//! not matter. Which responses deserve obedience is for the policy to say, not for this file.

use core::fmt;
use core::time::Duration;

use crate::byte_cursor::{ByteCursor, fraction_nanos, is_blank, trimmed, whole_saturating};
use crate::http_date::{HttpDate, InvalidHttpDate, ResponseTime};

/// How long a server asked us to wait, and what we make of it.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::{ResponseTime, RetryAfter, WaitBounds, WallTime};
///
/// let came = ResponseTime { date: None, wall: WallTime::from_unix_secs(1_700_000_000) };
/// let read = |value: &[u8]| RetryAfter::read(value, came, WaitBounds::default());
/// assert_eq!(read(b"120").wait(), Some(Duration::from_secs(120)));
/// assert_eq!(read(b"Tue, 14 Nov 2023 22:13:50 GMT").wait(), Some(Duration::from_secs(30)));
/// assert_eq!(read(b"99999999999999999999").wait(), Some(Duration::from_hours(24)));
/// assert_eq!(read(b"soon").wait(), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum RetryAfter {
    /// Wait as long as was asked.
    Wait(Duration),
    /// Less was asked than the shortest wait, or a time in the past: wait the shortest.
    Floored(Duration),
    /// More was asked than is ever honoured: wait the longest, and warn.
    Capped {
        /// How long to wait.
        wait: Duration,
        /// How long was asked, saturated.
        asked: Duration,
    },
    /// It makes no sense: use one's own backoff, and count it.
    Ignored(MalformedRetryAfter),
}

/// Why a value makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MalformedRetryAfter {
    /// There is nothing in it.
    Empty,
    /// It is neither seconds nor a date.
    NeitherSecondsNorDate,
    /// It looks like a date, but there is no such time.
    NoSuchTime,
}

impl RetryAfter {
    /// Reads one header value. If it is a list, as some proxies join repeated headers, its longest
    /// wait counts, and a list with a member that makes no sense is ignored. So is `1,000`, which is
    /// a thousand to one reader and a list to the other; `120,120` is a list to both.
    pub fn read(value: &[u8], came: ResponseTime<'_>, bounds: WaitBounds) -> Self {
        let value = trimmed(value);
        if value.is_empty() {
            return Self::Ignored(MalformedRetryAfter::Empty);
        }
        match asked(value, came) {
            Ok(asked) => bounds.apply(asked),
            Err(garbage) => {
                let asked = longest_of_list(value, came);
                asked.map_or(Self::Ignored(garbage), |asked| bounds.apply(asked))
            }
        }
    }

    /// Reads all the headers of that name in a response; the longest wait wins, for sending too
    /// late is the lesser harm. `None` if there was none.
    pub fn read_all<'a>(
        values: impl IntoIterator<Item = &'a [u8]>,
        came: ResponseTime<'_>,
        bounds: WaitBounds,
    ) -> Option<Self> {
        values
            .into_iter()
            .map(|value| Self::read(value, came, bounds))
            .reduce(|a, b| if b.wait() > a.wait() { b } else { a })
    }

    /// How long to wait, or `None` if the value was ignored.
    pub const fn wait(&self) -> Option<Duration> {
        match *self {
            Self::Wait(wait) | Self::Floored(wait) | Self::Capped { wait, .. } => Some(wait),
            Self::Ignored(_) => None,
        }
    }
}

/// The shortest and the longest wait that a server can ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitBounds {
    min_sleep: Duration,
    max_honour: Duration,
}

impl WaitBounds {
    /// Waits are raised to `min_sleep` and cut to `max_honour`. Choose the first above the time in
    /// which a server can change its mind, the second as the longest you would believe.
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
        Ok(Self {
            min_sleep,
            max_honour,
        })
    }

    /// The shortest wait.
    pub const fn min_sleep(self) -> Duration {
        self.min_sleep
    }

    /// The longest wait.
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
    /// From 1 s, below which a refused call is only repeated, to 24 h, above which a mistake is
    /// likelier than a wish.
    fn default() -> Self {
        Self {
            min_sleep: Duration::from_secs(1),
            max_honour: Duration::from_hours(24),
        }
    }
}

/// Why bounds cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidWaitBounds {
    /// The shortest wait is zero.
    NoShortest,
    /// The shortest wait is longer than the longest.
    Crossed,
}

impl fmt::Display for InvalidWaitBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoShortest => "a shortest wait of 0 would repeat a refused call at once: use 1s",
            Self::Crossed => "the shortest wait is longer than the longest: exchange them",
        })
    }
}

impl core::error::Error for InvalidWaitBounds {}

/// What the value asks for; nothing for a time that is past.
fn asked(value: &[u8], came: ResponseTime<'_>) -> Result<Duration, MalformedRetryAfter> {
    if let Some(seconds) = seconds(value) {
        return Ok(seconds);
    }
    let now = came.at_server();
    match HttpDate::read(value, now) {
        Ok(date) => Ok(date.at().since(now)),
        Err(InvalidHttpDate::BeforeEpoch) => Ok(Duration::ZERO),
        Err(InvalidHttpDate::NoSuchTime) => Err(MalformedRetryAfter::NoSuchTime),
        Err(InvalidHttpDate::UnknownForm) => Err(MalformedRetryAfter::NeitherSecondsNorDate),
    }
}

/// `120`, `1.5`; nothing for `-5`, which is past.
fn seconds(value: &[u8]) -> Option<Duration> {
    let mut scan = ByteCursor::new(value);
    let negative = scan.text(b"-").is_some();
    let whole = whole_saturating(scan.run(|b| b.is_ascii_digit()))?;
    let nanos = match scan.text(b".") {
        Some(()) => fraction_nanos(scan.run(|b| b.is_ascii_digit()))?,
        None => 0,
    };
    if !scan.is_done() {
        return None;
    }
    if negative {
        return Some(Duration::ZERO);
    }
    let fraction = Duration::from_nanos(u64::from(nanos));
    Some(Duration::from_secs(whole).saturating_add(fraction))
}

/// What the members of a list ask for at most; `None` if one of them makes no sense.
fn longest_of_list(value: &[u8], came: ResponseTime<'_>) -> Option<Duration> {
    if is_grouped(value) {
        return None;
    }
    let (mut longest, mut rest) = (None, value);
    // Members that are empty are no members.
    while let Some(start) = rest.iter().position(|b| !is_blank(*b) && *b != b',') {
        let (asked, after) = first_member(rest.get(start..)?, came)?;
        longest = longest.max(Some(asked));
        rest = after;
    }
    longest
}

/// What the first member asks for, and what follows it. Two of the forms of a date have one comma
/// in them, so a member ends at the first comma or at the second.
fn first_member<'a>(list: &'a [u8], came: ResponseTime<'_>) -> Option<(Duration, &'a [u8])> {
    let commas = list.iter().enumerate().filter(|(_, b)| **b == b',');
    let mut ends = commas.map(|(end, _)| end).chain([list.len()]).take(2);
    ends.find_map(|end| {
        let (member, rest) = list.split_at_checked(end)?;
        let asked = asked(trimmed(member), came).ok()?;
        Some((asked, rest.get(1..).unwrap_or_default()))
    })
}

/// True for digits with commas where thousands have them, unless they repeat one number.
fn is_grouped(value: &[u8]) -> bool {
    let whole = value.split(|b| *b == b'.').next().unwrap_or_default();
    let mut groups = whole.split(|b| *b == b',');
    let first = groups.next().unwrap_or_default();
    let is_group = |group: &[u8]| group.len() == 3 && group.iter().all(u8::is_ascii_digit);
    (1..=3).contains(&first.len())
        && first.iter().all(u8::is_ascii_digit)
        && groups.clone().all(is_group)
        && groups.any(|group| group != first)
}
