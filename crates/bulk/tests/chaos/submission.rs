//! A submission that one process after another hands in.
//!
//! Each begins where the last one was told that everything is taken, so nothing that was acknowledged is
//! handed in a second time: were it lost, it would be missing at the end. What was under way when its
//! process died may be there or not, and is handed in again under the same names.

use outflow_testkit::Process;

use super::worker_processes::PATIENCE;

/// How far it came.
pub(crate) struct Handing {
    jobs: usize,
    acked: usize,
}

impl Handing {
    /// So many jobs, none of which is taken yet.
    pub(crate) const fn of(jobs: usize) -> Self {
        Self { jobs, acked: 0 }
    }

    /// What a worker is told that goes on with it; and that no job is to be taken for one that kills its
    /// workers, however many it loses.
    pub(crate) fn words(&self) -> [String; 3] {
        [
            format!("submit={}", self.jobs),
            format!("from={}", self.acked),
            "recoveries=1000".to_owned(),
        ]
    }

    /// Takes in how far a worker came that is gone.
    pub(crate) fn hear(&mut self, worker: &mut Process) {
        let lines = worker.last_lines(PATIENCE).iter().rev();
        let mut acked = lines.filter_map(|line| line.text.strip_prefix("acked "));
        if let Some(count) = acked.next() {
            self.acked = count.parse().expect("a number");
        }
    }
}
