//! Schedulers under comparison.

mod job_first;
mod permit_first;

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use job_first::{JobFirst, RetryWait};
use outflow_core::{ClockPair, CongestionRule, Limit, MeterSet, Nanos, WallTime};
use permit_first::PermitScheduler;

use super::scenario::Scenario;
use super::server::ServerReply;
use crate::error::SetupResult;

/// Number of a job.
pub(crate) type Job = usize;

/// Decision of a scheduler on a job.
#[derive(Clone, Copy, Debug)]
pub(crate) enum JobMove {
    /// Send it to the API.
    Send(Job),
    /// Defer it: it was selected, and found no quota.
    Defer(Job),
}

/// Scheduler under comparison. The world reports events and asks for moves.
pub(crate) trait Scheduler {
    /// Adds jobs of a tenant.
    fn submit(&mut self, tenant: usize, jobs: Range<Job>);
    /// Applies a new rate per second of the API.
    fn learn(&mut self, now: Nanos, rate: u64);
    /// Handles the reply to a sent job.
    fn on_reply(&mut self, now: Nanos, job: Job, reply: ServerReply);
    /// Appends all moves of this instant.
    fn act(&mut self, now: Nanos, moves: &mut Vec<JobMove>);
    /// Returns the instant of the next move if nothing happens before.
    fn wakeup(&self) -> Option<Nanos>;
}

/// Names of the schedulers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum SchedulerName {
    /// A job without quota waits one second.
    Fixed,
    /// A job without quota waits by the congestion formula, two minutes at most.
    Backoff,
    /// A job without quota waits by the congestion formula, without a maximum.
    BackoffUnclamped,
    /// A permit first, then the job of the next tenant.
    PermitFirst,
}

impl SchedulerName {
    /// All schedulers, in the order of the report.
    pub const ALL: [Self; 4] = [Self::Fixed, Self::Backoff, Self::BackoffUnclamped, Self::PermitFirst];

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
            Self::Fixed => "A job without quota waits one second",
            Self::Backoff => "A job without quota waits by the congestion formula, two minutes at most",
            Self::BackoffUnclamped => "A job without quota waits by the congestion formula, without a maximum",
            Self::PermitFirst => "A permit first, then the job of the next tenant",
        }
    }

    /// Builds it for a scenario.
    pub(crate) fn build(self, scenario: &Scenario) -> SetupResult<Box<dyn Scheduler>> {
        let base = CongestionRule::default().base();
        let wait = match self {
            Self::Fixed => RetryWait::Fixed(CongestionRule::default()),
            Self::Backoff => RetryWait::Formula(CongestionRule::default()),
            Self::BackoffUnclamped => RetryWait::Formula(CongestionRule::new(base, Duration::MAX)?),
            Self::PermitFirst => return Ok(Box::new(PermitScheduler::new(scenario)?)),
        };
        Ok(Box::new(JobFirst::new(scenario, wait)?))
    }
}

impl fmt::Display for SchedulerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns meters for a rate per second, or none.
fn meters(rate: Option<u64>, limit: fn(u64) -> SetupResult<Limit>) -> SetupResult<MeterSet> {
    let limits: Result<Vec<_>, _> = rate.into_iter().map(limit).collect();
    Ok(MeterSet::new(&limits?, ClockPair::default())?)
}

fn reconfigure(meters: &mut MeterSet, now: Nanos, limit: SetupResult<Limit>) {
    let Ok(limit) = limit else {
        return;
    };
    // Virtual time starts at a full second of wall time.
    let wall = WallTime::since_epoch(Duration::from_nanos(now.as_nanos()));
    // One limit replaces one, so the number of limits stays valid.
    let _ = meters.reconfigure(ClockPair { now, wall }, &[limit]);
}
