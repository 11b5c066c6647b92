//! The doors a job passes: its API's, and its tenant's own.
//!
//! A tenant's limit is a door like any other, so that it counts calls as they arrive at the server and
//! not as they leave a queue. It has no health of its own: what is wrong with the API is the API's.
//! Doors of tenants that have nothing under way are forgotten after a while, with windows that are over.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outflow::{Events, Permit, Refusal, Rules, SharedTimer, Upstream};
use outflow_core::{AdaptiveMode, Cost, HealthConfig, HealthSettings, Nanos, Rate};
use outflow_store::Name;

use crate::pacing::{self, StartPacer};

/// Doors of tenants: one each, whatever the lane.
pub(crate) struct TenantLimiters {
    timer: SharedTimer,
    doors: Mutex<HashMap<Name, CachedLimiter>>,
}

struct CachedLimiter {
    door: Upstream,
    rate: Rate,
    pace: StartPacer,
    used: Nanos,
}

impl TenantLimiters {
    pub(crate) fn new(timer: SharedTimer) -> Self {
        Self {
            timer,
            doors: Mutex::default(),
        }
    }

    /// Leave for a job of this tenant, whose limit this is; nothing to hold if it has none.
    pub(crate) fn try_admit(
        &self,
        tenant: &Name,
        rate: Option<Rate>,
        cost: Cost,
    ) -> Result<Option<Permit>, Refusal> {
        let Some(door) = rate.and_then(|rate| self.limiter(tenant, rate)) else {
            return Ok(None);
        };
        let target = door.route(&http::Method::GET, "/").with_cost(cost);
        door.try_acquire(target).map(Some)
    }

    /// Why a job of this cost can never go, if the tenant's limit is smaller than that.
    pub(crate) fn never(&self, tenant: &Name, rate: Option<Rate>, cost: Cost) -> Option<String> {
        let rate = rate.filter(|rate| cost.units() > rate.quantity())?;
        let refusal = self.try_admit(tenant, Some(rate), cost).err()?;
        Some(refusal.to_string())
    }

    /// Until when the tenant's next job would be too close behind the one before.
    pub(crate) fn paced_until(&self, tenant: &Name, now: Nanos) -> Option<Nanos> {
        self.lock().get(tenant)?.pace.shut_until(now)
    }

    /// A job of this tenant goes, with the permit it was given here: the next keeps its distance.
    pub(crate) fn started(&self, tenant: &Name, cost: Cost, now: Nanos) {
        if let Some(kept) = self.lock().get_mut(tenant) {
            kept.pace.start(now, pacing::spread(kept.rate, cost));
        }
    }

    /// The tenant's door, at this rate.
    fn limiter(&self, tenant: &Name, rate: Rate) -> Option<Upstream> {
        let now = self.timer.now();
        let mut doors = self.lock();
        if let Some(kept) = doors.get_mut(tenant) {
            kept.used = now;
            if kept.rate != rate && kept.door.reconfigure(&rules(rate)).is_ok() {
                kept.rate = rate;
            }
            return Some(kept.door.clone());
        }
        let timer = SharedTimer::clone(&self.timer);
        // One limit and nothing else cannot contradict itself.
        let door = Upstream::new(tenant.as_str(), rules(rate), timer, Events::new()).ok()?;
        let kept = CachedLimiter {
            door: door.clone(),
            rate,
            pace: StartPacer::default(),
            used: now,
        };
        doors.insert(tenant.clone(), kept);
        Some(door)
    }

    /// Forgets doors that nobody used for longer than anything counts against them.
    pub(crate) fn tidy(&self) {
        let now = self.timer.now();
        self.lock().retain(|_, kept| {
            let counts = kept.rate.per().saturating_add(LINGER);
            !kept.door.is_idle() || now.since(kept.used) < counts
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, CachedLimiter>> {
        self.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn rules(rate: Rate) -> Rules {
    let crowd = HealthSettings {
        concurrency: MANY,
        ..HealthSettings::default()
    };
    Rules {
        adaptive: AdaptiveMode::Off,
        health: HealthConfig::new(crowd).unwrap_or_default(),
        ..Rules::with_limit(rate)
    }
}

/// The crew and the API bound how many are under way; a tenant's door must not.
const MANY: u32 = 100_000;

/// An answer may come as late as that, and its call counts from then.
const LINGER: Duration = Duration::from_mins(1);
