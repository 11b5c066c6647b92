//! Events of an API, for observers.
//!
//! Events are values with names from closed sets: they hold no path, header or body, except the
//! path of a finished call without its query. Without observers an event costs one load: it is only
//! built for an observer. This one stream feeds logs, metrics, the live page and user code.

mod labels;
mod observers;

use std::time::Duration;

use outflow_core::{
    AttemptReport, Cost, HealthState, HealthTransition, LimitDrift, MeterEvent, Nanos, OutcomeClass, Rate, WallTime,
};
use smol_str::SmolStr;

pub use labels::{CacheLabel, FailureLabel, StatusLabel};
pub use observers::{Events, Observer};

use crate::cache::DiskState;
use crate::client::ReloadChanges;
use crate::http::ResolveError;
use crate::refusal::{Refusal, WaitEstimate};
use crate::trace::TraceId;

/// Event at an API.
#[derive(Clone, Debug)]
pub struct Event {
    /// Name of the API.
    pub api: SmolStr,
    /// Monotonic time.
    pub at: Nanos,
    /// Trace of the call that it is about, if any.
    pub trace: TraceId,
    /// Kind with its data.
    pub what: EventKind,
}

/// Kind of an event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// A call started to wait for a permit.
    Waiting {
        /// Group.
        group: SmolStr,
        /// Label of the endpoint.
        endpoint: Option<SmolStr>,
        /// Cost.
        cost: Cost,
        /// Estimate of the wait.
        explanation: WaitEstimate,
    },
    /// A call got its permit.
    Admitted {
        /// Group.
        group: SmolStr,
        /// Label of the endpoint.
        endpoint: Option<SmolStr>,
        /// Permit number.
        permit: u64,
        /// Cost.
        cost: Cost,
        /// Time waited.
        waited: Duration,
    },
    /// A call was refused.
    Refused {
        /// Group.
        group: SmolStr,
        /// Label of the endpoint.
        endpoint: Option<SmolStr>,
        /// Refusal.
        refusal: Refusal,
        /// Time waited.
        waited: Duration,
    },
    /// An attempt ended.
    Settled {
        /// Group.
        group: SmolStr,
        /// Label of the endpoint.
        endpoint: Option<SmolStr>,
        /// Permit number.
        permit: u64,
        /// End of the attempt.
        attempt: AttemptReport,
        /// Outcome class.
        effect: OutcomeClass,
        /// Time from sending to the first byte of the response.
        round_trip: Option<Duration>,
        /// Gauges for the log line of a bad end.
        vitals: Option<HealthGauges>,
    },
    /// The body of a settled response was truncated, which turns it into a failure.
    Broken {
        /// Group.
        group: SmolStr,
        /// Label of the endpoint.
        endpoint: Option<SmolStr>,
        /// Permit number.
        permit: u64,
        /// End of the body.
        attempt: AttemptReport,
        /// Outcome class.
        effect: OutcomeClass,
        /// Gauges for the log line.
        vitals: HealthGauges,
    },
    /// A permit was refunded.
    Refunded {
        /// Group.
        group: SmolStr,
        /// Label of the endpoint.
        endpoint: Option<SmolStr>,
        /// Permit number.
        permit: u64,
    },
    /// The health state changed.
    Moved {
        /// Group, if it has a state of its own.
        group: Option<SmolStr>,
        /// Transition.
        transition: HealthTransition,
        /// Gauges for the log line.
        vitals: HealthGauges,
    },
    /// The server asked all callers to wait.
    Cooling {
        /// Group, if it has a state of its own.
        group: Option<SmolStr>,
        /// End of the cooldown.
        until: Nanos,
        /// Length of the cooldown.
        wait: Duration,
        /// Gauges for the log line.
        vitals: HealthGauges,
    },
    /// A meter reports an event; `group` is `None` for API-wide limits.
    Meter {
        /// Group.
        group: Option<SmolStr>,
        /// Limit as configured; the event has the window and the capacity in force.
        limit: Rate,
        /// Event of the meter.
        event: MeterEvent,
    },
    /// The limit in effect started or stopped to differ from the configured one.
    Drifting {
        /// Group.
        group: Option<SmolStr>,
        /// Difference; `None` once it is gone.
        drift: Option<LimitDrift>,
        /// Direction of the change.
        change: DriftChange,
    },
    /// The usage of a limit crossed its threshold.
    Usage {
        /// Group.
        group: Option<SmolStr>,
        /// True above the threshold.
        raised: bool,
        /// Share of the limit in use, in parts per million.
        used_ppm: u32,
    },
    /// The memory of the meters crossed its threshold.
    Memory {
        /// True above the threshold.
        raised: bool,
        /// Bytes in use.
        bytes: u64,
    },
    /// Limit headers could not be parsed.
    Malformed {
        /// Number of headers.
        headers: u32,
    },
    /// An event of bulk jobs that use this client.
    Jobs {
        /// Name.
        event: &'static str,
        /// Message.
        words: Box<str>,
        /// True if an operator should act.
        alarming: bool,
    },
    /// The ledger of shared limits stopped or started again to answer.
    Ledger {
        /// Reason that it does not answer; `None` once it does.
        reason: Option<SmolStr>,
    },
    /// Another user of this key used quota.
    Foreign {
        /// Group.
        group: Option<SmolStr>,
        /// Units, at least.
        units: u64,
    },
    /// A failed attempt will be retried.
    Retrying {
        /// Number of the failed attempt, from 1.
        attempt: u32,
        /// Delay before the retry.
        delay: Duration,
        /// Wait that the server asked for.
        retry_after: Option<Duration>,
        /// Reason of the failure.
        reason: FailureLabel,
    },
    /// An attempt found no address for its host name.
    Unresolved {
        /// Error of the lookup.
        error: ResolveError,
    },
    /// The cache was queried.
    Cache {
        /// Result.
        lookup: CacheLabel,
    },
    /// The state of the cache directory changed.
    Disk {
        /// New state.
        state: DiskState,
    },
    /// A reload was applied or refused.
    Reloaded(ReloadEvent),
    /// A call ended with any result.
    Finished(Box<CallFinished>),
    /// An operator changed something.
    Operated {
        /// Group, if it concerns one.
        group: Option<SmolStr>,
        /// Action.
        action: &'static str,
        /// Operator, if known, and reason.
        who: SmolStr,
    },
    /// A background task started, ended or restarted.
    Task {
        /// Name.
        name: &'static str,
        /// New state.
        state: TaskState,
    },
}

/// Direction in which evidence moved a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriftChange {
    /// The limit was lowered.
    Lowered,
    /// The limit grew, and is still below the configured one.
    Raised,
    /// The configured limit is back.
    Ended,
}

/// Gauges at a change of health.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct HealthGauges {
    /// State after the event.
    pub state: HealthState,
    /// Consecutive throttles; at a transition, those that led to it.
    pub streak: u32,
    /// Share of failures in the window, in parts per million; at a transition, those that led to it.
    pub error_ppm: u32,
    /// Slowest rate in effect, in calls per second; 0 if nothing is limited.
    pub rate: f64,
    /// Maximum of attempts in flight.
    pub concurrency: u32,
    /// Time for which nothing is sent, if any.
    pub sleep: Option<Duration>,
    /// Wait that the server asked for.
    pub retry_after: Option<Duration>,
}

/// Finished call with all data of its log line.
#[derive(Clone, Debug)]
pub struct CallFinished {
    /// Wall time of the end.
    pub ts: WallTime,
    /// Group.
    pub group: SmolStr,
    /// Method; `OTHER` for unknown ones.
    pub method: &'static str,
    /// Path without query, cut to 256 bytes.
    pub path: SmolStr,
    /// Status label.
    pub status: StatusLabel,
    /// Status code, if a response came.
    pub code: Option<u16>,
    /// Reason of a failure.
    pub reason: Option<FailureLabel>,
    /// Duration of the call.
    pub latency: Duration,
    /// Number of attempts.
    pub attempts: u32,
    /// Health state at the end.
    pub state: HealthState,
    /// Time waited for permits.
    pub waited: Duration,
    /// Time after which the call can be repeated, if it was refused or throttled and that is known.
    pub retry_after: Option<Duration>,
    /// Identifier of this call.
    pub request_id: SmolStr,
}

/// State of a background task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// It runs.
    Running,
    /// It panicked and will restart.
    Restarting {
        /// Restarts so far.
        restarts: u32,
        /// Delay before the restart.
        delay: Duration,
    },
    /// It ended.
    Ended,
}

/// Result of a reload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReloadEvent {
    /// The configuration is in effect.
    Applied {
        /// Number of new APIs.
        added: usize,
        /// Number of removed APIs.
        removed: usize,
        /// Number of changed APIs.
        changed: usize,
        /// Number of keys that need a restart.
        waiting: usize,
    },
    /// The configuration has errors: the previous one stays in effect.
    Refused {
        /// Number of errors.
        errors: usize,
    },
}

impl ReloadEvent {
    /// Returns the result as one word, for logs and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Applied { .. } => "applied",
            Self::Refused { .. } => "refused",
        }
    }

    pub(crate) fn applied(changes: &ReloadChanges) -> Self {
        Self::Applied {
            added: changes.added.len(),
            removed: changes.removed.len(),
            changed: changes.changed.len(),
            waiting: changes.restart.len(),
        }
    }
}
