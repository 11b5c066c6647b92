//! The one module that names what binds a call now.
//!
//! A call can be bound by several causes at once. The first of this list is named:
//!
//! 1. an operator's override
//! 2. the health state
//! 3. a cooldown
//! 4. a limit of its group, as it is in effect
//! 5. a limit of the API, as it is in effect
//! 6. the calls in flight
//! 7. the calls ahead of it in the queue
//!
//! `explain`, `status`, `limits`, refusals and bulk print the sentences of this module, so that no two of them
//! disagree. Times are spans from the instant of the question: a sentence is read at that instant.

mod call_decision;
mod decide;
mod lowered_limit;
mod readable_span;
mod state_cause;
mod status_reason;

use std::fmt;
use std::time::Duration;

use outflow_core::{Nanos, Rate};

pub use call_decision::CallDecision;
pub use lowered_limit::{LoweredBy, LoweredLimit};
pub use state_cause::{OverrideNote, StateCause};

pub(super) use lowered_limit::LimitRates;
pub(crate) use readable_span::ReadableSpan;
pub(super) use status_reason::OwnedRates;

/// Cause of a wait.
///
/// ```
/// use outflow::WaitReason;
///
/// let reason = WaitReason::Limit { rate: "35/s".parse()?, lowered: None, processes: 1 };
/// assert_eq!(reason.to_string(), "the limit of 35/s is used up");
/// # Ok::<(), outflow::core::InvalidRate>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WaitReason {
    /// A limit is used up.
    Limit {
        /// The rate in effect.
        rate: Rate,
        /// Its distance from the configured rate, if it is lowered.
        lowered: Option<LoweredLimit>,
        /// The number of processes that use it now, this one included.
        processes: usize,
    },
    /// The ledger of the limits has not answered.
    Ledger,
    /// Other calls are ahead in the queue.
    Turn,
    /// The allowed number of calls is in flight.
    Concurrency {
        /// The allowed number.
        most: u32,
        /// The rule that sets it.
        rule: ConcurrencyRule,
    },
    /// The API asked for a cooldown.
    Cooldown,
    /// The health state allows no calls, or only probes.
    State(Box<StateCause>),
}

/// Rule that bounds the calls in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConcurrencyRule {
    /// The setting `concurrency`, or the number that follows from the limits.
    Setting,
    /// The part of it that Throttle leaves.
    Throttle,
    /// The slow start of an untested limit.
    SlowStart,
}

/// Estimate for a waiting call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitEstimate {
    /// The cause of the wait.
    pub reason: WaitReason,
    /// The number of calls ahead in the queue.
    pub position: usize,
    /// The start if nothing else happens, if it is known.
    pub eta: Option<Nanos>,
    /// The calls whose responses it waits for, where the question is about a call and not its wait in the queue.
    pub unanswered: Option<UnansweredCalls>,
}

/// Calls in flight that hold units of a limit until their responses come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnansweredCalls {
    /// The number of calls.
    pub count: usize,
    /// The age of the oldest.
    pub oldest: Duration,
    /// The start of a waiting call if none of them gets a response.
    pub start: Nanos,
}

impl UnansweredCalls {
    /// Returns true if they are worth a sentence: most calls have a response sooner.
    const fn are_late(&self) -> bool {
        self.oldest.as_secs() > 0
    }
}

impl WaitReason {
    /// Returns the reason in one word, for logs, metrics and programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Limit { .. } => "limit",
            Self::Ledger => "ledger",
            Self::Turn => "turn",
            Self::Concurrency { .. } => "concurrency",
            Self::Cooldown => "cooldown",
            Self::State(_) => "state",
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit {
                rate,
                lowered,
                processes,
            } => {
                match processes {
                    0 | 1 => write!(f, "the limit of {rate} is used up")?,
                    _ => write!(f, "the limit of {rate}, which {processes} processes share, is used up")?,
                }
                match lowered {
                    Some(lowered) => write!(f, "; {} is configured: {}", lowered.configured, lowered.cause()),
                    None => Ok(()),
                }
            }
            Self::Ledger => f.write_str("the ledger of the shared limits has not answered"),
            Self::Turn => f.write_str("other calls are ahead in the queue"),
            Self::Concurrency { most, rule } => write!(f, "{most} of {most} calls are in flight: {rule}"),
            Self::Cooldown => f.write_str("the API asked to wait, and calls then start one after another"),
            Self::State(cause) => cause.fmt(f),
        }
    }
}

impl fmt::Display for UnansweredCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (calls, oldest) = (
            if self.count == 1 { "call has" } else { "calls have" },
            ReadableSpan(self.oldest),
        );
        write!(f, "{} {calls} no response yet, the oldest for {oldest}", self.count)
    }
}

impl fmt::Display for ConcurrencyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Setting => "concurrency binds, not a limit; raise `concurrency`",
            Self::Throttle => "Throttle allows no more until calls succeed",
            Self::SlowStart => "the slow start of an untested limit allows more as calls pass",
        })
    }
}
