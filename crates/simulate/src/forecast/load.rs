//! Calls that come, one after another.

use std::time::Duration;

use outflow_core::{Cost, Nanos};

use super::RateLoad;
use super::provider::CallLane;
use crate::network::Network;

/// A call that somebody wants to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LoadCall {
    /// When.
    pub(crate) at: Nanos,
    /// Who.
    pub(crate) tenant: usize,
    /// Which group it is of.
    pub(crate) lane: usize,
    /// What it costs.
    pub(crate) cost: Cost,
}

/// Calls at a rate, with gaps of dice: any gap up to twice the mean is as likely.
#[derive(Debug)]
pub(crate) struct SyntheticLoad {
    gaps: Network,
    until: Nanos,
    next: Nanos,
    lane: CallLane,
    tenants: usize,
    number: usize,
}

impl SyntheticLoad {
    /// At this rate for so long.
    pub(crate) fn new(load: &RateLoad<'_>, lane: CallLane) -> Self {
        let quantity = u128::from(load.rate.quantity().max(1));
        let mean = load.rate.per().as_nanos() / quantity;
        let widest = u64::try_from(mean.saturating_mul(2)).unwrap_or(u64::MAX);
        Self {
            gaps: Network::new(Duration::ZERO, Duration::from_nanos(widest), load.seed),
            until: Nanos::ZERO.saturating_add(load.duration),
            next: Nanos::ZERO,
            lane,
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
            lane: self.lane.place,
            cost: self.lane.cost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // 10,000 gaps of a uniform spread keep their mean within 3 %.
    #[test]
    fn a_load_keeps_its_rate_and_its_seed() {
        let lane = CallLane {
            place: 0,
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
            SyntheticLoad::new(&load, lane).collect::<Vec<_>>()
        };
        let calls = load(1);
        assert!((9_700..10_300).contains(&calls.len()), "{}", calls.len());
        assert!(calls.is_sorted_by_key(|call| call.at));
        assert_eq!(calls, load(1));
        assert_ne!(calls, load(2), "the dice do matter");
    }
}
