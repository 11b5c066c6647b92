//! When an attempt is over at the latest, and by whose word.
//!
//! An attempt that the server let run into its timeout is the server's fault; one that was cut short
//! because its caller had no more time says nothing of the server.

use std::time::Duration;

use tokio::time::Instant;

use super::failure::{Failure, Trouble};

/// The last moment of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    /// When the attempt began.
    pub(super) begun: Instant,
    pub(super) at: Instant,
    whose: Whose,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Whose {
    Ours,
    Callers,
}

impl End {
    /// The end of an attempt that may take so long, made by a caller who has so much time left.
    pub(crate) fn of(attempt: Duration, left: Option<Duration>) -> Self {
        match left {
            Some(left) if left < attempt => Self::callers(left),
            Some(_) | None => Self::after(attempt, Whose::Ours),
        }
    }

    /// The end of what only its caller's time bounds.
    pub(crate) fn callers(left: Duration) -> Self {
        Self::after(left, Whose::Callers)
    }

    fn after(span: Duration, whose: Whose) -> Self {
        let begun = Instant::now();
        Self {
            begun,
            at: begun + span.min(LONGEST),
            whose,
        }
    }

    /// Whether a wait until that moment failed by the server or for want of the caller's time.
    pub(super) fn judge(self, until: Instant, failure: Failure) -> Failure {
        match self.whose {
            Whose::Callers if until >= self.at => Failure {
                trouble: Trouble::Deadline,
                ..failure
            },
            Whose::Callers | Whose::Ours => failure,
        }
    }
}

/// That much later, as far as instants can tell.
pub(super) fn from_now(span: Duration) -> Instant {
    Instant::now() + span.min(LONGEST)
}

/// Longer than any attempt; an instant much further away cannot be told.
const LONGEST: Duration = Duration::from_hours(24 * 365);
