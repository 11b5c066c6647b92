//! The live limits of one scope: configured rates, rates in effect, and usage.
//!
//! Health scales a limit, evidence lowers it, and response headers report usage by other clients of the
//! same key. Callers see one set of meters.

mod earliest_fit;
mod feedback;
mod hints;
mod learned;
mod lease;
mod limit_reports;
mod limit_state;
mod overdraft;
mod reconfigure;
mod scopes;

use std::time::Duration;

use outflow_core::{
    Accounting, AlertChange, ClockPair, Cost, Decision, Health, Limit, LimitChange, Meter, MeterEvent, MeterSet, Nanos,
    PassedUnits, QuotaLease, Rate, RequestTiming,
};

pub(super) use earliest_fit::{EarliestFit, FitPace, FitTime};
pub(super) use feedback::{ArrivalCount, HintResult, ThrottleEvidence};
pub(super) use lease::ScopeReceipt;
pub(super) use overdraft::Overdraft;
pub(super) use reconfigure::{ForeignUsage, LimitTerms, NextLimits, RetiredUsage, are_all_known};
pub(super) use scopes::{FreedBy, LimitScopes};

use super::fleet_share::FleetShare;
use super::in_flight::SentAttempt;
use super::report::{EffectiveLimit, LimitScope, RemainingQuota};
use limit_state::LimitState;

/// The live limits of a group, or the shared limits of an API.
#[derive(Debug)]
pub(super) struct ScopeLimits {
    configured: Vec<Limit>,
    meters: MeterSet,
    states: Vec<LimitState>,
    /// The largest cost that can ever pass, where costs are counted.
    max_cost: u64,
    /// The largest cost that fits while limits are lowered; a heavier call takes the full capacity.
    max_fitting: u64,
    cooldown: ScopeWait,
    /// Cost of calls in flight beyond their receipts.
    overdraft: Overdraft,
    /// Dropped limits with their meters, in case they return; the latest last.
    dropped: Vec<(Limit, Meter)>,
    /// True if entries count from their sending and have to be stamped then.
    counts_sends: bool,
    /// True if entries count from their arrival.
    counts_arrivals: bool,
    /// This process's part of the limits, where several share them.
    pub(super) lease: Option<Box<QuotaLease>>,
}

/// Wait because the API said that a limit has nothing left.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScopeWait {
    pub(super) until: Nanos,
    pub(super) limit: Option<Rate>,
}

impl ScopeWait {
    const NONE: Self = Self {
        until: Nanos::ZERO,
        limit: None,
    };
}

impl ScopeLimits {
    /// Creates limits without usage, no more of them than a set can hold.
    pub(super) fn new(configured: &[Limit], terms: LimitTerms, moment: ClockPair) -> Self {
        let states = configured.iter().map(|limit| LimitState::new(limit, terms, moment));
        let mut meters = MeterSet::default();
        // The check of the rules bounds their number.
        let _few = meters.reconfigure(moment, configured);
        let mut limits = Self {
            configured: configured.to_vec(),
            meters,
            states: states.collect(),
            max_cost: 0,
            max_fitting: 0,
            cooldown: ScopeWait::NONE,
            overdraft: Overdraft::default(),
            dropped: Vec::new(),
            counts_sends: false,
            counts_arrivals: false,
            lease: None,
        };
        limits.refresh_limits();
        limits
    }

    /// Derives the fields that depend on the configured limits alone.
    fn refresh_limits(&mut self) {
        let counts_sends = |limit: &Limit| limit.accounting() == Accounting::Send;
        self.max_cost = smallest_capacity(&self.configured);
        self.max_fitting = self.max_cost;
        self.counts_sends = self.configured.iter().any(counts_sends);
        self.counts_arrivals = !self.configured.iter().all(counts_sends);
        if !self.counts_arrivals {
            self.overdraft = Overdraft::default();
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.configured.is_empty()
    }

    pub(super) const fn counts_sends(&self) -> bool {
        self.counts_sends
    }

    /// Returns the configured limit that is smaller than a cost.
    #[inline]
    pub(super) fn find_too_small(&self, cost: Cost) -> Option<Rate> {
        if cost.units() <= self.max_cost {
            return None;
        }
        find_too_small(&self.configured, cost)
    }

    /// Debits all limits or none; without limits there are no receipts.
    #[inline]
    pub(super) fn take(&mut self, now: Nanos, cost: Cost) -> Decision<Option<ScopeReceipt>> {
        if self.is_empty() {
            return Decision::Allow(None);
        }
        if let Some(until) = self.find_block(now, cost) {
            return Decision::WaitUntil(until);
        }
        let cost = self.fitting_cost(cost);
        if self.lease.is_some() && self.meters.check(now, cost).is_allow() && self.lacks_lease(now, cost) {
            // The answer of the ledger dispatches the waiters.
            return Decision::WaitUntil(Nanos::MAX);
        }
        let decision = self.meters.take(now, cost);
        if decision.is_allow() {
            for state in &mut self.states {
                state.ledger.taken(state.unit_cost.units(cost));
            }
        }
        let lease = &mut self.lease;
        decision.map(|receipts| {
            let lease = lease.as_mut().and_then(|lease| lease.spend(now, cost));
            Some(ScopeReceipt { receipts, lease })
        })
    }

    /// Decides when units fit one configured limit, if it is one of these.
    pub(super) fn check_limit(&mut self, limit: &Limit, units: u64, now: Nanos) -> Option<Decision> {
        let index = self.configured.iter().position(|known| known == limit)?;
        Some(self.meters.check_units(now, index, units))
    }

    /// Checks as [`take`](Self::take) decides, and takes nothing. Returns the time to send: later than now where a
    /// limit is paced.
    pub(super) fn check_start(&mut self, now: Nanos, cost: Cost) -> Decision<Nanos> {
        if self.is_empty() {
            return Decision::Allow(now);
        }
        if let Some(until) = self.find_block(now, cost) {
            return Decision::WaitUntil(until);
        }
        let cost = self.fitting_cost(cost);
        match (self.meters.check_start(now, cost), self.account_opens_at(now, cost)) {
            (Decision::Allow(_), Some(at)) => Decision::WaitUntil(at),
            (decision, _) => decision,
        }
    }

    /// Returns the end of a wait that the meters do not know: a cooldown, or calls heavier than a lowered limit.
    #[inline]
    fn find_block(&mut self, now: Nanos, cost: Cost) -> Option<Nanos> {
        if now < self.cooldown.until {
            return Some(self.cooldown.until);
        }
        if self.overdraft.is_nothing() && cost.units() <= self.max_fitting {
            return None;
        }
        self.find_heavy_start(now, cost)
    }

    /// Returns when a call can start, if not now, while one costs more than a lowered limit holds. Each
    /// limit needs quota for the full cost, or its full capacity. `Nanos::MAX` waits for arrivals.
    fn find_heavy_start(&mut self, now: Nanos, cost: Cost) -> Option<Nanos> {
        let limits = self.meters.statuses(now);
        let wanted = limits.map(|(limit, _)| {
            let unit_cost = limit.measure().unit_cost();
            match unit_cost.units(cost) {
                Cost::ZERO => 0,
                all => (all.units().min(limit.capacity())).saturating_add(self.overdraft.units(unit_cost)),
            }
        });
        let wanted: Vec<u64> = wanted.collect();
        let waits =
            wanted
                .iter()
                .enumerate()
                .filter_map(|(index, units)| match self.meters.check_units(now, index, *units) {
                    Decision::WaitUntil(at) => Some(at),
                    Decision::Never => Some(Nanos::MAX),
                    Decision::Allow(()) => None,
                });
        waits.max()
    }

    /// Adds the cost of a call beyond its receipts: limits were lowered below its cost.
    pub(super) fn add_overdraft(&mut self, now: Nanos, more: Overdraft) {
        if self.counts_sends {
            self.charge(now, more);
            self.overdraw_lease(now, more);
        }
        if self.counts_arrivals {
            self.overdraft = self.overdraft.and(more);
        }
    }

    /// Removes the overdraft of a call that arrived or was never sent.
    pub(super) fn settle_overdraft(&mut self, now: Nanos, less: Overdraft, sent: ArrivalCount) {
        if less.is_nothing() || !self.counts_arrivals {
            return;
        }
        self.overdraft = self.overdraft.without(less);
        if sent == ArrivalCount::Counts {
            self.charge(now, less);
            self.overdraw_lease(now, less);
        }
    }

    fn charge(&mut self, now: Nanos, overdraft: Overdraft) {
        for (index, state) in self.states.iter().enumerate() {
            let units = overdraft.units(state.unit_cost);
            self.meters.charge(now, index, units);
        }
    }

    /// Returns the limits in effect with their scope.
    pub(super) fn effective_limits(&mut self, scope: LimitScope, now: Nanos) -> impl Iterator<Item = EffectiveLimit> {
        let limits = self.meters.statuses(now);
        limits.map(move |(limit, _)| EffectiveLimit {
            scope,
            rate: limit.rate(),
            measure: limit.measure(),
        })
    }

    /// Returns the quota of the fullest limit.
    pub(super) fn remaining(&mut self, now: Nanos) -> Option<RemainingQuota> {
        let quotas = self.meters.statuses(now).map(|(limit, status)| {
            let expiry = status.oldest.map(|oldest| oldest.saturating_add(limit.rate().per()));
            let reset = Some(status.window_end).filter(|end| *end > now);
            RemainingQuota {
                rate: limit.rate(),
                capacity: status.capacity,
                left: status.remaining(),
                more_in: reset.or(expiry).map(|at| at.since(now)),
            }
        });
        quotas.reduce(RemainingQuota::fuller)
    }

    pub(super) fn refund(&mut self, now: Nanos, receipt: Option<ScopeReceipt>) {
        if let Some(receipt) = receipt {
            self.refund_lease(receipt.lease, receipt.cost());
            self.meters.refund(now, receipt.receipts);
        }
    }

    pub(super) fn settle(
        &mut self,
        now: Nanos,
        receipt: Option<ScopeReceipt>,
        timing: RequestTiming,
        min_rtt: Option<Duration>,
    ) {
        if let Some(receipt) = receipt {
            self.arrive_lease(now, (receipt.lease, receipt.cost()), timing, min_rtt);
            self.meters.settle(now, receipt.receipts, timing, min_rtt);
        }
    }

    /// Puts the rates into effect that health and evidence leave of the configured limits.
    pub(super) fn retune(&mut self, moment: ClockPair, health: Option<&Health>) {
        let scaled = |(limit, state): (&Limit, &LimitState)| {
            let adapted = state.adaptive.effective();
            let effective = health.map(|health| health.effective_adapted(limit.rate(), adapted));
            limit.with_rate(effective.unwrap_or(adapted))
        };
        let limits = self.configured.iter().zip(&self.states);
        let effective: Vec<Limit> = limits.map(scaled).collect();
        self.max_fitting = smallest_capacity(&effective);
        // The number of limits is unchanged and therefore valid.
        let _same_number = self.meters.reconfigure(moment, &effective);
        self.update_lease();
    }

    /// Lowers the fullest limit after the API throttled or banned.
    pub(super) fn record_throttle(
        &mut self,
        now: Nanos,
        evidence: &ThrottleEvidence,
        share: FleetShare,
    ) -> LimitChange {
        let Some((index, used)) = self.fullest(now) else {
            return LimitChange::Unmoved;
        };
        let Some(state) = self.states.get_mut(index) else {
            return LimitChange::Unmoved;
        };
        let admitted = share.scale_up(state.throughput.within(now));
        let used = share.scale_up(u64::try_from(used).unwrap_or(u64::MAX));
        state.adaptive.evidence(now, evidence.evidence(admitted, used))
    }

    /// Returns the usage of the fullest limit in parts per million.
    pub(super) fn fullness(&mut self, now: Nanos) -> u64 {
        self.meters
            .statuses(now)
            .map(|(_, status)| fullness(status.used, status.capacity))
            .max()
            .unwrap_or(0)
    }

    /// Returns the fullest limit and its used units.
    fn fullest(&mut self, now: Nanos) -> Option<(usize, u128)> {
        let limits = self.meters.statuses(now).enumerate();
        limits
            .max_by_key(|(_, (_, status))| fullness(status.used, status.capacity))
            .map(|(index, (_, status))| (index, status.used))
    }

    /// Records a call that the API let pass. Returns true if a limit grew.
    pub(super) fn record_success(&mut self, now: Nanos, sent: SentAttempt, share: FleetShare) -> bool {
        let mut grew = false;
        for state in &mut self.states {
            let units = state.unit_cost.units(sent.cost).units();
            state.throughput.add(now, units);
            let before = state.adaptive.effective();
            let passed = PassedUnits {
                sent: sent.at,
                surely: share.scale_up(state.throughput.surely_within(now)),
                possibly: share.scale_up(state.throughput.within(now)),
            };
            state.adaptive.clean(now, passed);
            grew |= state.adaptive.effective() != before;
        }
        grew
    }

    /// Returns the next event of a meter with the configured rate of its limit.
    pub(super) fn poll_event(&mut self) -> Option<(Rate, MeterEvent)> {
        let event = self.meters.poll_event()?;
        let limit = self.configured.get(event.limit())?;
        Some((limit.rate(), event))
    }

    /// Returns the slowest rate in effect.
    pub(super) fn slowest_rate(&mut self, now: Nanos) -> Option<Rate> {
        slowest_rate(self.meters.statuses(now).map(|(limit, _)| limit.rate()))
    }

    /// Records the usage of each limit and returns changed alerts, with the usage in parts per million.
    pub(super) fn check_alerts(&mut self, now: Nanos, waiting: u64) -> Vec<(AlertChange, u32)> {
        let mut changes = Vec::new();
        let usages: Vec<_> = self.meters.usage(now, waiting).collect();
        for ((peak, state), limit) in self.meters.take_peaks().zip(&mut self.states).zip(&self.configured) {
            state.record_peak(now, peak, limit.rate().per());
        }
        for (usage, state) in usages.iter().zip(&mut self.states) {
            if let Some(change) = state.alert.observe(now, usage) {
                let used = fullness(u128::from(usage.weight), usage.limit);
                changes.push((change, u32::try_from(used).unwrap_or(u32::MAX)));
            }
        }
        changes
    }

    /// Returns the heap memory of the meters in bytes.
    pub(super) fn memory(&mut self, now: Nanos) -> u64 {
        let limits = self.meters.statuses(now);
        let bytes: usize = limits.map(|(_, status)| status.memory).sum();
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    pub(super) fn prune(&mut self, now: Nanos) {
        self.meters.prune(now);
        self.prune_dropped(now);
    }

    const fn fitting_cost(&self, cost: Cost) -> Cost {
        if cost.units() > self.max_fitting {
            return Cost::new(self.max_fitting);
        }
        cost
    }
}

/// Returns the slowest of some rates.
pub(super) fn slowest_rate(rates: impl Iterator<Item = Rate>) -> Option<Rate> {
    rates.min_by(|one, other| one.cmp_speed(*other))
}

/// Returns the first of these limits that is smaller than a cost.
pub(super) fn find_too_small(limits: &[Limit], cost: Cost) -> Option<Rate> {
    let too_small = |limit: &&Limit| limit.capacity() < limit.measure().unit_cost().units(cost).units();
    limits.iter().find(too_small).map(Limit::rate)
}

fn fullness(used: u128, capacity: u64) -> u64 {
    let parts = used.saturating_mul(1_000_000) / u128::from(capacity.max(1));
    u64::try_from(parts).unwrap_or(u64::MAX)
}

/// Returns the smallest capacity of the limits that count costs.
fn smallest_capacity(limits: &[Limit]) -> u64 {
    let by_cost = |limit: &&Limit| limit.measure().unit_cost().counts_cost();
    let smallest = limits.iter().filter(by_cost).map(Limit::capacity).min();
    smallest.unwrap_or(u64::MAX).max(1)
}
