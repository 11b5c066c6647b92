//! Log level of each event.
//!
//! `INFO` is what an operator reads on a normal day: calls, refusals, health transitions. `WARN`
//! needs attention, `ERROR` is a fault of our own; every step of every call is `DEBUG`.

use outflow_core::{HealthState, OutcomeClass};
use tracing::Level;

use crate::cache::DiskState;
use crate::event::{DriftChange, Event, EventKind, ReloadEvent, StatusLabel, TaskState};

/// Returns the level of an event.
pub(super) const fn level(event: &Event) -> Level {
    match &event.what {
        EventKind::Task {
            state: TaskState::Restarting { .. },
            ..
        }
        | EventKind::Reloaded(ReloadEvent::Refused { .. }) => Level::ERROR,
        EventKind::Moved { transition, .. } => match (transition.to, transition.from) {
            (HealthState::Normal | HealthState::Throttle | HealthState::HalfOpen, _)
            // A failed probe of an outage that was reported.
            | (HealthState::Sleep, HealthState::HalfOpen) => Level::INFO,
            (HealthState::Sleep | HealthState::CacheOnly, _) => Level::WARN,
        },
        EventKind::Finished(call) => match call.status {
            StatusLabel::ServerError | StatusLabel::Timeout | StatusLabel::Network => Level::WARN,
            _ => Level::INFO,
        },
        EventKind::Drifting {
            change: DriftChange::Lowered,
            ..
        }
        | EventKind::Usage { raised: true, .. }
        | EventKind::Memory { raised: true, .. }
        | EventKind::Disk {
            state: DiskState::Failing | DiskState::Elsewhere | DiskState::Unusable,
        }
        | EventKind::Meter { .. }
        | EventKind::Ledger { reason: Some(_) }
        | EventKind::Unresolved { .. }
        | EventKind::Jobs { alarming: true, .. }
        | EventKind::Malformed { .. } => Level::WARN,
        EventKind::Drifting {
            change: DriftChange::Raised,
            ..
        }
        | EventKind::Settled {
            effect: OutcomeClass::Success | OutcomeClass::Neutral | OutcomeClass::Cancelled,
            ..
        }
        | EventKind::Waiting { .. }
        | EventKind::Admitted { .. }
        | EventKind::Refunded { .. }
        | EventKind::Cache { .. }
        | EventKind::Task { .. } => Level::DEBUG,
        _ => Level::INFO,
    }
}
