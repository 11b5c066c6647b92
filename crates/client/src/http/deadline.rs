//! When an attempt is over at the latest, and by whose word.
//!
//! An attempt that the server let run into its timeout is the server's fault; one that was cut short
//! because its caller had no more time says nothing of the server.

use std::time::Duration;

use tokio::time::Instant;

use super::failure::{AttemptFailure, FailureKind};

/// The last moment of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AttemptDeadline {
    /// When the attempt began.
    pub(super) begun: Instant,
    pub(super) at: Instant,
    whose: DeadlineOwner,
    /// The silence that its caller bears, if that is more than usual.
    patience: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DeadlineOwner {
    Ours,
    Callers,
}

impl AttemptDeadline {
    /// The end of an attempt that may take so long, or as long as its caller grants if that is more, made by a
    /// caller who has so much time left. What took longer than the usual time is the server's fault, however
    /// long its caller waited.
    pub(crate) fn new(usual: Duration, granted: Option<Duration>, left: Option<Duration>) -> Self {
        let longest = granted.map_or(usual, |granted| granted.max(usual));
        match left {
            Some(left) if left < usual => Self::callers(left),
            Some(_) | None => Self {
                patience: granted.unwrap_or_default(),
                ..Self::after(left.unwrap_or(longest).min(longest), DeadlineOwner::Ours)
            },
        }
    }

    /// The end of what only its caller's time bounds.
    pub(crate) fn callers(left: Duration) -> Self {
        Self::after(left, DeadlineOwner::Callers)
    }

    fn after(span: Duration, whose: DeadlineOwner) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            at: begun + span.min(LONGEST),
            whose,
            patience: Duration::ZERO,
        }
    }

    /// How long a silence is borne that is usually borne so long.
    pub(super) fn silence(self, usual: Duration) -> Duration {
        self.patience.max(usual)
    }

    /// Whether a wait until that moment failed by the server or for want of the caller's time.
    pub(super) fn judge(self, until: Instant, failure: AttemptFailure) -> AttemptFailure {
        match self.whose {
            DeadlineOwner::Callers if until >= self.at => AttemptFailure {
                trouble: FailureKind::Deadline,
                ..failure
            },
            DeadlineOwner::Callers | DeadlineOwner::Ours => failure,
        }
    }
}

/// That much later, as far as instants can tell.
pub(super) fn from_now(span: Duration) -> Instant {
    Instant::now() + span.min(LONGEST)
}

/// Longer than any attempt; an instant much further away cannot be told.
const LONGEST: Duration = Duration::from_hours(24 * 365);
