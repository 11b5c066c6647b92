//! Jobs: calls, or tasks of a handler, that the store keeps until they are over.
//!
//! The payload is opaque to the store; only the engine reads it. The store knows the tenant, the lane,
//! and when a job may start.

use std::time::Duration;

use bytes::Bytes;
use outflow_core::{Cost, Priority, WallTime};

use crate::action::ActionSpec;
use crate::name::Name;

/// A job to submit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewJob {
    /// The name that its submitter sets. A second job with this name, within [`SubmitBatch::remember`]
    /// after the end of the first, is a duplicate. A job without a name gets a unique one.
    pub id: Option<Name>,
    /// Its tenant. Tenants share a lane fairly.
    pub tenant: Name,
    /// Its lane. Jobs under the same limits share one.
    pub lane: Name,
    /// The units that it uses of a limit.
    pub cost: Cost,
    /// Its class among the jobs of its tenant. While it is first, it multiplies its tenant's share.
    pub priority: Priority,
    /// It does not start before this instant.
    pub not_before: Option<WallTime>,
    /// It does not start after this instant, and ends as expired instead.
    pub deadline: Option<WallTime>,
    /// The number of retries after failures.
    pub max_retries: u32,
    /// Its content.
    pub payload: Bytes,
}

impl NewJob {
    /// Creates a job of cost 1 and normal priority with three retries.
    pub fn new(tenant: Name, lane: Name, payload: Bytes) -> Self {
        Self {
            id: None,
            tenant,
            lane,
            cost: Cost::ONE,
            priority: Priority::Normal,
            not_before: None,
            deadline: None,
            max_retries: DEFAULT_RETRIES,
            payload,
        }
    }
}

/// Jobs that are submitted together, in one atomic step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmitBatch {
    /// The action of all jobs. An open action keeps its spec. The first accepted job opens a new or
    /// finished action. A batch without new jobs, or without free capacity, leaves the action as it is.
    /// An empty batch opens it, too, unless it only closes a finished action again.
    pub action: Option<ActionSpec>,
    /// Says if more batches follow.
    pub rest: BatchPosition,
    /// The jobs, in the order of each tenant.
    pub jobs: Vec<NewJob>,
    /// The store accepts no job beyond this number of waiting jobs.
    pub queue_max: u64,
    /// The store keeps the name of a finished job for this span.
    pub remember: Duration,
}

impl SubmitBatch {
    /// Creates a batch without an action, for a queue of ten million, whose names are kept for a day.
    pub fn from_jobs(jobs: Vec<NewJob>) -> Self {
        Self {
            action: None,
            rest: BatchPosition::More,
            jobs,
            queue_max: DEFAULT_QUEUE_MAX,
            remember: DEFAULT_REMEMBER,
        }
    }
}

/// Position of a batch in its action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchPosition {
    /// More batches may follow.
    More,
    /// The last batch: it closes the action, unless the queue was full for one of its jobs.
    Last,
}

/// Result of a submission. The jobs are durable before the caller sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmitResult {
    /// One receipt for each job, in their order.
    pub receipts: Vec<SubmitReceipt>,
    /// The number of all waiting jobs.
    pub queued: u64,
    /// The number of tenants that have work.
    pub active: u64,
}

/// Receipt of one submitted job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SubmitReceipt {
    /// It was accepted.
    Accepted {
        /// Its name.
        id: Name,
        /// The number of its tenant's waiting jobs in its lane, itself included.
        place: u64,
    },
    /// A job with this name exists: nothing was changed.
    Duplicate {
        /// The name.
        id: Name,
    },
    /// The queue is full: it was not accepted.
    Full,
    /// Its action is closed and not over: it was not accepted.
    Closed,
}

/// The error of one attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttemptError {
    /// The instant of the error.
    pub at: WallTime,
    /// The error, without secrets.
    pub message: String,
}

/// The default of the systems that users come from.
const DEFAULT_RETRIES: u32 = 3;

/// More than the worst day brings, and it fits a disk of a few gigabytes.
const DEFAULT_QUEUE_MAX: u64 = 10_000_000;

/// Long enough for a submitter that resends everything after an outage.
const DEFAULT_REMEMBER: Duration = Duration::from_hours(24);
