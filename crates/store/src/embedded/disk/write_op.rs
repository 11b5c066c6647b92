//! Changes that the writer makes durable: one value for each kind of change.
//!
//! The state changes first and records the change here. A change that ended a claim carries the claim, so
//! that the session gets it back if the disk fails.

use std::time::Duration;

use outflow_core::WallTime;
use tokio::sync::oneshot;

use crate::embedded::ops::collect_garbage::GarbageSweep;
use crate::embedded::ops::transitions::JobEnding;
use crate::embedded::state::action::ActionState;
use crate::embedded::state::claims::ClaimState;
use crate::embedded::state::job_entry::{AttemptHistory, IdRun, JobEntry, JobPosition};
use crate::error::StoreError;
use crate::job::{SubmitBatch, SubmitResult};
use crate::name::Name;
use crate::tenant::TenantRule;

/// A change, and the claim that it ended.
#[derive(Debug)]
pub(crate) struct WriteStep {
    pub(crate) op: WriteOp,
    pub(crate) undo: Option<ClaimState>,
}

/// One change.
#[derive(Debug)]
pub(crate) enum WriteOp {
    Submit(Box<PendingSubmission>),
    Lane(u32, Name),
    Tenant(u32, Name),
    Queue(JobPosition),
    /// A job gets a mark.
    Mark(JobMark),
    /// A job loses its mark: it waits as if it had never been claimed.
    Unmark(u64),
    AttemptError {
        seq: u64,
        at: WallTime,
        words: String,
    },
    /// A job of this tenant is over.
    Over(Name, Box<JobEnding>),
    /// A job was throttled or deferred.
    Throttled {
        tenant: u32,
        action: Option<u32>,
    },
    RunOver(IdRun),
    /// A tenant gets its own rule, or loses it.
    Rule(u32, Option<Box<TenantRule>>),
    Paused(u32, PauseWrite),
    Congested {
        tenant: u32,
        backoff: Duration,
        speed: u64,
        at: WallTime,
    },
    Reset(u32),
    /// An action without its counts, which change on their own.
    Action(u32, Box<ActionState>),
    Letters(LetterOp),
    Sweep(GarbageSweep),
}

/// A submission. The writer decides about it, because it alone knows which names are in use.
#[derive(Debug)]
pub(crate) struct PendingSubmission {
    pub(crate) batch: SubmitBatch,
    pub(crate) reply: oneshot::Sender<Result<SubmitResult, StoreError>>,
}

/// The state of a job that does not simply wait in its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JobMark {
    pub(crate) seq: u64,
    pub(crate) state: MarkState,
    pub(crate) history: AttemptHistory,
    /// The end of its delay in civil time, because monotonic time does not survive the process.
    pub(crate) due: Option<WallTime>,
    /// The length of its delay, which bounds it if the clock is set back.
    pub(crate) span: Option<Duration>,
}

impl JobMark {
    /// A mark without a delay.
    pub(crate) const fn new(seq: u64, state: MarkState, history: AttemptHistory) -> Self {
        Self {
            seq,
            state,
            history,
            due: None,
            span: None,
        }
    }
}

/// The kind of a mark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MarkState {
    /// It waits in its queue, and was claimed before.
    Returned,
    Claimed,
    /// Claimed, and cancelled afterwards.
    Cancelled,
    Retry,
    Deferred,
    /// Its submitter set a start.
    Start,
}

impl MarkState {
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Returned => 0,
            Self::Claimed => 1,
            Self::Cancelled => 2,
            Self::Retry => 3,
            Self::Deferred => 4,
            Self::Start => 5,
        }
    }

    pub(crate) const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Claimed,
            2 => Self::Cancelled,
            3 => Self::Retry,
            4 => Self::Deferred,
            5 => Self::Start,
            _ => Self::Returned,
        }
    }
}

/// The pause of a tenant or an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PauseWrite {
    Paused,
    Running,
}

/// A change of dead letters.
#[derive(Debug)]
pub(crate) enum LetterOp {
    Requeued(Vec<LetterWrite>),
    Purged(Vec<LetterWrite>),
}

/// One dead letter that is requeued or purged.
#[derive(Clone, Debug)]
pub(crate) struct LetterWrite {
    pub(crate) place: u64,
    pub(crate) seq: u64,
    pub(crate) entry: JobEntry,
    /// The action that the job leaves, because it is finished.
    pub(crate) ended_action: Option<u32>,
}
