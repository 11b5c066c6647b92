//! What is wanted of whom, counted: what a forecast and an estimate are made of.

use std::collections::BTreeMap;

use outflow::Outflow;
use outflow::core::{Limit, Rate, WallTime};
use outflow_store::{Name, RemainingWork};

use crate::progress::lower_bound::LowerBound;
use crate::settings::EngineSettings;
use crate::submit::JobPlacement;

/// What jobs want.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    all: WorkAmount,
    lanes: BTreeMap<Name, WorkAmount>,
    tenants: BTreeMap<Name, TenantWorkload>,
    /// The last instant before which somebody does not want to begin.
    latest: Option<WallTime>,
}

/// So many jobs, and what they cost together: limits count the one or the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkAmount {
    /// How many jobs.
    pub jobs: u64,
    /// What they cost together.
    pub units: u64,
}

/// What one tenant wants.
#[derive(Clone, Debug, Default)]
pub struct TenantWorkload {
    /// In all lanes together.
    pub all: WorkAmount,
    /// By lane.
    pub lanes: BTreeMap<Name, WorkAmount>,
}

impl WorkAmount {
    /// Both together.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self {
            jobs: self.jobs.saturating_add(more.jobs),
            units: self.units.saturating_add(more.units),
        }
    }

    /// So much more.
    pub(crate) const fn add(&mut self, more: Self) {
        *self = self.plus(more);
    }
}

impl Workload {
    /// One job more.
    pub fn add(&mut self, tenant: &Name, standing: &JobPlacement, not_before: Option<WallTime>) {
        let one = WorkAmount {
            jobs: 1,
            units: standing.cost.units(),
        };
        self.add_many(tenant, &standing.lane, one);
        self.latest = self.latest.max(not_before);
    }

    /// So many jobs more of a tenant in a lane.
    fn add_many(&mut self, tenant: &Name, lane: &Name, more: WorkAmount) {
        self.all.add(more);
        self.lanes.entry(lane.clone()).or_default().add(more);
        let wanted = self.tenants.entry(tenant.clone()).or_default();
        wanted.all.add(more);
        wanted.lanes.entry(lane.clone()).or_default().add(more);
    }

    /// How many jobs.
    pub const fn jobs(&self) -> u64 {
        self.all.jobs
    }

    /// What each tenant wants.
    pub fn tenants(&self) -> impl Iterator<Item = (&Name, &TenantWorkload)> {
        self.tenants.iter()
    }

    /// The lanes in which something is wanted.
    pub fn lanes(&self) -> impl Iterator<Item = &Name> {
        self.lanes.keys()
    }

    /// How long it takes at least, by the limits of these APIs and tenants, if it begins now.
    pub fn bound(&self, client: &Outflow, settings: &EngineSettings, now: WallTime) -> LowerBound {
        let mut bound = LowerBound::default();
        bound.of_lanes(client, &self.lanes);
        if let Ok(global) = Rate::per_second(settings.global_rate) {
            let whose = || "all tenants together".to_owned();
            bound.meets(&Limit::sliding(global), self.all, whose);
        }
        for (name, wanted) in &self.tenants {
            if let Some(limit) = settings.limit_of(name) {
                bound.meets(&limit, wanted.all, || format!("tenant {name}"));
            }
        }
        if let Some(latest) = self.latest {
            bound.lasts(latest.since(now), || "the latest not_before".to_owned());
        }
        bound
    }
}

impl From<&RemainingWork> for Workload {
    fn from(left: &RemainingWork) -> Self {
        let mut demand = Self {
            latest: left.latest,
            ..Self::default()
        };
        for place in &left.places {
            let amount = WorkAmount {
                jobs: place.jobs,
                units: place.units,
            };
            demand.add_many(&place.tenant, &place.lane, amount);
        }
        demand
    }
}
