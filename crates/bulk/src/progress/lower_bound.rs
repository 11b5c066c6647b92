//! Least time that limits need for a workload.
//!
//! Exact arithmetic on the configured limits, each by itself: a limit of `n` per window lets the last of `u` units
//! start after `(u - 1) / n` whole windows. The longest of all limits counts. Slow responses, failures and other
//! users of the limits are unknown, so the result is a lower bound and no promise.

use std::collections::BTreeMap;
use std::time::Duration;

use outflow::core::{Limit, LimitKind};
use outflow::{Api, DEFAULT_GROUP, Outflow};
use outflow_store::Name;

use super::workload::WorkAmount;
use crate::submit::lane::Lane;

/// Longest time so far, with its reason.
///
/// ```
/// use outflow_bulk::{LowerBound, WorkAmount};
/// use outflow_core::Limit;
///
/// let mut bound = LowerBound::default();
/// let amount = WorkAmount { jobs: 15, units: 15 };
/// bound.add_limit(&Limit::sliding("5/min".parse()?), amount, || "shop".to_owned());
/// assert_eq!(bound.span.as_secs(), 120);
/// assert_eq!(bound.because.as_deref(), Some("5/min of shop"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LowerBound {
    /// Least time.
    pub span: Duration,
    /// Limit that needs the longest, if there is one.
    pub because: Option<String>,
}

impl LowerBound {
    /// Adds every limit of these lanes: their own, and the limits that lanes of one API share.
    pub fn add_lanes(&mut self, client: &Outflow, lanes: &BTreeMap<Name, WorkAmount>) {
        let mut apis: BTreeMap<String, WorkAmount> = BTreeMap::new();
        for (lane, amount) in lanes {
            let Lane::Api { api, group } = Lane::from_name(lane) else {
                continue;
            };
            let Some(known) = client.api(&api) else {
                continue;
            };
            let name = group.as_deref().unwrap_or(DEFAULT_GROUP);
            for limit in group_limits(&known, name) {
                self.add_limit(limit, *amount, || format!("group {name} of {api}"));
            }
            apis.entry(api).or_default().add(*amount);
        }
        for (api, amount) in apis {
            let known = client.api(&api);
            for limit in known.iter().flat_map(|known| &known.rules.limits) {
                self.add_limit(limit, amount, || api.clone());
            }
        }
    }

    /// Adds a limit, which counts the calls of this work or their costs.
    pub fn add_limit(&mut self, limit: &Limit, amount: WorkAmount, owner: impl FnOnce() -> String) {
        let rate = limit.rate();
        let units = limit.measure().unit_cost().total_units(amount.jobs, amount.units);
        self.add_span(least_span(limit, units), || format!("{rate} of {}", owner()));
    }

    /// Adds a span with its reason.
    pub fn add_span(&mut self, span: Duration, reason: impl FnOnce() -> String) {
        if span > self.span || self.because.is_none() {
            self.because = Some(reason());
        }
        self.span = self.span.max(span);
    }
}

/// Returns the limits of a group; an unknown group has none.
pub(super) fn group_limits<'a>(api: &'a Api, name: &str) -> impl Iterator<Item = &'a Limit> {
    let group = api.rules.groups.iter().find(|group| group.name == name);
    group.into_iter().flat_map(|group| group.limits.iter())
}

/// Returns the start of the last unit, if the first starts now and the limit is unused.
fn least_span(limit: &Limit, units: u64) -> Duration {
    let rate = limit.rate();
    let per = rate.per().as_nanos();
    let nanos = match limit.kind() {
        LimitKind::Sliding | LimitKind::Fixed | LimitKind::Aligned => {
            let windows = units.saturating_sub(1) / rate.quantity();
            per.saturating_mul(u128::from(windows))
        }
        LimitKind::Bucket { burst } => {
            let late = u128::from(units.saturating_sub(burst));
            per.saturating_mul(late) / u128::from(rate.quantity())
        }
    };
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use outflow::core::CountBy;

    use super::*;

    // 30 calls of 2,000 tokens each: more than a minute by 30,000 tokens a minute, nothing by 500 calls.
    #[test]
    fn a_limit_of_calls_ignores_costs() {
        let amount = WorkAmount {
            jobs: 30,
            units: 60_000,
        };
        let span = |rate: &str, measure| {
            let limit = Limit::sliding(rate.parse().expect("a rate"));
            let mut bound = LowerBound::default();
            bound.add_limit(&limit.measured_in(measure), amount, String::new);
            bound.span
        };
        assert_eq!(span("500/m", CountBy::Calls), Duration::ZERO);
        assert_eq!(span("30000/m", CountBy::Tokens), Duration::from_mins(1));
    }

    #[test]
    fn a_bucket_begins_full() {
        let limit = Limit::bucket("10/s".parse().expect("a rate"), 5).expect("a bucket");
        assert_eq!(least_span(&limit, 5), Duration::ZERO);
        assert_eq!(least_span(&limit, 25), Duration::from_secs(2));
    }
}
