//! Who decides which job goes when.

mod job_first;
mod permit_first;

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use job_first::{JobFirst, RetryWait};
use outflow_core::{ClockPair, CongestionRule, Nanos, WallTime};
use permit_first::PermitFirst;

use super::scenario::Scenario;
use super::server::ServerReply;
use crate::error::SetupResult;

/// A job by its number.
pub(crate) type Job = usize;

/// What a scheduler does with a job.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JobMove {
    /// It goes to the API.
    Send(Job),
    /// It was its turn, and there was no room.
    PutBack(Job),
}

/// One side of the comparison. The world tells it what happens and asks it what to do.
pub(crate) trait Scheduler {
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SchedulerName {
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
    /// All of them, in the order of the report.
    pub const ALL: [Self; 4] = [
        Self::Fixed,
        Self::Backoff,
        Self::BackoffUnclamped,
        Self::PermitFirst,
    ];

    /// Returns its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Backoff => "backoff",
            Self::BackoffUnclamped => "backoff-unclamped",
            Self::PermitFirst => "permit-first",
        }
    }

    /// Returns its help text.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Fixed => "Who finds no room waits one second and tries again",
            Self::Backoff => {
                "Who finds no room waits by the congestion formula, two minutes at most"
            }
            Self::BackoffUnclamped => "The same without the maximum",
            Self::PermitFirst => "A permit first, then the job whose turn it is",
        }
    }

    /// Builds it for a scenario.
    pub(crate) fn build(self, scenario: &Scenario) -> SetupResult<Box<dyn Scheduler>> {
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
        f.write_str(self.name())
    }
}

/// Virtual time begins at a full second of civil time.
fn moment(now: Nanos) -> ClockPair {
    ClockPair {
        now,
        wall: WallTime::since_epoch(Duration::from_nanos(now.as_nanos())),
    }
}
