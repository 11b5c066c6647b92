//! One limit of an account, and the arrivals that count against it.
//!
//! The history knows no sendings: units that may still arrive are held by a holder, and the account
//! adds them. A fixed window that begins with its first use is counted as a sliding one, because the
//! first arrival at the API is unknown and a sliding window stays within every possible one.

use core::time::Duration;

use crate::account::LeaseUnits;
use crate::account::arrival_ring::ArrivalRing;
use crate::gcra::{BucketLevel, Gcra};
use crate::{CountBy, Limit, LimitKind, Rate};

/// Identity of a limit: quantities may differ between configurations, this may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LimitKey {
    pub(super) kind: HistoryKind,
    pub(super) measure: CountBy,
    pub(super) window: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HistoryKind {
    Sliding,
    Aligned,
    Bucket,
}

/// A holder's rule, or the lowest of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LimitRule {
    pub(super) key: LimitKey,
    pub(super) quantity: u64,
    /// Equal to the quantity unless it is a bucket.
    pub(super) capacity: u64,
}

impl LimitRule {
    pub(super) const fn from_limit(limit: &Limit) -> Self {
        let kind = match limit.kind() {
            LimitKind::Sliding | LimitKind::Fixed => HistoryKind::Sliding,
            LimitKind::Aligned => HistoryKind::Aligned,
            LimitKind::Bucket { .. } => HistoryKind::Bucket,
        };
        let key = LimitKey {
            kind,
            measure: limit.measure(),
            window: limit.rate().per_nanos(),
        };
        Self {
            key,
            quantity: limit.rate().quantity(),
            capacity: limit.capacity(),
        }
    }

    /// Returns the lower of two rules for one limit.
    pub(super) fn lower(self, other: Self) -> Self {
        Self {
            key: self.key,
            quantity: self.quantity.min(other.quantity),
            capacity: self.capacity.min(other.capacity),
        }
    }

    pub(super) const fn units(&self, units: LeaseUnits) -> u64 {
        self.key.measure.unit_cost().total_units(units.calls, units.cost)
    }

    /// Converts units of this limit to a lease that nothing else limits.
    pub(super) const fn lease_of(&self, units: u64) -> LeaseUnits {
        if self.key.measure.unit_cost().counts_cost() {
            LeaseUnits::new(u64::MAX, units)
        } else {
            LeaseUnits::new(units, u64::MAX)
        }
    }

    /// Returns the time in which the limit returns so many units, rounded up.
    pub(super) fn time_of(&self, units: u64) -> u64 {
        let nanos = u128::from(units) * u128::from(self.key.window);
        u64::try_from(nanos.div_ceil(u128::from(self.quantity))).unwrap_or(u64::MAX)
    }

    /// Returns the whole units that return in this time.
    pub(super) fn units_in(&self, nanos: u64) -> u64 {
        let units = u128::from(nanos) * u128::from(self.quantity) / u128::from(self.key.window);
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    const fn gcra(&self) -> Gcra {
        Gcra {
            quantity: self.quantity,
            per: self.key.window,
            burst: self.capacity,
        }
    }

    pub(super) const fn kind(&self) -> LimitKind {
        match self.key.kind {
            HistoryKind::Sliding => LimitKind::Sliding,
            HistoryKind::Aligned => LimitKind::Aligned,
            HistoryKind::Bucket => LimitKind::Bucket { burst: self.capacity },
        }
    }

    pub(super) fn rate(&self) -> Option<Rate> {
        Rate::new(self.quantity, Duration::from_nanos(self.key.window)).ok()
    }
}

/// Arrivals that count against one limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ArrivalHistory {
    Sliding(ArrivalRing),
    /// Next edge of the UTC windows, and the units that arrived since the last one.
    Aligned {
        edge: u64,
        spent: u64,
    },
    /// Time at which the bucket is full again, scaled by the quantity.
    Bucket {
        full_at: u128,
    },
}

/// A limit with its history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CountedLimit {
    pub(super) rule: LimitRule,
    /// False once no live holder has it; its history is kept as long as it counts.
    pub(super) in_force: bool,
    pub(super) history: ArrivalHistory,
}

impl CountedLimit {
    pub(super) fn new(rule: LimitRule) -> Self {
        let history = match rule.key.kind {
            HistoryKind::Sliding => ArrivalHistory::Sliding(ArrivalRing::new(rule.key.window)),
            HistoryKind::Aligned => ArrivalHistory::Aligned { edge: 0, spent: 0 },
            HistoryKind::Bucket => ArrivalHistory::Bucket { full_at: 0 },
        };
        Self {
            rule,
            in_force: true,
            history,
        }
    }

    /// Applies other quantities. Missing tokens of a bucket stay missing.
    pub(super) fn set_rule(&mut self, rule: LimitRule, now: u64) {
        if let ArrivalHistory::Bucket { full_at } = &mut self.history {
            let (old, new) = (self.rule.gcra(), rule.gcra());
            let backlog = old.rescale(full_at.saturating_sub(old.scale(now)), new);
            *full_at = new.scale(now).saturating_add(backlog);
        }
        self.rule = rule;
    }

    /// Moves to `now`; the civil clock is ahead of the account's by `wall_offset`.
    pub(super) fn advance(&mut self, now: u64, wall_offset: u64) {
        match &mut self.history {
            ArrivalHistory::Sliding(ring) => ring.advance(now),
            ArrivalHistory::Aligned { edge, spent } if now >= *edge => {
                (*edge, *spent) = (next_edge(self.rule.key.window, now, wall_offset), 0);
            }
            ArrivalHistory::Aligned { .. } | ArrivalHistory::Bucket { .. } => {}
        }
    }

    /// Moves the edge after the civil clock was set; usage stays until the next edge.
    pub(super) fn realign(&mut self, now: u64, wall_offset: u64) {
        if let ArrivalHistory::Aligned { edge, .. } = &mut self.history {
            *edge = next_edge(self.rule.key.window, now, wall_offset);
        }
    }

    /// Counts units that arrived at `at`, which is not after the time of the last advance.
    pub(super) fn count(&mut self, at: u64, units: u64) {
        match &mut self.history {
            _ if units == 0 => {}
            ArrivalHistory::Sliding(ring) => ring.count(at, units),
            ArrivalHistory::Aligned { edge, spent } => {
                if at >= edge.saturating_sub(self.rule.key.window) {
                    *spent = spent.saturating_add(units);
                }
            }
            ArrivalHistory::Bucket { full_at } => {
                let gcra = self.rule.gcra();
                *full_at = (*full_at).max(gcra.scale(at)).saturating_add(gcra.span_of(units));
            }
        }
    }

    /// Starts with what a longer sliding window knows about the same units.
    pub(super) fn inherit(&mut self, longer: &ArrivalRing, now: u64) {
        match &mut self.history {
            ArrivalHistory::Sliding(ring) => ring.inherit(longer, now),
            ArrivalHistory::Aligned { .. } => {
                for (end, units) in longer.buckets() {
                    self.count(end.min(now), units);
                }
            }
            ArrivalHistory::Bucket { .. } => {}
        }
    }

    /// Returns the units that arrived and still count.
    pub(super) fn arrived(&self, now: u64) -> u64 {
        let units = match &self.history {
            ArrivalHistory::Sliding(ring) => ring.total(),
            ArrivalHistory::Aligned { spent, .. } => u128::from(*spent),
            ArrivalHistory::Bucket { full_at } => {
                let backlog = full_at.saturating_sub(self.rule.gcra().scale(now));
                backlog.div_ceil(u128::from(self.rule.key.window))
            }
        };
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// Returns the units that nothing uses while `held` units may still arrive.
    pub(super) fn room(&self, now: u64, held: u64) -> u64 {
        let arrived = self.arrived(now);
        self.rule.capacity.saturating_sub(arrived).saturating_sub(held)
    }

    /// Returns the time at which `units` fit beside the arrivals; `None` if they never do.
    pub(super) fn time_for(&self, now: u64, units: u64) -> Option<u64> {
        let over = (u128::from(self.arrived(now)) + u128::from(units)).saturating_sub(u128::from(self.rule.capacity));
        if over == 0 {
            return Some(now);
        }
        match &self.history {
            ArrivalHistory::Sliding(ring) => ring.time_of(over),
            ArrivalHistory::Aligned { edge, .. } => (units <= self.rule.capacity).then_some(*edge),
            ArrivalHistory::Bucket { full_at } => match self.rule.gcra().level(*full_at, now, units) {
                BucketLevel::Enough { .. } => Some(now),
                BucketLevel::WaitUntil(at) => Some(at),
                BucketLevel::Never => None,
            },
        }
    }
}

/// Returns the first edge after `now`.
fn next_edge(window: u64, now: u64, wall_offset: u64) -> u64 {
    let into = (u128::from(now) + u128::from(wall_offset)) % u128::from(window);
    now.saturating_add(window - u64::try_from(into).unwrap_or(0))
}
