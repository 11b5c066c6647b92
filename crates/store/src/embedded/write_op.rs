//! What is to be written: one value for each thing that can happen to what the disk keeps.
//!
//! Memory changes first and says here what it did; the writer makes it durable. A change that ended a
//! claim carries the claim, so that it can be given back if the disk refuses.

use std::time::Duration;

use outflow_core::WallTime;
use tokio::sync::oneshot;

use super::action::ActionState;
use super::claims::ClaimState;
use super::collect_garbage::GarbageSweep;
use super::job_entry::{AttemptHistory, IdRun, JobEntry, JobPosition};
use crate::error::StoreError;
use crate::job::{SubmitBatch, SubmitResult};
use crate::name::Name;
use crate::settle::{JobStatus, StoredResult};
use crate::tenant::TenantRule;

/// A change, and what it takes to undo it in memory.
#[derive(Debug)]
pub(super) struct WriteStep {
    pub(super) change: WriteOp,
    pub(super) undo: Option<ClaimState>,
}

impl From<WriteOp> for WriteStep {
    fn from(change: WriteOp) -> Self {
        Self { change, undo: None }
    }
}

#[derive(Debug)]
pub(super) enum WriteOp {
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
pub(super) struct PendingSubmission {
    pub(super) batch: SubmitBatch,
    pub(super) reply: oneshot::Sender<Result<SubmitResult, StoreError>>,
}

/// The state of a job that is more than a place in line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct JobMark {
    pub(super) seq: u64,
    pub(super) state: MarkState,
    pub(super) tries: AttemptHistory,
    /// When it may go, in civil time: monotonic time does not outlive the process.
    pub(super) due: Option<WallTime>,
    /// How long that was, so that a clock that was set back cannot make it longer.
    pub(super) span: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MarkState {
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
    pub(super) const fn number(self) -> u32 {
        match self {
            Self::Back => 0,
            Self::Claimed => 1,
            Self::Doomed => 2,
            Self::Retry => 3,
            Self::PutOff => 4,
            Self::Start => 5,
        }
    }

    pub(super) const fn from_number(number: u32) -> Self {
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
pub(super) struct JobOver {
    pub(super) seq: u64,
    pub(super) place: JobPosition,
    pub(super) tenant: Name,
    pub(super) action: Option<u32>,
    pub(super) ended: JobStatus,
    pub(super) tries: AttemptHistory,
    pub(super) at: WallTime,
    pub(super) took: Duration,
    pub(super) kept: Option<StoredResult>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PauseWrite {
    Stopped,
    Running,
}

/// An action without its counts, which move by themselves.
#[derive(Clone, Debug)]
pub(super) struct ActionRow {
    pub(super) id: u32,
    pub(super) state: ActionState,
}

/// What happened to dead letters, by their places.
#[derive(Debug)]
pub(super) enum LetterOp {
    Revived(Vec<LetterWrite>),
    Purged(Vec<LetterWrite>),
}

/// One dead letter on its way.
#[derive(Clone, Debug)]
pub(super) struct LetterWrite {
    pub(super) place: u64,
    pub(super) seq: u64,
    pub(super) entry: JobEntry,
    /// The action that goes on without it, because it was over.
    pub(super) left: Option<u32>,
}
