//! What a server says about its limits, in whichever dialect, as one kind of [`Hint`].
//!
//! Every provider has its own header names, units and ways to write a time, so each family is one
//! small file, as a table where it can be, and yields partial hints: a name, a number. Partial
//! hints that speak of the same thing and contradict each other nowhere are one hint. Nothing here
//! decides: a [`UsageCorrection`](crate::UsageCorrection) compares a hint with what we know. Headers come from
//! strangers, so what is malformed is ignored and counted, and what is too much is left out; no
//! value makes it fail or allocate.

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

use split_header::HintPart;

/// All that one response said about limits.
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
/// let came = ResponseTime { date: None, wall: WallTime::from_unix_secs(1_700_000_000) };
/// let hints = Hints::read(headers, Dialects::ALL, came);
/// let hint = hints.iter().next().expect("one hint");
/// assert_eq!((hint.limit, hint.remaining), (Some(60), Some(12)));
/// assert_eq!(hint.resets_in, Some(Duration::from_secs(30)));
/// assert_eq!(hints.malformed(), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hints {
    read: [Option<Hint>; MOST_HINTS],
    malformed: u32,
    left_out: u32,
}

impl Hints {
    /// Reads the headers of a response, in any order, names in any case.
    pub fn read<'a>(
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        dialects: Dialects,
        came: ResponseTime<'_>,
    ) -> Self {
        let mut reading = HintReader {
            hints: Self::NOTHING,
            dialects,
            came,
        };
        for (name, value) in headers {
            reading.header(name, value);
        }
        reading.hints
    }

    /// The hints, in the order in which they were first met. Each tells a number at least: a name
    /// alone is no hint.
    pub fn iter(&self) -> impl Iterator<Item = &Hint> {
        self.read.iter().flatten().filter(|hint| hint.has_values())
    }

    /// How many headers could not be understood and were ignored.
    pub const fn malformed(&self) -> u32 {
        self.malformed
    }

    /// How many hints there was no room for.
    pub const fn left_out(&self) -> u32 {
        self.left_out
    }

    const NOTHING: Self = Self {
        read: [None; MOST_HINTS],
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

/// Twice what the most talkative provider sends: requests and three kinds of tokens.
const MOST_HINTS: usize = 8;

/// A header that is ours to read and makes no sense.
struct MalformedHint;

/// What becomes of one header: noted, or malformed and as if it had not been sent.
type Noted = Result<(), MalformedHint>;

/// The state of reading one response.
struct HintReader<'a> {
    hints: Hints,
    dialects: Dialects,
    came: ResponseTime<'a>,
}

impl HintReader<'_> {
    /// The server's time. Read where a hint needs it: most responses hold none.
    fn now(&self) -> WallTime {
        self.came.at_server()
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

/// What stands behind `prefix`, in any case.
fn after<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = name.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// The row of `table` whose name this is, in any case.
fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, row)| *row)
}
