//! Runs of numbers: which jobs were read from the disk, and which are known apart from that.
//!
//! A run is written once and goes when its last job is over. To know that moment without asking the disk,
//! memory counts what is left of every run that it read.

use std::collections::{BTreeMap, HashSet};

use super::job_entry::IdRun;

/// Runs of which some job may still be alive, and were read.
#[derive(Debug, Default)]
pub(crate) struct OpenRuns {
    read: BTreeMap<u64, (IdRun, u64)>,
    /// Jobs of runs that were not read which memory knows on their own: they are not read again.
    pub(crate) apart: HashSet<u64>,
    /// And those of them that are over.
    pub(crate) gone: HashSet<u64>,
}

impl OpenRuns {
    /// A run was read, and so many of its jobs live.
    pub(crate) fn opened(&mut self, run: IdRun, left: u64) {
        self.read.insert(run.first, (run, left));
    }

    /// A job is over. Answers its run if it was the last.
    pub(crate) fn ended(&mut self, seq: u64) -> Option<IdRun> {
        let Some((run, left)) = self.find(seq) else {
            self.gone.insert(seq);
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

    /// A job that was over is not.
    pub(crate) fn revived(&mut self, seq: u64) {
        self.gone.remove(&seq);
        match self.find(seq) {
            Some((_, left)) => *left += 1,
            None => {
                self.apart.insert(seq);
            }
        }
    }

    /// Whether memory does not know anything of a job on its own.
    pub(crate) fn is_silent_about(&self, seq: u64) -> bool {
        !self.gone.contains(&seq) && !self.apart.contains(&seq)
    }

    fn find(&mut self, seq: u64) -> Option<(&mut IdRun, &mut u64)> {
        let (_, (run, left)) = self.read.range_mut(..=seq).next_back()?;
        (seq < run.end()).then_some((run, left))
    }
}
