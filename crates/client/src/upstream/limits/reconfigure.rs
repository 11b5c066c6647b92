//! Reconfiguration of the limits of a scope in use.
//!
//! Changing limits never adds quota. A new limit continues an old one that is equal, or has its kind and
//! window, or at least its window, and counts the same units; each old limit is continued once and keeps
//! its entries. Any other new limit starts with a copy of a known meter: the one with the shortest window
//! that is long enough, of the API if the group has none, or else the one with the longest window. Usage
//! without a known time counts as used now. A dropped limit is remembered for as long as its entries
//! would count, for a reconfiguration that is reverted. So no window after the change holds more than
//! the new limit, and no window around it more than the largest limit in force.
//!
//! The adapted speed of a continued limit is kept.

use std::time::Duration;

use outflow_core::{AdaptiveMode, CarryOver, ClockPair, Limit, MAX_LIMITS, Meter, Nanos};

use super::limit_state::LimitState;
use super::overdraft::Overdraft;
use super::{Cost, ScopeLimits, ScopeReceipt, ScopeWait};
use crate::rules::{AlertThresholds, Rules};

/// Usage that other scopes counted for one without limits.
#[derive(Debug, Default)]
pub(in crate::upstream) struct ForeignUsage {
    meters: Vec<(Limit, Meter)>,
    landed: Overdraft,
}

impl ForeignUsage {
    /// Returns usage without a known time.
    pub(in crate::upstream) const fn from_landed(landed: Overdraft) -> Self {
        Self {
            meters: Vec::new(),
            landed,
        }
    }

    /// Returns true if there is no usage to carry over.
    pub(in crate::upstream) const fn is_nothing(&self) -> bool {
        self.meters.is_empty() && self.landed.is_nothing()
    }
}

/// Usage of a dropped scope.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct RetiredUsage {
    landed: Overdraft,
    cooldown: ScopeWait,
}

impl RetiredUsage {
    /// Returns true if there is neither usage nor a cooldown.
    pub(in crate::upstream) fn is_nothing(&self) -> bool {
        self.landed.is_nothing() && self.cooldown.until == Nanos::ZERO
    }
}

/// Rules that apply to each limit.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct LimitTerms {
    pub(in crate::upstream) adaptive: AdaptiveMode,
    pub(in crate::upstream) thresholds: AlertThresholds,
}

impl LimitTerms {
    pub(in crate::upstream) const fn from_rules(rules: &Rules) -> Self {
        Self {
            adaptive: rules.adaptive,
            thresholds: rules.thresholds,
        }
    }
}

/// The next limits of a scope.
#[derive(Clone, Copy)]
pub(in crate::upstream) struct NextLimits<'a> {
    pub(in crate::upstream) limits: &'a [Limit],
    pub(in crate::upstream) terms: LimitTerms,
    pub(in crate::upstream) before: LimitTerms,
    pub(in crate::upstream) moment: ClockPair,
}

impl ScopeLimits {
    /// Continues under other limits. The caller renews the receipts of attempts in flight afterwards.
    pub(in crate::upstream) fn reconfigure(&mut self, next: NextLimits<'_>, past: &ForeignUsage) {
        let continued = match_limits(&self.configured, next.limits);
        let dropped = (0..self.configured.len()).filter(|old| !continued.contains(&Some(*old)));
        let dropped: Vec<_> = dropped.collect();
        self.remember(&dropped, next.moment.now);
        let list = next.limits.iter().zip(&continued);
        let list: Vec<_> = list
            .map(|(limit, old)| (*limit, self.carry_over(limit, *old, past, next.moment.now)))
            .collect();
        let had_none = self.configured.is_empty();
        // The check of the rules bounds their number.
        let _few = self.meters.succeed(next.moment, list);
        self.states = self.continue_states(next, &continued);
        self.configured = next.limits.to_vec();
        let is_back = |known: &Limit| next.limits.iter().any(|limit| same_window(known, limit));
        self.dropped.retain(|(limit, _)| !is_back(limit));
        self.refresh_limits();
        self.update_lease();
        if had_none {
            self.charge(next.moment.now, past.landed);
        }
    }

    /// Returns its usage for a scope that has counted nothing yet.
    pub(in crate::upstream) fn foreign_usage(&mut self, now: Nanos) -> ForeignUsage {
        let limits = self.configured.clone().into_iter().enumerate();
        let meters = limits.filter_map(|(index, limit)| Some((limit, self.meters.landed(now, index)?)));
        ForeignUsage {
            meters: meters.collect(),
            landed: Overdraft::default(),
        }
    }

    /// Returns the largest number of arrived calls, and the largest cost, that one of its limits counts.
    /// If only one of the two is counted, it stands for both.
    pub(in crate::upstream) fn landed(&mut self, now: Nanos) -> Overdraft {
        let (mut calls, mut cost) = (None, None);
        for (limit, status) in self.meters.statuses(now) {
            let landed = status.used.saturating_sub(status.in_flight);
            let landed = u64::try_from(landed).unwrap_or(u64::MAX);
            let max = if limit.measure().unit_cost().counts_cost() {
                &mut cost
            } else {
                &mut calls
            };
            *max = (*max).max(Some(landed));
        }
        let (calls, cost) = (calls.or(cost), cost.or(calls));
        Overdraft::new(calls.unwrap_or(0), cost.unwrap_or(0))
    }

    /// Drops all limits and returns their usage: its calls count in another scope from now on.
    pub(in crate::upstream) fn drop_limits(&mut self, moment: ClockPair) -> RetiredUsage {
        let all: Vec<_> = (0..self.configured.len()).collect();
        self.remember(&all, moment.now);
        let used = RetiredUsage {
            landed: self.landed(moment.now),
            cooldown: self.cooldown,
        };
        let _none = self.meters.succeed(moment, Vec::new());
        self.states.clear();
        self.configured.clear();
        self.cooldown = ScopeWait::NONE;
        self.refresh_limits();
        used
    }

    /// Adds the usage of a dropped scope, as used now.
    pub(in crate::upstream) fn add_usage(&mut self, now: Nanos, used: RetiredUsage) {
        self.charge(now, used.landed);
        if used.cooldown.until > self.cooldown.until {
            self.cooldown = used.cooldown;
        }
    }

    /// Returns receipts of the current limits for an attempt in flight.
    pub(in crate::upstream) fn renew(
        &mut self,
        now: Nanos,
        receipt: Option<ScopeReceipt>,
        cost: Cost,
    ) -> Option<ScopeReceipt> {
        if self.is_empty() {
            self.refund_lease(receipt.as_ref().and_then(|receipt| receipt.lease), cost);
            return None;
        }
        let lease = receipt.as_ref().and_then(|receipt| receipt.lease);
        let receipts = match receipt {
            Some(receipt) => self.meters.renew(now, receipt.receipts),
            None => self.meters.burden(now, cost),
        };
        Some(ScopeReceipt { receipts, lease })
    }

    /// Remembers the usage of dropped limits, in case they return. Attempts in flight count as arrived
    /// now, because a dropped limit is not settled.
    fn remember(&mut self, dropped: &[usize], now: Nanos) {
        for index in dropped {
            let in_flight = self.meters.statuses(now).nth(*index);
            let in_flight = in_flight.map_or(0, |(_, status)| status.in_flight);
            let limit = self.configured.get(*index).copied();
            if let (Some(limit), Some(mut meter)) = (limit, self.meters.landed(now, *index)) {
                meter.charge(now, u64::try_from(in_flight).unwrap_or(u64::MAX));
                self.dropped.retain(|(known, _)| !same_window(known, &limit));
                self.dropped.push((limit, meter));
            }
        }
        let excess = self.dropped.len().saturating_sub(MAX_LIMITS);
        self.dropped.drain(..excess);
    }

    /// Forgets dropped limits without usage.
    pub(super) fn prune_dropped(&mut self, now: Nanos) {
        self.dropped.retain_mut(|(_, meter)| {
            meter.prune(now);
            meter.status(now).used > 0
        });
    }

    /// Returns the usage that a new limit starts with.
    fn carry_over(&mut self, limit: &Limit, continued: Option<usize>, past: &ForeignUsage, now: Nanos) -> CarryOver {
        if let Some(index) = continued {
            return CarryOver::Keeps(index);
        }
        let own = self.configured.iter().enumerate();
        let own = own.map(|(index, known)| (rank(limit, known, 0), index));
        let others = past.meters.iter().enumerate();
        let others = others.map(|(index, (known, _))| (rank(limit, known, 1), index));
        let dropped = self.dropped.iter().enumerate();
        let dropped = dropped.map(|(index, (known, _))| (rank(limit, known, 2), index));
        let copied = |meters: &[(Limit, Meter)], index: usize| {
            let known = meters.get(index);
            known.map(|(_, meter)| meter.clone())
        };
        let closest = match own.chain(others).chain(dropped).min() {
            Some(((_, _, 0, _), index)) => self.meters.landed(now, index),
            Some(((_, _, 1, _), index)) => copied(&past.meters, index),
            Some((_, index)) => copied(&self.dropped, index),
            None => None,
        };
        closest.map_or(CarryOver::Nothing, |meter| CarryOver::Learns(Box::new(meter)))
    }

    fn continue_states(&mut self, next: NextLimits<'_>, continued: &[Option<usize>]) -> Vec<LimitState> {
        let before = self.configured.iter().copied();
        let mut before: Vec<_> = before.zip(self.states.drain(..)).map(Some).collect();
        let all = next.limits.iter().zip(continued).map(|(limit, old)| {
            let known = old.and_then(|index| before.get_mut(index)?.take());
            match known {
                Some((old, state)) => state.reconfigure(&old, limit, next),
                None => LimitState::new(limit, next.terms, next.moment),
            }
        });
        all.collect()
    }
}

/// Returns true if each new limit continues an old one.
pub(in crate::upstream) fn are_all_known(old: &[Limit], new: &[Limit]) -> bool {
    old == new || match_limits(old, new).iter().all(Option::is_some)
}

/// Returns the old limit that each new one continues.
fn match_limits(old: &[Limit], new: &[Limit]) -> Vec<Option<usize>> {
    let mut free: Vec<bool> = vec![true; old.len()];
    let mut continued = vec![None; new.len()];
    for same in [equal, same_kind, same_window] {
        for (limit, matched) in new.iter().zip(&mut continued) {
            if matched.is_none() {
                let mut known = old.iter().zip(&mut free).enumerate();
                let found = known.find(|(_, (one, free))| **free && same(one, limit));
                *matched = found.map(|(index, (_, free))| {
                    *free = false;
                    index
                });
            }
        }
    }
    continued
}

/// Ranks the meters that a new limit may start from, the best first: those of its measure, then those
/// with a window that is long enough, then those of its scope, then the closest window.
fn rank(limit: &Limit, known: &Limit, scope: u8) -> (bool, bool, u8, Duration) {
    let (window, span) = (limit.rate().per(), known.rate().per());
    let foreign = limit.measure() != known.measure();
    (foreign, span < window, scope, span.abs_diff(window))
}

fn equal(one: &Limit, other: &Limit) -> bool {
    one == other
}

fn same_kind(one: &Limit, other: &Limit) -> bool {
    let kinds = (one.kind(), other.kind());
    same_window(one, other) && std::mem::discriminant(&kinds.0) == std::mem::discriminant(&kinds.1)
}

fn same_window(one: &Limit, other: &Limit) -> bool {
    one.rate().per() == other.rate().per() && one.measure() == other.measure()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sliding(rate: &str) -> Limit {
        Limit::sliding(rate.parse().expect("a rate"))
    }

    fn bucket(rate: &str) -> Limit {
        Limit::bucket(rate.parse().expect("a rate"), 5).expect("a burst")
    }

    // Reordered, one raised, one of another kind, one new: each old limit is continued once, and an equal
    // one is preferred to a similar one.
    #[test]
    fn a_limit_is_matched_by_its_window_and_kind_and_not_by_its_position() {
        let old = [sliding("10/s"), bucket("10/s"), sliding("100/min")];
        let new = [sliding("90/min"), bucket("10/s"), sliding("20/s"), sliding("5/h")];
        assert_eq!(match_limits(&old, &new), [Some(2), Some(1), Some(0), None]);
        let twice = [sliding("20/s"), sliding("10/s")];
        assert_eq!(match_limits(&old, &twice), [Some(1), Some(0)]);
    }

    // A meter of an hour covers the last minute, if it counts the same units; a meter of a second covers a
    // part of it.
    #[test]
    fn a_new_limit_starts_from_the_meter_that_covers_its_window() {
        let minute = sliding("50/min");
        let calls = |rate: &str| sliding(rate).measured_in(outflow_core::CountBy::Calls);
        let order = [
            (sliding("100/h"), 0),
            (sliding("90/d"), 0),
            (sliding("100/h"), 1),
            (sliding("10/s"), 0),
            (calls("100/h"), 0),
            (calls("10/s"), 1),
        ];
        let ranks = order.map(|(known, scope)| rank(&minute, &known, scope));
        assert!(ranks.is_sorted(), "{ranks:?}");
    }
}
