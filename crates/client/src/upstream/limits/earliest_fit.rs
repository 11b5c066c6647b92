//! When a cost would pass, if others go first and nothing else happens.

use std::time::Duration;

use outflow_core::{
    Accounting, Cost, Decision, Limit, LimitKind, MeterStatus, Nanos, Rate, UnitCost,
};

use super::super::group::QueueAhead;
use super::ScopeLimits;

/// When something could go, and which limit makes it so late.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct EarliestFit {
    pub(in crate::upstream) at: Nanos,
    pub(in crate::upstream) rate: Option<Rate>,
}

/// Now, and the first instant at which anything goes at all.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct FitTime {
    pub(in crate::upstream) now: Nanos,
    pub(in crate::upstream) from: Nanos,
}

impl ScopeLimits {
    /// When a cost would pass if `ahead` went first and nothing else happened.
    pub(in crate::upstream) fn slot(
        &mut self,
        when: FitTime,
        ahead: QueueAhead,
        cost: Cost,
    ) -> EarliestFit {
        let itself = QueueAhead {
            count: 1,
            cost: self.fitting(cost).units(),
        };
        self.slot_of_the_last(when, ahead.and(itself))
    }

    /// When the last of so many would pass if nothing else happened.
    fn slot_of_the_last(&mut self, when: FitTime, all: QueueAhead) -> EarliestFit {
        let parked = self.parked > when.from;
        let when = FitTime {
            from: when.from.max(self.parked),
            ..when
        };
        let mut latest = EarliestFit {
            at: when.from,
            rate: self.parked_by.filter(|_| parked),
        };
        for place in 0..self.configured.len() {
            let (at, rate) = self.passes_at(place, all, when);
            if at > latest.at {
                latest = EarliestFit { at, rate };
            }
        }
        latest
    }

    /// How many of `most` pass by an instant, if nobody else does.
    pub(in crate::upstream) fn passing_by(
        &mut self,
        until: Nanos,
        when: FitTime,
        most: QueueAhead,
    ) -> QueueAhead {
        let whole = most.cost.max(most.count);
        let mut by_then =
            |part: u64| self.slot_of_the_last(when, most.part(part, whole)).at <= until;
        if by_then(whole) {
            return most;
        }
        let (mut passes, mut fails) = (0, whole);
        while fails - passes > 1 {
            let middle = passes + (fails - passes) / 2;
            if by_then(middle) {
                passes = middle;
            } else {
                fails = middle;
            }
        }
        most.part(passes, whole)
    }

    /// When the last of so many passes one limit. In a sliding window every unit passes one
    /// window after the one that many places before it; a bucket that was emptied refills evenly.
    fn passes_at(&mut self, place: usize, all: QueueAhead, when: FitTime) -> (Nanos, Option<Rate>) {
        let standing = self.meters.standings(when.now).nth(place);
        let Some((limit, standing)) = standing.map(|(limit, standing)| (*limit, standing)) else {
            return (when.from, None);
        };
        let total = all.units(limit.measure().toll());
        if total == 0 {
            return (when.from, None);
        }
        if has_windows(&limit) {
            let at = window_of(total, &limit, &standing, when.from);
            return (at, Some(limit.rate()));
        }
        let capacity = limit.capacity().max(1);
        let rest = match limit.kind() {
            LimitKind::Bucket { .. } => total.min(capacity),
            _ => (total - 1) % capacity + 1,
        };
        let first = match self.meters.check_units(when.now, place, rest) {
            Decision::WaitUntil(at) => at,
            Decision::Allow(()) | Decision::Never => when.now,
        };
        let at = first.max(when.from);
        let at = at.saturating_add(time_for(total - rest, limit.rate()));
        (at, Some(limit.rate()))
    }
}

impl QueueAhead {
    /// What they come to at a limit of this toll.
    const fn units(self, toll: UnitCost) -> u64 {
        toll.of_many(self.count, self.cost)
    }

    /// `part` of `whole` of them, rounded down: who has not quite passed has not passed.
    fn part(self, part: u64, whole: u64) -> Self {
        let of = |all: u64| {
            let share = u128::from(all) * u128::from(part) / u128::from(whole.max(1));
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        Self {
            count: of(self.count),
            cost: of(self.cost),
        }
    }
}

/// Whether all units return together. A window that begins with use is kept as a sliding one where
/// arrivals count, for nobody knows with which arrival it began.
fn has_windows(limit: &Limit) -> bool {
    match limit.kind() {
        LimitKind::Aligned => true,
        LimitKind::Fixed => limit.accounting() == Accounting::Send,
        LimitKind::Sliding | LimitKind::Bucket { .. } => false,
    }
}

/// The beginning of the window in which the last of `total` units passes.
fn window_of(total: u64, limit: &Limit, standing: &MeterStatus, from: Nanos) -> Nanos {
    let (capacity, window) = (limit.capacity().max(1), limit.rate().per());
    let (left, end) = if from < standing.window_end {
        (standing.remaining(), standing.window_end)
    } else {
        (capacity, from.saturating_add(window))
    };
    let Some(beyond) = total.checked_sub(left).filter(|beyond| *beyond > 0) else {
        return from;
    };
    let whole = (beyond - 1) / capacity * capacity;
    end.saturating_add(time_for(whole, limit.rate()))
}

fn time_for(units: u64, rate: Rate) -> Duration {
    let nanos = rate.per().as_nanos().saturating_mul(u128::from(units));
    let nanos = nanos / u128::from(rate.quantity().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
