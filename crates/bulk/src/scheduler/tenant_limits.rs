//! Limits of tenants, one limiter for each.
//!
//! A tenant's limit is an [`Upstream`] as well, so that it counts calls as they arrive at the server and not as
//! they leave a queue. It has no health: failures belong to the API. Idle limiters are dropped after their
//! window.

use std::collections::HashMap;
use std::time::Duration;

use outflow::{AcquireOptions, Events, Permit, Refusal, Rules, SharedTimer, Upstream, WaitEstimate, WaitMode};
use outflow_core::{AdaptiveMode, Cost, Decision, HealthConfig, HealthSettings, Nanos, Rate};
use outflow_store::Name;
use outflow_sync::Mutex;

use super::pacing::{self, StartPacer};

/// Limiters of tenants; one limiter serves all lanes.
pub(crate) struct TenantLimiters {
    timer: SharedTimer,
    limiters: Mutex<HashMap<Name, CachedLimiter>>,
}

struct CachedLimiter {
    upstream: Upstream,
    rate: Rate,
    pacer: StartPacer,
    last_used: Nanos,
}

impl TenantLimiters {
    pub(crate) fn new(timer: SharedTimer) -> Self {
        Self {
            timer,
            limiters: Mutex::default(),
        }
    }

    /// Acquires a permit of the tenant; a tenant without a rate needs none.
    pub(crate) fn try_acquire(&self, tenant: &Name, rate: Option<Rate>, cost: Cost) -> Result<Option<Permit>, Refusal> {
        let Some(upstream) = rate.and_then(|rate| self.limiter(tenant, rate)) else {
            return Ok(None);
        };
        let target = upstream.route(&http::Method::GET, "/").with_cost(cost);
        upstream.try_acquire(target).map(Some)
    }

    /// Acquires a permit of the tenant, now or within this span.
    pub(crate) async fn acquire_within(
        &self,
        tenant: &Name,
        rate: Option<Rate>,
        cost: Cost,
        span: Duration,
    ) -> Result<Option<Permit>, Refusal> {
        let Some(upstream) = rate.and_then(|rate| self.limiter(tenant, rate)) else {
            return Ok(None);
        };
        let target = upstream.route(&http::Method::GET, "/").with_cost(cost);
        let deadline = upstream.now().saturating_add(span);
        let options = AcquireOptions::new().with_mode(WaitMode::Wait).with_deadline(deadline);
        upstream.acquire_with(target, options).await.map(Some)
    }

    /// Returns the wait of the tenant's next call of this cost; nothing if it has no limiter or never allows the cost.
    pub(crate) fn first_wait(&self, tenant: &Name, rate: Option<Rate>, cost: Cost) -> Option<Duration> {
        let upstream = rate.and_then(|rate| self.limiter(tenant, rate))?;
        let target = upstream.route(&http::Method::GET, "/").with_cost(cost);
        match upstream.check(target) {
            Decision::WaitUntil(at) => (at != Nanos::MAX).then(|| at.since(upstream.now())),
            Decision::Allow(()) => Some(Duration::ZERO),
            Decision::Never => None,
        }
    }

    /// Estimates the wait of the tenant's next start, if its limit delays it.
    pub(crate) fn explain(&self, tenant: &Name) -> Option<WaitEstimate> {
        let upstream = self.limiters.lock().get(tenant)?.upstream.clone();
        let target = upstream.route(&http::Method::GET, "/");
        upstream.explain(target)
    }

    /// Returns the earliest instant of the tenant's next start, if it is not now.
    pub(crate) fn paced_until(&self, tenant: &Name, now: Nanos) -> Option<Nanos> {
        self.limiters.lock().get(tenant)?.pacer.next_start_after(now)
    }

    /// Records a start of this tenant, so that the next keeps its distance.
    pub(crate) fn record_start(&self, tenant: &Name, cost: Cost, now: Nanos) {
        if let Some(cached) = self.limiters.lock().get_mut(tenant) {
            let distance = pacing::spread(cached.rate, cost);
            cached.pacer.record_start(now, distance);
        }
    }

    fn limiter(&self, tenant: &Name, rate: Rate) -> Option<Upstream> {
        let now = self.timer.now();
        let mut limiters = self.limiters.lock();
        if let Some(cached) = limiters.get_mut(tenant) {
            cached.last_used = now;
            if cached.rate != rate && cached.upstream.reconfigure(&rules(rate)).is_ok() {
                cached.rate = rate;
            }
            return Some(cached.upstream.clone());
        }
        let timer = SharedTimer::clone(&self.timer);
        // Rules of a single limit cannot contradict each other.
        let upstream = Upstream::new(tenant.as_str(), rules(rate), timer, Events::new()).ok()?;
        let cached = CachedLimiter {
            upstream: upstream.clone(),
            rate,
            pacer: StartPacer::default(),
            last_used: now,
        };
        limiters.insert(tenant.clone(), cached);
        Some(upstream)
    }

    /// Drops limiters whose calls no longer count.
    pub(crate) fn prune(&self) {
        let now = self.timer.now();
        self.limiters.lock().retain(|_, cached| {
            let counts_for = cached.rate.per().saturating_add(LATE_RESPONSE);
            !cached.upstream.is_idle() || now.since(cached.last_used) < counts_for
        });
    }
}

fn rules(rate: Rate) -> Rules {
    let health = HealthSettings {
        concurrency: Some(UNBOUNDED),
        ..HealthSettings::default()
    };
    Rules {
        adaptive: AdaptiveMode::Off,
        health: HealthConfig::new(health).unwrap_or_default(),
        ..Rules::with_limit(rate)
    }
}

/// The worker pool and the API bound the calls in flight; a tenant's limiter must not.
const UNBOUNDED: u32 = 100_000;

/// A response may be this late, and its call counts from then.
const LATE_RESPONSE: Duration = Duration::from_mins(1);
