//! Cost of calls in flight beyond their receipts.

use outflow_core::{Cost, UnitCost};

/// Calls and costs without a receipt. A call that took less than its cost owes the rest; one that took
/// nothing owes its cost and itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::upstream) struct Overdraft {
    calls: u64,
    cost: u64,
}

impl Overdraft {
    /// Returns the overdraft of a call that took nothing.
    pub(in crate::upstream) const fn full(cost: Cost) -> Self {
        Self {
            calls: 1,
            cost: cost.units(),
        }
    }

    /// Returns the overdraft of some calls with a total cost.
    pub(super) const fn new(calls: u64, cost: u64) -> Self {
        Self { calls, cost }
    }

    /// Returns the overdraft of a counted call that took a part of its cost.
    pub(in crate::upstream) const fn beyond(taken: Cost, cost: Cost) -> Self {
        Self {
            calls: 0,
            cost: cost.units().saturating_sub(taken.units()),
        }
    }

    /// Returns the number of calls and their cost.
    pub(super) const fn parts(self) -> (u64, u64) {
        (self.calls, self.cost)
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

    /// Returns its units in a limit.
    pub(super) const fn units(self, unit_cost: UnitCost) -> u64 {
        unit_cost.total_units(self.calls, self.cost)
    }
}
