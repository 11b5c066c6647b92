//! What an answer means to the limits: in words that they and the gate exchange.

use outflow_core::{Evidence, LimitChange, Nanos, OutcomeClass, UsageCorrection};

/// What a refusal is evidence of.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) enum ThrottleEvidence {
    Throttled { sent: Nanos },
    Banned { sent: Nanos, until: Nanos },
}

impl ThrottleEvidence {
    pub(super) const fn evidence(&self, admitted: u64) -> Evidence {
        match *self {
            Self::Throttled { sent } => Evidence::Throttled { sent, admitted },
            Self::Banned { sent, until } => Evidence::Ban { sent, until },
        }
    }
}

/// Whether a call that is over reached the server, as far as anyone knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::upstream) enum ArrivalCount {
    Counts,
    Never,
}

/// Whether the server refused the call that a hint came with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::upstream) enum Refused {
    Yes,
    No,
}

impl Refused {
    pub(in crate::upstream) const fn by(effect: OutcomeClass) -> Self {
        match effect {
            OutcomeClass::Throttled | OutcomeClass::Banned => Self::Yes,
            _ => Self::No,
        }
    }
}

/// What became of a hint.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct HintResult {
    pub(in crate::upstream) correction: UsageCorrection,
    pub(in crate::upstream) reaction: LimitChange,
}
