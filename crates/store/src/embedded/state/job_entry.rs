//! Jobs in memory: position, cost and history.
//!
//! The payload is the large part. Memory holds it only while the job is near the front of its queue.

use bytes::Bytes;
use outflow_core::{Cost, Priority, WallTime};

use crate::name::Name;

/// The queue of a job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct JobPosition {
    /// The id of the queue on the disk.
    pub(crate) queue: u32,
    pub(crate) lane: u32,
    pub(crate) tenant: u32,
    pub(crate) class: Priority,
}

/// The attempts of a job so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct AttemptHistory {
    pub(crate) attempts: u32,
    pub(crate) retries: u32,
    pub(crate) throttles: u32,
    pub(crate) recoveries: u32,
}

impl AttemptHistory {
    /// Notes that a worker survived an attempt: this job did not kill the earlier ones.
    pub(crate) const fn reset_recoveries(&mut self) {
        self.recoveries = 0;
    }

    /// Returns true if errors of it may be on the disk. Every error ended an attempt, and a survived attempt
    /// resets the count of lost ones.
    pub(crate) const fn may_have_errors(&self) -> bool {
        self.attempts > 1 || self.retries > 0 || self.recoveries > 0
    }
}

/// A job without its number.
#[derive(Clone, Debug)]
pub(crate) struct JobEntry {
    pub(crate) position: JobPosition,
    pub(crate) action: Option<u32>,
    pub(crate) cost: Cost,
    pub(crate) deadline: Option<WallTime>,
    pub(crate) max_retries: u32,
    pub(crate) history: AttemptHistory,
    pub(crate) body: Option<JobBody>,
}

impl JobEntry {
    /// Uses one retry after a survived attempt, and returns false if none is left.
    pub(crate) const fn use_retry(&mut self) -> bool {
        if self.history.retries >= self.max_retries {
            return false;
        }
        self.history.retries += 1;
        self.history.reset_recoveries();
        true
    }
}

/// The part of a job that only a claim needs.
#[derive(Clone, Debug)]
pub(crate) struct JobBody {
    /// The name that its submitter set.
    pub(crate) name: Option<Name>,
    pub(crate) payload: Bytes,
}

impl JobBody {
    /// Estimates its size in memory.
    pub(crate) const fn memory_bytes(&self) -> usize {
        self.payload.len() + 64
    }
}

/// Jobs of one queue with consecutive numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdRun {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl IdRun {
    /// Returns the number after the last.
    pub(crate) const fn end(self) -> u64 {
        self.first + self.count
    }
}

/// Jobs of a run at most, which are read at once: enough for a transaction, and still little memory.
pub(crate) const RUN_LIMIT: usize = 64;
