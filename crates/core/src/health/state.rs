//! The health states of an API and the transitions between them.
//!
//! Names that reach logs and metrics are defined only here.

use crate::{Nanos, OutcomeCounts};

named_enum! {
    /// Health state of an API; the later, the worse.
    #[derive(PartialOrd, Ord, Default)]
    pub enum HealthState {
        /// Calls go at the configured rates, or at a ramp towards them.
        #[default]
        Normal = "Normal",
        /// Calls go at a reduced rate.
        Throttle = "Throttle",
        /// A few probes test the API.
        HalfOpen = "HalfOpen",
        /// No call goes until an instant.
        Sleep = "Sleep",
        /// No call goes; responses come from the cache.
        CacheOnly = "CacheOnly",
    }
}

impl HealthState {
    /// Returns the state in the terms of a circuit breaker.
    pub const fn circuit(self) -> CircuitState {
        match self {
            Self::Normal | Self::Throttle => CircuitState::Closed,
            Self::Sleep | Self::CacheOnly => CircuitState::Open,
            Self::HalfOpen => CircuitState::HalfOpen,
        }
    }
}

named_enum! {
    /// Health state in the terms of a circuit breaker: a view of the one machine, not a second one.
    /// `ALL` begins with the best.
    pub enum CircuitState {
        /// Calls go.
        Closed = "CLOSED",
        /// Trial calls go.
        HalfOpen = "HALF_OPEN",
        /// No call goes.
        Open = "OPEN",
    }
}

/// State that an operator forces until it is released; no timer and no outcome leaves it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HealthOverride {
    /// Full speed; a server's wait is still obeyed.
    Normal,
    /// Reduced speed.
    Throttle,
    /// Offline: no call is made.
    Sleep,
    /// No call is made; responses come from the cache.
    CacheOnly,
}

impl HealthOverride {
    /// Returns the forced state.
    pub const fn state(self) -> HealthState {
        match self {
            Self::Normal => HealthState::Normal,
            Self::Throttle => HealthState::Throttle,
            Self::Sleep => HealthState::Sleep,
            Self::CacheOnly => HealthState::CacheOnly,
        }
    }
}

/// Transition from one state to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthTransition {
    /// The state that was left.
    pub from: HealthState,
    /// The state that was entered.
    pub to: HealthState,
    /// Reason of the transition.
    pub reason: TransitionReason,
    /// Time of the transition.
    pub at: Nanos,
    /// Time at which a timer leaves the new state, if one will.
    pub until: Option<Nanos>,
    /// Figures that led to it.
    pub figures: TransitionFigures,
}

/// Outcomes that led to a state. The state itself begins without outcomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransitionFigures {
    /// Throttled calls in a row.
    pub streak: u32,
    /// Failures of any kind in a row.
    pub failures: u32,
    /// Outcomes in the window.
    pub counts: OutcomeCounts,
}

impl TransitionFigures {
    /// Returns true if no outcome was counted.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

named_enum! {
    /// Reason of a transition.
    pub enum TransitionReason {
        /// Too large a share of the calls failed.
        ErrorRatio = "error_ratio",
        /// Too many calls in a row were throttled, or failed.
        Streak = "streak",
        /// The server asked for a longer wait than `short_retry_after`.
        RetryAfter = "retry_after",
        /// The server banned the client.
        Banned = "banned",
        /// Very many calls failed for a long time.
        ErrorRatioHeld = "error_ratio_held",
        /// Enough calls succeeded and few failed.
        SuccessWindowOk = "success_window_ok",
        /// The Sleep has ended.
        SleepOver = "sleep_over",
        /// All probes succeeded.
        ProbesOk = "probes_ok",
        /// No probe failed, and enough were answered to show that the API responds.
        ProbesAnswered = "probes_answered",
        /// A probe failed.
        ProbeFailed = "probe_failed",
        /// A probe got no response in time.
        ProbeTimedOut = "probe_timed_out",
        /// A probe that was given up got a good response.
        LateResponse = "late_response",
        /// Too many recoveries in a row failed.
        RecoveriesExhausted = "recoveries_exhausted",
        /// `CacheOnly` lasted for its recovery period.
        AutoRecover = "auto_recover",
        /// An operator forced the state.
        Forced = "forced",
        /// An operator released the state.
        Released = "released",
    }
}
