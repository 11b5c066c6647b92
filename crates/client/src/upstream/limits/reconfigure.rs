//! Other limits for a scope that is in use.
//!
//! The law: a change never mints room. A limit that stays keeps every entry that still counts, and a
//! limit is the same if it is equal, or of the same kind and window, or at least of the same window, and
//! counts the same; each old one is continued once. A limit that is new begins with what is known: a copy of the old
//! meter of the shortest window that looks back far enough, one of the whole API if the group has none,
//! or else of the longest there is. What cannot be told apart in time counts as if it had been used
//! just now. A limit that is gone is remembered for as long as it would have counted anything: who takes
//! a change back finds what was used before it, also where nobody else had looked back as far. So whoever is let go fits every limit that is then in force, counting all that went before
//! under whatever rules, as far back as any meter looked: no window since the change holds more than
//! the new limit, and one around it no more than the largest that was in force in it.
//!
//! What was learned of a limit that stays is a speed and is kept as one.

use std::time::Duration;

use outflow_core::{
    AdaptiveMode, CarryOver, ClockPair, Limit, MAX_LIMITS, Meter, Nanos, ReceiptSet,
};

use super::limit_state::LimitState;
use super::overdraft::Overdraft;
use super::{Cost, Rate, ScopeLimits};
use crate::rules::{AlertThresholds, Rules};

/// What others counted for a scope that had no limit of its own.
#[derive(Debug, Default)]
pub(in crate::upstream) struct ForeignUsage {
    meters: Vec<(Limit, Meter)>,
    landed: Overdraft,
}

impl ForeignUsage {
    /// So much, of which nobody knows when.
    pub(in crate::upstream) const fn landed(landed: Overdraft) -> Self {
        Self {
            meters: Vec::new(),
            landed,
        }
    }

    /// Whether nobody counted anything, so that a scope without use has nothing to learn.
    pub(in crate::upstream) const fn is_nothing(&self) -> bool {
        self.meters.is_empty() && self.landed.is_nothing()
    }
}

/// What counted in a scope that is no more.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct RetiredUsage {
    landed: Overdraft,
    parked: (Nanos, Option<Rate>),
}

impl RetiredUsage {
    /// Whether nothing counted, and nobody has to wait.
    pub(in crate::upstream) fn is_nothing(&self) -> bool {
        self.landed.is_nothing() && self.parked.0 == Nanos::ZERO
    }
}

/// What of the rules a limit knows.
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

/// Under what limits a scope goes on.
#[derive(Clone, Copy)]
pub(in crate::upstream) struct NextLimits<'a> {
    pub(in crate::upstream) limits: &'a [Limit],
    pub(in crate::upstream) terms: LimitTerms,
    pub(in crate::upstream) before: LimitTerms,
    pub(in crate::upstream) moment: ClockPair,
}

impl ScopeLimits {
    /// Goes on under other limits. Whoever is in flight has its grants renewed afterwards.
    pub(in crate::upstream) fn change(&mut self, next: NextLimits<'_>, past: &ForeignUsage) {
        let heirs = heirs(&self.configured, next.limits);
        let gone = (0..self.configured.len()).filter(|place| !heirs.contains(&Some(*place)));
        let gone: Vec<_> = gone.collect();
        self.remember(&gone, next.moment.now);
        let list = next.limits.iter().zip(&heirs);
        let list: Vec<_> = list
            .map(|(limit, heir)| (*limit, self.heritage(limit, *heir, past, next.moment.now)))
            .collect();
        let had_none = self.configured.is_empty();
        // How many there may be was looked at before anything was changed.
        let _few = self.meters.succeed(next.moment, list);
        self.moving = self.moved(next, &heirs);
        self.configured = next.limits.to_vec();
        let back = |known: &Limit| next.limits.iter().any(|limit| same_window(known, limit));
        self.gone.retain(|(limit, _)| !back(limit));
        self.refresh_limits();
        if had_none {
            self.charge(next.moment.now, past.landed);
        }
    }

    /// What it counts, for a scope that has counted nothing yet.
    pub(in crate::upstream) fn past(&mut self, now: Nanos) -> ForeignUsage {
        let limits = self.configured.clone().into_iter().enumerate();
        let meters =
            limits.filter_map(|(place, limit)| Some((limit, self.meters.landed(now, place)?)));
        ForeignUsage {
            meters: meters.collect(),
            landed: Overdraft::default(),
        }
    }

    /// The most calls and the most cost that one of its limits counts, those in flight aside. Where only
    /// one of the two is counted, it stands for both.
    pub(in crate::upstream) fn landed(&mut self, now: Nanos) -> Overdraft {
        let (mut calls, mut cost) = (None, None);
        for (limit, standing) in self.meters.standings(now) {
            let landed = standing.used.saturating_sub(standing.in_flight);
            let landed = u64::try_from(landed).unwrap_or(u64::MAX);
            let most = if limit.measure().toll().counts_cost() {
                &mut cost
            } else {
                &mut calls
            };
            *most = (*most).max(Some(landed));
        }
        let (calls, cost) = (calls.or(cost), cost.or(calls));
        Overdraft::new(calls.unwrap_or(0), cost.unwrap_or(0))
    }

    /// Has no limits any more: its calls count elsewhere from now on. Answers what counted here.
    pub(in crate::upstream) fn give_up(&mut self, moment: ClockPair) -> RetiredUsage {
        let all: Vec<_> = (0..self.configured.len()).collect();
        self.remember(&all, moment.now);
        let used = RetiredUsage {
            landed: self.landed(moment.now),
            parked: (self.parked, self.parked_by),
        };
        let _none = self.meters.succeed(moment, Vec::new());
        self.moving.clear();
        self.configured.clear();
        (self.parked, self.parked_by) = (Nanos::ZERO, None);
        self.refresh_limits();
        used
    }

    /// Counts what was used elsewhere as used here, just now.
    pub(in crate::upstream) fn take_over(&mut self, now: Nanos, used: RetiredUsage) {
        self.charge(now, used.landed);
        if used.parked.0 > self.parked {
            (self.parked, self.parked_by) = used.parked;
        }
    }

    /// What a call in flight holds of the limits that there are now.
    pub(in crate::upstream) fn renew(
        &mut self,
        now: Nanos,
        grant: Option<ReceiptSet>,
        cost: Cost,
    ) -> Option<ReceiptSet> {
        if self.is_empty() {
            return None;
        }
        Some(match grant {
            Some(grant) => self.meters.renew(now, grant),
            None => self.meters.burden(now, cost),
        })
    }

    /// Keeps what the limits at these places counted, should they come back. What is in flight counts
    /// as landed now: nobody will tell a limit that is gone.
    fn remember(&mut self, places: &[usize], now: Nanos) {
        for place in places {
            let in_flight = self.meters.standings(now).nth(*place);
            let in_flight = in_flight.map_or(0, |(_, standing)| standing.in_flight);
            let limit = self.configured.get(*place).copied();
            if let (Some(limit), Some(mut meter)) = (limit, self.meters.landed(now, *place)) {
                meter.charge(now, u64::try_from(in_flight).unwrap_or(u64::MAX));
                self.gone.retain(|(known, _)| !same_window(known, &limit));
                self.gone.push((limit, meter));
            }
        }
        let many = self.gone.len().saturating_sub(MAX_LIMITS);
        self.gone.drain(..many);
    }

    /// Forgets limits of which nothing would count any more.
    pub(super) fn forget_the_gone(&mut self, now: Nanos) {
        self.gone.retain_mut(|(_, meter)| {
            meter.prune(now);
            meter.status(now).used > 0
        });
    }

    fn heritage(
        &mut self,
        limit: &Limit,
        heir: Option<usize>,
        past: &ForeignUsage,
        now: Nanos,
    ) -> CarryOver {
        if let Some(place) = heir {
            return CarryOver::Keeps(place);
        }
        let own = self.configured.iter().enumerate();
        let own = own.map(|(place, known)| (rank(limit, known, 0), place));
        let others = past.meters.iter().enumerate();
        let others = others.map(|(place, (known, _))| (rank(limit, known, 1), place));
        let gone = self.gone.iter().enumerate();
        let gone = gone.map(|(place, (known, _))| (rank(limit, known, 2), place));
        let copied = |meters: &[(Limit, Meter)], place: usize| {
            let known = meters.get(place);
            known.map(|(_, meter)| meter.clone())
        };
        let learned = match own.chain(others).chain(gone).min() {
            Some(((_, _, 0, _), place)) => self.meters.landed(now, place),
            Some(((_, _, 1, _), place)) => copied(&past.meters, place),
            Some((_, place)) => copied(&self.gone, place),
            None => None,
        };
        learned.map_or(CarryOver::Nothing, |meter| {
            CarryOver::Learns(Box::new(meter))
        })
    }

    fn moved(&mut self, next: NextLimits<'_>, heirs: &[Option<usize>]) -> Vec<LimitState> {
        let before = self.configured.iter().copied();
        let mut before: Vec<_> = before.zip(self.moving.drain(..)).map(Some).collect();
        let all = next.limits.iter().zip(heirs).map(|(limit, heir)| {
            let known = heir.and_then(|place| before.get_mut(place)?.take());
            match known {
                Some((old, moving)) => moving.under(&old, limit, next),
                None => LimitState::new(limit, next.terms, next.moment),
            }
        });
        all.collect()
    }
}

/// Whether each of the new limits is one of the old.
pub(in crate::upstream) fn are_all_known(old: &[Limit], new: &[Limit]) -> bool {
    old == new || heirs(old, new).iter().all(Option::is_some)
}

/// Which of the old limits each new one is, if any.
fn heirs(old: &[Limit], new: &[Limit]) -> Vec<Option<usize>> {
    let mut free: Vec<bool> = vec![true; old.len()];
    let mut heirs = vec![None; new.len()];
    for same in [equal, same_kind, same_window] {
        for (limit, heir) in new.iter().zip(&mut heirs) {
            if heir.is_none() {
                let mut known = old.iter().zip(&mut free).enumerate();
                let found = known.find(|(_, (one, free))| **free && same(one, limit));
                *heir = found.map(|(place, (_, free))| {
                    *free = false;
                    place
                });
            }
        }
    }
    heirs
}

/// How much a meter knows of what a limit would have counted: the lower, the more. Of the same measure
/// first, then far enough back, then of the same scope, then as near to its window as can be.
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

    // Reordered, one grown, one of another kind, one new: each old one is continued once, and an equal
    // one is preferred to a similar one.
    #[test]
    fn a_limit_is_known_by_its_window_and_kind_and_not_by_its_place() {
        let old = [sliding("10/s"), bucket("10/s"), sliding("100/min")];
        let new = [
            sliding("90/min"),
            bucket("10/s"),
            sliding("20/s"),
            sliding("5/h"),
        ];
        assert_eq!(heirs(&old, &new), [Some(2), Some(1), Some(0), None]);
        let twice = [sliding("20/s"), sliding("10/s")];
        assert_eq!(heirs(&old, &twice), [Some(1), Some(0)]);
    }

    // What looks back an hour knows of the last minute, if it counts the same; what looks back a second
    // knows a little of it.
    #[test]
    fn a_new_limit_learns_from_whoever_looks_back_far_enough() {
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
