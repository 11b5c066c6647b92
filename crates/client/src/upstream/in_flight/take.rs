//! Receipts of an attempt: taken, stamped at its sending, settled or refunded.

use outflow_core::{HealthTicket, Nanos, RequestTiming};

use super::super::admission_check::{BlockedBy, StartGrant, StartRequest};
use super::super::limits::{ArrivalCount, Overdraft, ScopeReceipt};
use super::super::permit::AttemptResult;
use super::super::permit_pool::PermitPool;
use super::{ExcessCost, InFlightAttempt, LimitMarks, ReceiptPair, UnansweredAttempt};

/// Result of stamping receipts again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::upstream) enum StampResult {
    /// The receipts are unchanged.
    Kept,
    /// The receipts count from now.
    Renewed,
    /// The receipts expired, and the quota is used up.
    Expired,
}

impl PermitPool {
    /// Takes an attempt for a call, or returns the reason why it cannot start.
    #[inline]
    pub(in crate::upstream) fn take(&mut self, request: StartRequest, now: Nanos) -> Result<usize, BlockedBy> {
        let StartGrant { ticket, receipts } = self.check_start(request, now)?;
        let id = self.in_flight.next_permit;
        self.in_flight.next_permit += 1;
        let marks = self.mark_usage(request.group, now);
        let circuit = self.circuits.index_for(request.group);
        self.count_start(circuit, &ticket, now);
        self.emit_meter_events(request.group);
        Ok(self.in_flight.attempts.insert(InFlightAttempt {
            id,
            group: request.group,
            label: request.label,
            origin: request.group,
            circuit,
            cost: request.cost,
            receipts,
            ticket,
            granted: now,
            excess: ExcessCost::default(),
            expects_failure: false,
            marks,
        }))
    }

    #[inline]
    fn count_start(&mut self, circuit: usize, ticket: &HealthTicket, now: Nanos) {
        let circuit = self.circuits.get_mut(circuit);
        circuit.start(now, ticket);
        let wakeup = circuit.health.next_wakeup();
        self.effects.arm_timer(wakeup.unwrap_or(Nanos::MAX));
    }

    /// Returns the attempts in flight of a group, or of all, that hold units of its limits.
    pub(in crate::upstream) fn unanswered(&self, group: Option<u32>) -> Vec<UnansweredAttempt> {
        let timeout = self.settings.timeout;
        let attempts = self.in_flight.attempts.iter().map(|(_, attempt)| attempt);
        let counted = attempts.filter_map(|attempt| {
            let receipt = match group {
                Some(group) if group == attempt.group => attempt.receipts.own.as_ref()?,
                Some(_) => return None,
                None => attempt.receipts.shared.as_ref()?,
            };
            Some(UnansweredAttempt {
                sent: attempt.granted,
                until: attempt.granted.saturating_add(timeout),
                cost: receipt.cost(),
            })
        });
        counted.collect()
    }

    /// Records the usage at the start, once responses of this API had hints to compare it with.
    fn mark_usage(&mut self, group: u32, now: Nanos) -> Option<Box<LimitMarks>> {
        if !self.sends_hints {
            return None;
        }
        Some(Box::new(LimitMarks {
            own: self.own(group, now).mark_usage(now),
            shared: self.limits.shared.mark_usage(now),
        }))
    }

    /// Stamps receipts that count from the sending: when a waiter resumes, and when it sends. Stamped
    /// at the dispatch, the receipts of a late waiter would expire before it sends.
    pub(in crate::upstream) fn restamp(&mut self, attempt: usize, now: Nanos) -> StampResult {
        let Some(known) = self.in_flight.get(attempt) else {
            return StampResult::Expired;
        };
        let (group, cost) = (known.group, known.cost);
        if known.granted >= now || known.send_at() >= now {
            return StampResult::Kept;
        }
        if !self.limits.counts_sends(group) {
            return StampResult::Kept;
        }
        let ReceiptPair { own, shared } = self.restart(attempt, now);
        self.own(group, now).refund(now, own);
        self.limits.shared.refund(now, shared);
        let Ok(receipts) = self.check_limits(group, cost, now) else {
            return StampResult::Expired;
        };
        if let Some(known) = self.in_flight.get_mut(attempt) {
            known.receipts = receipts;
        }
        StampResult::Renewed
    }

    /// Counts an attempt from now in its circuit and returns its old receipts.
    fn restart(&mut self, attempt: usize, now: Nanos) -> ReceiptPair {
        let Some(known) = self.in_flight.get_mut(attempt) else {
            return ReceiptPair::default();
        };
        let from = std::mem::replace(&mut known.granted, now);
        let circuit = self.circuits.get_mut(known.circuit);
        circuit.restart(&known.ticket, from, now);
        std::mem::take(&mut known.receipts)
    }

    /// Charges an expired attempt in full: it is sent all the same, and later calls wait for that.
    pub(super) fn charge_expired(&mut self, attempt: usize, now: Nanos) {
        self.drop_excess(attempt, now);
        let Some(known) = self.in_flight.get_mut(attempt) else {
            return;
        };
        let all = Overdraft::full(known.cost);
        let excess = ExcessCost { own: all, shared: all };
        known.excess = excess;
        let group = known.group;
        self.charge_overdraft(group, excess, now);
    }

    /// Charges the cost that a call could not take: limits were lowered below its cost.
    #[inline]
    pub(in crate::upstream) fn charge_excess(&mut self, attempt: usize, now: Nanos) {
        let Some(known) = self.in_flight.get_mut(attempt) else {
            return;
        };
        let (group, cost) = (known.group, known.cost);
        let excess = |receipts: &Option<ScopeReceipt>| {
            let taken = receipts.as_ref().map_or(cost, ScopeReceipt::cost);
            Overdraft::beyond(taken, cost)
        };
        let (own, shared) = (excess(&known.receipts.own), excess(&known.receipts.shared));
        if !own.is_nothing() || !shared.is_nothing() {
            known.excess = ExcessCost { own, shared };
            self.charge_overdraft(group, ExcessCost { own, shared }, now);
        }
    }

    fn charge_overdraft(&mut self, group: u32, excess: ExcessCost, now: Nanos) {
        self.own(group, now).add_overdraft(now, excess.own);
        self.limits.shared.add_overdraft(now, excess.shared);
    }

    pub(super) fn drop_excess(&mut self, attempt: usize, now: Nanos) {
        if let Some(known) = self.in_flight.get_mut(attempt) {
            let (group, excess) = (known.group, std::mem::take(&mut known.excess));
            self.settle_excess(group, excess, ArrivalCount::Never, now);
        }
    }

    fn settle_excess(&mut self, group: u32, excess: ExcessCost, sent: ArrivalCount, now: Nanos) {
        let limits = self.own(group, now);
        limits.settle_overdraft(now, excess.own, sent);
        let shared = &mut self.limits.shared;
        shared.settle_overdraft(now, excess.shared, sent);
    }

    /// Refunds an attempt that was never sent.
    pub(in crate::upstream) fn refund(&mut self, attempt: usize, now: Nanos) {
        let Some(attempt) = self.in_flight.attempts.try_remove(attempt) else {
            return;
        };
        let limits = self.own(attempt.group, now);
        limits.refund(now, attempt.receipts.own);
        self.limits.shared.refund(now, attempt.receipts.shared);
        self.settle_excess(attempt.group, attempt.excess, ArrivalCount::Never, now);
        self.check_leases(attempt.group, now);
        let circuit = self.circuits.get_mut(attempt.circuit);
        circuit.undo_start(now, attempt.ticket, attempt.granted);
    }

    /// Settles the receipts of an ended attempt with the latest possible arrival.
    pub(super) fn settle_receipts(
        &mut self,
        attempt: &mut InFlightAttempt,
        sent: Nanos,
        result: &AttemptResult<'_>,
        now: Nanos,
    ) {
        let ReceiptPair { own, shared } = std::mem::take(&mut attempt.receipts);
        let group = attempt.group;
        if result.unsent {
            self.limits.unblock();
            self.settle_excess(group, attempt.excess, ArrivalCount::Never, now);
            self.own(group, now).refund(now, own);
            self.limits.shared.refund(now, shared);
            return self.check_leases(group, now);
        }
        self.settle_excess(group, attempt.excess, ArrivalCount::Counts, now);
        let (timeout, end) = (self.settings.timeout, result.attempt.ended());
        let (timing, min_rtt) = if result.counted {
            (RequestTiming::Answered { sent, answered: sent }, None)
        } else {
            self.in_flight.time_attempt(sent, end, timeout, now)
        };
        self.own(group, now).settle(now, own, timing, min_rtt);
        self.limits.shared.settle(now, shared, timing, min_rtt);
        self.check_leases(group, now);
    }
}
