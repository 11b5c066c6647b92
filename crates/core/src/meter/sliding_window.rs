//! An exact sliding window: no window of its length counts more than the limit.
//!
//! Cheaper designs (two blended counters, or a bucket) either pass twice the limit or refuse
//! allowed requests. This one stores every entry that counts and needs no background cleaning.
//! Memory is bounded because an exact log never needs more entries than its limit.

use crate::meter::in_flight::InFlight;
use crate::meter::sliding_log::SlidingLog;
use crate::meter::{MeterStatus, Receipt, WindowStart};
use crate::time::span_nanos;
use crate::{Cost, Decision, Limit, Nanos};

/// Live state of a sliding limit.
///
/// An entry taken at *t* counts while `now < t + window`; at `now = t + window` it is gone.
#[derive(Debug, Clone)]
pub(crate) struct SlidingWindow {
    quantity: u64,
    window: u64,
    counting: WindowStart,
    log: SlidingLog,
    in_flight: InFlight,
    latest: u64,
    peak: u128,
    expired: u64,
}

impl SlidingWindow {
    /// Builds an unused window.
    pub(crate) fn new(limit: &Limit) -> Self {
        let (quantity, window, counting) = Self::rule(limit);
        Self {
            quantity,
            window,
            counting,
            log: SlidingLog::default(),
            in_flight: InFlight::default(),
            latest: 0,
            peak: 0,
            expired: 0,
        }
    }

    pub(crate) fn check(&mut self, now: Nanos, cost: Cost) -> Decision {
        self.advance(now);
        let cost = cost.units();
        if cost > self.quantity {
            return Decision::Never;
        }
        let over = (self.used() + u128::from(cost)).saturating_sub(u128::from(self.quantity));
        if over == 0 || cost == 0 {
            return Decision::Allow(());
        }
        self.returns(over)
            .map_or(Decision::Never, |at| Decision::WaitUntil(Nanos::from_nanos(at)))
    }

    /// Takes a cost that [`check`](Self::check) has just allowed, to be sent at `send_at`.
    #[inline]
    pub(crate) fn commit(&mut self, cost: Cost, send_at: Nanos) -> Receipt {
        let at = self.latest.max(send_at.as_nanos());
        match self.counting {
            _ if cost == Cost::ZERO => {}
            WindowStart::FromArrival => self.in_flight.hold(cost.units()),
            WindowStart::FromSend => self.log.add(at, cost.units(), self.quantity),
        }
        self.peak = self.peak.max(self.used());
        Receipt::new(Nanos::from_nanos(at), cost, self.counting)
    }

    pub(crate) fn charge(&mut self, now: Nanos, units: u64) {
        self.advance(now);
        let full = u64::try_from(self.log.len()).is_ok_and(|len| len >= self.quantity);
        match units {
            0 => return,
            _ if full => self.log.merge(self.latest, units),
            _ => self.log.add(self.latest, units, self.quantity),
        }
        self.peak = self.peak.max(self.used());
    }

    pub(crate) fn refund(&mut self, now: Nanos, receipt: &Receipt) -> bool {
        self.advance(now);
        let cost = receipt.cost().units();
        match receipt.counting() {
            _ if cost == 0 => false,
            WindowStart::FromArrival => {
                self.in_flight.release(cost);
                true
            }
            WindowStart::FromSend => self.log.remove(receipt.at().as_nanos(), cost),
        }
    }

    pub(crate) fn refund_at(&mut self, now: Nanos, at: Nanos, cost: Cost) -> bool {
        self.advance(now);
        let cost = cost.units();
        cost > 0 && self.log.remove_near(at.as_nanos(), REFUND_SLACK, cost)
    }

    pub(crate) fn settle(&mut self, now: Nanos, receipt: &Receipt, arrived: Nanos) {
        self.advance(now);
        let (cost, arrived) = (receipt.cost().units(), arrived.as_nanos());
        if cost == 0 || !self.lands(now, receipt) {
            return;
        }
        if arrived > self.latest {
            self.in_flight.lose(arrived, cost);
        } else {
            self.log.add(arrived, cost, self.quantity);
            self.advance(now);
        }
    }

    /// Returns true if the receipt's arrival is to be counted now. Ends its time in flight, or
    /// removes its entry at the moment of sending if the limit has changed to count arrivals since.
    fn lands(&mut self, now: Nanos, receipt: &Receipt) -> bool {
        let counted = receipt.counting() == WindowStart::FromArrival;
        (counted || self.counting == WindowStart::FromArrival) && self.refund(now, receipt)
    }

    pub(crate) fn reconfigure(&mut self, now: Nanos, limit: &Limit) {
        // Entries expired under the old window stay expired; entries that still count keep
        // counting.
        self.advance(now);
        (self.quantity, self.window, self.counting) = Self::rule(limit);
        self.advance(now);
    }

    pub(crate) const fn in_flight_mut(&mut self) -> &mut InFlight {
        &mut self.in_flight
    }

    /// Continues from the usage of another kind of meter.
    pub(crate) fn inherit(&mut self, status: &MeterStatus) {
        (self.peak, self.expired) = (status.peak, status.expired);
    }

    pub(crate) const fn latest(&self) -> u64 {
        self.latest
    }

    pub(crate) fn recovery(&mut self, now: Nanos) -> Option<Nanos> {
        self.advance(now);
        (self.used() > 0)
            .then(|| self.returns(1).map(Nanos::from_nanos))
            .flatten()
    }

    pub(crate) fn status(&mut self, now: Nanos) -> MeterStatus {
        self.advance(now);
        MeterStatus {
            at: Nanos::from_nanos(self.latest),
            capacity: self.quantity,
            used: self.used(),
            in_flight: self.in_flight.weight(),
            requests: self.log.len() + self.in_flight.requests(),
            peak: self.peak,
            oldest: self.log.oldest().map(Nanos::from_nanos),
            newest: self.log.newest().map(Nanos::from_nanos),
            window_start: Nanos::from_nanos(self.latest.saturating_sub(self.window)),
            window_end: Nanos::from_nanos(self.latest),
            expired: self.expired,
            memory: self.log.memory() + self.in_flight.memory(),
        }
    }

    /// Returns the highest usage since the last call.
    pub(crate) fn take_peak(&mut self) -> u128 {
        let used = self.used();
        core::mem::replace(&mut self.peak, used)
    }

    pub(crate) fn prune(&mut self, now: Nanos) {
        self.advance(now);
        self.log.shrink();
        self.in_flight.shrink();
    }

    fn rule(limit: &Limit) -> (u64, u64, WindowStart) {
        let counting = WindowStart::from_limit(limit);
        let margin = span_nanos(WindowStart::margin(limit));
        let window = limit.rate().per_nanos().saturating_add(margin);
        (limit.rate().quantity(), window, counting)
    }

    /// Moves the window to `now`, or to the latest time seen if the clock stepped back.
    fn advance(&mut self, now: Nanos) {
        self.latest = self.latest.max(now.as_nanos());
        while let Some((by, cost)) = self.in_flight.overdue(self.latest) {
            self.log.add(by, cost, self.quantity);
        }
        let (latest, window) = (self.latest, self.window);
        let dropped = self.log.expire(|time| latest.saturating_sub(time) >= window);
        self.expired = self.expired.saturating_add(u64::try_from(dropped).unwrap_or(u64::MAX));
    }

    fn used(&self) -> u128 {
        self.log.weight() + self.in_flight.weight()
    }

    /// Returns the time at which `weight` more will have returned, `None` if the timeline ends
    /// first. Requests in flight have yet to start their window: at the earliest now.
    fn returns(&self, weight: u128) -> Option<u64> {
        let last = self.log.time_of_weight(weight).unwrap_or_else(|| {
            let beyond = weight.saturating_sub(self.log.weight());
            self.in_flight.landed_by(beyond).unwrap_or(self.latest)
        });
        last.checked_add(self.window)
    }
}

/// Refunds by time match within a millisecond, the resolution of such callers.
const REFUND_SLACK: u64 = 1_000_000;
