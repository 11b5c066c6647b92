//! Synthetic loads.

use std::time::Duration;

use outflow_core::{Cost, Nanos};

use super::RateLoad;
use super::provider::CallGroup;
use crate::network::Network;

/// Call of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LoadCall {
    /// Arrival.
    pub(crate) at: Nanos,
    /// Tenant that makes the call.
    pub(crate) tenant: usize,
    /// Index of the group.
    pub(crate) group: usize,
    /// Cost of the call.
    pub(crate) cost: Cost,
}

/// Calls at a mean rate, with uniform random gaps up to twice the mean.
#[derive(Debug)]
pub(crate) struct SyntheticLoad {
    gaps: Network,
    until: Nanos,
    next: Nanos,
    group: CallGroup,
    tenants: usize,
    number: usize,
}

impl SyntheticLoad {
    /// Creates the calls of a load for a group.
    pub(crate) fn new(load: &RateLoad<'_>, group: CallGroup) -> Self {
        let quantity = u128::from(load.rate.quantity().max(1));
        let mean = load.rate.per().as_nanos() / quantity;
        let widest = u64::try_from(mean.saturating_mul(2)).unwrap_or(u64::MAX);
        Self {
            gaps: Network::new(Duration::ZERO, Duration::from_nanos(widest), load.seed),
            until: Nanos::ZERO.saturating_add(load.duration),
            next: Nanos::ZERO,
            group,
            tenants: usize::try_from(load.tenants).unwrap_or(usize::MAX).max(1),
            number: 0,
        }
    }
}

impl Iterator for SyntheticLoad {
    type Item = LoadCall;

    fn next(&mut self) -> Option<LoadCall> {
        let at = self.next;
        if at >= self.until {
            return None;
        }
        self.next = at.saturating_add(self.gaps.draw());
        self.number += 1;
        Some(LoadCall {
            at,
            tenant: self.number % self.tenants,
            group: self.group.index,
            cost: self.group.cost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // 10,000 gaps of a uniform spread keep their mean within 3 %.
    #[test]
    fn a_load_keeps_its_rate_and_its_seed() {
        let group = CallGroup {
            index: 0,
            cost: Cost::ONE,
        };
        let load = |seed| {
            let load = RateLoad {
                rate: "100/s".parse().expect("a rate"),
                duration: Duration::from_secs(100),
                tenants: 4,
                path: "/",
                seed,
            };
            SyntheticLoad::new(&load, group).collect::<Vec<_>>()
        };
        let calls = load(1);
        assert!((9_700..10_300).contains(&calls.len()), "{}", calls.len());
        assert!(calls.is_sorted_by_key(|call| call.at));
        assert_eq!(calls, load(1));
        assert_ne!(calls, load(2), "the seed matters");
    }
}
