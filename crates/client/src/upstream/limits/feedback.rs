//! Evidence that limits and admission exchange about an attempt.

use outflow_core::{Evidence, LimitChange, Nanos, UsageCorrection};

use super::ScopeLimits;

/// Evidence of a throttle response.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) enum ThrottleEvidence {
    Throttled { sent: Nanos },
    Banned { sent: Nanos, until: Nanos },
}

impl ThrottleEvidence {
    pub(super) const fn evidence(&self, admitted: u64, used: u64) -> Evidence {
        match *self {
            Self::Throttled { sent } => Evidence::Throttled { sent, admitted, used },
            Self::Banned { sent, until } => Evidence::Ban { sent, until },
        }
    }
}

impl ScopeLimits {
    /// Takes back the shrink of this instant. Returns true if a limit grew.
    pub(in crate::upstream) fn retract_shrink(&mut self, at: Nanos) -> bool {
        let states = self.states.iter_mut();
        states.fold(false, |grew, state| {
            grew | (state.adaptive.retract(at) == LimitChange::Raised)
        })
    }
}

/// Arrival of an ended attempt at the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::upstream) enum ArrivalCount {
    /// It arrived, or may have.
    Counts,
    Never,
}

/// Effect of a hint on its limit.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct HintResult {
    pub(in crate::upstream) correction: UsageCorrection,
    pub(in crate::upstream) reaction: LimitChange,
    /// True if the server asked to wait until its limit has units again.
    pub(in crate::upstream) waits: bool,
}
