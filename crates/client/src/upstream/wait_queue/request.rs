//! The request of a call and the answers to it.

use std::time::Duration;

use outflow_core::{Cost, Nanos};

use super::super::endpoint::{CallLabel, CallSubject};
use super::PriorityClass;
use crate::refusal::Refusal;
use crate::rules::WaitMode;

/// A call that asks for a permit.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct AcquireRequest {
    pub(in crate::upstream) group: u32,
    pub(in crate::upstream) label: CallLabel,
    pub(in crate::upstream) cost: Cost,
    pub(in crate::upstream) class: PriorityClass,
    pub(in crate::upstream) deadline: WaitDeadline,
    pub(in crate::upstream) mode: WaitMode,
    pub(in crate::upstream) position: QueuePosition,
}

/// Position among the waiters of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::upstream) enum QueuePosition {
    New,
    /// Behind all others like a new call: an attempt of it failed.
    Retrying,
    /// Ahead of all new calls: it was sent before, under a limit that was too high.
    Returning,
}

/// End of a call's wait.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) enum WaitDeadline {
    At(Nanos),
    Within(Duration),
    /// The call as a whole ends then: what starts later than a response takes before it is hopeless.
    BeforeEnd(Nanos),
}

impl AcquireRequest {
    /// Returns its names in events.
    pub(super) const fn subject(&self) -> CallSubject {
        CallSubject {
            group: self.group,
            label: self.label,
        }
    }

    /// Returns the instant at which its wait ends, if it begins now.
    pub(super) fn deadline(&self, now: Nanos) -> Nanos {
        match self.deadline {
            WaitDeadline::At(deadline) | WaitDeadline::BeforeEnd(deadline) => deadline,
            WaitDeadline::Within(span) => now.saturating_add(span),
        }
    }
}

/// Answer to a first or repeated poll.
#[derive(Debug)]
pub(in crate::upstream) enum AcquireResult {
    Granted(PermitParts),
    /// The call waits under this key.
    Wait(usize),
    Refused(Refusal),
}

/// The contents of a permit.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct PermitParts {
    pub(in crate::upstream) attempt: usize,
    pub(in crate::upstream) id: u64,
    pub(in crate::upstream) label: CallLabel,
    pub(in crate::upstream) waited: Duration,
    /// True if a limit counts from the sending, which then has to be reported.
    pub(in crate::upstream) counts_sends: bool,
    /// The instant from which it must not be sent, unless its lease is renewed.
    pub(in crate::upstream) valid_until: Nanos,
}
