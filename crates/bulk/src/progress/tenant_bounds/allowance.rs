//! Highest rate of a tenant's jobs, by their APIs and costs.
//!
//! The slowest limit of an API counts, since all of them apply. The rates of several APIs add up. The
//! tenant's own rate bounds the sum. All rates count jobs, regardless of the unit of a limit: 30,000 tokens a minute
//! are 15 jobs of 2,000 tokens.

use std::collections::BTreeMap;
use std::fmt;

use outflow::{DEFAULT_GROUP, Outflow};
use outflow_core::{Limit, Rate};

use crate::progress::lower_bound::group_limits;
use crate::{Lane, TenantWorkload, WorkAmount};

/// Rate of jobs, or a sum of such rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobRate {
    /// The written rate, if it is a single one and counts jobs.
    rate: Option<Rate>,
    /// Millionths of a job per second.
    millionths: u128,
}

/// Work for one API: by group, and in total.
#[derive(Default)]
struct ApiDemand {
    groups: Vec<(String, WorkAmount)>,
    all: WorkAmount,
}

impl JobRate {
    /// Computes the rate of a workload; none if a part of it has no limit.
    pub(super) fn new(client: &Outflow, workload: &TenantWorkload, own: Option<&Limit>) -> Option<Self> {
        let mut apis: BTreeMap<String, ApiDemand> = BTreeMap::new();
        for (lane, amount) in &workload.lanes {
            if let Lane::Api { api, group } = Lane::from_name(lane) {
                let share = apis.entry(api).or_default();
                let group = group.unwrap_or_else(|| DEFAULT_GROUP.to_owned());
                share.groups.push((group, *amount));
                share.all = share.all.plus(*amount);
            }
        }
        let each = apis.iter().map(|(api, share)| {
            let api = client.api(api)?;
            let groups = share.groups.iter();
            let groups = groups.map(|(group, amount)| slowest(group_limits(&api, group), *amount));
            smaller(slowest(api.rules.limits.iter(), share.all), sum(groups))
        });
        smaller(sum(each), own.and_then(|own| Self::from_limit(own, workload.all)))
    }

    /// Computes the rate that a limit allows; none if the work uses no unit of it.
    fn from_limit(limit: &Limit, amount: WorkAmount) -> Option<Self> {
        let rate = limit.rate();
        let units = limit.measure().unit_cost().total_units(amount.jobs, amount.units);
        let jobs = u128::from(rate.quantity())
            .saturating_mul(MILLION * NANOS)
            .saturating_mul(u128::from(amount.jobs))
            .checked_div(u128::from(units))?;
        Some(Self {
            rate: Some(rate).filter(|_| units == amount.jobs),
            millionths: jobs / rate.per().as_nanos().max(1),
        })
    }
}

fn slowest<'a>(limits: impl Iterator<Item = &'a Limit>, amount: WorkAmount) -> Option<JobRate> {
    limits
        .filter_map(|limit| JobRate::from_limit(limit, amount))
        .min_by_key(|allowance| allowance.millionths)
}

/// Adds rates; none if one is unbounded.
fn sum(parts: impl Iterator<Item = Option<JobRate>>) -> Option<JobRate> {
    let parts: Option<Vec<JobRate>> = parts.collect();
    parts?.into_iter().reduce(|one, other| JobRate {
        rate: None,
        millionths: one.millionths.saturating_add(other.millionths),
    })
}

/// Returns the lower rate; a missing rate bounds nothing.
fn smaller(one: Option<JobRate>, other: Option<JobRate>) -> Option<JobRate> {
    let both = one.into_iter().chain(other);
    both.min_by_key(|allowance| allowance.millionths)
}

impl fmt::Display for JobRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rate) = self.rate {
            return rate.fmt(f);
        }
        let in_a = |seconds: u128| self.millionths.saturating_mul(seconds);
        let spans = [(1, "s"), (60, "min"), (3_600, "h")];
        let span = spans.iter().find(|(seconds, _)| in_a(*seconds) >= MILLION);
        let (seconds, name) = span.copied().unwrap_or((86_400, "d"));
        let tenths = (in_a(seconds) * 10 + MILLION / 2) / MILLION;
        write!(f, "{}.{}/{name}", tenths / 10, tenths % 10)
    }
}

const MILLION: u128 = 1_000_000;

/// Nanoseconds of a second.
const NANOS: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use outflow::Config;
    use outflow::config::{Environment, Source};

    use super::*;

    fn client() -> Outflow {
        let text = "[apis.up]\nbase_url = \"http://127.0.0.1:9\"\nlimits = [\"30/s\"]\n\
                    groups.slow.limits = [\"2/s\"]\n\
                    [apis.day]\nbase_url = \"http://127.0.0.1:9\"\nlimits = [\"90/min\"]\n\
                    [apis.mind]\nbase_url = \"http://127.0.0.1:9\"\n\
                    limits = [{ rate = \"500/min\", counts = \"calls\" }, \"30000/min\"]\n";
        let config = Config::read(&[Source::new("test", text)], &Environment::empty());
        let apis = config.expect("a configuration").apis.into_iter();
        let builder = apis.fold(Outflow::builder(), outflow::OutflowBuilder::api);
        builder.build().expect("a client")
    }

    /// Formats the rate of ten jobs of this cost in each lane.
    fn allowed(lanes: &[&str], cost: u64, own: Option<&str>) -> String {
        let amount = WorkAmount {
            jobs: 10,
            units: 10 * cost,
        };
        let mut workload = TenantWorkload::default();
        for lane in lanes {
            let lane = lane.parse().expect("a name");
            workload.lanes.insert(lane, amount);
            workload.all = workload.all.plus(amount);
        }
        let own = own.map(|rate| Limit::sliding(rate.parse().expect("a rate")));
        let allowance = JobRate::new(&client(), &workload, own.as_ref());
        allowance.map_or_else(String::new, |allowance| allowance.to_string())
    }

    // A group at 2/s bounds its own lane and not the other: together both have the rate of the API.
    #[test]
    fn lanes_of_one_api_share_and_apis_add_up() {
        assert_eq!(allowed(&["up"], 1, None), "30/s");
        assert_eq!(allowed(&["up/slow"], 1, None), "2/s");
        assert_eq!(allowed(&["up", "up/slow"], 1, None), "30/s");
        assert_eq!(allowed(&["up", "day"], 1, None), "31.5/s");
        assert_eq!(allowed(&["up", "day"], 1, Some("4/s")), "4/s");
        assert_eq!(allowed(&["up", "gone"], 1, None), "");
    }

    // 30,000 tokens a minute are 15 jobs of 2,000 tokens, fewer than 500 calls; for ten tokens the calls
    // decide. A tenant of 40,000 tokens a minute is not the bound, and one of 20,000 an hour is.
    #[test]
    fn the_cost_of_jobs_decides_which_limit_is_the_slowest() {
        assert_eq!(allowed(&["mind"], 2_000, None), "15.0/min");
        assert_eq!(allowed(&["mind"], 10, None), "500/min");
        assert_eq!(allowed(&["mind"], 2_000, Some("40000/min")), "15.0/min");
        assert_eq!(allowed(&["mind"], 2_000, Some("20000/h")), "10.0/h");
    }
}
