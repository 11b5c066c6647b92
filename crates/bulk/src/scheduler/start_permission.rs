//! Decides if a job may start now.
//!
//! Every rule of the permit scheduler is here, in one order: distance to the lane's last start, distance to the
//! tenant's last start, the tenant's limit, the API's limits, the global rate. The claim filter asks before a job
//! leaves its queue, and the lane schedule waits for the part that is missing. On a shared store the limits of the
//! API are checked here, and the others by the server. A permit without use is refunded when it drops.

use std::time::Duration;

use outflow::{EffectiveLimit, Outflow, Permit, Refusal, RefusalReason, SharedTimer, Target, Upstream, WaitReason};
use outflow_core::{Cost, Nanos, Rate};
use outflow_store::{ClaimedJob, Name};

use super::POLL_INTERVAL;
use super::global_rate::GlobalRate;
use super::pacing::{self, StartPacer};
use super::tenant_limits::TenantLimiters;
use crate::settings::EngineSettings;
use crate::submit::job_payload::HttpCall;

/// Counts that all starts of this process change.
pub(crate) struct StartLimits {
    pub(crate) tenants: TenantLimiters,
    pub(crate) global: GlobalRate,
}

/// Permission of one claimed job to start.
#[derive(Debug)]
pub(crate) enum StartPermission {
    /// It starts now, with its permits.
    Granted(HeldPermits),
    /// It asks for its own permits when it starts.
    Unchecked,
    /// It costs more than a limit ever allows.
    Impossible(String),
}

/// Permits held while a job is in flight.
#[derive(Debug, Default)]
pub(crate) struct HeldPermits {
    /// Permit of the API; a handler's task has none.
    pub(crate) api: Option<Permit>,
    /// Permit of the tenant, if it has a limit.
    pub(crate) tenant: Option<Permit>,
}

/// Permit acquired ahead of the job that uses it.
#[derive(Debug)]
pub(crate) struct ReservedPermit {
    pub(crate) permit: Permit,
    pub(crate) cost: Cost,
}

/// Missing part of a start, which stops the whole lane.
#[derive(Debug)]
pub(crate) enum MissingPermit {
    /// Distance from the start before: the next is due at this instant.
    Distance(Nanos),
    /// Permit of the API for a job of this cost.
    Permit { cost: Cost, refusal: Box<Refusal> },
}

/// Reason why a job does not start now.
#[derive(Debug)]
pub(crate) enum StartDenied {
    /// The lane waits.
    Lane(MissingPermit),
    /// This tenant waits until then; others may start.
    TenantUntil(Nanos),
    /// No wait helps.
    Impossible(String),
}

/// Check of starts of one lane at one instant.
pub(crate) struct StartCheck<'a> {
    pub(crate) limits: &'a StartLimits,
    pub(crate) settings: &'a EngineSettings,
    /// Upstream and target of the lane; a handler has none.
    pub(crate) upstream: Option<(Upstream, Target)>,
    pub(crate) effective_limits: Vec<EffectiveLimit>,
    pub(crate) pacer: StartPacer,
    pub(crate) reserved: Option<ReservedPermit>,
    pub(crate) now: Nanos,
}

impl StartLimits {
    pub(crate) fn new(timer: SharedTimer) -> Self {
        Self {
            tenants: TenantLimiters::new(timer),
            global: GlobalRate::default(),
        }
    }

    /// Returns the reason why a job of this cost never starts, if the tenant's limit is smaller.
    pub(crate) fn find_impossible(&self, job: &ClaimedJob, rate: Option<Rate>) -> Option<String> {
        let rate = rate.filter(|rate| job.cost.units() > rate.quantity())?;
        let refusal = self.tenants.try_acquire(&job.tenant, Some(rate), job.cost);
        Some(refusal.err()?.to_string())
    }
}

impl StartCheck<'_> {
    /// Acquires all permits of a job, or says what it waits for.
    pub(crate) fn decide(&mut self, tenant: &Name, cost: Cost) -> Result<HeldPermits, StartDenied> {
        if let Some(at) = self.pacer.next_start_after(self.now) {
            return Err(StartDenied::Lane(MissingPermit::Distance(at)));
        }
        if let Some(at) = self.limits.tenants.paced_until(tenant, self.now) {
            return Err(StartDenied::TenantUntil(at));
        }
        let rate = self.settings.rule(tenant).rate;
        let own = self.limits.tenants.try_acquire(tenant, rate, cost);
        let own = own.map_err(|refusal| self.deny_tenant(&refusal))?;
        let api = self.acquire_api(cost).map_err(|refusal| {
            if is_impossible(&refusal) {
                return StartDenied::Impossible(refusal.to_string());
            }
            let refusal = Box::new(refusal);
            StartDenied::Lane(MissingPermit::Permit { cost, refusal })
        })?;
        self.count_start(tenant, cost, HeldPermits { api, tenant: own })
    }

    fn count_start(&mut self, tenant: &Name, cost: Cost, permits: HeldPermits) -> Result<HeldPermits, StartDenied> {
        let rate = self.settings.global_rate;
        if let Err(at) = self.limits.global.try_start(rate, cost, self.now) {
            self.reserved = permits.api.map(|permit| ReservedPermit { permit, cost });
            return Err(StartDenied::Lane(MissingPermit::Distance(at)));
        }
        let distance = pacing::start_distance(&self.effective_limits, cost);
        self.pacer.record_start(self.now, distance);
        if permits.tenant.is_some() {
            self.limits.tenants.record_start(tenant, cost, self.now);
        }
        Ok(permits)
    }

    pub(super) fn acquire_api(&mut self, cost: Cost) -> Result<Option<Permit>, Refusal> {
        let Some((upstream, target)) = &self.upstream else {
            return Ok(None);
        };
        match self.reserved.take() {
            Some(kept) if kept.cost == cost && !kept.permit.is_revoked() => Ok(Some(kept.permit)),
            _ => upstream.try_acquire(target.with_cost(cost)).map(Some),
        }
    }

    /// Names the instant of the next try: the tenant's limit may have changed by then.
    fn deny_tenant(&self, refusal: &Refusal) -> StartDenied {
        if is_impossible(refusal) {
            return StartDenied::Impossible(refusal.to_string());
        }
        let wait = refusal.retry_after.unwrap_or(UNKNOWN_WAIT);
        StartDenied::TenantUntil(self.now.saturating_add(wait.min(MAX_TENANT_WAIT)))
    }
}

/// Returns how long an API accepts nothing because it sleeps or cools down, if longer than this: jobs claimed
/// meanwhile would only come back. Calls in flight end soon.
pub(crate) fn blocked_for((upstream, target): &(Upstream, Target), longer_than: Duration) -> Option<Duration> {
    let estimate = upstream.explain(*target)?;
    let asleep = matches!(estimate.reason, WaitReason::Cooldown | WaitReason::State(_));
    let wait = estimate.eta;
    let wait = wait.map_or(POLL_INTERVAL, |at| at.since(upstream.now()));
    (asleep && wait > longer_than).then(|| wait.min(POLL_INTERVAL))
}

/// Finds the upstream of a job's call; a task and a call of an unknown API have none.
pub(crate) fn find_upstream(client: &Outflow, job: &ClaimedJob) -> Option<(Upstream, Target)> {
    let call = HttpCall::decode(job.payload.clone()).ok()?;
    let upstream = client.upstream(&call.api)?;
    let path = call.path.split('?').next().unwrap_or_default();
    let target = upstream.route(&call.method, path).with_cost(job.cost);
    Some((upstream, target))
}

/// Returns true if no wait helps.
pub(crate) fn is_impossible(refusal: &Refusal) -> bool {
    matches!(refusal.reason, RefusalReason::Never { .. })
}

/// A raised limit is noticed after this, though no event announces it.
const MAX_TENANT_WAIT: Duration = Duration::from_secs(5);

/// A limit without a known instant waits for a response, which takes about this long.
const UNKNOWN_WAIT: Duration = Duration::from_millis(5);
