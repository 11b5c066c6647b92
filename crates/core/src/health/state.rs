//! The states of an API and the moves between them.
//!
//! Names that reach logs and metrics are fixed here and nowhere else.

use core::fmt;

use crate::Nanos;

/// What state an API is in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HealthState {
    /// Calls go at the configured rates, or at a ramp towards them.
    Normal,
    /// Calls go at a reduced rate.
    Throttle,
    /// No call goes until a time.
    Sleep,
    /// A few probes find out whether the API is well.
    HalfOpen,
    /// No call goes; answers come from the cache.
    CacheOnly,
}

impl HealthState {
    /// The same state in the words of a circuit breaker.
    pub const fn circuit(self) -> CircuitState {
        match self {
            Self::Normal | Self::Throttle => CircuitState::Closed,
            Self::Sleep | Self::CacheOnly => CircuitState::Open,
            Self::HalfOpen => CircuitState::HalfOpen,
        }
    }

    /// The name in logs and metrics.
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

/// A state in the words of a circuit breaker: a view of the one machine, not a second one.
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
    /// The name in logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "CLOSED",
            Self::Open => "OPEN",
            Self::HalfOpen => "HALF_OPEN",
        }
    }
}

/// A state in which an operator holds an API until it is released; no timer and no outcome leaves it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HealthOverride {
    /// Full speed whatever happens; what the server asks to wait is still waited.
    Normal,
    /// Reduced speed.
    Throttle,
    /// Offline: no call is made.
    Sleep,
    /// No call is made and the cache answers.
    CacheOnly,
}

impl HealthOverride {
    /// The state in which it holds.
    pub const fn state(self) -> HealthState {
        match self {
            Self::Normal => HealthState::Normal,
            Self::Throttle => HealthState::Throttle,
            Self::Sleep => HealthState::Sleep,
            Self::CacheOnly => HealthState::CacheOnly,
        }
    }
}

/// A move from one state to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthTransition {
    /// The state that was left.
    pub from: HealthState,
    /// The state that was entered.
    pub to: HealthState,
    /// What moved it.
    pub reason: TransitionReason,
    /// When.
    pub at: Nanos,
    /// When a timer will leave the new state, if one will.
    pub until: Option<Nanos>,
}

/// What moved an API from one state to another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TransitionReason {
    /// Too large a share of the calls failed.
    ErrorRatio,
    /// Too many in a row were refused, or failed where failures make the streak.
    Streak,
    /// The server asked for a longer wait than is waited out in passing.
    RetryAfter,
    /// The server shut us out.
    Banned,
    /// Very many of the calls failed for long.
    ErrorRatioHeld,
    /// Enough calls succeeded and few failed.
    SuccessWindowOk,
    /// The time to sleep is over.
    SleepOver,
    /// All probes succeeded.
    ProbesOk,
    /// No probe failed, and so many were answered that the API must be there.
    ProbesAnswered,
    /// A probe failed.
    ProbeFailed,
    /// A probe stayed out for too long.
    ProbeTimedOut,
    /// Too many recoveries in a row failed.
    RecoveriesExhausted,
    /// It is time to try to recover.
    AutoRecover,
    /// An operator holds it here.
    Forced,
    /// An operator let it go.
    Released,
}

impl TransitionReason {
    /// The name in logs and metrics.
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
