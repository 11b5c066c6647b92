//! The limits of one scope, live: what is configured, what is in effect, and what counts against it.
//!
//! Three things move a limit away from its configuration, and this is where they meet: the health of
//! the API scales it, evidence lowers it, and a server's headers tell of strangers who use the same
//! key. Whoever asks sees one set of meters.

mod earliest_fit;
mod feedback;
mod hints;
mod limit_state;
mod overdraft;
mod reconfigure;

use std::time::Duration;

use outflow_core::{
    Accounting, AlertChange, ClockPair, Cost, Decision, Health, Limit, LimitChange, LimitDrift,
    Meter, MeterEvent, MeterSet, Nanos, Rate, ReceiptSet, RequestTiming, Usage,
};

pub(super) use earliest_fit::{EarliestFit, FitTime};
pub(super) use feedback::{ArrivalCount, HintResult, Refused, ThrottleEvidence};
pub(super) use overdraft::Overdraft;
pub(super) use reconfigure::{ForeignUsage, LimitTerms, NextLimits, RetiredUsage, are_all_known};

use super::fleet_share::FleetShare;
use super::report::{EffectiveLimit, LimitScope, RemainingQuota, UsageHistory};
use limit_state::LimitState;

/// The live limits of a group, or of all calls of an API.
#[derive(Debug)]
pub(super) struct ScopeLimits {
    configured: Vec<Limit>,
    meters: MeterSet,
    moving: Vec<LimitState>,
    /// The largest cost that can ever pass, where costs are counted.
    most: u64,
    /// The largest cost that fits while limits are lowered; a heavier call takes all there is.
    largest: u64,
    /// Nothing goes before this instant: the server said that nothing is left.
    parked: Nanos,
    /// Of which limit.
    parked_by: Option<Rate>,
    /// What calls in flight come to beyond what they could take.
    overhang: Overdraft,
    /// Limits that are gone, with what still counts should they come back; the latest last.
    gone: Vec<(Limit, Meter)>,
    /// Whether entries count from their sending, and so have to be stamped when that happens.
    stamped_at_send: bool,
    /// Whether entries count from their arrival.
    counts_arrivals: bool,
}

impl ScopeLimits {
    /// Limits of which nothing was used, no more of them than a set can hold.
    pub(super) fn new(configured: &[Limit], terms: LimitTerms, moment: ClockPair) -> Self {
        let moving = configured
            .iter()
            .map(|limit| LimitState::new(limit, terms, moment));
        let mut meters = MeterSet::default();
        // How many there may be was looked at when the rules were.
        let _few = meters.reconfigure(moment, configured);
        let mut limits = Self {
            configured: configured.to_vec(),
            meters,
            moving: moving.collect(),
            most: 0,
            largest: 0,
            parked: Nanos::ZERO,
            parked_by: None,
            overhang: Overdraft::default(),
            gone: Vec::new(),
            stamped_at_send: false,
            counts_arrivals: false,
        };
        limits.refresh_limits();
        limits
    }

    /// Works out what follows from the configured limits alone.
    fn refresh_limits(&mut self) {
        let counts_sending = |limit: &Limit| limit.accounting() == Accounting::Send;
        self.most = smallest_capacity(&self.configured);
        self.largest = self.most;
        self.stamped_at_send = self.configured.iter().any(counts_sending);
        self.counts_arrivals = !self.configured.iter().all(counts_sending);
        if !self.counts_arrivals {
            self.overhang = Overdraft::default();
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.configured.is_empty()
    }

    pub(super) const fn is_stamped_at_send(&self) -> bool {
        self.stamped_at_send
    }

    /// The limit that a cost can never pass, as configured.
    #[inline]
    pub(super) fn impossible(&self, cost: Cost) -> Option<Rate> {
        if cost.units() <= self.most {
            return None;
        }
        impossible(&self.configured, cost)
    }

    /// Takes from all limits or from none; `None` if there are no limits.
    #[inline]
    pub(super) fn take(&mut self, now: Nanos, cost: Cost) -> Decision<Option<ReceiptSet>> {
        if self.is_empty() {
            return Decision::Allow(None);
        }
        if now < self.parked {
            return Decision::WaitUntil(self.parked);
        }
        if (!self.overhang.is_nothing() || cost.units() > self.largest)
            && let Some(until) = self.heavy_until(now, cost)
        {
            return Decision::WaitUntil(until);
        }
        let cost = self.fitting(cost);
        let decision = self.meters.take(now, cost);
        if decision.is_allow() {
            for moving in &mut self.moving {
                moving.ledger.taken(moving.toll.units(cost));
            }
        }
        decision.map(Some)
    }

    /// When a call can go, if not now, where one costs more than a lowered limit holds: each limit
    /// must have room for all of it, or have all of its room. `Nanos::MAX` is when others have landed.
    fn heavy_until(&mut self, now: Nanos, cost: Cost) -> Option<Nanos> {
        let limits = self.meters.standings(now);
        let wanted = limits.map(|(limit, _)| {
            let toll = limit.measure().toll();
            match toll.units(cost) {
                Cost::ZERO => 0,
                all => {
                    (all.units().min(limit.capacity())).saturating_add(self.overhang.units(toll))
                }
            }
        });
        let wanted: Vec<u64> = wanted.collect();
        let waits = wanted.iter().enumerate().filter_map(|(place, units)| {
            match self.meters.check_units(now, place, *units) {
                Decision::WaitUntil(at) => Some(at),
                Decision::Never => Some(Nanos::MAX),
                Decision::Allow(()) => None,
            }
        });
        waits.max()
    }

    /// A call goes that comes to so much more than it could take: limits were lowered below it.
    pub(super) fn overhang(&mut self, now: Nanos, more: Overdraft) {
        if self.stamped_at_send {
            self.charge(now, more);
        }
        if self.counts_arrivals {
            self.overhang = self.overhang.and(more);
        }
    }

    /// It has landed, or never left.
    pub(super) fn overhang_landed(&mut self, now: Nanos, less: Overdraft, sent: ArrivalCount) {
        if less.is_nothing() || !self.counts_arrivals {
            return;
        }
        self.overhang = self.overhang.without(less);
        if sent == ArrivalCount::Counts {
            self.charge(now, less);
        }
    }

    fn charge(&mut self, now: Nanos, overhang: Overdraft) {
        for (place, moving) in self.moving.iter().enumerate() {
            self.meters.charge(now, place, overhang.units(moving.toll));
        }
    }

    /// The limits in effect, which count these calls.
    pub(super) fn ceilings(
        &mut self,
        extent: LimitScope,
        now: Nanos,
    ) -> impl Iterator<Item = EffectiveLimit> {
        let limits = self.meters.standings(now);
        limits.map(move |(limit, _)| EffectiveLimit {
            extent,
            rate: limit.rate(),
            measure: limit.measure(),
        })
    }

    /// How the fullest of them stands.
    pub(super) fn remaining(&mut self, now: Nanos) -> Option<RemainingQuota> {
        let rooms = self.meters.standings(now).map(|(limit, standing)| {
            let expiry = standing
                .oldest
                .map(|oldest| oldest.saturating_add(limit.rate().per()));
            let reset = Some(standing.window_end).filter(|end| *end > now);
            RemainingQuota {
                rate: limit.rate(),
                capacity: standing.capacity,
                left: standing.remaining(),
                more_in: reset.or(expiry).map(|at| at.since(now)),
            }
        });
        rooms.reduce(RemainingQuota::fuller)
    }

    pub(super) fn refund(&mut self, now: Nanos, grant: Option<ReceiptSet>) {
        if let Some(grant) = grant {
            self.meters.refund(now, grant);
        }
    }

    pub(super) fn settle(
        &mut self,
        now: Nanos,
        grant: Option<ReceiptSet>,
        journey: RequestTiming,
        floor: Option<Duration>,
    ) {
        if let Some(grant) = grant {
            self.meters.settle(now, grant, journey, floor);
        }
    }

    /// Puts into effect what health and evidence leave of the configured limits.
    pub(super) fn retune(&mut self, moment: ClockPair, health: Option<&Health>) {
        let scaled = |(limit, moving): (&Limit, &LimitState)| {
            let learned = moving.learned.effective();
            limit.with_rate(health.map_or(learned, |health| health.effective(learned)))
        };
        let effective: Vec<Limit> = self
            .configured
            .iter()
            .zip(&self.moving)
            .map(scaled)
            .collect();
        self.largest = smallest_capacity(&effective);
        // There are as many as before, so there cannot be too many.
        let _same_number = self.meters.reconfigure(moment, &effective);
    }

    /// The server refused or banned: the fullest limit was too high.
    pub(super) fn accused(
        &mut self,
        now: Nanos,
        charge: &ThrottleEvidence,
        part: FleetShare,
    ) -> LimitChange {
        let Some(place) = self.fullest(now) else {
            return LimitChange::Unmoved;
        };
        let Some(moving) = self.moving.get_mut(place) else {
            return LimitChange::Unmoved;
        };
        let admitted = part.at_most(moving.admitted(now));
        moving.learned.evidence(now, charge.evidence(admitted))
    }

    /// How full the fullest limit is, of a million.
    pub(super) fn fullness(&mut self, now: Nanos) -> u64 {
        self.meters
            .standings(now)
            .map(|(_, standing)| fullness(standing.used, standing.capacity))
            .max()
            .unwrap_or(0)
    }

    fn fullest(&mut self, now: Nanos) -> Option<usize> {
        let standings = self.meters.standings(now).enumerate();
        standings
            .max_by_key(|(_, (_, standing))| fullness(standing.used, standing.capacity))
            .map(|(place, _)| place)
    }

    /// The server let a call pass. Answers whether a limit grew.
    pub(super) fn passed(&mut self, now: Nanos, cost: Cost, part: FleetShare) -> bool {
        let mut grew = false;
        for moving in &mut self.moving {
            moving.passed.add(now, moving.toll.units(cost).units());
            let before = moving.learned.effective();
            let seen = part.at_most(moving.passed.surely_within(now));
            moving.learned.clean(now, seen);
            grew |= moving.learned.effective() != before;
        }
        grew
    }

    pub(super) fn poll_event(&mut self) -> Option<MeterEvent> {
        self.meters.poll_event()
    }

    pub(super) fn usage(&mut self, now: Nanos, waiting: u64) -> Vec<Usage> {
        self.meters.usage(now, waiting).collect()
    }

    /// The limits in effect.
    pub(super) fn effective(&mut self, now: Nanos) -> Vec<Limit> {
        self.meters
            .standings(now)
            .map(|(limit, _)| *limit)
            .collect()
    }

    pub(super) fn drift_of_each(&self, now: Nanos) -> Vec<Option<LimitDrift>> {
        self.moving
            .iter()
            .map(|moving| moving.learned.drift(now))
            .collect()
    }

    /// What there is to tell of how the limits differ from what is configured.
    pub(super) fn drift_news(&mut self, now: Nanos) -> impl Iterator<Item = Option<LimitDrift>> {
        let drifts = self.moving.iter_mut().map(move |moving| {
            let drift = moving.learned.drift(now);
            (moving.is_news(drift), drift)
        });
        drifts.filter_map(|(news, drift)| news.then_some(drift))
    }

    /// The slowest rate in effect.
    pub(super) fn slowest(&mut self, now: Nanos) -> Option<Rate> {
        slowest(self.meters.standings(now).map(|(limit, _)| limit.rate()))
    }

    /// Looks at how full each limit is: what its alert has to tell, with the share in use.
    pub(super) fn watch(&mut self, now: Nanos, waiting: u64) -> Vec<(AlertChange, u32)> {
        let mut told = Vec::new();
        let usages: Vec<_> = self.meters.usage(now, waiting).collect();
        for ((usage, moving), limit) in usages.iter().zip(&mut self.moving).zip(&self.configured) {
            moving.record(now, usage.weight, limit.rate().per());
            if let Some(change) = moving.alert.observe(now, usage) {
                let used = fullness(u128::from(usage.weight), usage.limit);
                told.push((change, u32::try_from(used).unwrap_or(u32::MAX)));
            }
        }
        told
    }

    pub(super) fn histories(&self) -> Vec<UsageHistory> {
        self.moving.iter().map(LimitState::history).collect()
    }

    /// What the meters keep on the heap, in bytes.
    pub(super) fn memory(&mut self, now: Nanos) -> u64 {
        let each = self.meters.standings(now);
        let bytes: usize = each.map(|(_, standing)| standing.memory).sum();
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    pub(super) fn tidy(&mut self, now: Nanos) {
        self.meters.tidy(now);
        self.forget_the_gone(now);
    }

    const fn fitting(&self, cost: Cost) -> Cost {
        if cost.units() > self.largest {
            return Cost::new(self.largest);
        }
        cost
    }
}

/// The slowest of some rates.
pub(super) fn slowest(rates: impl Iterator<Item = Rate>) -> Option<Rate> {
    rates.min_by(|one, other| one.cmp_speed(*other))
}

/// The first of these limits that a cost can never pass.
pub(super) fn impossible(limits: &[Limit], cost: Cost) -> Option<Rate> {
    let too_small = |limit: &&Limit| limit.capacity() < limit.measure().toll().units(cost).units();
    limits.iter().find(too_small).map(Limit::rate)
}

fn fullness(used: u128, capacity: u64) -> u64 {
    let parts = used.saturating_mul(1_000_000) / u128::from(capacity.max(1));
    u64::try_from(parts).unwrap_or(u64::MAX)
}

/// Of the limits that count costs: to the others every call is the same.
fn smallest_capacity(limits: &[Limit]) -> u64 {
    let by_cost = |limit: &&Limit| limit.measure().toll().counts_cost();
    let smallest = limits.iter().filter(by_cost).map(Limit::capacity).min();
    smallest.unwrap_or(u64::MAX).max(1)
}
