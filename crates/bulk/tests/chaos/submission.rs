//! A submission that successive processes continue.
//!
//! Each process starts after the last acknowledged job, so it never submits an acknowledged job again: a lost
//! one would be missing at the end. Jobs whose process died before the acknowledgement may or may not be
//! stored, and are submitted again under the same names.

use outflow_testkit::Process;

use super::worker_processes::WAIT_LIMIT;

/// Progress of a submission.
pub(crate) struct SubmitProgress {
    jobs: usize,
    acked: usize,
}

impl SubmitProgress {
    /// Creates a submission of this many jobs, none of which is acknowledged.
    pub(crate) const fn new(jobs: usize) -> Self {
        Self { jobs, acked: 0 }
    }

    /// Returns the words for a worker that continues the submission. They allow any number of recoveries, so
    /// that no job counts as poison.
    pub(crate) fn words(&self) -> [String; 3] {
        [
            format!("submit={}", self.jobs),
            format!("from={}", self.acked),
            "recoveries=1000".to_owned(),
        ]
    }

    /// Reads the progress of a worker that has ended.
    pub(crate) fn read_output(&mut self, worker: &mut Process) {
        let lines = worker.last_lines(WAIT_LIMIT).iter().rev();
        let mut acked = lines.filter_map(|line| line.text.strip_prefix("acked "));
        if let Some(count) = acked.next() {
            self.acked = count.parse().expect("a number");
        }
    }
}
