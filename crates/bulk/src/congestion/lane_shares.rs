//! The number of tenants that share each lane, and the mean cost of its jobs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use outflow::LimitScope;
use outflow::core::{Cost, Nanos};
use outflow_core::CountBy;
use outflow_store::{JobStore, LaneLoad, Name, StoreResult};
use outflow_sync::Mutex;

use super::binding_rate::BindingRate;
use crate::WorkAmount;
use crate::engine::EngineContext;
use crate::submit::lane::Lane;

/// Tenants of each lane at one instant.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneShares {
    read: Nanos,
    /// Number of tenants that have work.
    pub(crate) active: u64,
    tenants: BTreeMap<Name, u64>,
}

/// Shares that were read last, and costs that were seen.
#[derive(Debug, Default)]
pub(crate) struct ShareTable {
    shares: Mutex<Option<Arc<LaneShares>>>,
    costs: Mutex<HashMap<Name, WorkAmount>>,
}

impl ShareTable {
    /// Records the cost of a job. Later jobs count more than earlier ones.
    pub(crate) fn record_cost(&self, lane: &Name, cost: Cost) {
        let mut costs = self.costs.lock();
        if !costs.contains_key(lane) {
            costs.insert(lane.clone(), WorkAmount::default());
        }
        if let Some(amount) = costs.get_mut(lane) {
            amount.add(WorkAmount {
                jobs: 1,
                units: cost.units(),
            });
            if amount.jobs >= MAX_JOBS {
                (amount.jobs, amount.units) = (amount.jobs / 2, amount.units / 2);
            }
        }
    }

    /// Returns the jobs whose cost was seen, with the sum: their mean is the cost of a job.
    pub(crate) fn cost(&self, lane: &Name) -> WorkAmount {
        let known = self.costs.lock().get(lane).copied();
        known.unwrap_or(WorkAmount { jobs: 1, units: 1 })
    }

    /// Returns the shares that were read last.
    pub(crate) fn last(&self) -> Arc<LaneShares> {
        self.shares.lock().clone().unwrap_or_default()
    }
}

impl LaneShares {
    fn new(read: Nanos, active: u64, loads: Vec<LaneLoad>) -> Self {
        Self {
            read,
            active,
            tenants: loads.into_iter().map(|load| (load.lane, load.tenants)).collect(),
        }
    }

    /// Counts tenants that joined after the shares were read.
    pub(crate) fn count_at_least(&mut self, lane: &Name, tenants: u64) {
        let known = self.tenants.entry(lane.clone()).or_default();
        *known = (*known).max(tenants);
    }

    /// Returns the lanes that have work.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Name> {
        self.tenants.keys()
    }

    /// Returns the only lane that has work.
    pub(crate) fn only_lane(&self) -> Option<&Name> {
        let mut lanes = self.tenants.keys();
        lanes.next().filter(|_| lanes.next().is_none())
    }

    /// Returns the number of tenants that share the limits of a lane, or of its whole API.
    fn tenants_at(&self, lane: &Name, scope: LimitScope) -> u64 {
        let own = self.tenants.get(lane).copied().unwrap_or(1);
        let Lane::Api { api, .. } = Lane::from_name(lane) else {
            return own;
        };
        match scope {
            LimitScope::Group => own,
            LimitScope::Api => {
                let of_api =
                    |other: &Name| matches!(Lane::from_name(other), Lane::Api { api: name, .. } if name == api);
                let lanes = self.tenants.iter().filter(|(other, _)| of_api(other));
                lanes.map(|(_, tenants)| *tenants).sum::<u64>().max(own)
            }
        }
    }
}

impl<S: JobStore> EngineContext<S> {
    /// Reads the shares.
    pub(crate) async fn read_shares(&self) -> StoreResult<Arc<LaneShares>> {
        let (active, loads) = (self.store.active_tenants().await?, self.store.lane_loads().await?);
        let shares = Arc::new(LaneShares::new(self.clock.now(), active, loads));
        *self.shares.shares.lock() = Some(Arc::clone(&shares));
        Ok(shares)
    }

    /// Returns shares that are at most a second old. If the store fails, returns those that were read last.
    pub(crate) async fn recent_shares(&self) -> Arc<LaneShares> {
        let last = self.shares.shares.lock().clone();
        match last {
            Some(last) if self.clock.now().since(last.read) < MAX_AGE => last,
            _ => self.read_shares().await.unwrap_or_else(|_| self.shares.last()),
        }
    }
}

impl<S> EngineContext<S> {
    /// Returns the rate that binds a tenant with jobs in these lanes.
    pub(crate) fn binding_rate(&self, shares: &LaneShares, tenant: &Name, lanes: &[Name]) -> BindingRate {
        let global = BindingRate::of_global(self.settings.load().global_rate, shares.active);
        self.limit_rate(shares, tenant, lanes)
            .map_or(global, |rate| rate.min(global))
    }

    /// Returns the rate by the tenant's own limit and the APIs' limits; none if neither bounds its jobs.
    pub(crate) fn limit_rate(&self, shares: &LaneShares, tenant: &Name, lanes: &[Name]) -> Option<BindingRate> {
        let own = self.settings.load().rule(tenant).rate;
        let mut amount = WorkAmount::default();
        for lane in lanes {
            amount.add(self.shares.cost(lane));
        }
        let own = own.and_then(|rate| BindingRate::of_limit(rate, CountBy::Cost, amount, 1));
        let parts: Option<Vec<_>> = lanes.iter().map(|lane| self.lane_rate(shares, lane)).collect();
        let of_lanes = parts.and_then(|parts| parts.into_iter().reduce(BindingRate::plus));
        own.into_iter().chain(of_lanes).min()
    }

    /// Returns the rate of a lane by its limits, if no other lane of its API has work.
    pub(crate) fn lane_rate_alone(&self, lane: &Name) -> Option<BindingRate> {
        self.lane_rate(&LaneShares::default(), lane)
    }

    /// Returns the part of a lane's limits that each of its tenants gets; none without limits.
    fn lane_rate(&self, shares: &LaneShares, lane: &Name) -> Option<BindingRate> {
        let (upstream, target) = Lane::from_name(lane).upstream(&self.client)?;
        let (limits, amount) = (upstream.effective_limits(target), self.shares.cost(lane));
        let parts = limits.iter().filter_map(|limit| {
            let tenants = shares.tenants_at(lane, limit.scope);
            BindingRate::of_limit(limit.rate, limit.measure, amount, tenants)
        });
        parts.min()
    }
}

/// Submissions come faster than tenants.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Enough for a mean, and few enough that a change of costs shows.
const MAX_JOBS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(text: &str) -> Name {
        text.parse().expect("a name")
    }

    // Two tenants in one lane of an API and one in another: a limit of the API has three shares.
    #[test]
    fn tenants_of_all_lanes_share_the_limits_of_an_api() {
        let load = |name, tenants| LaneLoad {
            lane: lane(name),
            tenants,
        };
        let loads = vec![load("shop", 2), load("shop/slow", 1), load("shopping", 5)];
        let shares = LaneShares::new(Nanos::ZERO, 8, loads);
        assert_eq!(shares.tenants_at(&lane("shop"), LimitScope::Api), 3);
        assert_eq!(shares.tenants_at(&lane("shop"), LimitScope::Group), 2);
        assert_eq!(shares.tenants_at(&lane("unknown"), LimitScope::Group), 1);
    }

    #[test]
    fn the_mean_cost_follows_later_jobs() {
        let table = ShareTable::default();
        for cost in [1, 3] {
            (0..MAX_JOBS).for_each(|_| table.record_cost(&lane("shop"), Cost::new(cost)));
        }
        let amount = table.cost(&lane("shop"));
        assert!(amount.units * 10 >= amount.jobs * 23, "{amount:?}");
        assert_eq!(table.cost(&lane("other")), WorkAmount { jobs: 1, units: 1 });
    }
}
