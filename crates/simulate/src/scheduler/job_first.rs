//! Takes the job first, and puts it back when there is no room.
//!
//! This is the design that Outflow is compared with: rates are counted in whole seconds of the
//! clock, each tenant has an even part of them, and a job that finds its second full waits for as
//! long as a rule says before it is tried again. How long a dispatcher would take to move jobs that
//! are due is left out, in its favour.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::iter;
use std::ops::Range;

use outflow_core::{
    Accounting, ClockPair, Congestion, CongestionRule, Cost, Limit, MeterSet, Nanos, Rate,
    rate_limit_speed,
};

use super::{Job, JobMove, Scheduler, moment};
use crate::error::SetupResult;
use crate::scenario::{EnforcedRate, Scenario, TenantPlan};
use crate::server::ServerReply;

/// Jobs that are tried, put back and tried again.
#[derive(Debug)]
pub(crate) struct JobFirst {
    wait: RetryWait,
    enforced: EnforcedRate,
    shared: MeterSet,
    lines: Vec<RetryQueue>,
    /// Which tenant has each job.
    owners: Vec<usize>,
    /// Jobs that wait, by when they are due.
    due: BinaryHeap<Reverse<(Nanos, u64, Job)>>,
    /// How many tenants have work.
    active: u64,
    puts: u64,
}

/// How long a job waits that found no room.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RetryWait {
    /// The base, whatever the backlog.
    Fixed(CongestionRule),
    /// By the congestion formula.
    Formula(CongestionRule),
}

#[derive(Debug)]
struct RetryQueue {
    /// Jobs that were never tried.
    fresh: VecDeque<Job>,
    own: MeterSet,
    /// Its even part of the rate, or its cap if that is less.
    speed: u64,
    cap: u64,
    non_ready: u64,
    left: u64,
}

impl JobFirst {
    pub(crate) fn new(scenario: &Scenario, wait: RetryWait) -> SetupResult<Self> {
        let speed = scenario.enforced.speed(1);
        let lines: SetupResult<Vec<_>> = scenario
            .tenants
            .iter()
            .map(|plan| RetryQueue::new(plan, speed))
            .collect();
        let all = match scenario.enforced {
            EnforcedRate::PerTenant(_) => None,
            EnforcedRate::Shared(rate) => Some(rate),
        };
        Ok(Self {
            wait,
            enforced: scenario.enforced,
            shared: meters(all)?,
            lines: lines?,
            owners: Vec::new(),
            due: BinaryHeap::new(),
            active: 0,
            puts: 0,
        })
    }

    /// Gives every tenant its even part anew.
    fn share_out(&mut self, now: Nanos) {
        let part = self.enforced.speed(self.active);
        for line in &mut self.lines {
            let speed = part.min(line.cap);
            if line.speed != speed {
                line.speed = speed;
                reconfigure(&mut line.own, now, speed);
            }
        }
    }

    fn try_job(&mut self, now: Nanos, job: Job, moves: &mut Vec<JobMove>) {
        let owner = self.owners.get(job).copied().unwrap_or(usize::MAX);
        let Some(line) = self.lines.get_mut(owner) else {
            return;
        };
        let (own, shared) = (&mut line.own, &mut self.shared);
        if own.check(now, Cost::ONE).is_allow() && shared.check(now, Cost::ONE).is_allow() {
            // Counted from the sending: these grants have nothing to wait for.
            drop((own.take(now, Cost::ONE), shared.take(now, Cost::ONE)));
            moves.push(JobMove::Send(job));
        } else {
            self.put_back(now, job, owner);
            moves.push(JobMove::PutBack(job));
        }
    }

    fn put_back(&mut self, now: Nanos, job: Job, owner: usize) {
        let Some(line) = self.lines.get_mut(owner) else {
            return;
        };
        line.non_ready += 1;
        let congestion = self.wait.reading(line.non_ready, line.speed);
        self.puts += 1;
        let due = now.saturating_add(congestion.backoff);
        self.due.push(Reverse((due, self.puts, job)));
    }

    /// The next job that is due, which then no longer waits.
    fn pop_due(&mut self, now: Nanos) -> Option<Job> {
        self.due.peek().filter(|Reverse((at, ..))| *at <= now)?;
        let Reverse((_, _, job)) = self.due.pop()?;
        if let Some(line) = self.owners.get(job).and_then(|i| self.lines.get_mut(*i)) {
            line.non_ready = line.non_ready.saturating_sub(1);
        }
        Some(job)
    }

    /// Fresh jobs, one of each tenant in turn.
    fn take_fresh(&mut self) -> Vec<Job> {
        let mut fresh = Vec::new();
        loop {
            let before = fresh.len();
            let heads = self.lines.iter_mut().filter_map(|l| l.fresh.pop_front());
            fresh.extend(heads);
            if fresh.len() == before {
                return fresh;
            }
        }
    }
}

impl Scheduler for JobFirst {
    fn submit(&mut self, tenant: usize, jobs: Range<Job>) {
        let Some(line) = self.lines.get_mut(tenant) else {
            return;
        };
        self.owners.resize(self.owners.len().max(jobs.end), tenant);
        for owner in self.owners.iter_mut().take(jobs.end).skip(jobs.start) {
            *owner = tenant;
        }
        line.left = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
        line.fresh.extend(jobs);
        self.active += 1;
    }

    fn learn(&mut self, now: Nanos, rate: u64) {
        self.enforced = match self.enforced {
            EnforcedRate::PerTenant(_) => EnforcedRate::PerTenant(rate),
            EnforcedRate::Shared(_) => {
                reconfigure(&mut self.shared, now, rate);
                EnforcedRate::Shared(rate)
            }
        };
    }

    fn answered(&mut self, now: Nanos, job: Job, answer: ServerReply) {
        let Some(owner) = self.owners.get(job).copied() else {
            return;
        };
        match (answer, self.lines.get_mut(owner)) {
            (ServerReply::Accepted, Some(line)) => {
                line.left -= 1;
                if line.left == 0 {
                    self.active -= 1;
                }
            }
            _ => self.put_back(now, job, owner),
        }
    }

    fn act(&mut self, now: Nanos, moves: &mut Vec<JobMove>) {
        self.share_out(now);
        // All that is due is moved before any of it is tried, so that the count is of those who
        // still wait. One by one, a herd at the maximum would be sent back to it for ever.
        let due: Vec<_> = iter::from_fn(|| self.pop_due(now)).collect();
        for job in due.into_iter().chain(self.take_fresh()) {
            self.try_job(now, job, moves);
        }
    }

    fn wakeup(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }
}

impl RetryQueue {
    fn new(plan: &TenantPlan, speed: u64) -> SetupResult<Self> {
        let cap = plan.cap.unwrap_or(u64::MAX);
        Ok(Self {
            fresh: VecDeque::new(),
            own: meters(Some(speed.min(cap)))?,
            speed: speed.min(cap),
            cap,
            non_ready: 0,
            left: 0,
        })
    }
}

impl RetryWait {
    fn reading(&self, non_ready: u64, speed: u64) -> Congestion {
        match self {
            Self::Fixed(rule) => rule.off(),
            Self::Formula(rule) => rule.reading(non_ready, speed),
        }
    }
}

impl EnforcedRate {
    /// The even part of one of `active` tenants.
    fn speed(self, active: u64) -> u64 {
        match self {
            Self::PerTenant(rate) => rate,
            Self::Shared(rate) => rate_limit_speed(rate, active),
        }
    }
}

fn meters(rate: Option<u64>) -> SetupResult<MeterSet> {
    let limits: Result<Vec<_>, _> = rate.into_iter().map(limit).collect();
    Ok(MeterSet::new(&limits?, ClockPair::default())?)
}

fn reconfigure(meters: &mut MeterSet, now: Nanos, rate: u64) {
    if let Ok(limit) = limit(rate) {
        // One limit takes the place of one: that is never too many.
        let _ = meters.reconfigure(moment(now), &[limit]);
    }
}

/// A counter for each second of the clock.
fn limit(rate: u64) -> SetupResult<Limit> {
    let limit = Limit::aligned(Rate::per_second(rate)?)?;
    Ok(limit.counted(Accounting::Send))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioName;

    fn scheduler(wait: RetryWait) -> JobFirst {
        let scenario = Scenario::named(ScenarioName::Thousand);
        let mut scheduler = JobFirst::new(&scenario, wait).expect("valid");
        scheduler.submit(0, 0..1_000);
        scheduler
    }

    fn act(scheduler: &mut JobFirst, secs: u64) -> (usize, usize) {
        let mut moves = Vec::new();
        scheduler.act(Nanos::from_secs(secs), &mut moves);
        let sent = moves.iter().filter(|step| matches!(step, JobMove::Send(_)));
        (sent.count(), moves.len())
    }

    // 100/s: 900 of 1,000 are put back, all of them for one second.
    #[test]
    fn fixed_waits_bring_everybody_back_at_once() {
        let mut scheduler = scheduler(RetryWait::Fixed(CongestionRule::default()));
        assert_eq!(act(&mut scheduler, 0), (100, 1_000));
        assert_eq!(act(&mut scheduler, 1), (100, 900));
        assert_eq!(act(&mut scheduler, 2), (100, 800));
    }

    // The first 99 that are put back wait one second, the next 100 two, and so on; whoever comes
    // back no longer counts as waiting.
    #[test]
    fn the_formula_brings_them_back_second_by_second() {
        let mut scheduler = scheduler(RetryWait::Formula(CongestionRule::default()));
        assert_eq!(act(&mut scheduler, 0), (100, 1_000));
        assert_eq!(act(&mut scheduler, 1), (99, 99));
        assert_eq!(act(&mut scheduler, 2), (100, 100));
        let waiting: Vec<_> = scheduler.lines.iter().map(|line| line.non_ready).collect();
        assert_eq!(waiting, [701]);
    }
}
