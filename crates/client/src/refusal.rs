//! Why a call was not let through.
//!
//! A refusal is an answer: it names what stood in the way and, where that is known, the instant at
//! which it will not any more. It holds no word of the request itself.

pub mod http_status;

use std::fmt;
use std::time::Duration;

use outflow_core::{HealthState, Nanos, Rate};
use smol_str::SmolStr;

/// Why a call was not let through, and when to come back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What stood in the way.
    pub cause: RefusalReason,
    /// How long until the same call can pass, if that is known.
    pub retry_after: Option<Duration>,
}

/// What stood in the way of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RefusalReason {
    /// Its turn would come, or came, after its deadline.
    TooLate(WaitReason),
    /// It costs more than a limit ever allows.
    Never {
        /// The limit.
        limit: Rate,
    },
    /// It would have had to wait, and the rules or the caller say not to.
    Busy(WaitReason),
    /// The state of the API lets nothing go.
    Blocked {
        /// The state.
        state: HealthState,
    },
    /// As many wait as may.
    QueueFull,
    /// No group has this name.
    UnknownGroup(SmolStr),
    /// The door is closed.
    ShuttingDown,
    /// The configuration no longer knows the API.
    Removed,
}

/// What a call waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WaitReason {
    /// A limit has no room.
    Limit {
        /// The rate in effect.
        rate: Rate,
    },
    /// Others are first.
    Turn,
    /// As many calls are in flight as may be.
    Concurrency {
        /// How many may be.
        most: u32,
    },
    /// The server asked everybody to wait.
    Cooldown,
    /// The state lets nothing, or only probes, go.
    State(HealthState),
}

/// Where a waiting call stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitEstimate {
    /// What it waits for.
    pub why: WaitReason,
    /// How many are before it.
    pub position: usize,
    /// When it will go if nothing else happens, if that is known.
    pub eta: Option<Nanos>,
}

impl RefusalReason {
    /// The cause in one word, for logs and metrics.
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
        write!(f, "{}", self.cause)?;
        match self.retry_after {
            Some(span) => write!(f, "; come back in {:.1} s", span.as_secs_f64()),
            None => Ok(()),
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLate(why) => write!(f, "cannot go before its deadline: {why}"),
            Self::Never { limit } => {
                write!(
                    f,
                    "costs more than {limit} ever allows: split it or lower its cost"
                )
            }
            Self::Busy(why) => write!(f, "cannot go now and does not wait: {why}"),
            Self::Blocked { state } => write!(f, "the API is in {state} and lets nothing go"),
            Self::QueueFull => f.write_str("as many calls wait as may: slow down or raise `queue`"),
            Self::UnknownGroup(name) => write!(f, "there is no group `{name}`"),
            Self::ShuttingDown => f.write_str("the client is shutting down"),
            Self::Removed => f.write_str(
                "the API was removed from the configuration: call another, or add it again",
            ),
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit { rate } => write!(f, "the limit of {rate} is used up"),
            Self::Turn => f.write_str("others are first"),
            Self::Concurrency { most } => {
                write!(f, "{most} calls are in flight, which is the most")
            }
            Self::Cooldown => f.write_str("the server asked to wait"),
            Self::State(state) => write!(f, "the API is in {state}"),
        }
    }
}

impl std::error::Error for Refusal {}
