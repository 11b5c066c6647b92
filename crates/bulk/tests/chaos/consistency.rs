//! Compares the output of worker processes with the calls that the API saw.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;

use outflow_testkit::{Output, Process};

use super::worker_processes::{FinalCounts, IN_FLIGHT, TestApi, WAIT_LIMIT};

/// Output of all worker processes of one run, killed ones included.
#[derive(Default)]
pub(crate) struct RunLog {
    /// Jobs that a worker reported as accepted.
    accepted: Vec<String>,
    /// Attempts of handler tasks, in order.
    runs: BTreeMap<String, Vec<u32>>,
    /// Claims of the session that the scenario abandons on purpose.
    abandoned: usize,
    /// Attempts of each job of the action, according to the store.
    attempts_by_job: BTreeMap<String, u32>,
    processes: usize,
    kills: usize,
}

impl RunLog {
    /// Waits for a process to end and reads its output. Returns true if it exited with success. A process that
    /// exits with an error missed its failpoint.
    pub(crate) fn record(&mut self, worker: &mut Process) -> Result<bool, String> {
        let ended = worker.wait(WAIT_LIMIT).map_err(|error| error.to_string())?;
        check(ended.success() || ended.signal().is_some(), || {
            format!("{ended}: {:?}", stderr_lines(worker))
        })?;
        for line in worker.last_lines(WAIT_LIMIT) {
            let words: Vec<&str> = line.text.split_whitespace().collect();
            match *words.as_slice() {
                ["took", id] => self.accepted.push(id.to_owned()),
                ["did", id, attempt] => {
                    let runs = self.runs.entry(id.to_owned()).or_default();
                    runs.push(number(attempt)?);
                }
                ["ghost", count] => self.abandoned += count.parse::<usize>().unwrap_or(0),
                _ => {}
            }
        }
        self.attempts_by_job = attempts_by_job(worker)?;
        self.processes += 1;
        self.kills += usize::from(!ended.success());
        Ok(ended.success())
    }

    /// Returns the number of killed processes.
    pub(crate) fn kills(&self) -> usize {
        self.kills
    }

    /// Checks that all sources agree at the end of a run; the error names the first difference.
    pub(crate) fn check(&self, api: &TestApi, end: &FinalCounts) -> Result<(), String> {
        if *end != EXPECTED_COUNTS {
            return Err(format!("{end:?} instead of {EXPECTED_COUNTS:?}"));
        }
        self.no_job_was_accepted_twice()?;
        calls_agree(api, &self.attempts_by_job, self.kills)?;
        self.tasks_agree()
    }

    /// Checks acceptance: a store that lost an accepted job would accept it a second time.
    fn no_job_was_accepted_twice(&self) -> Result<(), String> {
        let names: BTreeSet<&String> = self.accepted.iter().collect();
        check(names.len() == self.accepted.len(), || {
            format!("an accepted job is unknown to the store: {:?}", self.accepted)
        })
    }

    fn tasks_agree(&self) -> Result<(), String> {
        let mut repeated = 0;
        for (job, attempts) in &self.runs {
            // A requeued job counts its attempts from one again.
            let rising = attempts.is_sorted_by(|one, next| one < next);
            check(rising || job == "fatal-1", || {
                format!("attempts of {job}: {attempts:?}")
            })?;
            let needed = match job.split('-').next() {
                Some("flaky") => 3,
                Some("busy") => 2,
                // One attempt, and one more for each process that requeued it.
                Some("fatal") => 1 + self.processes,
                _ => 1,
            };
            repeated += attempts.len().saturating_sub(needed);
        }
        check(repeated <= self.kills * IN_FLIGHT, || {
            format!("{repeated} task runs were repeated: {:?}", self.runs)
        })?;
        let all = TASKS.iter().all(|job| self.runs.contains_key(*job));
        check(all, || format!("tasks without a run: {:?}", self.runs))
    }
}

/// Returns the attempts of each job of the action, as a finished process read them from the store.
pub(crate) fn attempts_by_job(worker: &mut Process) -> Result<BTreeMap<String, u32>, String> {
    let lines = worker.last_lines(WAIT_LIMIT).iter();
    let outcomes = lines.filter_map(|line| line.text.strip_prefix("outcome ")?.split_once(' '));
    outcomes
        .map(|(id, attempts)| Ok((id.trim_start_matches("job-").to_owned(), number(attempts)?)))
        .collect()
}

/// Checks that the API saw the attempts that the store counted, as far as kills allow. Attempts that a worker
/// claimed and did not send before it died are missing; sent ones arrive again.
pub(crate) fn calls_agree(api: &TestApi, attempts_by_job: &BTreeMap<String, u32>, kills: usize) -> Result<(), String> {
    // Every attempt of a job carries the same key.
    let counts = api.attempts();
    let numbers = api.numbers();
    check(numbers.keys().eq(attempts_by_job.keys()), || {
        format!("the API saw {:?}, done {attempts_by_job:?}", numbers.keys())
    })?;
    let repeated: usize = counts.values().map(|count| count - 1).sum();
    check(repeated <= kills * IN_FLIGHT, || {
        format!("{repeated} calls were repeated")
    })?;
    let mut unsent = 0;
    for (job, attempts) in &numbers {
        let last = attempts.last().copied().unwrap_or(0);
        check(attempts.is_sorted_by(|one, next| one < next), || {
            format!("attempts of {job}: {attempts:?}")
        })?;
        // The attempt that counted is the last one that the API saw, and the store knows its number.
        check(Some(&last) == attempts_by_job.get(job), || {
            format!("{job}: {attempts:?}, but {:?}", attempts_by_job.get(job))
        })?;
        unsent += usize::try_from(last).unwrap_or(0) - attempts.len();
    }
    check(unsent <= kills * IN_FLIGHT, || {
        format!("{unsent} claims were never sent")
    })
}

/// Returns the first lines that a process wrote to stderr.
fn stderr_lines(worker: &mut Process) -> Vec<String> {
    let lines = worker.last_lines(WAIT_LIMIT).iter();
    let errors = lines.filter(|line| line.to == Output::Err);
    errors.map(|line| line.text.clone()).take(4).collect()
}

fn check(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("not a number: {text}"))
}

/// Job counts at the end of every run: 40 calls and 6 spare, 4 flaky and 2 busy tasks are done. Of two fatal
/// tasks one is purged and one is a dead letter; 6 jobs are cancelled.
pub(crate) const EXPECTED_COUNTS: FinalCounts = FinalCounts {
    submitted: 60,
    done: 52,
    dead: 1,
    failed: 1,
    cancelled: 6,
    open: 0,
    drift: 0,
};

const TASKS: &[&str] = &[
    "spare-0", "spare-1", "spare-2", "spare-3", "spare-4", "spare-5", "flaky-0", "flaky-1", "flaky-2", "flaky-3",
    "busy-0", "busy-1", "fatal-0", "fatal-1",
];
