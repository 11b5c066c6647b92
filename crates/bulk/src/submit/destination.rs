//! Destination of each submitted job, by the rate that binds its tenant.

use std::collections::{BTreeMap, BTreeSet};

use outflow_store::{Name, NewJob, SubmitReceipt, SubmitResult};

use super::{JobDestination, count_accepted};
use crate::congestion::BindingRate;
use crate::congestion::lane_shares::LaneShares;
use crate::engine::EngineContext;
use crate::settings::EngineSettings;

/// Tenant, lane and cost of each job of a submission.
pub(super) struct SubmittedPlaces {
    jobs: Vec<JobPlace>,
}

struct JobPlace {
    tenant: Name,
    lane: Name,
    cost: outflow::core::Cost,
}

/// Position of an accepted job in the queues.
#[derive(Clone, Copy)]
struct QueuePosition {
    /// Number of waiting jobs of all tenants, itself included.
    queued: u64,
    /// Number of waiting jobs of its tenant in its lane, itself included.
    place: u64,
}

impl SubmittedPlaces {
    pub(super) fn new(jobs: &[NewJob]) -> Self {
        let jobs = jobs.iter().map(|job| JobPlace {
            tenant: job.tenant.clone(),
            lane: job.lane.clone(),
            cost: job.cost,
        });
        Self { jobs: jobs.collect() }
    }

    /// Returns the destination of each accepted job, and records the congestion that it meets by the formula.
    pub(super) fn into_destinations<S>(
        self,
        context: &EngineContext<S>,
        shares: &LaneShares,
        submitted: &SubmitResult,
    ) -> Vec<JobDestination> {
        let settings = context.settings.load_full();
        let shares = self.joined(shares, submitted);
        let mut rates: BTreeMap<(Name, Name), BindingRate> = BTreeMap::new();
        // Queue length as each job joined: a batch gets the estimates of single submissions.
        let mut queued = submitted.queued.saturating_sub(count_accepted(submitted));
        let mut destinations = Vec::with_capacity(self.jobs.len());
        for (job, receipt) in self.jobs.into_iter().zip(&submitted.receipts) {
            let SubmitReceipt::Accepted { place, .. } = receipt else {
                continue;
            };
            queued += 1;
            context.shares.record_cost(&job.lane, job.cost);
            let JobPlace { tenant, lane, .. } = job;
            let rate = rates
                .entry((tenant.clone(), lane))
                .or_insert_with_key(|(tenant, lane)| context.binding_rate(&shares, tenant, std::slice::from_ref(lane)));
            let position = QueuePosition { queued, place: *place };
            context.record_submitted(&settings, &tenant, *rate, position);
            destinations.push(position.destination(&settings, *rate));
        }
        destinations
    }

    /// Returns the shares with the tenants of this submission.
    fn joined(&self, shares: &LaneShares, submitted: &SubmitResult) -> LaneShares {
        let mut lanes: BTreeMap<&Name, BTreeSet<&Name>> = BTreeMap::new();
        for job in &self.jobs {
            lanes.entry(&job.lane).or_default().insert(&job.tenant);
        }
        let mut shares = shares.clone();
        shares.active = submitted.active;
        for (lane, tenants) in lanes {
            shares.count_at_least(lane, u64::try_from(tenants.len()).unwrap_or(u64::MAX));
        }
        shares
    }
}

impl<S> EngineContext<S> {
    /// Records the congestion that a submitted job meets by the formula.
    fn record_submitted(&self, settings: &EngineSettings, tenant: &Name, rate: BindingRate, position: QueuePosition) {
        let refusals = rate.refusals(&settings.congestion, position.place);
        self.metrics.spins.predict(refusals);
        // The job-first schedulers record the deferrals that happen.
        if settings.scheduler.strategy().is_permit_first() {
            let met = rate.congestion(&settings.congestion, position.place);
            self.metrics.record_spared_deferral(tenant, &met);
        }
    }
}

impl QueuePosition {
    fn destination(self, settings: &EngineSettings, rate: BindingRate) -> JobDestination {
        let Self { queued, place } = self;
        let (global, speed) = (settings.global_rate, rate.speed());
        let ready = settings.ready_queue_max.min(global);
        if place <= speed && queued <= ready {
            return JobDestination::Ready;
        }
        let congestion = rate.congestion(&settings.congestion, place);
        let level = congestion.level;
        JobDestination::NonReady {
            reason: format!("rate limited (global {queued}/{global}, group {place}/{speed}, congestion {level})"),
            backoff: congestion.backoff,
        }
    }
}
