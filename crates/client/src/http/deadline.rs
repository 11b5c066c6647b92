//! Deadline of an attempt, and its owner.
//!
//! A timeout of our own is the server's fault. An attempt cut short by the caller's deadline says
//! nothing about the server.

use std::time::Duration;

use tokio::time::Instant;

use super::failure::{AttemptFailure, FailureKind};

/// End of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AttemptDeadline {
    /// Start of the attempt.
    pub(super) begun: Instant,
    pub(super) at: Instant,
    owner: DeadlineOwner,
    /// Silence that the caller allows, if longer than the default.
    allowed_silence: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DeadlineOwner {
    Outflow,
    Caller,
}

impl AttemptDeadline {
    /// Returns the deadline of an attempt: the default timeout, or the caller's if that is longer,
    /// cut at the caller's remaining time. An attempt that exceeds the default is the server's
    /// fault, however long the caller allows.
    pub(crate) fn new(default: Duration, granted: Option<Duration>, remaining: Option<Duration>) -> Self {
        let longest = granted.map_or(default, |granted| granted.max(default));
        match remaining {
            Some(remaining) if remaining < default => Self::from_caller(remaining),
            Some(_) | None => Self {
                allowed_silence: granted.unwrap_or_default(),
                ..Self::after(remaining.unwrap_or(longest).min(longest), DeadlineOwner::Outflow)
            },
        }
    }

    /// Returns a deadline that only the caller's remaining time sets.
    pub(crate) fn from_caller(remaining: Duration) -> Self {
        Self::after(remaining, DeadlineOwner::Caller)
    }

    fn after(span: Duration, owner: DeadlineOwner) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            at: begun + span.min(MAX_SPAN),
            owner,
            allowed_silence: Duration::ZERO,
        }
    }

    /// Returns the silence to allow: the default or the caller's, if longer.
    pub(super) fn max_silence(self, default: Duration) -> Duration {
        self.allowed_silence.max(default)
    }

    /// Attributes a wait that failed at `until` to the server or to the caller's deadline.
    pub(super) fn attribute(self, until: Instant, failure: AttemptFailure) -> AttemptFailure {
        match self.owner {
            DeadlineOwner::Caller if until >= self.at => AttemptFailure {
                kind: FailureKind::Deadline,
                ..failure
            },
            DeadlineOwner::Caller | DeadlineOwner::Outflow => failure,
        }
    }
}

/// Returns the instant `span` from now, capped at [`MAX_SPAN`].
pub(super) fn from_now(span: Duration) -> Instant {
    Instant::now() + span.min(MAX_SPAN)
}

/// Longer than any attempt; instants much further away overflow.
const MAX_SPAN: Duration = Duration::from_hours(24 * 365);
