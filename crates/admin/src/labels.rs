//! Labels of enum values for which the other crates define none.
//!
//! They are part of the interface: the OpenAPI document lists each one.

use outflow::cache::DiskState;
use outflow::core::{Accounting, AttemptEnd, HealthOverride, LimitKind, OutcomeClass, TrendShape};
use outflow::event::TaskState;

/// Returns the label of the class of an attempt.
pub(crate) const fn outcome_class(class: OutcomeClass) -> &'static str {
    match class {
        OutcomeClass::Success => "success",
        OutcomeClass::Throttled => "throttled",
        OutcomeClass::ServerFailed => "server_failed",
        OutcomeClass::NetworkFailed => "network_failed",
        OutcomeClass::OtherFailed => "other_failed",
        OutcomeClass::Banned => "banned",
        OutcomeClass::Neutral => "neutral",
        OutcomeClass::Cancelled => "cancelled",
    }
}

/// Returns the label of the end of an attempt.
pub(crate) const fn attempt_end(end: AttemptEnd) -> &'static str {
    match end {
        AttemptEnd::Status(_) => "answered",
        AttemptEnd::Cancelled => "cancelled",
        AttemptEnd::Fault(fault) => fault.name(),
    }
}

/// Returns the label of the kind of a limit.
pub(crate) const fn limit_kind(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::Sliding => "sliding",
        LimitKind::Fixed => "fixed",
        LimitKind::Aligned => "aligned",
        LimitKind::Bucket { .. } => "bucket",
    }
}

/// Returns the label of the accounting of a limit.
pub(crate) const fn accounting(accounting: Accounting) -> &'static str {
    match accounting {
        Accounting::Send => "send",
        Accounting::Safe => "safe",
        Accounting::Tight => "tight",
    }
}

/// Returns the label of the trend of a limit's usage.
pub(crate) const fn trend_shape(shape: TrendShape) -> &'static str {
    match shape {
        TrendShape::Steady => "steady",
        TrendShape::Rising => "rising",
        TrendShape::Falling => "falling",
        TrendShape::Bursty => "bursty",
    }
}

/// Returns the label of an operator's override.
pub(crate) const fn health_override(state: HealthOverride) -> &'static str {
    match state {
        HealthOverride::Normal => "normal",
        HealthOverride::Throttle => "throttle",
        HealthOverride::Sleep => "offline",
        HealthOverride::CacheOnly => "cache_only",
    }
}

/// Returns the label of the state of the cache directory.
pub(crate) const fn disk_state(state: DiskState) -> &'static str {
    match state {
        DiskState::None => "none",
        DiskState::Used => "used",
        DiskState::Failing => "failing",
        DiskState::Elsewhere => "elsewhere",
        DiskState::Unusable => "unusable",
    }
}

/// Returns the label of the state of a background task.
pub(crate) const fn task_state(state: TaskState) -> &'static str {
    match state {
        TaskState::Running => "running",
        TaskState::Restarting { .. } => "restarting",
        TaskState::Ended => "ended",
    }
}
