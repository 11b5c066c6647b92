//! What is to be written: one value for each thing that can happen to what the disk keeps.
//!
//! Memory changes first and says here what it did; the writer makes it durable. A change that ended a
//! claim carries the claim, so that it can be given back if the disk refuses.

use std::time::Duration;

use outflow_core::WallTime;
use tokio::sync::oneshot;

use crate::embedded::ops::collect_garbage::GarbageSweep;
use crate::embedded::state::action::ActionState;
use crate::embedded::state::claims::ClaimState;
use crate::embedded::state::job_entry::{AttemptHistory, IdRun, JobEntry, JobPosition};
use crate::error::StoreError;
use crate::job::{SubmitBatch, SubmitResult};
use crate::name::Name;
use crate::settle::{JobStatus, StoredResult};
use crate::tenant::TenantRule;

/// A change, and what it takes to undo it in memory.
#[derive(Debug)]
pub(crate) struct WriteStep {
    pub(crate) change: WriteOp,
    pub(crate) undo: Option<ClaimState>,
}

impl From<WriteOp> for WriteStep {
    fn from(change: WriteOp) -> Self {
        Self { change, undo: None }
    }
}

#[derive(Debug)]
pub(crate) enum WriteOp {
    Submit(Box<PendingSubmission>),
    Lane(u32, Name),
    Tenant(u32, Name),
    Line(JobPosition),
    /// A job has a state of its own.
    Mark(JobMark),
    /// It has none any more: it stands in line as if it had never been claimed.
    Unmark(u64),
    Mishap {
        seq: u64,
        at: WallTime,
        words: String,
    },
    Over(Box<JobOver>),
    /// A job of these was refused or put off.
    Throttled {
        tenant: u32,
        action: Option<u32>,
    },
    RunOver(IdRun),
    /// A tenant has this rule of its own, or none.
    Rule(u32, Option<Box<TenantRule>>),
    Paused(u32, PauseWrite),
    Congested {
        tenant: u32,
        backoff: Duration,
        speed: u64,
        at: WallTime,
    },
    Reset(u32),
    Action(Box<ActionRow>),
    Letters(LetterOp),
    Tidy(GarbageSweep),
}

/// Jobs to be taken: decided by the writer, who alone knows which names are in use.
#[derive(Debug)]
pub(crate) struct PendingSubmission {
    pub(crate) batch: SubmitBatch,
    pub(crate) reply: oneshot::Sender<Result<SubmitResult, StoreError>>,
}

/// The state of a job that is more than a place in line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JobMark {
    pub(crate) seq: u64,
    pub(crate) state: MarkState,
    pub(crate) tries: AttemptHistory,
    /// When it may go, in civil time: monotonic time does not outlive the process.
    pub(crate) due: Option<WallTime>,
    /// How long that was, so that a clock that was set back cannot make it longer.
    pub(crate) span: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MarkState {
    /// It stands in line, and something befell it before.
    Back,
    Claimed,
    /// Claimed, and cancelled meanwhile.
    Doomed,
    Retry,
    PutOff,
    /// Its submitter said when.
    Start,
}

impl MarkState {
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Back => 0,
            Self::Claimed => 1,
            Self::Doomed => 2,
            Self::Retry => 3,
            Self::PutOff => 4,
            Self::Start => 5,
        }
    }

    pub(crate) const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Claimed,
            2 => Self::Doomed,
            3 => Self::Retry,
            4 => Self::PutOff,
            5 => Self::Start,
            _ => Self::Back,
        }
    }
}

/// The end of a job.
#[derive(Debug)]
pub(crate) struct JobOver {
    pub(crate) seq: u64,
    pub(crate) place: JobPosition,
    pub(crate) tenant: Name,
    pub(crate) action: Option<u32>,
    pub(crate) ended: JobStatus,
    pub(crate) tries: AttemptHistory,
    pub(crate) at: WallTime,
    pub(crate) took: Duration,
    pub(crate) kept: Option<StoredResult>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PauseWrite {
    Stopped,
    Running,
}

/// An action without its counts, which move by themselves.
#[derive(Clone, Debug)]
pub(crate) struct ActionRow {
    pub(crate) id: u32,
    pub(crate) state: ActionState,
}

/// What happened to dead letters, by their places.
#[derive(Debug)]
pub(crate) enum LetterOp {
    Revived(Vec<LetterWrite>),
    Purged(Vec<LetterWrite>),
}

/// One dead letter on its way.
#[derive(Clone, Debug)]
pub(crate) struct LetterWrite {
    pub(crate) place: u64,
    pub(crate) seq: u64,
    pub(crate) entry: JobEntry,
    /// The action that goes on without it, because it was over.
    pub(crate) left: Option<u32>,
}
