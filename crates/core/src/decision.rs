//! The answer of a limit to a request.
//!
//! A refusal is an answer, not an error: the caller learns when to come back, or that it need not.

use crate::Nanos;

/// Answer of a limit to a request.
///
/// `T` is the value that an allowed request holds afterwards: a receipt if units were taken,
/// nothing if it was only a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a decision that is not looked at is a request sent without leave"]
pub enum Decision<T = ()> {
    /// The request may go.
    Allow(T),
    /// The request may not go now; ask again at this instant, which is always in the future.
    /// Without requests in flight it is the very first instant that passes. The end of a request in
    /// flight is not known: there the instant is an estimate, and a waiter asks again when a
    /// request settles or is refunded.
    WaitUntil(Nanos),
    /// The request can never go: it costs more than the whole limit, or the timeline ends first.
    Never,
}

impl<T> Decision<T> {
    /// Returns true for [`Decision::Allow`].
    pub const fn is_allow(&self) -> bool {
        matches!(self, Self::Allow(_))
    }

    /// Returns the allowed value, if any.
    pub fn allowed(self) -> Option<T> {
        match self {
            Self::Allow(value) => Some(value),
            Self::WaitUntil(_) | Self::Never => None,
        }
    }

    /// Maps the allowed value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Decision<U> {
        match self {
            Self::Allow(value) => Decision::Allow(f(value)),
            Self::WaitUntil(at) => Decision::WaitUntil(at),
            Self::Never => Decision::Never,
        }
    }

    /// Combines two answers into the stricter: `Never` before the later wait before `Allow`.
    pub fn and<U>(self, other: Decision<U>) -> Decision<(T, U)> {
        match (self, other) {
            (Self::Never, _) | (_, Decision::Never) => Decision::Never,
            (Self::WaitUntil(a), Decision::WaitUntil(b)) => Decision::WaitUntil(a.max(b)),
            (Self::WaitUntil(at), _) | (_, Decision::WaitUntil(at)) => Decision::WaitUntil(at),
            (Self::Allow(a), Decision::Allow(b)) => Decision::Allow((a, b)),
        }
    }
}
