//! What a server said about one of its limits, whatever the dialect.
//!
//! All fields are optional because every dialect leaves something out; a missing number is never
//! guessed here, for only the reader of a hint knows which guess would be the safe one.

use core::time::Duration;

use super::{Dialect, HintLabel};

/// What a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum HintUnit {
    /// Calls.
    Requests,
    /// Tokens of a language model, both ways.
    Tokens,
    /// Tokens of the question.
    InputTokens,
    /// Tokens of the answer.
    OutputTokens,
    /// Points that calls cost, by endpoint.
    Weight,
    /// Orders placed.
    Orders,
    /// Bytes of content.
    Bytes,
    /// Calls at the same time.
    Concurrent,
}

/// What a server said about one of its limits. What it did not say is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint {
    /// The most that may be used in a window.
    pub limit: Option<u64>,
    /// How much is left of it.
    pub remaining: Option<u64>,
    /// How much was used of it.
    pub used: Option<u64>,
    /// How long a window is.
    pub window: Option<Duration>,
    /// How long until all of it, or with a sliding limit some of it, returns.
    pub resets_in: Option<Duration>,
    /// Which of the provider's limits it is.
    pub group: Option<HintLabel>,
    /// What it counts.
    pub unit: HintUnit,
    /// Where it was read.
    pub dialect: Dialect,
}

impl Hint {
    /// How much the server counted as used, said outright or by what remains.
    pub fn server_used(&self) -> Option<u64> {
        let by_rest = || Some(self.limit?.saturating_sub(self.remaining?));
        self.used.or_else(by_rest)
    }

    pub(super) const fn has_values(&self) -> bool {
        self.limit.is_some()
            || self.remaining.is_some()
            || self.used.is_some()
            || self.resets_in.is_some()
    }

    pub(super) const fn about(dialect: Dialect, unit: HintUnit) -> Self {
        Self {
            limit: None,
            remaining: None,
            used: None,
            window: None,
            resets_in: None,
            group: None,
            unit,
            dialect,
        }
    }

    /// Both as one, if they speak of the same limit and nowhere contradict each other.
    pub(super) fn merged(self, other: Self) -> Result<Self, HintConflict> {
        if (self.dialect, self.unit) != (other.dialect, other.unit) {
            return Err(HintConflict);
        }
        Ok(Self {
            limit: either(self.limit, other.limit)?,
            remaining: either(self.remaining, other.remaining)?,
            used: either(self.used, other.used)?,
            window: either(self.window, other.window)?,
            resets_in: either(self.resets_in, other.resets_in)?,
            group: either(self.group, other.group)?,
            ..self
        })
    }
}

/// Two partial hints speak of different limits.
pub(super) struct HintConflict;

/// What either says, unless they say different things.
fn either<T: PartialEq>(a: Option<T>, b: Option<T>) -> Result<Option<T>, HintConflict> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => Err(HintConflict),
        (Some(said), _) => Ok(Some(said)),
        (None, said) => Ok(said),
    }
}
