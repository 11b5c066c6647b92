//! The answer to "may this go now?".
//!
//! A refusal is an answer, not an error: the caller learns when to come back, or that it need not.

use crate::Nanos;

/// What a limit says to a request.
///
/// `T` is what an allowed request holds in its hands afterwards: a receipt when something was
/// taken, nothing when it was only asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a decision that is not looked at is a request sent without leave"]
pub enum Decision<T = ()> {
    /// It may go.
    Allow(T),
    /// It may not go now; ask again at this instant, which is always in the future. If nothing in
    /// flight stands in the way it is the very first instant that passes. Nobody knows when what is
    /// in flight comes back: where that is waited for the instant is an estimate, and whoever waits
    /// asks again when something settles or is given back.
    WaitUntil(Nanos),
    /// It can never go: it costs more than the whole limit, or time would end first.
    Never,
}

impl<T> Decision<T> {
    /// True for [`Decision::Allow`].
    pub const fn is_allow(&self) -> bool {
        matches!(self, Self::Allow(_))
    }

    /// What was allowed, if it was.
    pub fn allowed(self) -> Option<T> {
        match self {
            Self::Allow(value) => Some(value),
            Self::WaitUntil(_) | Self::Never => None,
        }
    }

    /// The same answer with something else in its hands.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Decision<U> {
        match self {
            Self::Allow(value) => Decision::Allow(f(value)),
            Self::WaitUntil(at) => Decision::WaitUntil(at),
            Self::Never => Decision::Never,
        }
    }

    /// The stricter of two answers: `Never` before the later wait before `Allow`.
    pub fn and<U>(self, other: Decision<U>) -> Decision<(T, U)> {
        match (self, other) {
            (Self::Never, _) | (_, Decision::Never) => Decision::Never,
            (Self::WaitUntil(a), Decision::WaitUntil(b)) => Decision::WaitUntil(a.max(b)),
            (Self::WaitUntil(at), _) | (_, Decision::WaitUntil(at)) => Decision::WaitUntil(at),
            (Self::Allow(a), Decision::Allow(b)) => Decision::Allow((a, b)),
        }
    }
}
