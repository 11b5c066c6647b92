//! One process that holds units of an account.

use alloc::vec::Vec;
use core::time::Duration;

use crate::account::counted_limit::LimitRule;
use crate::account::{CallArrivals, LeaseRenewal, LeaseUnits, QuotaWant};
use crate::time::span_nanos;
use crate::{Limit, MAX_LIMITS};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) id: u64,
    /// Number of the last renewal, with its answer.
    pub(super) number: u64,
    /// Number of its join among all of the account.
    pub(super) joined: u64,
    pub(super) granted: LeaseUnits,
    pub(super) wait: Option<Duration>,
    /// Units that are unsent or in flight.
    pub(super) held: LeaseUnits,
    /// End of the lease: the holder sends nothing from here on.
    pub(super) deadline: u64,
    pub(super) timeout: u64,
    /// Rest of the last want, and the time at which the holder was asked to come for it.
    pub(super) wanted: QuotaWant,
    pub(super) due: u64,
    /// Place in the fair order.
    pub(super) tag: u64,
    pub(super) rules: Vec<LimitRule>,
}

impl Holder {
    pub(super) const fn new(id: u64, joined: u64, tag: u64) -> Self {
        Self {
            id,
            number: 0,
            joined,
            granted: LeaseUnits::ZERO,
            wait: None,
            held: LeaseUnits::ZERO,
            deadline: 0,
            timeout: 0,
            wanted: QuotaWant {
                units: LeaseUnits::ZERO,
                first: 0,
            },
            due: 0,
            tag,
            rules: Vec::new(),
        }
    }

    /// Takes over number, term and limits of a renewal.
    pub(super) fn begin(&mut self, renewal: &LeaseRenewal<'_>, now: u64) {
        self.number = renewal.number;
        // While this renewal is unanswered the holder keeps to its earlier term.
        self.deadline = self.deadline.max(now.saturating_add(span_nanos(renewal.ttl)));
        // A call sent under an earlier, longer timeout can still be in flight.
        let timeout = span_nanos(renewal.timeout);
        self.timeout = if self.held == LeaseUnits::ZERO {
            timeout
        } else {
            timeout.max(self.timeout)
        };
        self.wanted = renewal.wanted.normalized();
        self.rules.clear();
        self.rules.extend(rules_of(renewal.limits));
    }

    /// Returns the last instant at which a call of this holder can arrive.
    pub(super) const fn last_arrival(&self) -> u64 {
        self.deadline.saturating_add(self.timeout)
    }

    pub(super) fn is_gone(&self, now: u64) -> bool {
        let holds = self.held != LeaseUnits::ZERO;
        now >= if holds { self.last_arrival() } else { self.deadline }
    }

    pub(super) fn is_active(&self) -> bool {
        self.held != LeaseUnits::ZERO || !self.wanted.is_none()
    }

    /// Returns the age of an arrival for the limit with this rule. For a limit of other holders
    /// alone it is the youngest of all ages.
    pub(super) fn age_of(&self, arrivals: &CallArrivals, rule: &LimitRule) -> u64 {
        let ages = || self.rules.iter().zip(&arrivals.ages);
        let own = ages().filter(|(own, _)| own.key == rule.key).map(|(_, age)| *age).min();
        span_nanos(own.or_else(|| ages().map(|(_, age)| *age).min()).unwrap_or_default())
    }
}

fn rules_of(limits: &[Limit]) -> impl Iterator<Item = LimitRule> + '_ {
    limits.iter().take(MAX_LIMITS).map(LimitRule::from_limit)
}
