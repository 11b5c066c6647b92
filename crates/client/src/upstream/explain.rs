//! Causes of a wait, and the estimate of its end.
//!
//! A call can be blocked by several causes at once. An estimate names the first of this list:
//!
//! 1. an operator's override
//! 2. the health state
//! 3. a cooldown
//! 4. a limit of its group
//! 5. a limit of the API
//! 6. the calls in flight
//! 7. the calls ahead of it in the queue

use std::fmt;

use outflow_core::{HealthState, Nanos, Rate};

use super::circuit::BlockReason;

/// Cause of a wait.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WaitReason {
    /// A limit is used up.
    Limit {
        /// The rate in effect.
        rate: Rate,
    },
    /// Other calls are ahead in the queue.
    Turn,
    /// The allowed number of calls is in flight.
    Concurrency {
        /// The allowed number.
        most: u32,
    },
    /// The API asked for a cooldown.
    Cooldown,
    /// The health state allows no calls, or only probes.
    State(HealthState),
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
}

impl WaitReason {
    /// Returns the first cause of the list above. `rate` is the limit that allows the call last.
    pub(super) const fn from_causes(circuit: Option<BlockReason>, rate: Option<Rate>) -> Self {
        match (circuit, rate) {
            // An override is a health state that an operator forced.
            (Some(BlockReason::Asleep { state, .. }), _) => Self::State(state),
            (Some(BlockReason::Probing { .. }), _) => Self::State(HealthState::HalfOpen),
            (Some(BlockReason::Cooling { .. }), _) => Self::Cooldown,
            (_, Some(rate)) => Self::Limit { rate },
            (Some(BlockReason::Full { max, .. }), None) => Self::Concurrency { most: max },
            (Some(BlockReason::Overdue) | None, None) => Self::Turn,
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit { rate } => write!(f, "the limit of {rate} is used up"),
            Self::Turn => f.write_str("other calls are ahead in the queue"),
            Self::Concurrency { most } => {
                write!(
                    f,
                    "{most} of {most} calls are in flight: concurrency binds, not a limit"
                )
            }
            Self::Cooldown => f.write_str("the API asked to wait"),
            Self::State(state) => write!(f, "the API is in {state}"),
        }
    }
}
