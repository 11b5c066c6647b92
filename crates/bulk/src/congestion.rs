//! Congestion of tenants: jobs that lack quota, their wait, and its history.
//!
//! The permit scheduler defers no job, so it reports the result of the formula for the backlog. The job-first
//! schedulers report the deferrals that happened.

mod binding_rate;
pub(crate) mod lane_shares;
pub(crate) mod spin_savings;

use std::time::Duration;

use outflow::core::{CongestionLevel, ThrottleCounts};
use outflow_store::{
    ClaimedJob, CongestionSample, Defer, FencingToken, JobCounts, JobEnd, JobStore, Name, PageRequest, SettleResult,
    Settlement, StoreError, TenantReport,
};

pub(crate) use binding_rate::BindingRate;

use crate::engine::{Engine, EngineContext};
use crate::error::BulkError;
use crate::scheduler::start_permission::find_upstream;
use crate::settings::EngineSettings;
use crate::submit::lane::Lane;
use lane_shares::LaneShares;

/// Congestion of a tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct TenantCongestion {
    /// Tenant.
    pub group: Name,
    /// Number of its jobs that lack quota.
    pub non_ready: u64,
    /// Reported speed: jobs per second by the limit that binds the tenant now, its own, its API's or the global one.
    pub speed: u64,
    /// Last deferral of one of its jobs; under the permit scheduler, the wait of its last job by the formula.
    pub last_backoff: Duration,
    /// Current level; a tenant without waiting jobs is not congested.
    pub level: CongestionLevel,
    /// Remaining time of its jobs; nothing while it or one of its APIs is paused, and without limits before the first
    /// job of its lanes ended.
    pub eta: Option<Duration>,
    /// Mean number of throttles and deferrals of an ended job; nothing before one ended.
    pub throttles_per_job: Option<f64>,
}

/// Congestion of all tenants.
#[derive(Clone, PartialEq, Debug)]
pub struct CongestionSummary {
    /// Number of tenants with work.
    pub active: u64,
    /// Number of jobs that lack quota.
    pub non_ready: u64,
    /// One page of tenants.
    pub groups: Vec<TenantCongestion>,
}

impl<S> EngineContext<S> {
    /// Returns the congestion of a tenant by its report, with its remaining time.
    pub(crate) fn tenant_congestion(
        &self,
        shares: &LaneShares,
        report: &TenantReport,
        eta: Option<Duration>,
    ) -> TenantCongestion {
        let settings = self.settings.load();
        let non_ready = count_non_ready(&settings, &report.counts);
        let only = shares.only_lane().filter(|_| report.lanes.is_empty());
        let backlogs = report.lanes.iter().map(|backlog| &backlog.lane);
        let lanes: Vec<_> = backlogs.chain(only).cloned().collect();
        let rate = self.binding_rate(shares, &report.name, &lanes);
        let met = rate.congestion(&settings.congestion, non_ready);
        let (level, backoff) = match non_ready {
            0 => (CongestionLevel::None, Duration::ZERO),
            _ => (met.level, met.backoff),
        };
        let permit_first = settings.scheduler.strategy().is_permit_first();
        TenantCongestion {
            group: report.name.clone(),
            non_ready,
            speed: rate.speed(),
            last_backoff: if permit_first { backoff } else { report.last_backoff },
            level,
            eta,
            throttles_per_job: count_throttles(&report.counts).map(ThrottleCounts::per_job),
        }
    }

    /// Sets the speed of a deferral to the rate that binds the job, if it waits by the formula.
    pub(crate) fn bind_deferral(&self, end: &mut JobEnd, job: &ClaimedJob) {
        let (JobEnd::Deferred(by) | JobEnd::RetryDeferred { by, .. }) = end else {
            return;
        };
        let Defer::Formula { most, .. } = by else {
            return;
        };
        let lane = find_upstream(&self.client, job).map(|(upstream, target)| Lane::name_for_target(&upstream, target));
        let lane = lane.and_then(Result::ok);
        let rate = self.limit_rate(&self.shares.last(), &job.tenant, lane.as_slice());
        *most = rate.map_or(u64::MAX, BindingRate::speed);
    }
}

impl<S: JobStore> Engine<S> {
    /// Returns the congestion of a tenant; nothing for an unknown tenant.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn congestion(&self, tenant: &Name) -> Result<Option<TenantCongestion>, BulkError> {
        let report = self.store().tenant(tenant).await?;
        Ok(self.report_congestion(report.as_slice()).await?.pop())
    }

    /// Returns the congestion of tenants whose reports were read before, in their order.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn report_congestion(&self, reports: &[TenantReport]) -> Result<Vec<TenantCongestion>, BulkError> {
        let context = &self.context;
        let shares = context.read_shares().await?;
        let backlogs = context.measure_lanes().await?;
        let states = reports.iter().map(|report| {
            let eta = context.tenant_eta(report, &shares, &backlogs);
            context.tenant_congestion(&shares, report, eta)
        });
        Ok(states.collect())
    }

    /// Returns the congestion of all tenants, with one page of them.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn congestion_summary(&self, page: PageRequest) -> Result<CongestionSummary, BulkError> {
        let (active, counts) = (self.store().active_tenants().await?, self.store().job_counts().await?);
        let tenants = self.store().tenants(page).await?;
        Ok(CongestionSummary {
            active,
            non_ready: count_non_ready(&self.settings(), &counts),
            groups: self.report_congestion(&tenants).await?,
        })
    }

    /// Returns the last samples of a tenant's congestion, the oldest first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn congestion_history(&self, tenant: &Name, limit: usize) -> Result<Vec<CongestionSample>, BulkError> {
        Ok(self.store().congestion_history(tenant, limit).await?)
    }

    /// Returns the number of refusals that a fixed wait would have given the ended jobs in addition: by the formula at
    /// their submission, less the refusals that happened.
    pub fn saved_spins(&self) -> u64 {
        self.context.metrics.spins.saved()
    }

    /// Deletes the statistics of a tenant.
    ///
    /// # Errors
    /// While jobs of it are deferred, and if the store fails.
    pub async fn congestion_reset(&self, tenant: &Name) -> Result<(), BulkError> {
        Ok(self.store().reset_congestion(tenant).await?)
    }

    /// Returns deferred jobs of a tenant to their queues at once, due jobs first. They pass the limits as
    /// all others do. Returns the number of jobs that are still deferred.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn release(&self, tenant: &Name, limit: u64) -> Result<u64, BulkError> {
        Ok(self.store().release_deferred(tenant, limit).await?)
    }

    /// Defers a claimed job by the formula, and returns the congestion that it met. Workers of the job-first
    /// schedulers do this themselves; use it for your own scheduler.
    ///
    /// # Errors
    /// If the store fails, or the session does not hold the claim any more.
    pub async fn add_to_non_ready(
        &self,
        session: &Name,
        token: FencingToken,
    ) -> Result<outflow::core::Congestion, BulkError> {
        let settings = self.settings();
        let strategy = settings.scheduler.strategy();
        let settled = match self.defer(session, token, strategy.defer(&settings)).await {
            // The store answers but cannot compute the formula: a fixed wait needs no computation.
            Err(error) if error.is_stuck() => {
                let base = settings.congestion.base();
                self.defer(session, token, Defer::Fixed(base)).await?
            }
            settled => settled?,
        };
        match settled.first() {
            Some(SettleResult::Deferred {
                backoff,
                non_ready,
                speed,
            }) => Ok(strategy.congestion(&settings.congestion, *backoff, *non_ready, *speed)),
            _ => Err(BulkError::invalid(
                "the session does not hold this claim any more: another session has the job",
            )),
        }
    }

    async fn defer(&self, session: &Name, token: FencingToken, by: Defer) -> Result<Vec<SettleResult>, StoreError> {
        let end = JobEnd::Deferred(by);
        let settlement = Settlement {
            token,
            end,
            arrived: None,
        };
        self.store().settle(session, vec![settlement]).await
    }
}

/// Returns the throttles of a tenant's jobs once one of them has ended: before that, a few jobs with many attempts
/// would distort the mean.
pub(crate) fn count_throttles(counts: &JobCounts) -> Option<ThrottleCounts> {
    let ended = counts.done + counts.dead + counts.failed;
    (ended > 0).then(|| ThrottleCounts::new(counts.throttles, counts.tried()))
}

fn count_non_ready(settings: &EngineSettings, counts: &JobCounts) -> u64 {
    let strategy = settings.scheduler.strategy();
    strategy.count_non_ready(counts.non_ready, counts.queued)
}
