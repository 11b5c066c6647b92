//! Several limits at once, all or nothing.
//!
//! `10/s` **and** `100/min` **and** `1000/h`: a request passes if every limit has quota, and then
//! takes from all of them; if one refuses, none changes. Taking from one limit after the other
//! would lose units when a later one refuses.
//!
//! Limits may count different quantities of a request: its cost or the request itself. The set
//! computes the units for each, because meters know plain numbers only.

mod reconfigure;

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

pub use reconfigure::CarryOver;

use crate::meter_events::{MeterEvent, MeterEventQueue};
use crate::receipt_set::{MAX_LIMITS, ReceiptSet};
use crate::{
    Accounting, ClockPair, Cost, Decision, Limit, Meter, MeterStatus, Nanos, Pacing, Receipt, RequestTiming, UnitCost,
    Usage,
};

/// Meters of all limits that one request has to pass.
///
/// ```
/// use outflow_core::{Cost, Decision, Limit, MeterSet, ClockPair, Nanos};
///
/// let limits = [Limit::sliding("2/s".parse()?), Limit::sliding("3/min".parse()?)];
/// let mut set = MeterSet::new(&limits, ClockPair::default())?;
/// assert!(set.take(Nanos::ZERO, Cost::new(2)).is_allow());
/// assert!(matches!(set.take(Nanos::ZERO, Cost::ONE), Decision::WaitUntil(_)));
/// assert_eq!(set.take(Nanos::ZERO, Cost::new(3)), Decision::Never, "the first can never pass it");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct MeterSet {
    slots: Vec<MeterSlot>,
    /// Latest time seen. All meters share it, so that one time identifies a receipt set.
    latest: Nanos,
    /// Number of slots ever made: a slot's number is never reused.
    made: u32,
    admitted: u64,
    refused: u64,
}

#[derive(Debug, Clone)]
struct MeterSlot {
    number: u32,
    limit: Limit,
    unit_cost: UnitCost,
    meter: Meter,
    watch: MeterEventQueue,
    /// Highest usage of windows that were recorded.
    highest: u128,
    /// Start of the last paced request.
    last_start: Nanos,
}

impl MeterSet {
    /// Builds unused meters for these limits, which are identified by their index from then on. An
    /// empty list lets every request pass.
    ///
    /// # Errors
    /// If there are more than [`MAX_LIMITS`].
    pub fn new(limits: &[Limit], moment: ClockPair) -> Result<Self, TooManyLimits> {
        if limits.len() > MAX_LIMITS {
            return Err(TooManyLimits);
        }
        let mut set = Self {
            slots: Vec::new(),
            latest: moment.now,
            made: 0,
            admitted: 0,
            refused: 0,
        };
        set.extend(limits, moment);
        Ok(set)
    }

    /// Checks if a request of this cost passes all limits now; takes nothing. The wait is the
    /// longest of theirs.
    pub fn check(&mut self, now: Nanos, cost: Cost) -> Decision {
        let now = self.see(now);
        let all = self
            .slots
            .iter_mut()
            .map(|slot| slot.meter.check(now, slot.unit_cost.units(cost)));
        all.fold(Decision::Allow(()), |sum, one| sum.and(one).map(drop))
    }

    /// Checks as [`check`](Self::check), and returns the time to send: later than now where a limit is paced.
    pub fn check_start(&mut self, now: Nanos, cost: Cost) -> Decision<Nanos> {
        let now = self.see(now);
        self.check(now, cost).map(|()| {
            let starts = self.slots.iter_mut().map(|slot| slot.paced_start(now, cost).1);
            starts.fold(now, Nanos::max)
        })
    }

    /// Takes a request of this cost from all limits, or from none.
    pub fn take(&mut self, now: Nanos, cost: Cost) -> Decision<ReceiptSet> {
        let decision = self.check(now, cost);
        match decision {
            Decision::Allow(()) => self.admitted = self.admitted.saturating_add(1),
            Decision::WaitUntil(_) | Decision::Never => {
                self.refused = self.refused.saturating_add(1);
            }
        }
        decision.map(|()| self.commit(now, cost))
    }

    /// Returns each limit's own decision, in order: the explanation of a wait.
    pub fn explain(&mut self, now: Nanos, cost: Cost) -> impl Iterator<Item = Decision> {
        let now = self.see(now);
        self.slots
            .iter_mut()
            .map(move |slot| slot.meter.check(now, slot.unit_cost.units(cost)))
    }

    /// Checks if units fit the limit at `place` now, in its own unit; an unknown place fits
    /// anything. Takes nothing.
    pub fn check_units(&mut self, now: Nanos, place: usize, units: u64) -> Decision {
        let now = self.see(now);
        match self.slots.get_mut(place) {
            Some(slot) => slot.meter.check(now, Cost::new(units)),
            None => Decision::Allow(()),
        }
    }

    /// Refunds a receipt set to all limits, for a request that provably never left.
    pub fn refund(&mut self, now: Nanos, receipts: ReceiptSet) {
        let now = self.see(now);
        for (slot, receipt) in self.slots.iter_mut().zip(receipts.receipts()) {
            if let Some(receipt) = receipt.apply(slot.number, slot.unit_cost) {
                slot.meter.give_back(now, &receipt);
            }
        }
    }

    /// Settles the request with all limits. `floor` is the path's lowest round trip, if known.
    pub fn settle(&mut self, now: Nanos, receipts: ReceiptSet, timing: RequestTiming, floor: Option<Duration>) {
        let now = self.see(now);
        for (place, (slot, receipt)) in self.slots.iter_mut().zip(receipts.receipts()).enumerate() {
            if let Some(receipt) = receipt.apply(slot.number, slot.unit_cost) {
                let arrived = timing.arrived_by(slot.limit.accounting(), floor);
                slot.meter.land(now, &receipt, arrived);
                slot.observe(place, now);
            }
        }
    }

    /// Returns a copy in which requests in flight get no response and can arrive until these instants.
    #[must_use]
    pub fn with_lost(&self, now: Nanos, in_flight: impl IntoIterator<Item = (Cost, Nanos)>) -> Self {
        let mut copy = self.clone();
        let _brought_to_now = copy.see(now);
        for (cost, until) in in_flight {
            let arrivals = |slot: &&mut MeterSlot| slot.limit.accounting() != Accounting::Send;
            for slot in copy.slots.iter_mut().filter(arrivals) {
                slot.meter.lose(slot.unit_cost.units(cost), until);
            }
        }
        copy
    }

    /// Counts units that another program used of the limit at `place`; an unknown place is ignored.
    pub fn charge(&mut self, now: Nanos, place: usize, units: u64) {
        let now = self.see(now);
        if let Some(slot) = self.slots.get_mut(place) {
            slot.observe(place, now);
            slot.meter.charge(now, units);
            slot.observe(place, now);
        }
    }

    /// Applies other limits and keeps the usage of those at equal places. Outstanding receipts stay
    /// valid. Additional limits start unused, and so do limits with another unit: a number of calls
    /// is no number of tokens.
    ///
    /// # Errors
    /// If there are more than [`MAX_LIMITS`]; nothing changes then.
    pub fn reconfigure(&mut self, moment: ClockPair, limits: &[Limit]) -> Result<(), TooManyLimits> {
        if limits.len() > MAX_LIMITS {
            return Err(TooManyLimits);
        }
        let now = self.see(moment.now);
        self.slots.truncate(limits.len());
        for (place, (slot, limit)) in self.slots.iter_mut().zip(limits).enumerate() {
            if slot.limit.measure() == limit.measure() {
                slot.adopt(limit, moment);
            } else {
                *slot = MeterSlot::new(next_number(&mut self.made), limit, moment);
            }
            slot.observe(place, now);
        }
        let known = self.slots.len();
        self.extend(limits.get(known..).unwrap_or_default(), moment);
        Ok(())
    }

    /// Places wall-aligned windows again after the civil clock was set.
    pub fn realign(&mut self, moment: ClockPair) {
        self.see(moment.now);
        for slot in &mut self.slots {
            slot.meter.realign(moment);
        }
    }

    /// Returns the limits in force, each with its status.
    pub fn statuses(&mut self, now: Nanos) -> impl Iterator<Item = (&Limit, MeterStatus)> {
        let now = self.see(now);
        self.slots
            .iter_mut()
            .map(move |slot| (&slot.limit, slot.meter.status(now)))
    }

    /// Returns the usage of each limit for people and metrics, in order. Only the caller knows the
    /// number of waiters.
    pub fn usage(&mut self, now: Nanos, waiting: u64) -> impl Iterator<Item = Usage> {
        let (now, counts) = (self.see(now), self.counts());
        self.slots.iter_mut().map(move |slot| Usage {
            waiting,
            admitted: counts.admitted,
            refused: counts.refused,
            ..slot.usage(now)
        })
    }

    /// Returns the highest usage of each limit since the last call, in order.
    pub fn take_peaks(&mut self) -> impl Iterator<Item = u64> {
        self.slots.iter_mut().map(|slot| {
            let peak = slot.meter.take_peak();
            slot.highest = slot.highest.max(peak);
            u64::try_from(peak).unwrap_or(u64::MAX)
        })
    }

    /// Returns the number of allowed and refused requests so far.
    pub const fn counts(&self) -> DecisionCounts {
        DecisionCounts {
            admitted: self.admitted,
            refused: self.refused,
        }
    }

    /// Returns the next event that was not polled yet.
    pub fn poll_event(&mut self) -> Option<MeterEvent> {
        self.slots.iter_mut().find_map(|slot| slot.watch.poll())
    }

    /// Releases unused memory. No decision depends on it.
    pub fn prune(&mut self, now: Nanos) {
        let now = self.see(now);
        for slot in &mut self.slots {
            slot.meter.prune(now);
        }
    }

    /// Returns the time to decide at: `now`, or the latest seen if the clock stepped back.
    fn see(&mut self, now: Nanos) -> Nanos {
        self.latest = self.latest.max(now);
        self.latest
    }

    fn commit(&mut self, now: Nanos, cost: Cost) -> ReceiptSet {
        let now = self.see(now);
        let mut receipts = ReceiptSet::new(now, cost);
        for (place, slot) in self.slots.iter_mut().enumerate() {
            slot.observe(place, now);
            receipts.postpone(slot.pause(place, now, cost));
        }
        for (place, slot) in self.slots.iter_mut().enumerate() {
            let receipt = slot.meter.commit(slot.unit_cost.units(cost), receipts.send_at());
            receipts.hold(place, slot.number, &receipt);
            slot.observe(place, now);
        }
        receipts
    }

    /// Reserves exactly one slot per limit: each is half a kilobyte, and most sets have one.
    fn extend(&mut self, limits: &[Limit], moment: ClockPair) {
        self.slots.reserve_exact(limits.len());
        for limit in limits {
            let number = next_number(&mut self.made);
            self.slots.push(MeterSlot::new(number, limit, moment));
        }
    }
}

/// Returns a number that no slot has had.
fn next_number(made: &mut u32) -> u32 {
    *made = made.wrapping_add(1).max(1);
    *made
}

impl MeterSlot {
    fn new(number: u32, limit: &Limit, moment: ClockPair) -> Self {
        Self {
            number,
            limit: *limit,
            unit_cost: limit.measure().unit_cost(),
            meter: Meter::new(limit, moment),
            watch: MeterEventQueue::default(),
            highest: 0,
            last_start: Nanos::ZERO,
        }
    }

    /// Watches the remaining quota, where the limit asks for it. Observing before and after a take
    /// sees a recovery that happened between requests.
    fn observe(&mut self, place: usize, now: Nanos) {
        if self.limit.warn_below().is_some() {
            self.watch.observe(place, &self.limit, self.meter.status(now));
        }
    }

    fn pause(&mut self, place: usize, now: Nanos, cost: Cost) -> Duration {
        if self.limit.pacing() == Pacing::Off {
            return Duration::ZERO;
        }
        let (asked, start) = self.paced_start(now, cost);
        self.watch.warn_capped(place, &self.limit, now, asked);
        self.last_start = start;
        start.since(now)
    }

    /// Returns the pause that an even spread asks for, and the start with the pause that the limit grants. Each
    /// start reserves its pace, so that requests of one instant leave one after the other.
    fn paced_start(&mut self, now: Nanos, cost: Cost) -> (Duration, Nanos) {
        let Pacing::Soft { max_delay } = self.limit.pacing() else {
            return (Duration::ZERO, now);
        };
        let previous = self.last_start.max(now);
        let asked = self.meter.even_pause(now, previous, self.unit_cost.units(cost));
        (asked, previous.saturating_add(asked.min(max_delay)))
    }

    fn usage(&mut self, now: Nanos) -> Usage {
        let status = self.meter.status(now);
        let whole = |number: u128| u64::try_from(number).unwrap_or(u64::MAX);
        let predicted_delay = match self.meter.check(now, Cost::ONE) {
            Decision::Allow(()) => Some(Duration::ZERO),
            Decision::WaitUntil(at) => Some(at.since(now)),
            Decision::Never => None,
        };
        Usage {
            count: u64::try_from(status.requests).unwrap_or(u64::MAX),
            weight: whole(status.used),
            limit: status.capacity,
            peak: whole(self.highest.max(status.peak)),
            oldest: status.oldest,
            newest: status.newest,
            window_start: status.window_start,
            window_end: status.window_end,
            memory_bytes: u64::try_from(status.memory).unwrap_or(u64::MAX),
            expired: status.expired,
            predicted_delay,
            ..Usage::default()
        }
    }

    /// Takes the cost of a call in flight, with or without remaining quota.
    fn burden(&mut self, now: Nanos, receipts: &ReceiptSet) -> Receipt {
        // The check moves the meter to this instant; its decision does not matter here.
        let cost = self.unit_cost.units(receipts.cost());
        let _decision = self.meter.check(now, cost);
        self.meter.commit(cost, receipts.send_at())
    }

    fn adopt(&mut self, limit: &Limit, moment: ClockPair) {
        if self.limit != *limit {
            self.meter.reconfigure(moment, limit);
            self.limit = *limit;
        }
    }
}

/// Number of requests that a set has decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DecisionCounts {
    /// Allowed requests.
    pub admitted: u64,
    /// Refused requests, to wait or for good.
    pub refused: u64,
}

/// More limits in one set than [`MAX_LIMITS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyLimits;

impl fmt::Display for TooManyLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a group can have {MAX_LIMITS} limits at most: merge or remove some")
    }
}

impl core::error::Error for TooManyLimits {}
