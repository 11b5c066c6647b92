//! Amount of work by lane and by tenant: the input of a lower bound.

use std::collections::BTreeMap;

use outflow::Outflow;
use outflow::core::{Limit, Rate, WallTime};
use outflow_store::{Name, RemainingWork};

use super::lower_bound::LowerBound;
use crate::settings::EngineSettings;
use crate::submit::JobPlacement;

/// Amount of work.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    total: WorkAmount,
    lanes: BTreeMap<Name, WorkAmount>,
    tenants: BTreeMap<Name, TenantWorkload>,
    /// Latest `not_before` of all jobs.
    latest: Option<WallTime>,
}

/// Number of jobs and the sum of their costs: limits count the one or the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkAmount {
    /// Number of jobs.
    pub jobs: u64,
    /// Sum of their costs.
    pub units: u64,
}

/// Work of one tenant.
#[derive(Clone, Debug, Default)]
pub struct TenantWorkload {
    /// Sum of all lanes.
    pub all: WorkAmount,
    /// Amount by lane.
    pub lanes: BTreeMap<Name, WorkAmount>,
}

impl TenantWorkload {
    fn of_lane(lane: &Name, amount: WorkAmount) -> Self {
        Self {
            all: amount,
            lanes: BTreeMap::from([(lane.clone(), amount)]),
        }
    }
}

impl WorkAmount {
    /// Returns the sum.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self {
            jobs: self.jobs.saturating_add(more.jobs),
            units: self.units.saturating_add(more.units),
        }
    }

    pub(crate) const fn add(&mut self, more: Self) {
        *self = self.plus(more);
    }

    /// Returns the amount of this many jobs with the same mean cost.
    pub(crate) fn times(self, jobs: u64) -> Self {
        let units = u128::from(self.units) * u128::from(jobs) / u128::from(self.jobs.max(1));
        Self {
            jobs,
            units: u64::try_from(units).unwrap_or(u64::MAX),
        }
    }
}

impl Workload {
    /// Adds one job.
    pub fn add(&mut self, tenant: &Name, placement: &JobPlacement, not_before: Option<WallTime>) {
        let one = WorkAmount {
            jobs: 1,
            units: placement.cost.units(),
        };
        self.add_amount(tenant, &placement.lane, one);
        self.latest = self.latest.max(not_before);
    }

    /// Creates an empty workload whose last job does not start before this.
    pub(super) fn until(latest: Option<WallTime>) -> Self {
        Self {
            latest,
            ..Self::default()
        }
    }

    /// Replaces the amount of each lane.
    pub(super) fn with_lane_amounts(&self, amount: impl Fn(&Name, WorkAmount) -> WorkAmount) -> Self {
        let lanes = self.lanes.iter().map(|(lane, own)| (lane.clone(), amount(lane, *own)));
        let lanes: BTreeMap<_, _> = lanes.collect();
        Self {
            total: lanes.values().fold(WorkAmount::default(), |sum, lane| sum.plus(*lane)),
            lanes,
            ..self.clone()
        }
    }

    /// Returns the part of one lane.
    pub(super) fn in_lane(&self, lane: &Name) -> Self {
        let all = self.lanes.get(lane).copied().unwrap_or_default();
        let tenants = self.tenants.iter().filter_map(|(name, own)| {
            let own = TenantWorkload::of_lane(lane, *own.lanes.get(lane)?);
            Some((name.clone(), own))
        });
        Self {
            total: all,
            lanes: BTreeMap::from([(lane.clone(), all)]),
            tenants: tenants.collect(),
            latest: None,
        }
    }

    /// Returns the part of one tenant.
    pub(super) fn of_tenant(&self, name: &Name) -> Self {
        let own = self.tenants.get(name).cloned().unwrap_or_default();
        Self {
            total: own.all,
            lanes: own.lanes.clone(),
            tenants: BTreeMap::from([(name.clone(), own)]),
            latest: None,
        }
    }

    pub(super) fn add_amount(&mut self, tenant: &Name, lane: &Name, more: WorkAmount) {
        self.total.add(more);
        self.lanes.entry(lane.clone()).or_default().add(more);
        let own = self.tenants.entry(tenant.clone()).or_default();
        own.all.add(more);
        own.lanes.entry(lane.clone()).or_default().add(more);
    }

    /// Returns the number of jobs.
    pub const fn jobs(&self) -> u64 {
        self.total.jobs
    }

    /// Returns the work of each tenant.
    pub fn tenants(&self) -> impl Iterator<Item = (&Name, &TenantWorkload)> {
        self.tenants.iter()
    }

    pub(super) const fn total(&self) -> WorkAmount {
        self.total
    }

    pub(super) const fn latest(&self) -> Option<WallTime> {
        self.latest
    }

    pub(super) fn amounts(&self) -> impl Iterator<Item = (&Name, &WorkAmount)> {
        self.lanes.iter()
    }

    /// Returns the lanes that have work.
    pub fn lanes(&self) -> impl Iterator<Item = &Name> {
        self.lanes.keys()
    }

    /// Returns the least time that the limits of APIs and tenants need, if the work starts now.
    pub fn lower_bound(&self, client: &Outflow, settings: &EngineSettings, now: WallTime) -> LowerBound {
        let mut bound = LowerBound::default();
        bound.add_lanes(client, &self.lanes);
        if let Ok(global) = Rate::per_second(settings.global_rate) {
            let owner = || "all tenants together".to_owned();
            bound.add_limit(&Limit::sliding(global), self.total, owner);
        }
        for (name, own) in &self.tenants {
            if let Some(limit) = settings.tenant_limit(name) {
                bound.add_limit(&limit, own.all, || format!("tenant {name}"));
            }
        }
        if let Some(latest) = self.latest {
            bound.add_span(latest.since(now), || "the latest not_before".to_owned());
        }
        bound
    }
}

impl From<&RemainingWork> for Workload {
    fn from(remaining: &RemainingWork) -> Self {
        let mut workload = Self::until(remaining.latest);
        for place in &remaining.places {
            let amount = WorkAmount {
                jobs: place.jobs,
                units: place.units,
            };
            // A tenant's jobs go in the order of their submission, whatever their action.
            workload.add_amount(&place.tenant, &place.lane, amount.times(place.until_last));
        }
        workload
    }
}
