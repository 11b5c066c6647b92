//! Takes the permit for the tenant whose turn it is, then the job.
//!
//! A job stays in its tenant's queue until a permit is in hand, so it is never refused and put
//! back. Permits come from exact meters that count by arrival, which is what the API counts by.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use outflow_core::{
    ClockPair, Cost, Decision, FairCharge, FairQueue, Limit, MeterSet, MinRtt, Nanos, Priority,
    Rate, ReceiptSet, RequestTiming, Tenant, Weight,
};

use super::{Job, JobMove, Scheduler, moment};
use crate::error::SetupResult;
use crate::scenario::{EnforcedRate, Scenario, TenantPlan};
use crate::server::ServerReply;

/// The scheduler that Outflow uses.
#[derive(Debug)]
pub(crate) struct PermitFirst {
    order: FairQueue,
    lines: Vec<TenantQueue>,
    /// What all tenants share; nothing if each has its own.
    shared: MeterSet,
    shared_wait: Option<Nanos>,
    round_trips: MinRtt,
    in_flight: BTreeMap<Job, SentJob>,
}

/// One tenant's queue.
#[derive(Debug)]
struct TenantQueue {
    tenant: Tenant,
    jobs: VecDeque<Job>,
    own: MeterSet,
    /// The API told this tenant to stay away until then.
    told_to_wait: Nanos,
}

#[derive(Debug)]
struct SentJob {
    line: usize,
    at: Nanos,
    tag: Option<FairCharge>,
    own: ReceiptSet,
    shared: ReceiptSet,
}

/// What the limits say about the tenant whose turn it is.
enum StartDecision {
    Granted,
    TenantWaits(Nanos),
    AllWait(Nanos),
}

impl PermitFirst {
    pub(crate) fn new(scenario: &Scenario) -> SetupResult<Self> {
        let mut order = FairQueue::new();
        let (each, all) = match scenario.enforced {
            EnforcedRate::PerTenant(rate) => (Some(rate), None),
            EnforcedRate::Shared(rate) => (None, Some(rate)),
        };
        let lines: SetupResult<Vec<_>> = scenario
            .tenants
            .iter()
            .map(|plan| TenantQueue::new(&mut order, plan, each))
            .collect();
        Ok(Self {
            order,
            lines: lines?,
            shared: meters(all)?,
            shared_wait: None,
            round_trips: MinRtt::default(),
            in_flight: BTreeMap::new(),
        })
    }

    /// The line of the tenant whose turn it is. Tenants joined in the order of their lines.
    fn next_line(&mut self, now: Nanos) -> Option<usize> {
        let tenant = self.order.next(now)?;
        usize::try_from(tenant.slot()).ok()
    }

    fn leave(&mut self, now: Nanos, line: usize) -> StartDecision {
        let own = self.lines.get_mut(line).map(|line| &mut line.own);
        if let Some(Decision::WaitUntil(at)) = own.map(|own| own.check(now, Cost::ONE)) {
            return StartDecision::TenantWaits(at);
        }
        match self.shared.check(now, Cost::ONE) {
            Decision::WaitUntil(at) => StartDecision::AllWait(at),
            Decision::Allow(()) | Decision::Never => StartDecision::Granted,
        }
    }

    /// Takes the permit that was granted, and then the tenant's first job.
    fn claim(&mut self, now: Nanos, line: usize) -> Option<Job> {
        let queue = self.lines.get_mut(line)?;
        let sent = SentJob {
            line,
            at: now,
            own: queue.own.take(now, Cost::ONE).allowed()?,
            shared: self.shared.take(now, Cost::ONE).allowed()?,
            tag: self.order.charge(queue.tenant, Cost::ONE),
        };
        let job = queue.jobs.pop_front()?;
        self.in_flight.insert(job, sent);
        if queue.jobs.is_empty() {
            self.order.set_idle(queue.tenant);
        }
        Some(job)
    }

    /// The job goes back to the head of its queue, and its turn with it.
    fn return_refused(&mut self, job: Job, line: usize, tag: Option<FairCharge>, until: Nanos) {
        let Some(queue) = self.lines.get_mut(line) else {
            return;
        };
        queue.jobs.push_front(job);
        queue.told_to_wait = until;
        self.order.enter(queue.tenant);
        self.order.block_until(queue.tenant, until);
        if let Some(tag) = tag {
            self.order.refund(tag);
        }
    }
}

impl Scheduler for PermitFirst {
    fn submit(&mut self, tenant: usize, jobs: Range<Job>) {
        if let Some(line) = self.lines.get_mut(tenant) {
            line.jobs.extend(jobs);
            self.order.enter(line.tenant);
        }
    }

    fn learn(&mut self, now: Nanos, rate: u64) {
        if let Ok(rate) = Rate::per_second(rate) {
            // One limit takes the place of one: that is never too many.
            let _ = self
                .shared
                .reconfigure(moment(now), &[Limit::sliding(rate)]);
        }
        self.shared_wait = None;
    }

    fn answered(&mut self, now: Nanos, job: Job, answer: ServerReply) {
        let Some(sent) = self.in_flight.remove(&job) else {
            return;
        };
        let floor = self.round_trips.observe(now, now.since(sent.at));
        let journey = RequestTiming::Answered {
            sent: sent.at,
            answered: now,
        };
        self.shared.settle(now, sent.shared, journey, floor);
        if let Some(line) = self.lines.get_mut(sent.line) {
            line.own.settle(now, sent.own, journey, floor);
            // With the answer it is known when the permit returns, often sooner than feared.
            if now >= line.told_to_wait {
                self.order.unblock(line.tenant);
            }
        }
        self.shared_wait = None;
        if let ServerReply::Refused(until) = answer {
            self.return_refused(job, sent.line, sent.tag, until);
        }
    }

    fn act(&mut self, now: Nanos, moves: &mut Vec<JobMove>) {
        if self.shared_wait.is_some_and(|at| now < at) {
            return;
        }
        self.shared_wait = None;
        while let Some(line) = self.next_line(now) {
            match self.leave(now, line) {
                StartDecision::Granted => moves.extend(self.claim(now, line).map(JobMove::Send)),
                StartDecision::TenantWaits(at) => {
                    if let Some(line) = self.lines.get(line) {
                        self.order.block_until(line.tenant, at);
                    }
                }
                StartDecision::AllWait(at) => {
                    self.shared_wait = Some(at);
                    return;
                }
            }
        }
    }

    fn wakeup(&self) -> Option<Nanos> {
        self.shared_wait.or_else(|| self.order.next_wakeup())
    }
}

impl TenantQueue {
    fn new(order: &mut FairQueue, plan: &TenantPlan, rate: Option<u64>) -> SetupResult<Self> {
        Ok(Self {
            tenant: order.join(Weight::new(plan.weight)?, Priority::Normal),
            jobs: VecDeque::new(),
            own: meters(plan.cap.or(rate))?,
            told_to_wait: Nanos::ZERO,
        })
    }
}

/// Exact meters for a rate per second, or none.
fn meters(rate: Option<u64>) -> SetupResult<MeterSet> {
    let limits: Result<Vec<_>, _> = rate
        .into_iter()
        .map(|rate| Rate::per_second(rate).map(Limit::sliding))
        .collect();
    Ok(MeterSet::new(&limits?, ClockPair::default())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioName;

    fn sent(scheduler: &mut PermitFirst, millis: u64) -> Vec<Job> {
        let mut moves = Vec::new();
        scheduler.act(Nanos::from_millis(millis), &mut moves);
        moves
            .into_iter()
            .map(|step| match step {
                JobMove::Send(job) | JobMove::PutBack(job) => job,
            })
            .collect()
    }

    // Shared 30/s: 15 of each go first. Three of the first tenant are refused until 2 s; it is then
    // next, has them first in their old order, and no turn fewer than the other.
    #[test]
    fn a_refused_job_returns_to_the_head_and_its_turn_with_it() {
        let scenario = Scenario::named(ScenarioName::Asymmetric);
        let mut scheduler = PermitFirst::new(&scenario).expect("valid");
        scheduler.submit(0, 0..100);
        scheduler.submit(1, 100..200);
        let first = sent(&mut scheduler, 0);
        assert_eq!(first.iter().filter(|job| **job < 100).count(), 15);
        for job in first.into_iter().rev() {
            let answer = match job {
                0..3 => ServerReply::Refused(Nanos::from_secs(2)),
                _ => ServerReply::Accepted,
            };
            scheduler.answered(Nanos::from_millis(40), job, answer);
        }
        let others = sent(&mut scheduler, 1_100);
        assert!(others.iter().all(|job| *job >= 100), "{others:?}");
        for job in others {
            scheduler.answered(Nanos::from_millis(1_140), job, ServerReply::Accepted);
        }
        let back = sent(&mut scheduler, 2_300);
        assert_eq!(back.first(), Some(&0), "{back:?}");
        let refused: Vec<_> = back.into_iter().filter(|job| *job < 100).collect();
        assert_eq!(refused.get(..4), Some([0, 1, 2, 15].as_slice()));
        assert_eq!(refused.len(), 15, "{refused:?}");
    }
}
