//! What calls in flight come to beyond what they could take from their limits.

use outflow_core::{Cost, UnitCost};

/// Calls and costs that no grant stands for. A call that took less than it costs overhangs by the
/// rest of its cost, one that took nothing by all of it and by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::upstream) struct Overdraft {
    calls: u64,
    cost: u64,
}

impl Overdraft {
    /// Of a call that took nothing.
    pub(in crate::upstream) const fn full(cost: Cost) -> Self {
        Self {
            calls: 1,
            cost: cost.units(),
        }
    }

    /// So many calls that cost so much.
    pub(super) const fn new(calls: u64, cost: u64) -> Self {
        Self { calls, cost }
    }

    /// Of a call that was counted and took this much of its cost.
    pub(in crate::upstream) const fn beyond(taken: Cost, cost: Cost) -> Self {
        Self {
            calls: 0,
            cost: cost.units().saturating_sub(taken.units()),
        }
    }

    pub(in crate::upstream) const fn is_nothing(self) -> bool {
        self.calls == 0 && self.cost == 0
    }

    pub(in crate::upstream) const fn and(self, more: Self) -> Self {
        Self {
            calls: self.calls.saturating_add(more.calls),
            cost: self.cost.saturating_add(more.cost),
        }
    }

    pub(super) const fn without(self, less: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(less.calls),
            cost: self.cost.saturating_sub(less.cost),
        }
    }

    /// What it comes to at a limit of this toll.
    pub(super) const fn units(self, toll: UnitCost) -> u64 {
        toll.of_many(self.calls, self.cost)
    }
}
