//! The part of a shared account that a scope holds, beside its meters.
//!
//! The meters know what this process sent since it started. The account knows what all processes with
//! the same key sent, and what was sent before a restart. A call starts when both allow it.

use std::time::Duration;

use outflow_core::{
    Cost, LeaseMark, LeaseTerms, LeaseUnits, Limit, LimitUsage, MAX_LIMITS, Nanos, QuotaLease, Rate, ReceiptSet,
    RequestTiming,
};

use super::{Overdraft, ScopeLimits};
use crate::upstream::report::SharedUsage;

/// Units that a call took from a scope.
#[derive(Debug)]
pub(in crate::upstream) struct ScopeReceipt {
    pub(super) receipts: ReceiptSet,
    /// The lease that paid, where processes share the limits.
    pub(super) lease: Option<LeaseMark>,
}

impl ScopeReceipt {
    pub(in crate::upstream) const fn send_at(&self) -> Nanos {
        self.receipts.send_at()
    }

    pub(in crate::upstream) const fn cost(&self) -> Cost {
        self.receipts.cost()
    }
}

impl ScopeLimits {
    /// Shares the limits with other processes from now on.
    pub(in crate::upstream) fn begin_lease(&mut self, terms: LeaseTerms, seed: u64) {
        let mut lease = QuotaLease::new(terms, &self.configured, seed);
        // The first answer tells what counts already.
        lease.refresh();
        self.lease = Some(Box::new(lease));
    }

    /// Shares the limits no longer.
    pub(in crate::upstream) fn end_lease(&mut self) {
        self.lease = None;
    }

    /// Returns the lease, if processes share the limits.
    pub(in crate::upstream) fn lease(&self) -> Option<&QuotaLease> {
        self.lease.as_deref()
    }

    /// Returns the lease for a change.
    pub(in crate::upstream) fn lease_mut(&mut self) -> Option<&mut QuotaLease> {
        self.lease.as_deref_mut()
    }

    /// Returns true if the lease lacks units for a call, and asks for them.
    #[inline]
    pub(super) fn lacks_lease(&mut self, now: Nanos, cost: Cost) -> bool {
        let Some(lease) = &mut self.lease else {
            return false;
        };
        let lacks = !lease.covers(now, cost);
        if lacks {
            lease.want_units(cost);
        }
        lacks
    }

    /// Asks for the units of a call that the lease lacks.
    pub(in crate::upstream) fn want_lease(&mut self, now: Nanos, cost: Cost) {
        if !self.is_empty() {
            let _has_asked = self.lacks_lease(now, cost);
        }
    }

    /// Returns true if the lease lacks units for a call, and the ledger does not answer.
    pub(in crate::upstream) fn is_cut_off(&self, now: Nanos, cost: Cost) -> bool {
        let failing = self
            .lease
            .as_ref()
            .filter(|lease| !self.is_empty() && lease.is_failing());
        failing.is_some_and(|lease| !lease.covers(now, self.fitting_cost(cost)))
    }

    /// Returns the time by which the account counts an arrival longer than the meters do: its buckets are a
    /// part of the window, and an answer takes a moment.
    pub(super) fn account_delay(&self, limit: &Limit) -> Duration {
        match self.lease {
            Some(_) => limit.rate().per() / BUCKETS_PER_WINDOW + LEDGER_DELAY,
            None => Duration::ZERO,
        }
    }

    /// Returns true until the ledger said what other processes know of the API, unless it fails.
    #[inline]
    pub(in crate::upstream) fn awaits_facts(&self) -> bool {
        let lease = self.lease.as_ref();
        lease.is_some_and(|lease| lease.is_unknown() && !lease.is_failing())
    }

    /// Returns true if units for a call may come with the next answer of the ledger.
    pub(in crate::upstream) fn awaits_ledger(&self, now: Nanos, cost: Cost) -> bool {
        let Some(lease) = &self.lease else {
            return false;
        };
        let is_missing = !self.is_empty() && !lease.covers(now, self.fitting_cost(cost));
        self.awaits_facts() || is_missing && lease.opens_at(now) <= now && !lease.is_failing()
    }

    /// Returns the instant before which the account of all processes has nothing for a call.
    pub(in crate::upstream) fn account_opens_at(&self, now: Nanos, cost: Cost) -> Option<Nanos> {
        let lease = self.lease.as_ref().filter(|_| !self.is_empty())?;
        let lacks = !lease.covers(now, self.fitting_cost(cost));
        Some(lease.opens_at(now)).filter(|at| lacks && *at > now)
    }

    /// Returns this process's use of the limit that all processes used the most of, and the use of all.
    pub(in crate::upstream) fn shared_use(&mut self, now: Nanos) -> Option<(u64, u64)> {
        let index = self.fullest_shared()?;
        self.use_of(index, now)
    }

    /// Returns the number of processes that use these limits now, this one included.
    pub(super) fn processes(&self) -> usize {
        self.lease.as_ref().map_or(1, |lease| lease.peers() + 1)
    }

    /// Returns the usage of a limit by all processes.
    pub(super) fn shared_usage(&self, index: usize) -> Option<SharedUsage> {
        let limit = self.configured.get(index)?;
        let lease = self.lease.as_ref()?;
        let used = lease.usage().iter().find(|used| is_same(used, limit))?;
        let (free, in_flight) = lease.held();
        let held = free.plus(in_flight);
        let counts_cost = limit.measure().unit_cost().counts_cost();
        Some(SharedUsage {
            arrived: used.arrived,
            held: used.held,
            held_here: if counts_cost { held.cost } else { held.calls },
            processes: self.processes(),
        })
    }

    fn use_of(&mut self, index: usize, now: Nanos) -> Option<(u64, u64)> {
        let limit = self.configured.get(index)?;
        let lease = self.lease.as_ref()?;
        let used = lease.usage().iter().find(|used| is_same(used, limit))?;
        let (unspent, _) = lease.held();
        let unspent = if limit.measure().unit_cost().counts_cost() {
            unspent.cost
        } else {
            unspent.calls
        };
        let all = used.arrived.saturating_add(used.held).saturating_sub(unspent);
        let (_, status) = self.meters.statuses(now).nth(index)?;
        Some((u64::try_from(status.used).unwrap_or(u64::MAX), all))
    }

    /// Removes the calls of other processes with this account from usage that a server reported: they are
    /// no strangers. What they sent since the last renewal is not known yet.
    pub(super) fn without_peers(&mut self, index: usize, foreign: u64, now: Nanos) -> u64 {
        let Some((ours, all)) = self.use_of(index, now) else {
            return foreign;
        };
        let peers = all.saturating_sub(ours);
        let is_alone = peers == 0 && self.lease.as_ref().is_none_or(|lease| lease.peers() == 0);
        if is_alone {
            return foreign;
        }
        let capacity = self.configured.get(index).map_or(0, Limit::capacity);
        foreign.saturating_sub(peers.saturating_add(capacity / UNREPORTED_PART + 1))
    }

    /// Counts calls of strangers for all processes.
    pub(super) fn charge_strangers(&mut self, now: Nanos, index: usize, units: u64) {
        self.meters.charge(now, index, units);
        let counts_cost = |limit: &Limit| limit.measure().unit_cost().counts_cost();
        let units = if self.configured.get(index).is_some_and(counts_cost) {
            LeaseUnits::new(0, units)
        } else {
            LeaseUnits::new(units, 0)
        };
        if let Some(lease) = &mut self.lease {
            lease.overdraw(now, units);
        }
    }

    /// Returns the configured limit of which all processes together have used the most.
    pub(super) fn fullest_shared(&self) -> Option<usize> {
        let usage = self.lease.as_ref()?.usage();
        let fullness = |limit: &Limit| {
            let used = usage.iter().find(|used| is_same(used, limit))?;
            Some(used.arrived.saturating_add(used.held).saturating_mul(1_000) / used.rate.quantity().max(1))
        };
        let limits = self.configured.iter().enumerate();
        limits.max_by_key(|(_, limit)| fullness(limit)).map(|(index, _)| index)
    }

    /// Returns the instant at which a permit paid by this lease must not be sent any more.
    pub(in crate::upstream) fn lease_deadline(&self, receipt: Option<&ScopeReceipt>) -> Nanos {
        match (&self.lease, receipt.and_then(|receipt| receipt.lease)) {
            (Some(lease), Some(mark)) => lease.deadline(mark),
            _ => Nanos::MAX,
        }
    }

    pub(super) fn refund_lease(&mut self, mark: Option<LeaseMark>, cost: Cost) {
        if let (Some(lease), Some(mark)) = (&mut self.lease, mark) {
            lease.refund(mark, cost);
        }
    }

    /// Reports the latest possible arrival of a call in each limit.
    pub(super) fn arrive_lease(
        &mut self,
        now: Nanos,
        (mark, cost): (Option<LeaseMark>, Cost),
        timing: RequestTiming,
        min_rtt: Option<Duration>,
    ) {
        let (Some(lease), Some(mark)) = (&mut self.lease, mark) else {
            return;
        };
        let mut at = [now; MAX_LIMITS];
        for (at, limit) in at.iter_mut().zip(&self.configured) {
            *at = timing.counts_from(limit, min_rtt);
        }
        lease.arrive(now, mark, cost, at);
    }

    /// Reports units that no receipt covers.
    pub(super) fn overdraw_lease(&mut self, now: Nanos, overdraft: Overdraft) {
        if let Some(lease) = &mut self.lease {
            let (calls, cost) = overdraft.parts();
            lease.overdraw(now, LeaseUnits::new(calls, cost));
        }
    }

    /// Gives the lease the limits that evidence leaves of the configured ones. Health is this process's own
    /// judgement, and lowers no shared limit.
    pub(super) fn update_lease(&mut self) {
        let limits = self.configured.iter().zip(&self.states);
        let adapted: Vec<Limit> = limits
            .map(|(limit, state)| limit.with_rate(lowered_in_window(limit.rate(), state.adaptive.effective())))
            .collect();
        if let Some(lease) = &mut self.lease {
            lease.set_limits(&adapted);
        }
    }
}

/// An account counts arrivals in buckets of this part of the window.
const BUCKETS_PER_WINDOW: u32 = 256;
/// A report and a grant pass through the ledger's queue.
const LEDGER_DELAY: Duration = Duration::from_millis(5);

fn is_same(used: &LimitUsage, limit: &Limit) -> bool {
    used.measure == limit.measure() && used.rate.per() == limit.rate().per()
}

/// Part of a limit that other processes may send between two of this process's renewals.
const UNREPORTED_PART: u64 = 8;

/// Returns a lowered rate in whole units of the configured window: an account knows a limit by its window.
fn lowered_in_window(configured: Rate, lowered: Rate) -> Rate {
    let rate = configured.at_most(lowered);
    if rate.per() == configured.per() {
        return rate;
    }
    // Less than one unit per window: the meter of this process spaces them.
    Rate::new(1, configured.per()).unwrap_or(configured)
}
