//! Who decides which job goes when.

mod job_first;
mod permit_first;

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use clap::ValueEnum;
use outflow_core::{ClockPair, CongestionRule, Nanos, WallTime};

use super::scenario::Scenario;
use super::server::ServerReply;
use job_first::{JobFirst, RetryWait};
use permit_first::PermitFirst;

/// A job by its number.
pub(super) type Job = usize;

/// What a scheduler does with a job.
#[derive(Clone, Copy, Debug)]
pub(super) enum JobMove {
    /// It goes to the API.
    Send(Job),
    /// It was its turn, and there was no room.
    PutBack(Job),
}

/// One side of the comparison. The world tells it what happens and asks it what to do.
pub(super) trait Scheduler {
    /// Jobs of a tenant came in.
    fn submit(&mut self, tenant: usize, jobs: Range<Job>);
    /// The API's rate per second is another one from now on.
    fn learn(&mut self, now: Nanos, rate: u64);
    /// A job that was sent came back.
    fn answered(&mut self, now: Nanos, job: Job, answer: ServerReply);
    /// Everything that is to be done now.
    fn act(&mut self, now: Nanos, moves: &mut Vec<JobMove>);
    /// When to be asked again if nothing happens.
    fn wakeup(&self) -> Option<Nanos>;
}

/// The schedulers by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "kebab-case")]
pub(super) enum SchedulerName {
    /// Who finds no room waits one second and tries again.
    Fixed,
    /// Who finds no room waits by the congestion formula, two minutes at most.
    Backoff,
    /// The same without the maximum.
    BackoffUnclamped,
    /// A permit first, then the job whose turn it is.
    PermitFirst,
}

impl SchedulerName {
    /// Builds it for a scenario.
    pub(super) fn build(self, scenario: &Scenario) -> anyhow::Result<Box<dyn Scheduler>> {
        let base = CongestionRule::default().base();
        let wait = match self {
            Self::Fixed => RetryWait::Fixed(CongestionRule::default()),
            Self::Backoff => RetryWait::Formula(CongestionRule::default()),
            Self::BackoffUnclamped => RetryWait::Formula(CongestionRule::new(base, Duration::MAX)?),
            Self::PermitFirst => return Ok(Box::new(PermitFirst::new(scenario)?)),
        };
        Ok(Box::new(JobFirst::new(scenario, wait)?))
    }
}

impl fmt::Display for SchedulerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// Virtual time begins at a full second of civil time.
fn moment(now: Nanos) -> ClockPair {
    ClockPair {
        now,
        wall: WallTime::since_epoch(Duration::from_nanos(now.as_nanos())),
    }
}
