//! A server's statement about one of its limits, in any dialect.
//!
//! All fields are optional because every dialect leaves something out. A missing number is never
//! guessed here: only the reader of a hint knows the safe guess.

use core::time::Duration;

use super::{Dialect, HintLabel};

/// Unit that a limit counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum HintUnit {
    /// Calls.
    Requests,
    /// Tokens of a language model, both ways.
    Tokens,
    /// Tokens of the prompt.
    InputTokens,
    /// Tokens of the response.
    OutputTokens,
    /// Points that calls cost, by endpoint.
    Weight,
    /// Orders placed.
    Orders,
    /// Bytes of content.
    Bytes,
    /// Concurrent calls.
    Concurrent,
}

/// Statement of a server about one of its limits. Missing parts are `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint {
    /// Maximum usage in a window.
    pub limit: Option<u64>,
    /// Remaining quota.
    pub remaining: Option<u64>,
    /// Used quota.
    pub used: Option<u64>,
    /// Length of a window.
    pub window: Option<Duration>,
    /// Time until the whole quota, or with a sliding limit some of it, returns.
    pub resets_in: Option<Duration>,
    /// Provider's name of the limit.
    pub group: Option<HintLabel>,
    /// Unit it counts.
    pub unit: HintUnit,
    /// Family of the header.
    pub dialect: Dialect,
}

impl Hint {
    /// Returns the usage that the server counted, direct or computed from the remaining quota.
    pub fn server_used(&self) -> Option<u64> {
        let by_rest = || Some(self.limit?.saturating_sub(self.remaining?));
        self.used.or_else(by_rest)
    }

    pub(super) const fn has_values(&self) -> bool {
        self.limit.is_some() || self.remaining.is_some() || self.used.is_some() || self.resets_in.is_some()
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

    /// Merges both if they describe one limit without contradiction.
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

/// Two partial hints describe different limits.
pub(super) struct HintConflict;

/// Returns the value of either, unless they differ.
fn either<T: PartialEq>(a: Option<T>, b: Option<T>) -> Result<Option<T>, HintConflict> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => Err(HintConflict),
        (Some(value), _) => Ok(Some(value)),
        (None, value) => Ok(value),
    }
}
