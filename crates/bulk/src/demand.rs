//! What is wanted of whom, counted: what a forecast and an estimate are made of.

use std::collections::BTreeMap;

use outflow::Outflow;
use outflow::core::{Limit, Rate, WallTime};
use outflow_store::{Left, Name};

use crate::bound::Bound;
use crate::settings::Settings;
use crate::submit::Standing;

/// What jobs want.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    jobs: u64,
    /// Units by lane.
    lanes: BTreeMap<Name, u64>,
    tenants: BTreeMap<Name, Wanted>,
    /// The last instant before which somebody does not want to begin.
    latest: Option<WallTime>,
}

/// What one tenant wants.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// How many jobs.
    pub jobs: u64,
    /// What they cost together.
    pub units: u64,
    /// The same by lane.
    pub lanes: BTreeMap<Name, u64>,
}

impl Demand {
    /// One job more.
    pub fn add(&mut self, tenant: &Name, standing: &Standing, not_before: Option<WallTime>) {
        let units = standing.cost.units();
        self.add_many(tenant, &standing.lane, (1, units));
        self.latest = self.latest.max(not_before);
    }

    /// So many jobs more of a tenant in a lane, and what they cost together.
    fn add_many(&mut self, tenant: &Name, lane: &Name, (jobs, units): (u64, u64)) {
        let add = |sum: &mut u64| *sum = sum.saturating_add(units);
        self.jobs += jobs;
        add(self.lanes.entry(lane.clone()).or_default());
        let wanted = self.tenants.entry(tenant.clone()).or_default();
        wanted.jobs += jobs;
        add(&mut wanted.units);
        add(wanted.lanes.entry(lane.clone()).or_default());
    }

    /// How many jobs.
    pub const fn jobs(&self) -> u64 {
        self.jobs
    }

    /// What each tenant wants.
    pub fn tenants(&self) -> impl Iterator<Item = (&Name, &Wanted)> {
        self.tenants.iter()
    }

    /// The lanes in which something is wanted.
    pub fn lanes(&self) -> impl Iterator<Item = &Name> {
        self.lanes.keys()
    }

    /// How long it takes at least, by the limits of these APIs and tenants, if it begins now.
    pub fn bound(&self, client: &Outflow, settings: &Settings, now: WallTime) -> Bound {
        let mut bound = Bound::default();
        bound.of_lanes(client, &self.lanes);
        if let Ok(global) = Rate::per_second(settings.global_rate) {
            let units = self
                .lanes
                .values()
                .fold(0, |sum: u64, units| sum.saturating_add(*units));
            let whose = || "all tenants together".to_owned();
            bound.meets(&Limit::sliding(global), units, whose);
        }
        for (name, wanted) in &self.tenants {
            if let Some(limit) = settings.limit_of(name) {
                bound.meets(&limit, wanted.units, || format!("tenant {name}"));
            }
        }
        if let Some(latest) = self.latest {
            bound.lasts(latest.since(now), || "the latest not_before".to_owned());
        }
        bound
    }
}

impl From<&Left> for Demand {
    fn from(left: &Left) -> Self {
        let mut demand = Self {
            latest: left.latest,
            ..Self::default()
        };
        for place in &left.places {
            demand.add_many(&place.tenant, &place.lane, (place.jobs, place.units));
        }
        demand
    }
}
