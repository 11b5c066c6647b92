//! Permits for jobs of a shared store, acquired before the claim.
//!
//! The server hands out jobs in a script, which cannot ask this process about each of them. So the lane acquires
//! permits for the cost that it expects, and claims as many jobs of that cost. Unused permits are refunded. The
//! number follows the work: it doubles while every permit finds a job, and an empty queue is asked with one.

use outflow::Permit;
use outflow_core::Cost;
use outflow_store::{ClaimBatch, ClaimedJob};

use super::pacing::{self, StartPacer};
use super::start_permission::{HeldPermits, MissingPermit, StartCheck, StartPermission, is_impossible};

/// Permits for the next jobs of a lane.
#[derive(Debug, Default)]
pub(crate) struct PermitBatch {
    /// One for each job; tasks of a handler need none, and get empty ones.
    pub(crate) permits: Vec<Option<Permit>>,
    /// Part that a further permit lacks.
    pub(crate) missing: Option<MissingPermit>,
    /// Reason why no job of this cost ever starts.
    pub(crate) impossible: Option<String>,
}

/// Cost and number of the permits that a lane acquires next.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchPlan {
    pub(super) cost: Cost,
    pub(super) count: usize,
}

impl Default for BatchPlan {
    /// Most jobs cost one unit.
    fn default() -> Self {
        Self {
            cost: Cost::ONE,
            count: 1,
        }
    }
}

impl BatchPlan {
    /// Returns the plan for this many free workers.
    pub(super) fn at_most(self, workers: usize) -> Self {
        Self {
            count: self.count.min(workers),
            ..self
        }
    }

    /// Returns the plan after a claim for this number of jobs.
    pub(super) fn after(self, asked: usize, claims: &ClaimBatch) -> Self {
        let found = claims.jobs.len();
        Self {
            cost: claims.other_cost.unwrap_or(self.cost),
            count: if found == asked { found * 2 } else { found.max(1) },
        }
    }
}

impl PermitBatch {
    /// Returns the number of jobs to claim. One that can never start is claimed to be dead-lettered.
    pub(super) fn jobs(&self) -> usize {
        self.permits.len().max(usize::from(self.impossible.is_some()))
    }

    /// Returns the permissions of claimed jobs.
    pub(super) fn permissions(self, check: &StartCheck<'_>, jobs: &[ClaimedJob]) -> Vec<StartPermission> {
        if let Some(words) = self.impossible {
            return vec![StartPermission::Impossible(words)];
        }
        let permission = |(job, api): (&ClaimedJob, _)| {
            let rate = check.settings.rule(&job.tenant).rate;
            match check.limits.find_impossible(job, rate) {
                Some(words) => StartPermission::Impossible(words),
                None => StartPermission::Granted(HeldPermits { api, tenant: None }),
            }
        };
        jobs.iter().zip(self.permits).map(permission).collect()
    }
}

impl StartCheck<'_> {
    /// Acquires permits of the API, as many as its limits allow now and the plan's number at most.
    pub(super) fn acquire_ahead(&mut self, plan: BatchPlan) -> PermitBatch {
        let mut batch = PermitBatch::default();
        while batch.permits.len() < plan.count {
            let pacer = self.paced(plan.cost, batch.permits.len());
            if let Some(at) = pacer.next_start_after(self.now) {
                batch.missing = Some(MissingPermit::Distance(at));
                break;
            }
            match self.acquire_api(plan.cost) {
                Ok(permit) => batch.permits.push(permit),
                Err(refusal) if is_impossible(&refusal) => {
                    batch.impossible = Some(refusal.to_string());
                    break;
                }
                Err(refusal) => {
                    let cost = plan.cost;
                    let refusal = Box::new(refusal);
                    batch.missing = Some(MissingPermit::Permit { cost, refusal });
                    break;
                }
            }
        }
        batch
    }

    /// Returns the pacer after this many starts.
    pub(super) fn paced(&self, cost: Cost, starts: usize) -> StartPacer {
        let distance = pacing::start_distance(&self.effective_limits, cost);
        let mut pacer = self.pacer;
        (0..starts).for_each(|_| pacer.record_start(self.now, distance));
        pacer
    }
}
