//! Least time that the jobs of a file need, in total and by tenant.

mod allowance;

use std::collections::BTreeMap;
use std::time::Duration;

use outflow::Outflow;
use outflow_core::{Limit, WallTime};
use outflow_store::Name;
use serde_json::{Value, json};

pub use self::allowance::JobRate;

use crate::views::millis;
use crate::{EngineSettings, LowerBound, TenantWorkload, Workload};

/// Least time of a workload.
#[derive(Clone, Debug)]
pub struct TenantBounds {
    /// Number of jobs.
    pub jobs: u64,
    /// Least time to send all of them.
    pub ideal: Duration,
    /// Limit that decides it.
    pub because: String,
    /// Bounds of the tenants by name.
    pub tenants: BTreeMap<Name, TenantBound>,
}

/// Least time of one tenant's jobs.
#[derive(Clone, Debug)]
pub struct TenantBound {
    /// Number of jobs.
    pub jobs: u64,
    /// Least time if the tenant were alone.
    pub alone: Duration,
    /// Rate of its jobs, over all APIs that it calls.
    pub allowed: Option<JobRate>,
}

impl TenantBounds {
    /// Computes the bounds of a workload that starts now.
    pub fn new(workload: &Workload, client: &Outflow, settings: &EngineSettings, now: WallTime) -> Self {
        let bound = workload.lower_bound(client, settings, now);
        let tenants = workload.tenants().map(|(name, tenant)| {
            let own = settings.tenant_limit(name);
            (name.clone(), tenant_bound(client, tenant, own))
        });
        Self {
            jobs: workload.jobs(),
            ideal: bound.span,
            because: bound.because.unwrap_or_else(|| "no limit".to_owned()),
            tenants: tenants.collect(),
        }
    }

    /// Returns the bounds as JSON.
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

fn tenant_bound(client: &Outflow, workload: &TenantWorkload, own: Option<Limit>) -> TenantBound {
    let mut bound = LowerBound::default();
    bound.add_lanes(client, &workload.lanes);
    if let Some(limit) = own {
        bound.add_limit(&limit, workload.all, String::new);
    }
    TenantBound {
        jobs: workload.all.jobs,
        alone: bound.span,
        allowed: JobRate::new(client, workload, own.as_ref()),
    }
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

    fn workload(jobs: &[(&str, &str, u64)]) -> Workload {
        let mut workload = Workload::default();
        for (tenant, lane, count) in jobs {
            let (tenant, lane) = (tenant.parse().expect("a name"), lane.parse().expect("a name"));
            let cost = Cost::ONE;
            let placement = JobPlacement { lane, cost };
            (0..*count).for_each(|_| workload.add(&tenant, &placement, None));
        }
        workload
    }

    // 15,000 at 30/s: the last thirty go after 499 windows. A tenant of 4/s with 5,000 of them needs 1,249.
    #[test]
    fn the_longest_limit_decides() {
        let client = client();
        let mut settings = EngineSettings::default();
        let all = workload(&[("a", "up", 5_000), ("b", "up", 5_000), ("c", "up", 5_000)]);
        let shared = TenantBounds::new(&all, &client, &settings, WallTime::EPOCH);
        assert_eq!(shared.ideal, Duration::from_secs(499));
        assert_eq!(shared.because, "30/s of up");
        settings.tenant.rate = Some("4/s".parse().expect("a rate"));
        let own = TenantBounds::new(&all, &client, &settings, WallTime::EPOCH);
        assert_eq!(own.ideal, Duration::from_secs(1_249));
        assert_eq!(own.because, "4/s of tenant a");
    }

    // Ten of a group at 2/s take four seconds, and a hundred of the others three.
    #[test]
    fn lanes_share_what_their_api_allows() {
        let workload = workload(&[("a", "up", 100), ("a", "up/slow", 10)]);
        let bounds = TenantBounds::new(&workload, &client(), &EngineSettings::default(), WallTime::EPOCH);
        assert_eq!(bounds.ideal, Duration::from_secs(4));
        assert_eq!(bounds.because, "2/s of group slow of up");
    }
}
