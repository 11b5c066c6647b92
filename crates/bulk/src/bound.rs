//! How long it takes at least, by what limits allow.
//!
//! Exact arithmetic on the configured limits, each for itself: a limit of `n` a window lets the last of
//! `u` units go after `(u - 1) / n` whole windows. The longest of all limits is the answer. It knows
//! nothing of answers that are slow, of failures, or of what others use meanwhile, so it is a bound from
//! below and no promise.

use std::collections::BTreeMap;
use std::time::Duration;

use outflow::core::{Kind, Limit};
use outflow::{DEFAULT_GROUP, Outflow};
use outflow_store::Name;

use crate::lane::Lane;

/// The longest time so far, and why.
///
/// ```
/// use outflow_bulk::Bound;
/// use outflow_core::Limit;
///
/// let mut bound = Bound::default();
/// bound.meets(&Limit::sliding("5/m".parse()?), 15, || "shop".to_owned());
/// assert_eq!(bound.span.as_secs(), 120);
/// assert_eq!(bound.because.as_deref(), Some("5/m of shop"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bound {
    /// It takes at least so long.
    pub span: Duration,
    /// What holds it up longest, if anything was looked at.
    pub because: Option<String>,
}

impl Bound {
    /// Every limit that so many units of these lanes meet: their own, and those that an API's lanes share.
    pub fn of_lanes(&mut self, client: &Outflow, lanes: &BTreeMap<Name, u64>) {
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

    /// A limit that so many units meet.
    pub fn meets(&mut self, limit: &Limit, units: u64, whose: impl FnOnce() -> String) {
        let rate = limit.rate();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_begins_full() {
        let limit = Limit::bucket("10/s".parse().expect("a rate"), 5).expect("a bucket");
        assert_eq!(shortest(&limit, 5), Duration::ZERO);
        assert_eq!(shortest(&limit, 25), Duration::from_secs(2));
    }
}
