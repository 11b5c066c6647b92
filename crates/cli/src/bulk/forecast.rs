//! How long jobs take at least, by what the limits allow: the ideal that a run is measured against.
//!
//! Exact arithmetic on the configured limits, each for itself: a limit of `n` a window lets the last of
//! `u` units go after `(u - 1) / n` whole windows. The longest of all limits is the answer. It knows
//! nothing of answers that are slow, of failures, or of what others use meanwhile, so it is a bound from
//! below and no promise.

mod allowance;

use std::collections::BTreeMap;
use std::time::Duration;

use outflow::{DEFAULT_GROUP, Outflow};
use outflow_bulk::{Lane, Settings, Standing};
use outflow_core::{Kind, Limit, Rate, WallTime};
use outflow_store::Name;
use serde_json::{Value, json};

pub(crate) use self::allowance::Allowance;

/// What is wanted of whom, counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demand {
    jobs: u64,
    /// Units by lane.
    lanes: BTreeMap<Name, u64>,
    tenants: BTreeMap<Name, Wanted>,
    /// The last instant before which somebody does not want to begin.
    latest: Option<WallTime>,
}

/// What one tenant wants.
#[derive(Clone, Debug, Default)]
struct Wanted {
    jobs: u64,
    units: u64,
    lanes: BTreeMap<Name, u64>,
}

impl Demand {
    /// One job more.
    pub(crate) fn add(&mut self, tenant: &Name, standing: &Standing, not_before: Option<WallTime>) {
        let units = standing.cost.units();
        self.jobs += 1;
        *self.lanes.entry(standing.lane.clone()).or_default() += units;
        let wanted = self.tenants.entry(tenant.clone()).or_default();
        wanted.jobs += 1;
        wanted.units += units;
        *wanted.lanes.entry(standing.lane.clone()).or_default() += units;
        self.latest = self.latest.max(not_before);
    }

    /// How many jobs.
    pub(crate) const fn jobs(&self) -> u64 {
        self.jobs
    }

    /// How many jobs of each tenant.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.tenants
            .iter()
            .map(|(name, wanted)| (name, wanted.jobs))
    }
}

/// How long it takes at least.
#[derive(Clone, Debug)]
pub(crate) struct Forecast {
    /// How many jobs.
    pub(crate) jobs: u64,
    /// The shortest time in which all of them can have been sent.
    pub(crate) ideal: Duration,
    /// What holds it up longest.
    pub(crate) because: String,
    /// The same for each tenant, by name.
    pub(crate) tenants: BTreeMap<Name, Part>,
}

/// What concerns one tenant.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// How many jobs.
    pub(crate) jobs: u64,
    /// The shortest time, if nobody else wanted anything.
    pub(crate) alone: Duration,
    /// What it may use at most, of all APIs that it calls together.
    pub(crate) allowed: Option<Allowance>,
}

impl Forecast {
    /// What the limits of these APIs and tenants make of a demand that begins now.
    pub(crate) fn of(
        demand: &Demand,
        client: &Outflow,
        settings: &Settings,
        now: WallTime,
    ) -> Self {
        let mut longest = Longest::default();
        longest.of_lanes(client, &demand.lanes);
        if let Ok(global) = Rate::per_second(settings.global_rate) {
            let units = demand.lanes.values().sum();
            let whose = || "all tenants together".to_owned();
            longest.meets(&Limit::sliding(global), units, whose);
        }
        let mut tenants = BTreeMap::new();
        for (name, wanted) in &demand.tenants {
            let rule = settings.tenants.get(name).unwrap_or(&settings.tenant);
            let own = rule.rate.map(Limit::sliding);
            if let Some(limit) = own {
                longest.meets(&limit, wanted.units, || format!("tenant {name}"));
            }
            tenants.insert(name.clone(), part(client, wanted, own));
        }
        if let Some(latest) = demand.latest {
            longest.lasts(latest.since(now), || "the latest not_before".to_owned());
        }
        Self {
            jobs: demand.jobs,
            ideal: longest.span,
            because: longest.because.unwrap_or_else(|| "no limit".to_owned()),
            tenants,
        }
    }

    /// As a document.
    pub(crate) fn json(&self) -> Value {
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

fn part(client: &Outflow, wanted: &Wanted, own: Option<Limit>) -> Part {
    let mut longest = Longest::default();
    longest.of_lanes(client, &wanted.lanes);
    if let Some(limit) = own {
        longest.meets(&limit, wanted.units, String::new);
    }
    Part {
        jobs: wanted.jobs,
        alone: longest.span,
        allowed: Allowance::of(client, &wanted.lanes, own.as_ref()),
    }
}

/// The longest time so far, and why.
#[derive(Default)]
struct Longest {
    span: Duration,
    because: Option<String>,
}

impl Longest {
    /// Every limit that these lanes meet: their own, and those that an API's lanes share.
    fn of_lanes(&mut self, client: &Outflow, lanes: &BTreeMap<Name, u64>) {
        let mut apis: BTreeMap<String, u64> = BTreeMap::new();
        for (lane, units) in lanes {
            let Lane::Api { api, group } = Lane::of(lane) else {
                continue;
            };
            let Some(known) = client.api(&api) else {
                continue;
            };
            let name = group.as_deref().unwrap_or(DEFAULT_GROUP);
            let group = known.rules.groups.iter().find(|group| group.name == name);
            for limit in group.into_iter().flat_map(|group| group.limits.iter()) {
                self.meets(limit, *units, || format!("group {name} of {api}"));
            }
            *apis.entry(api).or_default() += units;
        }
        for (api, units) in apis {
            let known = client.api(&api);
            for limit in known.iter().flat_map(|known| &known.rules.limits) {
                self.meets(limit, units, || api.clone());
            }
        }
    }

    fn meets(&mut self, limit: &Limit, units: u64, whose: impl FnOnce() -> String) {
        let rate = limit.rate();
        self.lasts(shortest(limit, units), || format!("{rate} of {}", whose()));
    }

    fn lasts(&mut self, span: Duration, why: impl FnOnce() -> String) {
        if span > self.span || self.because.is_none() {
            self.because = Some(why());
        }
        self.span = self.span.max(span);
    }
}

/// When the last of so many units can go, if the first goes now and nothing was used before.
fn shortest(limit: &Limit, units: u64) -> Duration {
    let rate = limit.rate();
    let per = rate.per().as_nanos();
    let nanos = match limit.kind() {
        Kind::Sliding | Kind::Fixed | Kind::Aligned => {
            let windows = units.saturating_sub(1) / rate.quantity();
            per.saturating_mul(u128::from(windows))
        }
        Kind::Bucket { burst } => {
            let late = u128::from(units.saturating_sub(burst));
            per.saturating_mul(late) / u128::from(rate.quantity())
        }
    };
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
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
        let builder = apis.fold(Outflow::builder(), outflow::Builder::api);
        builder.build().expect("a client")
    }

    fn demand(jobs: &[(&str, &str, u64)]) -> Demand {
        let mut demand = Demand::default();
        for (tenant, lane, count) in jobs {
            let (tenant, lane) = (
                tenant.parse().expect("a name"),
                lane.parse().expect("a name"),
            );
            let cost = Cost::ONE;
            let standing = Standing { lane, cost };
            (0..*count).for_each(|_| demand.add(&tenant, &standing, None));
        }
        demand
    }

    // 15,000 at 30/s: the last thirty go after 499 windows. And a tenant of 10/s with 5,000 of them, too.
    #[test]
    fn the_longest_limit_decides() {
        let client = client();
        let mut settings = Settings::default();
        let all = demand(&[("a", "up", 5_000), ("b", "up", 5_000), ("c", "up", 5_000)]);
        let shared = Forecast::of(&all, &client, &settings, WallTime::EPOCH);
        assert_eq!(shared.ideal, Duration::from_secs(499));
        assert_eq!(shared.because, "30/s of up");
        settings.tenant.rate = Some("4/s".parse().expect("a rate"));
        let own = Forecast::of(&all, &client, &settings, WallTime::EPOCH);
        assert_eq!(own.ideal, Duration::from_secs(1_249));
        assert_eq!(own.because, "4/s of tenant a");
    }

    // Ten of a group at 2/s take four seconds, while a hundred of the rest take three.
    #[test]
    fn lanes_share_what_their_api_allows() {
        let demand = demand(&[("a", "up", 100), ("a", "up/slow", 10)]);
        let forecast = Forecast::of(&demand, &client(), &Settings::default(), WallTime::EPOCH);
        assert_eq!(forecast.ideal, Duration::from_secs(4));
        assert_eq!(forecast.because, "2/s of group slow of up");
    }

    #[test]
    fn a_bucket_begins_full() {
        let limit = Limit::bucket("10/s".parse().expect("a rate"), 5).expect("a bucket");
        assert_eq!(shortest(&limit, 5), Duration::ZERO);
        assert_eq!(shortest(&limit, 25), Duration::from_secs(2));
    }
}
