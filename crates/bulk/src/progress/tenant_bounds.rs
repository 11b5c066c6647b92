//! How long the jobs of a file take at least: the ideal that a run is measured against, for all and for each
//! tenant.

mod allowance;

use std::collections::BTreeMap;
use std::time::Duration;

use outflow::Outflow;
use outflow_core::{Limit, WallTime};
use outflow_store::Name;
use serde_json::{Value, json};

pub use self::allowance::JobRate;

use crate::{EngineSettings, LowerBound, TenantWorkload, Workload};

/// How long it takes at least.
#[derive(Clone, Debug)]
pub struct TenantBounds {
    /// How many jobs.
    pub jobs: u64,
    /// The shortest time in which all of them can have been sent.
    pub ideal: Duration,
    /// What holds it up longest.
    pub because: String,
    /// The same for each tenant, by name.
    pub tenants: BTreeMap<Name, TenantBound>,
}

/// What concerns one tenant.
#[derive(Clone, Debug)]
pub struct TenantBound {
    /// How many jobs.
    pub jobs: u64,
    /// The shortest time, if nobody else wanted anything.
    pub alone: Duration,
    /// How many of its jobs may go, at all APIs that it calls together.
    pub allowed: Option<JobRate>,
}

impl TenantBounds {
    /// What the limits of these APIs and tenants make of a demand that begins now.
    pub fn new(
        demand: &Workload,
        client: &Outflow,
        settings: &EngineSettings,
        now: WallTime,
    ) -> Self {
        let bound = demand.lower_bound(client, settings, now);
        let tenants = demand.tenants().map(|(name, wanted)| {
            let own = settings.tenant_limit(name);
            (name.clone(), part(client, wanted, own))
        });
        Self {
            jobs: demand.jobs(),
            ideal: bound.span,
            because: bound.because.unwrap_or_else(|| "no limit".to_owned()),
            tenants: tenants.collect(),
        }
    }

    /// As a document.
    pub fn json(&self) -> Value {
        let tenants = self.tenants.iter().map(|(name, part)| {
            json!({
                "tenant": name.as_str(), "jobs": part.jobs,
                "alone_ms": millis(part.alone),
                "allowed": part.allowed.as_ref().map(ToString::to_string),
            })
        });
        json!({
            "jobs": self.jobs,
            "ideal_ms": millis(self.ideal),
            "because": self.because,
            "tenants": tenants.collect::<Vec<_>>(),
        })
    }
}

fn part(client: &Outflow, wanted: &TenantWorkload, own: Option<Limit>) -> TenantBound {
    let mut bound = LowerBound::default();
    bound.add_lanes(client, &wanted.lanes);
    if let Some(limit) = own {
        bound.add_limit(&limit, wanted.all, String::new);
    }
    TenantBound {
        jobs: wanted.all.jobs,
        alone: bound.span,
        allowed: JobRate::new(client, wanted, own.as_ref()),
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::JobPlacement;
    use outflow::Config;
    use outflow::config::{Environment, Source};
    use outflow_core::Cost;

    use super::*;

    fn client() -> Outflow {
        let text = "[apis.up]\nbase_url = \"http://127.0.0.1:9\"\nlimits = [\"30/s\"]\n\
                    groups.slow.limits = [\"2/s\"]\n";
        let source = [Source::new("test", text)];
        let config = Config::read(&source, &Environment::empty()).expect("a configuration");
        let apis = config.apis.into_iter();
        let builder = apis.fold(Outflow::builder(), outflow::OutflowBuilder::api);
        builder.build().expect("a client")
    }

    fn demand(jobs: &[(&str, &str, u64)]) -> Workload {
        let mut demand = Workload::default();
        for (tenant, lane, count) in jobs {
            let (tenant, lane) = (
                tenant.parse().expect("a name"),
                lane.parse().expect("a name"),
            );
            let cost = Cost::ONE;
            let standing = JobPlacement { lane, cost };
            (0..*count).for_each(|_| demand.add(&tenant, &standing, None));
        }
        demand
    }

    // 15,000 at 30/s: the last thirty go after 499 windows. And a tenant of 10/s with 5,000 of them, too.
    #[test]
    fn the_longest_limit_decides() {
        let client = client();
        let mut settings = EngineSettings::default();
        let all = demand(&[("a", "up", 5_000), ("b", "up", 5_000), ("c", "up", 5_000)]);
        let shared = TenantBounds::new(&all, &client, &settings, WallTime::EPOCH);
        assert_eq!(shared.ideal, Duration::from_secs(499));
        assert_eq!(shared.because, "30/s of up");
        settings.tenant.rate = Some("4/s".parse().expect("a rate"));
        let own = TenantBounds::new(&all, &client, &settings, WallTime::EPOCH);
        assert_eq!(own.ideal, Duration::from_secs(1_249));
        assert_eq!(own.because, "4/s of tenant a");
    }

    // Ten of a group at 2/s take four seconds, while a hundred of the rest take three.
    #[test]
    fn lanes_share_what_their_api_allows() {
        let demand = demand(&[("a", "up", 100), ("a", "up/slow", 10)]);
        let forecast = TenantBounds::new(
            &demand,
            &client(),
            &EngineSettings::default(),
            WallTime::EPOCH,
        );
        assert_eq!(forecast.ideal, Duration::from_secs(4));
        assert_eq!(forecast.because, "2/s of group slow of up");
    }
}
