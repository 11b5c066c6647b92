//! Refusals: the reason why a call got no permit and, if known, the wait.
//!
//! A refusal contains no part of the request.

pub mod http_status;

use std::fmt;
use std::time::Duration;

use outflow_core::Rate;
use smol_str::SmolStr;

pub(crate) use crate::upstream::{StateCause, WaitEstimate, WaitReason};

use crate::upstream::ReadableSpan;

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
    Blocked(Box<StateCause>),
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
            Self::Blocked(_) => "blocked",
            Self::QueueFull => "queue_full",
            Self::UnknownGroup(_) => "unknown_group",
            Self::ShuttingDown => "shutting_down",
            Self::Removed => "removed",
        }
    }

    /// Returns the cause of the wait that the call cannot or may not have.
    pub const fn wait_reason(&self) -> Option<&WaitReason> {
        match self {
            Self::TooLate(reason) | Self::Busy(reason) => Some(reason),
            _ => None,
        }
    }

    /// Returns the health state that causes the refusal, if one does.
    pub fn state_cause(&self) -> Option<&StateCause> {
        match self {
            Self::Blocked(cause) | Self::TooLate(WaitReason::State(cause)) | Self::Busy(WaitReason::State(cause)) => {
                Some(cause)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        match self.retry_after {
            Some(span) => write!(f, "; retry in {}", ReadableSpan(span)),
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
            Self::Blocked(cause) => cause.fmt(f),
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
