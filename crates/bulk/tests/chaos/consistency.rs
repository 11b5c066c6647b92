//! What processes said and what the API saw, and whether the two agree.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;

use outflow_testkit::{Output, Process};

use super::worker_processes::{End, Field, IN_FLIGHT, PATIENCE};

/// What the processes of one day said, those that were killed too.
#[derive(Default)]
pub(crate) struct Books {
    /// Jobs that somebody was told are taken.
    took: Vec<String>,
    /// Attempts of tasks, in their order.
    did: BTreeMap<String, Vec<u32>>,
    /// Claims of a session that died over them on purpose.
    ghosts: usize,
    /// How often each job of the action was tried, as the store says.
    tried: BTreeMap<String, u32>,
    processes: usize,
    kills: usize,
}

impl Books {
    /// Takes in what a process said, once it has ended; true if it ended well. One that gave up by itself
    /// did not die where it was to.
    pub(crate) fn hear(&mut self, worker: &mut Process) -> Result<bool, String> {
        let ended = worker.wait(PATIENCE).map_err(|error| error.to_string())?;
        check(ended.success() || ended.signal().is_some(), || {
            format!("{ended}: {:?}", complaints(worker))
        })?;
        for line in worker.last_lines(PATIENCE) {
            let words: Vec<&str> = line.text.split_whitespace().collect();
            match *words.as_slice() {
                ["took", id] => self.took.push(id.to_owned()),
                ["did", id, attempt] => {
                    let did = self.did.entry(id.to_owned()).or_default();
                    did.push(number(attempt)?);
                }
                ["ghost", count] => self.ghosts += count.parse::<usize>().unwrap_or(0),
                _ => {}
            }
        }
        self.tried = tried(worker)?;
        self.processes += 1;
        self.kills += usize::from(!ended.success());
        Ok(ended.success())
    }

    /// How many processes were killed.
    pub(crate) fn kills(&self) -> usize {
        self.kills
    }

    /// Whether everything agrees at the end of a day, and what does not.
    pub(crate) fn judge(&self, field: &Field, end: &End) -> Result<(), String> {
        if *end != A_DAY {
            return Err(format!("{end:?} instead of {A_DAY:?}"));
        }
        self.nothing_was_taken_twice()?;
        calls_agree(field, &self.tried, self.kills)?;
        self.tasks_agree()
    }

    /// What was taken and then lost would be taken once more.
    fn nothing_was_taken_twice(&self) -> Result<(), String> {
        let names: BTreeSet<&String> = self.took.iter().collect();
        check(names.len() == self.took.len(), || {
            format!(
                "a job that was taken is not known any more: {:?}",
                self.took
            )
        })
    }

    fn tasks_agree(&self) -> Result<(), String> {
        let mut needless = 0;
        for (job, attempts) in &self.did {
            // One that was revived begins to count anew.
            let rising = attempts.is_sorted_by(|one, next| one < next);
            check(rising || job == "fatal-1", || {
                format!("attempts of {job}: {attempts:?}")
            })?;
            let needed = match job.split('-').next() {
                Some("flaky") => 3,
                Some("busy") => 2,
                // Once, and once more for each who revived it.
                Some("fatal") => 1 + self.processes,
                _ => 1,
            };
            needless += attempts.len().saturating_sub(needed);
        }
        check(needless <= self.kills * IN_FLIGHT, || {
            format!("{needless} tasks were done twice: {:?}", self.did)
        })?;
        let all = TASKS.iter().all(|job| self.did.contains_key(*job));
        check(all, || format!("tasks that nobody did: {:?}", self.did))
    }
}

/// How often each job of the action was tried, as a process that has ended says that the store knows.
pub(crate) fn tried(worker: &mut Process) -> Result<BTreeMap<String, u32>, String> {
    let lines = worker.last_lines(PATIENCE).iter();
    let outcomes = lines.filter_map(|line| line.text.strip_prefix("outcome ")?.split_once(' '));
    outcomes
        .map(|(id, attempts)| Ok((id.trim_start_matches("job-").to_owned(), number(attempts)?)))
        .collect()
}

/// Whether the API saw the attempts that the store counted, as far as kills allow: what a worker had claimed
/// and not sent when it died is missing, and what it had sent comes again.
pub(crate) fn calls_agree(
    field: &Field,
    tried: &BTreeMap<String, u32>,
    kills: usize,
) -> Result<(), String> {
    // One key for each job, whoever sent it.
    let counts = field.attempts();
    let numbers = field.numbers();
    check(numbers.keys().eq(tried.keys()), || {
        format!("the API saw {:?}, done {tried:?}", numbers.keys())
    })?;
    let twice: usize = counts.values().map(|count| count - 1).sum();
    check(twice <= kills * IN_FLIGHT, || {
        format!("{twice} calls came twice")
    })?;
    let mut unsent = 0;
    for (job, attempts) in &numbers {
        let last = attempts.last().copied().unwrap_or(0);
        check(attempts.is_sorted_by(|one, next| one < next), || {
            format!("attempts of {job}: {attempts:?}")
        })?;
        // The one that counted is the last one that the API saw, and the store knows its number.
        check(Some(&last) == tried.get(job), || {
            format!("{job}: {attempts:?}, but {:?}", tried.get(job))
        })?;
        unsent += usize::try_from(last).unwrap_or(0) - attempts.len();
    }
    check(unsent <= kills * IN_FLIGHT, || {
        format!("{unsent} claims came to nothing")
    })
}

/// What a process says is wrong.
fn complaints(worker: &mut Process) -> Vec<String> {
    let lines = worker.last_lines(PATIENCE).iter();
    let wrong = lines.filter(|line| line.to == Output::Err);
    wrong.map(|line| line.text.clone()).take(4).collect()
}

fn check(holds: bool, words: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(words()) }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("no number: {text}"))
}

/// How everything stands at the end of a day, however it went: 40 calls, 6 spare, 4 flaky and 2 busy
/// tasks done; of two that are hopeless one is thrown away and one is kept; 6 were cancelled.
pub(crate) const A_DAY: End = End {
    submitted: 60,
    done: 52,
    dead: 1,
    failed: 1,
    cancelled: 6,
    open: 0,
    drift: 0,
};

const TASKS: &[&str] = &[
    "spare-0", "spare-1", "spare-2", "spare-3", "spare-4", "spare-5", "flaky-0", "flaky-1",
    "flaky-2", "flaky-3", "busy-0", "busy-1", "fatal-0", "fatal-1",
];
