//! A token bucket as one integer (GCRA): the time at which it would be full again.
//!
//! The arithmetic is exact (see `gcra`): `35/s` neither drifts nor rounds, and the promised instant
//! is the very first that passes. A counter with a refill timestamp would need two fields and lose
//! the remainder at every refill.

use crate::gcra::{BucketLevel, Gcra};
use crate::meter::in_flight::InFlight;
use crate::meter::refill_queue::RefillQueue;
use crate::meter::{MeterStatus, Receipt, WindowStart};
use crate::time::span_nanos;
use crate::{Cost, Decision, Limit, Nanos};

/// Live state of a bucket limit.
///
/// Counted by arrival, a token is gone while its request is in flight. It starts to refill at the
/// latest moment at which the request can have arrived.
#[derive(Debug, Clone)]
pub(crate) struct TokenBucket {
    rule: Gcra,
    counting: WindowStart,
    margin: u64,
    /// Time at which the bucket is full again, in scaled time.
    full_at: u128,
    /// Positions of receipts in the order of refilling.
    queue: RefillQueue,
    in_flight: InFlight,
    latest: u64,
    peak: u128,
}

impl TokenBucket {
    /// Builds a full bucket.
    pub(crate) fn new(limit: &Limit) -> Self {
        Self {
            rule: Gcra::from_limit(limit),
            counting: WindowStart::from_limit(limit),
            margin: span_nanos(WindowStart::margin(limit)),
            full_at: 0,
            queue: RefillQueue::default(),
            in_flight: InFlight::default(),
            latest: 0,
            peak: 0,
        }
    }

    pub(crate) fn check(&mut self, now: Nanos, cost: Cost) -> Decision {
        self.advance(now);
        let cost = cost.units();
        if cost == 0 {
            return Decision::Allow(());
        }
        if cost > self.rule.burst {
            return Decision::Never;
        }
        let wanted = u64::try_from(self.in_flight.weight() + u128::from(cost)).unwrap_or(u64::MAX);
        if let Some(over) = wanted.checked_sub(self.rule.burst).filter(|over| *over > 0) {
            // Only requests in flight block: a token of theirs is back no sooner than this.
            let landed = self.in_flight.landed_by(u128::from(over)).unwrap_or(self.latest);
            let at = landed.checked_add(self.rule.token_nanos());
            return at.map_or(Decision::Never, |at| Decision::WaitUntil(Nanos::from_nanos(at)));
        }
        match self.rule.level(self.full_at, self.latest, wanted) {
            BucketLevel::Enough { .. } => Decision::Allow(()),
            BucketLevel::WaitUntil(at) => Decision::WaitUntil(Nanos::from_nanos(at)),
            BucketLevel::Never => Decision::Never,
        }
    }

    /// Takes a cost that [`check`](Self::check) has just allowed, to be sent at `send_at`.
    pub(crate) fn commit(&mut self, cost: Cost, send_at: Nanos) -> Receipt {
        let receipt = Receipt::new(Nanos::from_nanos(self.latest), cost, self.counting);
        let receipt = receipt.marked(self.queue.end());
        match self.counting {
            _ if cost == Cost::ZERO => {}
            WindowStart::FromArrival => self.in_flight.hold(cost.units()),
            WindowStart::FromSend => self.consume(self.latest.max(send_at.as_nanos()), cost.units()),
        }
        self.peak = self.peak.max(self.used());
        receipt
    }

    pub(crate) fn charge(&mut self, now: Nanos, units: u64) {
        self.advance(now);
        self.consume(self.latest, units);
        self.peak = self.peak.max(self.used());
    }

    /// Refunds the part that has not refilled yet.
    pub(crate) fn refund(&mut self, now: Nanos, receipt: &Receipt) -> bool {
        self.advance(now);
        let cost = receipt.cost().units();
        if cost == 0 {
            return false;
        }
        if receipt.counting() == WindowStart::FromArrival {
            self.in_flight.release(cost);
            return true;
        }
        let Some(behind) = self.queue.leave(receipt) else {
            return false;
        };
        self.give_back(self.rule.unfilled(self.backlog(), behind, cost))
    }

    /// Refunds the tokens that have not refilled even if the bucket was full before they were taken;
    /// never beyond a full bucket.
    pub(crate) fn refund_at(&mut self, now: Nanos, at: Nanos, cost: Cost) -> bool {
        self.advance(now);
        let refilled = self.rule.scale(self.latest.saturating_sub(at.as_nanos()));
        let missing = self.rule.span_of(cost.units()).saturating_sub(refilled);
        self.give_back(missing.min(self.backlog()))
    }

    pub(crate) fn settle(&mut self, now: Nanos, receipt: &Receipt, arrived: Nanos) {
        self.advance(now);
        let (cost, arrived) = (receipt.cost().units(), arrived.as_nanos());
        let counted = receipt.counting() == WindowStart::FromArrival;
        let lands = counted || self.counting == WindowStart::FromArrival;
        if cost == 0 || !lands || !self.refund(now, receipt) {
            return;
        }
        if arrived > self.latest {
            self.in_flight.lose(arrived, cost);
        } else {
            self.consume(arrived, cost);
        }
    }

    /// Applies another rate and burst. Missing tokens stay missing, to the last fraction.
    pub(crate) fn reconfigure(&mut self, now: Nanos, limit: &Limit) {
        self.advance(now);
        let backlog = self.rule.rescale(self.backlog(), Gcra::from_limit(limit));
        self.rule = Gcra::from_limit(limit);
        self.counting = WindowStart::from_limit(limit);
        self.margin = span_nanos(WindowStart::margin(limit));
        self.full_at = self.rule.scale(self.latest).saturating_add(backlog);
    }

    pub(crate) const fn in_flight_mut(&mut self) -> &mut InFlight {
        &mut self.in_flight
    }

    pub(crate) fn inherit(&mut self, status: &MeterStatus) {
        self.peak = status.peak;
    }

    pub(crate) const fn latest(&self) -> u64 {
        self.latest
    }

    /// Returns the highest usage since the last call.
    pub(crate) fn take_peak(&mut self) -> u128 {
        let used = self.used();
        core::mem::replace(&mut self.peak, used)
    }

    pub(crate) fn prune(&mut self, now: Nanos) {
        self.advance(now);
        self.in_flight.shrink();
    }

    pub(crate) fn recovery(&mut self, now: Nanos) -> Option<Nanos> {
        self.advance(now);
        if self.used() == 0 {
            return None;
        }
        let token = self.rule.span_of(1);
        // One token less is missing once all others have refilled.
        let others = self.backlog().div_ceil(token).saturating_sub(1) * token;
        let refilled = self.full_at.max(self.rule.scale(self.latest)) - others;
        match u64::try_from(refilled.div_ceil(u128::from(self.rule.quantity))) {
            Ok(at) if at > self.latest => Some(Nanos::from_nanos(at)),
            _ => self.latest.checked_add(self.rule.token_nanos()).map(Nanos::from_nanos),
        }
    }

    pub(crate) fn status(&mut self, now: Nanos) -> MeterStatus {
        self.advance(now);
        MeterStatus {
            at: Nanos::from_nanos(self.latest),
            capacity: self.rule.burst,
            used: self.used(),
            in_flight: self.in_flight.weight(),
            requests: self.in_flight.requests(),
            peak: self.peak,
            oldest: None,
            newest: None,
            window_start: Nanos::from_nanos(self.latest.saturating_sub(self.rule.per)),
            window_end: Nanos::from_nanos(self.latest),
            expired: 0,
            memory: self.in_flight.memory() + self.queue.memory(),
        }
    }

    fn advance(&mut self, now: Nanos) {
        self.latest = self.latest.max(now.as_nanos());
        while let Some((by, cost)) = self.in_flight.overdue(self.latest) {
            self.consume(by, cost);
        }
    }

    fn consume(&mut self, at: u64, cost: u64) {
        if cost == 0 {
            return;
        }
        if self.backlog() == 0 {
            self.queue.forget();
        }
        self.queue.join(cost);
        let at = self.rule.scale(at.saturating_add(self.margin));
        self.full_at = self.full_at.max(at).saturating_add(self.rule.span_of(cost));
    }

    fn give_back(&mut self, scaled: u128) -> bool {
        self.full_at -= scaled;
        scaled > 0
    }

    /// Returns the missing whole tokens; a token that is refilling is missing until it is back.
    fn used(&self) -> u128 {
        self.backlog().div_ceil(u128::from(self.rule.per)) + self.in_flight.weight()
    }

    fn backlog(&self) -> u128 {
        self.full_at.saturating_sub(self.rule.scale(self.latest))
    }
}
