//! What happens at the door, told to whoever listens.
//!
//! Events are values with names from closed sets: no path, header or body is ever in one, except the
//! path of a finished call, without its query. Nobody listening costs one load: an event is built
//! only for an ear. This is the one stream that logs, metrics, the live page and the user's own code
//! read.

mod labels;
mod observers;

use std::time::Duration;

use outflow_core::{
    AttemptReport, Cost, HealthState, HealthTransition, LimitDrift, MeterEvent, Nanos,
    OutcomeClass, WallTime,
};
use smol_str::SmolStr;

pub use labels::{CacheLabel, FailureLabel, StatusLabel};
pub use observers::{Events, Observer};

use crate::cache::DiskState;
use crate::client::ReloadChanges;
use crate::http::ResolveError;
use crate::refusal::{Refusal, WaitEstimate};

/// Something that happened, at an API.
#[derive(Clone, Debug)]
pub struct Event {
    /// The API.
    pub api: SmolStr,
    /// When, in monotonic time.
    pub at: Nanos,
    /// What.
    pub what: EventKind,
}

/// What happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// A call began to wait for its permit.
    Waiting {
        /// Its group.
        group: SmolStr,
        /// What it costs.
        cost: Cost,
        /// What it waits for.
        explanation: WaitEstimate,
    },
    /// A call may go.
    Admitted {
        /// Its group.
        group: SmolStr,
        /// The permit's number.
        permit: u64,
        /// What it costs.
        cost: Cost,
        /// How long it waited.
        waited: Duration,
    },
    /// A call may not go.
    Refused {
        /// Its group.
        group: SmolStr,
        /// Why.
        refusal: Refusal,
        /// How long it had waited.
        waited: Duration,
    },
    /// An attempt ended.
    Settled {
        /// Its group.
        group: SmolStr,
        /// The permit's number.
        permit: u64,
        /// How it ended.
        attempt: AttemptReport,
        /// What that counts as.
        effect: OutcomeClass,
        /// From sending to the first byte of the answer, if one came.
        round_trip: Option<Duration>,
        /// What the log line tells with it, where it ended badly.
        vitals: Option<HealthGauges>,
    },
    /// The body of an answer that was settled broke off, which makes a failure of it after all.
    Broken {
        /// Its group.
        group: SmolStr,
        /// The permit's number.
        permit: u64,
        /// How it broke.
        attempt: AttemptReport,
        /// What that counts as.
        effect: OutcomeClass,
        /// What the log line tells with it.
        vitals: HealthGauges,
    },
    /// A permit was given back unused.
    Refunded {
        /// Its group.
        group: SmolStr,
        /// The permit's number.
        permit: u64,
    },
    /// The state changed; `group` is named where each group has its own.
    Moved {
        /// The group, if it has a state of its own.
        group: Option<SmolStr>,
        /// The move.
        transition: HealthTransition,
        /// What the log line tells with it.
        vitals: HealthGauges,
    },
    /// The server asked everybody to wait.
    Cooling {
        /// The group, if it has a state of its own.
        group: Option<SmolStr>,
        /// Until when.
        until: Nanos,
        /// How long that is.
        wait: Duration,
        /// What the log line tells with it.
        vitals: HealthGauges,
    },
    /// A meter tells something; `group` is `None` for the limits of the whole API.
    Meter {
        /// The group.
        group: Option<SmolStr>,
        /// What it tells.
        event: MeterEvent,
    },
    /// The limit in effect is not the configured one, or is again.
    Drifting {
        /// The group.
        group: Option<SmolStr>,
        /// By how much; `None` when it is over.
        drift: Option<LimitDrift>,
    },
    /// A threshold of use was reached and held, or left.
    Usage {
        /// The group.
        group: Option<SmolStr>,
        /// Whether it was reached.
        raised: bool,
        /// The share of the limit in use, of a million.
        used_ppm: u32,
    },
    /// The meters take more memory than the rules think good, or no longer do.
    Memory {
        /// Whether they do.
        raised: bool,
        /// How much they take.
        bytes: u64,
    },
    /// Headers about limits could not be understood.
    Malformed {
        /// How many.
        headers: u32,
    },
    /// Something about jobs that go through this client.
    Jobs {
        /// What it is called.
        event: &'static str,
        /// What there is to say about it.
        words: Box<str>,
        /// Whether somebody should look.
        alarming: bool,
    },
    /// Someone else used the same key.
    Foreign {
        /// The group.
        group: Option<SmolStr>,
        /// How much, at least.
        units: u64,
    },
    /// A failed attempt will be repeated.
    Retrying {
        /// Which attempt failed, from 1.
        attempt: u32,
        /// How long until the next.
        delay: Duration,
        /// Why it failed.
        reason: FailureLabel,
    },
    /// An attempt found no address for its name.
    Unresolved {
        /// Why.
        why: ResolveError,
    },
    /// The cache was asked.
    Cache {
        /// What it had.
        lookup: CacheLabel,
    },
    /// The cache's directory is not used, can no longer be written, or can again.
    Disk {
        /// Whether it is used.
        state: DiskState,
    },
    /// Another configuration was put into effect, or was not.
    Reloaded(ReloadEvent),
    /// A call is over, whatever came of it.
    Finished(Box<CallFinished>),
    /// Somebody who operates the program changed something.
    Operated {
        /// The group, if it was about one.
        group: Option<SmolStr>,
        /// What was done.
        action: &'static str,
        /// Who did it, as far as that is known, and why.
        who: SmolStr,
    },
    /// Background work began, ended or was restarted.
    Task {
        /// Its name.
        name: &'static str,
        /// What became of it.
        state: TaskState,
    },
}

/// The numbers beside a change of state.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HealthGauges {
    /// The state, after whatever happened.
    pub state: HealthState,
    /// Refusals in a row.
    pub streak: u32,
    /// The share of failures in the window, of a million.
    pub error_ppm: u32,
    /// The slowest rate in effect, in calls a second; 0 if nothing is limited.
    pub rate: f64,
    /// How many calls may be in flight.
    pub concurrency: u32,
    /// How long nothing goes, if nothing does.
    pub sleep: Option<Duration>,
    /// What the server asked for.
    pub retry_after: Option<Duration>,
}

impl Default for HealthGauges {
    /// Healthy, unlimited, and nothing seen.
    fn default() -> Self {
        Self {
            state: HealthState::Normal,
            streak: 0,
            error_ppm: 0,
            rate: 0.0,
            concurrency: 0,
            sleep: None,
            retry_after: None,
        }
    }
}

/// A finished call, with all that its log line says.
#[derive(Clone, Debug)]
pub struct CallFinished {
    /// When it ended, in civil time.
    pub ts: WallTime,
    /// Its group.
    pub group: SmolStr,
    /// Its method, from the methods that are known; `OTHER` for the rest.
    pub method: &'static str,
    /// Its path, without query, cut to 256 bytes.
    pub path: SmolStr,
    /// How it ended.
    pub status: StatusLabel,
    /// The code, if an answer came.
    pub code: Option<u16>,
    /// Why it failed, if it did.
    pub reason: Option<FailureLabel>,
    /// From the call to its end.
    pub latency: Duration,
    /// How many attempts were made.
    pub attempts: u32,
    /// The state at its end.
    pub state: HealthState,
    /// How long it waited for permits.
    pub waited: Duration,
    /// A number for this call.
    pub request_id: SmolStr,
    /// The trace it belongs to.
    pub trace_id: Option<SmolStr>,
}

/// What became of background work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// It runs.
    Running,
    /// It panicked and will be started again.
    Restarting {
        /// How often it was started again so far.
        restarts: u32,
        /// How long until it is.
        delay: Duration,
    },
    /// It ended.
    Ended,
}

/// What became of another configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReloadEvent {
    /// It is in effect.
    Applied {
        /// How many APIs are new.
        added: usize,
        /// How many are gone.
        removed: usize,
        /// How many differ.
        changed: usize,
        /// How many keys wait for the program to be started again.
        waiting: usize,
    },
    /// It has mistakes: the one before stays in effect.
    Refused {
        /// How many.
        mistakes: usize,
    },
}

impl ReloadEvent {
    /// The outcome in one word, for logs and metrics.
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
