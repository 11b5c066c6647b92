//! A job: what is kept of a call, or of a piece of somebody's own work, until it is done.
//!
//! What the work is stays closed to the store: the payload is bytes that only the engine reads. The
//! store knows who it is for, which line it stands in, and when it may go.

use std::time::Duration;

use bytes::Bytes;
use outflow_core::{Cost, Priority, WallTime};

use crate::action::ActionSpec;
use crate::name::Name;

/// A job that somebody wants done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewJob {
    /// What its submitter calls it. A second job of the same name, within [`SubmitBatch::remember`] of the
    /// first's end, is the first. Without a name it gets one that no other has.
    pub id: Option<Name>,
    /// For whom: tenants share a lane fairly.
    pub tenant: Name,
    /// Which line it stands in: jobs that meet the same limits share one.
    pub lane: Name,
    /// How much of a limit it uses.
    pub cost: Cost,
    /// Its class among the jobs of its tenant, and its tenant's claim while it is first.
    pub priority: Priority,
    /// It does not begin before.
    pub not_before: Option<WallTime>,
    /// It does not begin after, and ends as expired instead.
    pub deadline: Option<WallTime>,
    /// How often it may fail and be tried again.
    pub max_retries: u32,
    /// What it is.
    pub payload: Bytes,
}

impl NewJob {
    /// A job of cost 1 and normal priority that may be tried again three times.
    pub fn new(tenant: Name, lane: Name, payload: Bytes) -> Self {
        Self {
            id: None,
            tenant,
            lane,
            cost: Cost::ONE,
            priority: Priority::Normal,
            not_before: None,
            deadline: None,
            max_retries: USUAL_RETRIES,
            payload,
        }
    }
}

/// Jobs that are submitted together: one atomic step, whether one or a thousand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmitBatch {
    /// The action that all of them belong to. One that is open stays as it was opened. One that nobody
    /// opened, or that is over, is opened with the first job that is taken into it: a batch of which
    /// nothing is new, or that finds no room, leaves what is known of it as it is. A batch without any job
    /// opens it as well, unless it only says once more that one that is over gets no more.
    pub action: Option<ActionSpec>,
    /// Whether more will come.
    pub rest: BatchPosition,
    /// The jobs, in the order in which each tenant's are to go.
    pub jobs: Vec<NewJob>,
    /// No job is taken beyond this many that wait.
    pub queue_max: u64,
    /// How long the name of a finished job is remembered.
    pub remember: Duration,
}

impl SubmitBatch {
    /// A batch of no action, into a queue of ten million, whose names are remembered for a day.
    pub fn from_jobs(jobs: Vec<NewJob>) -> Self {
        Self {
            action: None,
            rest: BatchPosition::More,
            jobs,
            queue_max: USUAL_QUEUE,
            remember: A_DAY,
        }
    }
}

/// Whether an action will get more jobs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchPosition {
    /// More may come.
    More,
    /// This was the last batch: the action is closed with it, unless a job of it found no room.
    Last,
}

/// What became of a batch. It is on the disk, or wherever the store keeps things, before this is seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmitResult {
    /// One for each job, in their order.
    pub receipts: Vec<SubmitReceipt>,
    /// How many jobs wait now in all.
    pub queued: u64,
    /// How many tenants have work now.
    pub active: u64,
}

/// What became of one job of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SubmitReceipt {
    /// It was taken.
    Accepted {
        /// Its name.
        id: Name,
        /// How many of its tenant wait in its lane, itself included.
        place: u64,
    },
    /// A job of this name is known, so nothing was changed.
    Duplicate {
        /// The name.
        id: Name,
    },
    /// As many jobs wait as may; it was not taken.
    Full,
    /// Its action was closed and is not over yet. It was not taken.
    Closed,
}

/// One attempt's end, as it is remembered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttemptError {
    /// When.
    pub at: WallTime,
    /// What happened, without a secret.
    pub words: String,
}

/// As the seeds' users are used to.
const USUAL_RETRIES: u32 = 3;

/// More than the worst day brings, and what a disk of a few gigabytes holds.
const USUAL_QUEUE: u64 = 10_000_000;

/// Long enough for a submitter to come back after an outage and send everything again.
const A_DAY: Duration = Duration::from_hours(24);
