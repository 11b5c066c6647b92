//! Runs of job numbers: which were read, and which jobs of unread runs are known separately.
//!
//! A run is written once and deleted after its last job. To know that moment without a query, memory
//! counts the open jobs of every run that it read.

use std::collections::{BTreeMap, HashSet};

use super::job_entry::IdRun;

/// Runs with open jobs.
#[derive(Debug, Default)]
pub(crate) struct OpenRuns {
    /// Runs that were read, with the number of their open jobs.
    read: BTreeMap<u64, (IdRun, u64)>,
    /// Jobs of unread runs that memory has on their own: reading the run skips them.
    tracked: HashSet<u64>,
    /// Finished jobs of unread runs.
    finished: HashSet<u64>,
}

impl OpenRuns {
    /// Adds a run that was read, with the number of its open jobs.
    pub(crate) fn open(&mut self, run: IdRun, left: u64) {
        self.read.insert(run.first, (run, left));
    }

    /// Counts the end of a job, and returns its run after the last one.
    pub(crate) fn finish(&mut self, seq: u64) -> Option<IdRun> {
        let Some((run, left)) = self.find(seq) else {
            self.finished.insert(seq);
            return None;
        };
        *left = left.saturating_sub(1);
        if *left > 0 {
            return None;
        }
        let run = *run;
        self.read.remove(&run.first);
        Some(run)
    }

    /// Counts a finished job as open again.
    pub(crate) fn restore(&mut self, seq: u64) {
        self.finished.remove(&seq);
        match self.find(seq) {
            Some((_, left)) => *left += 1,
            None => self.track(seq),
        }
    }

    pub(crate) fn track(&mut self, seq: u64) {
        self.tracked.insert(seq);
    }

    pub(crate) fn is_tracked(&self, seq: u64) -> bool {
        self.tracked.contains(&seq)
    }

    pub(crate) fn is_finished(&self, seq: u64) -> bool {
        self.finished.contains(&seq)
    }

    /// Returns true if memory knows nothing of a job apart from its run.
    pub(crate) fn is_untracked(&self, seq: u64) -> bool {
        !self.is_finished(seq) && !self.is_tracked(seq)
    }

    /// Drops the separate knowledge about the jobs of a run that was read.
    pub(crate) fn untrack(&mut self, run: IdRun) {
        for seq in run.first..run.end() {
            self.finished.remove(&seq);
            self.tracked.remove(&seq);
        }
    }

    fn find(&mut self, seq: u64) -> Option<(&mut IdRun, &mut u64)> {
        let (_, (run, left)) = self.read.range_mut(..=seq).next_back()?;
        (seq < run.end()).then_some((run, left))
    }
}
