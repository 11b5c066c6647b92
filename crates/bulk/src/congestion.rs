//! The congestion of tenants: how many of their jobs are put off, for how long, and how it was.
//!
//! Under the permit scheduler nothing is put off, so what is told is what the formula makes of the
//! backlog; under the two that try first it is what they did.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use outflow::core::{CongestionLevel, ThrottleCounts, estimate_completion, rate_limit_speed};
use outflow_store::{
    CongestionSample, Defer, FencingToken, JobCounts, JobEnd, JobStore, Name, PageRequest,
    SettleResult, Settlement, StoreError, SubmitReceipt, SubmitResult, TenantReport,
};

use crate::engine::{Engine, EngineContext};
use crate::error::BulkError;
use crate::settings::{EngineSettings, SchedulerKind};

/// How congested a tenant is.
#[derive(Clone, PartialEq, Debug)]
pub struct TenantCongestion {
    /// The tenant.
    pub group: Name,
    /// How many of its jobs wait because there is no room for them.
    pub non_ready: u64,
    /// How many it is served a second, as it is told.
    pub speed: u64,
    /// The last wait that a job of it was given.
    pub last_backoff: Duration,
    /// How bad it is now: a tenant with nothing to wait for is not congested, whatever it was.
    pub level: CongestionLevel,
    /// When all that wait will have been served, at that speed.
    pub estimate: Duration,
    /// How often a finished job of it was refused or put off on average; nothing before one finished.
    pub throttles_per_job: Option<f64>,
}

/// How congested all tenants are.
#[derive(Clone, PartialEq, Debug)]
pub struct CongestionSummary {
    /// How many have work.
    pub active: u64,
    /// How many jobs wait because there is no room for them.
    pub non_ready: u64,
    /// A page of the tenants.
    pub groups: Vec<TenantCongestion>,
}

/// What was reckoned when jobs came in, and what really happened.
#[derive(Debug, Default)]
pub(crate) struct SpinSavings {
    state: Mutex<CountedJobs>,
}

#[derive(Debug, Default)]
struct CountedJobs {
    expected: u64,
    actual: u64,
    saved: u64,
}

impl SpinSavings {
    fn with<T>(&self, change: impl FnOnce(&mut CountedJobs) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = change(&mut state);
        state.saved = state.saved.max(state.expected.saturating_sub(state.actual));
        answer
    }

    /// A job came in that would have been refused so often by a scheduler that always waits as long.
    pub(crate) fn expect(&self, spins: u64) {
        self.with(|state| state.expected = state.expected.saturating_add(spins));
    }

    /// A job was refused or put off.
    pub(crate) fn happened(&self) {
        self.with(|state| state.actual = state.actual.saturating_add(1));
    }

    /// How often jobs were not refused that would have been.
    pub(crate) fn saved(&self) -> u64 {
        self.with(|state| state.saved)
    }
}

impl<S> EngineContext<S> {
    /// Reckons what each job that came in would have met.
    pub(crate) fn entered<'o>(
        &self,
        settings: &EngineSettings,
        tenants: impl Iterator<Item = &'o Name>,
        submitted: &SubmitResult,
    ) {
        let speed = rate_limit_speed(settings.global_rate, submitted.active);
        for (tenant, receipt) in tenants.zip(&submitted.receipts) {
            let SubmitReceipt::Accepted { place, .. } = receipt else {
                continue;
            };
            self.spins.expect(place / speed);
            // The schedulers that try first tell what they really did.
            if settings.scheduler == SchedulerKind::Permit {
                self.waited(
                    settings,
                    tenant,
                    &settings.congestion.reading(*place, speed),
                );
            }
        }
    }
}

impl<S: JobStore> Engine<S> {
    /// How congested a tenant is; nothing if it is not known.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn congestion(&self, tenant: &Name) -> Result<Option<TenantCongestion>, BulkError> {
        let store = self.store();
        let active = store.active_tenants().await?;
        let settings = self.settings();
        let report = store.tenant(tenant).await?;
        Ok(report.map(|report| state(&settings, active, report)))
    }

    /// How congested all tenants are, a page of them at a time.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn congestion_summary(
        &self,
        page: PageRequest,
    ) -> Result<CongestionSummary, BulkError> {
        let store = self.store();
        let (active, tally) = (store.active_tenants().await?, store.job_counts().await?);
        let settings = self.settings();
        let tenants = store.tenants(page).await?;
        let groups = tenants
            .into_iter()
            .map(|report| state(&settings, active, report));
        Ok(CongestionSummary {
            active,
            non_ready: non_ready(&settings, tally.non_ready, tally.queued),
            groups: groups.collect(),
        })
    }

    /// The last snapshots of a tenant's congestion, the oldest first.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn congestion_history(
        &self,
        tenant: &Name,
        most: usize,
    ) -> Result<Vec<CongestionSample>, BulkError> {
        Ok(self.store().congestion_history(tenant, most).await?)
    }

    /// How often jobs were not refused that a scheduler which always waits as long would have had
    /// refused: what was reckoned when they came in, less what happened.
    pub fn saved_spins(&self) -> u64 {
        self.hub().spins.saved()
    }

    /// Forgets the statistics of a tenant.
    ///
    /// # Errors
    /// While jobs of it are put off, and if the store cannot be asked.
    pub async fn congestion_reset(&self, tenant: &Name) -> Result<(), BulkError> {
        Ok(self.store().reset_congestion(tenant).await?)
    }

    /// Lets jobs of a tenant that were put off stand in line again at once, those that are due first.
    /// They pass the limiter as all others do. Answers how many are still put off.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub async fn release(&self, tenant: &Name, most: u64) -> Result<u64, BulkError> {
        Ok(self.store().release_deferred(tenant, most).await?)
    }

    /// Puts a claimed job off by the formula, and answers what it met. Workers do this by themselves
    /// under the schedulers that try first; it is here for whoever schedules by other means.
    ///
    /// # Errors
    /// If the store cannot be asked, or the claim is not the session's any more.
    pub async fn add_to_non_ready(
        &self,
        session: &Name,
        token: FencingToken,
    ) -> Result<outflow::core::Congestion, BulkError> {
        let settings = self.settings();
        let put_off = settings.put_off();
        let settled = match self.put_off(session, token, put_off).await {
            // A store that is there and cannot reckon: the same claim, by a span that needs no reckoning.
            Err(error) if error.is_stuck() => {
                let base = settings.congestion.base();
                self.put_off(session, token, Defer::Fixed(base)).await?
            }
            settled => settled?,
        };
        match settled.first() {
            Some(SettleResult::PutOff { .. }) if settings.scheduler == SchedulerKind::Fixed => {
                Ok(settings.congestion.off())
            }
            Some(SettleResult::PutOff {
                backoff,
                non_ready,
                speed,
            }) => Ok(outflow::core::Congestion {
                backoff: *backoff,
                non_ready: *non_ready,
                speed: *speed,
                level: CongestionLevel::new(*backoff, settings.congestion.base()),
            }),
            _ => Err(BulkError::invalid(
                "the claim is not this session's any more: the job is somebody else's",
            )),
        }
    }

    async fn put_off(
        &self,
        session: &Name,
        token: FencingToken,
        by: Defer,
    ) -> Result<Vec<SettleResult>, StoreError> {
        let end = JobEnd::PutOff(by);
        let settlement = Settlement { token, end };
        self.store().settle(session, vec![settlement]).await
    }
}

pub(crate) fn state(
    settings: &EngineSettings,
    active: u64,
    report: TenantReport,
) -> TenantCongestion {
    let tally = report.tally;
    let non_ready = non_ready(settings, tally.non_ready, tally.queued);
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
        throttles_per_job: throttles(&tally).map(ThrottleCounts::per_job),
    }
}

/// How often a tenant's jobs were put back, once one of them is over: until then it says nothing that a few
/// of them are tried again and again.
pub(crate) fn throttles(tally: &JobCounts) -> Option<ThrottleCounts> {
    let over = tally.done + tally.dead + tally.failed;
    (over > 0).then(|| ThrottleCounts::new(tally.throttles, tally.tried()))
}

/// Under the permit scheduler all that wait do so for room.
const fn non_ready(settings: &EngineSettings, put_off: u64, queued: u64) -> u64 {
    match settings.scheduler {
        SchedulerKind::Permit => queued,
        SchedulerKind::Backoff | SchedulerKind::Fixed => put_off,
    }
}
