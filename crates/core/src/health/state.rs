//! The health states of an API and the transitions between them.
//!
//! Names that reach logs and metrics are defined only here.

use core::fmt;

use crate::Nanos;

/// Health state of an API.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HealthState {
    /// Calls go at the configured rates, or at a ramp towards them.
    Normal,
    /// Calls go at a reduced rate.
    Throttle,
    /// No call goes until an instant.
    Sleep,
    /// A few probes test the API.
    HalfOpen,
    /// No call goes; responses come from the cache.
    CacheOnly,
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

    /// Returns the name used in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Throttle => "Throttle",
            Self::Sleep => "Sleep",
            Self::HalfOpen => "HalfOpen",
            Self::CacheOnly => "CacheOnly",
        }
    }
}

impl fmt::Display for HealthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Health state in the terms of a circuit breaker: a view of the one machine, not a second one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CircuitState {
    /// Calls go.
    Closed,
    /// No call goes.
    Open,
    /// Trial calls go.
    HalfOpen,
}

impl CircuitState {
    /// Returns the name used in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::Open => "OPEN",
            Self::HalfOpen => "HALF_OPEN",
        }
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
}

/// Reason of a transition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TransitionReason {
    /// Too large a share of the calls failed.
    ErrorRatio,
    /// Too many calls in a row were throttled, or failed where failures form the streak.
    Streak,
    /// The server asked for a longer wait than `short_retry_after`.
    RetryAfter,
    /// The server banned the client.
    Banned,
    /// Very many calls failed for a long time.
    ErrorRatioHeld,
    /// Enough calls succeeded and few failed.
    SuccessWindowOk,
    /// The Sleep has ended.
    SleepOver,
    /// All probes succeeded.
    ProbesOk,
    /// No probe failed, and enough were answered to show that the API responds.
    ProbesAnswered,
    /// A probe failed.
    ProbeFailed,
    /// A probe got no response in time.
    ProbeTimedOut,
    /// A probe that was given up got a good response.
    LateResponse,
    /// Too many recoveries in a row failed.
    RecoveriesExhausted,
    /// `CacheOnly` lasted for its recovery period.
    AutoRecover,
    /// An operator forced the state.
    Forced,
    /// An operator released the state.
    Released,
}

impl TransitionReason {
    /// Returns the name used in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ErrorRatio => "error_ratio",
            Self::Streak => "streak",
            Self::RetryAfter => "retry_after",
            Self::Banned => "banned",
            Self::ErrorRatioHeld => "error_ratio_held",
            Self::SuccessWindowOk => "success_window_ok",
            Self::SleepOver => "sleep_over",
            Self::ProbesOk => "probes_ok",
            Self::ProbesAnswered => "probes_answered",
            Self::ProbeFailed => "probe_failed",
            Self::ProbeTimedOut => "probe_timed_out",
            Self::LateResponse => "late_response",
            Self::RecoveriesExhausted => "recoveries_exhausted",
            Self::AutoRecover => "auto_recover",
            Self::Forced => "forced",
            Self::Released => "released",
        }
    }
}

impl fmt::Display for TransitionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
