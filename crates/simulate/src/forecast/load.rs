//! Calls that come, one after another.

use std::time::Duration;

use outflow_core::{Cost, Nanos, Rate};

use super::provider::CallLane;
use crate::commands::simulate::network::Network;

/// A call that somebody wants to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LoadCall {
    /// When.
    pub(super) at: Nanos,
    /// Who.
    pub(super) tenant: usize,
    /// Which group it is of.
    pub(super) lane: usize,
    /// What it costs.
    pub(super) cost: Cost,
}

/// Calls at a rate, with gaps of dice: any gap up to twice the mean is as likely.
#[derive(Debug)]
pub(super) struct SyntheticLoad {
    gaps: Network,
    until: Nanos,
    next: Nanos,
    lane: CallLane,
    tenants: usize,
    number: usize,
}

impl SyntheticLoad {
    /// At this rate for so long.
    pub(super) fn new(
        (rate, span): (Rate, Duration),
        tenants: u32,
        lane: CallLane,
        seed: u64,
    ) -> Self {
        let quantity = u128::from(rate.quantity().max(1));
        let mean = rate.per().as_nanos() / quantity;
        let widest = u64::try_from(mean.saturating_mul(2)).unwrap_or(u64::MAX);
        Self {
            gaps: Network::new(Duration::ZERO, Duration::from_nanos(widest), seed),
            until: Nanos::ZERO.saturating_add(span),
            next: Nanos::ZERO,
            lane,
            tenants: usize::try_from(tenants).unwrap_or(usize::MAX).max(1),
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
        let rate = (
            Rate::per_second(100).expect("a rate"),
            Duration::from_secs(100),
        );
        let load = |seed| SyntheticLoad::new(rate, 4, lane, seed).collect::<Vec<_>>();
        let calls = load(1);
        assert!((9_700..10_300).contains(&calls.len()), "{}", calls.len());
        assert!(calls.is_sorted_by_key(|call| call.at));
        assert_eq!(calls, load(1));
        assert_ne!(calls, load(2), "the dice do matter");
    }
}
