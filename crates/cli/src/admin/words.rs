//! The closed sets of words in which the admin API speaks, where the crates below have none of their
//! own. They are part of the interface: each is in the API's document.

use outflow::Why;
use outflow::cache::DiskState;
use outflow::core::{Accounting, Effect, Ended, Hold, Kind, Pattern};
use outflow::event::TaskState;

/// What a call waits for.
pub(super) const fn why(why: &Why) -> &'static str {
    match why {
        Why::Limit { .. } => "limit",
        Why::Turn => "turn",
        Why::Concurrency { .. } => "concurrency",
        Why::Cooldown => "cooldown",
        Why::State(_) => "state",
        _ => "other",
    }
}

/// What an attempt counts as.
pub(super) const fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Success => "success",
        Effect::Throttled => "throttled",
        Effect::ServerFailed => "server_failed",
        Effect::NetworkFailed => "network_failed",
        Effect::OtherFailed => "other_failed",
        Effect::Banned => "banned",
        Effect::Neutral => "neutral",
        Effect::Cancelled => "cancelled",
    }
}

/// How an attempt ended, where it has no status.
pub(super) const fn ended(ended: Ended) -> &'static str {
    match ended {
        Ended::Status(_) => "answered",
        Ended::Cancelled => "cancelled",
        Ended::Fault(fault) => fault.name(),
    }
}

/// How the quantity of a limit returns.
pub(super) const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Sliding => "sliding",
        Kind::Fixed => "fixed",
        Kind::Aligned => "aligned",
        Kind::Bucket { .. } => "bucket",
    }
}

/// Which moment of a call counts.
pub(super) const fn accounting(accounting: Accounting) -> &'static str {
    match accounting {
        Accounting::Send => "send",
        Accounting::Safe => "safe",
        Accounting::Tight => "tight",
    }
}

/// Where the use of a limit is going.
pub(super) const fn pattern(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Steady => "steady",
        Pattern::Rising => "rising",
        Pattern::Falling => "falling",
        Pattern::Bursty => "bursty",
    }
}

/// What an operator holds an API in.
pub(super) const fn hold(hold: Hold) -> &'static str {
    match hold {
        Hold::Normal => "normal",
        Hold::Throttle => "throttle",
        Hold::Sleep => "offline",
        Hold::CacheOnly => "cache_only",
    }
}

/// Whether the cache's directory is used.
pub(super) const fn disk(state: DiskState) -> &'static str {
    match state {
        DiskState::None => "none",
        DiskState::Used => "used",
        DiskState::Failing => "failing",
        DiskState::Elsewhere => "elsewhere",
        DiskState::Unusable => "unusable",
    }
}

/// What became of background work.
pub(super) const fn task(state: TaskState) -> &'static str {
    match state {
        TaskState::Running => "running",
        TaskState::Restarting { .. } => "restarting",
        TaskState::Ended => "ended",
    }
}
