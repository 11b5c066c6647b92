//! Scheduler that takes a permit for the next tenant first, and then its job.
//!
//! A job stays in its tenant's queue until a permit is available, so it is never deferred. Permits come from
//! exact meters that count by arrival, as the API does.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use outflow_core::{
    Cost, Decision, FairCharge, FairQueue, Limit, MeterSet, MinRtt, Nanos, Priority, Rate, ReceiptSet, RequestTiming,
    Tenant, Weight,
};

use super::{Job, JobMove, Scheduler, meters, reconfigure};
use crate::error::SetupResult;
use crate::scenario::{EnforcedRate, Scenario, TenantPlan};
use crate::server::ServerReply;

/// Scheduler of Outflow.
#[derive(Debug)]
pub(crate) struct PermitScheduler {
    order: FairQueue,
    queues: Vec<TenantQueue>,
    /// Limits that all tenants share; empty if each has its own.
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
    /// End of the tenant's cooldown.
    cooldown_until: Nanos,
}

#[derive(Debug)]
struct SentJob {
    queue: usize,
    at: Nanos,
    charge: Option<FairCharge>,
    own: ReceiptSet,
    shared: ReceiptSet,
}

/// Decision of the limits on the next tenant.
enum StartDecision {
    Granted,
    TenantWaits(Nanos),
    AllWait(Nanos),
}

impl PermitScheduler {
    pub(crate) fn new(scenario: &Scenario) -> SetupResult<Self> {
        let mut order = FairQueue::new();
        let (each, all) = match scenario.enforced {
            EnforcedRate::PerTenant(rate) => (Some(rate), None),
            EnforcedRate::Shared(rate) => (None, Some(rate)),
        };
        let queues: SetupResult<Vec<_>> = scenario
            .tenants
            .iter()
            .map(|plan| TenantQueue::new(&mut order, plan, each))
            .collect();
        Ok(Self {
            order,
            queues: queues?,
            shared: meters(all, limit)?,
            shared_wait: None,
            round_trips: MinRtt::default(),
            in_flight: BTreeMap::new(),
        })
    }

    /// Returns the queue of the next tenant. Tenants joined in the order of their queues.
    fn next_queue(&mut self, now: Nanos) -> Option<usize> {
        let tenant = self.order.next(now)?;
        usize::try_from(tenant.slot()).ok()
    }

    fn decide(&mut self, now: Nanos, queue: usize) -> StartDecision {
        let own = self.queues.get_mut(queue).map(|queue| &mut queue.own);
        if let Some(Decision::WaitUntil(at)) = own.map(|own| own.check(now, Cost::ONE)) {
            return StartDecision::TenantWaits(at);
        }
        match self.shared.check(now, Cost::ONE) {
            Decision::WaitUntil(at) => StartDecision::AllWait(at),
            Decision::Allow(()) | Decision::Never => StartDecision::Granted,
        }
    }

    /// Takes the granted permit, and then the first job of the tenant.
    fn claim(&mut self, now: Nanos, index: usize) -> Option<Job> {
        let queue = self.queues.get_mut(index)?;
        let sent = SentJob {
            queue: index,
            at: now,
            own: queue.own.take(now, Cost::ONE).allowed()?,
            shared: self.shared.take(now, Cost::ONE).allowed()?,
            charge: self.order.charge(queue.tenant, Cost::ONE),
        };
        let job = queue.jobs.pop_front()?;
        self.in_flight.insert(job, sent);
        if queue.jobs.is_empty() {
            self.order.set_idle(queue.tenant);
        }
        Some(job)
    }

    /// Returns a throttled job to the head of its queue, and refunds its charge.
    fn return_throttled(&mut self, job: Job, queue: usize, charge: Option<FairCharge>, until: Nanos) {
        let Some(queue) = self.queues.get_mut(queue) else {
            return;
        };
        queue.jobs.push_front(job);
        queue.cooldown_until = until;
        self.order.enter(queue.tenant);
        self.order.block_until(queue.tenant, until);
        if let Some(charge) = charge {
            self.order.refund(charge);
        }
    }
}

impl Scheduler for PermitScheduler {
    fn submit(&mut self, tenant: usize, jobs: Range<Job>) {
        if let Some(queue) = self.queues.get_mut(tenant) {
            queue.jobs.extend(jobs);
            self.order.enter(queue.tenant);
        }
    }

    fn learn(&mut self, now: Nanos, rate: u64) {
        reconfigure(&mut self.shared, now, limit(rate));
        self.shared_wait = None;
    }

    fn on_reply(&mut self, now: Nanos, job: Job, reply: ServerReply) {
        let Some(sent) = self.in_flight.remove(&job) else {
            return;
        };
        let floor = self.round_trips.observe(now, now.since(sent.at));
        let timing = RequestTiming::Answered {
            sent: sent.at,
            answered: now,
        };
        self.shared.settle(now, sent.shared, timing, floor);
        if let Some(queue) = self.queues.get_mut(sent.queue) {
            queue.own.settle(now, sent.own, timing, floor);
            // The reply shows when the permit returns, often sooner than assumed.
            if now >= queue.cooldown_until {
                self.order.unblock(queue.tenant);
            }
        }
        self.shared_wait = None;
        if let ServerReply::Throttled(until) = reply {
            self.return_throttled(job, sent.queue, sent.charge, until);
        }
    }

    fn act(&mut self, now: Nanos, moves: &mut Vec<JobMove>) {
        if self.shared_wait.is_some_and(|at| now < at) {
            return;
        }
        self.shared_wait = None;
        while let Some(queue) = self.next_queue(now) {
            match self.decide(now, queue) {
                StartDecision::Granted => moves.extend(self.claim(now, queue).map(JobMove::Send)),
                StartDecision::TenantWaits(at) => {
                    if let Some(queue) = self.queues.get(queue) {
                        self.order.block_until(queue.tenant, at);
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
            own: meters(plan.cap.or(rate), limit)?,
            cooldown_until: Nanos::ZERO,
        })
    }
}

fn limit(rate: u64) -> SetupResult<Limit> {
    Ok(Limit::sliding(Rate::per_second(rate)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::ScenarioName;

    fn sent(scheduler: &mut PermitScheduler, millis: u64) -> Vec<Job> {
        let mut moves = Vec::new();
        scheduler.act(Nanos::from_millis(millis), &mut moves);
        moves
            .into_iter()
            .map(|step| match step {
                JobMove::Send(job) | JobMove::Defer(job) => job,
            })
            .collect()
    }

    // Shared 30/s: 15 of each go first. Three of the first tenant are throttled until 2 s. The tenant is then
    // next, sends them first in their order, and loses no share to the other.
    #[test]
    fn a_throttled_job_returns_to_the_head_and_its_charge_is_refunded() {
        let scenario = Scenario::named(ScenarioName::Asymmetric);
        let mut scheduler = PermitScheduler::new(&scenario).expect("valid");
        scheduler.submit(0, 0..100);
        scheduler.submit(1, 100..200);
        let first = sent(&mut scheduler, 0);
        assert_eq!(first.iter().filter(|job| **job < 100).count(), 15);
        for job in first.into_iter().rev() {
            let reply = match job {
                0..3 => ServerReply::Throttled(Nanos::from_secs(2)),
                _ => ServerReply::Accepted,
            };
            scheduler.on_reply(Nanos::from_millis(40), job, reply);
        }
        let others = sent(&mut scheduler, 1_100);
        assert!(others.iter().all(|job| *job >= 100), "{others:?}");
        for job in others {
            scheduler.on_reply(Nanos::from_millis(1_140), job, ServerReply::Accepted);
        }
        let back = sent(&mut scheduler, 2_300);
        assert_eq!(back.first(), Some(&0), "{back:?}");
        let first: Vec<_> = back.into_iter().filter(|job| *job < 100).collect();
        assert_eq!(first.get(..4), Some([0, 1, 2, 15].as_slice()));
        assert_eq!(first.len(), 15, "{first:?}");
    }
}
