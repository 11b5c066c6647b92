//! The closed sets of words in which the admin API speaks, where the crates below have none of their
//! own. They are part of the interface: each is in the API's document.

use outflow::WaitReason;
use outflow::cache::DiskState;
use outflow::core::{Accounting, AttemptEnd, HealthOverride, LimitKind, OutcomeClass, TrendShape};
use outflow::event::TaskState;

/// What a call waits for.
pub(crate) const fn why(why: &WaitReason) -> &'static str {
    match why {
        WaitReason::Limit { .. } => "limit",
        WaitReason::Turn => "turn",
        WaitReason::Concurrency { .. } => "concurrency",
        WaitReason::Cooldown => "cooldown",
        WaitReason::State(_) => "state",
        _ => "other",
    }
}

/// What an attempt counts as.
pub(crate) const fn effect(effect: OutcomeClass) -> &'static str {
    match effect {
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

/// How an attempt ended, where it has no status.
pub(crate) const fn ended(ended: AttemptEnd) -> &'static str {
    match ended {
        AttemptEnd::Status(_) => "answered",
        AttemptEnd::Cancelled => "cancelled",
        AttemptEnd::Fault(fault) => fault.name(),
    }
}

/// How the quantity of a limit returns.
pub(crate) const fn kind(kind: LimitKind) -> &'static str {
    match kind {
        LimitKind::Sliding => "sliding",
        LimitKind::Fixed => "fixed",
        LimitKind::Aligned => "aligned",
        LimitKind::Bucket { .. } => "bucket",
    }
}

/// Which moment of a call counts.
pub(crate) const fn accounting(accounting: Accounting) -> &'static str {
    match accounting {
        Accounting::Send => "send",
        Accounting::Safe => "safe",
        Accounting::Tight => "tight",
    }
}

/// Where the use of a limit is going.
pub(crate) const fn pattern(pattern: TrendShape) -> &'static str {
    match pattern {
        TrendShape::Steady => "steady",
        TrendShape::Rising => "rising",
        TrendShape::Falling => "falling",
        TrendShape::Bursty => "bursty",
    }
}

/// What an operator holds an API in.
pub(crate) const fn hold(hold: HealthOverride) -> &'static str {
    match hold {
        HealthOverride::Normal => "normal",
        HealthOverride::Throttle => "throttle",
        HealthOverride::Sleep => "offline",
        HealthOverride::CacheOnly => "cache_only",
    }
}

/// Whether the cache's directory is used.
pub(crate) const fn disk(state: DiskState) -> &'static str {
    match state {
        DiskState::None => "none",
        DiskState::Used => "used",
        DiskState::Failing => "failing",
        DiskState::Elsewhere => "elsewhere",
        DiskState::Unusable => "unusable",
    }
}

/// What became of background work.
pub(crate) const fn task(state: TaskState) -> &'static str {
    match state {
        TaskState::Running => "running",
        TaskState::Restarting { .. } => "restarting",
        TaskState::Ended => "ended",
    }
}
