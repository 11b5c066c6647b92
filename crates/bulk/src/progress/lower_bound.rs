//! How long it takes at least, by what limits allow.
//!
//! Exact arithmetic on the configured limits, each for itself: a limit of `n` a window lets the last of
//! `u` units go after `(u - 1) / n` whole windows. The longest of all limits is the answer. It knows
//! nothing of answers that are slow, of failures, or of what others use meanwhile, so it is a bound from
//! below and no promise.

use std::collections::BTreeMap;
use std::time::Duration;

use outflow::core::{Limit, LimitKind};
use outflow::{DEFAULT_GROUP, Outflow};
use outflow_store::Name;

use crate::progress::workload::WorkAmount;
use crate::submit::lane::Lane;

/// The longest time so far, and why.
///
/// ```
/// use outflow_bulk::{Amount, Bound};
/// use outflow_core::Limit;
///
/// let mut bound = Bound::default();
/// let amount = Amount { jobs: 15, units: 15 };
/// bound.meets(&Limit::sliding("5/min".parse()?), amount, || "shop".to_owned());
/// assert_eq!(bound.span.as_secs(), 120);
/// assert_eq!(bound.because.as_deref(), Some("5/min of shop"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LowerBound {
    /// It takes at least so long.
    pub span: Duration,
    /// What holds it up longest, if anything was looked at.
    pub because: Option<String>,
}

impl LowerBound {
    /// Every limit that so much of these lanes meets: their own, and those that an API's lanes share.
    pub fn of_lanes(&mut self, client: &Outflow, lanes: &BTreeMap<Name, WorkAmount>) {
        let mut apis: BTreeMap<String, WorkAmount> = BTreeMap::new();
        for (lane, amount) in lanes {
            let Lane::Api { api, group } = Lane::from_name(lane) else {
                continue;
            };
            let Some(known) = client.api(&api) else {
                continue;
            };
            let name = group.as_deref().unwrap_or(DEFAULT_GROUP);
            let group = known.rules.groups.iter().find(|group| group.name == name);
            for limit in group.into_iter().flat_map(|group| group.limits.iter()) {
                self.meets(limit, *amount, || format!("group {name} of {api}"));
            }
            apis.entry(api).or_default().add(*amount);
        }
        for (api, amount) in apis {
            let known = client.api(&api);
            for limit in known.iter().flat_map(|known| &known.rules.limits) {
                self.meets(limit, amount, || api.clone());
            }
        }
    }

    /// A limit that so much meets: its calls, or what they cost, whichever it counts.
    pub fn meets(&mut self, limit: &Limit, amount: WorkAmount, whose: impl FnOnce() -> String) {
        let rate = limit.rate();
        let units = limit.measure().toll().of_many(amount.jobs, amount.units);
        self.lasts(shortest(limit, units), || format!("{rate} of {}", whose()));
    }

    /// Something that lasts so long.
    pub fn lasts(&mut self, span: Duration, why: impl FnOnce() -> String) {
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

    // 30 calls of 2,000 tokens each: a minute and more by 30,000 tokens a minute, nothing by 500 calls.
    #[test]
    fn what_counts_calls_does_not_care_for_costs() {
        let amount = WorkAmount {
            jobs: 30,
            units: 60_000,
        };
        let limit = |rate: &str, measure| {
            let limit = Limit::sliding(rate.parse().expect("a rate"));
            let mut bound = LowerBound::default();
            bound.meets(&limit.measured_in(measure), amount, String::new);
            bound.span
        };
        assert_eq!(limit("500/m", CountBy::Calls), Duration::ZERO);
        assert_eq!(limit("30000/m", CountBy::Tokens), Duration::from_mins(1));
    }

    #[test]
    fn a_bucket_begins_full() {
        let limit = Limit::bucket("10/s".parse().expect("a rate"), 5).expect("a bucket");
        assert_eq!(shortest(&limit, 5), Duration::ZERO);
        assert_eq!(shortest(&limit, 25), Duration::from_secs(2));
    }
}
