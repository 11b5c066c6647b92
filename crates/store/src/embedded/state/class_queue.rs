//! Queue of one class of one tenant in one lane, in the order of submission.
//!
//! The first jobs are in memory. Of the rest only the runs of numbers are known; they are read shortly
//! before they are next. A returning job enters by its number, so that it precedes all later submissions
//! without moving any of them.

use std::collections::{BTreeMap, VecDeque};

use outflow_core::{Priority, Tenant};

use super::job_entry::{IdRun, JobEntry};
use super::priority_classes::{ByClass, CLASSES, ClassOrder};

/// One queue.
#[derive(Debug, Default)]
pub(crate) struct ClassQueue {
    /// Its id on the disk, 0 before it has one.
    pub(crate) id: u32,
    /// Jobs that were read, or returned.
    pub(crate) front: BTreeMap<u64, JobEntry>,
    /// Jobs that were not read yet.
    pub(crate) runs: VecDeque<IdRun>,
    /// All its jobs on the disk: queued, delayed, held or in flight.
    pub(crate) live: u64,
}

impl ClassQueue {
    /// Returns true if a job of it may be next.
    pub(crate) fn has_work(&self) -> bool {
        !self.front.is_empty() || !self.runs.is_empty()
    }

    /// Returns true if this job belongs to a run that was not read yet. The disk cannot answer that: a
    /// finished job may still have its row.
    pub(crate) fn has_unread(&self, seq: u64) -> bool {
        let after = self.runs.partition_point(|run| run.first <= seq);
        let before = after.checked_sub(1).and_then(|at| self.runs.get(at));
        before.is_some_and(|run| seq < run.end())
    }

    /// Removes and returns the run that must be read before the first job is known.
    pub(crate) fn run_to_read(&mut self) -> Option<IdRun> {
        let run = *self.runs.front()?;
        match self.front.first_key_value() {
            Some((first, _)) if *first < run.first => None,
            _ => self.runs.pop_front(),
        }
    }
}

/// A tenant in one lane.
#[derive(Debug)]
pub(crate) struct LaneTenant {
    /// Its place in the lane's order.
    pub(crate) handle: Tenant,
    pub(crate) queues: ByClass<ClassQueue>,
    pub(crate) classes: ClassOrder,
    /// The best waiting class, which its weight in the order includes.
    pub(crate) best: Priority,
    /// Its waiting jobs in this lane, queued or delayed.
    pub(crate) queued: u64,
    /// Waiting jobs of paused actions.
    pub(crate) held: u64,
}

impl LaneTenant {
    pub(crate) fn new(handle: Tenant) -> Self {
        Self {
            handle,
            queues: ByClass::default(),
            classes: ClassOrder::default(),
            best: Priority::Normal,
            queued: 0,
            held: 0,
        }
    }

    /// Returns the class that is next in order.
    pub(crate) fn next_class(&self) -> Option<Priority> {
        self.classes.first(|class| self.queues.get(class).has_work())
    }

    /// Returns the best class that has work.
    pub(crate) fn best_waiting(&self) -> Option<Priority> {
        let has_work = |class: &Priority| self.queues.get(*class).has_work();
        CLASSES.into_iter().find(has_work)
    }

    /// Adds a job to its queue.
    pub(crate) fn insert(&mut self, seq: u64, entry: JobEntry) {
        let class = entry.position.class;
        if !self.queues.get(class).has_work() {
            self.classes.arrive(class);
        }
        self.queues.get_mut(class).front.insert(seq, entry);
    }
}
