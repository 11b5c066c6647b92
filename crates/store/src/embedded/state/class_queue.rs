//! Jobs of one class of one tenant in one lane, in the order in which they were submitted.
//!
//! The first ones are in memory; of the rest only the runs of numbers are known, and they are read when
//! their turn nears. A job that comes back enters by its number, so it stands before all that were
//! submitted after it without anybody moving anything.

use std::collections::{BTreeMap, VecDeque};

use super::job_entry::{IdRun, JobEntry};
use super::priority_classes::{ByClass, CLASSES, ClassOrder};
use outflow_core::{Priority, Tenant};

/// One line.
#[derive(Debug, Default)]
pub(crate) struct ClassQueue {
    /// Its number on the disk, 0 as long as it has none.
    pub(crate) id: u32,
    /// Jobs that were read, or came back.
    pub(crate) front: BTreeMap<u64, JobEntry>,
    /// Jobs that were not read yet, by their numbers.
    pub(crate) runs: VecDeque<IdRun>,
    /// All its jobs on the disk: in line, waiting for an instant, held back, or under way.
    pub(crate) live: u64,
}

impl ClassQueue {
    /// Whether a job of it may be next.
    pub(crate) fn waits(&self) -> bool {
        !self.front.is_empty() || !self.runs.is_empty()
    }

    /// Whether this job is of a run that was not read yet. The disk is no witness: a job that is over may
    /// still be there.
    pub(crate) fn has_unread(&self, seq: u64) -> bool {
        let after = self.runs.partition_point(|run| run.first <= seq);
        let before = after.checked_sub(1).and_then(|at| self.runs.get(at));
        before.is_some_and(|run| seq < run.end())
    }

    /// The run that has to be read before the first job is known.
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
    pub(crate) lines: ByClass<ClassQueue>,
    pub(crate) classes: ClassOrder,
    /// The best class that waits, which its claim was made with.
    pub(crate) best: Priority,
    /// Its jobs that wait in this lane, for a turn or for an instant.
    pub(crate) queued: u64,
}

impl LaneTenant {
    pub(crate) fn new(handle: Tenant) -> Self {
        Self {
            handle,
            lines: ByClass::default(),
            classes: ClassOrder::default(),
            best: Priority::Normal,
            queued: 0,
        }
    }

    /// The class whose turn it is.
    pub(crate) fn turn(&self) -> Option<Priority> {
        self.classes.first(|class| self.lines.get(class).waits())
    }

    /// The best class that has work.
    pub(crate) fn best_waiting(&self) -> Option<Priority> {
        let waits = |class: &Priority| self.lines.get(*class).waits();
        CLASSES.into_iter().find(waits)
    }

    /// Puts a job into its line.
    pub(crate) fn insert(&mut self, seq: u64, entry: JobEntry) {
        let class = entry.place.class;
        if !self.lines.get(class).waits() {
            self.classes.arrive(class);
        }
        self.lines.get_mut(class).front.insert(seq, entry);
    }
}
