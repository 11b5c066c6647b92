//! Server headers about limits, in any dialect, as one kind of [`Hint`].
//!
//! Every provider has its own header names, units and time formats. So each family is one small
//! file, a table where possible, and yields partial hints: a name, a number. Partial hints about
//! one limit without contradiction become one hint. Nothing here decides: a
//! [`UsageCorrection`](crate::UsageCorrection) compares a hint with our usage. Headers are
//! untrusted, so malformed ones are ignored and counted, and surplus ones are left out; no value
//! makes it fail or allocate.

use crate::{ResponseTime, WallTime};

mod anthropic;
mod binance;
mod dialect;
mod hint;
mod ietf;
mod label;
mod reset;
pub(crate) mod rfc3339;
mod shopify;
mod split_header;
mod structured_fields;
mod upbit;
mod x_rate_limit;

pub use dialect::{Dialect, Dialects};
pub use hint::{Hint, HintUnit};
pub use label::HintLabel;

pub(crate) use reset::{FIRST_EPOCH, FIRST_EPOCH_MILLIS, TOO_MUCH};
use split_header::HintPart;

/// All hints of one response.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::{Dialects, Hints, ResponseTime, WallTime};
///
/// let headers: [(&str, &[u8]); 4] = [
///     ("Content-Type", b"application/json"),
///     ("X-RateLimit-Limit", b"60"),
///     ("x-ratelimit-remaining", b"12"),
///     ("X-RateLimit-Reset", b"1700000030"),
/// ];
/// let response_time = ResponseTime { date: None, wall: WallTime::from_unix_secs(1_700_000_000) };
/// let hints = Hints::read(headers, Dialects::ALL, response_time);
/// let hint = hints.iter().next().expect("one hint");
/// assert_eq!((hint.limit, hint.remaining), (Some(60), Some(12)));
/// assert_eq!(hint.resets_in, Some(Duration::from_secs(30)));
/// assert_eq!(hints.malformed(), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hints {
    read: [Option<Hint>; MAX_HINTS],
    malformed: u32,
    left_out: u32,
}

impl Hints {
    /// Parses the headers of a response, in any order, names case-insensitively.
    pub fn read<'a>(
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        dialects: Dialects,
        response_time: ResponseTime<'_>,
    ) -> Self {
        let mut reading = HintReader {
            hints: Self::NOTHING,
            dialects,
            response_time,
        };
        for (name, value) in headers {
            reading.header(name, value);
        }
        reading.hints
    }

    /// Returns the hints in order of first appearance. Each has at least one number: a name alone
    /// is no hint.
    pub fn iter(&self) -> impl Iterator<Item = &Hint> {
        self.read.iter().flatten().filter(|hint| hint.has_values())
    }

    /// Returns the number of malformed headers that were ignored.
    pub const fn malformed(&self) -> u32 {
        self.malformed
    }

    /// Returns the number of hints beyond the capacity.
    pub const fn left_out(&self) -> u32 {
        self.left_out
    }

    const NOTHING: Self = Self {
        read: [None; MAX_HINTS],
        malformed: 0,
        left_out: 0,
    };

    fn note(&mut self, partial: Hint) {
        for place in &mut self.read {
            if let Ok(hint) = place.map_or(Ok(partial), |hint| hint.merged(partial)) {
                *place = Some(hint);
                return;
            }
        }
        self.left_out = self.left_out.saturating_add(1);
    }
}

/// Twice the most that any provider sends: requests and three kinds of tokens.
const MAX_HINTS: usize = 8;

/// Malformed header of a known dialect.
struct MalformedHint;

/// Result of one header: recorded, or malformed and ignored.
type Noted = Result<(), MalformedHint>;

/// State while one response is read.
struct HintReader<'a> {
    hints: Hints,
    dialects: Dialects,
    response_time: ResponseTime<'a>,
}

impl HintReader<'_> {
    /// Returns the server's time. Computed on demand: most responses need none.
    fn now(&self) -> WallTime {
        self.response_time.at_server()
    }

    fn header(&mut self, name: &str, value: &[u8]) {
        let families = [
            ietf::read,
            x_rate_limit::read,
            anthropic::read,
            upbit::read,
            binance::read,
            shopify::read,
        ];
        for family in families {
            if let Some(outcome) = family(self, name, value) {
                if outcome.is_err() {
                    self.hints.malformed = self.hints.malformed.saturating_add(1);
                }
                return;
            }
        }
    }

    fn note(&mut self, partial: Hint) {
        self.hints.note(partial);
    }

    fn listens_to(&self, dialect: Dialect) -> Option<()> {
        self.dialects.contains(dialect).then_some(())
    }
}

/// Returns the part after `prefix`, case-insensitively.
fn after<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = name.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Returns the row of `table` with this name, case-insensitively.
fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, row)| *row)
}
