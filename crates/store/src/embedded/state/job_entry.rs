//! A job as memory knows it: where it stands, what it costs and what befell it.
//!
//! The payload is the large part and is here only while it is likely to be wanted soon; whoever takes a
//! job without one reads it from the disk.

use bytes::Bytes;
use outflow_core::{Cost, Priority, WallTime};

use crate::name::Name;

/// The line that a job stands in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct JobPosition {
    /// The number of the line on the disk.
    pub(crate) line: u32,
    pub(crate) lane: u32,
    pub(crate) tenant: u32,
    pub(crate) class: Priority,
}

/// What befell a job so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct AttemptHistory {
    pub(crate) attempts: u32,
    pub(crate) retries: u32,
    pub(crate) throttles: u32,
    pub(crate) recoveries: u32,
}

impl AttemptHistory {
    /// A worker lived through an attempt: it was not this job that others died of.
    pub(crate) const fn survived(&mut self) {
        self.recoveries = 0;
    }

    /// Whether anything may be written of what befell it. Every mishap ended an attempt, and one that was lost is
    /// not counted any more once another was survived.
    pub(crate) const fn may_have_history(&self) -> bool {
        self.attempts > 1 || self.retries > 0 || self.recoveries > 0
    }
}

/// A job without its number.
#[derive(Clone, Debug)]
pub(crate) struct JobEntry {
    pub(crate) place: JobPosition,
    pub(crate) action: Option<u32>,
    pub(crate) cost: Cost,
    pub(crate) deadline: Option<WallTime>,
    pub(crate) max_retries: u32,
    pub(crate) tries: AttemptHistory,
    pub(crate) body: Option<JobBody>,
}

/// What is read only when the job is given out.
#[derive(Clone, Debug)]
pub(crate) struct JobBody {
    /// The name that its submitter gave it.
    pub(crate) name: Option<Name>,
    pub(crate) payload: Bytes,
}

impl JobBody {
    /// What it takes of memory, roughly.
    pub(crate) const fn weight(&self) -> usize {
        self.payload.len() + 64
    }
}

/// Jobs of one line whose numbers follow each other: what memory knows of those that it has not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdRun {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl IdRun {
    /// The number after the last.
    pub(crate) const fn end(self) -> u64 {
        self.first + self.count
    }
}

/// So many jobs at most are read at once, and a run is never longer: what comes in between two reads of a
/// busy line is worth a transaction, and a page of payloads is not yet much memory.
pub(crate) const RUN_MOST: usize = 64;
