//! Refusals: the reason why a call got no permit and, if known, the wait.
//!
//! A refusal contains no part of the request.

pub mod http_status;

use std::fmt;
use std::time::Duration;

use outflow_core::{HealthState, Rate};
use smol_str::SmolStr;

pub(crate) use crate::upstream::{WaitEstimate, WaitReason};

/// Answer to a call that gets no permit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The reason.
    pub reason: RefusalReason,
    /// The time until the call could start, if it is known.
    pub retry_after: Option<Duration>,
}

/// Reason for a refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RefusalReason {
    /// Its start would be, or was, after its deadline.
    TooLate(WaitReason),
    /// It costs more than a limit ever allows.
    Never {
        /// The limit.
        limit: Rate,
    },
    /// It cannot start now, and the rules or the caller do not let it wait.
    Busy(WaitReason),
    /// The health state allows no calls.
    Blocked {
        /// The state.
        state: HealthState,
    },
    /// The wait queue is full.
    QueueFull,
    /// No group has this name.
    UnknownGroup(SmolStr),
    /// The client is shutting down.
    ShuttingDown,
    /// The configuration no longer has the API.
    Removed,
}

impl RefusalReason {
    /// Returns the reason in one word, for logs and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::TooLate(_) => "too_late",
            Self::Never { .. } => "cost_too_high",
            Self::Busy(_) => "busy",
            Self::Blocked { .. } => "blocked",
            Self::QueueFull => "queue_full",
            Self::UnknownGroup(_) => "unknown_group",
            Self::ShuttingDown => "shutting_down",
            Self::Removed => "removed",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        match self.retry_after {
            Some(span) => write!(f, "; retry in {:.1} s", span.as_secs_f64()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLate(why) => write!(f, "cannot start before its deadline: {why}"),
            Self::Never { limit } => {
                write!(f, "costs more than {limit} ever allows: split it or lower its cost")
            }
            Self::Busy(why) => write!(f, "cannot start now and does not wait: {why}"),
            Self::Blocked { state } => write!(
                f,
                "the API is in {state}, which allows no calls: wait for the state to change, or release it"
            ),
            Self::QueueFull => f.write_str("the wait queue is full: slow down or raise `queue`"),
            Self::UnknownGroup(name) => write!(
                f,
                "there is no group `{name}`: configure it, or use one of the API's groups"
            ),
            Self::ShuttingDown => f.write_str("the client is shutting down: repeat the call after the restart"),
            Self::Removed => f.write_str("the API was removed from the configuration: call another, or add it again"),
        }
    }
}

impl std::error::Error for Refusal {}
