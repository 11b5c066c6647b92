//! Congestion of tenants: jobs that lack quota, their wait, and its history.
//!
//! The permit scheduler defers no job, so it reports the result of the formula for the backlog. The job-first
//! schedulers report the deferrals that happened.

use std::time::Duration;

use outflow::core::{CongestionLevel, ThrottleCounts, estimate_completion, rate_limit_speed};
use outflow_store::{
    CongestionSample, Defer, FencingToken, JobCounts, JobEnd, JobStore, Name, PageRequest, SettleResult, Settlement,
    StoreError, SubmitReceipt, SubmitResult, TenantReport,
};
use outflow_sync::Mutex;

use crate::engine::{Engine, EngineContext};
use crate::error::BulkError;
use crate::settings::EngineSettings;

/// Congestion of a tenant.
#[derive(Clone, PartialEq, Debug)]
pub struct TenantCongestion {
    /// Tenant.
    pub group: Name,
    /// Number of its jobs that lack quota.
    pub non_ready: u64,
    /// Reported speed: jobs per second.
    pub speed: u64,
    /// Last deferral of one of its jobs.
    pub last_backoff: Duration,
    /// Current level; a tenant without waiting jobs is not congested.
    pub level: CongestionLevel,
    /// Time until all waiting jobs are served at that speed.
    pub estimate: Duration,
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

/// Throttles that submissions predicted, and throttles that happened.
#[derive(Debug, Default)]
pub(crate) struct SpinSavings {
    counts: Mutex<SpinCounts>,
}

#[derive(Debug, Default)]
struct SpinCounts {
    expected: u64,
    actual: u64,
    saved: u64,
}

impl SpinSavings {
    fn update(&self, change: impl FnOnce(&mut SpinCounts)) -> u64 {
        let mut counts = self.counts.lock();
        change(&mut counts);
        let saved = counts.expected.saturating_sub(counts.actual);
        counts.saved = counts.saved.max(saved);
        counts.saved
    }

    /// Adds the throttles that a submitted job would get from a scheduler with a fixed wait.
    fn expect(&self, spins: u64) {
        self.update(|counts| counts.expected = counts.expected.saturating_add(spins));
    }

    /// Counts a throttle or a deferral.
    pub(crate) fn count(&self) {
        self.update(|counts| counts.actual = counts.actual.saturating_add(1));
    }

    /// Returns the number of avoided throttles.
    pub(crate) fn saved(&self) -> u64 {
        self.update(|_| {})
    }
}

impl<S> EngineContext<S> {
    /// Records the congestion that each submitted job meets by the formula.
    pub(crate) fn record_submitted<'t>(
        &self,
        settings: &EngineSettings,
        tenants: impl Iterator<Item = &'t Name>,
        submitted: &SubmitResult,
    ) {
        let speed = rate_limit_speed(settings.global_rate, submitted.active);
        for (tenant, receipt) in tenants.zip(&submitted.receipts) {
            let SubmitReceipt::Accepted { place, .. } = receipt else {
                continue;
            };
            self.metrics.spins.expect(place / speed);
            // The job-first schedulers record the deferrals that happen.
            if settings.scheduler.strategy().is_permit_first() {
                let met = settings.congestion.reading(*place, speed);
                self.metrics.record_wait(self.clock.now(), settings, tenant, &met);
            }
        }
    }
}

impl<S: JobStore> Engine<S> {
    /// Returns the congestion of a tenant; nothing for an unknown tenant.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn congestion(&self, tenant: &Name) -> Result<Option<TenantCongestion>, BulkError> {
        let store = self.store();
        let active = store.active_tenants().await?;
        let settings = self.settings();
        let report = store.tenant(tenant).await?;
        Ok(report.map(|report| tenant_congestion(&settings, active, report)))
    }

    /// Returns the congestion of all tenants, with one page of them.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn congestion_summary(&self, page: PageRequest) -> Result<CongestionSummary, BulkError> {
        let store = self.store();
        let (active, counts) = (store.active_tenants().await?, store.job_counts().await?);
        let settings = self.settings();
        let tenants = store.tenants(page).await?;
        let groups = tenants
            .into_iter()
            .map(|report| tenant_congestion(&settings, active, report));
        Ok(CongestionSummary {
            active,
            non_ready: count_non_ready(&settings, &counts),
            groups: groups.collect(),
        })
    }

    /// Returns the last samples of a tenant's congestion, the oldest first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn congestion_history(&self, tenant: &Name, limit: usize) -> Result<Vec<CongestionSample>, BulkError> {
        Ok(self.store().congestion_history(tenant, limit).await?)
    }

    /// Returns the number of throttles that a scheduler with a fixed wait would have caused in addition: predicted at
    /// submission, less the throttles that happened.
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
        let settlement = Settlement { token, end };
        self.store().settle(session, vec![settlement]).await
    }
}

/// Returns the congestion of a tenant by its report and the number of active tenants.
pub(crate) fn tenant_congestion(settings: &EngineSettings, active: u64, report: TenantReport) -> TenantCongestion {
    let non_ready = count_non_ready(settings, &report.counts);
    let speed = rate_limit_speed(settings.global_rate, active);
    let level = match non_ready {
        0 => CongestionLevel::None,
        waiting => settings.congestion.reading(waiting, speed).level,
    };
    TenantCongestion {
        group: report.name,
        non_ready,
        speed,
        last_backoff: report.last_backoff,
        level,
        estimate: estimate_completion(non_ready, speed),
        throttles_per_job: count_throttles(&report.counts).map(ThrottleCounts::per_job),
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
