//! A job as memory knows it: where it stands, what it costs and what befell it.
//!
//! The payload is the large part and is here only while it is likely to be wanted soon; whoever takes a
//! job without one reads it from the disk.

use bytes::Bytes;
use outflow_core::{Cost, Priority, WallTime};

use crate::name::Name;

/// The line that a job stands in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct JobPosition {
    /// The number of the line on the disk.
    pub(super) line: u32,
    pub(super) lane: u32,
    pub(super) tenant: u32,
    pub(super) class: Priority,
}

/// What befell a job so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct AttemptHistory {
    pub(super) attempts: u32,
    pub(super) retries: u32,
    pub(super) throttles: u32,
    pub(super) recoveries: u32,
}

impl AttemptHistory {
    /// A worker lived through an attempt: it was not this job that others died of.
    pub(super) const fn survived(&mut self) {
        self.recoveries = 0;
    }

    /// Whether anything may be written of what befell it. Every mishap ended an attempt, and one that was lost is
    /// not counted any more once another was survived.
    pub(super) const fn may_have_history(&self) -> bool {
        self.attempts > 1 || self.retries > 0 || self.recoveries > 0
    }
}

/// A job without its number.
#[derive(Clone, Debug)]
pub(super) struct JobEntry {
    pub(super) place: JobPosition,
    pub(super) action: Option<u32>,
    pub(super) cost: Cost,
    pub(super) deadline: Option<WallTime>,
    pub(super) max_retries: u32,
    pub(super) tries: AttemptHistory,
    pub(super) body: Option<JobBody>,
}

/// What is read only when the job is given out.
#[derive(Clone, Debug)]
pub(super) struct JobBody {
    /// The name that its submitter gave it.
    pub(super) name: Option<Name>,
    pub(super) payload: Bytes,
}

impl JobBody {
    /// What it takes of memory, roughly.
    pub(super) const fn weight(&self) -> usize {
        self.payload.len() + 64
    }
}

/// Jobs of one line whose numbers follow each other: what memory knows of those that it has not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IdRun {
    pub(super) first: u64,
    pub(super) count: u64,
}

impl IdRun {
    /// The number after the last.
    pub(super) const fn end(self) -> u64 {
        self.first + self.count
    }
}

/// So many jobs at most are read at once, and a run is never longer: what comes in between two reads of a
/// busy line is worth a transaction, and a page of payloads is not yet much memory.
pub(super) const RUN_MOST: usize = 64;
