//! Scheduler that takes a job first, and defers it when there is no quota.
//!
//! Outflow is compared with this design. Rates count whole seconds of the clock, each tenant has an even part
//! of them, and a job in a full second waits by a rule before its next start. The time of a dispatcher to
//! move due jobs is ignored, in its favour.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::iter;
use std::ops::Range;

use outflow_core::{Accounting, Congestion, CongestionRule, Cost, Limit, MeterSet, Nanos, Rate, rate_limit_speed};

use super::{Job, JobMove, Scheduler, meters, reconfigure};
use crate::error::SetupResult;
use crate::scenario::{EnforcedRate, Scenario, TenantPlan};
use crate::server::ServerReply;

/// Scheduler that starts, defers and restarts jobs.
#[derive(Debug)]
pub(crate) struct JobFirst {
    wait: RetryWait,
    enforced: EnforcedRate,
    shared: MeterSet,
    queues: Vec<RetryQueue>,
    /// Tenant of each job.
    owners: Vec<usize>,
    /// Deferred jobs by due time.
    due: BinaryHeap<Reverse<(Nanos, u64, Job)>>,
    /// Number of tenants with work.
    active: u64,
    deferrals: u64,
}

/// Rule for the wait of a deferred job.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RetryWait {
    /// The base, regardless of the backlog.
    Fixed(CongestionRule),
    /// The congestion formula.
    Formula(CongestionRule),
}

#[derive(Debug)]
struct RetryQueue {
    /// Jobs that never started.
    fresh: VecDeque<Job>,
    own: MeterSet,
    /// Even part of the rate, or the cap if that is less.
    speed: u64,
    cap: u64,
    non_ready: u64,
    remaining: u64,
}

impl JobFirst {
    pub(crate) fn new(scenario: &Scenario, wait: RetryWait) -> SetupResult<Self> {
        let speed = scenario.enforced.speed(1);
        let queues: SetupResult<Vec<_>> = scenario
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
            shared: meters(all, limit)?,
            queues: queues?,
            owners: Vec::new(),
            due: BinaryHeap::new(),
            active: 0,
            deferrals: 0,
        })
    }

    /// Recomputes the even part of every tenant.
    fn update_speeds(&mut self, now: Nanos) {
        let part = self.enforced.speed(self.active);
        for queue in &mut self.queues {
            let speed = part.min(queue.cap);
            if queue.speed != speed {
                queue.speed = speed;
                reconfigure(&mut queue.own, now, limit(speed));
            }
        }
    }

    fn try_job(&mut self, now: Nanos, job: Job, moves: &mut Vec<JobMove>) {
        let owner = self.owners.get(job).copied().unwrap_or(usize::MAX);
        let Some(queue) = self.queues.get_mut(owner) else {
            return;
        };
        let (own, shared) = (&mut queue.own, &mut self.shared);
        if own.check(now, Cost::ONE).is_allow() && shared.check(now, Cost::ONE).is_allow() {
            // Counted by send, so these receipts need no settlement.
            drop((own.take(now, Cost::ONE), shared.take(now, Cost::ONE)));
            moves.push(JobMove::Send(job));
        } else {
            self.defer(now, job, owner);
            moves.push(JobMove::Defer(job));
        }
    }

    fn defer(&mut self, now: Nanos, job: Job, owner: usize) {
        let Some(queue) = self.queues.get_mut(owner) else {
            return;
        };
        queue.non_ready += 1;
        let congestion = self.wait.reading(queue.non_ready, queue.speed);
        self.deferrals += 1;
        let due = now.saturating_add(congestion.backoff);
        self.due.push(Reverse((due, self.deferrals, job)));
    }

    /// Removes and returns the next due job.
    fn pop_due(&mut self, now: Nanos) -> Option<Job> {
        self.due.peek().filter(|Reverse((at, ..))| *at <= now)?;
        let Reverse((_, _, job)) = self.due.pop()?;
        if let Some(queue) = self.owners.get(job).and_then(|i| self.queues.get_mut(*i)) {
            queue.non_ready = queue.non_ready.saturating_sub(1);
        }
        Some(job)
    }

    /// Removes and returns all fresh jobs, one of each tenant in turn.
    fn take_fresh(&mut self) -> Vec<Job> {
        let mut fresh = Vec::new();
        loop {
            let before = fresh.len();
            let heads = self.queues.iter_mut().filter_map(|queue| queue.fresh.pop_front());
            fresh.extend(heads);
            if fresh.len() == before {
                return fresh;
            }
        }
    }
}

impl Scheduler for JobFirst {
    fn submit(&mut self, tenant: usize, jobs: Range<Job>) {
        let Some(queue) = self.queues.get_mut(tenant) else {
            return;
        };
        self.owners.resize(self.owners.len().max(jobs.end), tenant);
        for owner in self.owners.iter_mut().take(jobs.end).skip(jobs.start) {
            *owner = tenant;
        }
        queue.remaining = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
        queue.fresh.extend(jobs);
        self.active += 1;
    }

    fn learn(&mut self, now: Nanos, rate: u64) {
        self.enforced = match self.enforced {
            EnforcedRate::PerTenant(_) => EnforcedRate::PerTenant(rate),
            EnforcedRate::Shared(_) => {
                reconfigure(&mut self.shared, now, limit(rate));
                EnforcedRate::Shared(rate)
            }
        };
    }

    fn on_reply(&mut self, now: Nanos, job: Job, reply: ServerReply) {
        let Some(owner) = self.owners.get(job).copied() else {
            return;
        };
        match (reply, self.queues.get_mut(owner)) {
            (ServerReply::Accepted, Some(queue)) => {
                queue.remaining -= 1;
                if queue.remaining == 0 {
                    self.active -= 1;
                }
            }
            _ => self.defer(now, job, owner),
        }
    }

    fn act(&mut self, now: Nanos, moves: &mut Vec<JobMove>) {
        self.update_speeds(now);
        // All due jobs are moved before the first start, so that only waiting jobs count. One by one, all
        // jobs at the maximum wait would be deferred to it forever.
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
            own: meters(Some(speed.min(cap)), limit)?,
            speed: speed.min(cap),
            cap,
            non_ready: 0,
            remaining: 0,
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
    /// Returns the even part of one of `active` tenants.
    fn speed(self, active: u64) -> u64 {
        match self {
            Self::PerTenant(rate) => rate,
            Self::Shared(rate) => rate_limit_speed(rate, active),
        }
    }
}

/// Returns a limit that counts each second of the clock.
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

    // 100/s: 900 of 1,000 are deferred, all of them by one second.
    #[test]
    fn fixed_waits_end_together() {
        let mut scheduler = scheduler(RetryWait::Fixed(CongestionRule::default()));
        assert_eq!(act(&mut scheduler, 0), (100, 1_000));
        assert_eq!(act(&mut scheduler, 1), (100, 900));
        assert_eq!(act(&mut scheduler, 2), (100, 800));
    }

    // The first 99 deferred jobs wait one second, the next 100 two, and so on. A restarted job no longer
    // counts as waiting.
    #[test]
    fn the_formula_spreads_restarts_over_seconds() {
        let mut scheduler = scheduler(RetryWait::Formula(CongestionRule::default()));
        assert_eq!(act(&mut scheduler, 0), (100, 1_000));
        assert_eq!(act(&mut scheduler, 1), (99, 99));
        assert_eq!(act(&mut scheduler, 2), (100, 100));
        let waiting: Vec<_> = scheduler.queues.iter().map(|queue| queue.non_ready).collect();
        assert_eq!(waiting, [701]);
    }
}
