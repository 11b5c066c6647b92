//! Time that concurrency and workers need for a workload, at an assumed time of a call.
//!
//! A lower bound by limits alone promises too much where few calls may be in flight: four at once with calls of
//! 200 ms are twenty a second, even if the limits allow more. Before a run the time of a call is not known, so it is
//! assumed and stated.

use std::collections::BTreeMap;
use std::time::Duration;

use outflow::Outflow;

use super::workload::Workload;
use crate::settings::EngineSettings;
use crate::submit::lane::Lane;

/// Time that a bound on calls in flight needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InFlightBound {
    /// Time until the last call starts, if each takes the assumed time.
    pub span: Duration,
    /// Bound that needs the longest, as in `concurrency 4 of shop`.
    pub because: String,
    /// Setting that raises it.
    pub setting: &'static str,
    /// Number of calls before the last one, by the number of calls in flight.
    rounds: u64,
}

impl InFlightBound {
    /// Returns the time of a call above which this bound needs longer than `limits`.
    pub fn binds_above(&self, limits: Duration) -> Duration {
        let nanos = limits.as_nanos() / u128::from(self.rounds.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Workload {
    /// Returns the bound on calls in flight that needs the longest, if a call takes `latency`. Tasks of handlers
    /// take an unknown time and are left out.
    pub fn in_flight_bound(
        &self,
        client: &Outflow,
        settings: &EngineSettings,
        latency: Duration,
    ) -> Option<InFlightBound> {
        let bound = |jobs: u64, most: u64, because: String, setting| {
            let rounds = jobs.saturating_sub(1) / most.max(1);
            let times = u32::try_from(rounds).unwrap_or(u32::MAX);
            let span = latency.saturating_mul(times);
            InFlightBound {
                span,
                because,
                setting,
                rounds,
            }
        };
        let (mut all, mut in_flight, mut bounds) = (0, 0, Vec::new());
        for (name, jobs) in self.api_jobs() {
            let Some(api) = client.api(&name) else {
                continue;
            };
            let most = api.rules.concurrency();
            bounds.push(bound(
                jobs,
                most.into(),
                format!("concurrency {most} of {name}"),
                "concurrency",
            ));
            in_flight += u64::from(settings.calls_in_flight(&api.rules));
            all += jobs;
        }
        for (tenant, workload) in self.tenants() {
            if let Some(most) = settings.rule(tenant).in_flight {
                let because = format!("{most} in flight of tenant {tenant}");
                bounds.push(bound(workload.all.jobs, most.into(), because, "in_flight"));
            }
        }
        let workers = settings
            .workers
            .bounds(usize::try_from(in_flight).unwrap_or(usize::MAX))
            .max;
        let most = u64::try_from(workers).unwrap_or(u64::MAX);
        bounds.push(bound(all, most, format!("{workers} workers"), "bulk.workers.max"));
        bounds.into_iter().max_by_key(|bound| bound.rounds)
    }

    fn api_jobs(&self) -> BTreeMap<String, u64> {
        let mut apis = BTreeMap::new();
        for (lane, amount) in self.amounts() {
            if let Lane::Api { api, .. } = Lane::from_name(lane) {
                *apis.entry(api).or_default() += amount.jobs;
            }
        }
        apis
    }
}
